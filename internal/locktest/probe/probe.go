// Package probe is what tests of locks do over and over: open clients, take and release locks, call in the background, and wait, with a
// limit, for what must come.
package probe

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
)

// Patience bounds what must come: long enough for a machine that is busy with other tests, and far below the 30 s of a lock that nobody
// renews.
const Patience = 15 * time.Second

// Open opens a client of one server, which is closed with the test.
func Open(t testing.TB, url string, changes ...func(*config.Config)) *redlatch.Client {
	t.Helper()
	return Observed(t, url, nil, changes...)
}

// Observed is Open with an observer.
func Observed(t testing.TB, url string, o redlatch.Observer, changes ...func(*config.Config)) *redlatch.Client {
	t.Helper()
	return Client(t, config.Config{Servers: config.Single(url)}, changes, redlatch.WithObserver(o))
}

// Client opens a client of any servers, which is closed with the test.
func Client(t testing.TB, cfg config.Config, changes []func(*config.Config), opts ...redlatch.Option) *redlatch.Client {
	t.Helper()
	for _, change := range changes {
		change(&cfg)
	}
	c, err := redlatch.Open(t.Context(), cfg, opts...)
	for try := 0; err != nil && cfg.Timeout > 0 && try < 5; try++ { // a hasty client can be too hasty for a busy machine
		c, err = redlatch.Open(t.Context(), cfg, opts...)
	}
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Deaf makes a client's waiters depend on messages.
func Deaf(c *config.Config) { c.FallbackPoll = time.Hour }

// Watchdog gives a client a watchdog timeout.
func Watchdog(d time.Duration) func(*config.Config) {
	return func(c *config.Config) { c.LockWatchdogTimeout = d }
}

// Take takes a lock that is free or becomes so.
func Take(t testing.TB, l redlatch.Locker, opts ...redlatch.AcquireOption) *redlatch.Hold {
	t.Helper()
	return TakeAs(t, context.Background(), l, opts...)
}

// TakeAs is Take in a context, which can tell the owner.
func TakeAs(t testing.TB, ctx context.Context, l redlatch.Locker, opts ...redlatch.AcquireOption) *redlatch.Hold { //nolint:revive // the test comes first
	t.Helper()
	// Not by a deadline, which the hold's context would inherit.
	h, err := l.Lock(ctx, append([]redlatch.AcquireOption{redlatch.WithWait(Patience)}, opts...)...)
	require.NoError(t, err)
	return h
}

// Release releases holds that must be live.
func Release(t testing.TB, holds ...*redlatch.Hold) {
	t.Helper()
	for _, h := range holds {
		require.NoError(t, h.Unlock(context.Background()))
	}
}

// IsHeld says that l can't be had.
func IsHeld(t testing.TB, l redlatch.Locker) {
	t.Helper()
	h, err := l.TryLock(context.Background())
	require.ErrorIs(t, err, redlatch.ErrNotAcquired)
	require.Nil(t, h)
}

// IsFree says that nobody holds the locks.
func IsFree(t testing.TB, locks ...redlatch.Locker) {
	t.Helper()
	for _, l := range locks {
		h, err := l.TryLock(context.Background())
		require.NoError(t, err)
		Release(t, h)
	}
}

// Locks leaves out of keys the latches, by which requests in doubt were barred: they stay for some minutes and are no locks.
func Locks(keys []string) []string {
	return slices.DeleteFunc(keys, func(key string) bool { return strings.HasPrefix(key, config.UnlockLatchPrefix) })
}

// Until waits for something that only asking again and again can tell. The words say what, for who reads that it did not come.
func Until(t testing.TB, so func() bool, words ...any) {
	t.Helper()
	for deadline := time.Now().Add(Patience); !so(); <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			tooLate(t, Patience, words...)
		}
	}
}

// Within waits for a channel to be closed.
func Within(t testing.TB, done <-chan struct{}, words ...any) {
	t.Helper()
	WithinLimit(t, Patience, done, words...)
}

// WithinLimit is Within for what may take longer.
func WithinLimit(t testing.TB, limit time.Duration, done <-chan struct{}, words ...any) {
	t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		tooLate(t, limit, words...)
	}
}

// Events is an observer that a test listens to. It must be large enough for all that is not listened to.
type Events chan redlatch.Event

// Observe is called by the client.
func (e Events) Observe(v redlatch.Event) { e <- v }

// Await waits for an event of a kind, of one of the locks if any are named, and passes over others.
func (e Events) Await(t testing.TB, kind redlatch.EventKind, locks ...string) redlatch.Event {
	t.Helper()
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	for {
		select {
		case v := <-e:
			if v.Kind == kind && (len(locks) == 0 || slices.Contains(locks, v.Name)) {
				return v
			}
		case <-timer.C:
			tooLate(t, Patience, "event %q of %q", kind, locks)
		}
	}
}

// tooLate fails a test, and shows what everybody does.
func tooLate(t testing.TB, limit time.Duration, words ...any) {
	t.Helper()
	buf := make([]byte, 1<<18)
	require.FailNow(t, fmt.Sprintf("not within %v\n%s", limit, buf[:runtime.Stack(buf, true)]), words...)
}
