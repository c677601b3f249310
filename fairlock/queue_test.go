package fairlock_test

import (
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/fairlock"
	"github.com/redlatch/redlatch/internal/locktest"
	"github.com/redlatch/redlatch/internal/locktest/probe"
	"github.com/redlatch/redlatch/internal/redistest"
)

// FL-01, FL-10: the queue in Redis lists them, and each release tells the one whose turn it is and nobody else.
func TestWaitersOfAllProcessesAreServedInTheirOrder(t *testing.T) {
	t.Parallel()
	const clients, each = 3, 4
	s := redistest.Start(t)
	holder := probe.Take(t, fairlock.New(probe.Open(t, s.URL()), name))
	var locks []*fairlock.Lock
	for range clients {
		locks = append(locks, fairlock.New(probe.Open(t, s.URL(), probe.Deaf), name))
	}
	var calls []*probe.Call
	for i := range clients * each {
		calls = append(calls, enqueue(t, s, i+1, locks[i%clients]))
	}
	order := queued(t, s)
	probe.Until(t, func() bool { return len(s.Channels(t)) == len(calls) })

	messages := s.Record(t, channel, channel+":*")
	probe.Release(t, holder)
	for i, c := range calls {
		h := c.Succeeds()
		require.Equal(t, order[i], h.Owner().String())
		require.Equal(t, order[i+1:], append([]string{}, queued(t, s)...))
		probe.Release(t, h)
	}
	var told []string
	for _, m := range messages.Wait(t, len(calls)) {
		require.Equal(t, "0", m.Payload)
		told = append(told, m.Channel)
	}
	for i, field := range order {
		require.Equal(t, channel+":"+field, told[i])
	}
	require.Empty(t, s.Snapshot(t).Entries)
}

// FL-11
func TestTryLockIsRefusedWhileSomebodyElseStandsInTheQueue(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	stand(t, s, strangers[0], clock(t, s).Add(time.Hour))
	before := s.Snapshot(t).Entries
	h, err := fairlock.New(probe.Open(t, s.URL()), name).TryLock(background)
	require.ErrorIs(t, err, redlatch.ErrNotAcquired)
	require.Nil(t, h)
	require.Equal(t, before, s.Snapshot(t).Entries)
}

// FL-07: somebody who died stands before a waiter while the lock is free. The server tells the waiter 0, and when the dead one's time is over.
func TestWaiterBehindADeadOneAsksOnceWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	lock := fairlock.New(probe.Open(t, s.URL(), probe.Deaf), name)
	probe.Release(t, probe.Take(t, lock)) // the server knows the scripts now
	death := clock(t, s).Add(locktest.Span(700 * time.Millisecond))
	stand(t, s, strangers[0], death)
	s.ResetStats(t)
	h := probe.Take(t, lock)
	require.False(t, clock(t, s).Before(death), "it got in before the other one counts as dead")
	require.LessOrEqual(t, s.CommandStats(t)["evalsha"], int64(5), "once, once more when it listens, and when the time is over")
	probe.Release(t, h)
	require.Empty(t, s.Snapshot(t).Entries)
}

// FL-08: a newcomer's script took the waiter for dead.
func TestWaiterThatWasDroppedStandsInTheQueueAgain(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	holder := probe.Take(t, fairlock.New(probe.Open(t, s.URL()), name))
	waiter := enqueue(t, s, 1, fairlock.New(probe.Open(t, s.URL(), func(c *config.Config) { c.FallbackPoll = 200 * time.Millisecond }), name))
	field := queued(t, s)[0]
	s.Do(t, "LREM", queue, "0", field)
	s.Do(t, "ZREM", timeouts, field)
	probe.Until(t, func() bool { return len(queued(t, s)) == 1 })
	require.Equal(t, []string{field}, queued(t, s))
	probe.Release(t, holder)
	probe.Release(t, waiter.Succeeds())
	require.Empty(t, s.Snapshot(t).Entries)
}

