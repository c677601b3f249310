// Package topology knows where the masters are, and takes each request to the one that serves its lock.
//
// # Layout
//
// A layout says which node serves a slot: one master for all, or, on a cluster, one for each of 16384 slots. It is a value that is
// replaced and never changed, so a request reads it without a lock. What the layout says is a guess that the servers correct: a request
// follows MOVED and ASK by itself, and tells the follower that the layout is out of date.
//
// The follower is one goroutine that asks the servers: every scan interval, and again and again for a while after a request
// met trouble. A cluster's nodes are asked with CLUSTER NODES, and of two that claim a slot the one with the higher configuration epoch
// has it, which is the cluster's own rule. Sentinels are asked for the master's address, and what most of them say counts once that
// server itself says that it is a master, or is the one that is known already. The servers of a replicated mode are asked for their roles.
// A single server and a master/slave pair have fixed addresses; the follower asks nobody there, and connects anew when the server
// refuses to write, since another one may stand behind the name by then. The name is looked up again now and then: when it leads to
// another server, that one takes the place of the first, see watchName.
//
// # Node
//
// A node is one server, with connections of its own: one for requests, one for messages (two where
// they come both ways), one for what replicas must acknowledge. A node
// that is slow or dead keeps nobody waiting but those who ask for its own slots.
//
// # Replication
//
// What replicas must acknowledge goes over a connection that carries nothing else but the question for their number. A master that has none, or
// that refuses to wait for them, is asked on the shared one. Whatever stands in the queue when the connection is
// free goes out in one pipeline with one WAIT at its end (group commit), since WAIT covers all that was written before it.
//
// That WAIT also tells of what was written before by others, over any connection: so whoever has released a lock need not wait, and is told when the master
// dies before replicas have the release ([Node.Outlast]). When no grant comes along, a write of no use stands in for it.
//
// # Trouble
//
// Every request has its own bound, and none is sent a second time here unless the server said that it ran nothing: MOVED, ASK, TRYAGAIN,
// NOSCRIPT. All else is for the engine to settle.
package topology
