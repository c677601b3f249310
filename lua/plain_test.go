package lua_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
)

// RL-01, RL-02, RL-05, RL-07, RL-10, RL-16; wire-protocol.md §3. Each row also proves that no latch is left behind
// (after.latch is 0), and that nothing is published but what it says.

func TestAcquire(t *testing.T) {
	runRows(t, []row{
		{
			promise: "takes a free lock", steps: []step{{acquire(own), taken}},
			after: holds(own, 1),
		},
		{
			promise: "takes what is left of the same owner, counted from 1", given: hadTwice,
			steps: []step{{acquire(own), taken}}, after: holds(own, 1),
		},
		{
			promise: "tells how long a foreign owner may hold", given: others,
			steps: []step{{acquire(own), heldFor(old)}}, after: others,
		},
		{
			promise: "tells that a foreign hold has no end", given: state{fields: others.fields, ttl: forever},
			steps: []step{{acquire(own), heldFor(forever)}}, after: state{fields: others.fields, ttl: forever},
		},
		{
			promise: "keeps two owners of one client apart", given: hadOnce,
			steps: []step{{acquire(next), heldFor(old)}}, after: hadOnce,
		},
	})
}

func TestReenter(t *testing.T) {
	runRows(t, []row{
		{
			promise: "raises the count and renews the lease", given: hadOnce,
			steps: []step{{reenter(own, 2), taken}}, after: holds(own, 2),
		},
		{
			promise: "does not create a lock that has expired", steps: []step{{reenter(own, 2), notEntered}},
		},
		{
			promise: "does not touch a foreign lock", given: others,
			steps: []step{{reenter(own, 2), notEntered}}, after: others,
		},
	})
}

func TestRelease(t *testing.T) {
	runRows(t, []row{
		{
			promise: "the last one frees and publishes once", given: hadOnce,
			steps: []step{{release(own, 0), freed}}, messages: 1,
		},
		{
			promise: "to a lower count keeps the lock for its lease and is silent", given: hadTwice,
			steps: []step{{release(own, 1), remains}}, after: holds(own, 1),
		},
		{
			promise: "to 0 frees whatever the count was", given: hadTwice,
			steps: []step{{release(own, 0), freed}}, messages: 1,
		},
		{
			promise: "of a lock that is gone is not held and silent", steps: []step{{release(own, 0), unheld}},
		},
		{
			promise: "to a lower count of a lock that is gone does not create it", steps: []step{{release(own, 1), unheld}},
		},
		{
			promise: "of a foreign lock touches nothing and is silent", given: others,
			steps: []step{{release(own, 0), unheld}}, after: others,
		},
		{
			promise: "to a lower count of a foreign lock touches nothing", given: others,
			steps: []step{{release(own, 1), unheld}}, after: others,
		},
		{
			promise: "level by level publishes at the last alone", steps: []step{
				{acquire(own), taken},
				{reenter(own, 2), taken},
				{reenter(own, 3), taken},
				{release(own, 2), remains},
				{release(own, 1), remains},
				{release(own, 0), freed},
				{release(own, 0), unheld},
			}, messages: 1,
		},
		{
			promise: "lets the next owner in", steps: []step{
				{acquire(own), taken}, {acquire(foreign), heldFor(lease)}, {release(own, 0), freed}, {acquire(foreign), taken},
			}, after: holds(foreign, 1), messages: 1,
		},
	})
}

func TestForceRelease(t *testing.T) {
	runRows(t, []row{
		{
			promise: "frees a foreign lock and publishes once", given: others,
			steps: []step{{forceRelease, freed}}, messages: 1,
		},
		{
			promise: "frees all counts of an owner", given: hadTwice,
			steps: []step{{forceRelease, freed}}, messages: 1,
		},
		{
			promise: "frees a lock that has no TTL", given: state{fields: others.fields, ttl: forever},
			steps: []step{{forceRelease, freed}}, messages: 1,
		},
		{
			promise: "of a free lock does nothing and is silent", steps: []step{{forceRelease, notFreed}},
		},
		{
			promise: "leaves the old owner nothing to release", given: hadOnce,
			steps: []step{{forceRelease, freed}, {acquire(foreign), taken}, {release(own, 0), unheld}},
			after: holds(foreign, 1), messages: 1,
		},
	})
}

func TestHandOver(t *testing.T) {
	runRows(t, []row{
		{
			promise: "passes the lock on in silence", given: hadOnce,
			steps: []step{{handOver(own, next), taken}}, after: holds(next, 1),
		},
		{
			promise: "counts the next owner from 1", given: hadTwice,
			steps: []step{{handOver(own, next), taken}}, after: holds(next, 1),
		},
		{
			promise: "to oneself keeps the lock, counted from 1", given: hadTwice,
			steps: []step{{handOver(own, own), taken}}, after: holds(own, 1),
		},
		{
			promise: "of a lock that is gone does not create it", steps: []step{{handOver(own, next), notPassed}},
		},
		{
			promise: "of a foreign lock touches nothing", given: others,
			steps: []step{{handOver(own, next), notPassed}}, after: others,
		},
		{
			promise: "leaves the old owner nothing to release or renew", given: hadOnce, steps: []step{
				{handOver(own, next), taken}, {release(own, 0), unheld}, {renew(own), []bool{false}}, {reenter(own, 2), notEntered},
			}, after: holds(next, 1),
		},
	})
}

// SP-01: waiters of a spin lock poll, and Redisson's tell nobody.
func TestReleaseThatIsToTellNobodyIsSilent(t *testing.T) {
	silent := func(ask func(*site) request) func(*site) request {
		return func(s *site) request {
			mute := *s
			mute.publish = ""
			return ask(&mute)
		}
	}
	runRows(t, []row{
		{promise: "of the last hold", given: hadOnce, steps: []step{{silent(release(own, 0)), freed}}},
		{promise: "to a lower count", given: hadTwice, steps: []step{{silent(release(own, 1)), remains}}, after: holds(own, 1)},
		{promise: "by force", given: others, steps: []step{{silent(forceRelease), freed}}},
		{
			promise: "of a foreign lock", given: others,
			steps: []step{{silent(release(own, 0)), unheld}}, after: others,
		},
	})
}

// Java clients can listen for the deletion of a lock's key: they must not hear of one while the lock is handed over.
func TestHandOverDeletesTheKeyAtNoTime(t *testing.T) {
	for name, step := range map[string]step{
		"plain":  {handOver(own, next), taken},
		"fenced": {fencedHandOver(own, next), takenWith(1)},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t, redistest.WithConfig("notify-keyspace-events", "KEA"))
			s := newSite(t, server.Client(t), "PUBLISH", "lock")
			s.set(t, hadOnce)
			heard := server.Record(t, "__keyevent@0__:del")
			value, err := step.ask(s).run(t.Context(), s.conn)
			s.requireReply(t, 1, step.reply, value, err)
			require.Empty(t, heard.Messages(t))
		})
	}
}