// FL-14
func TestWaiterThatGivesUpLeavesQueueAndChannel(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	holder := probe.Take(t, fairlock.New(probe.Open(t, s.URL()), name))
	here := probe.Open(t, s.URL(), func(c *config.Config) { c.SubscriptionLinger = config.NoLinger })
	first, second := enqueue(t, s, 1, fairlock.New(here, name)), enqueue(t, s, 2, fairlock.New(here, name))
	of := queued(t, s)
	probe.Until(t, func() bool { return len(s.Channels(t)) == 2 })
	first.GiveUp(errGoneElsewhere)
	require.ErrorIs(t, first.Fails(), errGoneElsewhere)
	require.Equal(t, of[1:], queued(t, s), "when the call returns it has left")
	require.EqualValues(t, 1, s.Do(t, "ZCARD", timeouts).Int())
	probe.Until(t, func() bool { return len(s.Channels(t)) == 1 })
	require.Equal(t, []string{channel + ":" + of[1]}, s.Channels(t))
	second.GiveUp(errGoneElsewhere)
	require.ErrorIs(t, second.Fails(), errGoneElsewhere)
	probe.Until(t, func() bool { return len(s.Channels(t)) == 0 })
	probe.Release(t, holder)
	require.Empty(t, s.Snapshot(t).Entries)
}

// FL-13: the call ends when its own wait is over, not with the words of a script, and the queue is put in order as soon as the server
// answers again.
func TestWaiterOfAFrozenServerLeavesTheQueueWhenItAnswersAgain(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	holder := probe.Take(t, fairlock.New(probe.Open(t, s.URL()), name), redlatch.WithLease(time.Hour))
	hasty := probe.Open(t, s.URL(), func(c *config.Config) {
		c.Timeout, c.RetryAttempts = locktest.Span(400*time.Millisecond), 1
		c.RetryDelay = config.Delay{Min: 5 * time.Millisecond, Max: 20 * time.Millisecond}
	})
	waiter := enqueue(t, s, 1, fairlock.New(hasty, name), redlatch.WithWait(time.Second))
	s.Stop(t)
	if err := waiter.Ends(); !errors.Is(err, redlatch.ErrNotAcquired) { // it was just asking
		require.ErrorContains(t, err, "the wait is over and the server has not recovered")
	}
	require.Nil(t, waiter.Hold)
	s.Cont(t)
	probe.Until(t, func() bool { return len(queued(t, s)) == 0 })
	require.Zero(t, s.Do(t, "EXISTS", queue, timeouts).Int())
	probe.Release(t, holder)
}

// FL-16: nobody releases. That each gets in when the lease before it is over, and not by its poll, is what the clients' deafness proves.
func TestWaitersFollowOnLeasesThatEndByThemselves(t *testing.T) {
	t.Parallel()
	const waiters = 8
	s := redistest.Start(t)
	lease := locktest.Span(150 * time.Millisecond)
	lock := fairlock.New(probe.Open(t, s.URL(), probe.Deaf), name)
	first := probe.Take(t, lock, redlatch.WithLease(4*lease)) // time enough for all to stand in line
	var mu sync.Mutex
	var order []int
	var calls []*probe.Call
	var all sync.WaitGroup
	for i := range waiters {
		c := enqueue(t, s, i+1, lock, redlatch.WithWait(probe.Patience), redlatch.WithLease(lease))
		calls = append(calls, c)
		all.Go(func() {
			<-c.Done
			mu.Lock()
			defer mu.Unlock()
			order = append(order, i)
		})
	}
	for _, c := range calls {
		h := c.Succeeds()
		<-h.Lost()
		require.ErrorIs(t, h.Err(), redlatch.ErrLost)
	}
	all.Wait()
	require.IsIncreasing(t, order)
	require.ErrorIs(t, first.Err(), redlatch.ErrLost)
	probe.Until(t, func() bool { return len(s.Snapshot(t).Entries) == 0 })
}

// FL-17
func TestFiveHundredWaitersAllGetTheirTurn(t *testing.T) {
	t.Parallel()
	const clients, each = 5, 100
	s := redistest.Start(t)
	holder := probe.Take(t, fairlock.New(probe.Open(t, s.URL()), name))
	var calls []*probe.Call
	for range clients {
		lock := fairlock.New(probe.Open(t, s.URL(), probe.Deaf), name)
		for range each {
			calls = append(calls, probe.Start(t, background, lock, redlatch.WithWait(time.Minute)))
		}
	}
	probe.Until(t, func() bool { return len(queued(t, s)) == len(calls) })
	probe.Release(t, holder)
	var inside sync.Mutex
	var all sync.WaitGroup
	for _, c := range calls {
		all.Go(func() {
			<-c.Done
			if c.Err != nil {
				t.Errorf("a waiter of 500: %v", c.Err)
				return
			}
			if !inside.TryLock() {
				t.Error("two are inside")
				return
			}
			inside.Unlock()
			if err := c.Hold.Unlock(background); err != nil {
				t.Errorf("the release of a waiter of 500: %v", err)
			}
		})
	}
	all.Wait()
	require.Empty(t, s.Snapshot(t).Entries)
}

