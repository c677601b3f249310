// Package locktest is the contract of a lock, written once over redlatch.Locker and run over every kind and every topology.
//
// A Wiring says how a lock is made and what is particular about it; Run gives each promise of the contract a topology of its own and puts
// the lock to the test there. What a kind does not promise is left out by its Traits, and not skipped; what a topology adds to the cost of
// a lock is told by its fields.
//
// A single server is started for each promise. Topologies of several servers take seconds to start, so a few of each are started in
// a test binary and lent to one promise at a time; they must be deaf when they come back, and are emptied. Main ends them. Nobody is
// promoted on them: what a failover does to locks is tested elsewhere.
//
// Which topologies a kind runs on is a choice that its test makes, for the sake of time. With the build tag "contract" (make contract)
// every kind runs on all of them.
//
// The promises never look at keys of a kind: they see what a caller sees. Where a topology can also count commands, or show
// which keys and channels there are, promises about cost and about what stays behind look at that too.
//
// # Two roles
//
// Of two acquisitions that exclude each other, one is made by Wiring.New, the lock under test, and the other by Wiring.Rival.
// For an exclusive lock both are the same. For a read lock the rival is the write lock of the same name: whatever a promise
// asks of "somebody else who holds it" or "somebody else who wants it" is then asked of the writer. The rival is always an
// exclusive lock.
package locktest
