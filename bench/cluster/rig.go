package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/redistest"
)

// lockPrefix and a number make the name of a lock; so the agent in the JVM names them.
const lockPrefix = "order"

// atOnce is how many commands go into one pipeline of a look.
const atOnce = 2_000

// rig is a cluster of three masters without replicas, each behind a proxy of its own, and the names of the locks to be taken.
type rig struct {
	cluster *redistest.Cluster
	names   []string
	nodes   []*node
}

// node is a master, a connection to it that does not go through the proxy, and the locks that lie there.
type node struct {
	*redistest.Node
	direct rueidis.Client
	names  []string
}

func newRig(ctx context.Context, locks int) (*rig, error) {
	cluster, err := redistest.LaunchCluster(ctx, redistest.WithReplicas(0), redistest.WithProxies(),
		redistest.WithConfig("cluster-require-full-coverage", "no"))
	if err != nil {
		return nil, err
	}
	r := &rig{cluster: cluster}
	for _, n := range cluster.Nodes() {
		direct, err := rueidis.NewClient(n.ClientOption())
		if err != nil {
			return nil, errors.Join(err, r.close())
		}
		r.nodes = append(r.nodes, &node{Node: n, direct: direct})
	}
	for i := range locks {
		r.names = append(r.names, lockPrefix+":"+strconv.Itoa(i))
	}
	return r, r.place()
}

// place finds out which lock lies where.
func (r *rig) place() error {
	reply, err := r.nodes[0].TryDo("CLUSTER", "SLOTS")
	if err != nil {
		return err
	}
	var owner [config.Slots]*node
	for _, slots := range reply.List() { // first slot, last slot, master (host, port, …), replicas…
		fields := slots.List()
		master := fields[2].List()
		address := master[0].Text() + ":" + master[1].Text()
		for _, n := range r.nodes {
			if n.Announced() == address {
				for slot := fields[0].Int(); slot <= fields[1].Int(); slot++ {
					owner[slot] = n
				}
			}
		}
	}
	for _, name := range r.names {
		n := owner[config.Slot(name)]
		if n == nil {
			return fmt.Errorf("nobody serves the slot of %s", name)
		}
		n.names = append(n.names, name)
	}
	return nil
}

// version is the release of the servers.
func (r *rig) version() (string, error) {
	reply, err := r.nodes[0].TryDo("INFO", "server")
	if err != nil {
		return "", err
	}
	_, rest, _ := strings.Cut(reply.Text(), "redis_version:")
	version, _, _ := strings.Cut(rest, "\r\n")
	return version, nil
}

func (r *rig) close() error {
	for _, n := range r.nodes {
		n.direct.Close()
	}
	return r.cluster.Close()
}

// clear makes room for the next side: no keys, and all nodes on good terms again.
func (r *rig) clear(ctx context.Context) error {
	for _, n := range r.nodes {
		if _, err := n.TryDo("FLUSHALL"); err != nil {
			return err
		}
	}
	return poll(ctx, 100*time.Millisecond, func() (bool, error) {
		for _, n := range r.nodes {
			reply, err := n.TryDo("CLUSTER", "NODES")
			if err != nil || strings.Contains(reply.Text(), "fail") {
				return false, err
			}
		}
		return true, nil
	})
}

// poll asks again and again until done says so, or fails.
func poll(ctx context.Context, every time.Duration, done func() (bool, error)) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// silent fails when a frozen node answers. The kernel lets stopped processes go on when their process group is orphaned, so when the shell ends
// that this program was started from in the background: then nothing was measured.
func (n *node) silent(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := n.direct.Do(ctx, n.direct.B().Ping().Build()).Error(); err == nil {
		return errors.New("somebody let the frozen node go on")
	}
	return nil
}

// view is what the servers say of the locks: how many there are, and the shortest time that one has left, 0 when one is missing.
type view struct {
	present  int
	smallest time.Duration
}

func (v view) and(o view) view { return view{v.present + o.present, min(v.smallest, o.smallest)} }

// look asks the nodes for the TTL of each of their locks.
func look(ctx context.Context, nodes []*node) (view, error) {
	views, errs := make([]view, len(nodes)), make([]error, len(nodes))
	var all sync.WaitGroup
	for i, n := range nodes {
		all.Go(func() { views[i], errs[i] = n.look(ctx) })
	}
	all.Wait()
	total := views[0]
	for _, v := range views[1:] {
		total = total.and(v)
	}
	return total, errors.Join(errs...)
}

func (n *node) look(ctx context.Context) (view, error) {
	v := view{smallest: time.Hour}
	for from := 0; from < len(n.names); from += atOnce {
		var commands []rueidis.Completed
		for _, name := range n.names[from:min(from+atOnce, len(n.names))] {
			commands = append(commands, n.direct.B().Pttl().Key(name).Build())
		}
		for _, result := range n.direct.DoMulti(ctx, commands...) {
			left, err := result.AsInt64()
			if err != nil {
				return v, fmt.Errorf("ask a node for a TTL: %w", err)
			}
			if left >= 0 {
				v.present++
			}
			v.smallest = min(v.smallest, max(0, time.Duration(left)*time.Millisecond))
		}
	}
	return v, nil
}

// renewed is how often the node has set a TTL since its start, which both sides do once for each lock that they renew, and once for each that
// they take.
func (n *node) renewed(ctx context.Context) (int, error) {
	stats, err := n.direct.Do(ctx, n.direct.B().Info().Section("commandstats").Build()).ToString()
	if err != nil {
		return 0, fmt.Errorf("ask a node for its counts: %w", err)
	}
	_, rest, _ := strings.Cut(stats, "cmdstat_pexpire:calls=")
	calls, _, _ := strings.Cut(rest, ",")
	return strconv.Atoi(calls)
}
