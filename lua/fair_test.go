package lua_test

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/lua"
)

// FL-01, FL-02, FL-05, FL-07, FL-08, FL-11, FL-20; wire-protocol.md §5. Two things differ from it on purpose: what is
// answered to a waiter is the time until it is worth asking again, the lesser of the lock's TTL and the time until the
// head counts as dead, and a second at most while the lock is free; and who leaves the head of a free lock's queue wakes the next one.

// patience is for how long a waiter counts as alive. Scores in the tables differ by more than any test lasts.
const patience = 50 * time.Second

func fairAcquire(owner string, stand bool) func(*site) request {
	return func(s *site) request {
		return untyped(lua.FairAcquire(s.fair, s.latch, owner, lease, patience, stand, !s.lenient))
	}
}

// ask wants the lock now or not at all; stand wants a place in the queue.
func ask(owner string) func(*site) request   { return fairAcquire(owner, false) }
func stand(owner string) func(*site) request { return fairAcquire(owner, true) }

func fairRelease(owner string, count int) func(*site) request {
	return func(s *site) request {
		d := lua.Departure{Owner: owner, Count: count, Lease: lease, Publish: s.publish, Strict: !s.lenient}
		return untyped(lua.FairRelease(s.fair, s.latch, d))
	}
}

func leave(owner string) func(*site) request {
	return func(s *site) request { return untyped(lua.FairLeave(s.fair, owner, patience, s.publish)) }
}

func fairForceRelease(s *site) request {
	return untyped(lua.FairForceRelease(s.fair, s.publish, !s.lenient))
}

// notYet is the reply to a waiter for which no time is known at which to ask again.
var notYet = lua.Grant{TTL: forever}

// What asking and standing have in common: when the lock is taken.
func TestFairAcquireTakes(t *testing.T) {
	var rows []row
	for name, acquire := range map[string]func(string) func(*site) request{"asked": ask, "to stand": stand} {
		rows = append(rows, []row{
			{
				promise: name + ", a free lock for which nobody waits, and leaves no queue",
				steps:   []step{{acquire(own), taken}}, after: holds(own, 1),
			},
			{
				promise: name + ", a free lock as the head, and moves all others up by its wait",
				given:   nobody.waiting(waiter{own, 90 * time.Second}, waiter{next, 150 * time.Second}, waiter{third, 210 * time.Second}),
				steps:   []step{{acquire(own), taken}},
				after:   holds(own, 1).waiting(waiter{next, 100 * time.Second}, waiter{third, 160 * time.Second}),
			},
			{
				promise: name + ", a free lock as the only waiter",
				given:   nobody.waiting(waiter{own, 90 * time.Second}),
				steps:   []step{{acquire(own), taken}}, after: holds(own, 1),
			},
			{
				promise: name + ", a free lock as a head without a time of death",
				given:   nobody.waiting(waiter{own, never}, waiter{next, 150 * time.Second}),
				steps:   []step{{acquire(own), taken}}, after: holds(own, 1).waiting(waiter{next, 100 * time.Second}),
			},
			{
				promise: name + ", a free lock, and a time of death without a place goes",
				given:   state{deaths: map[string]time.Duration{own: 90 * time.Second}},
				steps:   []step{{acquire(own), taken}}, after: holds(own, 1),
			},
			{
				promise: name + ", what is left of the same owner, counted from 1",
				given:   hadTwice, steps: []step{{acquire(own), taken}}, after: holds(own, 1),
			},
			{
				promise: name + ", what is left of the same owner, past the waiters and without moving them",
				given:   hadOnce.waiting(waiter{next, 150 * time.Second}),
				steps:   []step{{acquire(own), taken}}, after: holds(own, 1).waiting(waiter{next, 150 * time.Second}),
			},
		}...)
	}
	runRows(t, rows)
}

