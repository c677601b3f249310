package interop

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/interop/javaagent"
)

// TestInteropYAML has one redisson.yaml read by both languages, for each way to name servers. Topics are named as in TestInterop.
// WK-14: whatever the file says, both announce a release in the same way and listen for it in that way: the lock lasts for longer than a waiter
// is waited for.
func TestInteropYAML(t *testing.T) {
	const topic = "redisson.yaml"
	type start func(t *testing.T) *site
	for topology, start := range map[string]start{
		alone.name: alone.lend, cluster.name: cluster.lend, sentinels.name: sentinels.lend, "master-slave": masterAndSlave, "replicated": replicated,
	} {
		below(t, topology, func(t *testing.T) {
			t.Run("both", func(t *testing.T) {
				alone.run(t, topic, func(t *testing.T) { sharesByYAML(t, start(t), plain.told) })
				switch topology {
				case alone.name:
					alone.run(t, topic+": database and fair queue", databaseByYAML)
				case cluster.name:
					alone.run(t, topic+": without sharded messages", func(t *testing.T) {
						sharesByYAML(t, start(t), "not sharded: "+plain.told, "shardedSubscriptionMode: OFF")
					})
				}
			})
		})
	}
}

// What the files say beside the servers: milliseconds.
const (
	watchdogMillis = 36000
	queueMillis    = 40000
)

var (
	watched = "lockWatchdogTimeout: " + strconv.Itoa(watchdogMillis)
	waiting = "fairLockWaitTimeout: " + strconv.Itoa(queueMillis)
)

func masterAndSlave(t *testing.T) *site {
	t.Helper()
	r := redistest.StartReplicated(t, 1)
	s := siteOf(r.Master().Server)
	s.replicates = true
	s.yaml = func(topLevel ...string) string {
		return javaagent.YAMLMasterSlave(r.Addresses()[0], r.Addresses()[1:], topLevel...)
	}
	return s
}

func replicated(t *testing.T) *site {
	t.Helper()
	r := redistest.StartReplicated(t, 1)
	s := siteOf(r.Master().Server)
	s.replicates = true
	s.yaml = func(topLevel ...string) string { return javaagent.YAMLReplicated(r.Addresses(), topLevel...) }
	return s
}

// openBoth has each language read the same file.
func openBoth(t *testing.T, yaml string) (*redlatch.Client, *javaagent.Client) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "redisson.yaml")
	require.NoError(t, os.WriteFile(file, []byte(yaml), 0o600))
	cfg, warnings, err := config.LoadRedissonYAML(file)
	require.NoError(t, err)
	require.Empty(t, warnings)
	require.Equal(t, watchdogMillis*time.Millisecond, cfg.LockWatchdogTimeout)
	cfg.FallbackPoll = time.Hour // who is woken has had a message
	c, err := redlatch.Open(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })

	text, err := os.ReadFile(file)
	require.NoError(t, err)
	j, err := agent.Open(t.Context(), t.Name(), string(text))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, j.Close(context.Background())) })
	return c, j
}

// sharesByYAML: both are on the same servers, with the same lease, and announce a release in the same way, as told. The servers' section has
// further settings.
func sharesByYAML(t *testing.T, s *site, told string, settings ...string) {
	yaml := s.yaml(watched, waiting)
	for _, setting := range settings {
		yaml = strings.Replace(yaml, "Config:\n", "Config:\n  "+setting+"\n", 1)
	}
	c, j := openBoth(t, yaml)
	f := &fleet{site: s, server: s.masterOf(name)}
	inGo, inJava := newGoParty(c, plain, name), newJavaParty(t, j, "t1", plain, name)
	heard := f.listen(t, name, channelsOf(name)...)
	for _, p := range []pair{
		{fleet: f, first: inGo, second: inJava},
		{fleet: f, first: inJava, second: inGo},
	} {
		waits := f.server.CommandStats(t)["wait"]
		require.NoError(t, p.first.lock(bounded(t), 0))
		require.Equal(t, s.replicates, f.server.CommandStats(t)["wait"] > waits, "whether the replicas were waited for")
		require.Equal(t, "1", f.server.Do(t, "HGET", name, p.first.field()).Text())
		ttl := f.server.Do(t, "PTTL", name).Int()
		require.LessOrEqual(t, ttl, int64(watchdogMillis))
		require.Greater(t, ttl, int64(watchdogMillis*2/3-2000), "renewed at a third")
		seen, err := p.second.remainingTTL(bounded(t))
		require.NoError(t, err)
		require.LessOrEqual(t, seen, watchdogMillis*time.Millisecond)
		require.Positive(t, seen)
		require.False(t, try(t, p.second, 0, 0), "two holders")

		acquired := p.waitFor(t, p.second)
		heard.Reset(t)
		require.NoError(t, p.first.unlock(bounded(t)))
		require.NoError(t, <-acquired, "the waiter slept through the message")
		require.Equal(t, told, words(heard.Messages(t)))
		require.NoError(t, p.second.unlock(bounded(t)))
	}
	require.Empty(t, leftOvers(t, f))
}

// databaseByYAML: both use the database of the file, and give waiters in a fair queue the file's time.
func databaseByYAML(t *testing.T) {
	server := redistest.Start(t)
	yaml := "singleServerConfig:\n  address: redis://" + server.Addr() + "\n  database: 3\n" + watched + "\n" + waiting + "\n"
	c, j := openBoth(t, yaml)
	conn := server.Dial(t)
	_, err := conn.Do("SELECT", "3")
	require.NoError(t, err)
	inGo, inJava := newGoParty(c, fair, name), newJavaParty(t, j, "t1", fair, name)
	f := &fleet{site: siteOf(server), server: server}
	for _, p := range []pair{
		{fleet: f, first: inGo, second: inJava},
		{fleet: f, first: inJava, second: inGo},
	} {
		require.NoError(t, p.first.lock(bounded(t), 0))
		count, err := conn.Do("HGET", name, p.first.field())
		require.NoError(t, err)
		require.Equal(t, "1", count.Text())
		acquired := p.waitFor(t, p.second)
		score, err := conn.Do("ZSCORE", "redisson_lock_timeout:{"+name+"}", p.second.field())
		require.NoError(t, err)
		dies, err := strconv.ParseFloat(score.Text(), 64)
		require.NoError(t, err)
		// It has the lease of the holder before it and then its own time.
		left := time.Until(time.UnixMilli(int64(dies)))
		require.LessOrEqual(t, left, (watchdogMillis+queueMillis)*time.Millisecond)
		require.Greater(t, left, queueMillis*time.Millisecond)
		require.NoError(t, p.first.unlock(bounded(t)))
		require.NoError(t, <-acquired)
		require.NoError(t, p.second.unlock(bounded(t)))
	}
	require.Empty(t, server.Do(t, "KEYS", "*").Texts(), "something went to another database")
}
