package multilock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/fairlock"
	"github.com/redlatch/redlatch/fencedlock"
	"github.com/redlatch/redlatch/internal/locktest"
	"github.com/redlatch/redlatch/internal/locktest/probe"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/multilock"
	"github.com/redlatch/redlatch/rlock"
	"github.com/redlatch/redlatch/rwlock"
)

var errGivenUp = errors.New("the customer has left the shop")

func isNotAcquired(err error) bool { return errors.Is(err, redlatch.ErrNotAcquired) }

// ML-08
func TestMemberThatEndedBeforeTheReleaseKeepsNoOtherHeld(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := probe.Open(t, server.URL())
	hold := probe.Take(t, multilock.New(rlock.New(client, "a"), rlock.New(client, "b"), rlock.New(client, "c")))
	server.Do(t, "DEL", "a")
	err := hold.Unlock(background)
	require.ErrorIs(t, err, redlatch.ErrLost)
	require.ErrorContains(t, err, "member 1")
	require.NotContains(t, err.Error(), "member 2")
	nothingLeft(t, server)
	require.ErrorIs(t, hold.Unlock(background), redlatch.ErrNotHeld)
}

func TestErrorsOfAllMembersAreJoinedAtTheRelease(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := probe.Open(t, server.URL())
	hold := probe.Take(t, multilock.New(rlock.New(client, "a"), rlock.New(client, "b"), rlock.New(client, "c")))
	server.Do(t, "DEL", "a", "c")
	err := hold.Unlock(background)
	require.ErrorIs(t, err, redlatch.ErrLost)
	require.ErrorContains(t, err, "member 1")
	require.ErrorContains(t, err, "member 3")
	require.NotContains(t, err.Error(), "\n")
	nothingLeft(t, server)
}

// A server that does not answer at the release keeps no other member held, and its own is released when it is back.
func TestReleaseGoesOnPastAServerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	one, two := redistest.Start(t), redistest.Start(t)
	here, there := probe.Open(t, one.URL(), hasty), probe.Open(t, two.URL(), hasty)
	hold := probe.Take(t, multilock.New(rlock.New(there, "b"), rlock.New(here, "a")))
	two.Stop(t)
	err := hold.Unlock(background)
	require.ErrorContains(t, err, "member 1")
	require.NotErrorIs(t, err, redlatch.ErrLost)
	nothingLeft(t, one)
	two.Cont(t)
	nothingStays(t, two)
}

// isLost says in every way that a hold ended before its release.
func isLost(t *testing.T, h *redlatch.Hold, cause error) {
	t.Helper()
	probe.Within(t, h.Lost())
	probe.Within(t, h.Context().Done())
	require.ErrorIs(t, context.Cause(h.Context()), cause)
	require.ErrorIs(t, h.Context().Err(), context.Canceled)
	require.ErrorIs(t, h.Err(), cause)
	require.Zero(t, h.ValidUntil())
}

func TestHoldIsLostWithAnyMemberAndSaysWhich(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := probe.Open(t, server.URL(), probe.Watchdog(locktest.Span(600*time.Millisecond)))
	hold := probe.Take(t, multilock.New(rlock.New(client, "a"), rlock.New(client, "b")))
	require.NoError(t, hold.Err())
	server.Do(t, "DEL", "b")
	isLost(t, hold, redlatch.ErrLost)
	why := context.Cause(hold.Context())
	require.ErrorContains(t, why, "member 2")
	require.ErrorContains(t, why, `"b"`)
	require.ErrorContains(t, why, "no such holder")
	require.NotContains(t, why.Error(), "member 1")

	probe.IsHeld(t, rlock.New(client, "a")) // until the holder knows and lets go
	require.ErrorIs(t, hold.Extend(background, time.Minute), redlatch.ErrLost)
	require.ErrorIs(t, hold.Unlock(background), redlatch.ErrLost)
	nothingLeft(t, server)
}

func TestExtendFindsOutThatAMemberIsLost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := probe.Open(t, server.URL())
	hold := probe.Take(t, multilock.New(rlock.New(client, "a"), rlock.New(client, "b")), redlatch.WithLease(time.Hour))
	server.Do(t, "DEL", "b")
	err := hold.Extend(background, 2*time.Hour)
	require.ErrorIs(t, err, redlatch.ErrLost)
	require.ErrorContains(t, err, "member 2")
	isLost(t, hold, redlatch.ErrLost)
	require.ErrorIs(t, hold.Unlock(background), redlatch.ErrLost)
	nothingLeft(t, server)
}

