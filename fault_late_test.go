package redlatch_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/redistest"
)

// A request can arrive long after its client gave up. These tests catch one, let the client come to terms with its loss, and
// deliver it then.

// delayed lets act send a request that the relay cuts off, and returns it. act is over, and everything in doubt settled.
func (r *rig) delayed(fits func([]string) bool, act func()) []string {
	r.Helper()
	trap := r.relay.Next(fits, redistest.CutRequest())
	act()
	return trap.AwaitRequest(r)
}

// arrives delivers a request late, and says that it changes nothing in Redis and tells nobody anything.
func (r *rig) arrives(cmd []string) {
	r.Helper()
	heard := r.server.Record(r, "*")
	before := r.server.Snapshot(r)
	_, err := r.server.TryDo(cmd...)
	require.NoError(r, err)
	after := r.server.Snapshot(r)
	require.Equal(r, before.Content(), after.Content())
	for _, entry := range after.Entries {
		was, _ := before.Get(entry.Key)
		require.LessOrEqual(r, entry.TTL, was.TTL, entry.Key)
		require.Greater(r, entry.TTL, was.TTL-10*time.Second, entry.Key)
	}
	require.Empty(r, heard.Messages(r))
}

func TestAcquireThatArrivesAfterItWasGivenUpTakesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, noRetry)
	var first, second []string
	first = r.delayed(runs("acquire"), func() {
		second = r.delayed(runs("acquire"), func() { // the one attempt asks again over a new connection
			_, err := r.lock().TryLock(context.Background())
			require.Error(t, err)
		})
	})
	r.settled()
	r.arrives(first)
	r.arrives(second)
	require.Empty(t, r.locks())
	r.release(r.take(context.Background(), r.theirs()))
}

func TestAcquireThatArrivesLateDoesNotTouchTheHoldThatItsCallGot(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var hold, inner *redlatch.Hold
	late := r.delayed(runs("acquire"), func() {
		hold = r.take(context.Background(), r.lock(), redlatch.WithLease(time.Minute))
	})
	inner = r.take(hold.Context(), r.lock(), redlatch.WithLease(time.Hour))
	r.arrives(late)
	r.holdsAlone(hold, 2)
	require.Greater(t, time.Until(hold.ValidUntil()), 30*time.Minute)
	r.release(inner)
	r.release(hold)
	r.arrives(late)
	require.Empty(t, r.locks())
}

func TestReentryThatArrivesLateIsNotCounted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	outer := r.take(context.Background(), r.lock(), redlatch.WithLease(time.Hour))
	var inner *redlatch.Hold
	late := r.delayed(runs("reenter"), func() {
		inner = r.take(outer.Context(), r.lock(), redlatch.WithLease(time.Minute))
	})
	require.NoError(t, outer.Extend(context.Background(), time.Hour))
	r.release(inner)
	r.holdsAlone(outer, 1)
	require.NoError(t, outer.Extend(context.Background(), time.Hour))
	r.arrives(late)
	r.holdsAlone(outer, 1)
	r.release(outer)
	r.arrives(late)
	require.Empty(t, r.locks())
}

func TestExtensionThatArrivesLateDoesNotShortenTheLease(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	hold := r.take(context.Background(), r.lock(), redlatch.WithLease(time.Hour))
	late := r.delayed(runs("reenter"), func() {
		require.NoError(t, hold.Extend(context.Background(), time.Minute))
	})
	require.NoError(t, hold.Extend(context.Background(), 2*time.Hour))
	r.arrives(late)
	r.trustsRightly(hold)
	r.release(hold)
}

// A renewal has no latch: it only ever lengthens a lease, and that of its own holder.
func TestRenewalThatArrivesLateDoesNotShortenTheLease(t *testing.T) {
	t.Parallel()
	r, _ := newWatchedRig(t)
	hold := r.take(context.Background(), r.lock())
	late := r.relay.Next(runs("renew"), redistest.Pass()).AwaitRequest(t)
	require.NoError(t, hold.Extend(context.Background(), time.Hour))
	r.arrives(late)
	r.trustsRightly(hold)
	r.release(hold)
	r.arrives(late)
	require.Empty(t, r.locks())
}

func TestReleaseThatArrivesLateDoesNotFreeTheNextHoldOfItsOwner(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := redlatch.WithOwner(context.Background(), r.client.NewOwner())
	hold := r.take(ctx, r.lock())
	late := r.delayed(runs("release"), func() { r.release(hold) })
	again := r.take(ctx, r.lock())
	r.arrives(late)
	r.holdsAlone(again, 1)
	r.release(again)
}

