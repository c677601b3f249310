package redlatch_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/locktest"
	"github.com/redlatch/redlatch/internal/locktest/probe"
	"github.com/redlatch/redlatch/internal/redistest"
)

var errCustomerLeft = errors.New("the customer has left the shop")

// RL-13, HA-02: whatever befalls the request of an acquire, a call with retries has the lock, once.
func TestAcquireInDoubtIsSettledAndCountsOnce(t *testing.T) {
	t.Parallel()
	each(t, runs("acquire"), func(r *rig, _ fault, late func()) {
		hold := r.take(context.Background(), r.lock())
		late()
		r.holdsAlone(hold, 1)
		_, err := r.theirs().TryLock(context.Background())
		require.ErrorIs(r, err, redlatch.ErrNotAcquired)
		r.release(hold)
		r.nothingLeft()
		r.release(r.take(context.Background(), r.theirs()))
	})
}

// RL-13: a call that gave up leaves nothing, also when its request is executed only now.
func TestAcquireThatGaveUpLeavesNothing(t *testing.T) {
	t.Parallel()
	each(t, runs("acquire"), func(r *rig, f fault, late func()) {
		hold, err := r.lock().TryLock(context.Background())
		late()
		if !f.silent { // a connection that broke is no answer: a new one is asked
			require.NoError(r, err)
			r.holdsAlone(hold, 1)
			r.release(hold)
		} else {
			require.Error(r, err)
			require.NotErrorIs(r, err, redlatch.ErrNotAcquired, "a server that does not answer is no contention")
			require.Nil(r, hold)
		}
		r.nothingLeft()
		r.release(r.take(context.Background(), r.theirs()))
	}, noRetry)
}

// RL-14: a grant that comes after the caller has given up is given back before the call returns.
func TestGrantAfterCancellationIsGivenBackBeforeTheCallReturns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	late := make(chan struct{})
	trap := r.relay.Next(runs("acquire"), redistest.HoldReply(late))
	ctx, cancel := context.WithCancelCause(context.Background())
	call := r.starts(ctx, r.lock())
	trap.AwaitReply(t) // the lock is taken, and the caller does not know
	cancel(errCustomerLeft)
	close(late)
	err := call.Ends()
	require.Nil(t, call.Hold)
	require.Empty(t, r.locks())
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, errCustomerLeft)
	r.release(r.take(context.Background(), r.theirs()))
}

// RL-14: the same while somebody waits for the lock: the one that gives it back wakes them.
func TestGrantThatIsGivenBackWakesTheNextWaiter(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	late := make(chan struct{})
	trap := r.relay.Next(runs("acquire"), redistest.HoldReply(late))
	ctx, cancel := context.WithCancelCause(context.Background())
	call := r.starts(ctx, r.lock())
	trap.AwaitReply(t)
	waiter := r.starts(context.Background(), r.theirsDeaf())
	r.until(func() bool { return len(r.server.Channels(t)) > 0 }, "the other process does not listen")
	cancel(errCustomerLeft)
	close(late)
	require.ErrorIs(t, call.Ends(), errCustomerLeft)
	r.release(waiter.Succeeds())
	r.nothingLeft()
}

// A wait limit that passes while the answer is on its way does not turn a lock that was got into one that was not.
func TestSuccessThatComesAfterTheWaitLimitCounts(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) { c.Timeout = probe.Patience })
	late := make(chan struct{})
	trap := r.relay.Next(runs("acquire"), redistest.HoldReply(late))
	const wait = 50 * time.Millisecond
	began := time.Now()
	call := r.starts(context.Background(), r.lock(), redlatch.WithWait(wait))
	trap.AwaitReply(t)
	<-time.After(2*wait - time.Since(began))
	close(late)
	hold := call.Succeeds()
	r.holdsAlone(hold, 1)
	r.release(hold)
}

// Trust counts from before the request was sent: an answer that takes long does not make the lease longer.
func TestSlowAnswerDoesNotLengthenTheTrust(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) { c.Timeout = probe.Patience })
	lease, delay := locktest.Span(2*time.Second), locktest.Span(300*time.Millisecond)
	late := make(chan struct{})
	trap := r.relay.Next(runs("acquire"), redistest.HoldReply(late))
	began := time.Now()
	call := r.starts(context.Background(), r.lock(), redlatch.WithLease(lease))
	trap.AwaitReply(t)
	asked := time.Now()
	<-time.After(delay)
	close(late)
	hold := call.Succeeds()
	require.False(t, hold.ValidUntil().After(asked.Add(lease)), "trusted as if the lease had begun with the answer")
	require.False(t, hold.ValidUntil().Before(began.Add(lease/2)))
	r.trustsRightly(hold)
	r.release(hold)
}

