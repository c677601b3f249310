package multilock_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/locktest"
	"github.com/redlatch/redlatch/internal/locktest/probe"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/multilock"
	"github.com/redlatch/redlatch/rlock"
)

func TestRedTakesAllMembersThatItCanHave(t *testing.T) {
	t.Parallel()
	s := startServers(t, 3)
	here, there := s.process(t), s.process(t)
	require.Equal(t, key, here.Name())
	hold := probe.Take(t, here.Lock)
	require.Equal(t, 3, s.holders(t))
	require.Equal(t, here.clients[0].ID(), hold.Owner().ClientID())
	probe.IsHeld(t, there.Lock)
	inner, err := here.TryLock(hold.Context())
	require.NoError(t, err)
	probe.Release(t, inner)
	probe.IsHeld(t, there.Lock)
	probe.Release(t, hold)
	require.Zero(t, s.holders(t))
	probe.IsFree(t, there.Lock)
}

// ML-16
func TestServerThatDoesNotAnswerCostsAboutOneCommandTimeout(t *testing.T) {
	t.Parallel()
	s := startServers(t, 3)
	p := s.process(t, func(c *config.Config) { c.Timeout = answerTime })
	p.warm(t)
	s.of[0].Stop(t)
	for _, opts := range [][]redlatch.AcquireOption{nil, {redlatch.WithWait(time.Minute)}, {redlatch.WithWait(0)}} {
		began := time.Now()
		hold, err := p.Lock.Lock(background, opts...)
		require.NoError(t, err)
		require.Less(t, time.Since(began), 2*answerTime)
		probe.Release(t, hold)
		require.Less(t, time.Since(began), 3*answerTime)
	}
	s.of[0].Cont(t)
	s.nothingStays(t)
}

// ML-16
func TestServerThatIsDeadCostsNothing(t *testing.T) {
	t.Parallel()
	s := startServers(t, 3)
	p := s.process(t)
	p.warm(t)
	s.relays[1].Down()
	for _, opts := range [][]redlatch.AcquireOption{nil, {redlatch.WithWait(time.Minute)}, {redlatch.WithWait(0)}} {
		began := time.Now()
		hold, err := p.Lock.Lock(background, opts...)
		require.NoError(t, err)
		require.Less(t, time.Since(began), time.Second, "the pause of a retry alone is longer")
		require.Equal(t, 2, s.holders(t))
		probe.IsHeld(t, s.otherThan(t, 1))
		probe.Release(t, hold)
		require.Zero(t, s.holders(t))
	}
}

func TestSlowServerIsWaitedForAndHeld(t *testing.T) {
	t.Parallel()
	s := startServers(t, 3)
	p := s.process(t)
	p.warm(t)
	answer := make(chan struct{})
	slow := s.relays[2].Next(redistest.SendsScript(key), redistest.HoldReply(answer))
	waiter := probe.Start(t, background, p.Lock)
	slow.AwaitReply(t)
	close(answer)
	probe.Release(t, waiter.Succeeds())
	require.Zero(t, s.holders(t))
}

func TestMajorityOfDeadServersIsAnErrorWithTheirWords(t *testing.T) {
	t.Parallel()
	s := startServers(t, 3)
	p := s.process(t, hasty)
	p.warm(t)
	s.relays[0].Down()
	s.relays[2].Down()
	for _, opts := range [][]redlatch.AcquireOption{nil, {redlatch.WithWait(time.Minute)}, {redlatch.WithWait(0)}} {
		_, err := p.Lock.Lock(background, opts...)
		require.NotErrorIs(t, err, redlatch.ErrNotAcquired, "broken servers are no contention")
		require.ErrorContains(t, err, "member 1")
		require.ErrorContains(t, err, "member 3")
		require.ErrorContains(t, err, "refused")
		require.NotContains(t, err.Error(), "member 2")
		require.Zero(t, s.holders(t))
	}
}

func TestMajorityThatComesBackIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := startServers(t, 3)
	p := s.process(t)
	p.Paced(5 * brisk)
	s.relays[0].Down()
	s.relays[2].Down()
	waiter := probe.Start(t, background, p.Lock)
	for range 3 {
		p.seen.Await(t, redlatch.EventNotAcquired, key)
	}
	s.relays[2].Up(t)
	hold := waiter.Succeeds()
	require.Equal(t, 2, s.holders(t))
	probe.Release(t, hold)
}

