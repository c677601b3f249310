package locktest

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
)

func errorIs(err, target error) bool { return errors.Is(err, target) }

var inputPromises = []promise{
	{"BadNamesAreErrors", nil, (*stage).badNames},
	{"LockWithoutAClientIsAnError", func(w Wiring) bool { return !w.Composed }, (*stage).noClient},
	{"BadLeasesWaitsAndLimitsAreErrors", nil, (*stage).badOptions},
	{"EmptyOrReservedOwnersAreErrors", nil, (*stage).badOwners},
	{"KeyOfAnotherTypeIsAnErrorAndStaysAsItIs", nil, (*stage).wrongType}, // RL-19
}

// refuses says that no acquisition succeeds, for a reason in the words given, and that nothing is sent. why is an error
// that it must be, or nil.
func (s *stage) refuses(ctx context.Context, l redlatch.Locker, why error, words []string, opts ...redlatch.AcquireOption) {
	s.t.Helper()
	s.sendsNothing(func() {
		for _, acquire := range []func(context.Context, ...redlatch.AcquireOption) (*redlatch.Hold, error){l.Lock, l.TryLock} {
			h, err := acquire(ctx, opts...)
			s.Nil(h)
			var typed *redlatch.Error
			s.ErrorAs(err, &typed)
			s.Equal(l.Name(), typed.Name)
			for _, word := range words {
				s.ErrorContains(err, word)
			}
			if why != nil {
				s.ErrorIs(err, why)
				s.True(s.wiring.Composed || strings.Count(err.Error(), why.Error()) < 2, "it says it twice: %v", err)
			}
		}
	})
}

func (s *stage) badNames() {
	p := s.process()
	s.refuses(context.Background(), s.wiring.New(p, ""), redlatch.ErrBadName, []string{"empty"})
	long := strings.Repeat("x", config.MaxNameLength+1)
	s.refuses(context.Background(), s.wiring.New(p, long), redlatch.ErrBadName, []string{"65536"})

	mapped := s.process(func(c *config.Config) { c.NameMapper = func(string) string { return "" } })
	s.refuses(context.Background(), s.lock(mapped), redlatch.ErrBadName, []string{"NameMapper"})
	s.nothingLeft()
}

func (s *stage) noClient() {
	l := s.wiring.New(&Process{Clients: make([]*redlatch.Client, len(s.site.Servers))}, lockName)
	s.refuses(context.Background(), l, redlatch.ErrClosed, []string{"without a client"})
}

func (s *stage) badOptions() {
	p := s.process()
	l := s.lock(p)
	for _, lease := range badLeases {
		s.refuses(context.Background(), l, nil, []string{"WithLease", "1ms"}, redlatch.WithLease(lease))
		s.refuses(context.Background(), l, nil, []string{"WithMaxHold", "1ms"}, redlatch.WithMaxHold(lease))
	}
	for _, wait := range []time.Duration{-1, -time.Hour} {
		s.refuses(context.Background(), l, nil, []string{"WithWait", "negative"}, redlatch.WithWait(wait))
	}
	s.refuses(context.Background(), l, nil, []string{"WithMaxHold", "WithLease"},
		redlatch.WithLease(time.Second), redlatch.WithMaxHold(time.Second))
	s.refuses(context.Background(), l, nil, []string{"WithLease", "WithWait", "WithMaxHold"}, // all faults at once
		redlatch.WithLease(0), redlatch.WithWait(-1), redlatch.WithMaxHold(-1))
	s.isFree(l)
	for _, lease := range []time.Duration{time.Minute, config.MaxLease} {
		s.release(s.take(context.Background(), l, redlatch.WithLease(lease)))
		s.release(s.take(context.Background(), l, redlatch.WithMaxHold(lease)))
	}
	s.nothingLeft()
}

func (s *stage) badOwners() {
	p := s.process()
	l := s.lock(p)
	s.refuses(redlatch.WithOwner(context.Background(), redlatch.Owner{}), l, nil, []string{"Owner"})
	for _, thread := range []int64{1 << 62, 1<<62 + 1, 1<<62 + 1<<40 - 1} {
		s.refuses(redlatch.WithThreadID(context.Background(), thread), l, nil, []string{"thread id", "reserved"})
	}
	for _, thread := range []int64{0, 1, -1, 1<<62 - 1, 1<<62 + 1<<40, -1 << 63, 1<<63 - 1} {
		s.release(s.take(redlatch.WithThreadID(context.Background(), thread), l))
	}
	s.nothingLeft()
}

func (s *stage) wrongType() {
	p := s.process()
	l, keys := s.lock(p), s.wiring.Vital(lockName)
	for _, plant := range [][]string{{"SET", "", "no lock"}, {"RPUSH", "", "no", "lock"}} {
		for _, key := range keys {
			plant[1] = key
			s.site.Do(s.t, plant...)
		}
		for _, acquire := range []func(context.Context, ...redlatch.AcquireOption) (*redlatch.Hold, error){l.Lock, l.TryLock} {
			began := time.Now()
			h, err := acquire(context.Background(), redlatch.WithWait(time.Minute))
			s.ErrorIs(err, redlatch.ErrWrongType)
			s.Nil(h)
			s.Less(time.Since(began), slack, "it is not tried again")
		}
		s.ElementsMatch(keys, s.keys())
		for _, key := range keys {
			s.site.Do(s.t, "PERSIST", key) // an error would be a key that is gone
			s.site.Do(s.t, "DEL", key)
		}
	}
	s.isFree(l)
}
