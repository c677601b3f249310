// Command cluster measures what many held locks go through on a Redis Cluster, and those that are waited for through a failover, with Redlatch and with
// Redisson one after the other. `make bench-cluster` runs it; docs/bench-cluster.md has its figures and says what they mean.
//
//   - frozen: locks without a lease on three masters, one of which is stopped by SIGSTOP. Which locks on the other two are lost, how close they come to
//     it, and how many holders on the frozen one are told.
//   - failover: locks that are held and waited for when their master is killed, on a cluster and below sentinels. How soon after there is a new
//     master the waiters have them.
//   - 2ms, 10ms: many locks without a lease, each round trip taking so much longer. How many are lost, how long it takes to renew all of
//     them once, what one costs in memory.
//
// It ends with status 1 when Redlatch misses what it promises: a lock lost on a healthy node or under latency (or its holder told so), a TTL below half the
// watchdog timeout on a healthy node, a holder on the frozen node who was not told, a waiter without its lock 2 s after there is a
// new master, a round of more than 2 s at 2 ms.
package main
