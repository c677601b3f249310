package lua_test

import (
	"testing"
	"time"

	"github.com/redlatch/redlatch/lua"
)

// RW-01, RW-02, RW-05, RW-13, RW-17, RL-20; wire-protocol.md §6, the write side. One thing differs from it on purpose: a
// writer that leaves its lock to its own read holds publishes 1, since other readers may enter now.

func writeAcquire(owner string) func(*site) request {
	return func(s *site) request {
		return untyped(lua.WriteAcquire(s.lock, s.latch, writer(owner), lease, !s.lenient))
	}
}

func writeReenter(owner string, count int, entry bool) func(*site) request {
	return func(s *site) request {
		return untyped(lua.WriteReenter(s.lock, s.latch, writer(owner), lease, count, entry))
	}
}

func writeRelease(owner string, count int) func(*site) request {
	return func(s *site) request {
		d := lua.Departure{Owner: writer(owner), Count: count, Lease: lease, Publish: s.publish, Strict: !s.lenient}
		return untyped(lua.WriteRelease(s.lock, s.rw, s.latch, d))
	}
}

func forceWrite(s *site) request {
	return untyped(lua.RWForceRelease(s.lock, s.rw, s.publish, "write", "1", !s.lenient))
}

func TestWriteAcquire(t *testing.T) {
	foreignReads := reads(foreign, 1).marked(readHold(foreign, 1, old))
	ownReads := reads(own, 1).marked(readHold(own, 1, old))
	runRows(t, []row{
		{
			promise: "takes a free lock for writing", steps: []step{{writeAcquire(own), taken}},
			after: writes(writer(own), 1).atLease(),
		},
		{
			promise: "takes what is left of the same owner, counted from 1, for its lease", given: writes(writer(own), 2),
			steps: []step{{writeAcquire(own), taken}}, after: writes(writer(own), 1).atLease(),
		},
		{
			promise: "takes what is left of the same owner beside its reads, whose time it does not shorten",
			given:   writes(writer(own), 2, own, 1).marked(readHold(own, 1, old)),
			steps:   []step{{writeAcquire(own), taken}}, after: writes(writer(own), 1, own, 1).marked(readHold(own, 1, old)),
		},
		{
			promise: "takes what is left of the same owner beside its reads, and the lock lasts longer",
			given:   writes(writer(own), 2, own, 1).lasting(short).marked(readHold(own, 1, short)),
			steps:   []step{{writeAcquire(own), taken}}, after: writes(writer(own), 1, own, 1).atLease().marked(readHold(own, 1, short)),
		},
		{
			promise: "tells how long readers may hold", given: foreignReads,
			steps: []step{{writeAcquire(own), heldFor(old)}}, after: foreignReads,
		},
		{
			promise: "is refused to a reader, also when nobody else reads (RW-05)", given: ownReads,
			steps: []step{{writeAcquire(own), heldFor(old)}}, after: ownReads,
		},
		{
			promise: "tells how long another writer may hold", given: writes(writer(foreign), 1),
			steps: []step{{writeAcquire(own), heldFor(old)}}, after: writes(writer(foreign), 1),
		},
		{
			promise: "tells that another's write hold has no end", given: writes(writer(foreign), 1).lasting(forever),
			steps: []step{{writeAcquire(own), heldFor(forever)}}, after: writes(writer(foreign), 1).lasting(forever),
		},
		{
			promise: "keeps two owners of one client apart", given: writes(writer(next), 1),
			steps: []step{{writeAcquire(own), heldFor(old)}}, after: writes(writer(next), 1),
		},
		{
			promise: "that does not look enters a plain lock of the same name (RL-20)", given: others.lasting(short),
			steps: []step{{lenient(writeAcquire(own)), taken}},
			after: state{fields: map[string]string{foreign: "1", "mode": "write", writer(own): "1"}, ttl: lease},
		},
	})
}

