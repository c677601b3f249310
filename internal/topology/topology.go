package topology

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/pubsub"
)

// Topology is the servers behind a client. It is safe for concurrent use.
type Topology struct {
	cfg      config.Config
	log      *slog.Logger
	changed  func(moved func(key string) bool)
	discover discoverer // nil where the addresses are fixed
	// Both are set once, before the first request.

	sharded bool // messages go by SPUBLISH
	proxied bool // one address, and slots behind it

	now     atomic.Pointer[layout]
	aliases atomic.Pointer[map[string]string] // of the nodes that redirects call otherwise: the address that is dialled

	life     context.Context
	end      context.CancelFunc
	stirred  chan struct{} // capacity one: the layout may be out of date
	demoted  chan *Node    // capacity one: a server that refused to write, where the address is fixed
	moved    chan move     // without capacity, so that nobody's node is left in it: its name leads to another server
	named    []string      // servers that others told of: replicas, or sentinels; the follower's
	follower sync.WaitGroup

	// mu guards the table of nodes. It is never held over network I/O.
	mu    sync.Mutex
	nodes map[nodeKey]*Node
}

// nodeKey tells a sentinel from a data server, which could stand at the same address only by mistake.
type nodeKey struct {
	address string
	as      role
}

// Options are what Open needs besides the config.
type Options struct {
	Log   *slog.Logger
	Redis rueidis.Client // nil: connect as the config says
	// Changed is told, by the follower, that some slots have another master now; moved tells which keys that concerns. nil: nobody is told.
	Changed func(moved func(key string) bool)
}