func TestReleaseByForceOfAMemberIsNoticedAtOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := probe.Open(t, server.URL())
	member := rlock.New(client, "b")
	hold := probe.Take(t, multilock.New(rlock.New(client, "a"), member))
	freed, err := member.ForceUnlock(background)
	require.NoError(t, err)
	require.True(t, freed)
	require.ErrorIs(t, hold.Context().Err(), context.Canceled)
	isLost(t, hold, redlatch.ErrLost)
	require.ErrorIs(t, hold.Unlock(background), redlatch.ErrLost)
	nothingLeft(t, server)
}

func TestLossIsNoticedAlsoWhenTheCallersContextHasEnded(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := probe.Open(t, server.URL())
	member := rlock.New(client, "b")
	ctx, cancel := context.WithCancelCause(background)
	hold := probe.TakeAs(t, ctx, multilock.New(rlock.New(client, "a"), member))
	cancel(errGivenUp)
	probe.Within(t, hold.Context().Done())
	require.ErrorIs(t, context.Cause(hold.Context()), errGivenUp)
	require.NoError(t, hold.Err(), "the end of the work is not the end of the lock")
	_, err := member.ForceUnlock(background)
	require.NoError(t, err)
	probe.Within(t, hold.Lost())
	require.ErrorIs(t, hold.Err(), redlatch.ErrLost)
	require.ErrorIs(t, hold.Unlock(ctx), redlatch.ErrLost)
	nothingLeft(t, server)
}

func TestClosingAMembersClientLosesTheHold(t *testing.T) {
	t.Parallel()
	one, two := redistest.Start(t), redistest.Start(t)
	here, there := probe.Open(t, one.URL()), probe.Open(t, two.URL())
	hold := probe.Take(t, multilock.New(rlock.New(here, "a"), rlock.New(there, "b")))
	require.NoError(t, there.Close())
	isLost(t, hold, redlatch.ErrClosed)
	require.NotErrorIs(t, hold.Err(), redlatch.ErrLost)
	require.ErrorIs(t, hold.Unlock(background), redlatch.ErrClosed)
	nothingLeft(t, one)
}

func TestHoldIsValidAsLongAsItsFirstMemberToEnd(t *testing.T) {
	t.Parallel()
	one, two := redistest.Start(t), redistest.Start(t)
	here, there := probe.Open(t, one.URL(), probe.Watchdog(20*time.Second)), probe.Open(t, two.URL(), probe.Watchdog(10*time.Second))
	hold := probe.Take(t, multilock.New(rlock.New(here, "a"), rlock.New(there, "b")))
	left := time.Until(hold.ValidUntil())
	require.LessOrEqual(t, left, 10*time.Second)
	require.Greater(t, left, 5*time.Second)
	probe.Release(t, hold)
	require.Zero(t, hold.ValidUntil())
}

func TestEachMemberIsRenewedByItsOwnClient(t *testing.T) {
	t.Parallel()
	lease := locktest.Span(900 * time.Millisecond)
	one, two, seen, seenToo := redistest.Start(t), redistest.Start(t), make(probe.Events, 100), make(probe.Events, 100)
	here := probe.Observed(t, one.URL(), seen, probe.Watchdog(lease))
	there := probe.Observed(t, two.URL(), seenToo, probe.Watchdog(lease))
	hold := probe.Take(t, multilock.New(rlock.New(here, "a"), rlock.New(there, "b")))
	began := time.Now()
	for time.Since(began) < 2*lease {
		seen.Await(t, redlatch.EventRenewed, "a")
		seenToo.Await(t, redlatch.EventRenewed, "b")
	}
	require.NoError(t, hold.Err())
	probe.Release(t, hold)
	nothingLeft(t, one, two)
}

