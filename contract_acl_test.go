package redlatch_test

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/fairlock"
	"github.com/redlatch/redlatch/fencedlock"
	"github.com/redlatch/redlatch/internal/locktest/probe"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/multilock"
	"github.com/redlatch/redlatch/rlock"
	"github.com/redlatch/redlatch/rwlock"
)

// aclRule is the rule that docs/operations.md recommends for a user, without the words that make it a command.
func aclRule(t *testing.T, user string) []string {
	t.Helper()
	text, err := os.ReadFile("docs/operations.md")
	require.NoError(t, err)
	rule := regexp.MustCompile(`(?m)^ACL SETUSER ` + user + ` (.*)$`).FindSubmatch(text)
	require.NotNil(t, rule, "docs/operations.md has no rule for %s", user)
	return strings.Fields(string(rule[1]))
}

// NM-04, NM-05: the rule that we recommend is enough for each kind of lock, its waiters, and each topology, and nothing warns.
func TestRecommendedACLIsEnough(t *testing.T) {
	t.Parallel()
	topologies := map[string]func(t *testing.T) (config.Servers, []*redistest.Node){
		"Single": func(t *testing.T) (config.Servers, []*redistest.Node) {
			t.Helper()
			r := redistest.StartReplicated(t, 0)
			return config.Single(r.Addresses()[0]), r.Nodes()
		},
		"Replicated": func(t *testing.T) (config.Servers, []*redistest.Node) {
			t.Helper()
			r := redistest.StartReplicated(t, 1)
			return config.Replicated(r.Addresses()...), r.Nodes()
		},
		"Cluster": func(t *testing.T) (config.Servers, []*redistest.Node) {
			t.Helper()
			c := redistest.StartCluster(t)
			return c.Servers(), c.Nodes()
		},
		"Sentinel": func(t *testing.T) (config.Servers, []*redistest.Node) {
			t.Helper()
			s := redistest.StartSentinel(t, redistest.WithReplicas(1))
			for _, n := range s.Sentinels() {
				n.Do(t, append([]string{"ACL", "SETUSER", "watcher"}, aclRule(t, "watcher")...)...)
			}
			return s.Servers(), s.Nodes()
		},
	}
	for name, start := range topologies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers, nodes := start(t)
			for _, n := range nodes {
				n.Do(t, append([]string{"ACL", "SETUSER", "locks"}, aclRule(t, "locks")...)...)
			}
			logs := &logBook{}
			cfg := config.Config{Servers: servers, Username: "locks", Password: "password", ClientName: "acl", LockWatchdogTimeout: lively()}
			if name == "Cluster" {
				cfg.PlainAndSharded = true
			}
			if name == "Sentinel" {
				cfg.SentinelUsername, cfg.SentinelPassword = "watcher", "password"
			}
			for _, kind := range everyKind() {
				takeAndPassOn(t, cfg, logs, kind)
			}
			require.Zero(t, logs.count("level=WARN"), "%s", logs.text.String())
		})
	}
}

type makeLock func(c *redlatch.Client, name string) redlatch.Locker

func everyKind() map[string]makeLock {
	return map[string]makeLock{
		"plain":   func(c *redlatch.Client, name string) redlatch.Locker { return rlock.New(c, name) },
		"fair":    func(c *redlatch.Client, name string) redlatch.Locker { return fairlock.New(c, name) },
		"fenced":  func(c *redlatch.Client, name string) redlatch.Locker { return fencedlock.New(c, name) },
		"read":    func(c *redlatch.Client, name string) redlatch.Locker { return rwlock.New(c, name).Read() },
		"write":   func(c *redlatch.Client, name string) redlatch.Locker { return rwlock.New(c, name).Write() },
		"grouped": func(c *redlatch.Client, name string) redlatch.Locker { return multilock.NewGroup(c, name, "a", "b") },
		"multi": func(c *redlatch.Client, name string) redlatch.Locker {
			return multilock.New(rlock.New(c, name), rlock.New(c, name+":2"))
		},
	}
}

// takeAndPassOn takes a lock, enters it again, has it renewed and waited for, and passes it on to another client.
func takeAndPassOn(t *testing.T, cfg config.Config, logs *logBook, kind makeLock) {
	t.Helper()
	r := &rig{T: t}
	seen := make(probe.Events, 1000)
	one, two := probe.Client(t, cfg, nil, logs.option(), redlatch.WithObserver(seen)), probe.Client(t, cfg, nil, logs.option())
	lock, theirs := kind(one, "app:order:1001"), kind(two, "app:order:1001")
	hold := r.take(context.Background(), lock)
	again, err := lock.TryLock(hold.Context())
	require.NoError(t, err, "%T", lock)
	require.NoError(t, again.Unlock(context.Background()))
	waiter := r.starts(context.Background(), theirs)
	seen.Await(r, redlatch.EventRenewed)
	require.NoError(t, hold.Extend(context.Background(), lively()))
	r.release(hold)
	r.release(waiter.Succeeds())
	if handle, queried := lock.(interface {
		ForceUnlock(ctx context.Context) (bool, error)
		Inspect(ctx context.Context) (redlatch.Inspection, error)
	}); queried {
		_, err = handle.Inspect(context.Background())
		require.NoError(t, err)
		_, err = handle.ForceUnlock(context.Background())
		require.NoError(t, err)
	}
	require.NoError(t, one.Close())
	require.NoError(t, two.Close())
}
