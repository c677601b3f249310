package locktest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redlatch/redlatch"
)

// call is an acquisition on its way in a goroutine of its own.
type call struct {
	stage   *stage
	giveUp  context.CancelCauseFunc
	waiting <-chan struct{} // closed when the call looks at the end of its context, as it must before it sleeps
	done    chan struct{}

	// Set before done is closed.

	hold *redlatch.Hold
	err  error
	took time.Duration
}

var errGivenUp = errors.New("the customer has left the shop")

// start begins to take a lock by Lock. When the test ends before it has it, it is given up.
func (s *stage) start(ctx context.Context, l redlatch.Locker, opts ...redlatch.AcquireOption) *call {
	s.t.Helper()
	ctx, giveUp := context.WithCancelCause(ctx)
	watched := &doneWatcher{Context: ctx, asked: make(chan struct{})}
	c := &call{stage: s, giveUp: giveUp, waiting: watched.asked, done: make(chan struct{})}
	s.t.Cleanup(func() {
		giveUp(errGivenUp)
		s.within(c.done, "the end of a call that was given up")
	})
	go func() {
		defer close(c.done)
		began := time.Now()
		c.hold, c.err = l.Lock(watched, opts...)
		c.took = time.Since(began)
	}()
	return c
}

// queue starts a call and returns when it waits.
func (s *stage) queue(ctx context.Context, l redlatch.Locker, opts ...redlatch.AcquireOption) *call {
	s.t.Helper()
	c := s.start(ctx, l, opts...)
	s.within(c.waiting, "a call that must wait")
	return c
}

// succeeds waits for the call to have the lock.
func (c *call) succeeds() *redlatch.Hold {
	c.stage.t.Helper()
	c.stage.within(c.done, "a waiter that can have the lock")
	c.stage.NoError(c.err)
	return c.hold
}

// fails waits for the call to end with an error.
func (c *call) fails() error {
	c.stage.t.Helper()
	c.stage.within(c.done, "a waiter that can't have the lock")
	c.stage.Error(c.err)
	c.stage.Nil(c.hold)
	return c.err
}

// waits says that the call has not ended.
func (c *call) waits() {
	c.stage.t.Helper()
	select {
	case <-c.done:
		c.stage.FailNow("a call ended that must wait", "error: %v", c.err)
	default:
	}
}

// doneWatcher tells when somebody asks for the end of a context.
type doneWatcher struct {
	context.Context
	once  sync.Once
	asked chan struct{}
}

func (d *doneWatcher) Done() <-chan struct{} {
	d.once.Do(func() { close(d.asked) })
	return d.Context.Done()
}
