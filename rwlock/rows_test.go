package rwlock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/rwlock"
)

// RW-01, RW-17
func TestReadHoldWithinAWriteHoldComesAndGoes(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	here, there := rwlock.New(open(t, s.URL()), name), rwlock.New(open(t, s.URL()), name)
	locked := func(read, write bool) {
		t.Helper()
		for side, want := range map[*rwlock.Side]bool{there.Read(): read, there.Write(): write} {
			is, err := side.IsLocked(background)
			require.NoError(t, err)
			require.Equal(t, want, is)
		}
	}
	locked(false, false)
	writing := take(t, background, here.Write())
	locked(false, true)
	reading := take(t, writing.Context(), here.Read())
	locked(true, true)
	release(t, reading)
	locked(false, true)
	require.Equal(t, "write", field(t, s, "mode"))
	require.Equal(t, "1", field(t, s, writing.Owner().String()+":write"))
	isHeld(t, there.Read())
	release(t, writing)
	locked(false, false)
	nothingLeft(t, s)
}

// RW-02, RW-04
func TestWriterThatKeepsReadingIsRenewedAsAReader(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	seen := make(events, 1000)
	here, there := rwlock.New(observed(t, s.URL(), seen, watchful), name), rwlock.New(open(t, s.URL()), name)
	writing := take(t, background, here.Write())
	reading := take(t, writing.Context(), here.Read())
	release(t, writing)
	require.Equal(t, "read", field(t, s, "mode"))
	other := take(t, background, there.Read())
	isHeld(t, there.Write())
	release(t, other)

	seen.renewals(t)
	require.NoError(t, reading.Err())
	require.Positive(t, ttl(t, s, name))
	require.Positive(t, ttl(t, s, marker(reading)))
	isHeld(t, there.Write())
	release(t, reading)
	nothingLeft(t, s)
}

// RW-05
func TestReaderThatAsksForTheWriteSideIsToldAtOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	lock := rwlock.New(open(t, s.URL()), name)
	reading := take(t, background, lock.Read())
	ctx, cancel := context.WithTimeout(reading.Context(), patience)
	defer cancel()
	for _, opts := range [][]redlatch.AcquireOption{nil, {redlatch.WithWait(time.Hour)}} {
		h, err := lock.Write().Lock(ctx, opts...)
		require.ErrorIs(t, err, redlatch.ErrReentry)
		require.Nil(t, h)
	}
	h, err := lock.Write().TryLock(reading.Context())
	require.ErrorIs(t, err, redlatch.ErrReentry)
	require.Nil(t, h)
	require.NoError(t, reading.Err())
	release(t, reading)
	release(t, take(t, background, lock.Write()))
	nothingLeft(t, s)
}

// RW-07, RW-08: the longest reader's lease is the lock's, until that reader leaves.
func TestLockLastsAsLongAsItsLongestReader(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	lock := rwlock.New(open(t, s.URL()), name)
	long := take(t, background, lock.Read(), redlatch.WithLease(time.Hour))
	short := take(t, background, lock.Read(), redlatch.WithLease(time.Minute))
	require.Greater(t, ttl(t, s, name), 50*time.Minute)
	require.Greater(t, ttl(t, s, marker(long)), 50*time.Minute)
	require.LessOrEqual(t, ttl(t, s, marker(short)), time.Minute)
	messages := s.Record(t, channel)
	release(t, long)
	require.Empty(t, messages.Messages(t))
	require.Greater(t, ttl(t, s, name), 40*time.Second)
	require.LessOrEqual(t, ttl(t, s, name), time.Minute)
	release(t, short)
	require.Len(t, messages.Messages(t), 1)
	nothingLeft(t, s)
}

