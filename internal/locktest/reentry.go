package locktest

import (
	"context"
	"sync"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/locktest/probe"
)

var reentryPromises = []promise{
	{"ContextOfHoldEntersAgain", reentrant, (*stage).entersByContext},                              // RL-01
	{"LockIsFreeAfterItsLastReleaseInAnyOrder", reentrant, (*stage).releasesInAnyOrder},            // RL-01
	{"FreshOwnersNeverEnterEachOthersLock", nil, (*stage).freshOwnersExclude},                      // RL-23
	{"WithOwnerSharesOnPurpose", reentrant, (*stage).sharesOwner},                                  // RL-22
	{"OwnerOutlivesItsHolds", nil, (*stage).ownerOutlives},                                         // WD-04
	{"WithoutOwnerOptsOut", exclusive, (*stage).optsOut},                                           //
	{"WithThreadIDNamesTheOwner", reentrant, (*stage).namesThread},                                 // RL-22
	{"OwnerOfAnotherClientIsSomebodyElse", exclusive, (*stage).foreignOwner},                       //
	{"OwnerEntersAgainPastTheQueue", reentrant, (*stage).overtakes},                                //
	{"WaitingCallsOfOneOwnerEnterTogether", reentrant, (*stage).waitersOfOneOwner},                 //
	{"ConcurrentEntriesOfOneOwnerAreCounted", both(reentrant, queried), (*stage).countsEntries},    // RL-22
	{"PartialReleaseKeepsTheLeaseOfTheLastEntry", both(reentrant, queried), (*stage).partialLease}, // RL-02
	{"LeaseOfOneCallDoesNotReachAnother", both(exclusive, queried), (*stage).leasesDoNotLeak},      // RL-04
	{"WatchdogRenewsAnInnerLease", both(reentrant, exclusive), (*stage).renewsInnerLease},          // RL-02, RL-04
	{"SecondEntryOfNonReentrantLockFailsAtOnce", nonReentrant, (*stage).refusesReentry},            // NR-01
	{"OtherOwnersWaitForNonReentrantLock", nonReentrant, (*stage).nonReentrantWaits},               // NR-01
}

func (s *stage) entersByContext() {
	here, there := s.process(), s.process()
	outer := s.take(context.Background(), s.lock(here))
	inner := s.take(outer.Context(), s.lock(here))
	s.Equal(outer.Owner(), inner.Owner())
	innermost, err := s.lock(here).TryLock(inner.Context())
	s.NoError(err)
	s.hasCount(here, outer.Owner(), 3)

	s.release(innermost)
	s.release(inner)
	s.hasCount(here, outer.Owner(), 1)
	s.NoError(outer.Err())
	s.NoError(outer.Context().Err())
	s.isHeld(s.rival(there))
	s.release(outer)
	s.hasCount(here, outer.Owner(), 0)
	s.isFree(s.rival(there))
	s.nothingLeft()
}

// hasCount checks the hold count where the lock can tell it.
func (s *stage) hasCount(p *Process, o redlatch.Owner, want int) {
	s.t.Helper()
	if s.wiring.Composed {
		return
	}
	n, err := s.handle(p).HoldCount(context.Background(), o)
	s.NoError(err)
	s.Equal(want, n)
}

func (s *stage) releasesInAnyOrder() {
	here, there := s.process(), s.process()
	outer := s.take(context.Background(), s.lock(here))
	inner := s.take(outer.Context(), s.lock(here))
	s.release(outer)
	s.ErrorIs(outer.Err(), redlatch.ErrNotHeld)
	s.NoError(inner.Err())
	s.isHeld(s.rival(there))
	s.release(inner)
	s.isFree(s.rival(there))
	s.nothingLeft()
}

func (s *stage) freshOwnersExclude() {
	p := s.process()
	lock, rival := s.lock(p), s.rival(p)
	ctx := context.WithValue(context.Background(), testKey{}, "the same request")
	hold := s.take(ctx, lock)
	other, err := rival.TryLock(ctx)
	s.ErrorIs(err, redlatch.ErrNotAcquired)
	s.Nil(other)
	s.release(hold)
	again := s.take(ctx, lock)
	s.NotEqual(hold.Owner(), again.Owner())
	s.release(again)
}

