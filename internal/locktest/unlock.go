package locktest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch"
)

var unlockPromises = []promise{
	{"SecondUnlockIsErrNotHeldAndSendsNothing", nil, (*stage).unlocksOnce},
	{"OneOfManyUnlocksReleases", nil, (*stage).unlocksOnceAtATime},
	{"UnlockFreesAlsoWithDeadContext", nil, (*stage).unlocksWithDeadContext},
	{"UnlockWorksFromAnyGoroutine", nil, (*stage).unlocksElsewhere}, // RL-22
	{"ReleasedHoldSaysSo", nil, (*stage).saysReleased},
	{"UnlockOfAnExpiredHoldLeavesTheNextHolderAlone", nil, (*stage).unlocksExpired}, // RL-05, RL-07
	{"UncontendedPairCostsTwoScripts", both(counted, func(w Wiring) bool { return !w.Composed }), (*stage).costsTwoScripts},
}

func (s *stage) unlocksOnce() {
	p := s.process()
	hold := s.take(context.Background(), s.lock(p))
	s.release(hold)
	rival := s.take(context.Background(), s.rival(p))
	s.sendsNothing(func() {
		s.ErrorIs(hold.Unlock(context.Background()), redlatch.ErrNotHeld)
		s.ErrorIs(hold.Unlock(context.Background()), redlatch.ErrNotHeld)
	})
	s.isHeld(s.lock(p))
	s.release(rival)
}

func (s *stage) unlocksOnceAtATime() {
	p := s.process()
	hold := s.take(context.Background(), s.lock(p))
	var released, refused atomic.Int32
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if hold.Unlock(context.Background()) == nil {
				released.Add(1)
			} else {
				refused.Add(1)
			}
		})
	}
	s.finishes(&wg, "16 calls of Unlock")
	s.EqualValues(1, released.Load())
	s.EqualValues(15, refused.Load())
	s.isFree(s.rival(p))
}

func (s *stage) unlocksWithDeadContext() {
	here, there := s.process(), s.process()
	hold := s.take(context.Background(), s.lock(here))
	dead, cancel := context.WithCancel(context.Background())
	cancel()
	s.NoError(hold.Unlock(dead))
	s.isFree(s.rival(there))
	s.nothingLeft()
}

func (s *stage) unlocksElsewhere() {
	p := s.process()
	hold := s.take(context.Background(), s.lock(p))
	unlocked := make(chan error)
	go func() { unlocked <- hold.Unlock(context.Background()) }()
	s.NoError(<-unlocked)
	s.isFree(s.rival(p))
}

func (s *stage) saysReleased() {
	p := s.process()
	before := time.Now()
	hold := s.take(context.Background(), s.lock(p))
	s.NoError(hold.Err())
	s.NoError(hold.Context().Err())
	s.True(hold.ValidUntil().After(before))
	s.release(hold)

	s.ErrorIs(hold.Err(), redlatch.ErrNotHeld)
	s.within(hold.Context().Done(), "the end of a released hold's context")
	s.ErrorIs(context.Cause(hold.Context()), redlatch.ErrNotHeld)
	s.ErrorIs(hold.Context().Err(), context.Canceled)
	s.Zero(hold.ValidUntil())
	s.ErrorIs(hold.Extend(context.Background(), time.Minute), redlatch.ErrNotHeld)
	select {
	case <-hold.Lost():
		s.Fail("Lost is closed after a release")
	default:
	}
}

func (s *stage) unlocksExpired() {
	here, there := s.process(), s.process()
	hold := s.take(context.Background(), s.lock(here), redlatch.WithLease(Span(200*time.Millisecond)))
	next := s.take(context.Background(), s.rival(there))
	s.within(hold.Lost(), "the news that a lease is over")
	err := hold.Unlock(context.Background())
	s.ErrorIs(err, redlatch.ErrLost)
	s.NotErrorIs(err, redlatch.ErrNotHeld)
	s.isHeld(s.lock(here))
	s.NoError(next.Extend(context.Background(), time.Minute)) // it is there for its holder
	s.ErrorIs(hold.Unlock(context.Background()), redlatch.ErrNotHeld)
	s.release(next)
	s.nothingLeft()
}

func (s *stage) costsTwoScripts() {
	p := s.process()
	s.isFree(s.lock(p)) // the server has both scripts now
	stats := s.sends(func() {
		hold, err := s.lock(p).Lock(context.Background())
		s.NoError(err)
		s.NoError(hold.Unlock(context.Background()))
	})
	s.EqualValues(2, stats["evalsha"])
	asked := stats["set"] // a moment after a release its client asks whether a replica has it, with a SET and a WAIT
	if s.wiring.Shared {
		asked-- // a reader's own
	}
	s.GreaterOrEqual(stats["wait"], s.acknowledgements())
	s.LessOrEqual(stats["wait"], s.acknowledgements()+asked, "replicas are to acknowledge the acquisition, and nothing else")
	s.LessOrEqual(stats["info"], s.acknowledgements())
	for _, name := range []string{"eval", "script|load", "subscribe", "ssubscribe", "unsubscribe", "ping", "multi"} {
		s.Zero(stats[name], name)
	}
}

// acknowledgements is how many WAITs a single acquisition costs.
func (s *stage) acknowledgements() int64 {
	if s.wiring.Topology.Replicates {
		return 1
	}
	return 0
}
