package lua_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/lua"
)

// RW-02, RW-07, RW-08, RW-13, RW-16, RW-19, RL-20; wire-protocol.md §6, the read side.

func readAcquire(owner string) func(*site) request {
	return func(s *site) request {
		return untyped(lua.ReadAcquire(s.lock, s.marker(owner), s.latch, owner, writer(owner), lease, !s.lenient))
	}
}

func readReenter(owner string, count int) func(*site) request {
	return func(s *site) request {
		return untyped(lua.ReadReenter(s.lock, s.marker(owner), s.latch, owner, lease, count, !s.lenient))
	}
}

func readRelease(owner string, count int) func(*site) request {
	return func(s *site) request {
		d := lua.Departure{Owner: owner, Count: count, Lease: lease, Publish: s.publish, Strict: !s.lenient}
		return untyped(lua.ReadRelease(s.lock, s.rw, s.markers(), s.latch, d))
	}
}

func forceRead(s *site) request {
	return untyped(lua.RWForceRelease(s.lock, s.rw, s.publish, "read", "0", !s.lenient))
}

// writer is the field of an owner as a writer.
func writer(owner string) string { return owner + ":write" }

// hold is one read hold, by the TTL that it has left.
type hold struct {
	name string
	ttl  time.Duration
}

func readHold(owner string, i int, ttl time.Duration) hold { return hold{mark(owner, i), ttl} }

// reads and writes are locks in that mode with TTL old; counts are fields and their numbers in turn.
func reads(counts ...any) state  { return inMode("read", counts) }
func writes(counts ...any) state { return inMode("write", counts) }

func inMode(mode string, counts []any) state {
	fields := map[string]string{"mode": mode}
	for i := 0; i < len(counts); i += 2 {
		fields[counts[i].(string)] = strconv.Itoa(counts[i+1].(int))
	}
	return state{fields: fields, ttl: old}
}

// marked is the state with those read holds.
func (w state) marked(holds ...hold) state {
	w.marks = map[string]time.Duration{}
	for _, h := range holds {
		w.marks[h.name] = h.ttl
	}
	return w
}

// atLease is the state with the TTL that is asked for in the tables.
func (w state) atLease() state { return w.lasting(lease) }

func TestReadAcquire(t *testing.T) {
	foreignHold, newHold := readHold(foreign, 1, old), readHold(own, 1, lease)
	runRows(t, []row{
		{
			promise: "takes a free lock for reading", steps: []step{{readAcquire(own), taken}},
			after: reads(own, 1).atLease().marked(newHold),
		},
		{
			promise: "enters beside a reader who stays longer, and shortens nothing (RW-07)", given: reads(foreign, 1).marked(foreignHold),
			steps: []step{{readAcquire(own), taken}}, after: reads(foreign, 1, own, 1).marked(foreignHold, newHold),
		},
		{
			promise: "enters beside a reader who leaves sooner, and the lock lasts longer",
			given:   reads(foreign, 1).lasting(short).marked(readHold(foreign, 1, short)),
			steps:   []step{{readAcquire(own), taken}},
			after:   reads(foreign, 1, own, 1).atLease().marked(readHold(foreign, 1, short), newHold),
		},
		{
			promise: "gives a TTL to a lock for reading that has none", given: reads(foreign, 1).lasting(forever),
			steps: []step{{readAcquire(own), taken}}, after: reads(foreign, 1, own, 1).atLease().marked(newHold),
		},
		{
			promise: "enters inside the owner's own write hold, which goes on", given: writes(writer(own), 2),
			steps: []step{{readAcquire(own), taken}}, after: writes(writer(own), 2, own, 1).marked(newHold),
		},
		{
			promise: "lengthens the owner's own write hold that ends sooner", given: writes(writer(own), 1).lasting(short),
			steps: []step{{readAcquire(own), taken}}, after: writes(writer(own), 1, own, 1).atLease().marked(newHold),
		},
		{
			promise: "tells how long a writer may hold", given: writes(writer(foreign), 1),
			steps: []step{{readAcquire(own), heldFor(old)}}, after: writes(writer(foreign), 1),
		},
		{
			promise: "tells that a write hold has no end", given: writes(writer(foreign), 1).lasting(forever),
			steps: []step{{readAcquire(own), heldFor(forever)}}, after: writes(writer(foreign), 1).lasting(forever),
		},
		{
			promise: "sees another owner of the same client as a foreign writer", given: writes(writer(next), 1),
			steps: []step{{readAcquire(own), heldFor(old)}}, after: writes(writer(next), 1),
		},
		{
			promise: "does not enter a foreign write hold by what is left of the owner's reads",
			given:   writes(writer(foreign), 1, own, 1),
			steps:   []step{{readAcquire(own), heldFor(old)}}, after: writes(writer(foreign), 1, own, 1),
		},
		{
			promise: "takes what is left of the same owner, counted from 1",
			given:   reads(own, 2).marked(readHold(own, 1, short), readHold(own, 2, old)),
			steps:   []step{{readAcquire(own), taken}}, after: reads(own, 1).marked(newHold, readHold(own, 2, old)),
		},
		{
			promise: "that does not look enters a plain lock of the same name, and sets its TTL (RL-20)", given: others,
			steps: []step{{lenient(readAcquire(own)), taken}},
			after: state{fields: map[string]string{foreign: "1", "mode": "read", own: "1"}, ttl: lease}.marked(newHold),
		},
	})
}

