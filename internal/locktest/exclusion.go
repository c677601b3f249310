package locktest

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/locktest/probe"
)

var exclusionPromises = []promise{
	{"HolderKeepsOthersOfItsProcessOut", nil, (*stage).excludesInProcess},                      // RL-23
	{"HolderKeepsOtherProcessesOut", nil, (*stage).excludesProcesses},                          // RL-23
	{"SharedHoldersStandSideBySide", func(w Wiring) bool { return w.Shared }, (*stage).shares}, //
	{"ManyClientsCountWithoutLoss", nil, (*stage).counts},                                      // RL-25
	{"ManyGoroutinesOfOneClientCount", nil, (*stage).countsInOneProcess},                       // RL-25, WD-08
	{"LocksOfDifferentNamesDoNotMeet", nil, (*stage).separatesNames},
}

func (s *stage) excludesInProcess() {
	p := s.process()
	hold := s.take(context.Background(), s.lock(p))
	s.isHeld(s.rival(p))
	if exclusive(s.wiring) {
		s.isHeld(s.lock(p)) // the same handle or another: a goroutine is no owner
	}
	s.release(hold)
	s.isFree(s.rival(p))
	s.nothingLeft()
}

func (s *stage) excludesProcesses() {
	here, there := s.process(), s.process()
	hold := s.take(context.Background(), s.lock(here))
	s.isHeld(s.rival(there))
	s.release(hold)

	rival := s.take(context.Background(), s.rival(there))
	s.isHeld(s.lock(here))
	s.release(rival)
	s.isFree(s.lock(here))
	s.nothingLeft()
}

func (s *stage) shares() {
	here, there := s.process(), s.process()
	first := s.take(context.Background(), s.lock(here))
	second := s.take(context.Background(), s.lock(here))
	third := s.take(context.Background(), s.lock(there))
	s.release(first)
	s.release(second)
	s.isHeld(s.rival(here))
	s.release(third)
	s.isFree(s.rival(here))
}

func (s *stage) separatesNames() {
	p := s.process()
	hold := s.take(context.Background(), s.wiring.New(p, "order:1"))
	other := s.take(context.Background(), s.wiring.New(p, "order:2"))
	s.release(hold)
	s.release(other)
	s.nothingLeft()
}

func (s *stage) counts() {
	clients, rounds := 16, 100
	switch {
	case s.wiring.Topology.frugal():
		clients, rounds = 4, 20
	case s.wiring.NonReentrant, !s.wiring.Listens:
		rounds = 25 // the same scripts again
	}
	section := &section{stage: s}
	var wg sync.WaitGroup
	for range clients {
		p := s.process(probe.Deaf) // a lost wake-up would be a standstill
		wg.Go(func() { section.run(p, rounds) })
	}
	s.finishes(&wg, "many clients with many rounds each")
	section.verify(clients * rounds)
}

func (s *stage) countsInOneProcess() {
	goroutines, rounds := 32, 15
	if s.wiring.Topology.frugal() {
		goroutines, rounds = 8, 5
	}
	section, p := &section{stage: s}, s.process(probe.Deaf)
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() { section.run(p, rounds) })
	}
	s.finishes(&wg, "many goroutines with many rounds each")
	section.verify(goroutines * rounds)
}

// section is what must not be entered by two at the same time. It counts in a way that loses counts if it is.
type section struct {
	stage    *stage
	locks    atomic.Int32 // holders of the lock under test, inside now
	rivals   atomic.Int32
	counter  atomic.Int64
	overlaps atomic.Int32
}

// run goes through the section so many times, as a rival and under the lock under test in turn.
func (c *section) run(p *Process, rounds int) {
	s := c.stage
	for i := range rounds {
		l, enter := s.rival(p), c.asRival
		if i%2 == 0 && s.wiring.Shared {
			l, enter = s.lock(p), c.asReader
		}
		err := redlatch.Do(s.t.Context(), l, func(context.Context) error {
			enter()
			return nil
		})
		if err != nil {
			s.complain("round %d: %v", i, err)
			return
		}
	}
}

func (c *section) asRival() {
	if c.rivals.Add(1) > 1 || c.locks.Load() > 0 {
		c.overlaps.Add(1)
	}
	c.count()
	c.rivals.Add(-1)
}

func (c *section) asReader() {
	c.locks.Add(1)
	if c.rivals.Load() > 0 {
		c.overlaps.Add(1)
	}
	c.counter.Add(1)
	c.locks.Add(-1)
}

// count adds one, with room for others to come between reading and writing.
func (c *section) count() {
	n := c.counter.Load()
	runtime.Gosched()
	c.counter.Store(n + 1)
}

func (c *section) verify(want int) {
	s := c.stage
	s.Zero(c.overlaps.Load(), "times that two were inside")
	s.EqualValues(want, c.counter.Load())
	s.nothingLeft()
}
