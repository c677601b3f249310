package redlatch_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/locktest"
	"github.com/redlatch/redlatch/internal/locktest/probe"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/rlock"
)

var subscribes = redistest.Sends("SUBSCRIBE", lockChannel)

// listening waits until somebody listens on the channel of the lock.
func (r *rig) listening() {
	r.Helper()
	r.until(func() bool { return len(r.server.Channels(r)) > 0 }, "nobody listens")
}

// listeners are the numbers of the connections that listen.
func (r *rig) listeners() []int64 {
	r.Helper()
	var ids []int64
	for _, c := range r.server.Clients(r, "pubsub") {
		ids = append(ids, c.ID)
	}
	return ids
}

// WK-01: the holder releases after the waiter's first attempt and before it listens.
func TestReleaseBeforeTheSubscriptionIsNotMissed(t *testing.T) {
	t.Parallel()
	r := newRig(t, probe.Deaf)
	hold := r.take(context.Background(), r.theirs())
	late := make(chan struct{})
	trap := r.relay.Next(subscribes, redistest.HoldRequest(late))
	waiter := r.starts(context.Background(), r.lock())
	trap.AwaitRequest(t)
	r.release(hold)
	close(late)
	r.release(waiter.Succeeds())
	r.nothingLeft()
}

// WK-02: the message comes while the waiter's attempt is being answered, before it sleeps.
func TestMessageBeforeTheSleepIsNotMissed(t *testing.T) {
	t.Parallel()
	r := newRig(t, probe.Deaf)
	hold := r.take(context.Background(), r.theirs())
	late := make(chan struct{})
	// The attempt that follows the confirmation: it is answered "taken", and that answer is under way during the release.
	first := r.relay.Next(runs("acquire"), redistest.Pass())
	second := r.relay.Next(runs("acquire"), redistest.HoldReply(late))
	waiter := r.starts(context.Background(), r.lock())
	first.AwaitReply(t)
	second.AwaitReply(t)
	heard := make(chan struct{}, 10)
	r.relay.OnMessage(func(redistest.Message) bool { heard <- struct{}{}; return true })
	r.release(hold)
	<-heard
	close(late)
	r.release(waiter.Succeeds())
	r.nothingLeft()
}

// A message that is lost costs no more than the poll bound.
func TestLostMessageCostsNoMoreThanThePoll(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	hold := r.take(context.Background(), r.theirs())
	waiter := r.starts(context.Background(), r.lock())
	r.listening()
	var lost atomic.Int32
	r.relay.OnMessage(func(redistest.Message) bool { lost.Add(1); return false })
	began := time.Now()
	r.release(hold)
	next := waiter.Succeeds()
	require.Less(t, time.Since(began), pollBound()*6/5+locktest.Span(500*time.Millisecond))
	r.until(func() bool { return lost.Load() == 1 }, "the message that was lost") // the poll can come first
	r.release(next)
}

// WK-07: a subscription that takes longer than the wait does not lengthen it, and is undone when it comes.
func TestSlowSubscriptionDoesNotLengthenTheWait(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) { c.SubscriptionLinger = config.NoLinger })
	hold := r.take(context.Background(), r.theirs())
	late := make(chan struct{})
	trap := r.relay.Next(subscribes, redistest.HoldRequest(late))
	wait := locktest.Span(200 * time.Millisecond)
	for asked := false; !asked; {
		began := time.Now()
		waiter := r.starts(context.Background(), r.lock(), redlatch.WithWait(wait))
		require.ErrorIs(t, waiter.Ends(), redlatch.ErrNotAcquired)
		took := time.Since(began)
		require.GreaterOrEqual(t, took, wait)
		require.Less(t, took, wait+locktest.Span(time.Second))
		select {
		case <-trap.Requested():
			asked = true
		default: // it had no time to subscribe
		}
	}
	close(late)
	trap.AwaitReply(t)
	r.until(func() bool { return len(r.server.Channels(t)) == 0 }, "a late subscription stays")
	r.release(hold)
}

// WK-10: the refusal of one subscription is not remembered, neither by who comes later nor by who waits behind.
func TestRefusedSubscriptionIsAskedForAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, probe.Deaf)
	hold := r.take(context.Background(), r.theirs())
	trap := r.relay.Next(subscribes, redistest.AnswerError("NOPERM this user has no permissions to access one of the channels"))
	first := r.starts(context.Background(), r.lock())
	behind := r.starts(context.Background(), r.lock())
	trap.AwaitRequest(t)
	refused, other := first, behind // which of the two came first is left open
	select {
	case <-first.Done:
	case <-behind.Done:
		refused, other = behind, first
	}
	require.ErrorContains(t, refused.Ends(), "ACL")
	later := r.starts(context.Background(), r.lock())
	r.listening()
	r.release(hold)
	r.release(other.Succeeds())
	r.release(later.Succeeds())
	r.nothingLeft()
}

