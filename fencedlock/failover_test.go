package fencedlock_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/fencedlock"
	"github.com/redlatch/redlatch/fencedlock/gate"
	"github.com/redlatch/redlatch/internal/locktest/probe"
	"github.com/redlatch/redlatch/internal/redistest"
)

// FE-10: when the master dies, and a replica takes its place that had not got the last acquisition, the next owner gets the lock although the first
// one believes in it, and the same token, which a gate can't tell apart. That another replica had acknowledged it does not help; that all must, does.
func TestHeirThatWasBehindGrantsAgainWithTheSameToken(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		replicas int
		check    config.SyncedSlaves
	}{
		"NothingAcknowledged":        {1, config.SyncedSlavesOff},
		"NoReplicaWasThere":          {1, config.SyncedSlavesAny},
		"AnotherReplicaAcknowledged": {2, config.SyncedSlavesAny},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			servers, heir := withOneBehind(t, c.replicas)
			hold := probe.Take(t, fencedlock.New(openWith(t, servers, c.check), name))
			servers.Master().Kill(t)

			next := probe.Take(t, fencedlock.New(probe.Open(t, heir.URL()), name))
			require.NoError(t, hold.Err(), "the first holder has not been told yet")
			require.Equal(t, hold.Token(), next.Token())
			var resource gate.Memory
			require.NoError(t, resource.Admit(name, next.Token()))
			require.NoError(t, resource.Admit(name, hold.Token()), "the gate admits the late one")
		})
	}
	t.Run("AllMustAcknowledge", func(t *testing.T) {
		t.Parallel()
		servers, _ := withOneBehind(t, 2)
		_, err := fencedlock.New(openWith(t, servers, config.SyncedSlavesAtLeast(2)), name).TryLock(context.Background())
		require.ErrorIs(t, err, redlatch.ErrNotReplicated)
	})
}

// withOneBehind is a master with replicas, one of which copies no more and will be the heir.
func withOneBehind(t *testing.T, replicas int) (servers *redistest.Replicated, heir *redistest.Node) {
	t.Helper()
	servers = redistest.StartReplicated(t, replicas)
	heir = servers.Replicas()[0]
	heir.Do(t, "REPLICAOF", "NO", "ONE")
	linked := "connected_slaves:" + strconv.Itoa(replicas-1)
	probe.Until(t, func() bool {
		return strings.Contains(servers.Master().Do(t, "INFO", "replication").Text(), linked)
	}, "the master to notice")
	return servers, heir
}

func openWith(t *testing.T, servers *redistest.Replicated, check config.SyncedSlaves) *redlatch.Client {
	t.Helper()
	client, err := redlatch.Open(context.Background(), config.Config{
		Servers: config.MasterSlave(servers.Master().URL()), CheckLockSyncedSlaves: check, SlavesSyncTimeout: 2 * time.Second,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}