// Open connects and finds out where the masters are. It fails with the first server's words when none could tell. ctx governs the
// opening only. cfg has its defaults filled in.
func Open(ctx context.Context, cfg config.Config, o Options) (*Topology, error) {
	t := &Topology{
		cfg: cfg, log: o.Log, changed: o.Changed, stirred: make(chan struct{}, 1), demoted: make(chan *Node, 1), moved: make(chan move),
		nodes: make(map[nodeKey]*Node),
	}
	if t.changed == nil {
		t.changed = func(func(string) bool) {}
	}
	t.life, t.end = context.WithCancel(context.Background())
	t.now.Store(&layout{})
	if err := t.open(ctx, o.Redis); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

func (t *Topology) open(ctx context.Context, borrowed rueidis.Client) error {
	if borrowed != nil {
		return t.borrow(ctx, borrowed)
	}
	switch t.cfg.Servers.Mode() {
	case config.ModeCluster:
		t.discover = t.askCluster
	case config.ModeSentinel:
		t.discover = t.askSentinels
	case config.ModeReplicated:
		t.discover = t.askRoles
	default:
		n := t.node(t.cfg.Servers.Addresses()[0].Addr, dataRole)
		t.now.Store(single(n))
		if err := t.probeSlots(ctx, n); err != nil {
			return err
		}
		t.follower.Go(t.redial)
		if name := t.hostName(); name != "" && t.cfg.DNSMonitoringInterval > 0 {
			t.follower.Go(func() { t.watchName(name) })
		}
		return nil
	}
	if _, err := t.refresh(ctx); err != nil {
		return err
	}
	if err := t.probeSharded(ctx); err != nil {
		return err
	}
	t.follower.Go(t.follow)
	return nil
}

// borrow makes a topology of a connection that the caller brings along.
func (t *Topology) borrow(ctx context.Context, client rueidis.Client) error {
	if client.Mode() == rueidis.ClientModeCluster {
		return errors.New("the rueidis client is that of a cluster; give its addresses by config.Cluster instead, so that slots can be followed")
	}
	n := t.newNode("the given client", dataRole, func(context.Context) (rueidis.Client, error) { return client, nil })
	n.keep = true
	t.nodes[nodeKey{n.address, dataRole}] = n
	t.now.Store(single(n))
	return t.probeSlots(ctx, n)
}

// node finds or makes the node of an address.
func (t *Topology) node(address string, as role) *Node {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := nodeKey{address, as}
	n := t.nodes[key]
	if n == nil {
		n = t.dialled(address, as)
		t.nodes[key] = n
		if t.life.Err() != nil { // after Close nobody would close it
			n.closed, n.commits.closed = true, true
			n.end()
		}
	}
	return n
}

// dialled makes a node that connects to an address.
func (t *Topology) dialled(address string, as role) *Node {
	network := t.cfg.Servers.Addresses()[0].Network
	return t.newNode(address, as, func(life context.Context) (rueidis.Client, error) {
		return dial(life, t.cfg, network, address, as)
	})
}

func (t *Topology) newNode(address string, as role, dial func(context.Context) (rueidis.Client, error)) *Node {
	n := &Node{address: address, as: as, dial: dial, newHub: t.newHub}
	n.life, n.end = context.WithCancel(context.Background()) // not with the topology: hubs take leave before it ends
	n.commits = newCommitter(n, t.cfg, t.log)
	return n
}

func (t *Topology) newHub(n *Node, sharded bool) *pubsub.Hub {
	return pubsub.New(pubsub.Options{
		Connect: n.dedicate,
		Sharded: sharded,
		Linger:  max(t.cfg.SubscriptionLinger, 0),
		Logger:  t.log,
	})
}

// Clustered tells whether keys are spread over slots, so that the keys of one request must share one.
func (t *Topology) Clustered() bool { return t.proxied || t.now.Load().slots != nil }

// Discovers tells whether masters can change.
func (t *Topology) Discovers() bool { return t.discover != nil }

// Replicates tells whether there can be replicas that an acquisition should wait for (wire-protocol.md §12).
func (t *Topology) Replicates() bool {
	mode := t.cfg.Servers.Mode()
	return mode != config.ModeSingle && mode != config.ModeExternal && t.cfg.CheckLockSyncedSlaves != config.SyncedSlavesOff
}

// Master gives the node that serves a key, as far as is known; nil when nobody does.
func (t *Topology) Master(key string) *Node {
	l := t.now.Load()
	if l.slots == nil {
		return l.master(0)
	}
	return l.master(config.Slot(key))
}

// MasterOf is Master for a slot; where there are none, any number does.
func (t *Topology) MasterOf(slot uint16) *Node { return t.now.Load().master(slot) }

// Masters gives all nodes that serve something.
func (t *Topology) Masters() []*Node { return t.now.Load().masters }

// probeSharded finds out how messages travel (wire-protocol.md §2).
func (t *Topology) probeSharded(ctx context.Context) error {
	if t.cfg.Servers.Mode() != config.ModeCluster {
		return nil
	}
	switch t.cfg.ShardedSubscriptionMode {
	case config.ShardedSubscriptionOn:
		t.sharded = true
		return nil
	case config.ShardedSubscriptionOff:
		return nil
	}
	known, err := gather(ctx, t.Masters(), nil, patient(t.knowsSharded), always)
	if len(known) == 0 {
		return err
	}
	if t.sharded = known[0]; !t.sharded {
		t.log.Info("the cluster has no sharded pub/sub; messages go to all of its nodes")
	}
	return nil
}

// knowsSharded asks a server whether it knows sharded messages. One that is loading or busy can't tell.
func (t *Topology) knowsSharded(ctx context.Context, n *Node) (bool, error) {
	_, err := t.ask(ctx, n, "PUBSUB", "SHARDNUMSUB")
	if refusesCommand(err) {
		return false, nil
	}
	return err == nil, err
}

// Close ends all connections, and the follower. What is on its way fails.
func (t *Topology) Close() {
	t.end()
	t.follower.Wait()
	t.mu.Lock()
	nodes := make([]*Node, 0, len(t.nodes))
	for _, n := range t.nodes {
		nodes = append(nodes, n)
	}
	t.mu.Unlock()
	closeAll(nodes)
}

// closeAll closes nodes side by side: one that is frozen can take a while.
func closeAll(nodes []*Node) {
	var all sync.WaitGroup
	for _, n := range nodes {
		all.Go(n.close)
	}
	all.Wait()
}