// A connection for messages that is killed is noticed: the waiters ask, and are woken by the next release.
func TestWaiterIsWokenAfterItsSubscriptionWasKilled(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string]func(r *rig) int{
		"PubSub": func(r *rig) int { return r.server.KillPubSub(r) },
		"All":    func(r *rig) int { return r.server.KillAllClients(r) },
		"Cut":    func(r *rig) int { return r.relay.Cut() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, probe.Deaf)
			for range 3 {
				hold := r.take(context.Background(), r.theirs())
				waiter := r.starts(context.Background(), r.lock())
				r.listening()
				old := r.listeners()
				require.Positive(t, kill(r))
				r.until(func() bool {
					young := r.listeners()
					return len(young) > 0 && !slices.ContainsFunc(young, func(id int64) bool { return slices.Contains(old, id) })
				}, "nobody listens again")
				r.release(hold)
				r.release(waiter.Succeeds())
			}
			r.nothingLeft()
		})
	}
}

// The release falls into the time in which nobody listens.
func TestReleaseDuringAnOutageOfTheSubscriptionIsNotMissed(t *testing.T) {
	t.Parallel()
	r := newRig(t, probe.Deaf)
	for range 5 {
		hold := r.take(context.Background(), r.theirs())
		waiter := r.starts(context.Background(), r.lock())
		r.listening()
		late := make(chan struct{})
		trap := r.relay.Next(subscribes, redistest.HoldRequest(late))
		require.Positive(t, r.server.KillPubSub(t))
		trap.AwaitRequest(t)
		r.release(hold)
		close(late)
		r.release(waiter.Succeeds())
		r.until(func() bool { return len(r.server.Channels(t)) > 0 }, "the channel does not linger")
	}
	r.nothingLeft()
}

// WK-17: a server that is gone is an error within the wait and one command timeout, also for who has no wait limit, and everything works
// when it is back.
func TestServerThatIsDownIsAnErrorInTime(t *testing.T) {
	t.Parallel()
	for name, outage := range map[string]struct{ down, up func(r *rig) }{
		"Killed": {
			func(r *rig) { r.server.Kill(r) },
			func(r *rig) { r.server.Restart(r) },
		},
		"Frozen": {
			func(r *rig) { r.server.Stop(r) },
			func(r *rig) { r.server.Cont(r) },
		},
		"Unreachable": {
			func(r *rig) { r.relay.Down() },
			func(r *rig) { r.relay.Up(r) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			outage.down(r)
			for _, wait := range []time.Duration{0, locktest.Span(100 * time.Millisecond), time.Minute} {
				began := time.Now()
				hold, err := r.lock().TryLock(context.Background(), redlatch.WithWait(wait))
				took := time.Since(began)
				require.Error(t, err)
				require.Nil(t, hold)
				limit := min(wait, 4*commandTimeout()) + 2*commandTimeout()
				require.Less(t, took, limit+locktest.Span(500*time.Millisecond), "with a wait of %v", wait)
				if wait == time.Minute {
					require.NotErrorIs(t, err, redlatch.ErrNotAcquired, "a server that is down is no contention")
				}
			}
			outage.up(r)
			r.until(func() bool {
				hold, err := r.lock().TryLock(context.Background())
				return err == nil && hold.Unlock(context.Background()) == nil
			}, "it does not work again")
			r.nothingLeft()
		})
	}
}

// WK-17: a waiter that is asleep when the server goes away, and comes back without the holder, has the lock then.
func TestWaiterSurvivesAnOutage(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) { c.RetryAttempts = 1000 })
	r.take(context.Background(), r.theirs())
	waiter := r.starts(context.Background(), r.lock())
	r.listening()
	r.server.Kill(t)
	r.relay.Cut()
	select {
	case <-waiter.Done:
		require.NoError(t, waiter.Err, "the wait ended with the server")
	case <-time.After(commandTimeout()):
	}
	r.server.Restart(t)
	r.release(waiter.Succeeds())
	r.nothingLeft()
}

// Waiters of several locks over one connection: a cut wakes each of them, and none is forgotten.
func TestCutWakesTheWaitersOfAllLocks(t *testing.T) {
	t.Parallel()
	const locks = 20
	r := newRig(t, probe.Deaf)
	var holds []*redlatch.Hold
	var waiters []*probe.Call
	for i := range locks {
		name := lockName + string(rune('a'+i))
		holds = append(holds, r.take(context.Background(), rlock.New(r.other, name)))
		waiters = append(waiters, r.starts(context.Background(), rlock.New(r.client, name)))
	}
	r.until(func() bool { return len(r.server.Channels(t)) == locks }, "not all listen")
	r.relay.Cut()
	for _, h := range holds {
		r.release(h)
	}
	for _, w := range waiters {
		r.release(w.Succeeds())
	}
	r.nothingLeft()
}
