package locktest

import (
	"context"
	"errors"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/locktest/probe"
)

var waitPromises = []promise{
	{"TryLockAsksOnce", both(counted, func(w Wiring) bool { return !w.Composed }), (*stage).asksOnce},
	{"WaitLimitEndsTheCallNotBeforeItsTime", nil, (*stage).waitsItsTime},                           // WK-05, SP-02
	{"WaitOfZeroIsOneAttempt", nil, (*stage).zeroWaitIsOnce},                                       //
	{"WaitLimitDoesNotBoundTheHold", nil, (*stage).waitDoesNotBoundHold},                           //
	{"CancelledWaiterReturnsTheCauseAndLeavesNothing", nil, (*stage).cancelled},                    // RL-14
	{"DeadlineOfTheContextEndsTheWait", nil, (*stage).deadline},                                    //
	{"DoneContextBeatsAFreeLock", nil, (*stage).doneContext},                                       //
	{"WaiterOfAnotherProcessIsWokenByRelease", nil, (*stage).wokenByRelease},                       // WK-02
	{"WaiterGetsWhatAnotherWaiterDidNotTake", nil, (*stage).wakeUpPassesOn},                        // WK-16
	{"WaiterGetsTheLockOfACrashedHolder", nil, (*stage).crashedHolder},                             // WK-04
	{"EveryReleaseWakesOneOfManyProcesses", nil, (*stage).everyReleaseWakes},                       // WK-16
	{"HotLockDoesNotSubscribeForEachAcquisition", both(counted, inTurn), (*stage).keepsSubscribed}, //
	{"NoChannelStaysSubscribed", nil, (*stage).leavesNoChannel},                                    // RL-25, WK-08
	{"SubscriptionOutlivesItsWaiterByItsLinger", listens, (*stage).lingers},
}

func (s *stage) asksOnce() {
	here, there := s.process(), s.process()
	rival := s.take(context.Background(), s.rival(there))
	s.isHeld(s.lock(here))
	stats := s.sends(func() { s.isHeld(s.lock(here)) })
	s.EqualValues(1, stats["evalsha"])
	s.Zero(stats["subscribe"])
	s.release(rival)
}

func (s *stage) waitsItsTime() {
	const wait = 300 * time.Millisecond
	here, there := s.process(), s.process()
	rival := s.take(context.Background(), s.rival(there))
	for _, acquire := range []func(context.Context, ...redlatch.AcquireOption) (*redlatch.Hold, error){
		s.lock(here).Lock, s.lock(here).TryLock,
	} {
		began := time.Now()
		h, err := acquire(context.Background(), redlatch.WithWait(wait))
		took := time.Since(began)
		s.ErrorIs(err, redlatch.ErrNotAcquired)
		s.Nil(h)
		s.GreaterOrEqual(took, wait)
		s.Less(took, wait+slack)
	}
	s.release(rival)
	s.nothingLeft()
}

func (s *stage) zeroWaitIsOnce() {
	here, there := s.process(), s.process()
	rival := s.take(context.Background(), s.rival(there))
	began := time.Now()
	for _, acquire := range []func(context.Context, ...redlatch.AcquireOption) (*redlatch.Hold, error){
		s.lock(here).Lock, s.lock(here).TryLock,
	} {
		h, err := acquire(context.Background(), redlatch.WithWait(0))
		s.ErrorIs(err, redlatch.ErrNotAcquired)
		s.Nil(h)
	}
	s.Less(time.Since(began), slack)
	s.Empty(s.site.Channels(s.t), "a single attempt subscribes to nothing")
	s.release(rival)
	h, err := s.lock(here).Lock(context.Background(), redlatch.WithWait(0))
	s.NoError(err)
	s.release(h)
}

func (s *stage) waitDoesNotBoundHold() {
	const wait = 150 * time.Millisecond
	p := s.process()
	hold := s.take(context.Background(), s.lock(p), redlatch.WithWait(wait))
	late := s.start(context.Background(), s.rival(p), redlatch.WithWait(2*wait))
	s.ErrorIs(late.fails(), redlatch.ErrNotAcquired) // twice the wait has passed
	s.NoError(hold.Err())
	s.NoError(hold.Context().Err())
	s.release(hold)
}

func (s *stage) cancelled() {
	here, there := s.process(), s.process()
	rival := s.take(context.Background(), s.rival(there))
	first := s.queue(context.Background(), s.lock(here))
	next := s.queue(context.Background(), s.rival(here))
	first.giveUp(errGivenUp)
	err := first.fails()
	s.ErrorIs(err, context.Canceled)
	s.ErrorIs(err, errGivenUp)
	s.NotErrorIs(err, redlatch.ErrNotAcquired)
	var typed *redlatch.Error
	s.ErrorAs(err, &typed)
	s.Equal(s.wiring.Called(lockName), typed.Name)

	next.waits()
	s.release(rival)
	s.release(next.succeeds())
	s.nothingLeft()
}

func (s *stage) deadline() {
	here, there := s.process(), s.process()
	rival := s.take(context.Background(), s.rival(there))
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	h, err := s.lock(here).Lock(ctx)
	s.ErrorIs(err, context.DeadlineExceeded)
	s.NotErrorIs(err, redlatch.ErrNotAcquired)
	s.Nil(h)
	s.Less(time.Since(began), slack)
	s.release(rival)
	s.nothingLeft()
}

