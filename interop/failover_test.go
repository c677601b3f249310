package interop

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/interop/javaagent"
	"github.com/redlatch/redlatch/rlock"
)

// mortal is a topology that replaces a master which dies, with a client of each language.
type mortal struct {
	*testing.T
	goes     *redlatch.Client
	java     *javaagent.Thread
	master   func() *redistest.Node
	replaced func(dead *redistest.Node) *redistest.Node
	numsub   string
}

func mortals() map[string]func(t *testing.T) *mortal {
	return map[string]func(t *testing.T) *mortal{
		"cluster": func(t *testing.T) *mortal {
			t.Helper()
			c := redistest.StartCluster(t)
			return newMortal(t, config.Cluster(c.Addresses()...), javaagent.YAMLCluster(c.Addresses()), mortal{
				master:   func() *redistest.Node { return c.MasterOf(t, name) },
				replaced: func(dead *redistest.Node) *redistest.Node { return c.AwaitFailover(t, dead) },
				numsub:   "SHARDNUMSUB",
			})
		},
		"sentinel": func(t *testing.T) *mortal {
			t.Helper()
			s := redistest.StartSentinel(t)
			yaml := javaagent.YAMLSentinel(s.MasterName(), s.Addresses())
			return newMortal(t, config.Sentinel(s.MasterName(), s.Addresses()...), yaml, mortal{
				master:   func() *redistest.Node { return s.Master(t) },
				replaced: func(dead *redistest.Node) *redistest.Node { return s.AwaitMaster(t, dead) },
				numsub:   "NUMSUB",
			})
		},
	}
}

func newMortal(t *testing.T, servers config.Servers, yaml string, m mortal) *mortal {
	t.Helper()
	m.T = t
	var err error
	m.goes, err = redlatch.Open(t.Context(), config.Config{Servers: servers, FallbackPoll: time.Hour})
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.goes.Close() })
	client, err := agent.Open(t.Context(), fmt.Sprintf("%s#%d", t.Name(), clients.Add(1)), yaml)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close(context.Background())) })
	m.java = client.Thread("one")
	return &m
}

// fails kills the master while somebody listens for the lock there, and returns when it has been replaced.
func (m *mortal) fails() (heir *redistest.Node) {
	m.Helper()
	dead := m.master()
	m.listened(dead)
	dead.Kill(m)
	return m.replaced(dead)
}

func (m *mortal) listened(on *redistest.Node) {
	m.Helper()
	channel := "redisson_lock__channel:{" + name + "}"
	require.Eventually(m, func() bool { return on.Do(m, "PUBSUB", m.numsub, channel).List()[1].Int() > 0 }, 20*time.Second, 5*time.Millisecond)
}

// The lock lasts for 30 s in Redis. A waiter in Go has it by the release alone, long before that. When Redisson listens at the new master is its
// own matter, and it can take a while; but it asks again when the time is over that it was told.
func TestInteropFailover(t *testing.T) {
	for topology, start := range mortals() {
		t.Run(topology, func(t *testing.T) {
			t.Run("java-to-go/a waiter gets the lock from a new master", func(t *testing.T) { goWaits(t, start(t)) })
			t.Run("go-to-java/a waiter gets the lock from a new master", func(t *testing.T) { javaWaits(t, start(t)) })
		})
	}
}

func goWaits(t *testing.T, m *mortal) {
	const patience = 15 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	lock := javaagent.Plain(name)
	require.NoError(t, m.java.Lock(ctx, lock))
	var hold *redlatch.Hold
	got := make(chan error, 1)
	go func() {
		var err error
		hold, err = rlock.New(m.goes, name).Lock(ctx)
		got <- err
	}()
	m.listened(m.fails())
	require.NoError(t, m.java.Unlock(ctx, lock))
	select {
	case err := <-got:
		require.NoError(t, err)
	case <-time.After(patience):
		require.FailNow(t, "the release has woken nobody")
	}
	require.NoError(t, hold.Unlock(ctx))
}

func javaWaits(t *testing.T, m *mortal) {
	const patience = 45 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	lock := javaagent.Plain(name)
	hold, err := rlock.New(m.goes, name).Lock(ctx)
	require.NoError(t, err)
	waiter := m.java.Go(javaagent.NewOp(javaagent.OpLock, lock))
	m.fails()
	require.NoError(t, hold.Err())
	require.NoError(t, hold.Unlock(ctx))
	bounded, end := context.WithTimeout(ctx, patience)
	defer end()
	_, err = waiter.Wait(bounded)
	if err != nil && strings.Contains(err.Error(), "RedisClient is shutdown") {
		err = m.java.Lock(bounded, lock) // Redisson had its client of the dead master shut down while the call was about to use it
	}
	require.NoError(t, err)
	require.NoError(t, m.java.Unlock(ctx, lock))
}
