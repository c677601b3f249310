package redlatch_test

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/locktest"
	"github.com/redlatch/redlatch/internal/locktest/probe"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/rlock"
)

// fewGoroutines is by how many the number of goroutines may differ for other reasons than the locks: connections that are
// made meanwhile, a renewal on its way, timers of the tests' own tools.
const fewGoroutines = 25

// What scripts call counts beside the EVALSHA itself, so of an uncontended pair these are all.
func TestUncontendedPairIsTwoScriptsAndNothingElse(t *testing.T) {
	t.Parallel()
	r := &rig{T: t, server: redistest.Start(t)}
	client := probe.Open(t, r.server.URL())
	l := rlock.New(client, lockName)
	r.release(r.take(context.Background(), l)) // the server has the scripts now
	r.server.ResetStats(t)
	const pairs = 10
	for range pairs {
		hold, err := l.Lock(context.Background())
		require.NoError(t, err)
		require.NoError(t, hold.Unlock(context.Background()))
	}
	stats := r.server.CommandStats(t)
	require.EqualValues(t, 2*pairs, stats["evalsha"])
	for name := range stats {
		require.Contains(t, []string{"evalsha", "exists", "hlen", "hmget", "hset", "pexpire", "del", "publish"}, name)
	}
	require.EqualValues(t, pairs, stats["publish"])
	require.Empty(t, r.server.Channels(t))
	require.Empty(t, r.server.Snapshot(t).Entries)
}

// A waiter of another process asks when it comes, when it finds the channel subscribed, and when it is woken. Now and then it asks
// once more: when the message of the round before arrives only now.
func TestWaiterOfAHotLockCostsThreeScriptsAndNoSubscription(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	client := probe.Open(t, r.server.URL(), probe.Deaf)
	theirs := rlock.New(client, lockName)
	round := func() {
		hold := r.take(context.Background(), r.theirs())
		asked := r.server.CommandStats(t)["evalsha"]
		waiter := r.starts(context.Background(), theirs)
		r.until(func() bool { return r.server.CommandStats(t)["evalsha"] > asked }, "the waiter does not ask")
		r.listening()
		r.release(hold)
		r.release(waiter.Succeeds())
	}
	round()
	const rounds = 10
	dear := 0
	for range rounds {
		r.server.ResetStats(t)
		round()
		stats := r.server.CommandStats(t)
		if stats["evalsha"] > 6 { // the holder's two, the waiter's three, and its release
			dear++
		}
		require.LessOrEqual(t, stats["evalsha"], int64(7))
		require.Zero(t, stats["subscribe"])
		require.Zero(t, stats["unsubscribe"])
		require.Zero(t, stats["eval"])
	}
	require.Less(t, dear, rounds/2)
}

// WD-01, and that neither a hold nor its renewal has a goroutine or a timer of its own.
func TestTenThousandHoldsAreRenewedByOneGoroutine(t *testing.T) {
	const holds, takers = 10_000, 64
	timeout := locktest.Span(3 * time.Second) // a renewal is due each third of it
	r := &rig{T: t, server: redistest.Start(t)}
	client := probe.Open(t, r.server.URL(), probe.Watchdog(timeout))
	r.release(r.take(context.Background(), rlock.New(client, "the first one")))
	before := runtime.NumGoroutine()

	all := make([]*redlatch.Hold, holds)
	var wg sync.WaitGroup
	for taker := range takers {
		wg.Go(func() {
			for i := taker; i < holds; i += takers {
				h, err := rlock.New(client, "order:"+strconv.Itoa(i)).Lock(context.Background())
				if err != nil {
					t.Errorf("lock %d: %v", i, err)
					return
				}
				all[i] = h
			}
		})
	}
	wg.Wait()
	require.False(t, t.Failed())
	require.Less(t, runtime.NumGoroutine(), before+fewGoroutines)

	<-time.After(timeout + timeout/2)
	require.Less(t, runtime.NumGoroutine(), before+fewGoroutines)
	for i, h := range all {
		require.NoError(t, h.Err(), "hold %d", i)
	}
	for i := 0; i < holds; i += holds / 10 {
		require.Positive(t, r.server.Do(t, "PTTL", "order:"+strconv.Itoa(i)).Int())
	}
	for taker := range takers {
		wg.Go(func() {
			for i := taker; i < holds; i += takers {
				if err := all[i].Unlock(context.Background()); err != nil {
					t.Errorf("unlock %d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
	require.Zero(t, r.server.Do(t, "DBSIZE").Int())
}

// What waited for a lock, if only for its first answer, is of no use any more when the lock is held.
func TestHoldKeepsNothingOfItsAcquisition(t *testing.T) {
	const holds, objects = 2000, 16 // the hold, its contexts, the lock, names: 12 when this was written, and 20 with what is waited with
	r := &rig{T: t, server: redistest.Start(t)}
	client := probe.Open(t, r.server.URL())
	r.release(r.take(context.Background(), rlock.New(client, "the first one")))
	all, before := make([]*redlatch.Hold, holds), liveObjects()
	for i := range all {
		all[i] = r.take(context.Background(), rlock.New(client, "order:"+strconv.Itoa(i)))
	}
	require.Less(t, liveObjects()-before, holds*objects)
	for _, hold := range all {
		r.release(hold)
	}
}

func liveObjects() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapObjects) //nolint:gosec // far below
}

func TestThousandWaitersCostNoGoroutineButTheirOwn(t *testing.T) {
	const waiters = 1000
	r := &rig{T: t, server: redistest.Start(t)}
	client := probe.Open(t, r.server.URL())
	hold := r.take(context.Background(), rlock.New(client, lockName))
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	first := r.starts(ctx, rlock.New(client, lockName))
	r.listening()
	before := runtime.NumGoroutine()

	var calls []*probe.Call
	for i := range waiters {
		name := lockName // one queue
		if i%2 == 0 {
			name += strconv.Itoa(i / 2 % 10) // and ten others
		}
		calls = append(calls, r.starts(ctx, rlock.New(client, name)))
	}
	// Ten of them have their locks; all others wait.
	r.until(func() bool { return len(r.server.Channels(t)) == 11 }, "not everybody waits")
	r.until(func() bool { return runtime.NumGoroutine() >= before+waiters-10 }, "not everybody waits")
	require.Less(t, runtime.NumGoroutine(), before+waiters+fewGoroutines)
	cancel(errCustomerLeft)
	require.ErrorIs(t, first.Ends(), errCustomerLeft)
	for _, c := range calls {
		if err := c.Ends(); err == nil {
			r.release(c.Hold)
		} else {
			require.ErrorIs(t, err, errCustomerLeft)
		}
	}
	require.Less(t, runtime.NumGoroutine(), before+fewGoroutines)
	r.release(hold)
	r.nothingLeft()
}
