package rwlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/locktest"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/rwlock"
)

const (
	name    = "order:1001"
	channel = "redisson_rwlock:{order:1001}"
	// patience bounds what must come, far below the 30 s of a lock that nobody renews.
	patience = 15 * time.Second
)

var background = context.Background()

// open opens a client, which is closed with the test.
func open(t *testing.T, url string, changes ...func(*config.Config)) *redlatch.Client {
	t.Helper()
	return observed(t, url, nil, changes...)
}

func observed(t *testing.T, url string, o redlatch.Observer, changes ...func(*config.Config)) *redlatch.Client {
	t.Helper()
	cfg := config.Config{Servers: config.Single(url)}
	for _, change := range changes {
		change(&cfg)
	}
	c, err := redlatch.Open(t.Context(), cfg, redlatch.WithObserver(o))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// deaf makes a client's waiters depend on messages.
func deaf(c *config.Config) { c.FallbackPoll = time.Hour }

// lively is a watchdog timeout for tests that wait for renewals.
func lively() time.Duration { return locktest.Span(900 * time.Millisecond) }

func watchful(c *config.Config) { c.LockWatchdogTimeout = lively() }

func sideOf(l *rwlock.Lock, side string) *rwlock.Side {
	if side == "read" {
		return l.Read()
	}
	return l.Write()
}

func take(t *testing.T, ctx context.Context, l *rwlock.Side, opts ...redlatch.AcquireOption) *redlatch.Hold { //nolint:revive // the test comes first
	t.Helper()
	h, err := l.Lock(ctx, append([]redlatch.AcquireOption{redlatch.WithWait(patience)}, opts...)...)
	require.NoError(t, err)
	return h
}

func release(t *testing.T, holds ...*redlatch.Hold) {
	t.Helper()
	for _, h := range holds {
		require.NoError(t, h.Unlock(background))
	}
}

func isHeld(t *testing.T, l *rwlock.Side) {
	t.Helper()
	h, err := l.TryLock(background)
	require.ErrorIs(t, err, redlatch.ErrNotAcquired)
	require.Nil(t, h)
}

// field is what the lock's hash has under a name; "" for nothing.
func field(t *testing.T, s *redistest.Server, of string) string {
	t.Helper()
	return s.Do(t, "HGET", name, of).Text()
}

// marker is the key of an owner's only read hold.
func marker(h *redlatch.Hold) string {
	return "{" + name + "}:" + h.Owner().String() + ":rwlock_timeout:1"
}

// ttl is the time that a key has left; negative when it has no end or is not there.
func ttl(t *testing.T, s *redistest.Server, key string) time.Duration {
	t.Helper()
	return time.Duration(s.Do(t, "PTTL", key).Int()) * time.Millisecond
}

// until waits for what only the server can tell.
func until(t *testing.T, so func() bool) {
	t.Helper()
	require.Eventually(t, so, patience, time.Millisecond)
}

// events is an observer that a test listens to.
type events chan redlatch.Event

func (e events) Observe(v redlatch.Event) { e <- v }

// renewals waits for so long that a lock which is not renewed would have ended, and for renewals all the time.
func (e events) renewals(t *testing.T) {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for began := time.Now(); time.Since(began) < lively()*3/2; {
		select {
		case v := <-e:
			require.NotEqual(t, redlatch.EventLost, v.Kind)
		case <-timer.C:
			require.FailNow(t, "no renewal")
		}
	}
}

func nothingLeft(t *testing.T, s *redistest.Server) {
	t.Helper()
	require.Empty(t, s.Snapshot(t).Entries)
}
