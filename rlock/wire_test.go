package rlock_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/locktest/probe"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/rlock"
)

const (
	name    = "order:1001"
	channel = "redisson_lock__channel:{order:1001}"
)

// only says that a hash with one field is all that there is in Redis, and returns its TTL.
func only(t *testing.T, s *redistest.Server, owner, count string) time.Duration {
	t.Helper()
	entries := s.Snapshot(t).Entries
	require.Len(t, entries, 1)
	require.Equal(t, name, entries[0].Key)
	require.Equal(t, "hash", entries[0].Type)
	require.Equal(t, []redistest.Item{{Name: owner, Value: count}}, entries[0].Items)
	return entries[0].TTL
}

// RL-01, RL-10: the state and the messages are those of Redisson after each step, and no latch is left.
func TestEachStepLeavesTheStateThatRedissonLeaves(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := probe.Open(t, server.URL())
	heard := server.Record(t, "*")
	l := rlock.New(client, name)

	outer := probe.TakeAs(t, redlatch.WithThreadID(context.Background(), 47), l)
	owner := client.ID() + ":47"
	require.Equal(t, owner, outer.Owner().String())
	ttl := only(t, server, owner, "1")
	require.InDelta(t, config.DefaultLockWatchdogTimeout, ttl, float64(5*time.Second))
	require.LessOrEqual(t, ttl, config.DefaultLockWatchdogTimeout)

	inner := probe.TakeAs(t, outer.Context(), l)
	only(t, server, owner, "2")
	probe.Release(t, inner)
	only(t, server, owner, "1")
	require.Empty(t, heard.Messages(t))

	probe.Release(t, outer)
	require.Empty(t, server.Snapshot(t).Entries)
	require.Equal(t, []redistest.Message{{Channel: channel, Payload: "0"}}, heard.Messages(t))
}

// RL-02: the lease of a hold is what its partial release arms again, and not the watchdog's.
func TestPartialReleaseArmsTheLeaseOfTheHold(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l := rlock.New(probe.Open(t, server.URL()), name)
	const lease = 10 * time.Second
	outer := probe.Take(t, l, redlatch.WithLease(lease))
	inner := probe.TakeAs(t, outer.Context(), l, redlatch.WithLease(lease))
	server.Do(t, "PEXPIRE", name, "5000") // as if half of it had passed
	probe.Release(t, inner)
	ttl := only(t, server, outer.Owner().String(), "1")
	require.Greater(t, ttl, 6*time.Second)
	require.LessOrEqual(t, ttl, lease)
	probe.Release(t, outer)
}

// RL-05: a release that finds nothing publishes nothing.
func TestReleaseOfALockThatIsGonePublishesNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	hold := probe.Take(t, rlock.New(probe.Open(t, server.URL()), name))
	heard := server.Record(t, "*")
	server.Do(t, "DEL", name)
	require.ErrorIs(t, hold.Unlock(context.Background()), redlatch.ErrLost)
	require.Empty(t, server.Snapshot(t).Entries)
	require.Empty(t, heard.Messages(t))
}

// RL-16, WK-16: force-unlock sends the message that a release sends.
func TestForceUnlockPublishesOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l := rlock.New(probe.Open(t, server.URL()), name)
	hold := probe.Take(t, l)
	heard := server.Record(t, "*")
	freed, err := l.ForceUnlock(context.Background())
	require.NoError(t, err)
	require.True(t, freed)
	require.ErrorIs(t, hold.Unlock(context.Background()), redlatch.ErrLost)
	require.Equal(t, []redistest.Message{{Channel: channel, Payload: "0"}}, heard.Messages(t))
}

// NR-02: the three sorts of plain lock are one lock in Redis.
func TestPlainNonReentrantAndSpinLockExcludeEachOther(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := probe.Open(t, server.URL())
	sorts := map[string]*rlock.Lock{
		"plain":         rlock.New(client, name),
		"non-reentrant": rlock.New(client, name, rlock.NonReentrant()),
		"spin":          rlock.New(client, name, rlock.Spin(nil)),
	}
	for held, l := range sorts {
		hold := probe.Take(t, l)
		only(t, server, hold.Owner().String(), "1")
		for other, o := range sorts {
			_, err := o.TryLock(context.Background())
			require.ErrorIs(t, err, redlatch.ErrNotAcquired, "%s against %s", other, held)
		}
		probe.Release(t, hold)
	}
}