// A majority is missing although neither the dead server nor the other holder alone would be enough for that: it is worth waiting.
func TestDeadServerAndAnotherHolderTogetherAreContention(t *testing.T) {
	t.Parallel()
	s := startServers(t, 3)
	here, there := s.process(t, probe.Deaf), s.process(t)
	s.relays[0].Down()
	rival := probe.Take(t, there.members[1])
	_, err := here.TryLock(background)
	require.ErrorIs(t, err, redlatch.ErrNotAcquired)
	require.ErrorContains(t, err, "member 1")
	require.ErrorContains(t, err, "member 2")
	waiter := probe.Start(t, background, here.Lock)
	waited(t, s.of[1], key)
	probe.Release(t, rival)
	probe.Release(t, waiter.Succeeds())
	require.Zero(t, s.holders(t))
}

// ML-17
func TestMinorityOfSomebodyElseIsNeitherNeededNorFreed(t *testing.T) {
	t.Parallel()
	for minority := range 3 {
		s := startServers(t, 3)
		here, there := s.process(t), s.process(t)
		rival := probe.Take(t, there.members[minority])
		for _, opts := range [][]redlatch.AcquireOption{nil, {redlatch.WithLease(time.Minute)}, {redlatch.WithWait(0)}} {
			hold, err := here.Lock.Lock(background, opts...)
			require.NoError(t, err)
			require.NoError(t, hold.Unlock(background))
			require.NoError(t, rival.Err())
			require.Equal(t, 1, s.holders(t))
		}
		probe.Release(t, rival)
		s.nothingStays(t)
	}
}

func TestLossOfAMinorityIsTolerated(t *testing.T) {
	t.Parallel()
	s := startServers(t, 3)
	p := s.process(t)
	hold := probe.Take(t, p.Lock)
	whole := hold.ValidUntil()
	force(t, p.members[0])
	require.NoError(t, hold.Err())
	require.NoError(t, hold.Context().Err())
	require.False(t, hold.ValidUntil().IsZero())
	require.False(t, hold.ValidUntil().After(whole.Add(time.Second)))
	require.NoError(t, hold.Extend(background, time.Hour))
	require.NoError(t, hold.Unlock(background), "a majority has held to the end")
	s.nothingStays(t)
}

func TestLossOfTheMajorityIsALossAndSaysWhy(t *testing.T) {
	t.Parallel()
	s := startServers(t, 3)
	p := s.process(t)
	hold := probe.Take(t, p.Lock)
	force(t, p.members[0])
	require.NoError(t, hold.Err())
	force(t, p.members[2])
	isLost(t, hold, redlatch.ErrLost)
	why := context.Cause(hold.Context())
	require.ErrorContains(t, why, "member 1")
	require.ErrorContains(t, why, "member 3")
	require.ErrorContains(t, why, "by force")
	require.Equal(t, 1, s.holders(t))
	require.ErrorIs(t, hold.Extend(background, time.Hour), redlatch.ErrLost)
	require.ErrorIs(t, hold.Unlock(background), redlatch.ErrLost)
	s.nothingStays(t)
}

// A minority that was never had is part of what may be lost.
func TestHoldOfABareMajorityIsLostWithAnyMember(t *testing.T) {
	t.Parallel()
	s := startServers(t, 3)
	here, there := s.process(t), s.process(t)
	rival := probe.Take(t, there.members[1])
	hold := probe.Take(t, here.Lock)
	force(t, here.members[0])
	isLost(t, hold, redlatch.ErrLost)
	require.ErrorIs(t, hold.Unlock(background), redlatch.ErrLost)
	probe.Release(t, rival)
}

func TestRedIsValidAsLongAsAMajority(t *testing.T) {
	t.Parallel()
	s := startServers(t, 3)
	var members []redlatch.Locker
	for i, timeout := range []time.Duration{time.Minute, 10 * time.Second, 30 * time.Second} {
		members = append(members, rlock.New(probe.Open(t, s.of[i].URL(), probe.Watchdog(timeout)), key))
	}
	hold := probe.Take(t, multilock.NewRed(members...))
	left := time.Until(hold.ValidUntil())
	require.LessOrEqual(t, left, 30*time.Second, "two of them can be trusted so long")
	require.Greater(t, left, 20*time.Second)
	force(t, members[2])
	require.LessOrEqual(t, time.Until(hold.ValidUntil()), 10*time.Second)
	probe.Release(t, hold)
}

