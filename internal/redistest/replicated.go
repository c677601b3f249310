package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
)

// Replicated is a master and its replicas, with nobody who would replace the master by himself.
type Replicated struct {
	nodes group

	mu     sync.Mutex // guards master
	master *Node
}

// StartReplicated runs a master with n replicas for the length of the test and returns when each has copied it. The
// options go to every server.
func StartReplicated(t testing.TB, n int, opts ...Option) *Replicated {
	t.Helper()
	var o Options
	for _, opt := range opts {
		opt(&o)
	}
	ctx, cancel := context.WithTimeout(context.Background(), launchTimeout)
	defer cancel()
	r, err := LaunchReplicated(ctx, n, o)
	if err != nil {
		t.Fatalf("redistest: start a master with %d replicas: %v", n, err)
	}
	r.nodes.endWith(t)
	return r
}

// LaunchReplicated is StartReplicated without a test. ctx bounds the start; the servers end with Close. On failure nothing
// is left behind.
func LaunchReplicated(ctx context.Context, n int, o Options) (*Replicated, error) {
	if err := o.checkOptions(); err != nil {
		return nil, err
	}
	nodes, err := launchGroup(ctx, n+1, func(int) Options { return dataNode(o) })
	if err != nil {
		return nil, err
	}
	r := &Replicated{nodes: nodes, master: nodes[0]}
	if err := r.form(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *Replicated) form(ctx context.Context) error {
	for _, n := range r.nodes[1:] {
		if err := n.follow(r.nodes[0]); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	return await(ctx, "the replicas to follow", r.amiss)
}

// follow makes the node a replica of master, for good: it is one after a Restart, too.
func (n *Node) follow(master *Node) error {
	host, port, err := net.SplitHostPort(master.announced)
	if err != nil {
		return fmt.Errorf("redistest: read the master's address: %w", err)
	}
	return n.keep("REPLICAOF", host, port)
}

// keep runs a command that changes the node's settings and has it write them down for its next start.
func (n *Node) keep(args ...string) error {
	return n.with(func(c *Conn) error {
		if _, err := c.Do(args...); err != nil {
			return err
		}
		_, err := c.Do("CONFIG", "REWRITE")
		return err
	})
}

// Close ends all servers and waits for their end. It is idempotent.
func (r *Replicated) Close() error { return r.nodes.close() }

// Nodes are all servers, the first master first.
func (r *Replicated) Nodes() []*Node { return r.nodes }

// Addresses are the URLs of all servers, redis://host:port.
func (r *Replicated) Addresses() []string { return r.nodes.urls() }

// Master is the server that Promote was last called for, at first the first one.
func (r *Replicated) Master() *Node {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.master
}

// Replicas are all servers but the master.
func (r *Replicated) Replicas() []*Node { return r.nodes.but(r.Master()) }

// Promote makes the replica the master and all other living servers its replicas, and returns when they have copied it.
// One that is down keeps its role: a dead master that is restarted is a second master, until Promote is called again.
func (r *Replicated) Promote(t testing.TB, replica *Node) {
	t.Helper()
	if err := replica.keep("REPLICAOF", "NO", "ONE"); err != nil {
		t.Fatalf("redistest: promote %s: %v", replica.Addr(), err)
	}
	r.mu.Lock()
	r.master = replica
	r.mu.Unlock()
	for _, n := range r.nodes.but(replica).living() {
		if err := n.follow(replica); err != nil {
			t.Fatalf("redistest: make %s a replica of %s: %v", n.Addr(), replica.Addr(), err)
		}
	}
	r.WaitOK(t)
}

// WaitOK returns when all living replicas follow the master. It fails the test after a minute.
func (r *Replicated) WaitOK(t testing.TB) {
	t.Helper()
	settle(t, "the replicas to follow", r.amiss)
}

func (r *Replicated) amiss() error {
	master := r.Master()
	return replicating(master, r.nodes.but(master).living())
}
