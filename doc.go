// Package redlatch shares locks between Go and the Java services that use Redisson: same keys, same fields, same messages, so that
// either side waits for, is woken by, and keeps out the other.
//
// # Overview
//
// A [Client] stands for this process at one Redis: one server, a cluster, a master that sentinels watch over, a master with slaves, or
// replicated servers, as package config describes them or reads them from a redisson.yaml. The packages of the lock kinds make locks on it (rlock is the plain
// one), and a lock gives a [Hold] for each acquisition:
//
//	client, err := redlatch.Open(ctx, config.Config{Servers: config.Single("redis://127.0.0.1:6379")})
//	…
//	lock := rlock.New(client, "order:1001")
//	err = redlatch.Do(ctx, lock, func(ctx context.Context) error {
//		return ship(ctx) // ctx ends the moment the lock can no longer be trusted
//	})
//
// # What is guaranteed
//
// While Hold.Err is nil and Hold.Context goes on, no other owner has the lock, on these conditions: Redis has not lost the key (a
// crash without persistence, a failover before replication, an operator's DEL), and clocks run at the same speed within
// config.Config.DriftMargin. Nobody else's lock is ever released or renewed. A call that fails leaves no lock behind.
//
// # What is not
//
// A lock in Redis excludes; it can't stop a holder that was paused. Between the end of the trust and the moment when paused code looks
// at its context again, somebody else may have begun. Work that must be safe even then checks a fencing token where the data
// lives.
//
// An Unlock whose answer was lost, in a restart of the server say, and that then finds the owner gone, can't tell its own effect from a
// loss before it, and returns nil.
//
// The plain lock passes in no order between processes; within one process it passes in the order of the calls. A failover can lose
// a lock that the promoted replica had not got, also if another one had acknowledged it, and repeat a fencing token; docs/guarantees.md says what each
// setting of config.Config.CheckLockSyncedSlaves is good for.
//
// # Data in Redis
//
// The lock's name, after the name mapper, is a hash: field "<client id>:<thread id>", value hold count, with the lease as the key's
// TTL (docs/wire-protocol.md §1, §3). Messages tell waiters to look again; they carry no truth.
//
// # Owners
//
// Redisson's owner is a client and a Java thread. Go has no thread ids, so here the owner travels in the context: every Lock makes a
// fresh owner unless its ctx carries one. Hold.Context carries the hold's owner, so that code called with it enters the
// lock again; WithOwner shares an owner on purpose, WithThreadID fixes its number, WithoutOwner opts out. Two unrelated
// goroutines can never enter each other's locks by accident.
//
// # Lease and watchdog
//
// Without WithLease the lease is config.Config.LockWatchdogTimeout, and is renewed a third of it after the last confirmed renewal, for all
// holds of a client by one goroutine. A hold is trusted until
//
//	ValidUntil = time before the request was sent + lease − drift margin
//
// on the monotonic clock; a slow answer never lengthens it. When that passes without a renewal the hold is lost, whatever Redis says
// later. (On Linux that clock stands still while the whole machine is suspended, and so does trust.)
//
// # Failure handling
//
// A request that fails for a cause which may pass (no connection, a server that loads or fails over) is made again with
// back-off, within config.Config.RetryAttempts, or, where masters can change and where a server refuses to write, for the time that as many timeouts and delays take; then
// the call returns what the server said, in an [Error]. A request whose answer
// was lost is settled: one script bars it from taking effect later and reads whether it did, so that it is adopted or undone, at
// once or in the background. The caller's context is looked at between requests: a call returns one command timeout after its end
// at the latest, and where replicas are waited for twice config.Config.SlavesSyncTimeout more.
package redlatch
