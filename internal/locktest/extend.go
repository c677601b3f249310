package locktest

import (
	"context"
	"math"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/locktest/probe"
)

var extendPromises = []promise{
	{"ExtendGivesAFixedLeaseMoreTime", nil, (*stage).extendsLonger},
	{"ExtendCanShorten", func(w Wiring) bool { return !w.OnlyLengthens }, (*stage).extendsShorter},
	{"ExtendedLockStaysWatched", exclusive, (*stage).extendsWatched},
	{"ExtendKeepsTheCount", both(reentrant, queried), (*stage).extendKeepsCount},
	{"ExtendOfALostHoldSaysSo", nil, (*stage).extendsLost},
	{"ExtendWithDeadContextOrBadLeaseChangesNothing", nil, (*stage).extendsBadly},
}

func (s *stage) extendsLonger() {
	lease := Span(400 * time.Millisecond)
	here, there := s.process(), s.process()
	began := time.Now()
	hold := s.take(context.Background(), s.lock(here), redlatch.WithLease(lease))
	s.NoError(hold.Extend(context.Background(), 3*lease))
	s.Greater(time.Until(hold.ValidUntil()), lease)
	next := s.take(context.Background(), s.rival(there))
	s.GreaterOrEqual(time.Since(began), 3*lease-20*time.Millisecond)
	s.isLost(hold, redlatch.ErrLost)
	s.release(next)
}

func (s *stage) extendsShorter() {
	here, there := s.process(), s.process()
	hold := s.take(context.Background(), s.lock(here), redlatch.WithLease(time.Hour))
	s.NoError(hold.Extend(context.Background(), Span(200*time.Millisecond)))
	s.LessOrEqual(time.Until(hold.ValidUntil()), Span(200*time.Millisecond))
	next := s.take(context.Background(), s.rival(there))
	s.isLost(hold, redlatch.ErrLost)
	s.release(next)
}

func (s *stage) extendsWatched() {
	seen := make(probe.Events, 100)
	here, there := s.observed(seen, probe.Watchdog(s.lively())), s.process()
	hold := s.take(context.Background(), s.lock(here))
	s.NoError(hold.Extend(context.Background(), s.lively()*2/3))
	began := time.Now()
	for time.Since(began) < s.lively()*3/2 {
		seen.Await(s.t, redlatch.EventRenewed)
	}
	s.NoError(hold.Err())
	s.isHeld(s.rival(there))
	s.release(hold)
}

func (s *stage) extendKeepsCount() {
	p := s.process()
	outer := s.take(context.Background(), s.lock(p))
	inner := s.take(outer.Context(), s.lock(p))
	s.NoError(outer.Extend(context.Background(), time.Hour))
	s.hasCount(p, outer.Owner(), 2)
	s.ttlBetween(s.handle(p), 50*time.Minute, time.Hour)
	s.release(outer)
	s.NoError(inner.Extend(context.Background(), time.Hour))
	s.hasCount(p, outer.Owner(), 1)
	s.release(inner)
	s.nothingLeft()
}

func (s *stage) extendsLost() {
	here, there := s.process(), s.process()
	hold := s.take(context.Background(), s.lock(here), redlatch.WithLease(Span(100*time.Millisecond)))
	s.within(hold.Lost(), "the news that a lease is over")
	s.ErrorIs(hold.Extend(context.Background(), time.Minute), redlatch.ErrLost)
	next := s.take(context.Background(), s.rival(there))
	s.ErrorIs(hold.Extend(context.Background(), time.Minute), redlatch.ErrLost)
	s.NoError(next.Err())
	s.release(next)
	s.nothingLeft()
}

func (s *stage) extendsBadly() {
	p := s.process()
	hold := s.take(context.Background(), s.lock(p), redlatch.WithLease(time.Hour))
	s.sendsNothing(func() {
		for _, lease := range badLeases {
			s.ErrorContains(hold.Extend(context.Background(), lease), "lease")
		}
	})
	until := hold.ValidUntil()
	s.Greater(time.Until(until), 50*time.Minute)
	s.NoError(hold.Err())
	s.release(hold)
}

// badLeases are what no lease can be.
var badLeases = []time.Duration{0, -1, -time.Second, time.Microsecond, time.Millisecond - 1, math.MaxInt64, math.MinInt64}