// RW-10: a reader whose process died ends by its lease, however long another one reads.
func TestDeadReaderIsNotRenewedByAnother(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	seen := make(events, 1000)
	dying := open(t, s.URL(), watchful)
	dead := take(t, background, rwlock.New(dying, name).Read())
	here := rwlock.New(observed(t, s.URL(), seen, watchful), name)
	alive := take(t, background, here.Read())
	require.NoError(t, dying.Close())
	seen.renewals(t)
	require.NoError(t, alive.Err())
	require.Negative(t, ttl(t, s, marker(dead)))
	require.Positive(t, ttl(t, s, marker(alive)))
	release(t, alive)
	nothingLeft(t, s)
}

// RW-13: whoever waits is told to look all the same.
func TestReleaseOfALostHoldSaysSoAndWakesWaiters(t *testing.T) {
	t.Parallel()
	for side, message := range map[string]string{"read": "0", "write": "1"} {
		t.Run(side, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			of := sideOf(rwlock.New(open(t, s.URL()), name), side)
			hold := take(t, background, of)
			s.FlushAll(t)
			messages := s.Record(t, channel)
			require.ErrorIs(t, hold.Unlock(background), redlatch.ErrLost)
			require.Equal(t, message, messages.Wait(t, 1)[0].Payload)
			require.ErrorIs(t, hold.Unlock(background), redlatch.ErrNotHeld)
			require.Len(t, messages.Messages(t), 1)
		})
	}
}

// RW-20
func TestReleaseOfAWriterLetsAllReadersIn(t *testing.T) {
	t.Parallel()
	const clients, each = 2, 10
	s := redistest.Start(t)
	writing := take(t, background, rwlock.New(open(t, s.URL()), name).Write())
	entered := make(chan *redlatch.Hold)
	for range clients {
		lock := rwlock.New(open(t, s.URL(), deaf), name)
		for range each {
			go func() {
				h, err := lock.Read().Lock(background, redlatch.WithWait(patience))
				if err != nil {
					t.Errorf("a reader that waits for a writer: %v", err)
				}
				entered <- h
			}()
		}
	}
	until(t, func() bool {
		subscribers := s.Do(t, "PUBSUB", "NUMSUB", channel).List()
		return len(subscribers) == 2 && subscribers[1].Int() == clients
	})
	messages := s.Record(t, channel)
	release(t, writing)
	var holds []*redlatch.Hold
	for range clients * each {
		holds = append(holds, <-entered)
	}
	require.False(t, t.Failed())
	require.Equal(t, "1", messages.Wait(t, 1)[0].Payload)
	require.EqualValues(t, clients*each+1, s.Do(t, "HLEN", name).Int(), "all of them are inside together")
	release(t, holds...)
	nothingLeft(t, s)
}

// RW-22
func TestFiftyReadersAreKeptBeyondTheWatchdogTimeout(t *testing.T) {
	t.Parallel()
	const readers = 50
	s := redistest.Start(t)
	seen := make(events, 10_000)
	lock := rwlock.New(observed(t, s.URL(), seen, watchful), name)
	var holds []*redlatch.Hold
	for range readers {
		holds = append(holds, take(t, background, lock.Read()))
	}
	seen.renewals(t)
	failures := make([]error, readers)
	var all sync.WaitGroup
	for i, h := range holds {
		all.Go(func() { failures[i] = h.Unlock(background) })
	}
	all.Wait()
	for _, err := range failures {
		require.NoError(t, err)
	}
	nothingLeft(t, s)
}

// RW-26
func TestHoldsOfAServerThatForgotEverythingAreLostAndTheNextAreRenewed(t *testing.T) {
	t.Parallel()
	for _, side := range []string{"read", "write"} {
		t.Run(side, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			seen := make(events, 1000)
			of := sideOf(rwlock.New(observed(t, s.URL(), seen, watchful), name), side)
			hold := take(t, background, of)
			s.FlushAll(t)
			require.ErrorIs(t, hold.Unlock(background), redlatch.ErrLost)
			next := take(t, background, of)
			for len(seen) > 0 {
				<-seen
			}
			seen.renewals(t)
			require.NoError(t, next.Err())
			release(t, next)
			nothingLeft(t, s)
		})
	}
}
