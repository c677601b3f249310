package interop

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/interop/javaagent"
	"github.com/redlatch/redlatch/rlock"
)

// The keys with which threads under a lock find out that they are not alone. They are in the slot of name.
const (
	counter = "{" + name + "}:counter"
	inside  = "{" + name + "}:inside"
)

// section is an unprotected read-modify-write, as the sections of a javaagent.Contention are.
func section(t *testing.T, ctx context.Context, conn rueidis.Client) error { //nolint:revive // the test comes first
	t.Helper()
	here, err := conn.Do(ctx, conn.B().Incr().Key(inside).Build()).AsInt64()
	if err != nil {
		return err
	}
	assert.EqualValues(t, 1, here, "somebody else is inside")
	n, _ := conn.Do(ctx, conn.B().Get().Key(counter).Build()).AsInt64()
	next := strconv.FormatInt(n+1, 10)
	if err := conn.Do(ctx, conn.B().Set().Key(counter).Value(next).Build()).Error(); err != nil {
		return err
	}
	return conn.Do(ctx, conn.B().Decr().Key(inside).Build()).Error()
}

// hammer lets two JVM clients and two Go clients do unprotected read-modify-write under one lock.
func hammer(t *testing.T, on *topology, k kind) {
	const threads, sections = 4, 50
	f := newFleet(t, on, 30*time.Second)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()

	var work sync.WaitGroup
	for range 2 {
		c := f.javaClient(t)
		work.Go(func() {
			result, err := c.Hammer(ctx, javaagent.Contention{
				Lock: k.java(name), Threads: threads, Sections: sections, CounterKey: counter, InsideKey: inside,
			})
			if assert.NoError(t, err) {
				assert.Zero(t, result.Overlaps)
			}
		})
	}
	for range 2 {
		c := f.goClient(t)
		for range threads {
			work.Go(func() {
				lock := k.inGo(c, name)
				conn := f.server.Client(t)
				for range sections {
					err := redlatch.Do(ctx, lock, func(context.Context) error { return section(t, ctx, conn) })
					if !assert.NoError(t, err) {
						return
					}
				}
			})
		}
	}
	work.Wait()
	require.Equal(t, strconv.Itoa(4*threads*sections), f.server.Do(t, "GET", counter).Text())
	t.Logf("interop-note: %d sections, 0 overlaps", 4*threads*sections)
}

func threadIDs(t *testing.T, on *topology) { // RL-22
	f := newFleet(t, on, 30*time.Second)
	c, j := f.goClient(t), f.javaClient(t)
	thread := j.Thread(t.Name())
	lock := rlock.New(c, name)
	ctx := redlatch.WithThreadID(bounded(t), 42)

	hold, err := lock.Lock(ctx)
	require.NoError(t, err)
	require.Equal(t, "1", f.server.Do(t, "HGET", name, c.ID()+":42").Text())
	taken, err := thread.TryLockAsync(ctx, javaagent.Plain(name), 42)
	require.NoError(t, err)
	require.False(t, taken)
	held, err := thread.IsHeldByThread(ctx, javaagent.Plain(name), 42)
	require.NoError(t, err)
	require.False(t, held)
	require.NoError(t, hold.Unlock(ctx))

	require.NoError(t, thread.LockAsync(ctx, javaagent.Plain(name), 42))
	require.Equal(t, "1", f.server.Do(t, "HGET", name, j.ID()+":42").Text())
	_, err = lock.TryLock(ctx)
	require.ErrorIs(t, err, redlatch.ErrNotAcquired)
	seen, err := lock.Inspect(ctx)
	require.NoError(t, err)
	require.Len(t, seen.Holders, 1)
	require.Equal(t, j.ID(), seen.Holders[0].Owner.ClientID())
	require.EqualValues(t, 42, seen.Holders[0].Owner.ThreadID())
	require.NoError(t, thread.UnlockAsync(ctx, javaagent.Plain(name), 42))
}

// findsBySelf: Redisson's spin lock tells nobody of its release (wire-protocol.md §9).
func findsBySelf(t *testing.T, on *topology) {
	f := newFleet(t, on, 30*time.Second)
	f.cfg.FallbackPoll = 200 * time.Millisecond
	p := newPair(t, f, mixed(plain, spin))
	require.NoError(t, p.inJava.lock(bounded(t), 0))
	acquired := p.waitFor(t, p.inGo)
	require.NoError(t, p.inJava.unlock(bounded(t)))
	require.NoError(t, <-acquired)
	require.NoError(t, p.inGo.unlock(bounded(t)))
}
