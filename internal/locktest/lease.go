package locktest

import (
	"context"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/locktest/probe"
)

// lively is a watchdog timeout for tests that wait for renewals. They are due after a third of it, so that nobody must sleep for
// two thirds; on a slow topology they take a part of that for themselves.
func (s *stage) lively() time.Duration {
	if s.wiring.Topology.Slow {
		return Span(1300 * time.Millisecond)
	}
	return Span(900 * time.Millisecond)
}

var leasePromises = []promise{
	{"LeaseEndsAndItsHolderIsTold", nil, (*stage).leaseEnds},                    //
	{"NobodyElseGetsInWhileAHoldIsTrusted", exclusive, (*stage).trustEndsFirst}, //
	{"FixedLeaseIsNeverRenewed", nil, (*stage).fixedLease},                      // WD-02
	{"WatchdogKeepsTheLock", nil, (*stage).watchdogKeeps},                       // WD-01
	{"WatchdogRenewsInTime", queried, (*stage).renewsInTime},                    // WD-01
	{"MaxHoldStopsTheWatchdog", nil, (*stage).maxHold},                          // WD-19
	{"NothingIsRenewedAfterItsRelease", nil, (*stage).renewalEnds},              // WD-07, WD-08
	{"NewHoldAfterALossIsRenewed", nil, (*stage).renewsAfterLoss},               // WD-04
	{"CallWithoutLeaseTakesTheWatchdogTimeout", queried, (*stage).defaultLease}, // RL-04
	{"ShortestLeaseIsAHoldOrAnError", nil, (*stage).shortestLease},              //
	{"EventsTellTheStoryOfAHold", nil, (*stage).tellsEvents},                    //
	{"WatchdogRenewsManyLocksOfOneClient", exclusive, (*stage).renewsMany},      // WD-11
}

// isLost says that a hold ended before its release, in every way that it can be asked.
func (s *stage) isLost(h *redlatch.Hold, cause error) {
	s.t.Helper()
	s.within(h.Lost(), "the news that a lock is lost")
	s.within(h.Context().Done(), "the end of a lost hold's context")
	s.ErrorIs(context.Cause(h.Context()), cause)
	s.ErrorIs(h.Context().Err(), context.Canceled)
	s.ErrorIs(h.Err(), cause)
	s.NotErrorIs(h.Err(), redlatch.ErrNotHeld)
	s.Zero(h.ValidUntil())
}

func (s *stage) leaseEnds() {
	lease := Span(300 * time.Millisecond)
	p := s.process()
	before := time.Now()
	hold := s.take(context.Background(), s.lock(p), redlatch.WithLease(lease))
	until := hold.ValidUntil()
	s.False(until.After(time.Now().Add(lease)), "trust is counted from before the request, less a margin")
	s.True(until.After(before.Add(lease / 2)))
	s.isLost(hold, redlatch.ErrLost)
	s.False(time.Now().Before(until))
	s.ErrorIs(hold.Unlock(context.Background()), redlatch.ErrLost)
	s.becomesFree(s.rival(p))
	s.nothingLeft()
}

func (s *stage) trustEndsFirst() {
	here, there := s.process(), s.process()
	for range 5 {
		hold := s.take(context.Background(), s.lock(here), redlatch.WithLease(Span(150*time.Millisecond)))
		until := hold.ValidUntil()
		next := s.take(context.Background(), s.rival(there))
		now := time.Now()
		s.False(now.Before(until), "another process got in %v before the trust ended", until.Sub(now))
		s.Error(hold.Err())
		s.Error(hold.Context().Err())
		s.release(next)
		s.ErrorIs(hold.Unlock(context.Background()), redlatch.ErrLost)
	}
}

func (s *stage) fixedLease() {
	lease := Span(600 * time.Millisecond)
	seen := make(probe.Events, 100)
	here, there := s.observed(seen, probe.Watchdog(lease/2)), s.process()
	began := time.Now()
	hold := s.take(context.Background(), s.lock(here), redlatch.WithLease(lease))
	next := s.take(context.Background(), s.rival(there)) // several renewals would have been due
	took := time.Since(began)
	s.GreaterOrEqual(took, lease-20*time.Millisecond)
	s.Less(took, lease+slack)
	s.isLost(hold, redlatch.ErrLost)
	s.release(next)
	s.ErrorIs(hold.Unlock(context.Background()), redlatch.ErrLost)
	for lost := false; !lost; {
		event := <-seen // the loss comes, since Lost has told of it
		s.NotEqual(redlatch.EventRenewed, event.Kind)
		lost = event.Kind == redlatch.EventLost
	}
}

func (s *stage) watchdogKeeps() {
	seen := make(probe.Events, 100)
	here, there := s.observed(seen, probe.Watchdog(s.lively())), s.process()
	began := time.Now()
	hold := s.take(context.Background(), s.lock(here))
	for time.Since(began) < 3*s.lively() {
		seen.Await(s.t, redlatch.EventRenewed)
		s.NoError(hold.Err())
		s.isHeld(s.rival(there))
	}
	s.NoError(hold.Context().Err())
	s.release(hold)
	s.isFree(s.rival(there))
	s.nothingLeft()
}