type testKey struct{}

func (s *stage) sharesOwner() {
	p := s.process()
	owner := p.Client().NewOwner()
	ctx := redlatch.WithOwner(context.Background(), owner)
	first := s.take(ctx, s.lock(p))
	second := make(chan *redlatch.Hold)
	go func() {
		h, err := s.lock(p).TryLock(ctx)
		if err != nil {
			s.complain("enter by WithOwner in another goroutine: %v", err)
		}
		second <- h
	}()
	entered := <-second
	s.NotNil(entered)
	s.Equal(owner.ThreadID(), entered.Owner().ThreadID())
	s.release(first)
	s.isHeld(s.rival(p))
	s.release(entered)
	s.isFree(s.rival(p))
}

func (s *stage) ownerOutlives() {
	p := s.process()
	ctx := redlatch.WithOwner(context.Background(), p.Client().NewOwner())
	for range 3 {
		hold := s.take(ctx, s.lock(p))
		s.NoError(hold.Err())
		s.release(hold)
		s.ErrorIs(hold.Err(), redlatch.ErrNotHeld)
	}
	s.nothingLeft()
}

func (s *stage) optsOut() {
	p := s.process()
	hold := s.take(context.Background(), s.lock(p))
	h, err := s.lock(p).TryLock(redlatch.WithoutOwner(hold.Context()))
	s.ErrorIs(err, redlatch.ErrNotAcquired)
	s.Nil(h)
	s.release(hold)
}

func (s *stage) namesThread() {
	here, there := s.process(), s.process()
	ctx := redlatch.WithThreadID(context.Background(), 42)
	hold := s.take(ctx, s.lock(here))
	s.EqualValues(42, hold.Owner().ThreadID())
	again, err := s.lock(here).TryLock(ctx)
	s.NoError(err)

	s.isHeldBy(ctx, s.rival(there))
	s.isHeldBy(redlatch.WithThreadID(context.Background(), 43), s.rival(here))
	s.release(again)
	s.release(hold)
	s.isFree(s.rival(there))
}

// isHeldBy is isHeld for the owner in ctx.
func (s *stage) isHeldBy(ctx context.Context, l redlatch.Locker) {
	s.t.Helper()
	h, err := l.TryLock(ctx)
	s.ErrorIs(err, redlatch.ErrNotAcquired)
	s.Nil(h)
}

func (s *stage) foreignOwner() {
	here, there := s.process(), s.process()
	hold := s.take(context.Background(), s.lock(here))
	s.isHeldBy(redlatch.WithOwner(context.Background(), hold.Owner()), s.lock(there))
	s.isHeldBy(hold.Context(), s.lock(there))
	s.release(hold)

	foreign := s.take(redlatch.WithOwner(context.Background(), hold.Owner()), s.lock(there))
	s.Equal(hold.Owner().ThreadID(), foreign.Owner().ThreadID())
	s.NotEqual(hold.Owner(), foreign.Owner())
	s.release(foreign)
}

func (s *stage) overtakes() {
	here := s.process()
	hold := s.take(context.Background(), s.lock(here))
	queued := s.queue(context.Background(), s.rival(here))
	again := s.start(hold.Context(), s.lock(here))
	inner := again.succeeds()
	queued.waits()
	s.release(hold)
	s.release(inner)
	s.release(queued.succeeds())
}

func (s *stage) waitersOfOneOwner() {
	here, there := s.process(), s.process()
	rival := s.take(context.Background(), s.rival(there))
	ctx := redlatch.WithOwner(context.Background(), here.Client().NewOwner())
	first := s.queue(ctx, s.lock(here))
	second := s.queue(ctx, s.lock(here))
	s.release(rival)
	a, b := first.succeeds(), second.succeeds() // both, while the first still holds
	s.release(a)
	s.release(b)
	s.isFree(s.rival(there))
	s.nothingLeft()
}

