package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/redistest/redisproc"
)

const (
	// settleTimeout bounds each wait for servers to agree. They need a few seconds; a machine under heavy load some more.
	settleTimeout = 60 * time.Second
	// lookEvery is how long a wait pauses before it asks the servers again.
	lookEvery = 20 * time.Millisecond
	// defaultPatience is after how much silence the servers of a topology think that one of them is down.
	defaultPatience = 2 * time.Second
)

// Node is one server of a topology.
type Node struct {
	*Server
	id        string       // of a cluster's node: its CLUSTER MYID
	shard     int          // of a cluster's node: it and its replicas have it in common, whoever is master
	announced string       // where clients are sent: the node's own address, or that of the proxy before it
	proxy     *Proxy       // nil without WithProxies
	tune      func() error // what each start has to set anew; nil for nothing
}

// Announced is the address that the node has in the answers of the others: its own, or with WithProxies the proxy's. Addr
// and Do, by contrast, go to the node itself.
func (n *Node) Announced() string { return n.announced }

// Freeze stops the process with SIGSTOP, as Server.Stop does: its connections stay open and nothing is answered.
func (n *Node) Freeze(t testing.TB) {
	t.Helper()
	n.Stop(t)
}

// Thaw lets a frozen process go on.
func (n *Node) Thaw(t testing.TB) {
	t.Helper()
	n.Cont(t)
}

// Restart is Server.Restart. The node comes back with the role that it had at its end and with no data, and learns from
// the others what has become of it; WaitOK waits for that. A master without data empties its replicas.
func (n *Node) Restart(t testing.TB) {
	t.Helper()
	n.Server.Restart(t)
	if n.tune == nil {
		return
	}
	if err := n.tune(); err != nil {
		t.Fatalf("redistest: set up the restarted server: %v", err)
	}
}

// Close ends the node, and the proxy before it. It is idempotent.
func (n *Node) Close() error {
	if n.proxy != nil {
		n.proxy.close()
	}
	return n.Server.Close()
}

// endWith closes the node with the test.
func (n *Node) endWith(t testing.TB) {
	t.Helper()
	n.Server.endWith(t)
	if n.proxy != nil {
		t.Cleanup(n.proxy.close)
	}
}

// living says whether the node can answer: it is neither killed nor frozen.
func (n *Node) living() bool { return n.PID() != 0 && !n.stopped.Load() }

// with runs f on a connection of its own.
func (n *Node) with(f func(c *Conn) error) error {
	c, err := n.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	return f(c)
}

// group is the servers of a topology.
type group []*Node

// launchGroup starts n servers at once, the i-th with options(i). On failure nothing is left behind.
func launchGroup(ctx context.Context, n int, options func(i int) Options) (group, error) {
	if provider := os.Getenv(EnvServers); provider == "container" {
		return nil, errContainer
	}
	nodes, errs := make(group, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			o := options(i)
			o.process.KeepConfig = true
			s, err := Launch(ctx, o)
			if err != nil {
				errs[i] = err
				return
			}
			nodes[i] = &Node{Server: s, announced: s.Addr()}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, nodes.close())
	}
	return nodes, nil
}

// close ends all servers, those that were never started excepted.
func (g group) close() error {
	var errs []error
	for _, n := range g {
		if n != nil {
			errs = append(errs, n.Close())
		}
	}
	return errors.Join(errs...)
}

func (g group) endWith(t testing.TB) {
	t.Helper()
	for _, n := range g {
		n.endWith(t)
	}
}

func (g group) living() group {
	var out group
	for _, n := range g {
		if n.living() {
			out = append(out, n)
		}
	}
	return out
}

// but is the group without one of its nodes.
func (g group) but(without *Node) group {
	var out group
	for _, n := range g {
		if n != without {
			out = append(out, n)
		}
	}
	return out
}

// announcing is the node that clients are sent to at the address; nil for none.
func (g group) announcing(addr string) *Node {
	for _, n := range g {
		if n.announced == addr {
			return n
		}
	}
	return nil
}

// urls are the announced addresses, as redis://host:port.
func (g group) urls() []string {
	var out []string
	for _, n := range g {
		out = append(out, "redis://"+n.announced)
	}
	return out
}

// dataNode is the options of a server that replicates or is replicated: quick to copy, quick to see that the other end is
// gone.
func dataNode(o Options, config ...redisproc.Directive) Options {
	lines := []redisproc.Directive{
		{Key: "repl-diskless-sync", Value: "yes"},
		{Key: "repl-diskless-sync-delay", Value: "0"},
		{Key: "repl-ping-replica-period", Value: "1"},
		{Key: "repl-timeout", Value: "5"},
	}
	if o.Password != "" {
		lines = append(lines, redisproc.Directive{Key: "masterauth", Value: strconv.Quote(o.Password)})
	}
	lines = append(lines, config...)
	o.Config = append(lines, o.Config...)
	o.Dir = "" // each has a folder of its own
	return o
}

// checkOptions refuses what no topology of this package can do.
func (o *Options) checkOptions() error {
	if o.TLS {
		return errors.New("redistest: a topology speaks plain TCP alone")
	}
	return nil
}

// await looks until there is nothing amiss; the last thing amiss is part of the error when ctx ends before.
func await(ctx context.Context, what string, look func() error) error {
	for {
		amiss := look()
		if amiss == nil {
			return nil
		}
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return fmt.Errorf("redistest: wait for %s: %w; at last: %w", what, ctx.Err(), amiss)
		}
	}
}

// settle is await for a test, which fails after a minute.
func settle(t testing.TB, what string, look func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	if err := await(ctx, what, look); err != nil {
		t.Fatal(err)
	}
}

// replicationInfo is INFO replication as pairs.
func replicationInfo(c *Conn) (map[string]string, error) {
	reply, err := c.Do("INFO", "replication")
	if err != nil {
		return nil, err
	}
	return parseInfo(reply.Text()), nil
}

// parseInfo reads lines of "name:value".
func parseInfo(text string) map[string]string {
	info := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info
}

// replicating says what is amiss between a master and its replicas, as seen from both ends: it has no other living
// replica, and each has copied everything and goes on.
func replicating(master *Node, replicas group) error {
	var online int
	err := master.with(func(c *Conn) error {
		info, err := replicationInfo(c)
		if err == nil && info["role"] != "master" {
			err = fmt.Errorf("%s is a %s, not a master", master.Addr(), info["role"])
		}
		for name, value := range info {
			if strings.HasPrefix(name, "slave") && strings.Contains(value, "state=online") {
				online++
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	if online < len(replicas) {
		return fmt.Errorf("%s has %d replicas of %d", master.Addr(), online, len(replicas))
	}
	for _, replica := range replicas {
		if err := replica.with(func(c *Conn) error { return follows(c, replica, master) }); err != nil {
			return err
		}
	}
	return nil
}

func follows(c *Conn, replica, master *Node) error {
	info, err := replicationInfo(c)
	if err != nil {
		return err
	}
	follows := info["master_host"] + ":" + info["master_port"]
	switch {
	case info["role"] != "slave":
		return fmt.Errorf("%s is no replica", replica.Addr())
	case follows != master.announced:
		return fmt.Errorf("%s is a replica of %s, not of %s", replica.Addr(), follows, master.announced)
	case info["master_link_status"] != "up" || info["master_sync_in_progress"] != "0":
		return fmt.Errorf("%s has no link to its master", replica.Addr())
	}
	return nil
}
