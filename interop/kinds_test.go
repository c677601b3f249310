package interop

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/fencedlock"
	"github.com/redlatch/redlatch/interop/javaagent"
	"github.com/redlatch/redlatch/rwlock"
)

// shares: readers keep writers out until the last of them has left.
func shares(t *testing.T, p pair) {
	writer := newGoParty(p.goClient, write, p.name)
	javaWriter := newJavaParty(t, p.javaClient, "writer", write, p.name)
	require.NoError(t, p.first.lock(bounded(t), 0))
	require.NoError(t, p.second.lock(bounded(t), 0))
	require.False(t, try(t, writer, 0, 0))
	require.False(t, try(t, javaWriter, 0, 0))
	require.NoError(t, p.first.unlock(bounded(t)))
	require.False(t, try(t, writer, 0, 0))
	acquired := p.waitFor(t, writer)
	require.NoError(t, p.second.unlock(bounded(t)))
	require.NoError(t, <-acquired, "the writer slept through the message")
	require.False(t, try(t, p.first, 0, 0))
	require.False(t, try(t, p.second, 0, 0))
	require.NoError(t, writer.unlock(bounded(t)))
	require.Empty(t, leftOvers(t, p.fleet))
}

// tokensGrow: each acquisition, of either language, re-entries included, draws the next token (FE-01, FE-02).
func tokensGrow(t *testing.T, p pair) {
	lock, thread, name := fencedlock.New(p.goClient, p.name), p.inJava.thread, javaagent.Fenced(p.name)
	var last int64
	for range 5 {
		hold, err := lock.Lock(bounded(t))
		require.NoError(t, err)
		require.Equal(t, last+1, hold.Token())
		again, err := lock.Lock(hold.Context())
		require.NoError(t, err)
		require.Equal(t, last+2, again.Token())
		require.NoError(t, again.Unlock(bounded(t)))
		require.NoError(t, hold.Unlock(bounded(t)))

		token, err := thread.LockAndGetToken(bounded(t), name)
		require.NoError(t, err)
		require.Equal(t, last+3, token)
		seen, err := lock.Token(bounded(t))
		require.NoError(t, err)
		require.Equal(t, token, seen)
		require.NoError(t, thread.Unlock(bounded(t), name))
		last = token
	}
	require.EqualValues(t, -1, p.server.Do(t, "PTTL", "redisson_lock_token:{"+p.name+"}").Int(), "tokens could start again")
}

// inOrder: waiters of both languages stand in one queue (FL-01, FL-10).
func inOrder(t *testing.T, p pair) {
	require.NoError(t, p.first.lock(bounded(t), 0))
	const waiters = 6
	order := make(chan int, waiters)
	for i := range waiters {
		var who party
		if i%2 == 0 {
			who = newGoParty(p.goClient, fair, p.name)
		} else {
			who = newJavaParty(t, p.javaClient, "waiter "+strconv.Itoa(i), fair, p.name)
		}
		ctx := bounded(t)
		go func() {
			if who.lock(ctx, 0) == nil {
				order <- i
				_ = who.unlock(ctx)
			}
		}()
		require.Eventually(t, func() bool {
			queue := p.server.Do(t, "LRANGE", "redisson_lock_queue:{"+p.name+"}", "0", "-1").Texts()
			return len(queue) == i+1 && queue[i] == who.field()
		}, 15*time.Second, time.Millisecond)
	}
	require.NoError(t, p.first.unlock(bounded(t)))
	for want := range waiters {
		select {
		case got := <-order:
			require.Equal(t, want, got)
		case <-bounded(t).Done():
			t.Fatalf("waiter %d never came in", want)
		}
	}
	require.Eventually(t, func() bool { return len(leftOvers(t, p.fleet)) == 0 }, 15*time.Second, time.Millisecond)
}

// leavesQueue: who gives up does not stand in the way (FL-14).
func leavesQueue(t *testing.T, p pair) {
	third := newGoParty(p.goClient, fair, p.name)
	require.NoError(t, p.first.lock(bounded(t), 0))
	require.False(t, try(t, p.second, 200*time.Millisecond, 0))
	require.Eventually(t, func() bool { // Java leaves after it has answered
		return p.server.Do(t, "LLEN", "redisson_lock_queue:{"+p.name+"}").Int() == 0
	}, 15*time.Second, time.Millisecond)
	acquired := p.waitFor(t, third)
	require.NoError(t, p.first.unlock(bounded(t)))
	require.NoError(t, <-acquired)
	require.NoError(t, third.unlock(bounded(t)))
	require.Empty(t, leftOvers(t, p.fleet))
}

// downgrades: a writer that keeps a read hold lets readers in, and writers not (RW-01, RW-02).
func downgrades(t *testing.T, p pair) {
	goReader, javaReader := newGoParty(p.goClient, read, p.name), newJavaParty(t, p.javaClient, "t1", read, p.name)
	goReader.owner = p.inGo.owner
	writer, own, other := party(p.inGo), party(goReader), party(newJavaParty(t, p.javaClient, "t2", read, p.name))
	if p.first == party(p.inJava) {
		writer, own, other = p.inJava, javaReader, newGoParty(p.goClient, read, p.name)
	}
	require.NoError(t, writer.lock(bounded(t), 0))
	require.NoError(t, own.lock(bounded(t), 0))
	require.False(t, try(t, other, 0, 0))
	require.NoError(t, writer.unlock(bounded(t)))
	require.Equal(t, "read", p.server.Do(t, "HGET", p.name, "mode").Text())
	require.True(t, try(t, other, 0, 0))
	_, err := rwlock.New(p.goClient, p.name).Write().TryLock(bounded(t))
	require.ErrorIs(t, err, redlatch.ErrNotAcquired)
	require.NoError(t, own.unlock(bounded(t)))
	require.NoError(t, other.unlock(bounded(t)))
	require.Empty(t, leftOvers(t, p.fleet))
}