func TestContextOfTheHoldEntersEachMemberAndTheWhole(t *testing.T) {
	t.Parallel()
	one, two := redistest.Start(t), redistest.Start(t)
	here, there := probe.Open(t, one.URL()), probe.Open(t, two.URL())
	a, b := rlock.New(here, "a"), rlock.New(there, "b")
	outer := probe.Take(t, multilock.New(a, b))
	inner, err := multilock.New(b, a).TryLock(outer.Context())
	require.NoError(t, err)
	member, err := b.TryLock(inner.Context())
	require.NoError(t, err)
	require.Equal(t, outer.Owner().ThreadID(), member.Owner().ThreadID())
	require.Equal(t, there.ID(), member.Owner().ClientID())
	count, err := b.HoldCount(background, member.Owner())
	require.NoError(t, err)
	require.Equal(t, 3, count)

	_, err = a.TryLock(redlatch.WithoutOwner(outer.Context()))
	require.ErrorIs(t, err, redlatch.ErrNotAcquired)
	probe.Release(t, outer, member)
	require.NoError(t, inner.Err())
	probe.IsHeld(t, a)
	probe.IsHeld(t, b)
	probe.Release(t, inner)
	nothingLeft(t, one, two)
}

func TestOwnerOfTheCallerActsInAllMembers(t *testing.T) {
	t.Parallel()
	one, two := redistest.Start(t), redistest.Start(t)
	here, there := probe.Open(t, one.URL()), probe.Open(t, two.URL())
	l := multilock.New(rlock.New(here, "a"), rlock.New(there, "b"))
	for _, ctx := range []context.Context{
		redlatch.WithThreadID(background, 47), redlatch.WithThreadID(background, 0),
		redlatch.WithOwner(background, there.NewOwner()), redlatch.WithOwner(background, probe.Open(t, one.URL()).NewOwner()),
	} {
		hold := probe.TakeAs(t, ctx, l)
		again, err := l.TryLock(ctx)
		require.NoError(t, err)
		require.Equal(t, hold.Owner(), again.Owner())
		probe.Release(t, hold, again)
	}
	nothingLeft(t, one, two)
}

func TestNestedLocksAreMembersLikeAnyOther(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := probe.Open(t, server.URL(), probe.Deaf)
	nested := multilock.New(rlock.New(client, "b"), rlock.New(client, "c"))
	l := multilock.New(rlock.New(client, "a"), nested)
	require.Equal(t, "a, b, c", l.Name())
	hold := probe.Take(t, l, redlatch.WithLease(time.Minute))
	for _, key := range []string{"a", "b", "c"} {
		hasLease(t, server, key, time.Minute)
	}
	inner, err := nested.TryLock(hold.Context())
	require.NoError(t, err)
	probe.Release(t, inner)
	waiter := probe.Start(t, background, l)
	waited(t, server, "a")
	_, err = rlock.New(client, "c").ForceUnlock(background)
	require.NoError(t, err)
	isLost(t, hold, redlatch.ErrLost)
	require.ErrorContains(t, hold.Err(), `"c"`)
	require.ErrorIs(t, hold.Unlock(background), redlatch.ErrLost)
	probe.Release(t, waiter.Succeeds())
	nothingLeft(t, server)
}

func TestReadersOfOneMemberShareIt(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := probe.Open(t, server.URL())
	shared := rwlock.New(client, "shared")
	one := probe.Take(t, multilock.New(rlock.New(client, "a"), shared.Read()))
	other := probe.Take(t, multilock.New(rlock.New(client, "b"), shared.Read()))
	probe.IsHeld(t, multilock.New(rlock.New(client, "c"), shared.Write()))
	probe.IsFree(t, rlock.New(client, "c"))
	probe.Release(t, one, other)
	nothingLeft(t, server)
}

// ML-10
func TestLeaseDoesNotReachTheTokensOfFencedMembers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := probe.Open(t, server.URL())
	l := multilock.New(fencedlock.New(client, "a"), fencedlock.New(client, "b"))
	for token := int64(1); token <= 2; token++ {
		hold := probe.Take(t, l, redlatch.WithLease(time.Minute))
		require.NoError(t, hold.Extend(background, time.Hour))
		for _, name := range []string{"a", "b"} {
			hasLease(t, server, name, time.Hour)
			require.EqualValues(t, -1, server.Do(t, "PTTL", "redisson_lock_token:{"+name+"}").Int())
			require.Equal(t, token, server.Do(t, "GET", "redisson_lock_token:{"+name+"}").Int())
		}
		probe.Release(t, hold)
	}
}

