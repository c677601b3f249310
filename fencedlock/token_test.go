package fencedlock_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/fencedlock"
	"github.com/redlatch/redlatch/internal/locktest"
	"github.com/redlatch/redlatch/internal/locktest/probe"
	"github.com/redlatch/redlatch/internal/redistest"
)

const (
	name     = "order:1001"
	tokenKey = "redisson_lock_token:{order:1001}"
	channel  = "redisson_lock__channel:{order:1001}"
)

// counter says what the token's key holds, and that it never expires.
func counter(t *testing.T, s *redistest.Server, want int64) {
	t.Helper()
	entry, there := s.Snapshot(t).Get(tokenKey)
	require.True(t, there, "there is no counter")
	require.Equal(t, "string", entry.Type)
	require.Equal(t, redistest.NoTTL, entry.TTL)
	require.Equal(t, []redistest.Item{{Value: strconv.FormatInt(want, 10)}}, entry.Items)
}

// FE-01: whatever call acquires, on whatever client, draws the next token, and the counter is the token of the last.
func TestEveryAcquisitionDrawsTheNextToken(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	locks := []*fencedlock.Lock{fencedlock.New(probe.Open(t, server.URL()), name), fencedlock.New(probe.Open(t, server.URL()), name)}
	calls := []func(ctx context.Context, l *fencedlock.Lock) (*redlatch.Hold, error){
		func(ctx context.Context, l *fencedlock.Lock) (*redlatch.Hold, error) { return l.Lock(ctx) },
		func(ctx context.Context, l *fencedlock.Lock) (*redlatch.Hold, error) { return l.TryLock(ctx) },
		func(ctx context.Context, l *fencedlock.Lock) (*redlatch.Hold, error) {
			return l.Lock(ctx, redlatch.WithWait(time.Minute))
		},
		func(ctx context.Context, l *fencedlock.Lock) (*redlatch.Hold, error) {
			return l.TryLock(ctx, redlatch.WithLease(time.Minute))
		},
		func(ctx context.Context, l *fencedlock.Lock) (*redlatch.Hold, error) {
			return l.TryLock(ctx, redlatch.WithWait(time.Minute), redlatch.WithMaxHold(time.Minute))
		},
	}
	for i, call := range calls {
		hold, err := call(context.Background(), locks[i%2])
		require.NoError(t, err)
		require.EqualValues(t, i+1, hold.Token())
		counter(t, server, hold.Token())
		probe.Release(t, hold)
		require.EqualValues(t, i+1, hold.Token(), "a token outlives its hold, for it is then that it is needed")
	}
	require.NoError(t, redlatch.Do(context.Background(), locks[0], func(ctx context.Context) error {
		newest, err := locks[1].Token(ctx)
		require.EqualValues(t, 6, newest)
		return err
	}))
	counter(t, server, 6)
}

// FE-02: a re-entry draws a token too, as Redisson's does.
func TestReentryDrawsATokenOfItsOwn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l := fencedlock.New(probe.Open(t, server.URL()), name)
	outer := probe.Take(t, l)
	inner := probe.TakeAs(t, outer.Context(), l)
	require.EqualValues(t, 1, outer.Token())
	require.EqualValues(t, 2, inner.Token())
	entry, _ := server.Snapshot(t).Get(name)
	require.Equal(t, []redistest.Item{{Name: outer.Owner().String(), Value: "2"}}, entry.Items)

	probe.Release(t, inner)
	require.EqualValues(t, 1, outer.Token())
	counter(t, server, 2)
	probe.Release(t, outer)
	require.EqualValues(t, 3, probe.Take(t, l).Token())
}

// FE-04, RL-01: what is in Redis after each step, and what is published.
func TestEachStepLeavesTheStateThatRedissonLeaves(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := probe.Open(t, server.URL())
	heard := server.Record(t, "*")
	hold := probe.TakeAs(t, redlatch.WithThreadID(context.Background(), 47), fencedlock.New(client, name))
	require.Equal(t, `hash "order:1001" expires
    "`+client.ID()+`:47" = "1"
string "redisson_lock_token:{order:1001}" stays
    "1"
`, server.Snapshot(t).Content())
	require.Empty(t, heard.Messages(t))
	probe.Release(t, hold)
	require.Equal(t, `string "redisson_lock_token:{order:1001}" stays
    "1"
`, server.Snapshot(t).Content())
	require.Equal(t, []redistest.Message{{Channel: channel, Payload: "0"}}, heard.Messages(t))
}

// FE-04: however a hold ends, the counter stays, without a TTL, and the next token is greater.
func TestTokenSurvivesEveryEndOfAHold(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, other := probe.Open(t, server.URL()), probe.Open(t, server.URL())
	l, next := fencedlock.New(client, name), fencedlock.New(other, name)
	for end, do := range map[string]func(h *redlatch.Hold){
		"release":        func(h *redlatch.Hold) { probe.Release(t, h) },
		"forced release": func(*redlatch.Hold) { _, err := next.ForceUnlock(context.Background()); require.NoError(t, err) },
		"expiry": func(h *redlatch.Hold) {
			require.NoError(t, h.Extend(context.Background(), locktest.Span(100*time.Millisecond)))
			<-h.Lost()
		},
		"deletion by hand": func(*redlatch.Hold) { server.Do(t, "DEL", name) },
	} {
		hold := probe.Take(t, l, redlatch.WithLease(time.Minute))
		do(hold)
		after := probe.Take(t, next)
		require.Equal(t, hold.Token()+1, after.Token(), "after a %s", end)
		counter(t, server, after.Token())
		probe.Release(t, after)
	}
}