// The Redlock algorithm: lease − time spent − drift must be left.
func TestRedWithoutValidityLeftFailsAndIsUndone(t *testing.T) {
	t.Parallel()
	s := startServers(t, 3)
	p := s.process(t)
	p.warm(t)
	late := make(chan struct{})
	s.relays[1].Next(redistest.SendsScript(key), redistest.HoldRequest(late))
	s.relays[2].Next(redistest.SendsScript(key), redistest.HoldRequest(late))
	done := make(chan error, 1)
	go func() {
		_, err := p.TryLock(background, redlatch.WithLease(1200*time.Millisecond))
		done <- err
	}()
	p.seen.Await(t, redlatch.EventLost, key)
	close(late)
	require.ErrorIs(t, <-done, redlatch.ErrNotAcquired)
	s.nothingStays(t)
}

func TestRedLeaseIsTheOneAskedForOnEveryServer(t *testing.T) {
	t.Parallel()
	s := startServers(t, 3)
	p := s.process(t)
	hold := probe.Take(t, p.Lock, redlatch.WithLease(time.Hour))
	for _, server := range s.of {
		hasLease(t, server, key, time.Hour)
	}
	require.NoError(t, hold.Extend(background, time.Minute))
	for _, server := range s.of {
		hasLease(t, server, key, time.Minute)
	}
	require.LessOrEqual(t, time.Until(hold.ValidUntil()), time.Minute)
	probe.Release(t, hold)
}

func TestExtendAndUnlockDoWithoutAServerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	s := startServers(t, 3)
	p := s.process(t, func(c *config.Config) { c.Timeout = answerTime })
	p.warm(t)
	hold := probe.Take(t, p.Lock, redlatch.WithLease(time.Minute))
	s.of[1].Stop(t)
	began := time.Now()
	require.NoError(t, hold.Extend(background, time.Hour))
	require.Greater(t, time.Until(hold.ValidUntil()), 50*time.Minute)
	require.NoError(t, hold.Unlock(background))
	require.Less(t, time.Since(began), 4*answerTime, "no retry is waited for")
	s.of[1].Cont(t)
	s.nothingStays(t)
}

func TestUnlockReportsWhatMayKeepOthersOut(t *testing.T) {
	t.Parallel()
	s := startServers(t, 3)
	p := s.process(t, hasty)
	hold := probe.Take(t, p.Lock)
	s.relays[0].Down()
	s.relays[1].Down()
	err := hold.Unlock(background)
	require.ErrorContains(t, err, "member 1")
	require.ErrorContains(t, err, "member 2")
	require.NotErrorIs(t, err, redlatch.ErrLost)
	s.relays[0].Up(t)
	s.relays[1].Up(t)
	s.nothingStays(t)
}

func TestFrozenMinorityIsNoLossAndAFrozenMajorityIs(t *testing.T) {
	t.Parallel()
	lease := locktest.Span(900 * time.Millisecond)
	s := startServers(t, 3)
	p := s.process(t, probe.Watchdog(lease))
	hold := probe.Take(t, p.Lock)
	s.of[2].Stop(t)
	p.seen.Await(t, redlatch.EventLost, key) // the frozen member's
	require.NoError(t, hold.Err())
	s.of[0].Stop(t)
	isLost(t, hold, redlatch.ErrLost)
	s.of[0].Cont(t)
	s.of[2].Cont(t)
	require.ErrorIs(t, hold.Unlock(background), redlatch.ErrLost)
	s.nothingStays(t)
}

func TestReleaseWakesWhoWaitsForTheMajority(t *testing.T) {
	t.Parallel()
	s := startServers(t, 3)
	here, there := s.process(t), s.process(t, probe.Deaf)
	for range 5 {
		hold := probe.Take(t, here.Lock)
		waiter := probe.Start(t, background, there.Lock)
		waited(t, s.of[0], key)
		probe.Release(t, hold)
		next := waiter.Succeeds()
		probe.IsHeld(t, here.Lock)
		probe.Release(t, next)
	}
	s.nothingStays(t)
}

