// Package demo lets several processes-in-miniature contend for one lock, shows who holds it and who waits, and judges at the
// end whether the lock did its work.
//
// # How a broken lock would show
//
// What the lock protects is a counter in Redis that each worker reads, keeps for a while, and writes back plus one: two workers
// inside at once lose an update, so that the counter ends below the number of sections. Beside it stands a gauge that is
// incremented on entry and decremented on leaving: whoever reads more than 1 there has company. Of a read/write lock two thirds of the sections
// only read: they may be inside together, and have a gauge of their own; a writer that finds a reader in there, and a reader that finds a writer, or
// a counter that changes while it is read, have company. And the times at which
// workers were inside are compared at the end: no span may begin before another has ended. A holder that crashed counts as inside until
// its lease can no longer be trusted, so that a lock which is given away too early shows as well.
//
// # What is like in production, and what is not
//
// Each worker has a client of its own, with its own connections and id, so to Redis and to the other workers it is another
// process; nothing is handed over in memory. A crash is the client's Close: its connections go and its key stays, as when a
// process is killed. The embedded server is miniredis, which shares this program's processors with the workers, so its times
// say little about a real one. The leases are shorter than anybody would choose, so that their end can be watched.
package demo
