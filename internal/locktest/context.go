package locktest

import (
	"context"
	"time"

	"github.com/redlatch/redlatch"
)

var contextPromises = []promise{
	{"HoldsContextCarriesValuesAndDeadline", nil, (*stage).inherits},
	{"EndOfTheCallersContextEndsTheWorkAndNotTheLock", nil, (*stage).parentEnds},
	{"CauseTellsReleaseLossAndCloseApart", nil, (*stage).causes},
	{"DerivedContextsEndWithTheLock", nil, (*stage).derived},
	{"HoldContextEndsWhenTheTrustDoes", nil, (*stage).endsWithTrust},
}

func (s *stage) inherits() {
	p := s.process()
	deadline := time.Now().Add(time.Hour)
	ctx, cancel := context.WithDeadline(context.WithValue(context.Background(), testKey{}, "a value"), deadline)
	defer cancel()
	hold, err := s.lock(p).Lock(ctx)
	s.NoError(err)
	s.Equal("a value", hold.Context().Value(testKey{}))
	got, ok := hold.Context().Deadline()
	s.True(ok)
	s.True(got.Equal(deadline))
	s.release(hold)

	hold, err = s.lock(p).Lock(context.Background())
	s.NoError(err)
	_, ok = hold.Context().Deadline()
	s.False(ok)
	s.release(hold)
}

func (s *stage) parentEnds() {
	here, there := s.process(), s.process()
	ctx, cancel := context.WithCancelCause(context.Background())
	hold, err := s.lock(here).Lock(ctx)
	s.NoError(err)
	cancel(errGivenUp)
	s.within(hold.Context().Done(), "the end of the work")
	s.ErrorIs(context.Cause(hold.Context()), errGivenUp)
	s.NoError(hold.Err())
	s.isHeld(s.rival(there))
	s.NoError(hold.Unlock(ctx))
	s.isFree(s.rival(there))
}

func (s *stage) causes() {
	p := s.process()
	released := s.take(context.Background(), s.lock(p))
	s.release(released)
	lost := s.take(context.Background(), s.lock(p), redlatch.WithLease(Span(50*time.Millisecond)))
	s.within(lost.Context().Done(), "the end of a lost hold's context")
	closed := s.take(context.Background(), s.wiring.New(p, "another"))
	p.Close()
	for _, c := range []struct {
		hold *redlatch.Hold
		why  error
	}{{released, redlatch.ErrNotHeld}, {lost, redlatch.ErrLost}, {closed, redlatch.ErrClosed}} {
		s.within(c.hold.Context().Done(), "the end of a hold's context")
		for _, other := range []error{redlatch.ErrNotHeld, redlatch.ErrLost, redlatch.ErrClosed} {
			s.Equal(other == c.why, errorIs(context.Cause(c.hold.Context()), other)) //nolint:errorlint // which sentinel it is, is the question
			s.Equal(other == c.why, errorIs(c.hold.Err(), other))                    //nolint:errorlint // the same
		}
	}
}

func (s *stage) derived() {
	p := s.process()
	hold := s.take(context.Background(), s.lock(p))
	child, cancel := context.WithTimeout(hold.Context(), time.Hour)
	defer cancel()
	s.NoError(child.Err())
	s.release(hold)
	s.within(child.Done(), "the end of what derives from a hold's context")
	s.ErrorIs(context.Cause(child), redlatch.ErrNotHeld)
}

func (s *stage) endsWithTrust() {
	p := s.process()
	for range 3 {
		hold := s.take(context.Background(), s.lock(p), redlatch.WithLease(Span(100*time.Millisecond)))
		until := hold.ValidUntil()
		s.within(hold.Context().Done(), "the end of a lost hold's context")
		now := time.Now()
		s.False(now.Before(until), "cancelled before its time")
		s.Less(now.Sub(until), slack)
		s.becomesFree(s.lock(p))
	}
}
