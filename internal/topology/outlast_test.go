package topology

import (
	"context"
	"log/slog"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/lua"
)

// replicated is a topology of a master with replicas, and how many of the writes that it watches over were lost.
type replicated struct {
	*testing.T
	servers *redistest.Replicated
	top     *Topology
	lost    atomic.Int64
}

func openReplicated(t *testing.T, replicas int) *replicated {
	t.Helper()
	r := &replicated{T: t, servers: redistest.StartReplicated(t, replicas)}
	cfg, err := config.Config{Servers: config.Replicated(r.servers.Addresses()...)}.WithDefaults()
	require.NoError(t, err)
	r.top, err = Open(t.Context(), cfg, Options{Log: slog.New(slog.DiscardHandler), Changed: func(func(string) bool) {}})
	require.NoError(t, err)
	t.Cleanup(r.top.Close)
	return r
}

func (r *replicated) node() *Node { return r.top.MasterOf(0) }

// writes watches over a write that has just been answered.
func (r *replicated) writes(until time.Time) {
	r.Helper()
	r.servers.Master().Do(r, "INCR", "n")
	r.node().Outlast("mark", until, func() { r.lost.Add(1) })
}

// grants has an owner ask for a lock, which the first one gets. Its WAIT is answered when this returns.
func (r *replicated) grants(name, owner string, granted bool) {
	r.Helper()
	grant, err := Commit(context.Background(), r.top, lua.Acquire(name, "latch", owner, time.Minute, true))
	require.NoError(r, err)
	require.Equal(r, granted, grant.Acquired)
}

func (r *replicated) watched() int {
	c := r.node().commits
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.unsure)
}

func (r *replicated) eventually(so func() bool, complaint string) {
	r.Helper()
	require.Eventually(r, so, 20*time.Second, time.Millisecond, complaint)
}

func later() time.Time { return time.Now().Add(time.Hour) }

func TestWritesThatReplicasHaveSurviveTheMaster(t *testing.T) {
	t.Run("AskedByThemselves", func(t *testing.T) {
		r := openReplicated(t, 1)
		r.grants("order:1001", "first", true)
		for range 10 {
			r.writes(later())
		}
		r.eventually(func() bool { return r.watched() == 0 }, "nobody has asked the replicas")
		r.servers.Master().Kill(t)
		r.top.Close()
		require.Zero(t, r.lost.Load())
	})
	t.Run("WithAGrant", func(t *testing.T) {
		r := openReplicated(t, 1)
		r.grants("order:1001", "first", true)
		r.writes(later())
		r.grants("order:1002", "first", true)
		require.Zero(t, r.watched(), "its WAIT covers what was written before")
		r.servers.Master().Kill(t)
		r.top.Close()
		require.Zero(t, r.lost.Load())
	})
}

func TestWritesThatNoReplicaHasAreLostWithTheMaster(t *testing.T) {
	for what, end := range map[string]func(r *replicated){
		"Killed":   func(r *replicated) { r.servers.Master().Kill(r) },
		"Demoted":  func(r *replicated) { r.servers.Master().Do(r, "REPLICAOF", "127.0.0.1", "1") },
		"Given up": func(r *replicated) { r.top.Close() },
	} {
		t.Run(what, func(t *testing.T) {
			r := openReplicated(t, 1)
			r.grants("order:1001", "first", true)
			r.servers.Replicas()[0].Freeze(t)
			r.writes(later())
			r.writes(time.Now().Add(-time.Second)) // does not matter any more
			end(r)
			r.eventually(func() bool { return r.lost.Load() > 0 }, "nobody was told")
			r.top.Close()
			require.EqualValues(t, 1, r.lost.Load())
		})
	}
}