func TestFairAcquireWithoutStandingTellsWhenToAskAgain(t *testing.T) {
	soon, late := waiter{next, 60 * time.Second}, waiter{next, 150 * time.Second}
	endless := others.lasting(forever)
	behind := nobody.waiting(waiter{next, 60 * time.Second}, waiter{own, 150 * time.Second}, waiter{third, 210 * time.Second})
	var rows []row
	for _, r := range []struct {
		promise string
		given   state
		reply   any
	}{
		{"when a foreign owner's lease ends", others, heldFor(old)},
		{"when a foreign owner's lease ends before the head counts as dead", others.waiting(late), heldFor(old)},
		{"when the head counts as dead before a foreign owner's lease ends", others.waiting(soon), heldFor(soon.death)},
		{"in a moment while a free lock waits for its head", nobody.waiting(soon), heldFor(time.Second)},
		{"in a moment while a free lock waits for its head, to one further behind", behind, heldFor(time.Second)},
		{"when the head of a lock without TTL counts as dead", endless.waiting(soon), heldFor(soon.death)},
		{"that it is not known while a foreign hold has no end", endless, notYet},
		{"that it is not known while the head of a free lock has no time of death", nobody.waiting(waiter{next, never}), notYet},
		{"when a lease ends although the head has no time of death", others.waiting(waiter{next, never}), heldFor(old)},
		{"when a lease ends to the head itself, whenever that counts as dead", others.waiting(waiter{own, 60 * time.Second}), heldFor(old)},
	} {
		// It stands in no queue thereafter (FL-11), and nothing else has changed.
		rows = append(rows, row{promise: r.promise, given: r.given, steps: []step{{ask(own), r.reply}}, after: r.given})
	}
	runRows(t, rows)
}

func TestFairStand(t *testing.T) {
	endless := others.lasting(forever)
	runRows(t, []row{
		{
			promise: "is first behind a foreign owner, and counts as dead its wait after that lease", given: others,
			steps: []step{{stand(own), heldFor(old)}}, after: others.waiting(waiter{own, old + patience}),
		},
		{
			promise: "counts from now where a foreign hold has no end", given: endless,
			steps: []step{{stand(own), notYet}}, after: endless.waiting(waiter{own, patience}),
		},
		{
			promise: "is last, and counts as dead its wait after the last one",
			given:   others.waiting(waiter{next, 60 * time.Second}, waiter{third, 150 * time.Second}),
			steps:   []step{{stand(own), heldFor(60 * time.Second)}},
			after: others.waiting(waiter{next, 60 * time.Second}, waiter{third, 150 * time.Second},
				waiter{own, 150*time.Second + patience}),
		},
		{
			promise: "counts from the foreign lease where the last one has no time of death",
			given:   others.waiting(waiter{next, 60 * time.Second}, waiter{third, never}),
			steps:   []step{{stand(own), heldFor(60 * time.Second)}},
			after:   others.waiting(waiter{next, 60 * time.Second}, waiter{third, never}, waiter{own, old + patience}),
		},
		{
			promise: "is behind the head of a free lock", given: nobody.waiting(waiter{next, 60 * time.Second}),
			steps: []step{{stand(own), heldFor(time.Second)}},
			after: nobody.waiting(waiter{next, 60 * time.Second}, waiter{own, 60*time.Second + patience}),
		},
		{
			promise: "is behind a head without a time of death", given: nobody.waiting(waiter{next, never}),
			steps: []step{{stand(own), notYet}}, after: nobody.waiting(waiter{next, never}, waiter{own, patience}),
		},
		{
			promise: "keeps the place and the time of death that it has as the head", given: others.waiting(waiter{own, 60 * time.Second}),
			steps: []step{{stand(own), heldFor(old)}}, after: others.waiting(waiter{own, 60 * time.Second}),
		},
		{
			promise: "keeps the place and the time of death that it has in the middle",
			given:   others.waiting(waiter{next, 60 * time.Second}, waiter{own, 150 * time.Second}, waiter{third, 210 * time.Second}),
			steps:   []step{{stand(own), heldFor(60 * time.Second)}},
			after:   others.waiting(waiter{next, 60 * time.Second}, waiter{own, 150 * time.Second}, waiter{third, 210 * time.Second}),
		},
		{
			promise: "in turn gives places in turn (FL-02)", given: others,
			steps: []step{
				{fresh(stand(own)), heldFor(old)},
				{fresh(stand(next)), heldFor(old)},
				{fresh(stand(third)), heldFor(old)},
			},
			after: others.waiting(waiter{own, old + patience}, waiter{next, old + 2*patience}, waiter{third, old + 3*patience}),
		},
		{
			promise: "of one that was dropped although it lives is last again (FL-08)",
			given:   others.waiting(waiter{own, -time.Second}, waiter{next, 60 * time.Second}),
			steps:   []step{{stand(own), heldFor(60 * time.Second)}},
			after:   others.waiting(waiter{next, 60 * time.Second}, waiter{own, 60*time.Second + patience}),
		},
	})
}

