package topology

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/lua"
)

// bare is a topology without nodes and a follower, which ends with the test.
func bare(t *testing.T, cfg config.Config) *Topology {
	t.Helper()
	cfg, err := cfg.WithDefaults()
	require.NoError(t, err)
	top := &Topology{
		cfg: cfg, log: slog.New(slog.DiscardHandler), stirred: make(chan struct{}, 1),
		nodes: make(map[nodeKey]*Node),
	}
	top.life, top.end = context.WithCancel(context.Background())
	top.now.Store(&layout{})
	t.Cleanup(top.Close)
	return top
}

// adopt makes a node whose connections a function makes.
func (t *Topology) adopt(address string, dial func(context.Context) (rueidis.Client, error)) *Node {
	n := t.newNode(address, dataRole, dial)
	t.nodes[nodeKey{address, dataRole}] = n
	return n
}

// A question that is not waited for any longer, to a server that is slow to reach, must not end the connecting: it may be somebody
// else's request that waits for it.
func TestConnectingGoesOnWhenItsQuestionIsNotWaitedForAnyMore(t *testing.T) {
	quick, slow := redistest.Start(t), redistest.Start(t)
	top := bare(t, config.Config{Servers: config.Replicated(quick.URL(), slow.URL())})
	var dialled, anew atomic.Bool
	begun, open := make(chan struct{}), make(chan struct{})
	reach := sync.OnceFunc(func() { close(open) })
	t.Cleanup(reach)
	distant := top.adopt(slow.Addr(), func(context.Context) (rueidis.Client, error) {
		o := slow.ClientOption()
		o.InitAddress, o.ForceSingleClient, o.DisableRetry, o.PipelineMultiplex = []string{slow.Addr()}, true, true, -1
		o.DialCtxFn = func(ctx context.Context, address string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			if dialled.Swap(true) && !anew.Swap(true) { // a handshake that takes long
				close(begun)
				select {
				case <-open:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			return d.DialContext(ctx, "tcp", address)
		}
		return rueidis.NewClient(o)
	})
	top.now.Store(single(distant))
	_, err := Run(t.Context(), top, lua.Inspect("x"))
	require.NoError(t, err)

	slow.KillAllClients(t)
	asked := []*Node{top.node(quick.Addr(), dataRole), distant}
	for !anew.Load() { // until the client has noticed that its connection is gone
		ctx, cancel := context.WithCancel(t.Context())
		roles, err := gather(ctx, asked, nil, patient(top.roleOf), always)
		cancel() // as a refresh does when it has what it wants
		require.NoError(t, err)
		require.NotEmpty(t, roles)
	}
	<-begun
	answer := make(chan error, 1)
	go func() {
		_, err := Run(t.Context(), top, lua.Inspect("x"))
		answer <- err
	}()
	reach()
	require.NoError(t, <-answer)
}

// unclosable tells whether it was closed.
type unclosable struct {
	rueidis.Client
	closed bool
}

func (c *unclosable) Close() { c.closed = true }

func TestOnlyOwnConnectionsAreClosedWhenTheyComeTooLate(t *testing.T) {
	for _, borrowed := range []bool{true, false} {
		top := bare(t, config.Config{Servers: config.External()})
		client, started := &unclosable{}, make(chan struct{})
		n := top.adopt("a:1", func(life context.Context) (rueidis.Client, error) {
			close(started)
			<-life.Done() // the node is being closed
			return client, nil
		})
		n.keep = borrowed
		failed := make(chan error, 1)
		go func() {
			_, err := n.conn(t.Context())
			failed <- err
		}()
		<-started
		n.close()
		require.ErrorIs(t, <-failed, errRetired)
		require.Equal(t, !borrowed, client.closed)
	}
}

// A lock that is not even asked for yet when its caller gives up is not in doubt, and nobody gets it.
func TestQueuedCommitIsTakenBackWhenItsCallerGivesUp(t *testing.T) {
	server := redistest.Start(t)
	top := bare(t, config.Config{Servers: config.MasterSlave(server.URL())})
	started, open := make(chan struct{}), make(chan struct{})
	reach := sync.OnceFunc(func() { close(open) })
	t.Cleanup(reach)
	n := top.adopt(server.Addr(), func(context.Context) (rueidis.Client, error) {
		close(started)
		<-open
		return server.Client(t), nil
	})
	commit := func(ctx context.Context, name string) error {
		_, err := n.commits.commit(ctx, lua.Acquire(name, "latch:"+name, "owner", time.Minute, false), false)
		return err
	}
	first := make(chan error, 1)
	go func() { first <- commit(t.Context(), "first") }()
	<-started // the connection that it waits for is on its way
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var unsent *NotSentError
	err := commit(ended, "second")
	require.ErrorAs(t, err, &unsent)
	require.ErrorIs(t, err, context.Canceled)
	reach()
	require.NoError(t, <-first)
	n.commits.idle.Wait()
	require.Equal(t, []string{"first"}, server.Do(t, "KEYS", "*").Texts())
}

// A commit that is on its way may take effect, whatever becomes of its caller.
func TestCommitOnItsWayIsInDoubtWhenItsCallerGivesUp(t *testing.T) {
	server := redistest.Start(t)
	top := bare(t, config.Config{Servers: config.MasterSlave(server.URL())})
	n := top.adopt(server.Addr(), func(context.Context) (rueidis.Client, error) { return server.Client(t), nil })
	commit := func(ctx context.Context) error {
		_, err := n.commits.commit(ctx, lua.Acquire("a", "b", "c", time.Minute, false), false)
		return err
	}
	require.NoError(t, commit(t.Context())) // there is a connection, and the replicas are counted
	server.Stop(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- commit(ctx) }()
	require.Eventually(t, func() bool {
		n.commits.mu.Lock()
		defer n.commits.mu.Unlock()
		return n.commits.working && len(n.commits.queue) == 0
	}, 10*time.Second, time.Millisecond, "the commit to leave the queue")
	cancel()
	require.Equal(t, context.Canceled, <-ended)
	server.Cont(t)
	n.commits.idle.Wait()
}
