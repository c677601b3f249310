// Package locktest is the contract of a lock, written once over redlatch.Locker and run over every kind and every topology.
//
// A Wiring says how a lock is made and what is particular about it; Run starts a topology of its own for each promise of the
// contract and puts the lock to the test there. What a kind does not promise is left out by its Traits, and not skipped.
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
