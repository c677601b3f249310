// Package rwlock is the read/write lock: the counterpart of Redisson's RReadWriteLock. Many owners read at a time, or one writes.
//
// # What is guaranteed
//
// While an owner holds the write side nobody else holds either. Each side can be entered several times by its owner. A writer may take the
// read side too, and keep it when it releases the write side: readers then come in and writers do not (a downgrade).
//
// # What is not
//
// A reader can't become a writer: asking for the write side while holding only the read side is redlatch.ErrReentry at once, since
// waiting would be for ever. Writers have no precedence: readers that come one after the other can keep them out. Waiting writers of one
// process stand in line; between processes, and between readers and writers, there is no order.
//
// # Data in Redis
//
// The raw name is a hash: mode is "read" or "write"; each reader has a field "<owner>", the writer "<owner>:write", with the hold
// count. Each read hold has a key of its own, {name}:<owner>:rwlock_timeout:<i>, whose TTL is its lease. Messages go to
// redisson_rwlock:{name}: "0" when the last reader leaves, "1" when a writer does (wire-protocol.md §6). When a writer leaves to its own
// read holds Redisson tells nobody; here "1" is published, so that other readers come in without waiting for the TTL.
//
// # Lease
//
// The hash lives as long as the longest read hold. A read release shortens it to the longest that is left, in Redisson too, so that a
// write hold with a long fixed lease is shortened by releasing a read hold within it: hold one of them by the watchdog. Entering the
// write side again adds the new lease to what is left. Each reader's watchdog renews its own holds only, so that a reader that crashed
// ends; its field goes when the next reader leaves, or with the key.
//
// # Failure handling
//
// As described in package redlatch. A plain, fair or fenced lock, or a grouped multi-lock, under the name is redlatch.ErrWrongType at once, unless
// config.Config.SkipKindCheck is set: then a reader or writer enters beside its holder, as in Redisson.
package rwlock
