// Package fairlock is the fair lock: the counterpart of Redisson's. Owners get it in the order in which they came, across all
// processes and both languages.
//
// # What is guaranteed
//
// At most one owner holds the lock; that owner may enter it several times. Waiters stand in one queue in Redis, and the one
// whose turn it is gets the lock. A waiter that gives up, because its wait is over, its context has ended, or its client closes,
// leaves the queue before its call returns; where the server can't be reached, as soon as it can.
//
// # What is not
//
// A waiter that dies stands in the queue until its time of death, W after its turn could have come: the wait of its call, or
// config.Config.FairLockWaitTimeout without one. Who stands behind it waits for as long, or up to the fallback poll longer: an
// acquisition moves the times of death forward, which a waiter that sleeps until the one it was told does not see. Waits of different
// length on one lock make each other's times of death earlier than meant, in Redisson too (wire-protocol.md §14): a live
// waiter that was dropped so comes back to the end of the queue when it next asks, at the fallback poll at the latest. The price of
// order is speed: each acquisition walks the whole queue, and nothing is handed over within a process. A TryLock without a wait
// does not stand in the queue, and is refused while somebody else does.
//
// # Data in Redis
//
// The raw name is a hash as in package rlock. redisson_lock_queue:{name} is the list of waiting owners, redisson_lock_timeout:{name} the
// sorted set of their times of death, in milliseconds of the server's clock. Each waiter listens on a channel of its own,
// redisson_lock__channel:{name}:<owner>, where the release says "0" to the one whose turn it is (wire-protocol.md §5).
//
// # Lease
//
// As in package rlock.
//
// # Failure handling
//
// As described in package redlatch, and for a lock of another kind in package rlock. A waiter behind a head that may be dead asks again
// when the head is to be dropped, and while the lock is free after a second at the latest. Queue and times of death have no TTL; after a crash of everybody they stay, and the first that comes later clears them
// as their times pass.
package fairlock
