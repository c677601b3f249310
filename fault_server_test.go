package redlatch_test

import (
	"context"
	"strings"
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

// A server that stands still for longer than the lease: the holder stops believing when its trust ends, whatever the server says when it
// goes on.
func TestHolderDoesNotBelieveInAFrozenServer(t *testing.T) {
	t.Parallel()
	r, _ := newWatchedRig(t)
	hold := r.take(context.Background(), r.lock())
	fixed := r.take(context.Background(), rlock.New(r.client, "order:1002"), redlatch.WithLease(lively()))
	r.server.Stop(t)
	until := hold.ValidUntil()
	r.isLost(hold, "could not be renewed")
	require.False(t, time.Now().Before(until))
	r.isLost(fixed, "lease is over")
	began := time.Now()
	require.ErrorIs(t, hold.Unlock(context.Background()), redlatch.ErrLost)
	require.ErrorIs(t, fixed.Unlock(context.Background()), redlatch.ErrLost)
	require.Less(t, time.Since(began), 10*commandTimeout())
	r.server.Cont(t)
	r.nothingLeft()
	r.until(func() bool {
		h, err := r.lock().TryLock(context.Background())
		return err == nil && h.Unlock(context.Background()) == nil
	}, "it does not work again")
}

// A server that stands still for less than the trust loses nothing.
func TestShortFreezeLosesNothing(t *testing.T) {
	t.Parallel()
	r, seen := newWatchedRig(t)
	hold := r.take(context.Background(), r.lock())
	seen.Await(r, redlatch.EventRenewed)
	r.server.Stop(t)
	<-time.After(lively() / 3) // a renewal is due meanwhile
	r.server.Cont(t)
	began := time.Now()
	for time.Since(began) < lively() {
		seen.Await(r, redlatch.EventRenewed)
	}
	r.holdsAlone(hold, 1)
	r.release(hold)
	r.nothingLeft()
}

// Everybody asks a server that is frozen: all calls end in time, and nothing is left when it goes on with what it had received.
func TestCallsIntoAFrozenServerEndAndLeaveNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, noRetry)
	held := r.take(context.Background(), rlock.New(r.client, "order:1002"))
	r.server.Stop(t)
	var calls []*probe.Call
	for range 8 {
		calls = append(calls, r.starts(context.Background(), r.lock(), redlatch.WithWait(0)))
	}
	unlock := r.unlocks(held)
	for _, c := range calls {
		require.Error(t, c.Ends())
		require.Nil(t, c.Hold)
		require.Less(t, c.Took, 2*commandTimeout()+locktest.Span(500*time.Millisecond))
	}
	_ = unlock.Ends() // done in the background
	r.server.Cont(t)
	r.nothingLeft()
}

// RW-26: a server that comes back without its data.
func TestServerThatForgotEverything(t *testing.T) {
	t.Parallel()
	r, seen := newWatchedRig(t)
	hold := r.take(context.Background(), r.lock())
	later := r.take(context.Background(), rlock.New(r.client, "order:1002"))
	r.server.Restart(t)
	r.settled() // over a new connection: of a release that meets a broken one, nobody can tell what became of it
	require.ErrorIs(t, hold.Unlock(context.Background()), redlatch.ErrLost)
	r.isLost(later, "no such holder") // by its renewal
	require.ErrorIs(t, later.Unlock(context.Background()), redlatch.ErrLost)

	next := r.take(context.Background(), r.lock())
	for len(seen) > 0 {
		<-seen
	}
	began := time.Now()
	for time.Since(began) < lively() {
		seen.Await(r, redlatch.EventRenewed)
	}
	r.holdsAlone(next, 1)
	r.release(next)
	r.nothingLeft()
}

// All connections are killed again and again while everybody works: nobody notices but by the time it takes.
func TestKilledConnectionsCostNothingButTime(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) { c.RetryAttempts = 1000 })
	stop, killed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(killed)
		for {
			select {
			case <-stop:
				return
			case <-time.After(locktest.Span(40 * time.Millisecond)): // time enough to connect and ask once or twice
				r.relay.Cut()
			}
		}
	}()
	const workers, rounds = 4, 8
	var inside, overlaps, entered int64
	var calls []*probe.Call
	lock := r.lock()
	for range workers {
		calls = append(calls, probe.Go(t, func() error {
			for range rounds {
				err := redlatch.Do(context.Background(), lock, func(ctx context.Context) error {
					// The lock is what keeps these from a race.
					inside++
					if inside > 1 {
						overlaps++
					}
					entered++
					inside--
					return ctx.Err()
				})
				if err != nil {
					return err
				}
			}
			return nil
		}))
	}
	for _, c := range calls {
		require.NoError(t, c.Ends())
	}
	close(stop)
	<-killed
	require.Zero(t, overlaps)
	require.EqualValues(t, workers*rounds, entered)
	r.nothingLeft()
}

// refuses answers every acquisition with these words, and counts them.
func (r *rig) refuses(words string) (asked *int) {
	r.Helper()
	asked = new(int)
	r.relay.OnRequest(func(cmd []string) redistest.Action {
		if !runs("acquire")(cmd) {
			return redistest.Pass()
		}
		*asked++
		return redistest.AnswerError(words)
	})
	return asked
}

// A server that answers every request with a passing refusal is asked for as often as configured, and then its words are returned.
func TestRefusalThatDoesNotPassIsReturnedAfterTheRetries(t *testing.T) {
	t.Parallel()
	for _, words := range []string{
		"LOADING Redis is loading the dataset in memory",
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
	} {
		r := newRig(t)
		asked := r.refuses(words)
		_, err := r.lock().Lock(context.Background())
		require.ErrorContains(t, err, words[:8])
		require.NotErrorIs(t, err, redlatch.ErrNotAcquired)
		_, err = r.lock().TryLock(context.Background())
		require.ErrorContains(t, err, words[:8])
		r.relay.OnRequest(nil)
		require.Equal(t, 4+1, *asked, "three retries, and one attempt")
		r.release(r.take(context.Background(), r.lock()))
	}
}

// A server that has become a replica is asked for as long as a failover can take: its address may lead to another one by then.
func TestServerThatRefusesToWriteIsAskedForLongerThanABrokenOne(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	asked := r.refuses("READONLY You can't write against a read only replica.")
	_, err := r.lock().Lock(context.Background())
	require.ErrorContains(t, err, "READONLY")
	require.Greater(t, *asked, 4+1)
	r.relay.OnRequest(nil)
	r.release(r.take(context.Background(), r.lock()))
}

// A refusal that will not pass is not tried again.
func TestRefusalForGoodIsReturnedAtOnce(t *testing.T) {
	t.Parallel()
	for _, words := range []string{
		"NOPERM this user has no permissions to run the 'evalsha' command",
		"ERR unknown command 'EVALSHA'",
		"OOM command not allowed when used memory > 'maxmemory'.",
	} {
		r := newRig(t)
		asked := r.refuses(words)
		_, err := r.lock().Lock(context.Background())
		require.ErrorContains(t, err, strings.TrimPrefix(words, "ERR "))
		r.relay.OnRequest(nil)
		require.Equal(t, 1, *asked)
	}
}