func TestReadReenter(t *testing.T) {
	first := readHold(own, 1, short)
	runRows(t, []row{
		{
			promise: "raises the count with a hold of its own", given: reads(own, 1).lasting(short).marked(first),
			steps: []step{{readReenter(own, 2), taken}}, after: reads(own, 2).atLease().marked(first, readHold(own, 2, lease)),
		},
		{
			promise: "does not shorten the lock", given: reads(own, 1).marked(readHold(own, 1, old)),
			steps: []step{{readReenter(own, 2), taken}}, after: reads(own, 2).marked(readHold(own, 1, old), readHold(own, 2, lease)),
		},
		{
			promise: "gives a TTL to a lock that has none", given: reads(own, 1).lasting(forever).marked(first),
			steps: []step{{readReenter(own, 2), taken}}, after: reads(own, 2).atLease().marked(first, readHold(own, 2, lease)),
		},
		{
			promise: "to the same count sets the newest hold's lease alone",
			given:   reads(own, 2).lasting(short).marked(first, readHold(own, 2, short)),
			steps:   []step{{readReenter(own, 2), taken}}, after: reads(own, 2).atLease().marked(first, readHold(own, 2, lease)),
		},
		{
			promise: "inside the owner's own write hold leaves that", given: writes(writer(own), 1, own, 1).marked(readHold(own, 1, old)),
			steps: []step{{readReenter(own, 2), taken}},
			after: writes(writer(own), 1, own, 2).marked(readHold(own, 1, old), readHold(own, 2, lease)),
		},
		{
			promise: "does not create a lock that has expired", steps: []step{{readReenter(own, 2), notEntered}},
		},
		{
			promise: "does not touch foreign readers", given: reads(foreign, 1).marked(readHold(foreign, 1, old)),
			steps: []step{{readReenter(own, 2), notEntered}}, after: reads(foreign, 1).marked(readHold(foreign, 1, old)),
		},
		{
			promise: "is not entered by an owner that only writes", given: writes(writer(own), 1),
			steps: []step{{readReenter(own, 2), notEntered}}, after: writes(writer(own), 1),
		},
	})
}