// The same for a re-entry, an extension and a renewal.
func TestSlowAnswerDoesNotLengthenARenewedTrust(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) { c.Timeout = probe.Patience }, probe.Watchdog(locktest.Span(3*time.Second)))
	delay := locktest.Span(200 * time.Millisecond)
	outer := r.take(context.Background(), r.lock())

	slowly := func(script string, act func()) {
		late := make(chan struct{})
		trap := r.relay.Next(runs(script), redistest.HoldReply(late))
		done := probe.Go(t, func() error { act(); return nil })
		trap.AwaitReply(t)
		<-time.After(delay)
		close(late)
		r.within(done.Done, "the end of a slow call")
		r.trustsRightly(outer)
	}
	var inner *redlatch.Hold
	slowly("reenter", func() { inner = r.take(outer.Context(), r.lock()) })
	slowly("reenter", func() { require.NoError(t, outer.Extend(context.Background(), locktest.Span(2*time.Second))) })
	slowly("release", func() { r.release(inner) })
	before := outer.ValidUntil()
	slowly("renew", func() {
		r.until(func() bool { return outer.ValidUntil().After(before) }, "the lock is not renewed")
	})
	r.release(outer)
}

// A lease that is over before the answer comes is no lock.
func TestGrantThatComesAfterItsLeaseIsNone(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) { c.Timeout = probe.Patience }, noRetry)
	const lease = 50 * time.Millisecond
	late := make(chan struct{})
	trap := r.relay.Next(runs("acquire"), redistest.HoldReply(late))
	call := probe.Go(t, func() error {
		_, err := r.lock().TryLock(context.Background(), redlatch.WithLease(lease))
		return err
	})
	trap.AwaitReply(t)
	next := r.take(context.Background(), r.theirs()) // the lease has passed
	close(late)
	require.ErrorIs(t, call.Ends(), redlatch.ErrNotAcquired)
	require.NoError(t, next.Err())
	r.holdsAlone(next, 1)
	r.release(next)
}

// HA-02: a re-entry counts once, or not at all; the hold that was there is not touched.
func TestReentryInDoubtCountsOnce(t *testing.T) {
	t.Parallel()
	each(t, runs("reenter"), func(r *rig, _ fault, late func()) {
		outer := r.take(context.Background(), r.lock())
		inner := r.take(outer.Context(), r.lock())
		late()
		r.holdsAlone(outer, 2)
		r.release(inner)
		r.holdsAlone(outer, 1)
		r.release(outer)
		r.nothingLeft()
	})
}

// HA-02: a re-entry that gave up is taken off the count again.
func TestReentryThatGaveUpDoesNotCount(t *testing.T) {
	t.Parallel()
	each(t, runs("reenter"), func(r *rig, f fault, late func()) {
		outer := r.take(context.Background(), r.lock())
		inner, err := r.lock().TryLock(outer.Context())
		late()
		if f.silent {
			require.Error(r, err)
			require.Nil(r, inner)
			r.until(r.barred, "the entry is not settled") // or it may be about to come
			r.until(func() bool { return r.count(outer.Owner()) == "1" }, "an entry that failed is counted")
		} else {
			require.NoError(r, err)
			r.holdsAlone(outer, 2)
			r.release(inner)
		}
		r.holdsAlone(outer, 1)
		r.release(outer)
		r.nothingLeft()
	}, noRetry)
}

// barred tells that a request in doubt was settled: what has not taken effect by then never will.
func (r *rig) barred() bool {
	return slices.ContainsFunc(r.server.Snapshot(r).Keys(), func(key string) bool { return strings.HasPrefix(key, config.UnlockLatchPrefix) })
}

// settled waits until the client has nothing in doubt any more: a request of an owner of its own comes after what is settled.
func (r *rig) settled() {
	r.Helper()
	r.until(func() bool { return r.relay.Conns() > 0 }, "the client does not connect")
	_, err := r.lock().IsLocked(context.Background())
	require.NoError(r, err)
}

// A cancelled waiter of a held lock does not take a later grant with it.
func TestWaiterCancelledDuringItsAttemptLeavesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	hold := r.take(context.Background(), r.theirs())
	late := make(chan struct{})
	trap := r.relay.Next(runs("acquire"), redistest.HoldRequest(late))
	ctx, cancel := context.WithCancelCause(context.Background())
	call := r.starts(ctx, r.lock())
	trap.AwaitRequest(t)
	r.release(hold)
	cancel(errCustomerLeft)
	close(late) // and now it is granted
	require.ErrorIs(t, call.Ends(), errCustomerLeft)
	r.nothingLeft()
	r.release(r.take(context.Background(), r.theirs()))
}