func TestPartialReleaseThatArrivesLateDoesNotLowerTheCount(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	outer := r.take(context.Background(), r.lock())
	inner := r.take(outer.Context(), r.lock())
	late := r.delayed(runs("release"), func() { r.release(inner) })
	inner = r.take(outer.Context(), r.lock())
	r.arrives(late)
	r.holdsAlone(outer, 2)
	r.release(inner)
	r.release(outer)
}

func TestHandOverThatArrivesLateMovesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, longHandOff)
	trap := r.relay.Next(runs("hand_over"), redistest.CutRequest())
	owner := redlatch.WithOwner(context.Background(), r.client.NewOwner())
	var next *redlatch.Hold
	for round := 0; ; round++ {
		require.Less(t, round, 100, "no hand-over")
		hold := r.take(owner, r.lock())
		waiter := r.starts(context.Background(), r.lock())
		r.until(func() bool { return len(r.server.Channels(t)) > 0 }, "the waiter does not listen")
		r.settled()
		r.release(hold)
		next = waiter.Succeeds()
		select {
		case <-trap.Requested():
		default:
			r.release(next)
			continue
		}
		break
	}
	late := trap.AwaitRequest(t)
	r.arrives(late)
	r.holdsAlone(next, 1)
	r.release(next)
	again := r.take(owner, r.lock()) // the owner that was to be released by it
	r.arrives(late)
	r.holdsAlone(again, 1)
	r.release(again)
}

// The real thing: the request is on its way for longer than the command timeout, and arrives over the connection that its client has
// given up.
func TestAcquireThatIsUnderWayForTooLongTakesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, noRetry)
	late := make(chan struct{})
	trap := r.relay.Next(runs("acquire"), redistest.HoldRequest(late))
	_, err := r.lock().TryLock(context.Background())
	require.Error(t, err)
	r.until(func() bool { return r.server.Do(t, "EXISTS", latchOf(trap.AwaitRequest(t))).Int() == 1 }, "the request is not barred")
	close(late)
	trap.AwaitReply(t)
	require.Empty(t, r.locks())
	r.release(r.take(context.Background(), r.theirs()))
}

// latchOf is the latch of an acquire, its second key.
func latchOf(cmd []string) string { return cmd[4] }

// While a request is in doubt that could end a lease early, nothing is built upon it: not even if the next request succeeds.
func TestNothingIsBuiltUponARequestInDoubt(t *testing.T) {
	t.Parallel()
	r := newRig(t, noRetry)
	hold := r.take(context.Background(), r.lock(), redlatch.WithLease(time.Hour))
	r.relay.OnRequest(func(cmd []string) redistest.Action {
		if runs("settle")(cmd) {
			return redistest.AnswerError("LOADING Redis is loading the dataset in memory")
		}
		return redistest.Pass()
	})
	trap := r.relay.Next(runs("reenter"), redistest.CutRequest())
	require.Error(t, hold.Extend(context.Background(), time.Minute))
	late := trap.AwaitRequest(t)
	_ = hold.Extend(context.Background(), 2*time.Hour)
	_, err := r.server.TryDo(late...)
	require.NoError(t, err)
	r.trustsRightly(hold)
	r.relay.OnRequest(nil)
	r.release(hold)
	r.nothingLeft()
}

// A server that can't settle is asked again and again, but not in a tight loop.
func TestSettlingIsPaced(t *testing.T) {
	t.Parallel()
	r := newRig(t, noRetry)
	asked := make(chan struct{}, 100_000)
	r.relay.OnRequest(func(cmd []string) redistest.Action {
		if runs("settle")(cmd) {
			asked <- struct{}{}
			return redistest.AnswerError("LOADING Redis is loading the dataset in memory")
		}
		return redistest.Pass()
	})
	trap := r.relay.Next(runs("acquire"), redistest.LoseReply())
	began := time.Now()
	_, err := r.lock().TryLock(context.Background())
	require.Error(t, err)
	trap.AwaitReply(t)
	for range 6 { // two come at once, if the first one goes down with the connection
		<-asked
	}
	require.Greater(t, time.Since(began), 50*time.Millisecond)
	require.Less(t, len(asked), 20)
	r.relay.OnRequest(nil)
	r.nothingLeft()
}