func (s *stage) countsEntries() {
	const entries = 20
	p := s.process()
	ctx := redlatch.WithOwner(context.Background(), p.Client().NewOwner())
	holds := make(chan *redlatch.Hold, entries)
	var wg sync.WaitGroup
	for range entries {
		wg.Go(func() {
			h, err := s.lock(p).Lock(ctx)
			if err != nil {
				s.complain("one of %d entries at once: %v", entries, err)
				return
			}
			holds <- h
		})
	}
	s.finishes(&wg, "20 entries of one owner at once")
	s.Len(holds, entries)
	first := <-holds
	s.hasCount(p, first.Owner(), entries)
	for range entries - 1 {
		h := <-holds
		wg.Go(func() {
			if err := h.Unlock(context.Background()); err != nil {
				s.complain("one of %d releases at once: %v", entries-1, err)
			}
		})
	}
	s.finishes(&wg, "19 releases of one owner at once")
	s.hasCount(p, first.Owner(), 1)
	s.release(first)
	s.nothingLeft()
}

// ttlBetween checks the lock's remaining time.
func (s *stage) ttlBetween(h Handle, low, high time.Duration) {
	s.t.Helper()
	ttl, err := h.RemainingTTL(context.Background())
	s.NoError(err)
	s.Greater(ttl, low)
	s.LessOrEqual(ttl, high)
}

func (s *stage) partialLease() {
	h := s.handle(s.process())
	outer := s.take(context.Background(), h, redlatch.WithLease(time.Minute))
	s.ttlBetween(h, 50*time.Second, time.Minute)
	inner := s.take(outer.Context(), h, redlatch.WithLease(3*time.Minute))
	s.ttlBetween(h, 170*time.Second, 4*time.Minute) // a write lock adds the new lease to what was left
	s.release(inner)
	if !s.wiring.Shared { // the release of a reader leaves the longest of the readers' leases
		s.ttlBetween(h, 170*time.Second, 4*time.Minute)
		s.Greater(time.Until(outer.ValidUntil()), 160*time.Second)
	}
	s.NoError(outer.Err())
	s.release(outer)
	s.nothingLeft()
}

func (s *stage) leasesDoNotLeak() {
	p := s.process()
	h := s.handle(p) // one handle for both
	long := s.take(context.Background(), h, redlatch.WithLease(10*time.Minute))
	watched := s.queue(context.Background(), h)
	s.ttlBetween(h, 9*time.Minute, 10*time.Minute)
	s.release(long)
	hold := watched.succeeds()
	s.ttlBetween(h, config.DefaultLockWatchdogTimeout/2, config.DefaultLockWatchdogTimeout)
	s.LessOrEqual(time.Until(hold.ValidUntil()), config.DefaultLockWatchdogTimeout)
	s.release(hold)
}

func (s *stage) renewsInnerLease() {
	seen := make(probe.Events, 100)
	here, there := s.observed(seen, probe.Watchdog(s.lively())), s.process()
	outer := s.take(context.Background(), s.lock(here))
	inner := s.take(outer.Context(), s.lock(here), redlatch.WithLease(s.lively()))
	for range 4 {
		seen.Await(s.t, redlatch.EventRenewed)
	}
	s.NoError(outer.Err())
	s.NoError(inner.Err())
	s.isHeld(s.rival(there))
	s.release(inner)
	s.release(outer)
}

func (s *stage) refusesReentry() {
	p := s.process()
	hold := s.take(context.Background(), s.lock(p))
	for _, acquire := range []func(context.Context, ...redlatch.AcquireOption) (*redlatch.Hold, error){
		s.lock(p).Lock, s.lock(p).TryLock,
	} {
		for _, opts := range [][]redlatch.AcquireOption{nil, {redlatch.WithWait(time.Minute)}, {redlatch.WithLease(time.Minute)}} {
			h, err := acquire(hold.Context(), opts...)
			s.ErrorIs(err, redlatch.ErrReentry)
			s.Nil(h)
		}
	}
	s.hasCount(p, hold.Owner(), 1)
	s.NoError(hold.Err())
	s.release(hold)
	s.isFree(s.rival(p))
	s.nothingLeft()
}

func (s *stage) nonReentrantWaits() {
	p := s.process()
	hold := s.take(context.Background(), s.lock(p))
	queued := s.queue(redlatch.WithoutOwner(context.WithoutCancel(hold.Context())), s.lock(p))
	queued.waits()
	s.release(hold)
	s.release(queued.succeeds())
}