// Callers that come at the same moment must not split the members among them again and again.
func TestManyCallersGetTheMajorityOneAfterTheOther(t *testing.T) {
	t.Parallel()
	const callers, rounds = 8, 10
	s := startServers(t, 3)
	var inside, sections atomic.Int32
	var work sync.WaitGroup
	began := time.Now()
	for range callers {
		p := s.process(t)
		work.Go(func() {
			for range rounds {
				err := redlatch.Do(t.Context(), p.Lock, func(context.Context) error {
					if inside.Add(1) > 1 {
						t.Error("two are inside")
					}
					sections.Add(1)
					inside.Add(-1)
					return nil
				})
				if err != nil {
					t.Errorf("one of %d callers: %v", callers, err)
					return
				}
			}
		})
	}
	work.Wait()
	require.EqualValues(t, callers*rounds, sections.Load())
	t.Logf("%d sections took %v", callers*rounds, time.Since(began))
	s.nothingStays(t)
}

func TestManyCallersGetTheMajorityWithADeadServerToo(t *testing.T) {
	t.Parallel()
	const callers, rounds = 4, 5
	s := startServers(t, 3)
	var processes []process
	for range callers {
		processes = append(processes, s.process(t))
	}
	s.relays[0].Down()
	var inside atomic.Int32
	var work sync.WaitGroup
	for _, p := range processes {
		work.Go(func() {
			for range rounds {
				err := redlatch.Do(t.Context(), p.Lock, func(context.Context) error {
					if inside.Add(1) > 1 {
						t.Error("two are inside")
					}
					inside.Add(-1)
					return nil
				})
				if err != nil {
					t.Errorf("one of %d callers: %v", callers, err)
				}
			}
		})
	}
	work.Wait()
	s.nothingStays(t)
}

// ML-13
func TestCancelledRedCallerLeavesNoMemberHeld(t *testing.T) {
	t.Parallel()
	s := startServers(t, 3)
	here, there := s.process(t), s.process(t)
	rivals := []*redlatch.Hold{probe.Take(t, there.members[1]), probe.Take(t, there.members[2])}
	ctx, cancel := context.WithCancelCause(background)
	waiter := probe.Start(t, ctx, here.Lock)
	waited(t, s.of[1], key) // it leads with the first, and waits for the others
	cancel(errGivenUp)
	err := waiter.Fails()
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, errGivenUp)
	require.NotErrorIs(t, err, redlatch.ErrNotAcquired)
	require.Equal(t, 2, s.holders(t))
	probe.Release(t, rivals...)
	s.nothingStays(t)
}

func TestRedWaitLimitIsAllWaitedFor(t *testing.T) {
	t.Parallel()
	s := startServers(t, 3)
	here, there := s.process(t), s.process(t)
	for _, rivals := range [][]redlatch.Locker{{there.Lock}, {there.members[1], there.members[2]}} {
		var held []*redlatch.Hold
		for _, rival := range rivals {
			held = append(held, probe.Take(t, rival))
		}
		began := time.Now()
		_, err := here.TryLock(background, redlatch.WithWait(time.Second))
		require.ErrorIs(t, err, redlatch.ErrNotAcquired)
		require.GreaterOrEqual(t, time.Since(began), time.Second)
		require.Less(t, time.Since(began), 4*time.Second)
		probe.Release(t, held...)
	}
	s.nothingStays(t)
}

// ML-04
func TestRedMemberWhoseAnswerWasLostIsNotLeftHeld(t *testing.T) {
	t.Parallel()
	s := startServers(t, 3)
	p := s.process(t, hasty)
	p.warm(t)
	answer := make(chan struct{})
	lost := s.relays[1].Next(redistest.SendsScript(key), redistest.HoldReply(answer))
	hold := probe.Take(t, p.Lock)
	lost.AwaitReply(t)
	probe.Release(t, hold)
	close(answer)
	s.nothingStays(t)
}

// ML-14
func TestOwnerHoldsARedLockWithAMajority(t *testing.T) {
	t.Parallel()
	s := startServers(t, 3)
	p := s.process(t, hasty)
	owner := p.clients[0].NewOwner()
	ctx := redlatch.WithOwner(background, owner)
	says := func(want bool) {
		t.Helper()
		held, err := p.IsHeldBy(background, owner)
		require.NoError(t, err)
		require.Equal(t, want, held)
	}
	says(false)
	first := probe.TakeAs(t, ctx, p.members[0])
	says(false)
	second := probe.TakeAs(t, ctx, p.members[2])
	says(true)
	s.relays[1].Down()
	says(true)
	probe.Release(t, second)
	_, err := p.IsHeldBy(background, owner)
	require.ErrorContains(t, err, "member 2", "nobody can tell")
	probe.Release(t, first)
	says(false)
}