// FL-01, FL-10: who came first is served first, by exactly one message to exactly that one.
func TestFairLockServesInOrderOfArrival(t *testing.T) {
	runRows(t, []row{{
		promise: "three waiters behind a holder", steps: []step{
			{stand(foreign), taken},
			{stand(own), heldFor(lease)},
			{stand(next), heldFor(lease)},
			{stand(third), heldFor(lease)},
			{fairRelease(foreign, 0), freed},
			{stand(next), heldFor(time.Second)},
			{ask(foreign), heldFor(time.Second)},
			{stand(own), taken},
			{stand(third), heldFor(lease)},
			{fairRelease(own, 0), freed},
			{stand(third), heldFor(time.Second)},
			{stand(next), taken},
			{fairRelease(next, 0), freed},
			{stand(third), taken},
			{fairRelease(third, 0), freed},
		}, said: []string{toWaiter(own), toWaiter(next), toWaiter(third)},
	}})
}

// FL-05: coming and going does not move the time at which a waiter counts as dead.
func TestFairScoresDoNotDrift(t *testing.T) {
	var steps []step
	for range 5 {
		steps = append(steps,
			step{fresh(stand(next)), heldFor(60 * time.Second)},
			step{fresh(stand(third)), heldFor(60 * time.Second)},
			step{leave(next), true},
			step{fresh(stand(next)), heldFor(60 * time.Second)},
			step{leave(third), true},
			step{leave(next), true})
	}
	given := others.waiting(waiter{own, 60 * time.Second})
	runRows(t, []row{{
		promise: "of those who stay", given: given, steps: append(steps, step{stand(third), heldFor(60 * time.Second)}),
		after: others.waiting(waiter{own, 60 * time.Second}, waiter{third, 60*time.Second + patience}),
	}})
}

func TestFairLeave(t *testing.T) {
	three := func(of state) state {
		return of.waiting(waiter{own, 60 * time.Second}, waiter{next, 150 * time.Second}, waiter{third, 210 * time.Second})
	}
	runRows(t, []row{
		{
			promise: "of the only waiter leaves no queue", given: others.waiting(waiter{own, 60 * time.Second}),
			steps: []step{{leave(own), true}}, after: others,
		},
		{
			promise: "of the head of a held lock moves up all others in silence", given: three(others),
			steps: []step{{leave(own), true}},
			after: others.waiting(waiter{next, 100 * time.Second}, waiter{third, 160 * time.Second}),
		},
		{
			promise: "from the middle moves up those behind it alone", given: three(others),
			steps: []step{{leave(next), true}},
			after: others.waiting(waiter{own, 60 * time.Second}, waiter{third, 160 * time.Second}),
		},
		{
			promise: "of the last one moves nobody", given: three(others),
			steps: []step{{leave(third), true}},
			after: others.waiting(waiter{own, 60 * time.Second}, waiter{next, 150 * time.Second}),
		},
		{
			promise: "of the head of a free lock passes its wake-up on to the next", given: three(nobody),
			steps: []step{{leave(own), true}}, said: []string{toWaiter(next)},
			after: nobody.waiting(waiter{next, 100 * time.Second}, waiter{third, 160 * time.Second}),
		},
		{
			promise: "from the middle of a free lock's queue wakes nobody", given: three(nobody),
			steps: []step{{leave(next), true}},
			after: nobody.waiting(waiter{own, 60 * time.Second}, waiter{third, 160 * time.Second}),
		},
		{
			promise: "of the only waiter of a free lock is silent", given: nobody.waiting(waiter{own, 60 * time.Second}),
			steps: []step{{leave(own), true}},
		},
		{
			promise: "of one that does not stand there moves nobody", given: others.waiting(waiter{next, 60 * time.Second}),
			steps: []step{{leave(own), false}}, after: others.waiting(waiter{next, 60 * time.Second}),
		},
		{
			promise: "of one that does not stand before a free lock wakes nobody", given: nobody.waiting(waiter{next, 60 * time.Second}),
			steps: []step{{leave(own), false}}, after: nobody.waiting(waiter{next, 60 * time.Second}),
		},
		{
			promise: "without a queue", steps: []step{{leave(own), false}},
		},
		{
			promise: "takes a time of death without a place with it", given: state{deaths: map[string]time.Duration{own: time.Minute}},
			steps: []step{{leave(own), false}},
		},
		{
			promise: "of one without a time of death takes its place", given: others.waiting(waiter{own, never}, waiter{next, 150 * time.Second}),
			steps: []step{{leave(own), true}}, after: others.waiting(waiter{next, 100 * time.Second}),
		},
		{
			promise: "takes every place of an owner that has two",
			given:   others.waiting(waiter{own, 60 * time.Second}, waiter{next, 150 * time.Second}, waiter{own, 60 * time.Second}),
			steps:   []step{{leave(own), true}}, after: others.waiting(waiter{next, 100 * time.Second}),
		},
		{
			promise: "sent again moves nobody a second time (FL-04)", given: three(others),
			steps: []step{{leave(own), true}, {leave(own), false}},
			after: others.waiting(waiter{next, 100 * time.Second}, waiter{third, 160 * time.Second}),
		},
		{
			promise: "does not give up the lock of one that has it by now", given: hadOnce.waiting(waiter{next, 60 * time.Second}),
			steps: []step{{leave(own), false}}, after: hadOnce.waiting(waiter{next, 60 * time.Second}),
		},
	})
}

