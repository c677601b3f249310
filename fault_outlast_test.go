package redlatch_test

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/fairlock"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/rlock"
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
	for name, kind := range everyKind() {
		t.Run(name, func(t *testing.T) {
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
	require.ErrorIs(t, waiter.Ends(), context.Canceled)
	require.True(t, queued())
	b.inherits()
	b.until(func() bool { return !queued() }, "the leaving at the heir")
	b.release(holder)
	b.nothingLeft()
}

// The master is replaced while it lives, and its replica is behind.
func TestReleaseThatTheHeirHasNotGotIsMadeAgainAfterATakeover(t *testing.T) {
	t.Parallel()
	f := newFleet(t, redistest.StartCluster(t))
	hold := f.take(t.Context(), f.lock())
	master := f.master()
	heir := f.cluster.ReplicasOf(t, master)[0]
	master.Do(t, "ACL", "SETUSER", "default", "-psync", "-sync", "-replconf")
	master.Do(t, "CLIENT", "KILL", "TYPE", "replica")
	f.release(hold)
	has := func() bool { return slices.Contains(heir.Do(t, "KEYS", "*").Texts(), lockName) }
	require.True(t, has(), "the heir has got the release")
	heir.Do(t, "CLUSTER", "FAILOVER", "TAKEOVER")
	f.until(func() bool { return !has() }, "the lock lasts")
}

// When the replicas can't be asked, since there is no further connection, that says nothing of the master: no release is taken to be in doubt.
func TestReleasesAreNotMadeAgainWhileTheReplicasCanNotBeAsked(t *testing.T) {
	t.Parallel()
	p := newPair(t, 1)
	require.NoError(t, p.other.Close())
	var holds []*redlatch.Hold
	for i := range 10 {
		holds = append(holds, p.take(t.Context(), rlock.New(p.client, lockName+strconv.Itoa(i))))
	}
	control := p.server.Dial(t)
	do := func(words ...string) redistest.Reply {
		t.Helper()
		reply, err := control.Do(words...)
		require.NoError(t, err)
		return reply
	}
	do("CONFIG", "SET", "maxclients", "3")
	holds = append(holds, p.take(t.Context(), p.lock())) // whose WAIT is the last that the connection did
	asks := regexp.MustCompile(`(?m)^id=(\d+) .* cmd=wait `).FindStringSubmatch(do("CLIENT", "LIST", "TYPE", "normal").Text())
	require.NotNil(t, asks)
	do("CLIENT", "KILL", "ID", asks[1])
	latches := func() []string { return do("KEYS", config.UnlockLatchPrefix+"*").Texts() }
	p.release(holds[0]) // the connection breaks with this one
	p.until(func() bool { return len(latches()) == 1 }, "it is not settled")
	for _, hold := range holds[1:] {
		p.release(hold)
	}
	refused := regexp.MustCompile(`rejected_connections:([3-9]|\d\d)`)
	p.until(func() bool { return refused.MatchString(do("INFO", "stats").Text()) }, "further connections are not tried")
	require.Len(t, latches(), 1)
}
