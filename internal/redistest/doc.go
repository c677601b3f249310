// Package redistest gives tests a Redis to run on, and the means to watch it and to break the way to it.
//
// Start runs a real redis-server for one test. What a test does with it:
//
//   - ask and tell: Endpoint.Do, Client, Dial
//   - stop, continue, kill and restart the process: Server.Stop, Cont, Kill, Restart
//   - count what it was asked: Server.CommandStats, Server.Monitor
//   - collect what was published: Endpoint.Record
//   - compare what it holds: Endpoint.Snapshot
//   - put a faulty line before it: NewRelay, which understands commands and can lose the reply of one of them; NewProxy,
//     which is built on toxiproxy and shapes the traffic of all connections
//
// Three more run servers that belong together, all of them real processes:
//
//   - StartCluster: a Redis Cluster, by default of 3 masters with a replica each. Cluster.FailOver, AwaitHeir and
//     MoveSlot change it; BeginMove, MoveKeys and EndMove are the stages of a move, for a look at ASK and TRYAGAIN.
//     WithProxies puts a Proxy before every node: Node.SetLatency, Cut and Restore.
//   - StartSentinel: a master, its replicas (by default 2) and three sentinels. Sentinel.FailOver and AwaitHeir.
//   - StartReplicated: a master and its replicas, with nobody who watches them. Replicated.Promote.
//
// Their servers are Nodes: all that a Server can do, and Freeze, Thaw, Kill and Restart in a test's words. WaitOK of each
// returns when the servers themselves say that all is well among those that live. LaunchCluster, LaunchSentinel and
// LaunchReplicated do without a test, so that a package can share one among its tests.
//
// NewMini runs a miniredis whose keys expire, for tests that need many servers or a clock that they can move. What is asked
// over the wire is the same for both: Endpoint.
//
// # What is guaranteed
//
//   - A server that cannot be had is a failed test with the reason and the remedy, never a skipped one.
//   - Everything ends with the test that made it: processes are reaped, goroutines joined, ports closed.
//   - Looking leaves no trace in what is looked at: Do, Snapshot and CommandStats open a connection of their own and
//     close it, so that CLIENT LIST shows the code under test alone.
//   - Each fault is in force when the call that orders it returns, for open connections too.
//   - Servers that belong together are ready when they are returned: every node of a cluster agrees with the others,
//     every sentinel knows all servers, every replica has copied its master.
//
// # What is not
//
// A topology takes what its servers take: a cluster is ready after two seconds, the time that a new master waits by itself; a
// frozen or killed server is replaced after the node timeout or the down-after and one to three seconds more. On a machine
// that is so loaded that a server does not run for as long as that, they fail over unasked. Sentinels before 7.0 look at
// servers every 10 s alone and see replicas follow, or a dead server come back, 20 s late; after they were frozen they do
// nothing for 30 s.
//
// # Choosing the server
//
// REDLATCH_TEST_SERVERS is "process" (the default) or "container"; REDLATCH_REDIS_VERSION and REDLATCH_REDIS_SERVER choose
// the release or the program, see redisproc.Binary. What needs the process itself, such as SIGSTOP or a topology, fails
// in a container and says so.
package redistest