func TestWriteReenter(t *testing.T) {
	runRows(t, []row{
		{
			promise: "raises the count and adds the lease to what is left", given: writes(writer(own), 1),
			steps: []step{{writeReenter(own, 2, true), taken}}, after: writes(writer(own), 2).lasting(old + lease),
		},
		{
			promise: "of a lock without TTL gives it the lease", given: writes(writer(own), 1).lasting(forever),
			steps: []step{{writeReenter(own, 2, true), taken}}, after: writes(writer(own), 2).atLease(),
		},
		{
			promise: "as an extension sets the lease, also a shorter one", given: writes(writer(own), 2),
			steps: []step{{writeReenter(own, 2, false), taken}}, after: writes(writer(own), 2).atLease(),
		},
		{
			promise: "as an extension does not shorten the time of the same owner's reads",
			given:   writes(writer(own), 2, own, 1).marked(readHold(own, 1, old)),
			steps:   []step{{writeReenter(own, 2, false), taken}}, after: writes(writer(own), 2, own, 1).marked(readHold(own, 1, old)),
		},
		{
			promise: "as an extension lets the lock last longer than the same owner's reads",
			given:   writes(writer(own), 2, own, 1).lasting(short).marked(readHold(own, 1, short)),
			steps:   []step{{writeReenter(own, 2, false), taken}},
			after:   writes(writer(own), 2, own, 1).atLease().marked(readHold(own, 1, short)),
		},
		{
			promise: "leaves the same owner's reads alone", given: writes(writer(own), 1, own, 1).marked(readHold(own, 1, short)),
			steps: []step{{writeReenter(own, 2, true), taken}},
			after: writes(writer(own), 2, own, 1).lasting(old + lease).marked(readHold(own, 1, short)),
		},
		{
			promise: "does not create a lock that has expired",
			steps:   []step{{writeReenter(own, 2, true), notEntered}, {writeReenter(own, 2, false), notEntered}},
		},
		{
			promise: "does not touch a foreign lock", given: writes(writer(foreign), 1),
			steps: []step{{writeReenter(own, 2, true), notEntered}, {writeReenter(own, 2, false), notEntered}},
			after: writes(writer(foreign), 1),
		},
		{
			promise: "is not entered by an owner that only reads", given: reads(own, 1).marked(readHold(own, 1, old)),
			steps: []step{{writeReenter(own, 2, true), notEntered}}, after: reads(own, 1).marked(readHold(own, 1, old)),
		},
	})
}

func TestWriteRelease(t *testing.T) {
	const mid = 60 * time.Second
	runRows(t, []row{
		{
			promise: "the last one frees, and wakes all once", given: writes(writer(own), 1),
			steps: []step{{writeRelease(own, 0), freed}}, said: []string{onRW("1")},
		},
		{
			promise: "to 0 frees whatever the count was", given: writes(writer(own), 3),
			steps: []step{{writeRelease(own, 0), freed}}, said: []string{onRW("1")},
		},
		{
			promise: "to a lower count keeps the lock for its lease and is silent", given: writes(writer(own), 2),
			steps: []step{{writeRelease(own, 1), remains}}, after: writes(writer(own), 1).atLease(),
		},
		{
			promise: "to a lower count leaves the same owner's reads alone",
			given:   writes(writer(own), 2, own, 1).marked(readHold(own, 1, mid)),
			steps:   []step{{writeRelease(own, 1), remains}},
			after:   writes(writer(own), 1, own, 1).atLease().marked(readHold(own, 1, mid)),
		},
		{
			promise: "leaves the lock to the same owner's reads with the TTL that it has, and wakes the other readers (RW-02)",
			given:   writes(writer(own), 1, own, 2).marked(readHold(own, 1, mid), readHold(own, 2, short)),
			steps:   []step{{writeRelease(own, 0), freed}}, said: []string{onRW("1")},
			after: reads(own, 2).marked(readHold(own, 1, mid), readHold(own, 2, short)),
		},
		{
			promise: "of a lock that is gone is not held, and wakes all (RW-13)",
			steps:   []step{{writeRelease(own, 0), unheld}}, said: []string{onRW("1")},
		},
		{
			promise: "to a lower count of a lock that is gone creates nothing",
			steps:   []step{{writeRelease(own, 1), unheld}}, said: []string{onRW("1")},
		},
		{
			promise: "of a lock without a mode wakes all, and the lock stays", given: hadOnce,
			steps: []step{{writeRelease(own, 0), unheld}}, after: hadOnce, said: []string{onRW("1")},
		},
		{
			promise: "of a foreign lock touches nothing and is silent", given: writes(writer(foreign), 1),
			steps: []step{{writeRelease(own, 0), unheld}, {writeRelease(own, 1), unheld}}, after: writes(writer(foreign), 1),
		},
		{
			promise: "by a reader touches nothing and is silent", given: reads(own, 1).marked(readHold(own, 1, old)),
			steps: []step{{writeRelease(own, 0), unheld}}, after: reads(own, 1).marked(readHold(own, 1, old)),
		},
		{
			promise: "in read mode takes no writer's field for a hold", given: reads(own, 1, writer(own), 1),
			steps: []step{{writeRelease(own, 0), unheld}}, after: reads(own, 1, writer(own), 1),
		},
		{
			promise: "lets readers in, and the next writer when they have gone", steps: []step{
				{writeAcquire(own), taken},
				{readAcquire(foreign), heldFor(lease)},
				{writeRelease(own, 0), freed},
				{readAcquire(foreign), taken},
				{writeAcquire(own), heldFor(lease)},
				{readRelease(foreign, 0), freed},
				{writeAcquire(own), taken},
			}, after: writes(writer(own), 1).atLease(), said: []string{onRW("1"), onRW("0")},
		},
	})
}

