package lua_test

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/lua"
)

// RL-20: a name is one kind's. What a script can see of another kind is refused in words that tell what is there, or held by nobody.

// isOther is the reply to who would take or free a lock that has this state of another kind.
func isOther(given state) refused {
	switch {
	case given.fields["mode"] != "":
		return refused(lua.OtherKind + "a read/write lock in mode " + given.fields["mode"])
	case len(given.fields) == 1:
		return refused(lua.OtherKind + "a plain, fair or fenced lock")
	default:
		return refused(lua.OtherKind + "a grouped multi-lock, or no lock")
	}
}

// otherKinds are states in which an owner, in its own eyes, can stand: its field is the same in a plain lock and in a read lock.
func otherKinds() map[string]state {
	return map[string]state{
		"a read lock":                reads(foreign, 2).marked(readHold(foreign, 1, old), readHold(foreign, 2, old)),
		"its own read lock":          reads(own, 2).marked(readHold(own, 1, old), readHold(own, 2, old)),
		"one of many readers' locks": reads(own, 1, foreign, 1).marked(readHold(own, 1, old), readHold(foreign, 1, old)),
		"a write lock":               writes(writer(foreign), 1),
		"its own write lock":         writes(writer(own), 1, own, 1).marked(readHold(own, 1, old)),
		"a grouped multi-lock":       keeps(mine, 1, both...),
	}
}

func TestLockOfAnotherKindIsNotTakenFreedRenewedOrPassedOn(t *testing.T) {
	for name, given := range otherKinds() {
		queued := given.waiting(waiter{third, -time.Second}, waiter{next, old}) // the head is dead
		tokens := given.fencedBy("41")
		t.Run(name, func(t *testing.T) {
			runRows(t, []row{
				{promise: "acquire", given: given, steps: []step{{acquire(own), isOther(given)}}, after: given},
				{promise: "fair ask", given: queued, steps: []step{{ask(own), isOther(given)}}, after: queued},
				{promise: "fair stand", given: queued, steps: []step{{stand(own), isOther(given)}}, after: queued},
				{promise: "fenced acquire", given: tokens, steps: []step{{fencedAcquire(own), isOther(given)}}, after: tokens},
				{promise: "force-release", given: given, steps: []step{{forceRelease, isOther(given)}}, after: given},
				{promise: "fair force-release", given: queued, steps: []step{{fairForceRelease, isOther(given)}}, after: queued},
				{promise: "re-enter", given: given, steps: []step{{reenter(own, 3), notEntered}}, after: given},
				{promise: "fenced re-enter", given: tokens, steps: []step{{fencedReenter(own, 3, true), notEntered}}, after: tokens},
				{promise: "release", given: given, steps: []step{{release(own, 0), unheld}}, after: given},
				{promise: "release to a lower count", given: given, steps: []step{{release(own, 1), unheld}}, after: given},
				{promise: "fair release", given: given, steps: []step{{fairRelease(own, 0), unheld}}, after: given},
				{promise: "fair release to a lower count", given: given, steps: []step{{fairRelease(own, 1), unheld}}, after: given},
				{promise: "renew", given: given.lasting(short), steps: []step{{renew(own), []bool{false}}}, after: given.lasting(short)},
				{promise: "hand-over", given: given, steps: []step{{handOver(own, next), notPassed}}, after: given},
				{promise: "fenced hand-over", given: tokens, steps: []step{{fencedHandOver(own, next), notPassed}}, after: tokens},
			})
		})
	}
}

func TestReadWriteLockOfALockWithoutAModeIsRefused(t *testing.T) {
	for name, given := range map[string]state{
		"a foreign plain lock": others, "the owner's own plain lock": hadTwice, "a grouped multi-lock": keeps(mine, 1, both...),
		"a lock without a TTL": others.lasting(forever),
	} {
		t.Run(name, func(t *testing.T) {
			due := given
			if given.ttl != forever {
				due = given.lasting(short)
			}
			runRows(t, []row{
				{promise: "read acquire", given: given, steps: []step{{readAcquire(own), isOther(given)}}, after: given},
				{promise: "write acquire", given: given, steps: []step{{writeAcquire(own), isOther(given)}}, after: given},
				{promise: "read force-release", given: given, steps: []step{{forceRead, isOther(given)}}, after: given},
				{promise: "write force-release", given: given, steps: []step{{forceWrite, isOther(given)}}, after: given},
				{promise: "read re-enter", given: given, steps: []step{{readReenter(own, 2), notEntered}}, after: given},
				{promise: "write re-enter", given: given, steps: []step{{writeReenter(own, 2, true), notEntered}}, after: given},
				{promise: "read renew", given: due, steps: []step{{readRenew(own), []bool{false}}}, after: due},
				{
					promise: "read release, which wakes", given: given,
					steps: []step{{readRelease(own, 0), unheld}}, after: given, said: []string{onRW("0")},
				},
				{
					promise: "write release, which wakes", given: given,
					steps: []step{{writeRelease(own, 0), unheld}}, after: given, said: []string{onRW("1")},
				},
			})
		})
	}
}

