package fairlock_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/fairlock"
	"github.com/redlatch/redlatch/internal/redistest"
)

const (
	name     = "order:1001"
	queue    = "redisson_lock_queue:{order:1001}"
	timeouts = "redisson_lock_timeout:{order:1001}"
	channel  = "redisson_lock__channel:{order:1001}"
	// patience bounds what must come, far below the 30 s of a lock that nobody renews.
	patience = 15 * time.Second
)

var (
	background       = context.Background()
	errGoneElsewhere = errors.New("the customer has gone elsewhere")
)

// open opens a client, which is closed with the test.
func open(t *testing.T, s *redistest.Server, changes ...func(*config.Config)) *redlatch.Client {
	t.Helper()
	cfg := config.Config{Servers: config.Single(s.URL())}
	for _, change := range changes {
		change(&cfg)
	}
	c, err := redlatch.Open(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// deaf makes a client's waiters depend on messages, and on the times that the server tells.
func deaf(c *config.Config) { c.FallbackPoll = time.Hour }

func take(t *testing.T, l *fairlock.Lock, opts ...redlatch.AcquireOption) *redlatch.Hold {
	t.Helper()
	h, err := l.Lock(background, append([]redlatch.AcquireOption{redlatch.WithWait(patience)}, opts...)...)
	require.NoError(t, err)
	return h
}

func release(t *testing.T, h *redlatch.Hold) {
	t.Helper()
	require.NoError(t, h.Unlock(background))
}

// call is an acquisition on its way in a goroutine of its own.
type call struct {
	giveUp context.CancelCauseFunc
	done   chan struct{}
	// Set before done is closed.
	hold *redlatch.Hold
	err  error
}

func start(t *testing.T, l *fairlock.Lock, opts ...redlatch.AcquireOption) *call {
	t.Helper()
	ctx, giveUp := context.WithCancelCause(background)
	c := &call{giveUp: giveUp, done: make(chan struct{})}
	t.Cleanup(func() {
		giveUp(nil)
		<-c.done
	})
	go func() {
		defer close(c.done)
		c.hold, c.err = l.Lock(ctx, opts...)
	}()
	return c
}

// enqueue starts a call and returns when it is the n-th in the queue.
func enqueue(t *testing.T, s *redistest.Server, n int, l *fairlock.Lock, opts ...redlatch.AcquireOption) *call {
	t.Helper()
	c := start(t, l, opts...)
	until(t, func() bool { return len(queued(t, s)) == n })
	return c
}

func (c *call) succeeds(t *testing.T) *redlatch.Hold {
	t.Helper()
	c.ends(t)
	require.NoError(t, c.err)
	return c.hold
}

func (c *call) fails(t *testing.T, why error) {
	t.Helper()
	c.ends(t)
	require.ErrorIs(t, c.err, why)
	require.Nil(t, c.hold)
}

func (c *call) ends(t *testing.T) {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
		require.FailNow(t, "the call has not ended in time")
	}
}

// until waits for what only the server can tell.
func until(t *testing.T, so func() bool) {
	t.Helper()
	require.Eventually(t, so, patience, time.Millisecond)
}

// queued are the fields of those who stand in the queue, in order.
func queued(t *testing.T, s *redistest.Server) []string {
	t.Helper()
	return s.Do(t, "LRANGE", queue, "0", "-1").Texts()
}

// clock is the server's time.
func clock(t *testing.T, s *redistest.Server) time.Time {
	t.Helper()
	parts := s.Do(t, "TIME").List()
	return time.Unix(parts[0].Int(), parts[1].Int()*int64(time.Microsecond))
}

// stand puts somebody into the queue who does not live, until the server's clock says so.
func stand(t *testing.T, s *redistest.Server, field string, until time.Time) {
	t.Helper()
	s.Do(t, "RPUSH", queue, field)
	s.Do(t, "ZADD", timeouts, strconv.FormatInt(until.UnixMilli(), 10), field)
}

// strangers are owners of processes that crashed.
var strangers = []string{
	"7d444840-9dc0-11d1-b245-5ffdce74fad2:1", "7d444840-9dc0-11d1-b245-5ffdce74fad2:2", "7d444840-9dc0-11d1-b245-5ffdce74fad2:3",
}

func nothingLeft(t *testing.T, s *redistest.Server) {
	t.Helper()
	require.Empty(t, s.Snapshot(t).Entries)
}
