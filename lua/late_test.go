package lua_test

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/lua"
)

// RL-08, RL-13: a request whose answer was lost may have run, may run later, or may be sent twice.

func TestSettleTellsWhetherARequestRan(t *testing.T) {
	runRows(t, []row{
		{
			promise: "an acquire that ran keeps its lock", given: hadOnce,
			steps: []step{{settle(own), 1}}, after: hadOnce.latched(),
		},
		{
			promise: "a re-entry that ran keeps its count", given: hadTwice,
			steps: []step{{settle(own), 2}}, after: hadTwice.latched(),
		},
		{
			promise: "a request that did not run has nothing", steps: []step{{settle(own), 0}},
			after: nobody.latched(),
		},
		{
			promise: "a foreign hold is not one's own", given: others,
			steps: []step{{settle(own), 0}}, after: others.latched(),
		},
		{
			promise: "may be asked again", given: hadOnce,
			steps: []step{{settle(own), 1}, {settle(own), 1}}, after: hadOnce.latched(),
		},
	})
}

func TestSettledRequestDoesNotRunLater(t *testing.T) {
	runRows(t, []row{
		{
			promise: "acquire of a free lock", steps: []step{{settle(own), 0}, {acquire(own), barred}},
			after: nobody.latched(),
		},
		{
			promise: "acquire of a foreign lock", given: others,
			steps: []step{{settle(own), 0}, {acquire(own), heldFor(old)}}, after: others.latched(),
		},
		{
			promise: "acquire that ran before and arrives again", given: hadOnce,
			steps: []step{{settle(own), 1}, {acquire(own), heldFor(old)}}, after: hadOnce.latched(),
		},
		{
			promise: "acquire that arrives after its lock was given back", steps: []step{
				{acquire(own), taken}, {settle(own), 1}, {fresh(release(own, 0)), freed}, {acquire(own), barred},
			}, after: nobody.latched(), messages: 1,
		},
		{
			promise: "acquire that arrives while its owner holds the lock by a later one", steps: []step{
				{settle(own), 0}, {fresh(acquire(own)), taken}, {fresh(reenter(own, 2)), taken}, {acquire(own), heldFor(lease)},
			}, after: holds(own, 2).latched(),
		},
		{
			promise: "re-entry", given: hadOnce,
			steps: []step{{settle(own), 1}, {reenter(own, 2), notEntered}}, after: hadOnce.latched(),
		},
		{
			promise: "re-entry that arrives after the owner went down again", given: hadOnce, steps: []step{
				{reenter(own, 2), taken}, {settle(own), 2}, {fresh(release(own, 1)), remains}, {reenter(own, 2), notEntered},
			}, after: holds(own, 1).latched(),
		},
		{
			promise: "release", given: hadOnce,
			steps: []step{{settle(own), 1}, {release(own, 0), unheld}}, after: hadOnce.latched(),
		},
		{
			promise: "release to a lower count", given: hadTwice,
			steps: []step{{settle(own), 2}, {release(own, 1), unheld}}, after: hadTwice.latched(),
		},
		{
			promise: "hand-over", given: hadOnce,
			steps: []step{{settle(next), 0}, {handOver(own, next), notPassed}}, after: hadOnce.latched(),
		},
		{
			promise: "hand-over that arrives after the first owner took the lock again", given: hadOnce, steps: []step{
				{handOver(own, next), taken},
				{settle(next), 1},
				{fresh(release(next, 0)), freed},
				{fresh(acquire(own)), taken},
				{handOver(own, next), notPassed},
			}, after: holds(own, 1).latched(), messages: 1,
		},
	})
}

func TestReleaseSentAgain(t *testing.T) {
	runRows(t, []row{
		{
			promise: "after the first one ran is not held and publishes no second time", given: hadOnce,
			steps: []step{{release(own, 0), freed}, {release(own, 0), unheld}}, messages: 1,
		},
		{
			promise: "to a lower count counts once", given: hadTwice,
			steps: []step{{release(own, 1), remains}, {release(own, 1), remains}}, after: holds(own, 1),
		},
		{
			promise: "after the first one ran does not free the next owner", given: hadOnce,
			steps: []step{{release(own, 0), freed}, {acquire(foreign), taken}, {release(own, 0), unheld}},
			after: holds(foreign, 1), messages: 1,
		},
		{
			promise: "leaves the first one barred, also when the same owner has the lock again", given: hadOnce, steps: []step{
				{settle(own), 1}, {fresh(release(own, 0)), freed}, {fresh(acquire(own)), taken}, {release(own, 0), unheld},
			}, after: holds(own, 1).latched(), messages: 1,
		},
		{
			promise: "leaves the first one barred when that one had run, too", given: hadOnce, steps: []step{
				{release(own, 0), freed}, {settle(own), 0}, {fresh(acquire(own)), taken}, {release(own, 0), unheld},
			}, after: holds(own, 1).latched(), messages: 1,
		},
		{
			promise: "leaves the first one barred when that one went to a lower count", given: hadTwice, steps: []step{
				{settle(own), 2}, {fresh(release(own, 1)), remains}, {fresh(reenter(own, 2)), taken}, {release(own, 1), unheld},
			}, after: holds(own, 2).latched(),
		},
	})
}

func TestEntrySentTwiceCountsOnce(t *testing.T) {
	runRows(t, []row{
		{
			promise: "acquire", steps: []step{{acquire(own), taken}, {acquire(own), taken}}, after: holds(own, 1),
		},
		{
			promise: "re-entry", given: hadOnce,
			steps: []step{{reenter(own, 2), taken}, {reenter(own, 2), taken}}, after: holds(own, 2),
		},
		{
			promise: "hand-over", given: hadOnce,
			steps: []step{{handOver(own, next), taken}, {handOver(own, next), notPassed}}, after: holds(next, 1),
		},
		{
			promise: "forced release", given: hadOnce,
			steps: []step{{forceRelease, freed}, {forceRelease, notFreed}}, messages: 1,
		},
	})
}

// RL-10: a scan of the keys after a day of work finds the locks that are held, and nothing else.
func TestNoLatchIsWrittenWithoutAFault(t *testing.T) {
	runRows(t, []row{{
		promise: "in a life of a lock",
		steps: []step{
			{acquire(own), taken},
			{acquire(foreign), heldFor(lease)},
			{reenter(own, 2), taken},
			{renew(own), []bool{true}},
			{release(own, 1), remains},
			{handOver(own, next), taken},
			{release(own, 0), unheld},
			{release(next, 0), freed},
			{release(next, 0), unheld},
			{acquire(foreign), taken},
			{forceRelease, freed},
			{renew(foreign), []bool{false}},
		},
		messages: 2,
	}})
}

// RL-11: the server refuses a TTL of 0 and what does not fit 64 bits.
func TestLatchHasATTLWhateverTheBar(t *testing.T) {
	forEachSetting(t, func(t *testing.T, conn rueidis.Client, in setting) {
		s := newSite(t, conn, in.publish, "barred")
		for _, bar := range []time.Duration{-time.Hour, 0, time.Microsecond, time.Millisecond, 1<<63 - 1} {
			count, err := lua.Run(t.Context(), conn, lua.Settle(s.lock, s.latch, own, bar))
			require.NoError(t, err, "bar %v", bar)
			require.Zero(t, count)
			// The short ones may be gone already; none of them stays for ever.
			require.NotEqual(t, forever, s.pttl(t, s.latch), "bar %v", bar)
		}
	})
}
