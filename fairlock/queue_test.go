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
	"github.com/redlatch/redlatch/internal/redistest"
)

// FL-01, FL-10: the queue in Redis lists them, and each release tells the one whose turn it is and nobody else.
func TestWaitersOfAllProcessesAreServedInTheirOrder(t *testing.T) {
	t.Parallel()
	const clients, each = 3, 4
	s := redistest.Start(t)
	holder := take(t, fairlock.New(open(t, s), name))
	var locks []*fairlock.Lock
	for range clients {
		locks = append(locks, fairlock.New(open(t, s, deaf), name))
	}
	var calls []*call
	for i := range clients * each {
		calls = append(calls, enqueue(t, s, i+1, locks[i%clients]))
	}
	order := queued(t, s)
	until(t, func() bool { return len(s.Channels(t)) == len(calls) })

	messages := s.Record(t, channel, channel+":*")
	release(t, holder)
	for i, c := range calls {
		h := c.succeeds(t)
		require.Equal(t, order[i], h.Owner().String())
		require.Equal(t, order[i+1:], append([]string{}, queued(t, s)...))
		release(t, h)
	}
	var told []string
	for _, m := range messages.Wait(t, len(calls)) {
		require.Equal(t, "0", m.Payload)
		told = append(told, m.Channel)
	}
	for i, field := range order {
		require.Equal(t, channel+":"+field, told[i])
	}
	nothingLeft(t, s)
}

// FL-11
func TestTryLockIsRefusedWhileSomebodyElseStandsInTheQueue(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	stand(t, s, strangers[0], clock(t, s).Add(time.Hour))
	before := s.Snapshot(t).Entries
	h, err := fairlock.New(open(t, s), name).TryLock(background)
	require.ErrorIs(t, err, redlatch.ErrNotAcquired)
	require.Nil(t, h)
	require.Equal(t, before, s.Snapshot(t).Entries)
}

// FL-07: somebody who died stands before a waiter while the lock is free. The server tells the waiter 0, and when the dead one's time is over.
func TestWaiterBehindADeadOneAsksOnceWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	lock := fairlock.New(open(t, s, deaf), name)
	release(t, take(t, lock)) // the server knows the scripts now
	death := clock(t, s).Add(locktest.Span(700 * time.Millisecond))
	stand(t, s, strangers[0], death)
	s.ResetStats(t)
	h := take(t, lock)
	require.False(t, clock(t, s).Before(death), "it got in before the other one counts as dead")
	require.LessOrEqual(t, s.CommandStats(t)["evalsha"], int64(5), "once, once more when it listens, and when the time is over")
	release(t, h)
	nothingLeft(t, s)
}

// FL-08: a newcomer's script took the waiter for dead.
func TestWaiterThatWasDroppedStandsInTheQueueAgain(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	holder := take(t, fairlock.New(open(t, s), name))
	waiter := enqueue(t, s, 1, fairlock.New(open(t, s, func(c *config.Config) { c.FallbackPoll = 200 * time.Millisecond }), name))
	field := queued(t, s)[0]
	s.Do(t, "LREM", queue, "0", field)
	s.Do(t, "ZREM", timeouts, field)
	until(t, func() bool { return len(queued(t, s)) == 1 })
	require.Equal(t, []string{field}, queued(t, s))
	release(t, holder)
	release(t, waiter.succeeds(t))
	nothingLeft(t, s)
}

// FL-14
func TestWaiterThatGivesUpLeavesQueueAndChannel(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	holder := take(t, fairlock.New(open(t, s), name))
	here := open(t, s, func(c *config.Config) { c.SubscriptionLinger = config.NoLinger })
	first, second := enqueue(t, s, 1, fairlock.New(here, name)), enqueue(t, s, 2, fairlock.New(here, name))
	of := queued(t, s)
	until(t, func() bool { return len(s.Channels(t)) == 2 })
	first.giveUp(errGoneElsewhere)
	first.fails(t, errGoneElsewhere)
	require.Equal(t, of[1:], queued(t, s), "when the call returns it has left")
	require.EqualValues(t, 1, s.Do(t, "ZCARD", timeouts).Int())
	until(t, func() bool { return len(s.Channels(t)) == 1 })
	require.Equal(t, []string{channel + ":" + of[1]}, s.Channels(t))
	second.giveUp(errGoneElsewhere)
	second.fails(t, errGoneElsewhere)
	until(t, func() bool { return len(s.Channels(t)) == 0 })
	release(t, holder)
	nothingLeft(t, s)
}

// FL-13: the call ends when its own wait is over, not with the words of a script, and the queue is put in order as soon as the server
// answers again.
func TestWaiterOfAFrozenServerLeavesTheQueueWhenItAnswersAgain(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	holder := take(t, fairlock.New(open(t, s), name), redlatch.WithLease(time.Hour))
	hasty := open(t, s, func(c *config.Config) {
		c.Timeout, c.RetryAttempts = locktest.Span(400*time.Millisecond), 1
		c.RetryDelay = config.Delay{Min: 5 * time.Millisecond, Max: 20 * time.Millisecond}
	})
	waiter := enqueue(t, s, 1, fairlock.New(hasty, name), redlatch.WithWait(time.Second))
	s.Stop(t)
	waiter.ends(t)
	if !errors.Is(waiter.err, redlatch.ErrNotAcquired) { // it was just asking
		require.ErrorContains(t, waiter.err, "the wait is over and the server has not recovered")
	}
	require.Nil(t, waiter.hold)
	s.Cont(t)
	until(t, func() bool { return len(queued(t, s)) == 0 })
	require.Zero(t, s.Do(t, "EXISTS", queue, timeouts).Int())
	release(t, holder)
}