// renewsInTime looks at the TTL again and again.
func (s *stage) renewsInTime() {
	p := s.process(probe.Watchdog(s.lively()))
	h := s.handle(p)
	hold := s.take(context.Background(), h)
	lowest, began := s.lively(), time.Now()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for ; time.Since(began) < s.lively()*3/2; <-ticker.C {
		ttl, err := h.RemainingTTL(context.Background())
		s.NoError(err)
		lowest = min(lowest, ttl)
	}
	s.Greater(lowest, s.lively()/3, "a renewal is due when two thirds are left")
	s.release(hold)
}

func (s *stage) maxHold() {
	limit := Span(700 * time.Millisecond)
	here, there := s.process(probe.Watchdog(limit/2)), s.process()
	began := time.Now()
	hold := s.take(context.Background(), s.lock(here), redlatch.WithMaxHold(limit))
	s.isHeld(s.rival(there))
	next := s.take(context.Background(), s.rival(there))
	took := time.Since(began)
	s.GreaterOrEqual(took, limit-20*time.Millisecond)
	s.Less(took, limit+limit/2+slack)
	s.isLost(hold, redlatch.ErrLost)
	s.release(next)
}

// renewalEnds lets a second lock tell the time: when it has been renewed again and again, the first one would have been too.
func (s *stage) renewalEnds() {
	seen := make(probe.Events, 1000)
	p := s.observed(seen, probe.Watchdog(s.lively()))
	clock := s.take(context.Background(), s.wiring.New(p, "the clock"))
	for range 5 {
		s.release(s.take(context.Background(), s.lock(p)))
	}
	for range 4 {
		v := seen.Await(s.t, redlatch.EventRenewed)
		s.NotEqual(lockName, v.Name)
	}
	s.NoError(clock.Err())
	s.release(clock)
	s.nothingLeft()
}

func (s *stage) renewsAfterLoss() {
	seen := make(probe.Events, 1000)
	p := s.observed(seen, probe.Watchdog(s.lively()))
	ctx := redlatch.WithOwner(context.Background(), p.Client().NewOwner())
	lost := s.take(ctx, s.lock(p), redlatch.WithLease(Span(100*time.Millisecond)))
	s.isLost(lost, redlatch.ErrLost)
	hold := s.take(ctx, s.lock(p)) // the same owner
	began := time.Now()
	for time.Since(began) < s.lively()*3/2 {
		seen.Await(s.t, redlatch.EventRenewed)
	}
	s.NoError(hold.Err())
	s.ErrorIs(lost.Unlock(context.Background()), redlatch.ErrLost)
	s.NoError(hold.Err())
	s.isHeld(s.rival(s.process()))
	s.release(hold)
	s.nothingLeft()
}

func (s *stage) defaultLease() {
	h := s.handle(s.process())
	hold := s.take(context.Background(), h)
	s.ttlBetween(h, config.DefaultLockWatchdogTimeout-5*time.Second, config.DefaultLockWatchdogTimeout)
	s.LessOrEqual(time.Until(hold.ValidUntil()), config.DefaultLockWatchdogTimeout)
	s.release(hold)
}

func (s *stage) shortestLease() {
	p := s.process()
	for range 20 {
		hold, err := s.lock(p).TryLock(context.Background(), redlatch.WithLease(time.Millisecond))
		if err == nil {
			s.isLost(hold, redlatch.ErrLost)
			s.ErrorIs(hold.Unlock(context.Background()), redlatch.ErrLost)
		} else {
			s.ErrorIs(err, redlatch.ErrNotAcquired)
		}
	}
	s.becomesFree(s.rival(p))
	s.nothingLeft()
}

func (s *stage) tellsEvents() {
	seen := make(probe.Events, 100)
	here, there := s.observed(seen), s.process()
	s.release(s.take(context.Background(), s.lock(here)))
	acquired := seen.Await(s.t, redlatch.EventAcquired)
	released := seen.Await(s.t, redlatch.EventReleased)
	s.NoError(released.Err)
	s.Equal(acquired.Owner, released.Owner)

	rival := s.take(context.Background(), s.rival(there))
	s.isHeld(s.lock(here))
	s.ErrorIs(seen.Await(s.t, redlatch.EventNotAcquired).Err, redlatch.ErrNotAcquired)
	s.release(rival)

	hold := s.take(context.Background(), s.lock(here), redlatch.WithLease(Span(50*time.Millisecond)))
	lost := seen.Await(s.t, redlatch.EventLost)
	s.ErrorIs(lost.Err, redlatch.ErrLost)
	s.Equal(hold.Owner(), lost.Owner)
}

func (s *stage) renewsMany() {
	locks := 30
	if s.wiring.Topology.frugal() {
		locks = 15
	}
	seen := make(probe.Events, 10_000)
	p := s.observed(seen, probe.Watchdog(s.lively()), func(c *config.Config) { c.LockWatchdogBatchSize = 7 })
	var holds []*redlatch.Hold
	for i := range locks {
		holds = append(holds, s.take(context.Background(), s.wiring.New(p, lockName+string(rune('A'+i)))))
	}
	began := time.Now()
	for time.Since(began) < 2*s.lively() {
		seen.Await(s.t, redlatch.EventRenewed)
	}
	for _, h := range holds {
		s.NoError(h.Err())
	}
	for _, h := range holds[1:] {
		s.release(h)
	}
	s.NoError(holds[0].Err())
	s.release(holds[0])
	s.nothingLeft()
}
