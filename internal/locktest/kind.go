package locktest

import (
	"context"
	"strings"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/fairlock"
	"github.com/redlatch/redlatch/fencedlock"
	"github.com/redlatch/redlatch/multilock"
	"github.com/redlatch/redlatch/rlock"
	"github.com/redlatch/redlatch/rwlock"
)

var kindPromises = []promise{
	{"LockOfAnotherKindIsAnErrorThatTellsItAndStaysAsItIs", queried, (*stage).otherKinds}, // RL-20
}

// others are locks of all kinds: what they are called where they are met, and by which of them. Those with the same words can't be told apart
// by what is in Redis.
var others = []struct {
	kinds, words string
	make         Make
}{
	{"plain fair fenced", "a plain, fair or fenced lock", func(p *Process, n string) redlatch.Locker { return rlock.New(p.Client(), n) }},
	{"plain fair fenced", "a plain, fair or fenced lock", func(p *Process, n string) redlatch.Locker { return fairlock.New(p.Client(), n) }},
	{"plain fair fenced", "a plain, fair or fenced lock", func(p *Process, n string) redlatch.Locker { return fencedlock.New(p.Client(), n) }},
	{"read write", "a read/write lock in mode read", func(p *Process, n string) redlatch.Locker { return rwlock.New(p.Client(), n).Read() }},
	{"read write", "a read/write lock in mode write", func(p *Process, n string) redlatch.Locker { return rwlock.New(p.Client(), n).Write() }},
	{"grouped", "a grouped multi-lock", func(p *Process, n string) redlatch.Locker { return multilock.NewGroup(p.Client(), n, "account:1") }},
}

func (s *stage) otherKinds() {
	here, there := s.process(), s.process()
	h := s.handle(here)
	view, err := h.Inspect(context.Background())
	s.NoError(err)
	met := 0
	for _, other := range others {
		if strings.Contains(other.kinds, view.Kind) {
			continue
		}
		met++
		// The same owner must be told of its own lock, too: its field can be the same in both.
		hold := s.take(redlatch.WithThreadID(context.Background(), 7), other.make(here, lockName))
		keys := s.keys()
		for _, p := range []*Process{here, there} {
			s.refusesOtherKind(redlatch.WithThreadID(context.Background(), 7), s.lock(p), other.words)
			s.eachQuery(context.Background(), s.handle(p), redlatch.ErrWrongType)
			_, err := s.handle(p).ForceUnlock(context.Background())
			s.ErrorContains(err, other.words)
		}
		s.Equal(keys, s.keys())
		s.NoError(hold.Extend(context.Background(), time.Minute), "the holder was disturbed")
		s.release(hold)
		s.isFree(s.lock(there))
	}
	s.Positive(met)
	s.onlyLeft(func(key string) bool { return s.wiring.Stays(key) || strings.HasPrefix(key, config.TokenPrefix+":") })
}

// refusesOtherKind says that an acquisition ends at once, and tells what is there.
func (s *stage) refusesOtherKind(ctx context.Context, l redlatch.Locker, words string) {
	s.t.Helper()
	for _, acquire := range []func(context.Context, ...redlatch.AcquireOption) (*redlatch.Hold, error){l.Lock, l.TryLock} {
		began := time.Now()
		h, err := acquire(ctx, redlatch.WithWait(time.Minute))
		s.ErrorIs(err, redlatch.ErrWrongType)
		s.ErrorContains(err, words)
		s.Nil(h)
		s.Less(time.Since(began), slack, "it is not tried again")
	}
}