// FL-10, FL-19.
func TestFairRelease(t *testing.T) {
	two := []waiter{{next, 60 * time.Second}, {third, 150 * time.Second}}
	runRows(t, []row{
		{
			promise: "the last one frees and wakes the head alone, which keeps its place", given: hadOnce.waiting(two...),
			steps: []step{{fairRelease(own, 0), freed}}, after: nobody.waiting(two...), said: []string{toWaiter(next)},
		},
		{
			promise: "the last one wakes a head that has no time of death", given: hadOnce.waiting(waiter{next, never}),
			steps: []step{{fairRelease(own, 0), freed}}, after: nobody.waiting(waiter{next, never}), said: []string{toWaiter(next)},
		},
		{
			promise: "the last one is silent when nobody waits", given: hadOnce, steps: []step{{fairRelease(own, 0), freed}},
		},
		{
			promise: "to 0 frees whatever the count was", given: hadTwice, steps: []step{{fairRelease(own, 0), freed}},
		},
		{
			promise: "to a lower count keeps the lock for its lease and is silent", given: hadTwice.waiting(two...),
			steps: []step{{fairRelease(own, 1), remains}}, after: holds(own, 1).waiting(two...),
		},
		{
			promise: "of a lock that is gone is not held, and the head is woken once more", given: nobody.waiting(two...),
			steps: []step{{fairRelease(own, 0), unheld}}, after: nobody.waiting(two...), said: []string{toWaiter(next)},
		},
		{
			promise: "of a lock that is gone is silent when nobody waits", steps: []step{{fairRelease(own, 0), unheld}},
		},
		{
			promise: "to a lower count of a lock that is gone does not create it", given: nobody.waiting(two...),
			steps: []step{{fairRelease(own, 1), unheld}}, after: nobody.waiting(two...), said: []string{toWaiter(next)},
		},
		{
			promise: "of a foreign lock touches nothing and is silent", given: others.waiting(two...),
			steps: []step{{fairRelease(own, 0), unheld}}, after: others.waiting(two...),
		},
		{
			promise: "to a lower count of a foreign lock touches nothing", given: others.waiting(two...),
			steps: []step{{fairRelease(own, 1), unheld}}, after: others.waiting(two...),
		},
		{
			promise: "by one that waits touches nothing", given: others.waiting(waiter{own, 60 * time.Second}),
			steps: []step{{fairRelease(own, 0), unheld}}, after: others.waiting(waiter{own, 60 * time.Second}),
		},
	})
}

func TestFairForceRelease(t *testing.T) {
	two := []waiter{{next, 60 * time.Second}, {third, 150 * time.Second}}
	runRows(t, []row{
		{
			promise: "frees a foreign lock and wakes the head alone, which keeps its place", given: others.waiting(two...),
			steps: []step{{fairForceRelease, freed}}, after: nobody.waiting(two...), said: []string{toWaiter(next)},
		},
		{
			promise: "frees all counts of an owner, and is silent when nobody waits", given: hadTwice,
			steps: []step{{fairForceRelease, freed}},
		},
		{
			promise: "frees a lock that has no TTL", given: others.lasting(forever), steps: []step{{fairForceRelease, freed}},
		},
		{
			promise: "of a free lock wakes nobody", given: nobody.waiting(two...),
			steps: []step{{fairForceRelease, notFreed}}, after: nobody.waiting(two...),
		},
		{
			promise: "of a free lock for which nobody waits", steps: []step{{fairForceRelease, notFreed}},
		},
	})
}

