package redlatch_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/fairlock"
	"github.com/redlatch/redlatch/internal/redistest"
)

// behind is a master that dies, and its replica and heir, which has not got the last that the master did.
type behind struct {
	*pair
	master, heir *redistest.Node
}

func newBehind(t *testing.T) *behind {
	t.Helper()
	p := newPair(t, 1)
	return &behind{p, p.servers.Master(), p.servers.Replicas()[0]}
}

// copiesNoMore cuts the replica off, for whom nothing changes any more.
func (b *behind) copiesNoMore() {
	b.Helper()
	b.heir.Do(b, "REPLICAOF", "127.0.0.1", "1")
}

func (b *behind) inherits() {
	b.Helper()
	b.master.Kill(b)
	b.heir.Do(b, "REPLICAOF", "NO", "ONE")
	b.server = b.heir.Server
}

// A lock that was released lasts for its TTL at an heir which has not got the release, unless it is released there as well: that would be half a
// minute for who waits.
func TestReleaseThatTheHeirHasNotGotIsMadeAgain(t *testing.T) {
	t.Parallel()
	for i, kind := range everyKind() {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			b := newBehind(t)
			hold := b.take(t.Context(), kind(b.client, lockName))
			b.copiesNoMore()
			b.release(hold)
			require.NotEmpty(t, b.heir.Snapshot(t).Keys(), "the heir has got the release")
			b.inherits()
			b.until(func() bool { return b.heir.Do(t, "EXISTS", lockName, lockName+":2").Int() == 0 }, "the lock lasts")
		})
	}
}

// Who has left a queue would count as alive there for minutes, at an heir that has not got that, and let nobody pass.
func TestLeaverOfAQueueWhomTheHeirStillHasLeavesItThere(t *testing.T) {
	t.Parallel()
	b := newBehind(t)
	holder := b.take(t.Context(), fairlock.New(b.other, lockName))
	ctx, giveUp := context.WithCancel(t.Context())
	waiter := b.starts(ctx, fairlock.New(b.client, lockName))
	queued := func() bool { return b.heir.Do(t, "LLEN", "redisson_lock_queue:{"+lockName+"}").Int() == 1 }
	b.until(queued, "the waiter at the heir")
	b.copiesNoMore()
	giveUp()
	require.ErrorIs(t, b.ends(waiter), context.Canceled)
	require.True(t, queued())
	b.inherits()
	b.until(func() bool { return !queued() }, "the leaving at the heir")
	b.release(holder)
	b.nothingLeft()
}
