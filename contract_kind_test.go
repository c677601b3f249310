package redlatch_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/fairlock"
	"github.com/redlatch/redlatch/fencedlock"
	"github.com/redlatch/redlatch/internal/locktest/probe"
	"github.com/redlatch/redlatch/rlock"
	"github.com/redlatch/redlatch/rwlock"
)

// That each kind refuses the others is in the contract (internal/locktest). Here is what can't be said of every kind: RL-20.

func skipKindCheck(c *config.Config) { c.SkipKindCheck = true }

func TestSkippedKindCheckLeavesKindsToEachOtherAsRedissonDoes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	easy := probe.Open(t, r.server.URL(), skipKindCheck)
	rw := rwlock.New(r.client, lockName)
	for _, side := range []*rwlock.Side{rw.Read(), rw.Write()} {
		hold := r.take(context.Background(), side)
		for _, l := range []redlatch.Locker{rlock.New(easy, lockName), fairlock.New(easy, lockName), fencedlock.New(easy, lockName)} {
			_, err := l.TryLock(context.Background())
			require.ErrorIs(t, err, redlatch.ErrNotAcquired)
		}
		locked, err := rlock.New(easy, lockName).IsLocked(context.Background())
		require.NoError(t, err)
		require.True(t, locked)
		freed, err := rlock.New(easy, lockName).ForceUnlock(context.Background())
		require.NoError(t, err)
		require.True(t, freed)
		require.ErrorIs(t, hold.Unlock(context.Background()), redlatch.ErrLost)
	}
	plain := r.take(context.Background(), r.theirs())
	reader := r.take(context.Background(), rwlock.New(easy, lockName).Read())
	require.ErrorIs(t, plain.Unlock(context.Background()), redlatch.ErrLost, "it is not alone")
	r.release(reader)
	require.Empty(t, r.server.Do(t, "KEYS", lockName).Texts())
}

// The owner's field is the same in both locks: what was one's own must not be taken for the other.
func TestHoldThatWasLostToTheOwnersOwnLockOfAnotherKindIsLost(t *testing.T) {
	t.Parallel()
	for name, find := range map[string]func(*redlatch.Hold) error{
		"unlock":  func(h *redlatch.Hold) error { return h.Unlock(context.Background()) },
		"extend":  func(h *redlatch.Hold) error { return h.Extend(context.Background(), time.Hour) },
		"renewal": func(h *redlatch.Hold) error { <-h.Lost(); return h.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, probe.Watchdog(time.Second))
			rw := rwlock.New(r.client, lockName)
			plain, read := redlatch.Locker(r.lock()), redlatch.Locker(rw.Read())
			for _, kinds := range [][2]redlatch.Locker{{plain, read}, {read, plain}} {
				lost := r.take(context.Background(), kinds[0])
				r.server.Do(t, "DEL", lockName)
				kept := r.take(redlatch.WithOwner(context.Background(), lost.Owner()), kinds[1], redlatch.WithLease(time.Minute))
				before := r.server.Do(t, "HGETALL", lockName).Map()
				require.ErrorIs(t, find(lost), redlatch.ErrLost)
				if name != "unlock" {
					require.ErrorIs(t, lost.Unlock(context.Background()), redlatch.ErrLost)
				}
				require.Equal(t, before, r.server.Do(t, "HGETALL", lockName).Map())
				require.Greater(t, r.server.Do(t, "PTTL", lockName).Int(), int64(40_000))
				r.release(kept)
			}
		})
	}
}

// Reading under the name is no entry of a plain lock that must not be entered twice.
func TestNonReentrantLockThatMeetsItsOwnersReadLockIsOfTheWrongType(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	once := rlock.New(r.client, lockName, rlock.NonReentrant())
	lost := r.take(context.Background(), once)
	r.server.Do(t, "DEL", lockName)
	reader := r.take(redlatch.WithOwner(context.Background(), lost.Owner()), rwlock.New(r.client, lockName).Read())
	_, err := once.TryLock(redlatch.WithOwner(context.Background(), lost.Owner()))
	require.ErrorIs(t, err, redlatch.ErrWrongType)
	require.ErrorIs(t, lost.Err(), redlatch.ErrLost)
	r.release(reader)
}

// The waiter listens on the plain lock's channel, and is told by its next look that there is nothing to wait for.
func TestWaiterWhoseLockBecomesOneOfAnotherKindIsToldSo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	hold := r.take(context.Background(), r.theirs())
	waiter := r.starts(context.Background(), r.lock())
	r.listening()
	// At once, or the waiter could get the lock between.
	r.server.Do(t, "EVAL", "redis.call('del', KEYS[1]) return redis.call('hset', KEYS[1], 'mode', 'write', 'java:1:write', 1)", "1", lockName)
	require.ErrorIs(t, waiter.Ends(), redlatch.ErrWrongType)
	require.ErrorIs(t, hold.Unlock(context.Background()), redlatch.ErrLost)
}
