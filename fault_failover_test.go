package redlatch_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/locktest/probe"
	"github.com/redlatch/redlatch/internal/redistest"
)

// failing start the topologies that replace a dead master by themselves.
var failing = map[string]func(t testing.TB) redistest.Mortal{
	"Cluster": func(t testing.TB) redistest.Mortal { t.Helper(); return redistest.StartCluster(t) },
	"Sentinel": func(t testing.TB) redistest.Mortal {
		t.Helper()
		return redistest.StartSentinel(t, redistest.WithReplicas(1))
	},
}

// failover is one of these with two clients.
type failover struct {
	*rig
	redistest.Mortal
	seen probe.Events // of the first client
}

// eachFailing runs a test on each topology that replaces a dead master.
func eachFailing(t *testing.T, test func(f *failover), changes ...func(*config.Config)) {
	t.Helper()
	for name, start := range failing {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &failover{rig: &rig{T: t}, Mortal: start(t), seen: make(probe.Events, 100_000)}
			f.client, f.other = f.open(f.seen, changes...), f.open(nil, changes...)
			test(f)
		})
	}
}

func (f *failover) open(o redlatch.Observer, changes ...func(*config.Config)) *redlatch.Client {
	f.Helper()
	return probe.Client(f, config.Config{Servers: f.Servers()}, changes, redlatch.WithObserver(o))
}

// listened waits until somebody listens for the lock on a server.
func (f *failover) listened(on *redistest.Node) {
	f.Helper()
	f.until(func() bool { return on.Listeners(f, lockChannel) > 0 }, "the subscription of a waiter")
}

// nothingOn waits until a server has no lock.
func (f *failover) nothingOn(n *redistest.Node) {
	f.Helper()
	f.server = n.Server
	f.nothingLeft()
}

// WK-13: an acknowledged lock survives the death of its master, its waiter listens at the new one, and gets it by the release.
func TestLockSurvivesItsMaster(t *testing.T) {
	t.Parallel()
	eachFailing(t, func(f *failover) {
		hold := f.take(f.Context(), f.lock())
		waiter := f.starts(f.Context(), f.theirs())
		dead := f.MasterOf(f, lockName)
		f.listened(dead)
		dead.Kill(f)
		heir := f.AwaitHeir(f, dead)
		f.listened(heir)
		require.NoError(f, hold.Err())
		f.release(hold)
		f.release(waiter.Succeeds())
		f.nothingOn(heir)
	}, probe.Deaf)
}

// HA-16: a lock that was free when its master died can be had by everybody, and not only by who had it last, as soon as there is a new master.
func TestFreeLockCanBeHadAsSoonAsThereIsAMaster(t *testing.T) {
	t.Parallel()
	eachFailing(t, func(f *failover) {
		f.release(f.take(f.Context(), f.lock()))
		dead := f.MasterOf(f, lockName)
		dead.Kill(f)
		one, two := f.starts(f.Context(), f.lock()), f.starts(f.Context(), f.theirs())
		heir := f.AwaitHeir(f, dead)
		for range 2 {
			select {
			case <-one.Done:
				f.release(one.Succeeds())
				one = two
			case <-two.Done:
				f.release(two.Succeeds())
				two = one
			}
		}
		f.nothingOn(heir)
	})
}

// HA-14: a release while there is no master waits for the new one, no longer, and frees the lock there.
func TestReleaseDuringAFailoverFreesTheLock(t *testing.T) {
	t.Parallel()
	eachFailing(t, func(f *failover) {
		hold := f.take(f.Context(), f.lock())
		dead := f.MasterOf(f, lockName)
		dead.Kill(f)
		release := f.unlocks(hold)
		heir := f.AwaitHeir(f, dead)
		require.NoError(f, release.Ends())
		f.nothingOn(heir)
	}, func(c *config.Config) { c.RetryDelay = config.Delay{Min: time.Hour, Max: time.Hour} })
}

// HA-10: what a failover can lose: a lock that no replica was waited for. Another owner gets it; the first one is told by its next renewal, and
// its release frees nothing of the other's.
func TestLockThatIsLostInAFailoverIsToldToItsHolder(t *testing.T) {
	t.Parallel()
	eachFailing(t, func(f *failover) {
		hold := f.take(f.Context(), f.lock())
		dead := f.MasterOf(f, lockName)
		dead.Kill(f)
		heir := f.AwaitHeir(f, dead)
		heir.Do(f, "DEL", lockName) // should it have come to know of the lock
		second := f.take(context.Background(), f.theirs())
		f.isLost(hold, "the server has no such holder any more")
		require.ErrorIs(f, hold.Unlock(context.Background()), redlatch.ErrLost)
		require.NoError(f, second.Err())
		f.release(second)
	}, func(c *config.Config) {
		c.CheckLockSyncedSlaves = config.SyncedSlavesOff
		c.LockWatchdogTimeout = 24 * time.Second // longer than a failover takes, so that it is no trust that ends
	})
}

func TestLogInsOfSentinels(t *testing.T) {
	t.Parallel()
	const data, watch = "s3cret", "s3cret-watch"
	for name, c := range map[string]struct {
		sentinels string
		cfg       config.Config
		refusal   string
	}{
		"Own":     {watch, config.Config{Password: data, SentinelPassword: watch}, ""},
		"None":    {"", config.Config{Password: data}, ""},
		"Same":    {data, config.Config{Password: data}, ""}, // as Redisson, which tries that of the servers
		"Wrong":   {watch, config.Config{Password: data, SentinelPassword: "wrong"}, "SentinelPassword"},
		"Missing": {watch, config.Config{Password: data}, "SentinelPassword"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := []redistest.SentinelOption{redistest.WithReplicas(0), redistest.WithPassword(data)}
			if c.sentinels != "" {
				options = append(options, redistest.WithSentinelPassword(c.sentinels))
			}
			s := redistest.StartSentinel(t, options...)
			c.cfg.Servers = s.Servers()
			if c.refusal != "" {
				require.ErrorContains(t, refused(t, c.cfg), c.refusal)
				return
			}
			client, err := redlatch.Open(t.Context(), c.cfg)
			require.NoError(t, err)
			require.NoError(t, client.Close())
		})
	}
}