// Each of the three that see the queue's head drops the dead ones first. FL-20: nothing else ever removes them.
func TestFairDropsDeadHeads(t *testing.T) {
	const dead, longDead, alive = -time.Second, -time.Hour, 150 * time.Second
	calls := []struct {
		name   string
		given  state
		ask    func(*site) request
		reply  any
		after  state
		wakes  bool
		queued bool // the asking owner then stands last
	}{
		{name: "asking", given: others, ask: ask(own), reply: heldFor(old), after: others},
		{name: "standing", given: others, ask: stand(own), reply: heldFor(old), after: others, queued: true},
		{name: "releasing", given: hadOnce, ask: fairRelease(own, 0), reply: freed, wakes: true},
		{name: "releasing to a lower count", given: hadTwice, ask: fairRelease(own, 1), reply: remains, after: holds(own, 1)},
		{name: "releasing what is gone", ask: fairRelease(own, 0), reply: unheld, wakes: true},
		{name: "releasing what is foreign", given: others, ask: fairRelease(own, 0), reply: unheld, after: others},
		{name: "releasing by force", given: others, ask: fairForceRelease, reply: freed, wakes: true},
		{name: "releasing by force what is gone", ask: fairForceRelease, reply: notFreed},
	}
	var rows []row
	for _, c := range calls {
		// The walk ends at the first one that lives, or has no time of death: a dead one behind it stays.
		for stays, waiters := range map[string][]waiter{
			"alive":                   {{next, alive}, {foreign, dead}},
			"without a time of death": {{next, never}, {foreign, dead}},
		} {
			given := append([]waiter{{"dead:1", longDead}, {"dead:2", dead}}, waiters...)
			after := waiters
			if c.queued {
				after = append(after, waiter{own, dead + patience})
			}
			r := row{
				promise: c.name + ", up to one " + stays, given: c.given.waiting(given...),
				steps: []step{{c.ask, c.reply}}, after: c.after.waiting(after...),
			}
			if c.wakes {
				r.said = []string{toWaiter(next)}
			}
			rows = append(rows, r)
		}
		after := c.after
		if c.queued {
			after = after.waiting(waiter{own, old + patience})
		}
		rows = append(rows, row{
			promise: c.name + ", all of them", given: c.given.waiting(waiter{"dead:1", longDead}, waiter{"dead:2", dead}),
			steps: []step{{c.ask, c.reply}}, after: after,
		})
	}
	runRows(t, append(rows, []row{
		{
			promise: "asking for a free lock whose waiters all died gets it",
			given:   nobody.waiting(waiter{"dead:1", longDead}, waiter{"dead:2", dead}),
			steps:   []step{{ask(own), taken}}, after: holds(own, 1),
		},
		{
			promise: "standing before a free lock gets it as the first that lives",
			given:   nobody.waiting(waiter{"dead:1", dead}, waiter{own, 60 * time.Second}, waiter{next, alive}),
			steps:   []step{{stand(own), taken}}, after: holds(own, 1).waiting(waiter{next, alive - patience}),
		},
	}...))
}

// The clock that counts is the server's, and a waiter is dead from the very millisecond that its score names.
func TestFairCountsTheDeadByTheServersClock(t *testing.T) {
	now := time.UnixMilli(4_102_444_800_999) // far from any client's own time
	server := miniredis.RunT(t)
	server.SetTime(now)
	conn := connect(t, server)
	for name, c := range map[string]struct {
		given state
		ask   func(*site) request
	}{
		"asking": {others, ask(own)}, "releasing": {hadOnce, fairRelease(own, 0)}, "releasing by force": {others, fairForceRelease},
	} {
		for _, death := range []time.Duration{-time.Millisecond, 0, time.Millisecond} {
			s := newSite(t, conn, "PUBLISH", "lock "+name+death.String())
			require.Equal(t, now.UnixMilli(), s.epoch)
			s.set(t, c.given.waiting(waiter{next, death}))
			_, err := c.ask(s).run(t.Context(), conn)
			require.NoError(t, err)
			queue, alive := s.keys(t)[s.fair.Queue]
			require.Equal(t, death > 0, alive, "%s, %v before death: %s", name, death, queue)
		}
	}
}

// While the lock is free, the one whose turn it is will take it, and that moves the times of death. Who was sent away
// until such a time would sleep on when its own turn has come.
func TestFairSendsNobodyAwayForLongFromAFreeLock(t *testing.T) {
	server := miniredis.RunT(t)
	server.SetTime(time.UnixMilli(4_102_444_800_999))
	conn := connect(t, server)
	for death, again := range map[time.Duration]time.Duration{
		time.Millisecond: time.Millisecond, 999 * time.Millisecond: 999 * time.Millisecond, time.Second: time.Second,
		1001 * time.Millisecond: time.Second, time.Hour: time.Second,
	} {
		s := newSite(t, conn, "PUBLISH", "lock "+death.String())
		s.set(t, nobody.waiting(waiter{next, death}))
		value, err := ask(own)(s).run(t.Context(), conn)
		s.requireReply(t, 1, lua.Grant{TTL: again}, value, err)
	}
}
