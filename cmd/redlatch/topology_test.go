//go:build unix

package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
)

// site is servers as the tool is told of them.
type site struct {
	flags   []string
	master  func(t *testing.T) *redistest.Node // of the lock "job"
	masters func(t *testing.T) []*redistest.Node
}

// oneMaster is servers that have one master for all locks.
func oneMaster(flags []string, master func(t *testing.T) *redistest.Node) site {
	return site{flags, master, func(t *testing.T) []*redistest.Node { t.Helper(); return []*redistest.Node{master(t)} }}
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// yaml is a redisson.yaml with one section and short leases.
func yaml(t *testing.T, section string, lines ...string) string {
	t.Helper()
	return write(t, "redisson.yaml", section+":\n  "+strings.Join(lines, "\n  ")+"\nlockWatchdogTimeout: 6000\nthreads: 4\nloockWatchdogTimeout: 1\n")
}

func clusterSite(t *testing.T) site {
	t.Helper()
	cluster := redistest.StartCluster(t, redistest.WithReplicas(0))
	addresses := cluster.Addresses()
	return site{
		flags:   []string{"--cluster", "--redis", addresses[0] + "," + addresses[1], "--redis", addresses[2]},
		master:  func(t *testing.T) *redistest.Node { t.Helper(); return cluster.MasterOf(t, "job") },
		masters: func(*testing.T) []*redistest.Node { return cluster.Nodes() },
	}
}

// sentinelSite has passwords of two kinds: that of the sentinels stands in their addresses.
func sentinelSite(t *testing.T) site {
	t.Helper()
	sentinel := redistest.StartSentinel(t, redistest.WithReplicas(1), redistest.WithPassword("data"), redistest.WithSentinelPassword("watch"))
	var addresses []string
	for _, address := range sentinel.Addresses() {
		u, err := url.Parse(address)
		require.NoError(t, err)
		u.User = url.UserPassword("", "watch")
		addresses = append(addresses, u.String())
	}
	return oneMaster([]string{
		"--sentinel", sentinel.MasterName(), "--redis", strings.Join(addresses, ","), "--password-file", write(t, "password", "data\n"),
		"--database", "3",
	}, func(t *testing.T) *redistest.Node { t.Helper(); return sentinel.Master(t) })
}

func replicatedSite(t *testing.T) site {
	t.Helper()
	servers := redistest.StartReplicated(t, 1)
	nodes := fmt.Sprintf("nodeAddresses: [%q, %q]", servers.Replicas()[0].URL(), servers.Master().URL())
	return oneMaster([]string{"--config", yaml(t, "replicatedServersConfig", nodes)},
		func(*testing.T) *redistest.Node { return servers.Master() })
}

func masterSlaveSite(t *testing.T) site {
	t.Helper()
	servers := redistest.StartReplicated(t, 1)
	return oneMaster([]string{"--config", yaml(t, "masterSlaveServersConfig",
		fmt.Sprintf("masterAddress: %q", servers.Master().URL()), fmt.Sprintf("slaveAddresses: [%q]", servers.Replicas()[0].URL()))},
		func(*testing.T) *redistest.Node { return servers.Master() })
}

func TestToolReachesEveryTopology(t *testing.T) {
	for name, start := range map[string]func(*testing.T) site{
		"cluster": clusterSite, "sentinel": sentinelSite, "replicated": replicatedSite, "master and slave": masterSlaveSite,
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			c := launch(t, append(append([]string{"run"}, s.flags...), append([]string{"job"}, child("print")...)...)...)
			c.says("job")
			require.Contains(t, keys(t, s.master(t)), "job", "the lock is there while the command runs")
			require.NoError(t, c.in.Close())
			require.Equal(t, 0, c.ends(), "%s", c.errors)
			require.NotContains(t, keys(t, s.master(t)), "job")

			for _, kind := range []string{"read-write", "multi"} {
				code, stdout, stderr := here(t, append([]string{"demo", "--for", "1s", "--hold", "5ms", "--lease", "300ms", "--kind", kind}, s.flags...)...)
				require.Equal(t, 0, code, "%s%s", stderr, stdout)
				require.Contains(t, stdout, "overlaps 0")
			}
			for _, node := range s.masters(t) {
				for _, key := range keys(t, node) {
					require.NotContains(t, key, "redlatch-demo", "the demo has not cleaned up")
				}
			}
		})
	}
}

// keys are those of the database that the sites use: 3 where there is a choice.
func keys(t *testing.T, node *redistest.Node) []string {
	t.Helper()
	reply := node.Do(t, "INFO", "cluster").Text()
	if strings.Contains(reply, "cluster_enabled:0") {
		var all []string
		for _, database := range []string{"0", "3"} {
			all = append(all, node.Do(t, "EVAL", "redis.call('SELECT', ARGV[1]) return redis.call('KEYS', '*')", "0", database).Texts()...)
		}
		return all
	}
	return node.Do(t, "KEYS", "*").Texts()
}

func TestRedissonYAMLSaysTheLeaseAndWhatIsNotFollowed(t *testing.T) {
	server := redistest.Start(t)
	file := yaml(t, "singleServerConfig", fmt.Sprintf("address: %q", server.URL()))
	for _, want := range []struct {
		flags       []string
		above, most int64
	}{
		{nil, 0, 6000},
		{[]string{"--watchdog-timeout", "20s"}, 6000, 20000},
	} {
		c := launch(t, append(append([]string{"run", "--config", file}, want.flags...), append([]string{"job"}, child("print")...)...)...)
		c.says("job")
		ttl := server.Do(t, "PTTL", "job").Int()
		require.Greater(t, ttl, want.above)
		require.LessOrEqual(t, ttl, want.most)
		require.NoError(t, c.in.Close())
		require.Equal(t, 0, c.ends())
		require.Equal(t, "redlatch: "+file+": line 5: loockWatchdogTimeout: is unknown and passed over; did you mean lockWatchdogTimeout?\n", c.errors.String())
	}
}

func TestServersAreLocatedByFlagThenEnvironmentThenDefault(t *testing.T) {
	located := func(c connection, environment string) []string {
		f := runFlags{connection: c}
		f.locate(environment)
		return f.redis
	}
	require.Equal(t, []string{"h:1"}, located(connection{redis: []string{"h:1"}}, "e:1"))
	require.Nil(t, located(connection{file: "f"}, "e:1"), "the file says it all")
	require.Equal(t, []string{"e:1,e:2"}, located(connection{cluster: true}, "e:1,e:2"))
	require.Equal(t, []string{defaultRedis}, located(connection{cluster: true}, ""))
	require.Equal(t, []string{defaultSentinel}, located(connection{sentinel: "m"}, ""))
}
