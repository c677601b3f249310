package locktest

import (
	"context"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/locktest/probe"
)

var forcePromises = []promise{
	{"ForceUnlockOfAFreeLockIsFalse", queried, (*stage).forcesFree},
	{"ForceUnlockTellsHoldersOfItsOwnProcessAtOnce", queried, (*stage).forcesOwn},                              // RL-16
	{"ForceUnlockOfAnotherProcessIsNoticedAtTheNextRenewal", both(queried, exclusive), (*stage).forcesForeign}, // RL-16
	{"ForceUnlockWakesAWaiter", queried, (*stage).forceWakes},                                                  // RL-16
	{"ForceUnlockEndsReentriesToo", both(queried, reentrant), (*stage).forcesReentered},                        //
}

func (s *stage) force(p *Process, want bool) {
	s.t.Helper()
	freed, err := s.handle(p).ForceUnlock(context.Background())
	s.NoError(err)
	s.Equal(want, freed)
}

func (s *stage) forcesFree() {
	p := s.process()
	s.force(p, false)
	hold := s.take(context.Background(), s.lock(p))
	s.release(hold)
	s.force(p, false)
	s.nothingLeftButForced()
}

func (s *stage) forcesOwn() {
	here, there := s.process(), s.process()
	hold := s.take(context.Background(), s.lock(here))
	s.force(here, true)
	s.ErrorIs(hold.Err(), redlatch.ErrLost)
	s.isLost(hold, redlatch.ErrLost)
	next := s.take(context.Background(), s.rival(there))
	s.ErrorIs(hold.Unlock(context.Background()), redlatch.ErrLost)
	s.isHeld(s.lock(here))
	s.NoError(next.Extend(context.Background(), time.Minute))
	s.release(next)
	s.nothingLeftButForced()
}

func (s *stage) forcesForeign() {
	here, there := s.process(probe.Watchdog(s.lively())), s.process()
	hold := s.take(context.Background(), s.lock(here))
	s.force(there, true)
	next := s.take(context.Background(), s.rival(there), redlatch.WithLease(time.Hour))
	began := time.Now()
	s.isLost(hold, redlatch.ErrLost)
	s.Less(time.Since(began), s.lively(), "a renewal is due every third of the watchdog timeout")
	s.ErrorIs(hold.Unlock(context.Background()), redlatch.ErrLost)
	s.ttlBetween(s.handle(there), 50*time.Minute, time.Hour)
	s.release(next)
	s.nothingLeftButForced()
}

func (s *stage) forceWakes() {
	here, there, operator := s.process(), s.process(probe.Deaf), s.process()
	hold := s.take(context.Background(), s.lock(here))
	waiter := s.queue(context.Background(), s.rival(there))
	waiter.waits()
	s.force(operator, true)
	s.release(waiter.succeeds())
	s.ErrorIs(hold.Unlock(context.Background()), redlatch.ErrLost) // found out by the release
	s.nothingLeftButForced()
}

func (s *stage) forcesReentered() {
	p := s.process(func(c *config.Config) { c.LockWatchdogTimeout = time.Hour })
	outer := s.take(context.Background(), s.lock(p))
	inner := s.take(outer.Context(), s.lock(p))
	s.force(p, true)
	s.isLost(outer, redlatch.ErrLost)
	s.isLost(inner, redlatch.ErrLost)
	again := s.take(redlatch.WithOwner(context.Background(), outer.Owner()), s.lock(p))
	s.ErrorIs(inner.Unlock(context.Background()), redlatch.ErrLost)
	s.ErrorIs(outer.Unlock(context.Background()), redlatch.ErrLost)
	s.NoError(again.Err(), "a later hold of the same owner is none of theirs")
	s.hasCount(p, again.Owner(), 1)
	s.release(again)
	s.nothingLeftButForced()
}
