package probe

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
)

// Call is a call on its way in a goroutine of its own.
type Call struct {
	Done   chan struct{}           // closed when it has ended
	GiveUp context.CancelCauseFunc // ends the context of an acquisition

	// Set before Done is closed.

	Hold *redlatch.Hold
	Err  error
	Took time.Duration

	t testing.TB
}

// Start begins to take a lock. When the test ends before it has it, it is given up.
func Start(t testing.TB, ctx context.Context, l redlatch.Locker, opts ...redlatch.AcquireOption) *Call { //nolint:revive // the test comes first
	t.Helper()
	ctx, giveUp := context.WithCancelCause(ctx)
	c := begin(t, func() (*redlatch.Hold, error) { return l.Lock(ctx, opts...) })
	c.GiveUp = giveUp
	t.Cleanup(func() {
		giveUp(nil)
		Within(t, c.Done, "the end of a call that was given up")
	})
	return c
}

// Go begins any other call.
func Go(t testing.TB, f func() error) *Call {
	t.Helper()
	return begin(t, func() (*redlatch.Hold, error) { return nil, f() })
}

func begin(t testing.TB, f func() (*redlatch.Hold, error)) *Call {
	t.Helper()
	c := &Call{Done: make(chan struct{}), t: t}
	go func() {
		defer close(c.Done)
		began := time.Now()
		c.Hold, c.Err = f()
		c.Took = time.Since(began)
	}()
	return c
}

// Ends waits for the call to end and returns its error.
func (c *Call) Ends() error {
	c.t.Helper()
	Within(c.t, c.Done, "the end of a call")
	return c.Err
}

// Succeeds waits for a call that must succeed.
func (c *Call) Succeeds() *redlatch.Hold {
	c.t.Helper()
	require.NoError(c.t, c.Ends())
	return c.Hold
}

// Fails waits for a call that must fail, and returns why.
func (c *Call) Fails() error {
	c.t.Helper()
	require.Error(c.t, c.Ends())
	require.Nil(c.t, c.Hold)
	return c.Err
}
