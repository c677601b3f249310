// Package fencedlock is the fenced lock: the counterpart of Redisson's RFencedLock. It is the plain lock, and each acquisition has a
// number greater than all before it, the fencing token, by which the resource can tell who came too late.
//
// # Overview
//
// A lock in Redis can't stop a holder that was paused. Its lease ends, the next one takes the lock and writes, and then the first
// one goes on and writes too. The resource itself must refuse it, and the token is what it refuses it by:
//
//	lock := fencedlock.New(client, "order:1001")
//	hold, err := lock.Lock(ctx)
//	…
//	err = orders.Update(hold.Context(), db, 1001, hold.Token(), sqlgate.Values{"state": "shipped"})
//
// where orders is a gate of package gate/sqlgate. Where Redisson has methods of their own (lockAndGetToken, tryLockAndGetToken), each
// call here gives a hold with a token, with a lease, a wait or neither. TryLock on a lock that is held answers at once; Redisson's
// tryLockAndGetToken without a wait does not.
//
// # What is guaranteed
//
// What package rlock guarantees. And as long as Redis keeps the counter: of two acquisitions, by whatever client in Go or Java, the
// later one has the greater token. That includes re-entries, locks handed over within a process, those that expired or were freed by force, and requests
// whose answer was lost. Such a request can have drawn a token that no hold has, so tokens can leave numbers out; no two
// acquisitions have the same. Without a token there is no lock: when the counter can't be counted up, nothing is taken.
//
// # What is not
//
// A token protects nothing by itself: the resource has to look at it. An extension and a renewal keep the token that the hold has.
//
// The counter is one key in Redis, and tokens are as safe as that. A master that is lost before a replica had its last
// acquisition gives the same token once more, to another holder: a gate then admits both. So use a fenced lock with
// config.Config.CheckLockSyncedSlaves as it is by default or stricter, and with persistence on a single server. After a loss of all data, or when
// somebody deletes the counter (as delete() of Redisson's lock does, which is no way to unlock), tokens begin at 1 again, and gates that
// know greater ones refuse them until they have grown beyond. That is no accident of the gate: it can't tell such a holder from a
// late one. Reset the gates together with the counter.
//
// # Data in Redis
//
// The raw name is a hash as in package rlock, with the same channel. redisson_lock_token:{name} is the counter: a string, whose
// value is the token of the last acquisition (wire-protocol.md §7). It has no TTL and stays when the lock is released, for ever: it must
// not expire while an older token is about. Token and Inspect read it. When a name is used no more, and no holder of
// it can be late any more, ForgetToken deletes it; nothing else here does.
//
// Redisson's plain lock uses the same hash and leaves the counter alone: a holder by a plain lock has no token. Give each
// name to one kind; what is found of others is as in package rlock.
//
// # Lease
//
// As in package rlock. A hold that is lost keeps its token; that is when it is needed.
//
// # How to fence the resource
//
//  1. The resource remembers the greatest token that it has seen, and refuses a write with a smaller one, in the same step in which it
//     writes. Package gate does so in memory, gate/sqlgate for rows of a database, gate/redisgate for keys in Redis.
//  2. One lock's tokens for one resource: tokens of different locks can't be compared.
//  3. All writers go through the gate, those in Java too: the statement of sqlgate is one line of SQL, UPDATE … SET fence = ? … WHERE id = ? AND
//     fence <= ?.
//  4. Draw the token once, at the outermost acquisition, and hand it down to what writes. A re-entry draws one of its own, as in
//     Redisson; once it has been used, the resource refuses the outer hold's token, which is smaller.
//  5. Never use Token for a write: it says what the newest token is, not that it is yours. A late writer would get past
//     the gate by it.
//
// # Failure handling
//
// As described in package redlatch. A holder that a gate refuses (gate.ErrStale) has lost its lock, whatever its hold says: it gives up the
// work, undoes what it can, and releases.
package fencedlock
