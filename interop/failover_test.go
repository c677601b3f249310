package interop

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/locktest/probe"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/interop/javaagent"
	"github.com/redlatch/redlatch/rlock"
)

// mortalWatchdog is longer than a failover takes.
const mortalWatchdog = 30 * time.Second

// mortal is a topology that replaces a master which dies.
type mortal struct {
	*testing.T
	redistest.Mortal
	yaml func(topLevel ...string) string // the redisson.yaml that leads there
}

func mortals() map[string]func(t *testing.T) *mortal {
	return map[string]func(t *testing.T) *mortal{
		"cluster": func(t *testing.T) *mortal {
			t.Helper()
			c := redistest.StartCluster(t)
			return &mortal{t, c, func(topLevel ...string) string { return javaagent.YAMLCluster(c.Addresses(), topLevel...) }}
		},
		"sentinel": func(t *testing.T) *mortal {
			t.Helper()
			s := redistest.StartSentinel(t)
			return &mortal{t, s, func(topLevel ...string) string {
				return javaagent.YAMLSentinel(s.MasterName(), s.Addresses(), topLevel...)
			}}
		},
	}
}

// goClient is a client whose waiters are woken by messages or not at all.
func (m *mortal) goClient() *redlatch.Client {
	m.Helper()
	return probe.Client(m.T, config.Config{Servers: m.Servers(), LockWatchdogTimeout: mortalWatchdog, FallbackPoll: time.Hour}, nil)
}

func (m *mortal) javaClient() *javaagent.Client {
	m.Helper()
	yaml := m.yaml(fmt.Sprintf("lockWatchdogTimeout: %d", mortalWatchdog.Milliseconds()))
	c, err := agent.Open(m.Context(), fmt.Sprintf("%s#%d", m.Name(), clients.Add(1)), yaml)
	require.NoError(m, err)
	m.Cleanup(func() { require.NoError(m, c.Close(context.Background())) })
	return c
}

// fails kills the master while somebody listens for the lock there, and returns when it has been replaced.
func (m *mortal) fails() (heir *redistest.Node) {
	m.Helper()
	dead := m.MasterOf(m, name)
	m.listened(dead)
	dead.Kill(m)
	return m.AwaitHeir(m, dead)
}

func (m *mortal) listened(on *redistest.Node) {
	m.Helper()
	channel := "redisson_lock__channel:{" + name + "}"
	probe.Until(m, func() bool { return on.Listeners(m, channel) > 0 }, "a subscription")
}

// The lock lasts for 30 s in Redis. A waiter in Go has it by the release alone, long before that. When Redisson listens at the new master is its
// own matter, and it can take a while; but it asks again when the time is over that it was told.
func TestInteropFailover(t *testing.T) {
	t.Parallel()
	for topology, start := range mortals() {
		t.Run(topology, func(t *testing.T) {
			t.Parallel()
			t.Run("java-to-go/a waiter gets the lock from a new master", func(t *testing.T) { t.Parallel(); goWaits(t, start(t)) })
			t.Run("go-to-java/a waiter gets the lock from a new master", func(t *testing.T) { t.Parallel(); javaWaits(t, start(t)) })
			t.Run("both/none meet and all go on when the master dies under load", func(t *testing.T) { t.Parallel(); allGoOn(t, start(t)) })
		})
	}
}

// failedInJava tells of a call that Redisson has given up: in a failover its connections can be refused for longer than it tries, or be shut down
// while a call is about to use them.
func failedInJava(err error) bool {
	code := javaagent.CodeOf(err)
	return code == javaagent.CodeTimeout || code == javaagent.CodeRedis
}

// insists makes a call in Java until it does not fail so, as an application does.
func insists(ctx context.Context, call func() error) (err error) {
	for tries := 0; ; tries++ {
		err = call()
		switch {
		case tries > 0 && javaagent.CodeOf(err) == javaagent.CodeIllegalMonitorState:
			return nil // a release that was given up had taken effect
		case !failedInJava(err), ctx.Err() != nil:
			return err
		}
	}
}

func goWaits(t *testing.T, m *mortal) {
	const patience = 15 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	lock, goes, java := javaagent.Plain(name), m.goClient(), m.javaClient().Thread(t.Name())
	require.NoError(t, java.Lock(ctx, lock))
	var hold *redlatch.Hold
	got := make(chan error, 1)
	go func() {
		var err error
		hold, err = rlock.New(goes, name).Lock(ctx)
		got <- err
	}()
	m.listened(m.fails())
	require.NoError(t, insists(ctx, func() error { return java.Unlock(ctx, lock) }))
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
	lock, java := javaagent.Plain(name), m.javaClient().Thread(t.Name())
	hold, err := rlock.New(m.goClient(), name).Lock(ctx)
	require.NoError(t, err)
	waiter := java.Go(javaagent.NewOp(javaagent.OpLock, lock))
	m.fails()
	require.NoError(t, hold.Err())
	require.NoError(t, hold.Unlock(ctx))
	bounded, end := context.WithTimeout(ctx, patience)
	defer end()
	_, err = waiter.Wait(bounded)
	if failedInJava(err) {
		err = insists(bounded, func() error { return java.Lock(bounded, lock) })
	}
	require.NoError(t, err)
	require.NoError(t, java.Unlock(ctx, lock))
}
