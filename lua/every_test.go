package lua_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/lua"
)

// effect is a call, and a state in which it takes effect.
type effect struct {
	name  string
	given state
	ask   func(*site) request

	// Of a call that can be settled:
	owner  string // field whose count tells whether it took effect
	count  int    // that count when it did not
	barred any    // reply when it was settled before

	frees  bool // replies a Release that is freed, and publishes
	rewake bool // publishes also when it does not free
}

// everyEffect has each call that changes a lock, and each of those in the shapes that differ.
func everyEffect() []effect {
	return slices.Concat(latchedEffects(), otherEffects(), otherGroupedEffects())
}

// latchedEffects are those that can be settled.
func latchedEffects() []effect {
	return slices.Concat(plainEffects(), fairEffects(), fencedEffects(), readEffects(), writeEffects(), groupedEffects())
}

func plainEffects() []effect {
	return []effect{
		{name: "acquire", ask: acquire(own), owner: own, barred: barred},
		{name: "re-enter", given: hadOnce, ask: reenter(own, 2), owner: own, count: 1, barred: notEntered},
		{name: "release", given: hadOnce, ask: release(own, 0), owner: own, count: 1, barred: unheld, frees: true},
		{name: "release to a lower count", given: hadTwice, ask: release(own, 1), owner: own, count: 2, barred: unheld},
		{name: "hand-over", given: hadOnce, ask: handOver(own, next), owner: next, barred: notPassed},
	}
}

func fairEffects() []effect {
	const soon = 60 * time.Second
	behind := []waiter{{next, soon}, {third, 150 * time.Second}}
	first := append([]waiter{{own, 40 * time.Second}}, behind...)
	return []effect{
		{name: "fair ask", ask: ask(own), owner: own, barred: notYet},
		{name: "fair ask of a head", given: nobody.waiting(first...), ask: ask(own), owner: own, barred: notYet},
		{name: "fair stand of a head", given: nobody.waiting(first...), ask: stand(own), owner: own, barred: notYet},
		{
			name: "fair release", given: hadOnce.waiting(behind...), ask: fairRelease(own, 0),
			owner: own, count: 1, barred: unheld, frees: true, rewake: true,
		},
		{
			name: "fair release to a lower count", given: hadTwice.waiting(behind...), ask: fairRelease(own, 1),
			owner: own, count: 2, barred: unheld,
		},
	}
}

func fencedEffects() []effect {
	once, twice := hadOnce.fencedBy("41"), hadTwice.fencedBy("41")
	return []effect{
		{name: "fenced acquire", given: nobody.fencedBy("41"), ask: fencedAcquire(own), owner: own, barred: barred},
		{name: "fenced re-enter", given: once, ask: fencedReenter(own, 2, true), owner: own, count: 1, barred: notEntered},
		{name: "fenced extend", given: twice, ask: fencedReenter(own, 3, false), owner: own, count: 2, barred: notEntered},
		{name: "fenced hand-over", given: once, ask: fencedHandOver(own, next), owner: next, barred: notPassed},
	}
}

func readEffects() []effect {
	once := reads(own, 1).marked(readHold(own, 1, old))
	twice := reads(own, 2, foreign, 1).marked(readHold(own, 1, short), readHold(own, 2, old), readHold(foreign, 1, short))
	beside := writes(writer(own), 1)
	return []effect{
		{name: "read acquire", ask: readAcquire(own), owner: own, barred: barred},
		{name: "read acquire beside a writer", given: beside, ask: readAcquire(own), owner: own, barred: heldFor(old)},
		{name: "read re-enter", given: once, ask: readReenter(own, 2), owner: own, count: 1, barred: notEntered},
		{
			name: "read release", given: once, ask: readRelease(own, 0),
			owner: own, count: 1, barred: unheld, frees: true, rewake: true,
		},
		{name: "read release to a lower count", given: twice, ask: readRelease(own, 1), owner: own, count: 2, barred: unheld},
	}
}

func writeEffects() []effect {
	once, twice := writes(writer(own), 1), writes(writer(own), 2)
	reader := writes(writer(own), 1, own, 1).marked(readHold(own, 1, old))
	return []effect{
		{name: "write acquire", ask: writeAcquire(own), owner: writer(own), barred: barred},
		{name: "write re-enter", given: once, ask: writeReenter(own, 2, true), owner: writer(own), count: 1, barred: notEntered},
		{
			name: "write release", given: once, ask: writeRelease(own, 0),
			owner: writer(own), count: 1, barred: unheld, frees: true, rewake: true,
		},
		{name: "write release to a lower count", given: twice, ask: writeRelease(own, 1), owner: writer(own), count: 2, barred: unheld},
		{
			name: "write release that leaves reads", given: reader, ask: writeRelease(own, 0),
			owner: writer(own), count: 1, barred: unheld, frees: true,
		},
	}
}

// otherEffects are harmless whenever they come, or sent again by nobody.
func otherEffects() []effect {
	queue := []waiter{{own, 60 * time.Second}, {next, 150 * time.Second}}
	due := reads(own, 1).lasting(short).marked(readHold(own, 1, short))
	return []effect{
		{name: "settle", given: hadOnce, ask: settle(own)},
		{name: "renew", given: hadOnce.lasting(short), ask: renew(own)},
		{name: "force-release", given: others, ask: forceRelease, frees: true},
		{name: "fair stand", given: others.waiting(waiter{next, 60 * time.Second}), ask: stand(own)},
		{name: "fair leave", given: nobody.waiting(queue...), ask: leave(own)},
		{name: "fair force-release", given: others.waiting(queue...), ask: fairForceRelease, frees: true},
		{name: "fenced forget", given: nobody.fencedBy("41"), ask: fencedForget(41)},
		{name: "read renew", given: due, ask: readRenew(own)},
		{name: "force-release of the read side", given: reads(foreign, 1), ask: forceRead, frees: true},
		{name: "force-release of the write side", given: writes(writer(foreign), 1), ask: forceWrite, frees: true},
	}
}

func TestEveryScriptHasAnEffectInTheTables(t *testing.T) {
	var tried, settled []string
	for i, e := range everyEffect() {
		name := e.ask(&site{lock: strconv.Itoa(i)}).script.Name
		tried = append(tried, name)
		if e.owner != "" {
			settled = append(settled, name)
		}
	}
	for _, script := range lua.Catalog() {
		if slices.Contains([]string{"probe", "inspect", "grouped_inspect", "fence_set"}, script.Name) {
			continue // change no lock
		}
		require.Contains(t, tried, script.Name)
		latch := slices.ContainsFunc(script.Keys, func(p lua.Param) bool { return p.Name == "latch" })
		require.Equal(t, latch && script.Name != "settle", slices.Contains(settled, script.Name), "%s can be settled", script.Name)
	}
}