// The engine's renewals and a caller's extension are about the lease: the token is neither drawn anew nor given a TTL.
func TestExtendAndRenewalLeaveTheCounterAlone(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	renewed := make(probe.Events, 100)
	client := probe.Observed(t, server.URL(), renewed, probe.Watchdog(locktest.Span(900*time.Millisecond)))
	hold := probe.Take(t, fencedlock.New(client, name))
	seen := server.Monitor(t)
	for _, lease := range []time.Duration{time.Minute, time.Second, time.Hour, locktest.Span(600 * time.Millisecond)} {
		require.NoError(t, hold.Extend(context.Background(), lease))
	}
	renewed.Await(t, redlatch.EventRenewed)
	renewed.Await(t, redlatch.EventRenewed)
	require.NoError(t, hold.Err())
	require.EqualValues(t, 1, hold.Token())
	for _, c := range seen.Commands(t) {
		if c.FromScript() && len(c.Args) > 1 && c.Args[1] == tokenKey {
			require.Equal(t, "GET", c.Name(), "%v", c)
		}
	}
	counter(t, server, 1)
	probe.Release(t, hold)
}

// FE-07: a single attempt on a held lock answers at once and draws nothing; so does a wait that is over.
func TestAttemptThatFailsDrawsNoToken(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l := fencedlock.New(probe.Open(t, server.URL()), name)
	rival := fencedlock.New(probe.Open(t, server.URL()), name)
	hold := probe.Take(t, l)

	began := time.Now()
	h, err := rival.TryLock(context.Background())
	require.ErrorIs(t, err, redlatch.ErrNotAcquired)
	require.Nil(t, h)
	require.Less(t, time.Since(began), 5*time.Second, "the lock's TTL is 30 s")
	h, err = rival.Lock(context.Background(), redlatch.WithWait(50*time.Millisecond))
	require.ErrorIs(t, err, redlatch.ErrNotAcquired)
	require.Nil(t, h)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err = rival.Lock(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	counter(t, server, 1)
	probe.Release(t, hold)
	require.EqualValues(t, 2, probe.Take(t, rival).Token())
}

func TestTokenIsReadWithoutAcquiring(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l := fencedlock.New(probe.Open(t, server.URL()), name)
	reader := fencedlock.New(probe.Open(t, server.URL()), name)
	reads := func(want int64) {
		before := server.Snapshot(t)
		got, err := reader.Token(context.Background())
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, before.Content(), server.Snapshot(t).Content(), "reading changes nothing")
	}
	reads(0)
	require.Empty(t, server.Snapshot(t).Entries)
	hold := probe.Take(t, l)
	reads(1)
	inner := probe.TakeAs(t, hold.Context(), l)
	reads(2)
	probe.Release(t, inner)
	probe.Release(t, hold)
	reads(2)

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := reader.Token(ctx)
	require.ErrorIs(t, err, context.Canceled)
	_, err = fencedlock.New(nil, name).Token(context.Background())
	require.ErrorIs(t, err, redlatch.ErrClosed)
	_, err = fencedlock.New(probe.Open(t, server.URL()), "").Token(context.Background())
	require.ErrorIs(t, err, redlatch.ErrBadName)
}

// What Redisson has as lockAndGetToken(lease): the lease that was asked for is that of the lock, is not renewed, and comes with
// a token.
func TestLeaseIsHonouredWithAToken(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	short := probe.Watchdog(locktest.Span(300 * time.Millisecond))
	l, next := fencedlock.New(probe.Open(t, server.URL(), short), name), fencedlock.New(probe.Open(t, server.URL()), name)

	long := probe.Take(t, l, redlatch.WithLease(time.Hour))
	require.EqualValues(t, 1, long.Token())
	entry, _ := server.Snapshot(t).Get(name)
	require.LessOrEqual(t, entry.TTL, time.Hour)
	require.Greater(t, entry.TTL, 59*time.Minute)
	inner := probe.TakeAs(t, long.Context(), l, redlatch.WithLease(2*time.Hour))
	require.EqualValues(t, 2, inner.Token())
	entry, _ = server.Snapshot(t).Get(name)
	require.Greater(t, entry.TTL, 119*time.Minute)
	probe.Release(t, inner)
	probe.Release(t, long)

	lease := locktest.Span(700 * time.Millisecond) // several renewals would be due within it
	began := time.Now()
	fixed := probe.Take(t, l, redlatch.WithLease(lease))
	require.EqualValues(t, 3, fixed.Token())
	after := probe.Take(t, next)
	require.GreaterOrEqual(t, time.Since(began), lease-20*time.Millisecond)
	require.ErrorIs(t, fixed.Err(), redlatch.ErrLost)
	require.EqualValues(t, 4, after.Token())
	require.ErrorIs(t, fixed.Unlock(context.Background()), redlatch.ErrLost)
	require.NoError(t, after.Extend(context.Background(), time.Hour), "the late release took nothing from the next holder")
	counter(t, server, 4)
}

