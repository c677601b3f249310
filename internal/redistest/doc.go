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
//
// # Choosing the server
//
// REDLATCH_TEST_SERVERS is "process" (the default) or "container"; REDLATCH_REDIS_VERSION and REDLATCH_REDIS_SERVER choose
// the release or the program, see redisproc.Binary. What needs the process itself, such as SIGSTOP, fails in a
// container and says so.
package redistest
