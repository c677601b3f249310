package lua_test

import (
	"testing"
	"time"
)

// RL-08, RL-13, RL-14 for every kind: what late_test.go says of the plain lock.

func TestSettledRequestOfAnyKindDoesNotRunLater(t *testing.T) {
	var rows []row
	for _, e := range latchedEffects() {
		rows = append(rows, row{
			promise: e.name, given: e.given, after: e.given.latched(),
			steps: []step{{settle(e.owner), e.count}, {e.ask, e.barred}, {e.ask, e.barred}},
		})
	}
	waits := others.waiting(waiter{next, 60 * time.Second})
	runRows(t, append(rows, []row{
		{
			promise: "fair stand gets no place", given: waits,
			steps: []step{{settle(own), 0}, {stand(own), heldFor(60 * time.Second)}}, after: waits.latched(),
		},
		{
			promise: "fair release still invites the head to a lock that is gone", given: nobody.waiting(waiter{next, 60 * time.Second}),
			steps: []step{{settle(own), 0}, {fairRelease(own, 0), unheld}},
			after: nobody.waiting(waiter{next, 60 * time.Second}).latched(), said: []string{toWaiter(next)},
		},
		{
			promise: "fair stand that arrives after its owner left", given: waits, steps: []step{
				{stand(own), heldFor(60 * time.Second)}, {settle(own), 0}, {leave(own), true}, {stand(own), heldFor(60 * time.Second)},
			}, after: waits.latched(),
		},
	}...))
}

func TestRequestThatArrivesAfterItsEffectWasUndoneChangesNothing(t *testing.T) {
	once := hadOnce.fencedBy("41")
	runRows(t, []row{
		{
			promise: "fair acquire", steps: []step{
				{ask(own), taken}, {settle(own), 1}, {fresh(fairRelease(own, 0)), freed}, {ask(own), notYet},
			}, after: nobody.latched(),
		},
		{
			promise: "fenced acquire, and spends no token", steps: []step{
				{fencedAcquire(own), takenWith(1)}, {settle(own), 1}, {fresh(release(own, 0)), freed}, {fencedAcquire(own), barred},
			}, after: nobody.fencedBy("1").latched(), messages: 1,
		},
		{
			promise: "fenced re-entry, and spends no token", given: once, steps: []step{
				{fencedReenter(own, 2, true), takenWith(42)},
				{settle(own), 2},
				{fresh(release(own, 1)), remains},
				{fencedReenter(own, 2, true), notEntered},
			}, after: holds(own, 1).fencedBy("42").latched(),
		},
		{
			promise: "fenced hand-over, and spends no token", given: once, steps: []step{
				{fencedHandOver(own, next), takenWith(42)},
				{settle(next), 1},
				{fresh(release(next, 0)), freed},
				{fresh(fencedAcquire(own)), takenWith(43)},
				{fencedHandOver(own, next), notPassed},
			}, after: holds(own, 1).fencedBy("43").latched(), messages: 1,
		},
		{
			promise: "read acquire", steps: []step{
				{readAcquire(own), taken}, {settle(own), 1}, {fresh(readRelease(own, 0)), freed}, {readAcquire(own), barred},
			}, after: nobody.latched(), said: []string{onRW("0")},
		},
		{
			promise: "read re-entry", given: reads(own, 1).marked(readHold(own, 1, old)), steps: []step{
				{readReenter(own, 2), taken}, {settle(own), 2}, {fresh(readRelease(own, 1)), remains}, {readReenter(own, 2), notEntered},
			}, after: reads(own, 1).marked(readHold(own, 1, old)).latched(),
		},
		{
			promise: "write acquire", steps: []step{
				{writeAcquire(own), taken}, {settle(writer(own)), 1}, {fresh(writeRelease(own, 0)), freed}, {writeAcquire(own), barred},
			}, after: nobody.latched(), said: []string{onRW("1")},
		},
		{
			promise: "write re-entry", given: writes(writer(own), 1), steps: []step{
				{writeReenter(own, 2, true), taken},
				{settle(writer(own)), 2},
				{fresh(writeRelease(own, 1)), remains},
				{writeReenter(own, 2, true), notEntered},
			}, after: writes(writer(own), 1).atLease().latched(),
		},
	})
}