// A fleet that has used the lock from Java goes on with its tokens.
func TestTokensGoOnFromWhereTheFleetIs(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Do(t, "SET", tokenKey, "41")
	hold := probe.Take(t, fencedlock.New(probe.Open(t, server.URL()), name))
	require.EqualValues(t, 42, hold.Token())
	counter(t, server, 42)
}

// NM-01: the counter is named as Redisson names it, after the name mapper and by the rule of braces.
func TestCounterFollowsTheNameInRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := probe.Open(t, server.URL(), func(c *config.Config) { c.NameMapper = func(n string) string { return "app:" + n } })
	for given, key := range map[string]string{
		"order:7": "redisson_lock_token:{app:order:7}", "{order}:7": "redisson_lock_token:app:{order}:7",
	} {
		probe.Release(t, probe.Take(t, fencedlock.New(client, given)))
		require.Equal(t, []string{key}, server.Snapshot(t).Keys())
		server.FlushAll(t)
	}
}

// Without a token there must be no lock: the holder could not be fenced.
func TestBrokenCounterKeepsTheLockFromBeingTaken(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l := fencedlock.New(probe.Open(t, server.URL()), name)
	for _, plant := range [][]string{{"SET", tokenKey, "many"}, {"SET", tokenKey, "9223372036854775807"}, {"RPUSH", tokenKey, "1"}} {
		server.Do(t, plant...)
		before, _ := server.Snapshot(t).Get(tokenKey)
		h, err := l.Lock(context.Background(), redlatch.WithWait(time.Minute))
		require.Error(t, err)
		require.NotErrorIs(t, err, redlatch.ErrNotAcquired)
		require.Nil(t, h)
		after := server.Snapshot(t)
		require.NotContains(t, after.Keys(), name)
		got, _ := after.Get(tokenKey)
		require.Equal(t, before, got)
		server.Do(t, "DEL", tokenKey)
	}
	hold := probe.Take(t, l)
	server.Do(t, "SET", tokenKey, "many")
	_, err := l.TryLock(hold.Context())
	require.Error(t, err)
	require.Equal(t, "1", server.Do(t, "HGET", name, hold.Owner().String()).Text())
	require.NoError(t, hold.Err(), "a re-entry that was refused ends nothing")
	probe.Release(t, hold)
	require.NotContains(t, server.Snapshot(t).Keys(), name)
}

// FE-04: the counter stays until somebody says that the name is used no more, and is right.
func TestOnlyTheTokenOfAnUnusedLockIsForgotten(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := probe.Open(t, server.URL())
	l := fencedlock.New(client, name)
	forgotten, err := l.ForgetToken(t.Context(), 1)
	require.NoError(t, err)
	require.False(t, forgotten, "there is no counter")

	hold := probe.TakeAs(t, t.Context(), l)
	_, err = l.ForgetToken(t.Context(), hold.Token())
	require.ErrorIs(t, err, redlatch.ErrNotAcquired)
	require.ErrorContains(t, err, "holds it")
	require.NoError(t, hold.Err())
	probe.Release(t, hold)
	counter(t, server, 1)

	probe.Release(t, probe.TakeAs(t, t.Context(), l)) // used since
	_, err = l.ForgetToken(t.Context(), hold.Token())
	require.ErrorIs(t, err, redlatch.ErrNotAcquired)
	require.ErrorContains(t, err, "another token")
	var typed *redlatch.Error
	require.ErrorAs(t, err, &typed)
	require.Equal(t, name, typed.Name)
	counter(t, server, 2)

	last, err := l.Token(t.Context())
	require.NoError(t, err)
	forgotten, err = l.ForgetToken(t.Context(), last)
	require.NoError(t, err)
	require.True(t, forgotten)
	require.Empty(t, server.Snapshot(t).Keys())
	again := probe.TakeAs(t, t.Context(), l)
	require.EqualValues(t, 1, again.Token(), "tokens begin again: the danger that the description warns of")
	probe.Release(t, again)
}

func TestTokenIsNotForgottenWhereNothingCanBeAsked(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := probe.Open(t, server.URL())
	probe.Release(t, probe.TakeAs(t, t.Context(), fencedlock.New(client, name)))
	dead, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := fencedlock.New(client, name).ForgetToken(dead, 1)
	require.ErrorIs(t, err, context.Canceled)
	_, err = fencedlock.New(client, "").ForgetToken(t.Context(), 1)
	require.ErrorIs(t, err, redlatch.ErrBadName)
	_, err = fencedlock.New(nil, name).ForgetToken(t.Context(), 1)
	require.ErrorIs(t, err, redlatch.ErrClosed)
	require.NoError(t, client.Close())
	_, err = fencedlock.New(client, name).ForgetToken(t.Context(), 1)
	require.ErrorIs(t, err, redlatch.ErrClosed)
	counter(t, server, 1)
}