// NR-01: the other handle of the same lock is reentrant, and the owner may use it.
func TestNonReentrantIsAMatterOfTheHandle(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := probe.Open(t, server.URL())
	hold := probe.Take(t, rlock.New(client, name, rlock.NonReentrant()))
	inner := probe.TakeAs(t, hold.Context(), rlock.New(client, name))
	only(t, server, hold.Owner().String(), "2")
	_, err := rlock.New(client, name, rlock.NonReentrant()).TryLock(inner.Context())
	require.ErrorIs(t, err, redlatch.ErrReentry)
	probe.Release(t, inner)
	probe.Release(t, hold)
}

// SP-01, SP-02: a spin lock's waiter listens to nothing and asks after each pause of a back-off that is its own.
func TestSpinningWaiterAsksAfterEachPauseAndSubscribesToNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	holder := probe.Take(t, rlock.New(probe.Open(t, server.URL()), name))
	made, asked := make(chan struct{}, 10), make(chan struct{}, 1000)
	l := rlock.New(probe.Open(t, server.URL()), name, rlock.Spin(func() backoff.BackOff {
		made <- struct{}{}
		return countingBackOff{asked}
	}))
	waiter := probe.Start(t, context.Background(), l)
	for range 5 {
		<-asked
	}
	require.Empty(t, server.Channels(t))
	probe.Release(t, holder)
	probe.Release(t, waiter.Succeeds())
	require.Len(t, made, 1)
	require.Zero(t, server.CommandStats(t)["subscribe"])
}

type countingBackOff struct{ asked chan<- struct{} }

func (b countingBackOff) NextBackOff() time.Duration {
	b.asked <- struct{}{}
	return time.Millisecond
}

func (countingBackOff) Reset() {}

// SP-01: a back-off that stops ends the wait, and nothing is held then.
func TestSpinBackOffThatStopsEndsTheWait(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := probe.Open(t, server.URL())
	hold := probe.Take(t, rlock.New(client, name))
	for _, stops := range []func() backoff.BackOff{
		func() backoff.BackOff { return &backoff.StopBackOff{} },
		func() backoff.BackOff { return backoff.WithMaxRetries(backoff.NewConstantBackOff(time.Millisecond), 3) },
	} {
		_, err := rlock.New(client, name, rlock.Spin(stops)).Lock(context.Background())
		require.ErrorIs(t, err, redlatch.ErrNotAcquired)
		require.ErrorContains(t, err, "back-off")
	}
	probe.Release(t, hold)
	require.Empty(t, server.Snapshot(t).Entries)
}

// SP-02: a constant pause is Redisson's other way of spinning.
func TestConstantSpinWaitsForAHolderOfAnySort(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := probe.Open(t, server.URL())
	hold := probe.Take(t, rlock.New(client, name))
	waiter := probe.Start(t, context.Background(), rlock.New(client, name, rlock.Spin(rlock.ConstantSpin(2*time.Millisecond))))
	probe.Until(t, func() bool { return server.CommandStats(t)["evalsha"] >= 5 })
	probe.Release(t, hold)
	probe.Release(t, waiter.Succeeds())
	require.Empty(t, server.Snapshot(t).Entries)
}

// The release of a spin lock, and its force-unlock, tell nobody, as Redisson's do: its waiters poll.
func TestSpinLockTellsNobody(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	heard := server.Record(t, "*")
	l := rlock.New(probe.Open(t, server.URL()), name, rlock.Spin(nil))
	probe.Release(t, probe.Take(t, l))
	probe.Take(t, l)
	freed, err := l.ForceUnlock(context.Background())
	require.NoError(t, err)
	require.True(t, freed)
	require.Empty(t, heard.Messages(t))
	require.Empty(t, server.Snapshot(t).Entries)
}

// RL-11: no number of retries makes a release fail or leaves a key.
func TestAnyNumberOfRetriesReleases(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, attempts := range []int{config.NoRetry, 1, math.MaxInt32} {
		client := probe.Open(t, server.URL(), func(c *config.Config) { c.RetryAttempts = attempts })
		outer := probe.Take(t, rlock.New(client, name))
		probe.Release(t, probe.TakeAs(t, outer.Context(), rlock.New(client, name)))
		probe.Release(t, outer)
		require.Empty(t, server.Snapshot(t).Entries)
	}
}