func TestForceReleaseOfTheWriteSide(t *testing.T) {
	held := writes(writer(foreign), 2)
	runRows(t, []row{
		{promise: "frees whoever writes, and wakes all once", given: held, steps: []step{{forceWrite, freed}}, said: []string{onRW("1")}},
		{
			promise: "frees a lock that has no TTL", given: held.lasting(forever),
			steps: []step{{forceWrite, freed}}, said: []string{onRW("1")},
		},
		{promise: "of a free lock does nothing and is silent", steps: []step{{forceWrite, notFreed}}},
		{
			promise: "leaves readers alone", given: reads(own, 1, foreign, 1),
			steps: []step{{forceWrite, notFreed}}, after: reads(own, 1, foreign, 1),
		},
		{
			promise: "that does not look leaves a lock without a mode alone", given: others,
			steps: []step{{lenient(forceWrite), notFreed}}, after: others,
		},
	})
}

// RW-01, RW-02, RW-17: what the hash holds in each stage is what both sides' "is it locked" is read from: the mode, and
// whether a writer has fields beside its own.
func TestOneOwnerBothWritesAndReads(t *testing.T) {
	writing := []step{{writeAcquire(own), taken}, {readAcquire(own), taken}, {readReenter(own, 2), taken}}
	both := readHold(own, 1, lease)
	runRows(t, []row{
		{
			promise: "the write hold alone", steps: writing[:1], after: writes(writer(own), 1).atLease(),
		},
		{
			promise: "a read hold in the write hold", steps: writing[:2], after: writes(writer(own), 1, own, 1).atLease().marked(both),
		},
		{
			promise: "the read hold released first", steps: append(writing[:2:2], step{readRelease(own, 0), remains}),
			after: writes(writer(own), 1).atLease(),
		},
		{
			promise: "the read hold released first, then the write hold",
			steps:   append(writing[:2:2], step{readRelease(own, 0), remains}, step{writeRelease(own, 0), freed}),
			said:    []string{onRW("1")},
		},
		{
			promise: "the write hold released first lets readers in and writers wait",
			steps: append(writing[:3:3], step{readAcquire(foreign), heldFor(lease)}, step{writeRelease(own, 0), freed},
				step{readAcquire(foreign), taken}, step{writeAcquire(foreign), heldFor(lease)}, step{writeAcquire(own), heldFor(lease)}),
			after: reads(own, 2, foreign, 1).atLease().marked(both, readHold(own, 2, lease), readHold(foreign, 1, lease)),
			said:  []string{onRW("1")},
		},
		{
			promise: "the write hold released first, then the read holds",
			steps:   append(writing[:3:3], step{writeRelease(own, 0), freed}, step{readRelease(own, 1), remains}, step{readRelease(own, 0), freed}),
			said:    []string{onRW("1"), onRW("0")},
		},
	})
}