func (s *stage) doneContext() {
	p := s.process()
	dead, cancel := context.WithCancelCause(context.Background())
	cancel(errGivenUp)
	s.sendsNothing(func() {
		for _, acquire := range []func(context.Context, ...redlatch.AcquireOption) (*redlatch.Hold, error){
			s.lock(p).Lock, s.lock(p).TryLock,
		} {
			h, err := acquire(dead)
			s.ErrorIs(err, context.Canceled)
			s.ErrorIs(err, errGivenUp)
			s.Nil(h)
		}
	})
	s.isFree(s.rival(p))
	s.nothingLeft()
}

func (s *stage) wokenByRelease() {
	here, there := s.process(), s.process(probe.Deaf)
	for range 5 {
		rival := s.take(context.Background(), s.rival(here)) // its TTL is 30 s: longer than the patience of succeeds
		waiter := s.queue(context.Background(), s.lock(there))
		waiter.waits()
		s.release(rival)
		s.release(waiter.succeeds())
	}
}

// wakeUpPassesOn lets the first of two waiters give up just when it is woken. However the race ends, the lock goes on: to
// the first, or past it to the second.
func (s *stage) wakeUpPassesOn() {
	here, there := s.process(), s.process(probe.Deaf)
	for range s.rounds(25) {
		rival := s.take(context.Background(), s.rival(here))
		first := s.queue(context.Background(), s.lock(there))
		second := s.queue(context.Background(), s.lock(there))
		go first.giveUp(errGivenUp)
		s.release(rival)
		s.within(first.done, "a waiter that gives up")
		if first.err == nil {
			s.release(first.hold)
		} else {
			s.ErrorIs(first.err, errGivenUp)
		}
		s.release(second.succeeds())
	}
	s.nothingLeft()
}

func (s *stage) crashedHolder() {
	lease := Span(time.Second)
	here, there := s.process(), s.process(probe.Deaf)
	began := time.Now()
	hold := s.take(context.Background(), s.rival(here), redlatch.WithLease(lease))
	waiter := s.queue(context.Background(), s.lock(there))
	here.Close()
	s.ErrorIs(hold.Err(), redlatch.ErrClosed)
	s.release(waiter.succeeds())
	took := time.Since(began)
	s.GreaterOrEqual(took, lease-50*time.Millisecond, "a key is left to expire when its client closes")
	s.Less(took, lease+slack)
}

func (s *stage) everyReleaseWakes() {
	const processes = 6
	holder := s.process()
	rival := s.take(context.Background(), s.rival(holder))
	var calls []*call
	for range processes {
		calls = append(calls, s.queue(context.Background(), s.rival(s.process(probe.Deaf))))
	}
	s.release(rival)
	ended := make(chan *call)
	for _, c := range calls {
		go func() {
			<-c.done
			ended <- c
		}()
	}
	for range processes {
		c := <-ended
		s.release(c.succeeds())
	}
	s.nothingLeft()
}

// mostMembers is of how many locks a composed one under test is made at most, far fewer than the rounds of keepsSubscribed.
const mostMembers = 3

func (s *stage) keepsSubscribed() {
	here, there := s.process(), s.process()
	rounds := func(n int) {
		for range n {
			rival := s.take(context.Background(), s.rival(here))
			waiter := s.queue(context.Background(), s.lock(there))
			s.release(rival)
			s.release(waiter.succeeds())
		}
	}
	rounds(2)
	for s.wiring.Listens && len(s.site.Channels(s.t)) == 0 {
		rounds(1) // until a waiter had to wait for long enough to subscribe
	}
	stats := s.sends(func() { rounds(10) })
	first := int64(0)
	if s.wiring.Composed {
		first = mostMembers // the waiter may have had to wait for one of its locks only now
	}
	s.LessOrEqual(stats["subscribe"], first)
	s.Zero(stats["unsubscribe"])
	s.Zero(stats["eval"])
}

func (s *stage) leavesNoChannel() {
	linger := func(c *config.Config) { c.SubscriptionLinger = config.NoLinger }
	here, there := s.process(), s.process(linger)
	for _, name := range []string{"order:1", "order:2", "order:3"} {
		rival := s.take(context.Background(), s.wiring.Rival(here, name))
		waiter := s.queue(context.Background(), s.wiring.New(there, name))
		s.release(rival)
		s.release(waiter.succeeds())
	}
	s.until(func() bool { return len(s.site.Channels(s.t)) == 0 })
}

func (s *stage) lingers() {
	linger := func(c *config.Config) { c.SubscriptionLinger = 500 * time.Millisecond }
	here, there := s.process(), s.process(linger)
	rival := s.take(context.Background(), s.rival(here))
	waiter := s.queue(context.Background(), s.lock(there))
	s.until(func() bool { return len(s.site.Channels(s.t)) > 0 })
	waiter.giveUp(errors.New("enough"))
	s.Error(waiter.fails())
	s.NotEmpty(s.site.Channels(s.t))
	s.until(func() bool { return len(s.site.Channels(s.t)) == 0 })
	s.release(rival)
}