// FL-16: nobody releases. That each gets in when the lease before it is over, and not by its poll, is what the clients' deafness proves.
func TestWaitersFollowOnLeasesThatEndByThemselves(t *testing.T) {
	t.Parallel()
	const waiters = 8
	s := redistest.Start(t)
	lease := locktest.Span(150 * time.Millisecond)
	lock := fairlock.New(open(t, s, deaf), name)
	first := take(t, lock, redlatch.WithLease(4*lease)) // time enough for all to stand in line
	var mu sync.Mutex
	var order []int
	var calls []*call
	var all sync.WaitGroup
	for i := range waiters {
		c := enqueue(t, s, i+1, lock, redlatch.WithWait(patience), redlatch.WithLease(lease))
		calls = append(calls, c)
		all.Go(func() {
			<-c.done
			mu.Lock()
			defer mu.Unlock()
			order = append(order, i)
		})
	}
	for _, c := range calls {
		h := c.succeeds(t)
		<-h.Lost()
		require.ErrorIs(t, h.Err(), redlatch.ErrLost)
	}
	all.Wait()
	require.IsIncreasing(t, order)
	require.ErrorIs(t, first.Err(), redlatch.ErrLost)
	until(t, func() bool { return len(s.Snapshot(t).Entries) == 0 })
}

// FL-17
func TestFiveHundredWaitersAllGetTheirTurn(t *testing.T) {
	t.Parallel()
	const clients, each = 5, 100
	s := redistest.Start(t)
	holder := take(t, fairlock.New(open(t, s), name))
	var calls []*call
	for range clients {
		lock := fairlock.New(open(t, s, deaf), name)
		for range each {
			calls = append(calls, start(t, lock, redlatch.WithWait(time.Minute)))
		}
	}
	until(t, func() bool { return len(queued(t, s)) == len(calls) })
	release(t, holder)
	var inside sync.Mutex
	var all sync.WaitGroup
	for _, c := range calls {
		all.Go(func() {
			<-c.done
			if c.err != nil {
				t.Errorf("a waiter of 500: %v", c.err)
				return
			}
			if !inside.TryLock() {
				t.Error("two are inside")
				return
			}
			inside.Unlock()
			if err := c.hold.Unlock(background); err != nil {
				t.Errorf("the release of a waiter of 500: %v", err)
			}
		})
	}
	all.Wait()
	nothingLeft(t, s)
}

// FL-02, FL-23: a waiter counts as dead when the lease before it and its own wait are over, in milliseconds both.
func TestPlaceInTheQueueLastsAsLongAsTheWait(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := open(t, s, func(c *config.Config) { c.FairLockWaitTimeout = 7 * time.Minute })
	lock := fairlock.New(client, name)
	holder := take(t, lock, redlatch.WithLease(time.Hour))
	ends := clock(t, s).Add(time.Duration(s.Do(t, "PTTL", name).Int()) * time.Millisecond)
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
	release(t, holder)
}

// FL-20: what a crash of everybody leaves has no TTL.
func TestFirstCallerAfterACrashClearsTheQueue(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	now := clock(t, s)
	for i, field := range strangers {
		stand(t, s, field, now.Add(time.Duration(i-3)*time.Second))
	}
	h, err := fairlock.New(open(t, s), name).TryLock(background)
	require.NoError(t, err)
	require.Zero(t, s.Do(t, "EXISTS", queue, timeouts).Int())
	release(t, h)
	nothingLeft(t, s)
}

// FL-22
func TestAllKeysOfAFairLockAreNamedAfterTheMapper(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	mapped := open(t, s, func(c *config.Config) { c.NameMapper = func(name string) string { return "shop:" + name } })
	holder := take(t, fairlock.New(mapped, name))
	waiter := start(t, fairlock.New(mapped, name))
	keys := []string{"redisson_lock_queue:{shop:order:1001}", "redisson_lock_timeout:{shop:order:1001}", "shop:order:1001"}
	until(t, func() bool { return len(s.Snapshot(t).Keys()) == len(keys) && len(s.Channels(t)) == 1 })
	require.Equal(t, keys, s.Snapshot(t).Keys())
	field := s.Do(t, "LINDEX", keys[0], "0").Text()
	heard := "redisson_lock__channel:{shop:order:1001}:" + field
	require.Equal(t, []string{heard}, s.Channels(t))
	for _, key := range append(keys, heard) {
		require.Equal(t, config.Slot("shop:order:1001"), config.Slot(key), key)
	}
	release(t, holder)
	release(t, waiter.succeeds(t))
	nothingLeft(t, s)
}

// FL-25
func TestSecondEntryOfANonReentrantFairLockDoesNotQueue(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	lock := fairlock.New(open(t, s), name, fairlock.NonReentrant())
	hold := take(t, lock)
	for _, opts := range [][]redlatch.AcquireOption{nil, {redlatch.WithWait(time.Minute)}} {
		again, err := lock.Lock(hold.Context(), opts...)
		require.ErrorIs(t, err, redlatch.ErrReentry)
		require.Nil(t, again)
	}
	require.Zero(t, s.Do(t, "EXISTS", queue, timeouts).Int())
	require.Equal(t, "1", s.Do(t, "HGET", name, hold.Owner().String()).Text())
	release(t, hold)
	nothingLeft(t, s)
}
