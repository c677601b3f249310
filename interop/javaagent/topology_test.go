package javaagent_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/interop/javaagent"
)

func lockAndUnlock(t *testing.T, client *javaagent.Client) {
	t.Helper()
	ctx, lock := bounded(t), javaagent.Plain(key(t, "lock"))
	owner := thread(t, client, "owner")
	require.NoError(t, owner.Lock(ctx, lock))
	require.NoError(t, owner.Unlock(ctx, lock))
}

func TestClusterYAMLConnects(t *testing.T) {
	cluster := redistest.StartCluster(t)
	client := openAs(t, "cluster", javaagent.YAMLCluster(cluster.Addresses()))
	lockAndUnlock(t, client)
	cluster.FailOver(t, cluster.MasterOf(t, key(t, "lock")))
	lockAndUnlock(t, client)
}

func TestClusterYAMLConnectsThroughProxies(t *testing.T) {
	cluster := redistest.StartCluster(t, redistest.WithProxies(), redistest.WithMasters(1))
	cluster.Nodes()[0].SetLatency(20 * time.Millisecond)
	lockAndUnlock(t, openAs(t, "proxies", javaagent.YAMLCluster(cluster.Addresses()[:1])))
}

func TestSentinelYAMLConnects(t *testing.T) {
	sentinel := redistest.StartSentinel(t)
	client := openAs(t, "sentinel", javaagent.YAMLSentinel(sentinel.MasterName(), sentinel.Addresses()))
	lockAndUnlock(t, client)
	sentinel.FailOver(t)
	lockAndUnlock(t, client)
}

func TestYAMLTakesURLsAndFurtherSettings(t *testing.T) {
	client := openAs(t, "url", javaagent.YAMLSingle("redis://"+server.Addr(), "lockWatchdogTimeout: 9000"))
	ctx, lock := bounded(t), javaagent.Plain(key(t, "lock"))
	owner := thread(t, client, "owner")
	require.NoError(t, owner.Lock(ctx, lock))
	require.LessOrEqual(t, server.Do(t, "PTTL", lock.Name).Int(), int64(9_000))
	require.NoError(t, owner.Unlock(ctx, lock))
}