func TestReadReleaseFrees(t *testing.T) {
	runRows(t, []row{
		{
			promise: "the last hold of the last reader, and publishes once", given: reads(own, 1).marked(readHold(own, 1, old)),
			steps: []step{{readRelease(own, 0), freed}}, said: []string{onRW("0")},
		},
		{
			promise: "all holds at once", given: reads(own, 3).marked(readHold(own, 1, old), readHold(own, 2, old), readHold(own, 3, old)),
			steps: []step{{readRelease(own, 0), freed}}, said: []string{onRW("0")},
		},
		{
			promise: "the lock, and with it readers that crashed", given: reads(own, 1, foreign, 2, next, 1).marked(readHold(own, 1, old)),
			steps: []step{{readRelease(own, 0), freed}}, said: []string{onRW("0")},
		},
		{
			promise: "the lock when the owner's own holds that are left have ended", given: reads(own, 2).marked(readHold(own, 2, old)),
			steps: []step{{readRelease(own, 1), freed}}, said: []string{onRW("0")},
		},
		{
			promise: "a lock in write mode in which nobody writes any more", given: writes(own, 1).marked(readHold(own, 1, old)),
			steps: []step{{readRelease(own, 0), freed}}, said: []string{onRW("0")},
		},
		{
			promise: "level by level, and publishes at the last alone", steps: []step{
				{readAcquire(own), taken},
				{readReenter(own, 2), taken},
				{readReenter(own, 3), taken},
				{readRelease(own, 2), remains},
				{readRelease(own, 1), remains},
				{readRelease(own, 0), freed},
				{readRelease(own, 0), unheld},
			}, said: []string{onRW("0"), onRW("0")},
		},
	})
}

func TestReadReleaseLeavesTheLockToWhoRemains(t *testing.T) {
	const mid = 60 * time.Second
	runRows(t, []row{
		{
			promise: "to the owner's other hold, for as long as that lasts, in silence",
			given:   reads(own, 2).marked(readHold(own, 1, mid), readHold(own, 2, old)),
			steps:   []step{{readRelease(own, 1), remains}}, after: reads(own, 1).lasting(mid).marked(readHold(own, 1, mid)),
		},
		{
			promise: "to another reader, for as long as that lasts, in silence (RW-08)",
			given:   reads(own, 1, foreign, 1).marked(readHold(own, 1, old), readHold(foreign, 1, short)),
			steps:   []step{{readRelease(own, 0), remains}}, after: reads(foreign, 1).lasting(short).marked(readHold(foreign, 1, short)),
		},
		{
			promise: "to the longest of all holds of all readers",
			given: reads(own, 1, foreign, 3, next, 1).marked(readHold(own, 1, old), readHold(next, 1, lease),
				readHold(foreign, 1, short), readHold(foreign, 2, mid), readHold(foreign, 3, lease)),
			steps: []step{{readRelease(own, 0), remains}},
			after: reads(foreign, 3, next, 1).lasting(mid).marked(readHold(next, 1, lease),
				readHold(foreign, 1, short), readHold(foreign, 2, mid), readHold(foreign, 3, lease)),
		},
		{
			promise: "to one reader who lives beside one that crashed",
			given:   reads(own, 1, foreign, 1, next, 1).marked(readHold(own, 1, old), readHold(foreign, 1, mid)),
			steps:   []step{{readRelease(own, 0), remains}},
			after:   reads(foreign, 1, next, 1).lasting(mid).marked(readHold(foreign, 1, mid)),
		},
		{
			promise: "to a hold that lasts longer than the lock did",
			given:   reads(own, 1, foreign, 1).lasting(short).marked(readHold(own, 1, short), readHold(foreign, 1, mid)),
			steps:   []step{{readRelease(own, 0), remains}}, after: reads(foreign, 1).lasting(mid).marked(readHold(foreign, 1, mid)),
		},
		{
			promise: "to the owner's own write hold, whose TTL stays",
			given:   writes(writer(own), 1, own, 1).marked(readHold(own, 1, mid)),
			steps:   []step{{readRelease(own, 0), remains}}, after: writes(writer(own), 1),
		},
		{
			promise: "to the owner's own write hold, shortened to the reads that are left (RW-16)",
			given:   writes(writer(own), 1, own, 2).marked(readHold(own, 1, short), readHold(own, 2, mid)),
			steps:   []step{{readRelease(own, 1), remains}},
			after:   writes(writer(own), 1, own, 1).lasting(short).marked(readHold(own, 1, short)),
		},
		{
			promise: "to the owner's own write hold when the reads that are left have ended",
			given:   writes(writer(own), 1, own, 2).marked(readHold(own, 2, mid)),
			steps:   []step{{readRelease(own, 1), remains}}, after: writes(writer(own), 1, own, 1),
		},
	})
}