// A fleet that counts on it has what Redisson does (wire-protocol.md §14): scripts that are not asked to look do not.
func TestScriptsThatDoNotLookTreatAnotherKindAsRedissonDoes(t *testing.T) {
	reader := reads(own, 1).marked(readHold(own, 1, old))
	foreignReads := reads(foreign, 1).marked(readHold(foreign, 1, old))
	entered := maps.Clone(others.fields)
	entered["mode"], entered[own] = "read", "1"
	runRows(t, []row{
		{promise: "acquire waits", given: foreignReads, steps: []step{{lenient(acquire(own)), heldFor(old)}}, after: foreignReads},
		{promise: "fair ask waits", given: foreignReads, steps: []step{{lenient(ask(own)), heldFor(old)}}, after: foreignReads},
		{
			promise: "fenced acquire waits", given: foreignReads.fencedBy("41"),
			steps: []step{{lenient(fencedAcquire(own)), heldFor(old)}}, after: foreignReads.fencedBy("41"),
		},
		{
			promise: "acquire enters the owner's own read lock", given: reader,
			steps: []step{{lenient(acquire(own)), taken}}, after: reader.atLease(),
		},
		{
			promise: "re-entry enters the owner's own read lock", given: reader,
			steps: []step{{lenient(reenter(own, 1)), taken}}, after: reader.atLease(),
		},
		{
			promise: "fenced re-entry enters the owner's own read lock", given: reader.fencedBy("41"),
			steps: []step{{lenient(fencedReenter(own, 1, true)), takenWith(42)}}, after: reader.atLease().fencedBy("42"),
		},
		{
			promise: "hand-over passes the owner's own read lock on", given: reads(own, 1),
			steps: []step{{lenient(handOver(own, next)), taken}}, after: reads(next, 1).atLease(),
		},
		{
			promise: "fenced hand-over passes the owner's own read lock on", given: reads(own, 1).fencedBy("41"),
			steps: []step{{lenient(fencedHandOver(own, next)), takenWith(42)}}, after: reads(next, 1).atLease().fencedBy("42"),
		},
		{
			promise: "renewal renews the owner's own read lock", given: reads(own, 1).lasting(short),
			steps: []step{{lenient(renew(own)), []bool{true}}}, after: reads(own, 1).atLease(),
		},
		{promise: "release frees the owner's own read lock", given: reads(own, 1), steps: []step{{lenient(release(own, 0)), freed}}, messages: 1},
		{
			promise: "release frees a plain lock that a reader has entered", given: state{fields: entered, ttl: old},
			steps: []step{{lenient(release(foreign, 0)), freed}}, messages: 1,
		},
		{promise: "fair release frees the owner's own read lock", given: reads(own, 1), steps: []step{{lenient(fairRelease(own, 0)), freed}}},
		{promise: "force-release frees a read lock", given: reads(foreign, 1), steps: []step{{lenient(forceRelease), freed}}, messages: 1},
		{promise: "fair force-release frees a read lock", given: reads(foreign, 1), steps: []step{{lenient(fairForceRelease), freed}}},
		{
			promise: "read re-entry enters the owner's own plain lock", given: hadOnce,
			steps: []step{{lenient(readReenter(own, 2)), taken}}, after: hadTwice.marked(readHold(own, 2, lease)),
		},
		{
			promise: "read renewal renews the owner's own plain lock", given: hadOnce.lasting(short).marked(readHold(own, 1, short)),
			steps: []step{{lenient(readRenew(own)), []bool{true}}}, after: holds(own, 1).marked(readHold(own, 1, lease)),
		},
		{promise: "write force-release leaves a plain lock", given: others, steps: []step{{lenient(forceWrite), notFreed}}, after: others},
	})
}

// Their hashes look alike, and they keep each other out: none is refused to the others.
func TestPlainFairAndFencedLocksAreOfOneKindToEachOther(t *testing.T) {
	queued := others.waiting(waiter{next, 60 * time.Second})
	runRows(t, []row{
		{
			promise: "acquire", given: queued.fencedBy("41"),
			steps: []step{{acquire(own), heldFor(old)}}, after: queued.fencedBy("41"),
		},
		{promise: "fair ask", given: others.fencedBy("41"), steps: []step{{ask(own), heldFor(old)}}, after: others.fencedBy("41")},
		{promise: "fenced acquire", given: queued, steps: []step{{fencedAcquire(own), heldFor(old)}}, after: queued},
		{
			promise: "force-release", given: queued, steps: []step{{forceRelease, freed}},
			after: nobody.waiting(waiter{next, 60 * time.Second}), messages: 1,
		},
	})
}

// What succeeds sends the server as many commands as it does without the look.
func TestLookForAnotherKindCostsNoCommandOnTheWayToSuccess(t *testing.T) {
	server := redistest.Start(t)
	conn := server.Client(t)
	for _, script := range lua.Catalog() {
		server.Do(t, "SCRIPT", "LOAD", script.Source)
	}
	commands := func(e effect, ask func(*site) request) map[string]int64 {
		server.Do(t, "FLUSHALL")
		s := newSite(t, conn, "PUBLISH", "lock")
		s.set(t, e.given)
		r := ask(s)
		server.ResetStats(t)
		_, err := r.run(t.Context(), conn)
		require.NoError(t, err)
		return server.CommandStats(t)
	}
	for _, e := range everyEffect() {
		require.Equal(t, commands(e, lenient(e.ask)), commands(e, e.ask), e.name)
	}
	require.EqualValues(t, 5, total(commands(effect{}, acquire(own))), "the script, and four commands of it")
	require.EqualValues(t, 7, total(commands(effect{}, readAcquire(own))))
	require.EqualValues(t, 6, total(commands(effect{}, writeAcquire(own))))
}

func total(commands map[string]int64) (n int64) {
	for _, times := range commands {
		n += times
	}
	return n
}