// Its owner would lose the entries that it has made since: an acquisition counts from 1.
func TestAcquireThatArrivesWhileItsOwnerHoldsTheLockChangesNothing(t *testing.T) {
	twoReads := reads(own, 2).marked(readHold(own, 1, old), readHold(own, 2, old))
	inWrite := writes(writer(own), 2, own, 1).marked(readHold(own, 1, old))
	runRows(t, []row{
		{
			promise: "fair", given: hadTwice,
			steps: []step{{settle(own), 2}, {ask(own), heldFor(old)}}, after: hadTwice.latched(),
		},
		{
			promise: "fair, and gets no place in the queue", given: hadTwice,
			steps: []step{{settle(own), 2}, {stand(own), heldFor(old)}}, after: hadTwice.latched(),
		},
		{
			promise: "fenced", given: hadTwice.fencedBy("41"),
			steps: []step{{settle(own), 2}, {fencedAcquire(own), heldFor(old)}}, after: hadTwice.fencedBy("41").latched(),
		},
		{
			promise: "read", given: twoReads,
			steps: []step{{settle(own), 2}, {readAcquire(own), heldFor(old)}}, after: twoReads.latched(),
		},
		{
			promise: "write", given: inWrite,
			steps: []step{{settle(writer(own)), 2}, {writeAcquire(own), heldFor(old)}}, after: inWrite.latched(),
		},
	})
}

func TestReleaseOfAnyKindSentAgain(t *testing.T) {
	waits := []waiter{{next, 60 * time.Second}}
	twoReads := reads(own, 2).marked(readHold(own, 1, old), readHold(own, 2, old))
	oneRead := reads(own, 1).marked(readHold(own, 1, old))
	runRows(t, []row{
		{
			promise: "fair, is not held, and invites the head once more", given: hadOnce.waiting(waits...),
			steps: []step{{fairRelease(own, 0), freed}, {fairRelease(own, 0), unheld}},
			after: nobody.waiting(waits...), said: []string{toWaiter(next), toWaiter(next)},
		},
		{
			promise: "fair, to a lower count counts once", given: hadTwice,
			steps: []step{{fairRelease(own, 1), remains}, {fairRelease(own, 1), remains}}, after: holds(own, 1),
		},
		{
			promise: "fair, does not free the next owner", given: hadOnce.waiting(waits...),
			steps: []step{{fairRelease(own, 0), freed}, {stand(next), taken}, {fairRelease(own, 0), unheld}},
			after: holds(next, 1), said: []string{toWaiter(next)},
		},
		{
			promise: "fair, leaves the first one barred when the same owner has the lock again", given: hadOnce, steps: []step{
				{fairRelease(own, 0), freed}, {settle(own), 0}, {fresh(ask(own)), taken}, {fairRelease(own, 0), unheld},
			}, after: holds(own, 1).latched(),
		},
		{
			promise: "read, is not held, and invites the waiters once more", given: oneRead,
			steps: []step{{readRelease(own, 0), freed}, {readRelease(own, 0), unheld}}, said: []string{onRW("0"), onRW("0")},
		},
		{
			promise: "read, to a lower count counts once", given: twoReads,
			steps: []step{{readRelease(own, 1), remains}, {readRelease(own, 1), remains}}, after: oneRead,
		},
		{
			promise: "read, does not free the next reader", given: oneRead,
			steps: []step{{readRelease(own, 0), freed}, {readAcquire(next), taken}, {readRelease(own, 0), unheld}},
			after: reads(next, 1).atLease().marked(readHold(next, 1, lease)), said: []string{onRW("0")},
		},
		{
			promise: "read, leaves the first one barred when the same owner is at that count again", given: twoReads, steps: []step{
				{settle(own), 2}, {fresh(readRelease(own, 1)), remains}, {fresh(readReenter(own, 2)), taken}, {readRelease(own, 1), unheld},
			}, after: reads(own, 2).marked(readHold(own, 1, old), readHold(own, 2, lease)).latched(),
		},
		{
			promise: "write, is not held, and invites the waiters once more", given: writes(writer(own), 1),
			steps: []step{{writeRelease(own, 0), freed}, {writeRelease(own, 0), unheld}}, said: []string{onRW("1"), onRW("1")},
		},
		{
			promise: "write, to a lower count counts once", given: writes(writer(own), 2),
			steps: []step{{writeRelease(own, 1), remains}, {writeRelease(own, 1), remains}}, after: writes(writer(own), 1).atLease(),
		},
		{
			promise: "write, is silent after it left the lock to reads", given: writes(writer(own), 1, own, 1).marked(readHold(own, 1, old)),
			steps: []step{{writeRelease(own, 0), freed}, {writeRelease(own, 0), unheld}}, after: oneRead, said: []string{onRW("1")},
		},
		{
			promise: "write, does not free the next writer", given: writes(writer(own), 1),
			steps: []step{{writeRelease(own, 0), freed}, {writeAcquire(next), taken}, {writeRelease(own, 0), unheld}},
			after: writes(writer(next), 1).atLease(), said: []string{onRW("1")},
		},
		{
			promise: "write, leaves the first one barred when the same owner has the lock again", given: writes(writer(own), 1), steps: []step{
				{writeRelease(own, 0), freed}, {settle(writer(own)), 0}, {fresh(writeAcquire(own)), taken}, {writeRelease(own, 0), unheld},
			}, after: writes(writer(own), 1).atLease().latched(), said: []string{onRW("1")},
		},
	})
}

