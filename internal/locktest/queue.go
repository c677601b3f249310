package locktest

import (
	"context"
	"sync"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/locktest/probe"
)

var queuePromises = []promise{
	{"WaitersOfOneProcessAreServedInOrder", both(exclusive, ordered), (*stage).servesInOrder},
	{"QueuedWaitersCostRedisNothing", both(counted, inTurn), (*stage).queuesForFree},
	{"WaiterThatLeavesTheQueueKeepsNobodyBack", nil, (*stage).leavesQueue},
	{"FrontOfTheQueueLeavesAndTheNextIsServed", nil, (*stage).frontLeaves},
	{"WaitLimitCountsInTheQueueToo", nil, (*stage).limitsInQueue},
}

func (s *stage) servesInOrder() {
	const waiters = 10
	for _, handOff := range []int{config.DefaultHandOffLimit, config.NoHandOff} {
		p := s.process(func(c *config.Config) { c.HandOffLimit, c.HandOffWindow = handOff, time.Minute })
		hold := s.take(context.Background(), s.rival(p))
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i := range waiters {
			c := s.queue(context.Background(), s.lock(p))
			s.stands(p, i+1)
			wg.Go(func() {
				<-c.done
				if c.err != nil {
					s.complain("waiter %d: %v", i, c.err)
					return
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				if err := c.hold.Unlock(context.Background()); err != nil {
					s.complain("waiter %d: %v", i, err)
				}
			})
		}
		s.release(hold)
		s.finishes(&wg, "ten waiters one after the other")
		s.IsIncreasing(order)
		s.Len(order, waiters)
		s.nothingLeft()
	}
}

// stands waits until so many stand in Redis's queue, where it keeps one and the lock can tell.
func (s *stage) stands(p *Process, waiters int) {
	s.t.Helper()
	if !s.wiring.Together || s.wiring.Shared || s.wiring.Composed {
		return
	}
	s.until(func() bool {
		view, err := s.handle(p).Inspect(context.Background())
		s.NoError(err)
		return len(view.Queue) >= waiters
	})
}

func (s *stage) queuesForFree() {
	p := s.process(probe.Deaf)
	hold := s.take(context.Background(), s.rival(p))
	first := s.queue(context.Background(), s.lock(p), redlatch.WithWait(time.Minute))
	if s.wiring.Listens {
		s.until(func() bool { return len(s.site.Channels(s.t)) > 0 })
	}
	var queued []*call
	stats := s.sends(func() {
		for range 20 {
			queued = append(queued, s.queue(context.Background(), s.lock(p)))
		}
	})
	if s.wiring.Listens {
		s.LessOrEqual(stats["evalsha"], int64(1), "the first of them asks once more when it has subscribed")
		s.Zero(stats["subscribe"])
	}
	for _, c := range queued {
		c.giveUp(errGivenUp)
		s.ErrorIs(c.fails(), errGivenUp)
	}
	s.release(hold)
	s.release(first.succeeds())
}

func (s *stage) leavesQueue() {
	here, there := s.process(), s.process()
	hold := s.take(context.Background(), s.rival(there))
	first := s.queue(context.Background(), s.rival(here))
	s.stands(here, 1)
	middle := s.queue(context.Background(), s.lock(here))
	last := s.queue(context.Background(), s.rival(here))
	middle.giveUp(errGivenUp)
	s.ErrorIs(middle.fails(), errGivenUp)
	s.release(hold)
	if s.wiring.Unordered { // the last one can come first
		select {
		case <-first.done:
		case <-last.done:
			first, last = last, first
		case <-time.After(patience): // told by what follows
		}
	}
	s.release(first.succeeds())
	s.release(last.succeeds())
	s.nothingLeft()
}

func (s *stage) frontLeaves() {
	here, there := s.process(), s.process(probe.Deaf)
	hold := s.take(context.Background(), s.rival(here))
	front := s.queue(context.Background(), s.lock(there))
	next := s.queue(context.Background(), s.lock(there))
	front.giveUp(errGivenUp)
	s.ErrorIs(front.fails(), errGivenUp)
	s.release(hold)
	s.release(next.succeeds())
}

func (s *stage) limitsInQueue() {
	const wait = 200 * time.Millisecond
	here, there := s.process(), s.process()
	hold := s.take(context.Background(), s.rival(there))
	front := s.queue(context.Background(), s.lock(here))
	behind := s.start(context.Background(), s.lock(here), redlatch.WithWait(wait))
	s.ErrorIs(behind.fails(), redlatch.ErrNotAcquired)
	s.GreaterOrEqual(behind.took, wait)
	s.Less(behind.took, wait+slack)
	s.release(hold)
	s.release(front.succeeds())
}
