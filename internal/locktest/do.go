package locktest

import (
	"context"
	"errors"
	"time"

	"github.com/redlatch/redlatch"
)

var doPromises = []promise{
	{"DoRunsUnderTheLockAndReleasesIt", nil, (*stage).doRuns},
	{"DoJoinsTheErrorsOfWorkAndUnlock", nil, (*stage).doJoins},
	{"DoReleasesWhenTheWorkPanics", nil, (*stage).doPanics}, // WD-19
	{"DoReportsALockLostUnderTheWork", nil, (*stage).doLoses},
	{"DoDoesNotRunTheWorkWithoutTheLock", nil, (*stage).doWithout},
	{"DoReleasesAlsoWhenItsContextHasEnded", nil, (*stage).doOutlivesContext},
	{"DoEntersAgainByTheContextOfTheWork", reentrant, (*stage).doNests},
}

var errWork = errors.New("the order is not there")

func (s *stage) doRuns() {
	here, there := s.process(), s.process()
	ran := false
	s.NoError(redlatch.Do(context.Background(), s.lock(here), func(ctx context.Context) error {
		ran = true
		s.isHeld(s.rival(there))
		return ctx.Err()
	}))
	s.True(ran)
	s.isFree(s.rival(there))
	s.nothingLeft()
}

func (s *stage) doJoins() {
	p := s.process()
	err := redlatch.Do(context.Background(), s.lock(p), func(context.Context) error { return errWork })
	s.ErrorIs(err, errWork)
	s.NotErrorIs(err, redlatch.ErrLost)
	s.isFree(s.rival(p))
	err = redlatch.Do(context.Background(), s.lock(p), func(ctx context.Context) error {
		<-ctx.Done()
		return errWork
	}, redlatch.WithLease(Span(50*time.Millisecond)))
	s.ErrorIs(err, errWork)
	s.ErrorIs(err, redlatch.ErrLost)
}

func (s *stage) doPanics() {
	here, there := s.process(), s.process()
	s.PanicsWithValue("out of paper", func() {
		_ = redlatch.Do(context.Background(), s.lock(here), func(context.Context) error { panic("out of paper") })
	})
	s.isFree(s.rival(there))
	s.nothingLeft()
}

func (s *stage) doLoses() {
	p := s.process()
	err := redlatch.Do(context.Background(), s.lock(p), func(ctx context.Context) error {
		<-ctx.Done()
		s.ErrorIs(context.Cause(ctx), redlatch.ErrLost)
		return nil
	}, redlatch.WithLease(Span(50*time.Millisecond)))
	s.ErrorIs(err, redlatch.ErrLost)
	s.becomesFree(s.rival(p))
}

func (s *stage) doWithout() {
	here, there := s.process(), s.process()
	rival := s.take(context.Background(), s.rival(there))
	work := func(context.Context) error {
		s.Fail("the work ran")
		return nil
	}
	err := redlatch.Do(context.Background(), s.lock(here), func(context.Context) error {
		s.Fail("the work ran without the lock")
		return nil
	}, redlatch.WithWait(50*time.Millisecond))
	s.ErrorIs(err, redlatch.ErrNotAcquired)
	s.Error(redlatch.Do(context.Background(), nil, work))
	s.Error(redlatch.Do(context.Background(), s.lock(here), nil))
	s.release(rival)
}

func (s *stage) doOutlivesContext() {
	here, there := s.process(), s.process()
	ctx, cancel := context.WithCancel(context.Background())
	err := redlatch.Do(ctx, s.lock(here), func(work context.Context) error {
		cancel()
		<-work.Done()
		return work.Err()
	})
	s.ErrorIs(err, context.Canceled)
	s.NotErrorIs(err, redlatch.ErrLost)
	s.isFree(s.rival(there))
	s.nothingLeft()
}

func (s *stage) doNests() {
	p := s.process()
	s.NoError(redlatch.Do(context.Background(), s.lock(p), func(ctx context.Context) error {
		return redlatch.Do(ctx, s.lock(p), func(ctx context.Context) error {
			return redlatch.Do(ctx, s.lock(p), func(context.Context) error { return nil })
		})
	}))
	s.nothingLeft()
}
