package redlatch_test

import (
	"context"
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

// watched is a rig whose client renews every half a second or so, and is heard. A command timeout fits into the time that is left
// for a second try.
func newWatchedRig(t *testing.T, changes ...func(*config.Config)) (r *rig, seen probe.Events) {
	t.Helper()
	r, seen = newRig(t), make(probe.Events, 100_000)
	r.client = probe.Observed(t, r.relay.URL(), seen, append([]func(*config.Config){hasty, probe.Watchdog(lively())}, changes...)...)
	return r, seen
}

func lively() time.Duration { return locktest.Span(1500 * time.Millisecond) }

// WD-05, WD-20: one renewal that fails, for whatever cause, is made up for before the trust ends.
func TestOneFailedRenewalDoesNotLoseTheLock(t *testing.T) {
	t.Parallel()
	answers := map[string]redistest.Action{
		"Loading":   redistest.AnswerError("LOADING Redis is loading the dataset in memory"),
		"Busy":      redistest.AnswerError("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."),
		"ReadOnly":  redistest.AnswerError("READONLY You can't write against a read only replica."),
		"NoScript":  redistest.AnswerError("NOSCRIPT No matching script. Please use EVAL."),
		"ReplyLost": redistest.LoseReply(),
		"CutOff":    redistest.CutRequest(),
		"Swallowed": redistest.SwallowRequest(),
	}
	for name, action := range answers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, seen := newWatchedRig(t)
			hold := r.take(context.Background(), r.lock())
			began := time.Now()
			trap := r.relay.Next(runs("renew"), action)
			trap.AwaitRequest(t)
			if name != "NoScript" { // that one is answered by sending the script in full
				failed := seen.Await(r, redlatch.EventRenewalFailed)
				require.Error(t, failed.Err)
			}
			seen.Await(r, redlatch.EventRenewed)
			require.Less(t, time.Since(began), lively(), "the next tick is too late")
			r.trustsRightly(hold)
			for time.Since(began) < lively() {
				seen.Await(r, redlatch.EventRenewed)
			}
			r.holdsAlone(hold, 1)
			r.release(hold)
		})
	}
}

// A lock that can't be renewed ends when its trust does: not before, and not when the server says so.
func TestLockThatCanNotBeRenewedIsLostWhenItsTrustEnds(t *testing.T) {
	t.Parallel()
	for name, action := range map[string]redistest.Action{
		"CutOff": redistest.CutRequest(), "Loading": redistest.AnswerError("LOADING Redis is loading the dataset in memory"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := newWatchedRig(t)
			hold := r.take(context.Background(), r.lock())
			r.relay.OnRequest(func(cmd []string) redistest.Action {
				if runs("renew")(cmd) {
					return action
				}
				return redistest.Pass()
			})
			until := hold.ValidUntil()
			next := r.starts(context.Background(), r.theirs())
			r.within(hold.Context().Done(), "the end of a hold that is not renewed")
			require.False(t, time.Now().Before(until))
			r.isLost(hold, "could not be renewed")
			foreign := next.Succeeds()
			require.False(t, time.Now().Before(until))
			require.ErrorIs(t, hold.Unlock(context.Background()), redlatch.ErrLost)
			require.NoError(t, foreign.Err())
			r.holdsAlone(foreign, 1)
			r.release(foreign)
		})
	}
}

// A renewal that Redis has made, and of which no answer comes, is none: and an answer that comes later does not bring the hold back to
// life.
func TestRenewalThatIsAnsweredTooLateDoesNotReviveTheHold(t *testing.T) {
	t.Parallel()
	r, _ := newWatchedRig(t)
	hold := r.take(context.Background(), r.lock())
	late, renewed := make(chan struct{}), make(chan struct{}, 1000)
	r.relay.OnRequest(func(cmd []string) redistest.Action {
		if !runs("renew")(cmd) {
			return redistest.Pass()
		}
		renewed <- struct{}{}
		return redistest.HoldReply(late)
	})
	<-renewed
	r.within(hold.Lost(), "the end of the trust")
	r.relay.OnRequest(nil)
	close(late)
	r.settled()
	require.ErrorIs(t, hold.Err(), redlatch.ErrLost)
	require.ErrorIs(t, hold.Unlock(context.Background()), redlatch.ErrLost)
	r.nothingLeft()
}

