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
func TestInteropYAML(t *testing.T) {
	topics := []struct {
		name    string
		start   func(t *testing.T) *site
		setting string // a further one of the servers' section
		told    string // how a release is announced
	}{
		{"redisson.yaml: single server", alone.lend, "", plain.told},
		{"redisson.yaml: cluster", cluster.lend, "", plain.told},
		{"redisson.yaml: cluster without sharded messages", cluster.lend, "shardedSubscriptionMode: OFF", "not sharded: " + plain.told},
		{"redisson.yaml: sentinel", sentinels.lend, "", plain.told},
		{"redisson.yaml: master and slaves", masterAndSlave, "", plain.told},
		{"redisson.yaml: replicated", replicated, "", plain.told},
	}
	t.Run("both", func(t *testing.T) {
		for _, topic := range topics {
			alone.run(t, topic.name, func(t *testing.T) {
				s := topic.start(t)
				yaml := strings.Replace(s.yaml(watched, waiting), "Config:\n", "Config:\n  "+topic.setting+"\n", 1)
				sharesByYAML(t, s, topic.told, yaml)
			})
		}
		alone.run(t, "redisson.yaml: database and fair queue", databaseByYAML)
	})
}

// What the files say beside the servers: milliseconds.
const (
	watchdogMillis = 8000
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

// sharesByYAML: both are on the same servers, with the same lease, and announce a release in the same way.
func sharesByYAML(t *testing.T, s *site, told, yaml string) {
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
