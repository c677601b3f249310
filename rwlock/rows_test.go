package rwlock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/locktest/probe"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/rwlock"
)

// RW-01, RW-17
func TestReadHoldWithinAWriteHoldComesAndGoes(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	here, there := rwlock.New(probe.Open(t, s.URL()), name), rwlock.New(probe.Open(t, s.URL()), name)
	locked := func(read, write bool) {
		t.Helper()
		for side, want := range map[*rwlock.Side]bool{there.Read(): read, there.Write(): write} {
			is, err := side.IsLocked(background)
			require.NoError(t, err)
			require.Equal(t, want, is)
		}
	}
	locked(false, false)
	writing := probe.Take(t, here.Write())
	locked(false, true)
	reading := probe.TakeAs(t, writing.Context(), here.Read())
	locked(true, true)
	probe.Release(t, reading)
	locked(false, true)
	require.Equal(t, "write", field(t, s, "mode"))
	require.Equal(t, "1", field(t, s, writing.Owner().String()+":write"))
	probe.IsHeld(t, there.Read())
	probe.Release(t, writing)
	locked(false, false)
	require.Empty(t, s.Snapshot(t).Entries)
}

// RW-02, RW-04
func TestWriterThatKeepsReadingIsRenewedAsAReader(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	seen := make(probe.Events, 1000)
	here, there := rwlock.New(probe.Observed(t, s.URL(), seen, watchful), name), rwlock.New(probe.Open(t, s.URL()), name)
	writing := probe.Take(t, here.Write())
	reading := probe.TakeAs(t, writing.Context(), here.Read())
	probe.Release(t, writing)
	require.Equal(t, "read", field(t, s, "mode"))
	other := probe.Take(t, there.Read())
	probe.IsHeld(t, there.Write())
	probe.Release(t, other)

	renewals(t, seen)
	require.NoError(t, reading.Err())
	require.Positive(t, s.TTL(t, name))
	require.Positive(t, s.TTL(t, marker(reading)))
	probe.IsHeld(t, there.Write())
	probe.Release(t, reading)
	require.Empty(t, s.Snapshot(t).Entries)
}

// RW-05
func TestReaderThatAsksForTheWriteSideIsToldAtOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	lock := rwlock.New(probe.Open(t, s.URL()), name)
	reading := probe.Take(t, lock.Read())
	ctx, cancel := context.WithTimeout(reading.Context(), probe.Patience)
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
	probe.Release(t, reading)
	probe.Release(t, probe.Take(t, lock.Write()))
	require.Empty(t, s.Snapshot(t).Entries)
}

// RW-07, RW-08: the longest reader's lease is the lock's, until that reader leaves.
func TestLockLastsAsLongAsItsLongestReader(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	lock := rwlock.New(probe.Open(t, s.URL()), name)
	long := probe.Take(t, lock.Read(), redlatch.WithLease(time.Hour))
	short := probe.Take(t, lock.Read(), redlatch.WithLease(time.Minute))
	require.Greater(t, s.TTL(t, name), 50*time.Minute)
	require.Greater(t, s.TTL(t, marker(long)), 50*time.Minute)
	require.LessOrEqual(t, s.TTL(t, marker(short)), time.Minute)
	messages := s.Record(t, channel)
	probe.Release(t, long)
	require.Empty(t, messages.Messages(t))
	require.Greater(t, s.TTL(t, name), 40*time.Second)
	require.LessOrEqual(t, s.TTL(t, name), time.Minute)
	probe.Release(t, short)
	require.Len(t, messages.Messages(t), 1)
	require.Empty(t, s.Snapshot(t).Entries)
}

// RW-10: a reader whose process died ends by its lease, however long another one reads.
func TestDeadReaderIsNotRenewedByAnother(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	seen := make(probe.Events, 1000)
	dying := probe.Open(t, s.URL(), watchful)
	dead := probe.Take(t, rwlock.New(dying, name).Read())
	here := rwlock.New(probe.Observed(t, s.URL(), seen, watchful), name)
	alive := probe.Take(t, here.Read())
	require.NoError(t, dying.Close())
	renewals(t, seen)
	require.NoError(t, alive.Err())
	require.Negative(t, s.TTL(t, marker(dead)))
	require.Positive(t, s.TTL(t, marker(alive)))
	probe.Release(t, alive)
	require.Empty(t, s.Snapshot(t).Entries)
}

// RW-13: whoever waits is told to look all the same.
func TestReleaseOfALostHoldSaysSoAndWakesWaiters(t *testing.T) {
	t.Parallel()
	for side, message := range map[string]string{"read": "0", "write": "1"} {
		t.Run(side, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			of := sideOf(rwlock.New(probe.Open(t, s.URL()), name), side)
			hold := probe.Take(t, of)
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
	writing := probe.Take(t, rwlock.New(probe.Open(t, s.URL()), name).Write())
	entered := make(chan *redlatch.Hold)
	for range clients {
		lock := rwlock.New(probe.Open(t, s.URL(), probe.Deaf), name)
		for range each {
			go func() {
				h, err := lock.Read().Lock(background, redlatch.WithWait(probe.Patience))
				if err != nil {
					t.Errorf("a reader that waits for a writer: %v", err)
				}
				entered <- h
			}()
		}
	}
	probe.Until(t, func() bool { return s.Listeners(t, channel) == clients })
	messages := s.Record(t, channel)
	probe.Release(t, writing)
	var holds []*redlatch.Hold
	for range clients * each {
		holds = append(holds, <-entered)
	}
	require.False(t, t.Failed())
	require.Equal(t, "1", messages.Wait(t, 1)[0].Payload)
	require.EqualValues(t, clients*each+1, s.Do(t, "HLEN", name).Int(), "all of them are inside together")
	probe.Release(t, holds...)
	require.Empty(t, s.Snapshot(t).Entries)
}

// RW-22
func TestFiftyReadersAreKeptBeyondTheWatchdogTimeout(t *testing.T) {
	t.Parallel()
	const readers = 50
	s := redistest.Start(t)
	seen := make(probe.Events, 10_000)
	lock := rwlock.New(probe.Observed(t, s.URL(), seen, watchful), name)
	var holds []*redlatch.Hold
	for range readers {
		holds = append(holds, probe.Take(t, lock.Read()))
	}
	renewals(t, seen)
	failures := make([]error, readers)
	var all sync.WaitGroup
	for i, h := range holds {
		all.Go(func() { failures[i] = h.Unlock(background) })
	}
	all.Wait()
	for _, err := range failures {
		require.NoError(t, err)
	}
	require.Empty(t, s.Snapshot(t).Entries)
}

// RW-26
func TestHoldsOfAServerThatForgotEverythingAreLostAndTheNextAreRenewed(t *testing.T) {
	t.Parallel()
	for _, side := range []string{"read", "write"} {
		t.Run(side, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			seen := make(probe.Events, 1000)
			of := sideOf(rwlock.New(probe.Observed(t, s.URL(), seen, watchful), name), side)
			hold := probe.Take(t, of)
			s.FlushAll(t)
			require.ErrorIs(t, hold.Unlock(background), redlatch.ErrLost)
			next := probe.Take(t, of)
			for len(seen) > 0 {
				<-seen
			}
			renewals(t, seen)
			require.NoError(t, next.Err())
			probe.Release(t, next)
			require.Empty(t, s.Snapshot(t).Entries)
		})
	}
}
