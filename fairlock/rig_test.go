package fairlock_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/fairlock"
	"github.com/redlatch/redlatch/internal/locktest/probe"
	"github.com/redlatch/redlatch/internal/redistest"
)

const (
	name     = "order:1001"
	queue    = "redisson_lock_queue:{order:1001}"
	timeouts = "redisson_lock_timeout:{order:1001}"
	channel  = "redisson_lock__channel:{order:1001}"
)

var (
	background       = context.Background()
	errGoneElsewhere = errors.New("the customer has gone elsewhere")
)

// enqueue starts a call and returns when it is the n-th in the queue.
func enqueue(t *testing.T, s *redistest.Server, n int, l *fairlock.Lock, opts ...redlatch.AcquireOption) *probe.Call {
	t.Helper()
	c := probe.Start(t, background, l, opts...)
	probe.Until(t, func() bool { return len(queued(t, s)) == n })
	return c
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