func TestEntryOfAnyKindSentTwiceCountsOnce(t *testing.T) {
	once := hadOnce.fencedBy("41")
	runRows(t, []row{
		{promise: "fair acquire", steps: []step{{ask(own), taken}, {ask(own), taken}}, after: holds(own, 1)},
		{
			promise: "fair acquire out of the queue, and the others move up once",
			given:   nobody.waiting(waiter{own, 60 * time.Second}, waiter{next, 150 * time.Second}),
			steps:   []step{{stand(own), taken}, {stand(own), taken}}, after: holds(own, 1).waiting(waiter{next, 100 * time.Second}),
		},
		{
			promise: "a place in the queue of a fair lock", given: others,
			steps: []step{{stand(own), heldFor(old)}, {stand(own), heldFor(old)}}, after: others.waiting(waiter{own, old + patience}),
		},
		{
			promise: "fenced acquire, and the later token is the greater", steps: []step{
				{fencedAcquire(own), takenWith(1)}, {fencedAcquire(own), takenWith(2)},
			}, after: holds(own, 1).fencedBy("2"),
		},
		{
			promise: "fenced re-entry, and the later token is the greater", given: once, steps: []step{
				{fencedReenter(own, 2, true), takenWith(42)}, {fencedReenter(own, 2, true), takenWith(43)},
			}, after: holds(own, 2).fencedBy("43"),
		},
		{
			promise: "fenced hand-over", given: once,
			steps: []step{{fencedHandOver(own, next), takenWith(42)}, {fencedHandOver(own, next), notPassed}},
			after: holds(next, 1).fencedBy("42"),
		},
		{
			promise: "read acquire", steps: []step{{readAcquire(own), taken}, {readAcquire(own), taken}},
			after: reads(own, 1).atLease().marked(readHold(own, 1, lease)),
		},
		{
			promise: "read re-entry", given: reads(own, 1).marked(readHold(own, 1, old)),
			steps: []step{{readReenter(own, 2), taken}, {readReenter(own, 2), taken}},
			after: reads(own, 2).marked(readHold(own, 1, old), readHold(own, 2, lease)),
		},
		{
			promise: "write acquire", steps: []step{{writeAcquire(own), taken}, {writeAcquire(own), taken}},
			after: writes(writer(own), 1).atLease(),
		},
		{
			promise: "write re-entry, though its lease is added each time", given: writes(writer(own), 1),
			steps: []step{{writeReenter(own, 2, true), taken}, {writeReenter(own, 2, true), taken}},
			after: writes(writer(own), 2).lasting(old + 2*lease),
		},
		{
			promise: "forced release of a fair lock", given: hadOnce.waiting(waiter{next, 60 * time.Second}),
			steps: []step{{fairForceRelease, freed}, {fairForceRelease, notFreed}},
			after: nobody.waiting(waiter{next, 60 * time.Second}), said: []string{toWaiter(next)},
		},
		{
			promise: "forced release of the read side", given: reads(own, 1),
			steps: []step{{forceRead, freed}, {forceRead, notFreed}}, said: []string{onRW("0")},
		},
		{
			promise: "forced release of the write side", given: writes(writer(own), 1),
			steps: []step{{forceWrite, freed}, {forceWrite, notFreed}}, said: []string{onRW("1")},
		},
	})
}