func TestReadReleaseOfWhatIsNotHeld(t *testing.T) {
	foreignReads := reads(foreign, 1).marked(readHold(foreign, 1, old))
	runRows(t, []row{
		{
			promise: "wakes the waiters when there is no lock (RW-13)",
			steps:   []step{{readRelease(own, 0), unheld}}, said: []string{onRW("0")},
		},
		{
			promise: "wakes the waiters of a lock without a mode, which stays", given: hadOnce,
			steps: []step{{readRelease(own, 0), unheld}}, after: hadOnce, said: []string{onRW("0")},
		},
		{
			promise: "to a lower count creates nothing", steps: []step{{readRelease(own, 1), unheld}}, said: []string{onRW("0")},
		},
		{
			promise: "touches no foreign reader and is silent", given: foreignReads,
			steps: []step{{readRelease(own, 0), unheld}, {readRelease(own, 1), unheld}}, after: foreignReads,
		},
		{
			promise: "touches no foreign writer and is silent", given: writes(writer(foreign), 1),
			steps: []step{{readRelease(own, 0), unheld}}, after: writes(writer(foreign), 1),
		},
		{
			promise: "touches no write hold of the same owner", given: writes(writer(own), 1),
			steps: []step{{readRelease(own, 0), unheld}}, after: writes(writer(own), 1),
		},
	})
}

func TestForceReleaseOfTheReadSide(t *testing.T) {
	two := reads(own, 1, foreign, 2)
	runRows(t, []row{
		{promise: "frees whoever reads, and publishes once", given: two, steps: []step{{forceRead, freed}}, said: []string{onRW("0")}},
		{
			promise: "frees a lock that has no TTL", given: two.lasting(forever),
			steps: []step{{forceRead, freed}}, said: []string{onRW("0")},
		},
		{promise: "of a free lock does nothing and is silent", steps: []step{{forceRead, notFreed}}},
		{
			promise: "leaves a writer alone, with or without reads of its own", given: writes(writer(foreign), 1, foreign, 1),
			steps: []step{{forceRead, notFreed}}, after: writes(writer(foreign), 1, foreign, 1),
		},
		{
			promise: "that does not look leaves a lock without a mode alone", given: others,
			steps: []step{{lenient(forceRead), notFreed}}, after: others,
		},
		{
			promise: "leaves the old reader nothing to release", given: two,
			steps: []step{{forceRead, freed}, {readAcquire(next), taken}, {readRelease(own, 0), unheld}},
			after: reads(next, 1).atLease().marked(readHold(next, 1, lease)), said: []string{onRW("0")},
		},
	})
}

// RW-19: the keys of the read holds are those that Java uses, whatever the name, and stand in the slot of the lock.
func TestReadHoldsHaveTheNamesThatJavaGivesThem(t *testing.T) {
	conn := startRedis(t)
	for name, begin := range map[string]string{
		"test:abc:key":        "{test:abc:key}:",
		"{test}:abc:key":      "{test}:abc:key:",
		"abc:{test}:key":      "abc:{test}:key:",
		"Bestellung ä%s:1:{}": "Bestellung ä%s:1:{}:",
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, conn, "PUBLISH", name)
			for i, step := range []step{
				{readAcquire(own), taken}, {readReenter(own, 2), taken}, {readAcquire(foreign), taken},
			} {
				value, err := step.ask(s).run(t.Context(), conn)
				s.requireReply(t, i+1, step.reply, value, err)
			}
			want := map[string]string{name: "hash"}
			for _, rest := range []string{own + ":rwlock_timeout:1", own + ":rwlock_timeout:2", foreign + ":rwlock_timeout:1"} {
				want[begin+rest] = "string"
				if config.SlotSafe(name) == nil {
					require.Equal(t, config.Slot(name), config.Slot(begin+rest))
				}
			}
			require.Equal(t, want, s.keys(t))
			for i, step := range []step{{readRelease(own, 0), remains}, {readRelease(foreign, 0), freed}} {
				value, err := step.ask(s).run(t.Context(), conn)
				s.requireReply(t, i+1, step.reply, value, err)
			}
			require.Empty(t, s.keys(t))
		})
	}
}