// They may come to be the heir's later, so they are asked about again and again.
func TestWritesAreWatchedUntilTheReplicaComesBack(t *testing.T) {
	r := openReplicated(t, 1)
	r.grants("order:1001", "first", true)
	replica := r.servers.Replicas()[0]
	replica.Freeze(t)
	r.writes(later())
	r.eventually(func() bool { return r.servers.Master().CommandStats(t)["wait"] > 2 }, "asked once only")
	require.Equal(t, 1, r.watched())
	replica.Thaw(t)
	r.eventually(func() bool { return r.watched() == 0 }, "the replica is back")
	r.top.Close()
	require.Zero(t, r.lost.Load())
}

// WAIT looks back to the last write of its connection, and who is refused has written nothing.
func TestRefusalTellsNothingOfEarlierWrites(t *testing.T) {
	r := openReplicated(t, 1)
	r.grants("order:1001", "first", true)
	r.servers.Replicas()[0].Freeze(t)
	r.writes(later())
	r.grants("order:1001", "second", false)
	require.Equal(t, 1, r.watched())
}

// One of several is enough, as for a grant. Grants do not stand behind the others.
func TestWritesThatOneOfSeveralReplicasHasAreWatchedNoMore(t *testing.T) {
	r := openReplicated(t, 2)
	r.grants("order:1001", "first", true)
	r.servers.Replicas()[0].Freeze(t)
	r.writes(later())
	r.eventually(func() bool { return r.watched() == 0 }, "the other replica has it")
	require.Zero(t, r.lost.Load())
}

// The old master lives on and nobody has told it, as in a partition: so nothing on its connection says that it counts no more.
func TestWritesAreLostWhenAnotherMasterIsNamed(t *testing.T) {
	r := openReplicated(t, 2)
	r.grants("order:1001", "first", true)
	old, heir, other := r.node(), r.servers.Replicas()[0], r.servers.Replicas()[1]
	heir.Do(t, "REPLICAOF", "NO", "ONE")
	host, port, err := net.SplitHostPort(heir.Addr())
	require.NoError(t, err)
	other.Do(t, "REPLICAOF", host, port)
	r.servers.Master().Do(t, "INCR", "n")
	old.Outlast("mark", later(), func() { r.lost.Add(1) })
	r.eventually(func() bool { r.top.Stir(); return r.node() != old }, "another master")
	r.eventually(func() bool { return r.lost.Load() == 1 }, "nobody was told")
}

// What was answered while a WAIT was on its way is not known to be copied when that breaks: the next connection can lead to another server.
func TestWritesAreLostWithTheConnectionThatWasToTellOfThem(t *testing.T) {
	master, replica := two(t)
	top, line, _ := committing(t, master, asIs)
	require.NoError(t, top.grant(t.Context(), "one"))
	replica.Stop(t)
	t.Cleanup(func() { replica.Cont(t) })
	n := top.Masters()[0]
	var lost atomic.Int64
	broken := make(chan struct{})
	wait := line.Next(redistest.Sends("WAIT"), redistest.HoldRequest(broken))
	n.Outlast("mark", later(), func() { lost.Add(1) })
	wait.AwaitRequest(t)
	n.Outlast("mark", later(), func() { lost.Add(1) })
	line.Down()
	close(broken)
	require.Eventually(t, func() bool { return lost.Load() == 2 }, 20*time.Second, time.Millisecond)
}

// Beyond a number nothing more is kept of them: they must not fill the memory when no replica answers for long.
func TestWritesThatAreWatchedAreBounded(t *testing.T) {
	t.Parallel()
	c := &committer{working: true}
	for range unsureAtMost + 1 {
		require.True(t, c.watch(unsure{}))
	}
	require.Len(t, c.unsure, unsureAtMost)
}

func TestWritesOfAMasterWithoutReplicasAreNotWatched(t *testing.T) {
	r := openReplicated(t, 0)
	r.grants("order:1001", "first", true)
	for i := range 3 {
		r.servers.Master().Do(t, "SET", strconv.Itoa(i), "")
		r.writes(later())
	}
	require.Zero(t, r.watched())
	r.top.Close()
	require.Zero(t, r.lost.Load())
}
