package redlatch_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/locktest/probe"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/rlock"
)

// theirsDeaf is the lock of a third process, whose waiters depend on messages.
func (r *rig) theirsDeaf() *rlock.Lock {
	r.Helper()
	return rlock.New(probe.Open(r, r.server.URL(), probe.Deaf), lockName)
}

// RL-08: whatever befalls a release, it is a success to its caller when it is retried, takes effect once and wakes who waits.
func TestReleaseInDoubtIsDoneOnce(t *testing.T) {
	t.Parallel()
	each(t, runs("release"), func(r *rig, _ fault, late func()) {
		hold := r.take(context.Background(), r.lock())
		waiter := r.starts(context.Background(), r.theirsDeaf())
		r.until(func() bool { return len(r.server.Channels(r)) > 0 }, "the other process does not listen")
		require.NoError(r, hold.Unlock(context.Background()))
		late()
		next := waiter.Succeeds()
		r.holdsAlone(next, 1)
		require.ErrorIs(r, hold.Unlock(context.Background()), redlatch.ErrNotHeld)
		r.release(next)
		r.nothingLeft()
	})
}

// RL-08: a release that can't be confirmed goes on in the background.
func TestReleaseThatGaveUpIsDoneInTheBackground(t *testing.T) {
	t.Parallel()
	each(t, runs("release"), func(r *rig, f fault, late func()) {
		hold := r.take(context.Background(), r.lock())
		err := hold.Unlock(context.Background())
		late()
		if f.silent || !f.ran {
			require.Error(r, err)
			require.NotErrorIs(r, err, redlatch.ErrLost)
			require.ErrorContains(r, err, "released")
		} else {
			require.NoError(r, err)
		}
		require.ErrorIs(r, hold.Err(), redlatch.ErrNotHeld)
		r.nothingLeft()
		r.release(r.take(context.Background(), r.theirs()))
	}, noRetry)
}

// The same when the caller has no time for retries.
func TestReleaseWithDeadContextIsDoneInTheBackground(t *testing.T) {
	t.Parallel()
	each(t, runs("release"), func(r *rig, _ fault, late func()) {
		hold := r.take(context.Background(), r.lock())
		dead, cancel := context.WithCancel(context.Background())
		cancel()
		err := hold.Unlock(dead)
		late()
		require.NotErrorIs(r, err, redlatch.ErrLost)
		require.ErrorIs(r, hold.Err(), redlatch.ErrNotHeld)
		r.nothingLeft()
	})
}

// RL-08: a partial release lowers the count by one, once.
func TestPartialReleaseInDoubtLowersTheCountOnce(t *testing.T) {
	t.Parallel()
	each(t, runs("release"), func(r *rig, _ fault, late func()) {
		outer := r.take(context.Background(), r.lock())
		middle := r.take(outer.Context(), r.lock())
		inner := r.take(outer.Context(), r.lock())
		require.NoError(r, inner.Unlock(context.Background()))
		late()
		r.holdsAlone(outer, 2)
		r.release(middle)
		r.holdsAlone(outer, 1)
		r.release(outer)
		r.nothingLeft()
	})
}

// A partial release that could not be confirmed leaves the other holds as they are, and the last of them frees the lock.
func TestPartialReleaseThatGaveUpKeepsTheOtherHolds(t *testing.T) {
	t.Parallel()
	each(t, runs("release"), func(r *rig, _ fault, late func()) {
		outer := r.take(context.Background(), r.lock())
		inner := r.take(outer.Context(), r.lock())
		err := inner.Unlock(context.Background())
		late()
		require.NotErrorIs(r, err, redlatch.ErrLost)
		require.ErrorIs(r, inner.Err(), redlatch.ErrNotHeld)
		require.NoError(r, outer.Err())
		r.until(func() bool { return r.count(outer.Owner()) == "1" }, "the count stays too high")
		r.trustsRightly(outer)
		r.release(outer)
		r.nothingLeft()
	}, noRetry)
}

// The owner of a release in doubt takes the lock again: nothing of the release may hit the new hold.
func TestReleaseInDoubtDoesNotHitTheNextHoldOfItsOwner(t *testing.T) {
	t.Parallel()
	each(t, runs("release"), func(r *rig, _ fault, late func()) {
		ctx := redlatch.WithOwner(context.Background(), r.client.NewOwner())
		hold := r.take(ctx, r.lock())
		_ = hold.Unlock(context.Background()) // an error where it is to be done in the background
		again := r.take(ctx, r.lock())
		late()
		r.settled()
		r.holdsAlone(again, 1)
		r.release(again)
		r.nothingLeft()
	}, noRetry)
}

// longHandOff makes a hand-over happen whenever a waiter listens.
func longHandOff(c *config.Config) {
	c.HandOffWindow, c.HandOffLimit, c.FallbackPoll, c.RetryAttempts = time.Minute, 10_000, time.Minute, 1000
}

