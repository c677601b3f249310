package javaagent_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/internal/redistest/redisproc"
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
	node := redistest.Start(t, redistest.WithConfig("cluster-enabled", "yes"), redistest.WithConfig("cluster-announce-ip", "127.0.0.1"))
	node.Do(t, "CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	require.Eventually(t, func() bool {
		return strings.HasPrefix(node.Do(t, "CLUSTER", "INFO").Text(), "cluster_state:ok")
	}, 10*time.Second, 20*time.Millisecond)
	lockAndUnlock(t, openAs(t, "cluster", javaagent.YAMLCluster([]string{node.Addr()})))
}

func TestSentinelYAMLConnects(t *testing.T) {
	master := redistest.Start(t)
	sentinel := startSentinel(t, master.Addr())
	lockAndUnlock(t, openAs(t, "sentinel", javaagent.YAMLSentinel("mymaster", []string{sentinel})))
}

// startSentinel runs a sentinel that watches the master as "mymaster", for the length of the test.
func startSentinel(t *testing.T, master string) string {
	t.Helper()
	binary, err := redisproc.Binary(bounded(t), redisproc.Default)
	require.NoError(t, err)
	port, err := redisproc.FreePort()
	require.NoError(t, err)
	host, masterPort, err := net.SplitHostPort(master)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	require.NoError(t, os.WriteFile(file, []byte("bind 127.0.0.1\nport "+strconv.Itoa(port)+
		"\nsentinel monitor mymaster "+host+" "+masterPort+" 1\n"), 0o600))

	cmd := exec.Command(binary, file, "--sentinel")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
	})
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	require.Eventually(t, func() bool {
		conn, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", addr)
		if err != nil {
			return false
		}
		return conn.Close() == nil
	}, 10*time.Second, 10*time.Millisecond)
	return addr
}

func TestYAMLTakesURLsAndFurtherSettings(t *testing.T) {
	client := openAs(t, "url", javaagent.YAMLSingle("redis://"+server.Addr(), "lockWatchdogTimeout: 9000"))
	ctx, lock := bounded(t), javaagent.Plain(key(t, "lock"))
	owner := thread(t, client, "owner")
	require.NoError(t, owner.Lock(ctx, lock))
	require.LessOrEqual(t, server.Do(t, "PTTL", lock.Name).Int(), int64(9_000))
	require.NoError(t, owner.Unlock(ctx, lock))
}
