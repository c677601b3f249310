package locktest

import (
	"context"
	"sync"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/locktest/probe"
)

var closePromises = []promise{
	{"CloseEndsWaitersAndHoldsAndLeavesTheKeys", nil, (*stage).closes},
	{"ClosedClientRefusesEveryCall", nil, (*stage).refusesAfterClose},
	{"CloseCanBeCalledAgainAndAtOnce", nil, (*stage).closesOften},
	{"ShutdownWaitsForTheHolds", nil, (*stage).shutsDown},
	{"ShutdownEndsWaitersAndAdmitsNobody", nil, (*stage).shutdownAdmitsNobody},
	{"ShutdownLetsAHolderEnterAgain", reentrant, (*stage).shutdownLetsEnter},
	{"ShutdownEndsWithItsContext", nil, (*stage).shutdownBounded},
	{"ShutdownOfAnIdleClientIsImmediate", nil, (*stage).shutdownIdle},
	{"ShutdownDoesNotWaitForWhatIsLost", nil, (*stage).shutdownForgetsLost},
}

func (s *stage) closes() {
	here, there := s.process(), s.process(probe.Deaf)
	hold := s.take(context.Background(), s.lock(here))
	foreign := s.take(context.Background(), s.wiring.Rival(there, "another"))
	front := s.queue(context.Background(), s.wiring.New(here, "another"))
	behind := s.queue(context.Background(), s.wiring.New(here, "another"))
	here.Close()

	s.ErrorIs(front.fails(), redlatch.ErrClosed)
	s.ErrorIs(behind.fails(), redlatch.ErrClosed)
	s.isLost(hold, redlatch.ErrClosed)
	s.NotErrorIs(hold.Err(), redlatch.ErrLost)
	s.isHeld(s.rival(there)) // nobody can tell whether the work has stopped
	s.release(foreign)
}

func (s *stage) refusesAfterClose() {
	p := s.process()
	lock := s.lock(p)
	hold := s.take(context.Background(), lock)
	p.Close()
	for _, opts := range [][]redlatch.AcquireOption{nil, {redlatch.WithWait(time.Minute)}} {
		_, err := lock.Lock(context.Background(), opts...)
		s.ErrorIs(err, redlatch.ErrClosed)
		_, err = lock.TryLock(context.Background(), opts...)
		s.ErrorIs(err, redlatch.ErrClosed)
	}
	_, err := lock.Lock(hold.Context())
	s.Error(err)
	_, err = lock.Lock(redlatch.WithOwner(context.Background(), hold.Owner()))
	s.ErrorIs(err, redlatch.ErrClosed)
	s.ErrorIs(hold.Extend(context.Background(), time.Minute), redlatch.ErrClosed)
	s.ErrorIs(hold.Unlock(context.Background()), redlatch.ErrClosed)
	s.ErrorIs(hold.Unlock(context.Background()), redlatch.ErrNotHeld)
}

func (s *stage) closesOften() {
	p := s.process()
	s.take(context.Background(), s.lock(p))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(p.Close)
	}
	s.finishes(&wg, "eight calls of Close")
	p.Close()
	for _, c := range p.Clients {
		s.NoError(c.Shutdown(context.Background()))
	}
}

// shutdown shuts all clients of a process down, and returns the first error.
func shutdown(ctx context.Context, p *Process) <-chan error {
	result := make(chan error, 1)
	go func() {
		var first error
		for _, c := range p.Clients {
			if err := c.Shutdown(ctx); first == nil {
				first = err
			}
		}
		result <- first
	}()
	return result
}

// awaitError waits for the end of a call in the background.
func (s *stage) awaitError(result <-chan error) error {
	s.t.Helper()
	probe.Until(s.t, func() bool { return len(result) > 0 }, "the end of a call")
	return <-result
}

// refusesNew waits until a process that shuts down admits nobody.
func (s *stage) refusesNew(p *Process) {
	s.t.Helper()
	s.until(func() bool {
		h, err := s.wiring.New(p, "a new one").TryLock(context.Background())
		if err == nil {
			s.NoError(h.Unlock(context.Background()))
			return false
		}
		s.ErrorIs(err, redlatch.ErrClosed)
		return true
	})
}

func (s *stage) shutsDown() {
	here, there := s.process(), s.process()
	hold := s.take(context.Background(), s.lock(here))
	result := shutdown(context.Background(), here)
	s.refusesNew(here)
	s.NoError(hold.Err())
	s.NoError(hold.Context().Err())
	s.isHeld(s.rival(there))
	s.Empty(result)
	s.release(hold)
	s.NoError(s.awaitError(result))
	s.isFree(s.rival(there))
	s.nothingLeft()
}

func (s *stage) shutdownAdmitsNobody() {
	here, there := s.process(), s.process()
	rival := s.take(context.Background(), s.rival(there))
	front := s.queue(context.Background(), s.lock(here))
	behind := s.queue(context.Background(), s.lock(here))
	result := shutdown(context.Background(), here)
	s.ErrorIs(front.fails(), redlatch.ErrClosed)
	s.ErrorIs(behind.fails(), redlatch.ErrClosed)
	s.NoError(s.awaitError(result))
	s.release(rival)
	s.nothingLeft()
}

func (s *stage) shutdownLetsEnter() {
	p := s.process()
	hold := s.take(context.Background(), s.lock(p))
	result := shutdown(context.Background(), p)
	s.refusesNew(p)
	inner := s.take(hold.Context(), s.lock(p))
	s.release(inner)
	s.Empty(result)
	s.release(hold)
	s.NoError(s.awaitError(result))
	s.nothingLeft()
}

func (s *stage) shutdownBounded() {
	here, there := s.process(), s.process()
	hold := s.take(context.Background(), s.lock(here))
	ctx, cancel := context.WithCancelCause(context.Background())
	result := shutdown(ctx, here)
	s.refusesNew(here)
	cancel(errGivenUp)
	err := s.awaitError(result)
	s.ErrorIs(err, context.Canceled)
	s.ErrorIs(err, errGivenUp)
	s.Regexp(`with [1-9]\d* holds`, err.Error()) // a hold of each member, where there are several
	s.isLost(hold, redlatch.ErrClosed)
	s.isHeld(s.rival(there))
}

func (s *stage) shutdownIdle() {
	p := s.process()
	s.isFree(s.lock(p))
	s.NoError(s.awaitError(shutdown(context.Background(), p)))
	_, err := s.lock(p).Lock(context.Background())
	s.ErrorIs(err, redlatch.ErrClosed)
}

func (s *stage) shutdownForgetsLost() {
	p := s.process(func(c *config.Config) { c.LockWatchdogTimeout = time.Hour })
	s.take(context.Background(), s.lock(p), redlatch.WithLease(Span(200*time.Millisecond))) // and never released
	s.NoError(s.awaitError(shutdown(context.Background(), p)))
}