// handsOver lets waiters wait for a hold and releases it, until a release is a hand-over that the fault befalls: a waiter that happens to
// ask the server itself at that moment is none that the lock could be handed to.
func (r *rig) handsOver(ctx context.Context, check func(waiter, unlock *probe.Call)) {
	r.Helper()
	for round := 0; !r.wasHit(); round++ {
		require.Less(r, round, 100, "no hand-over")
		hold := r.take(context.Background(), r.lock())
		waiter := r.starts(ctx, r.lock())
		r.until(func() bool { return len(r.server.Channels(r)) > 0 }, "the waiter does not listen")
		r.settled()
		check(waiter, r.unlocks(hold))
		require.ErrorIs(r, hold.Err(), redlatch.ErrNotHeld)
	}
}

// mends lets through what the relay keeps back, if the request was hit: when its client has given it up, and while it tries to find
// out what became of it.
func (r *rig) mends(unlock *probe.Call, late func()) {
	select {
	case <-unlock.Done:
	case <-r.hit:
		select {
		case <-unlock.Done:
		case <-time.After(2 * commandTimeout()):
		}
		late()
	}
}

// A hand-over in doubt: the one that releases has released, and the waiter has the lock, once.
func TestHandOverInDoubtArrives(t *testing.T) {
	t.Parallel()
	eachOf(t, mending, runs("hand_over"), func(r *rig, _ fault, late func()) {
		r.handsOver(context.Background(), func(waiter, unlock *probe.Call) {
			r.mends(unlock, late)
			require.NoError(r, unlock.Ends())
			next := waiter.Succeeds()
			r.settled()
			r.holdsAlone(next, 1)
			r.release(next)
		})
		r.nothingLeft()
	}, longHandOff)
}

// A waiter that gives up while it is being handed the lock leaves nothing.
func TestHandOverToAWaiterThatGivesUpLeavesNothing(t *testing.T) {
	t.Parallel()
	eachOf(t, mending, runs("hand_over"), func(r *rig, _ fault, late func()) {
		ctx, cancel := context.WithCancelCause(context.Background())
		defer cancel(nil)
		r.handsOver(ctx, func(waiter, unlock *probe.Call) {
			select {
			case <-r.hit:
				cancel(errCustomerLeft)
			case <-unlock.Done: // this one was no hand-over
			}
			r.mends(unlock, late)
			if err := waiter.Ends(); err == nil {
				r.release(waiter.Hold)
			} else {
				require.ErrorIs(r, err, errCustomerLeft)
			}
			require.NoError(r, unlock.Ends())
		})
		r.nothingLeft()
		r.release(r.take(context.Background(), r.theirs()))
	}, longHandOff)
}

// An extension in doubt never makes the hold believe in more than Redis has, and does not touch the count.
func TestExtensionInDoubtIsNotTrustedTooLong(t *testing.T) {
	t.Parallel()
	for _, shorter := range []bool{false, true} {
		name := map[bool]string{false: "Longer", true: "Shorter"}[shorter]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, runs("reenter"), func(r *rig, _ fault, late func()) {
				hold := r.take(context.Background(), r.lock(), redlatch.WithLease(probe.Patience*2))
				lease := probe.Patience * 3
				if shorter {
					lease = probe.Patience
				}
				err := probe.Go(r, func() error { return hold.Extend(context.Background(), lease) }).Ends()
				r.trustsRightly(hold)
				late()
				r.settled()
				r.trustsRightly(hold)
				if err == nil {
					r.holdsAlone(hold, 1)
				}
				r.release(hold)
				r.nothingLeft()
			}, noRetry)
		})
	}
}

// Redis is told to refuse the message, and not the release: the lock is free, and the error says what is amiss. NM-05
func TestReleaseThatMayNotTellIsARelease(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithUser(`locker on >secret ~* resetchannels +@all`))
	client := probe.Open(t, "redis://locker:secret@"+server.Addr())
	l := rlock.New(client, lockName)
	hold, err := l.TryLock(context.Background())
	require.NoError(t, err)
	err = hold.Unlock(context.Background())
	require.ErrorContains(t, err, "released")
	require.ErrorContains(t, err, lockChannel)
	require.NotErrorIs(t, err, redlatch.ErrLost)
	require.Empty(t, server.Snapshot(t).Entries)

	hold, err = l.TryLock(context.Background())
	require.NoError(t, err)
	_, err = l.Lock(context.Background())
	require.ErrorContains(t, err, "ACL", "a waiter that may not listen is told so")
	freed, err := l.ForceUnlock(context.Background())
	require.ErrorContains(t, err, lockChannel)
	require.True(t, freed)
	require.ErrorIs(t, hold.Err(), redlatch.ErrLost)
	require.Empty(t, server.Snapshot(t).Entries)
}
