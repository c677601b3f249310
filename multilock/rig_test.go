package multilock_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/redistest"
)

const (
	// patience bounds what must come, on a machine that is busy with other tests.
	patience = 20 * time.Second
	// brisk is a member's part of a round in tests that wait for several rounds.
	brisk = 60 * time.Millisecond
)

var background = context.Background()

// open opens a client, which is closed with the test.
func open(t *testing.T, url string, changes ...func(*config.Config)) *redlatch.Client {
	t.Helper()
	return observe(t, url, nil, changes...)
}

// observe is open with somebody who is told of the members' events.
func observe(t *testing.T, url string, o redlatch.Observer, changes ...func(*config.Config)) *redlatch.Client {
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

// answerTime is the command timeout of tests in which a server does not answer: long enough for one that does, on a machine that is
// busy with other tests.
const answerTime = 1500 * time.Millisecond

// hasty makes a client give up on a server soon.
func hasty(c *config.Config) {
	c.Timeout, c.RetryAttempts = answerTime, 1
	c.RetryDelay = config.Delay{Min: 20 * time.Millisecond, Max: 40 * time.Millisecond}
}

// deaf makes a client depend on messages: it asks again by itself only after an hour.
func deaf(c *config.Config) { c.FallbackPoll = time.Hour }

func watchdog(d time.Duration) func(*config.Config) {
	return func(c *config.Config) { c.LockWatchdogTimeout = d }
}

// take takes a lock that is free or becomes so.
func take(t *testing.T, l redlatch.Locker, opts ...redlatch.AcquireOption) *redlatch.Hold {
	t.Helper()
	return takeAs(t, background, l, opts...)
}

func takeAs(t *testing.T, ctx context.Context, l redlatch.Locker, opts ...redlatch.AcquireOption) *redlatch.Hold { //nolint:revive // the test comes first
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

// isHeld says that somebody holds l.
func isHeld(t *testing.T, l redlatch.Locker) {
	t.Helper()
	h, err := l.TryLock(background)
	require.ErrorIs(t, err, redlatch.ErrNotAcquired)
	require.Nil(t, h)
}

func isFree(t *testing.T, locks ...redlatch.Locker) {
	t.Helper()
	for _, l := range locks {
		h, err := l.TryLock(background)
		require.NoError(t, err)
		release(t, h)
	}
}

// call is an acquisition on its way in a goroutine of its own.
type call struct {
	done chan struct{}
	// Set before done is closed.
	hold *redlatch.Hold
	err  error
	took time.Duration
}

func start(t *testing.T, ctx context.Context, l redlatch.Locker, opts ...redlatch.AcquireOption) *call { //nolint:revive // the test comes first
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	c := &call{done: make(chan struct{})}
	t.Cleanup(func() {
		cancel()
		<-c.done
	})
	go func() {
		defer close(c.done)
		began := time.Now()
		c.hold, c.err = l.Lock(ctx, opts...)
		c.took = time.Since(began)
	}()
	return c
}

func (c *call) succeeds(t *testing.T) *redlatch.Hold {
	t.Helper()
	ends(t, c.done)
	require.NoError(t, c.err)
	return c.hold
}

func (c *call) fails(t *testing.T) error {
	t.Helper()
	ends(t, c.done)
	require.Error(t, c.err)
	require.Nil(t, c.hold)
	return c.err
}

// ends waits for what must come.
func ends(t *testing.T, done <-chan struct{}) {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		require.FailNow(t, "it did not come in time")
	}
}

// until waits for what only a server can tell.
func until(t *testing.T, so func() bool) {
	t.Helper()
	require.Eventually(t, so, patience, time.Millisecond)
}

// waited waits until somebody listens to the channel of a plain, fenced or other lock with that channel.
func waited(t *testing.T, s *redistest.Server, lock string) {
	t.Helper()
	until(t, func() bool {
		for _, channel := range s.Channels(t) {
			if channel == "redisson_lock__channel:{"+lock+"}" {
				return true
			}
		}
		return false
	})
}

// events is an observer that a test listens to.
type events chan redlatch.Event

func (e events) Observe(v redlatch.Event) { e <- v }

// await waits for an event of a lock and passes over others.
func (e events) await(t *testing.T, kind redlatch.EventKind, lock string) redlatch.Event {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case v := <-e:
			if v.Kind == kind && v.Name == lock {
				return v
			}
		case <-timer.C:
			require.FailNow(t, "it did not come in time", "event %q of lock %q", kind, lock)
		}
	}
}

// ttl is the time that a key has left; negative when it has no end or is not there.
func ttl(t *testing.T, s *redistest.Server, key string) time.Duration {
	t.Helper()
	return time.Duration(s.Do(t, "PTTL", key).Int()) * time.Millisecond
}

// hasLease says that a key has about that much left.
func hasLease(t *testing.T, s *redistest.Server, key string, lease time.Duration) {
	t.Helper()
	left := ttl(t, s, key)
	require.LessOrEqual(t, left, lease, key)
	require.Greater(t, left, lease-lease/4-time.Second, key)
}

// leftOvers are the keys that are there, without those that bar a request in doubt for a while.
func leftOvers(t *testing.T, s *redistest.Server) []string {
	t.Helper()
	return slices.DeleteFunc(s.Snapshot(t).Keys(), func(key string) bool { return strings.HasPrefix(key, "redisson_unlock_latch:") })
}

func nothingLeft(t *testing.T, servers ...*redistest.Server) {
	t.Helper()
	for _, s := range servers {
		require.Empty(t, leftOvers(t, s))
	}
}

// nothingStays is nothingLeft for what ends in the background.
func nothingStays(t *testing.T, servers ...*redistest.Server) {
	t.Helper()
	for _, s := range servers {
		until(t, func() bool { return len(leftOvers(t, s)) == 0 })
	}
}