// ML-11
func TestLeaseDoesNotReachTheQueuesOfFairMembers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, other := probe.Open(t, server.URL()), probe.Open(t, server.URL())
	rival := probe.Take(t, fairlock.New(other, "b"))
	waiter := probe.Start(t, background, multilock.New(fairlock.New(client, "a"), fairlock.New(client, "b")), redlatch.WithLease(time.Minute))
	queue, timeouts := "redisson_lock_queue:{b}", "redisson_lock_timeout:{b}"
	queued := func(n int64) func() bool {
		return func() bool { return server.Do(t, "LLEN", queue).Int() == n }
	}
	probe.Until(t, queued(1))
	next := probe.Start(t, background, fairlock.New(other, "b"))
	probe.Until(t, queued(2))
	probe.Release(t, rival)
	hold := waiter.Succeeds()
	require.NoError(t, hold.Extend(background, time.Hour))
	hasLease(t, server, "a", time.Hour)
	hasLease(t, server, "b", time.Hour)
	for _, key := range []string{queue, timeouts} {
		require.EqualValues(t, 1, server.Do(t, "EXISTS", key).Int())
		require.EqualValues(t, -1, server.Do(t, "PTTL", key).Int(), key)
	}
	probe.Release(t, hold)
	probe.Release(t, next.Succeeds())
	nothingStays(t, server)
}

// The TTL of a read hold stands in a key of its own.
func TestLeaseReachesTheTimeoutsOfReadMembers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := probe.Open(t, server.URL())
	hold := probe.Take(t, multilock.New(rwlock.New(client, "a").Read(), rwlock.New(client, "b").Read()), redlatch.WithLease(time.Minute))
	timeout := func(name string) string { return "{" + name + "}:" + hold.Owner().String() + ":rwlock_timeout:1" }
	for _, lease := range []time.Duration{time.Minute, time.Hour} {
		require.NoError(t, hold.Extend(background, lease))
		for _, name := range []string{"a", "b"} {
			hasLease(t, server, name, lease)
			hasLease(t, server, timeout(name), lease)
		}
	}
	probe.Release(t, hold)
	nothingLeft(t, server)
}

// ML-14
func TestOwnerHoldsTheWholeOnlyWithAllMembers(t *testing.T) {
	t.Parallel()
	one, two := redistest.Start(t), redistest.Start(t)
	here, there := probe.Open(t, one.URL()), probe.Open(t, two.URL())
	a, b, c := rlock.New(here, "a"), rlock.New(there, "b"), rwlock.New(there, "c").Write()
	l := multilock.New(a, multilock.New(b, c))
	owner := here.NewOwner()
	ctx := redlatch.WithOwner(background, owner)
	says := func(want bool) {
		t.Helper()
		held, err := l.IsHeldBy(background, owner)
		require.NoError(t, err)
		require.Equal(t, want, held)
	}
	says(false)
	first := probe.TakeAs(t, ctx, a)
	says(false)
	second := probe.TakeAs(t, ctx, b)
	says(false)
	third := probe.TakeAs(t, ctx, c)
	says(true)
	probe.Release(t, first, second, third)
	says(false)

	hold := probe.TakeAs(t, ctx, l)
	says(true)
	held, err := l.IsHeldBy(background, hold.Owner())
	require.NoError(t, err)
	require.True(t, held)
	held, err = l.IsHeldBy(background, here.NewOwner())
	require.NoError(t, err)
	require.False(t, held)
	probe.Release(t, hold)
	says(false)

	dead, cancel := context.WithCancelCause(background)
	cancel(errGivenUp)
	_, err = l.IsHeldBy(dead, owner)
	require.ErrorIs(t, err, errGivenUp)
}

func TestMaxHoldReachesTheMembers(t *testing.T) {
	t.Parallel()
	limit := locktest.Span(500 * time.Millisecond)
	server := redistest.Start(t)
	client := probe.Open(t, server.URL(), probe.Watchdog(limit))
	hold := probe.Take(t, multilock.New(rlock.New(client, "a"), rlock.New(client, "b")), redlatch.WithMaxHold(limit))
	isLost(t, hold, redlatch.ErrLost)
	require.ErrorIs(t, hold.Unlock(background), redlatch.ErrLost)
	nothingStays(t, server)
}

func TestDoRunsUnderAllMembers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := probe.Open(t, server.URL())
	a, b := rlock.New(client, "a"), rlock.New(client, "b")
	require.NoError(t, redlatch.Do(background, multilock.New(a, b), func(ctx context.Context) error {
		probe.IsHeld(t, a)
		probe.IsHeld(t, b)
		return redlatch.Do(ctx, b, func(ctx context.Context) error { return ctx.Err() })
	}))
	nothingLeft(t, server)
}
