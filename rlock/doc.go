// Package rlock is the plain lock: the counterpart of Redisson's RLock, and with options of its spin lock and its non-reentrant
// lock. All of them exclude each other on one name.
//
// # What is guaranteed
//
// At most one owner holds the lock; that owner may enter it several times, and leaves it with as many releases. In one process waiters
// get it in the order of their calls. Between processes the order is left to chance: who is woken first asks first. In one
// process the lock may pass from holder to waiter directly, at most config.Config.HandOffLimit times in a row and within
// config.Config.HandOffWindow, so that other processes are not kept waiting.
//
// # Data in Redis
//
// The raw name is a hash with one field, the owner, whose value is the hold count; its TTL is the lease. Messages go to
// redisson_lock__channel:{name}: "0" when the lock becomes free (wire-protocol.md §1, §3). Redisson's kinds fenced and
// fair use the same hash: give each name to one kind. Those keep each other out; a read/write lock or a grouped multi-lock under the name
// is redlatch.ErrWrongType at once, unless config.Config.SkipKindCheck is set. Redisson does not look: a Java reader can enter beside
// the holder of a plain lock, who is then told redlatch.ErrLost at the next renewal.
//
// # Lease
//
// An entry sets the lease anew, also to a shorter one, and a release that leaves the lock held arms the lease of the last entry again, as
// Redisson does. A lease shorter than what the owner's other holds were promised shortens theirs: ValidUntil tells. Where the
// watchdog renews one of them it renews in time for the shorter lease too.
//
// # Failure handling
//
// As described in package redlatch. A key that holds something else than a hash is redlatch.ErrWrongType at once. A name whose keys would lie in
// different slots of a cluster works on a single server only; config.SlotSafe tells which those are.
package rlock
