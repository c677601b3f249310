package locktest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/locktest/probe"
)

var handOffPromises = []promise{
	{"OtherProcessesAreNotStarvedByHandOffs", listens, (*stage).starvesNobody},
	{"HandOverCostsOneScript", both(handsOver, counted), (*stage).handOverCosts},
	{"NoHandOffSendsEachReleaseThroughRedis", both(both(handsOver, listens), counted), (*stage).noHandOff},
	{"HandOffLimitEndsASeries", both(both(handsOver, listens), counted), (*stage).limitsSeries},
	{"WaiterThatLeavesDuringAHandOverLeavesNothing", nil, (*stage).leavesDuringHandOver}, // RL-14, WD-08
	{"HandedOverHoldIsLikeAnyOther", queried, (*stage).handedOverHold},
}

// starvesNobody keeps a lock hot in one process; another one gets it all the same. Nobody promises that to one who polls: the lock can be
// taken each time that it asks.
func (s *stage) starvesNobody() {
	here, there := s.process(), s.process()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var rounds atomic.Int64
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := redlatch.Do(context.Background(), s.rival(here), func(context.Context) error { return nil }); err != nil {
					s.complain("keep the lock hot: %v", err)
					return
				}
				rounds.Add(1)
			}
		})
	}
	s.until(func() bool { return rounds.Load() > 20 })
	for range 3 {
		s.release(s.take(context.Background(), s.lock(there), redlatch.WithWait(4*patience))) // on a busy machine it is seldom free
	}
	close(stop)
	s.finishes(&wg, "the end of the loops")
	s.nothingLeft()
}

// patient makes hand-offs end by their number alone.
func patient(limit int) func(*config.Config) {
	return func(c *config.Config) { c.HandOffLimit, c.HandOffWindow = limit, time.Minute }
}

// passOn lets one waiter of p wait for the release of a hold and have the lock, and returns the hold and what that cost.
// All scripts must be known to the server.
func (s *stage) passOn(p *Process, hold *redlatch.Hold) (next *redlatch.Hold, cost map[string]int64) {
	s.t.Helper()
	s.site.ResetCommands(s.t)
	waiter := s.queue(context.Background(), s.lock(p))
	if s.wiring.Listens { // it asks, subscribes, and asks again
		s.until(func() bool { return s.site.Commands(s.t)["evalsha"] >= 2 })
	}
	s.isHeld(s.lock(p)) // answered after what the waiter asked: they share a connection
	cost = s.sends(func() {
		s.release(hold)
		next = waiter.succeeds()
	})
	return next, cost
}

// warmUp makes all scripts known to the server.
func (s *stage) warmUp(p *Process) *redlatch.Hold {
	s.t.Helper()
	hold := s.take(context.Background(), s.lock(p))
	for range 3 {
		hold, _ = s.passOn(p, hold)
	}
	s.release(hold)
	return s.take(context.Background(), s.lock(p))
}

// handOverCosts looks for a single hand-over: a waiter that happens to ask the server at the moment of the release is none
// that the lock could be handed to.
func (s *stage) handOverCosts() {
	p := s.process(probe.Deaf, patient(10_000))
	hold := s.warmUp(p)
	var cost map[string]int64
	s.until(func() bool {
		hold, cost = s.passOn(p, hold)
		return cost["publish"] == 0 && cost["evalsha"] == 1
	})
	s.Equal(s.acknowledgements(), cost["wait"])
	s.release(hold)
	s.nothingLeft()
}

func (s *stage) noHandOff() {
	p := s.process(probe.Deaf, patient(config.NoHandOff))
	hold := s.warmUp(p)
	for range 10 {
		var cost map[string]int64
		hold, cost = s.passOn(p, hold)
		s.EqualValues(max(s.wiring.Messages, 1), cost["publish"], "each release is told")
		s.GreaterOrEqual(cost["evalsha"], int64(2))
	}
	s.release(hold)
	s.nothingLeft()
}

func (s *stage) limitsSeries() {
	const limit = 3
	p := s.process(probe.Deaf, patient(limit))
	hold := s.warmUp(p)
	series, longest := 0, 0
	for round := 0; round < 8 || longest < limit; round++ {
		s.Less(round, 200, "the longest series was %d of %d", longest, limit)
		var cost map[string]int64
		if hold, cost = s.passOn(p, hold); cost["publish"] > 0 {
			series = 0
			continue
		}
		series++
		longest = max(longest, series)
		s.LessOrEqual(series, limit)
	}
	s.release(hold)
	s.nothingLeft()
}

// leavesDuringHandOver lets waiters give up just when the lock is given to them.
func (s *stage) leavesDuringHandOver() {
	here, there := s.process(probe.Deaf, patient(1000)), s.process(probe.Deaf)
	for range s.rounds(40) {
		hold := s.take(context.Background(), s.lock(here))
		waiter := s.queue(context.Background(), s.lock(here))
		go waiter.giveUp(errGivenUp)
		s.release(hold)
		s.within(waiter.done, "a waiter that gives up")
		if waiter.err == nil {
			s.release(waiter.hold)
		} else {
			s.ErrorIs(waiter.err, errGivenUp)
		}
		s.release(s.take(context.Background(), s.rival(there))) // within 10 s, of a TTL of 30 s
	}
	s.nothingLeft()
}

func (s *stage) handedOverHold() {
	seen := make(probe.Events, 1000)
	here, there := s.observed(seen, probe.Watchdog(s.lively()), patient(100)), s.process()
	first := s.take(context.Background(), s.lock(here), redlatch.WithLease(time.Hour))
	if s.wiring.Shared {
		s.release(first)
	}
	second := s.queue(context.Background(), s.lock(here)) // without a lease: to be renewed
	if !s.wiring.Shared {
		s.release(first)
	}
	hold := second.succeeds()
	s.LessOrEqual(time.Until(hold.ValidUntil()), s.lively())
	s.ttlBetween(s.handle(here), 0, s.lively())
	began := time.Now()
	for time.Since(began) < s.lively()*3/2 {
		seen.Await(s.t, redlatch.EventRenewed)
	}
	s.NoError(hold.Err())
	s.isHeld(s.rival(there))
	s.release(hold)

	fixed := s.take(context.Background(), s.lock(here))
	last := s.start(context.Background(), s.lock(here), redlatch.WithLease(Span(200*time.Millisecond)))
	s.release(fixed)
	lost := last.succeeds()
	s.isLost(lost, redlatch.ErrLost)
	s.becomesFree(s.rival(there))
	s.nothingLeft()
}