// WD-16, WD-17: key gone, another thing, or somebody else's: the holder is told at the next renewal, and what is there is not
// touched.
func TestHolderIsToldAtTheNextRenewalThatTheLockIsNotItsOwn(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(r *rig){
		"Deleted": func(*rig) {},
		"Replaced by a string": func(r *rig) {
			r.server.Do(r, "SET", lockName, "no lock", "PX", "3600000")
		},
		"Taken by another owner": func(r *rig) {
			r.server.Do(r, "HSET", lockName, "8743c9c0-0795-4907-87fd-6c719a6b4586:47", "1")
			r.server.Do(r, "PEXPIRE", lockName, "3600000")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, seen := newWatchedRig(t)
			hold := r.take(context.Background(), r.lock())
			neighbour := r.take(context.Background(), rlock.New(r.client, "order:1002"))
			r.server.Do(t, "DEL", lockName)
			replace(r)
			before := r.server.Snapshot(t)
			began := time.Now()
			r.isLost(hold, "no such holder")
			require.Less(t, time.Since(began), lively()*2/3)
			lost := seen.Await(r, redlatch.EventLost)
			require.Equal(t, hold.Owner(), lost.Owner)
			require.ErrorIs(t, lost.Err, redlatch.ErrLost)

			require.ErrorIs(t, hold.Unlock(context.Background()), redlatch.ErrLost)
			seen.Await(r, redlatch.EventRenewed)
			after := r.server.Snapshot(t)
			require.Equal(t, before.Content(), after.Content())
			if was, there := before.Get(lockName); there {
				is, _ := after.Get(lockName)
				require.LessOrEqual(t, is.TTL, was.TTL, "a foreign key was given more time")
				require.Greater(t, is.TTL, was.TTL-time.Minute)
			}
			require.NoError(t, neighbour.Err(), "the other locks of the batch are renewed")
			r.release(neighbour)
		})
	}
}

// RL-07: the same found out by the release, by an extension and by a re-entry.
func TestHolderIsToldByItsNextRequestThatTheLockIsNotItsOwn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, ask := range map[string]func(h *redlatch.Hold) error{
		"release": func(h *redlatch.Hold) error { return h.Unlock(context.Background()) },
		"extend":  func(h *redlatch.Hold) error { return h.Extend(context.Background(), time.Minute) },
		"reenter": func(h *redlatch.Hold) error {
			_, err := r.lock().TryLock(redlatch.WithOwner(context.Background(), h.Owner()))
			require.ErrorIs(t, err, redlatch.ErrNotAcquired)
			return h.Err()
		},
	} {
		hold := r.take(context.Background(), r.lock())
		inner := r.take(redlatch.WithOwner(context.Background(), hold.Owner()), r.lock())
		r.server.Do(t, "DEL", lockName)
		foreign := r.take(context.Background(), r.theirs(), redlatch.WithLease(time.Hour))
		require.ErrorIs(t, ask(hold), redlatch.ErrLost, name)
		r.isLost(inner, "no such holder")
		require.ErrorIs(t, inner.Unlock(context.Background()), redlatch.ErrLost, name)
		require.Greater(t, r.server.Do(t, "PTTL", lockName).Int(), int64(3_500_000), name)
		r.holdsAlone(foreign, 1)
		r.release(foreign)
	}
}

// A key that became a string while it was held: nothing that the holder does changes it.
func TestKeyThatBecameAStringIsLeftAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	hold := r.take(context.Background(), r.lock())
	r.server.Do(t, "DEL", lockName)
	r.server.Do(t, "SET", lockName, "no lock")
	require.ErrorIs(t, hold.Extend(context.Background(), time.Minute), redlatch.ErrWrongType)
	err := hold.Unlock(context.Background())
	require.Error(t, err)
	require.Equal(t, "no lock", r.server.Do(t, "GET", lockName).Text())
	require.EqualValues(t, -1, r.server.Do(t, "PTTL", lockName).Int())
}

// WD-20: a script cache that is emptied again and again is nobody's concern.
func TestFlushedScriptsAreSentAgain(t *testing.T) {
	t.Parallel()
	r, seen := newWatchedRig(t)
	stop, flushed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(flushed)
		for {
			select {
			case <-stop:
				return
			default:
				r.server.Do(t, "SCRIPT", "FLUSH")
			}
		}
	}()
	kept := r.take(context.Background(), rlock.New(r.client, "order:1002"))
	for range 30 {
		outer := r.take(context.Background(), r.lock())
		inner := r.take(outer.Context(), r.lock())
		require.NoError(t, inner.Extend(context.Background(), time.Minute))
		waiter := r.starts(context.Background(), r.lock())
		r.release(inner)
		r.release(outer)
		r.release(waiter.Succeeds())
	}
	seen.Await(r, redlatch.EventRenewed)
	seen.Await(r, redlatch.EventRenewed)
	close(stop)
	<-flushed
	r.release(kept)
	r.nothingLeft()
}

// WD-10: a lock that was entered again and again, and renewed meanwhile, is renewed by no script after its last release. Another lock tells the
// time.
func TestNoScriptRenewsALockAfterItsLastRelease(t *testing.T) {
	t.Parallel()
	const entries, rounds = 4, 4
	for kind, lock := range everyKind() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r, seen := newWatchedRig(t)
			clock := r.take(context.Background(), rlock.New(r.client, "clock"))
			holds := []*redlatch.Hold{r.take(context.Background(), lock(r.client, lockName))}
			for range entries - 1 {
				holds = append(holds, r.take(holds[0].Context(), lock(r.client, lockName)))
			}
			for seen.Await(r, redlatch.EventRenewed).Name == "clock" {
				continue
			}
			for i := range holds {
				r.release(holds[(i+1)%entries]) // the first one comes last
			}
			monitor := r.server.Monitor(t)
			for len(seen) > 0 {
				<-seen
			}
			for range rounds {
				require.Equal(t, "clock", seen.Await(r, redlatch.EventRenewed).Name)
			}
			for _, c := range monitor.Commands(t) {
				require.NotContains(t, c.String(), lockName)
			}
			r.release(clock)
		})
	}
}
