// Package multilock takes several locks as one: the counterpart of Redisson's multi-lock and RedLock. The members can be locks of any
// kind, of different clients and servers, sides of read/write locks, and multi-locks themselves.
//
// # Overview
//
// New makes a lock that is held when all of its members are. It is for work on several things at a time that are locked one by
// one, such as two accounts.
//
// NewRed makes a lock that is held when more than half of its members are, n/2+1 of n. It is for one lock that outlives the loss of
// a server: the members are locks of one name on servers that know nothing of each other, usually three or five.
//
// Both are Lockers, and their holds are used like those of any other lock. Of the queries there is the one that Redisson has, IsHeldBy; for
// the others ask the members. One owner acts in all members, in each as an owner of its
// client: code that gets the hold's context enters every member again, and the whole.
//
// # What is guaranteed
//
//   - While a hold is live all of its members are held, of a red one more than half. Two owners are never both told that they hold
//     the same lock, as far as the members keep their own word.
//   - A call that fails leaves no member held: what was taken is given back before it returns, and where a server does not answer, in
//     the background. The same goes for a call whose context ends.
//   - Two callers that list the same members in different orders both come through.
//   - Unlock tries every member, whatever becomes of the others.
//   - The hold is lost as soon as a member is; of a red one, as soon as no majority is left. The cause says which member and why.
//     ValidUntil is the time up to which enough members can be trusted.
//
// # What is not
//
// Order: who gets the members is left to chance among those who wait for them, also within a process, and also if they are fair
// locks: the place in a member's queue lasts no longer than a round.
//
// Speed, where callers cross: those that list the same members in different orders come through, but each such meeting can cost a
// round. Let everybody list them in one order.
//
// Members one by one: somebody who takes a single member's lock is kept out by New, and keeps it out. By NewRed he is not kept
// out for sure: it can be held without that member.
//
// The limits of the Redlock algorithm are those of NewRed. It counts on clocks that run at about the same speed (config.Config.DriftMargin
// is for the difference) and on members that remember what they granted: a server that restarts without its data
// within a lease can be the one vote too many. Let such a server stay away for the longest lease before it comes back, or have it write to
// disk each time. A holder that stands still for longer than its lease (a paused machine, a long garbage collection) does not
// notice in time whatever the lock is; where a late write does harm, let the data refuse it by a fencing token, which a
// multi-lock does not have. One good server with replicas and a fenced lock often serves better.
//
// A single TryLock of NewRed can fail for all of several callers that come at the same moment, each of which gets some members. With
// a wait limit, or Lock, one of them comes through.
//
// # Data in Redis
//
// None of its own (wire-protocol.md §10): members are taken, renewed and released as they are by themselves, so Java takes part with a
// getMultiLock or a RedissonRedLock over the same names, or with single locks.
//
// # Taking all members
//
// They are tried in the order given. With TryLock each is asked once. Otherwise the first is waited for as long as the call may wait, for
// that keeps nobody out. From then on a round runs of 1.5 s for each member, a fifth more or less, and no longer than the wait
// limit: each further member is waited for as long as the round lasts. When it is over without all of them, those held are
// given back, and after a pause of 50 to 200 ms the next round begins. So of two callers of which each holds what the other one
// waits for, one steps back.
//
// # Taking a majority
//
// All members are asked once at the same time, so that a dead server costs one command timeout, not more (config.Config.Timeout of its
// client: make it short), and one that refuses connections nothing. If that does not make a majority and the call may wait,
// it gives back what it has and waits for the first member that can be had at all, at most for a round; callers so
// stand in line there, and don't split the members among them. Then it waits for the others at the same time, for each
// up to its equal share of the round. As soon as there is a majority those still missing are asked once more. Members
// that are somebody else's or broken beyond that are done without.
//
// # Lease
//
// With a lease, and time to wait, members are first taken with a lease of twice the round (3 s at least), so that
// none ends before the last is there; then each lease is set to the one asked for, from that moment on. An inner acquisition that re-enters
// members sets their leases likewise, also to shorter ones, as re-entries do: ValidUntil of the outer hold tells. With
// TryLock and no wait limit members are taken with the lease asked for at once.
//
// Without a lease each member is renewed by the watchdog of its own client.
//
// The validity of a hold is Redlock's, lease − time spent − drift, reckoned for each member from before its own request was sent. When none is
// left at the end of the acquisition, because members took longer than the lease lasts, the acquisition fails and is undone.
//
// # Failure handling
//
// What a member says ends the call when it is no contention: its client has tried again within its own bounds by then. A failure that only
// the end of a round cut short is seen as passing up to four rounds in a row. For NewRed all this holds for the failures of more
// members than it can do without.
//
// Unlock and Extend of a red hold succeed when they do for enough members: no more may fail than the majority can spare. Those that
// are slow once a majority has answered get no further try; what is not released so is released in the background.
//
// After a loss the members that are left stay held, and renewed, until Unlock, which says ErrLost then.
//
// A multi-lock has no events of its own: an observer sees those of the members. Shutting a client down waits for its
// members of the hold; closing it loses them.
package multilock
