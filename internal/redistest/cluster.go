package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/redistest/redisproc"
)

const (
	// busOffset is how far the port of the cluster bus lies above that of clients. Servers before 7.0 know no other.
	busOffset = 10000
	// failoverTimeout is when a replica that was told to take over, and got no majority, has given up: after 5 s.
	failoverTimeout = 6 * time.Second
)

// Cluster is a Redis Cluster. It is safe for concurrent use.
//
// What asks for the topology (Masters, MasterOf, ReplicasOf) asks all living nodes and returns when they agree; it fails
// the test after a minute without.
type Cluster struct {
	nodes group
}

// StartCluster runs a cluster for the length of the test, by default of 3 masters with a replica each, and returns when
// all nodes agree that it is ready: every slot is served, every replica has copied its master. That takes the two seconds
// that a master of a new cluster waits by itself.
func StartCluster(t testing.TB, opts ...ClusterOption) *Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), launchTimeout)
	defer cancel()
	c, err := LaunchCluster(ctx, opts...)
	if err != nil {
		t.Fatalf("redistest: start a cluster: %v", err)
	}
	c.nodes.endWith(t)
	return c
}

// LaunchCluster is StartCluster without a test. ctx bounds the start; the nodes end with Close. On failure nothing is left
// behind.
func LaunchCluster(ctx context.Context, opts ...ClusterOption) (*Cluster, error) {
	o, err := newClusterOptions(opts)
	if err != nil {
		return nil, err
	}
	nodes, err := launchGroup(ctx, o.masters*(1+o.replicas), func(int) Options { return o.node() })
	if err != nil {
		return nil, err
	}
	for i, n := range nodes {
		n.shard = i % o.masters
	}
	c := &Cluster{nodes: nodes}
	if err := c.form(ctx, o); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// node is the options of each node. Replicas stay with their masters, and each may replace its own however old its data.
func (o *clusterOptions) node() Options {
	return dataNode(
		o.Options,
		redisproc.Directive{Key: "cluster-enabled", Value: "yes"},
		redisproc.Directive{Key: "cluster-announce-ip", Value: "127.0.0.1"},
		redisproc.Directive{Key: "cluster-node-timeout", Value: strconv.FormatInt(o.nodeTimeout.Milliseconds(), 10)},
		redisproc.Directive{Key: "cluster-migration-barrier", Value: "999"},
		redisproc.Directive{Key: "cluster-replica-validity-factor", Value: "0"},
	)
}

// form makes a cluster of the nodes, the first of which become masters.
func (c *Cluster) form(ctx context.Context, o *clusterOptions) error {
	for i, n := range c.nodes {
		if o.proxies {
			if err := n.putProxy(ctx); err != nil {
				return err
			}
		}
		id, err := n.TryDo("CLUSTER", "MYID")
		if err != nil {
			return err
		}
		n.id = id.Text()
		// By themselves the nodes would have to settle first whose claims are the newer.
		if _, err := n.TryDo("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
			return err
		}
	}
	for i, n := range c.nodes[:o.masters] {
		if _, err := n.TryDo(addSlots(i, o.masters)...); err != nil {
			return err
		}
	}
	if err := c.introduce(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	for _, n := range c.nodes[o.masters:] {
		// Refused until the nodes have shaken hands.
		err := await(ctx, "a replica to know its master", func() error {
			_, err := n.TryDo("CLUSTER", "REPLICATE", c.nodes[n.shard].id)
			return err
		})
		if err != nil {
			return err
		}
	}
	return await(ctx, "the cluster to be ready", c.amiss)
}

// addSlots is the command that gives the i-th of so many masters its share.
func addSlots(i, masters int) []string {
	cmd := []string{"CLUSTER", "ADDSLOTS"}
	for slot := i * config.Slots / masters; slot < (i+1)*config.Slots/masters; slot++ {
		cmd = append(cmd, strconv.Itoa(slot))
	}
	return cmd
}

// introduce makes each pair of nodes meet, which is quicker than to let them hear of each other.
func (c *Cluster) introduce() error {
	for i, n := range c.nodes {
		for _, other := range c.nodes[:i] {
			if err := n.meet(other); err != nil {
				return err
			}
		}
	}
	return nil
}

func (n *Node) meet(other *Node) error {
	host, port, err := net.SplitHostPort(other.announced)
	if err != nil {
		return fmt.Errorf("redistest: read the address of a node: %w", err)
	}
	bus, err := other.busPort()
	if err != nil {
		return err
	}
	_, err = n.TryDo("CLUSTER", "MEET", host, port, bus)
	return err
}

// busPort is the port on which the node talks to the others.
func (n *Node) busPort() (string, error) {
	_, text, err := net.SplitHostPort(n.Addr())
	if err != nil {
		return "", fmt.Errorf("redistest: read the address of a node: %w", err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return "", fmt.Errorf("redistest: read the port of a node: %w", err)
	}
	return strconv.Itoa(port + busOffset), nil
}

// Close ends all nodes and waits for their end. It is idempotent.
func (c *Cluster) Close() error { return c.nodes.close() }

// Nodes are all nodes: the first masters in the order of their slots, then the first replicas.
func (c *Cluster) Nodes() []*Node { return c.nodes }

// Addresses are the URLs of all nodes for clients, redis://host:port.
func (c *Cluster) Addresses() []string { return c.nodes.urls() }

// Servers is how a client is told of the cluster.
func (c *Cluster) Servers() config.Servers { return config.Cluster(c.Addresses()...) }

// Slot is the slot of the key.
func (c *Cluster) Slot(key string) uint16 { return config.Slot(key) }

// WaitOK returns when all living nodes agree that the cluster serves every slot, know each other as living, and every
// living replica follows its master. It fails the test after a minute.
func (c *Cluster) WaitOK(t testing.TB) {
	t.Helper()
	settle(t, "the cluster to be ready", c.amiss)
}

// Masters are the nodes that are masters, without those that the others have given up, in the order of Nodes.
func (c *Cluster) Masters(t testing.TB) []*Node {
	t.Helper()
	v := c.look(t)
	return v.of("")
}

// MasterOf is the node that owns the key's slot, whether or not it lives.
func (c *Cluster) MasterOf(t testing.TB, key string) *Node {
	t.Helper()
	return c.owner(t, c.Slot(key))
}

// ReplicasOf are the replicas of the master, without those that the others have given up.
func (c *Cluster) ReplicasOf(t testing.TB, master *Node) []*Node {
	t.Helper()
	v := c.look(t)
	return v.of(master.id)
}

// FailOver lets a replica of the master take over: without loss if the master lives, at once if not. It returns the new
// master when all living nodes agree on it and the cluster is as WaitOK wants it.
func (c *Cluster) FailOver(t testing.TB, master *Node) *Node {
	t.Helper()
	replicas := group(c.ReplicasOf(t, master)).living()
	if len(replicas) == 0 {
		t.Fatalf("redistest: no replica of %s lives that could take over", master.Addr())
	}
	failover := []string{"CLUSTER", "FAILOVER"}
	if !master.living() {
		failover = append(failover, "FORCE")
	}
	var asked time.Time
	settle(t, "a replica of "+master.Addr()+" to take over", func() error {
		_, amiss := c.successor(master)
		if amiss == nil || time.Since(asked) < failoverTimeout {
			return amiss
		}
		asked = time.Now()
		if _, err := replicas[0].TryDo(failover...); err != nil {
			return err
		}
		return amiss
	})
	return c.AwaitHeir(t, master)
}

// AwaitHeir returns the node that has become master in place of this one, when all living nodes agree on it and the
// cluster is as WaitOK wants it. It fails the test after a minute.
func (c *Cluster) AwaitHeir(t testing.TB, from *Node) *Node {
	t.Helper()
	var to *Node
	settle(t, "another node in place of "+from.Addr(), func() (err error) {
		if to, err = c.successor(from); err != nil {
			return err
		}
		return c.amiss()
	})
	return to
}

// successor is the node that all living nodes agree to be the master in place of this one, an error where there is none.
func (c *Cluster) successor(from *Node) (*Node, error) {
	v, err := c.agreed()
	if err != nil {
		return nil, err
	}
	to := v.masterOfShard(from.shard)
	if to == nil || to == from {
		return nil, errors.New("nobody has taken its place")
	}
	return to, nil
}