// FL-02, FL-23: a waiter counts as dead when the lease before it and its own wait are over, in milliseconds both.
func TestPlaceInTheQueueLastsAsLongAsTheWait(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := probe.Open(t, s.URL(), func(c *config.Config) { c.FairLockWaitTimeout = 7 * time.Minute })
	lock := fairlock.New(client, name)
	holder := probe.Take(t, lock, redlatch.WithLease(time.Hour))
	ends := clock(t, s).Add(s.TTL(t, name))
	enqueue(t, s, 1, lock, redlatch.WithWait(100*time.Second))
	enqueue(t, s, 2, lock)
	enqueue(t, s, 3, lock, redlatch.WithWait(200*time.Second))
	dies := ends
	for i, wait := range []time.Duration{100 * time.Second, 7 * time.Minute, 200 * time.Second} {
		dies = dies.Add(wait)
		score := s.Do(t, "ZSCORE", timeouts, queued(t, s)[i]).Text()
		at, err := strconv.ParseInt(score, 10, 64)
		require.NoError(t, err)
		require.WithinDuration(t, dies, time.UnixMilli(at), 5*time.Second) // between the two looks at the clock
	}
	probe.Release(t, holder)
}

// FL-20: what a crash of everybody leaves has no TTL.
func TestFirstCallerAfterACrashClearsTheQueue(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	now := clock(t, s)
	for i, field := range strangers {
		stand(t, s, field, now.Add(time.Duration(i-3)*time.Second))
	}
	h, err := fairlock.New(probe.Open(t, s.URL()), name).TryLock(background)
	require.NoError(t, err)
	require.Zero(t, s.Do(t, "EXISTS", queue, timeouts).Int())
	probe.Release(t, h)
	require.Empty(t, s.Snapshot(t).Entries)
}

// FL-22
func TestAllKeysOfAFairLockAreNamedAfterTheMapper(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	mapped := probe.Open(t, s.URL(), func(c *config.Config) { c.NameMapper = func(name string) string { return "shop:" + name } })
	holder := probe.Take(t, fairlock.New(mapped, name))
	waiter := probe.Start(t, background, fairlock.New(mapped, name))
	keys := []string{"redisson_lock_queue:{shop:order:1001}", "redisson_lock_timeout:{shop:order:1001}", "shop:order:1001"}
	probe.Until(t, func() bool { return len(s.Snapshot(t).Keys()) == len(keys) && len(s.Channels(t)) == 1 })
	require.Equal(t, keys, s.Snapshot(t).Keys())
	field := s.Do(t, "LINDEX", keys[0], "0").Text()
	heard := "redisson_lock__channel:{shop:order:1001}:" + field
	require.Equal(t, []string{heard}, s.Channels(t))
	for _, key := range append(keys, heard) {
		require.Equal(t, config.Slot("shop:order:1001"), config.Slot(key), key)
	}
	probe.Release(t, holder)
	probe.Release(t, waiter.Succeeds())
	require.Empty(t, s.Snapshot(t).Entries)
}

// FL-25
func TestSecondEntryOfANonReentrantFairLockDoesNotQueue(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	lock := fairlock.New(probe.Open(t, s.URL()), name, fairlock.NonReentrant())
	hold := probe.Take(t, lock)
	for _, opts := range [][]redlatch.AcquireOption{nil, {redlatch.WithWait(time.Minute)}} {
		again, err := lock.Lock(hold.Context(), opts...)
		require.ErrorIs(t, err, redlatch.ErrReentry)
		require.Nil(t, again)
	}
	require.Zero(t, s.Do(t, "EXISTS", queue, timeouts).Int())
	require.Equal(t, "1", s.Do(t, "HGET", name, hold.Owner().String()).Text())
	probe.Release(t, hold)
	require.Empty(t, s.Snapshot(t).Entries)
}
