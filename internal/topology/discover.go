package topology

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// discoverer asks the servers where the masters are.
type discoverer func(ctx context.Context) (draft, error)

const (
	// askAtOnce is how many nodes of a cluster are asked.
	askAtOnce = 5
	// askMore is how long the first are waited for before the others are asked too.
	askMore = 500 * time.Millisecond
	// askGrace is how long after the first answer the others are waited for.
	askGrace = 250 * time.Millisecond
)

// gather asks the first, and, when none of them answers well or soon, the others too. It returns what came until a short time after the
// first answer that decides something, so that a frozen server keeps nobody; the error is that of all who failed, when nobody answered well.
// Those that are not waited for go on: to end them would end a connection that others wait for too.
func gather[T any](
	ctx context.Context, first, others []*Node, ask func(context.Context, *Node) (T, error), decides func(T) bool,
) ([]T, error) {
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, len(first)+len(others))
	open := 0
	start := func(nodes []*Node) {
		open += len(nodes)
		for _, n := range nodes {
			go func() {
				v, err := ask(ctx, n)
				answers <- answer{v, err}
			}()
		}
	}
	start(first)
	timer := time.NewTimer(askMore)
	defer timer.Stop()
	var good []T
	var failures []error
	decided := false
	for open > 0 || len(others) > 0 {
		if open == 0 && len(good) == 0 {
			start(others)
			others = nil
		}
		select {
		case a := <-answers:
			open--
			if a.err != nil {
				failures = append(failures, a.err)
				continue
			}
			good, others = append(good, a.value), nil
			if !decided && decides(a.value) {
				decided = true
				timer.Reset(askGrace)
			}
		case <-timer.C:
			if decided {
				return good, nil
			}
			start(others)
			others = nil
		case <-ctx.Done():
			failures = append(failures, EndOf(ctx))
			return good, errors.Join(failures...)
		}
	}
	if len(good) > 0 {
		return good, nil
	}
	return nil, errors.Join(failures...)
}

func always[T any](T) bool { return true }

// patient lets a question go on when its ctx has ended, as long as a command may take.
func patient[T any](ask func(context.Context, *Node) (T, error)) func(context.Context, *Node) (T, error) {
	return func(ctx context.Context, n *Node) (T, error) { return ask(context.WithoutCancel(ctx), n) }
}

// askCluster asks the masters, and in their absence replicas and seeds, for who serves which slot.
func (t *Topology) askCluster(ctx context.Context) (draft, error) {
	known := slices.Clone(t.Masters())
	rand.Shuffle(len(known), func(i, j int) { known[i], known[j] = known[j], known[i] })
	var others []*Node
	for _, address := range append(slices.Clone(t.named), t.seeds()...) {
		if n := t.node(address, dataRole); !slices.Contains(known, n) && !slices.Contains(others, n) {
			others = append(others, n)
		}
	}
	if len(known) > askAtOnce {
		known, others = known[:askAtOnce], append(others, known[askAtOnce:]...)
	}
	views, err := gather(ctx, known, others, patient(t.clusterNodes), always)
	if len(views) == 0 {
		return draft{}, err
	}
	var all claims
	aliases := make(map[string]string)
	for _, view := range views {
		all.add(view)
		for _, n := range view {
			if n.redirect != "" && t.mapped(n.redirect) != n.address {
				aliases[n.redirect] = n.address
			}
		}
	}
	t.aliases.Store(&aliases)
	d := all.draft()
	if len(d.masters) == 0 {
		return draft{}, errors.New("no node of the cluster serves a slot; were the slots assigned (CLUSTER ADDSLOTS)?")
	}
	t.named = d.all
	return d, nil
}

func (t *Topology) seeds() []string {
	var seeds []string
	for _, a := range t.cfg.Servers.Addresses() {
		seeds = append(seeds, a.Addr)
	}
	return seeds
}

// clusterNodes reads one node's view of the cluster.
func (t *Topology) clusterNodes(ctx context.Context, n *Node) ([]clusterNode, error) {
	reply, err := t.ask(ctx, n, "CLUSTER", "NODES")
	switch {
	case says(err, "This instance has cluster support disabled"):
		return nil, fmt.Errorf("%s is no node of a cluster; describe it by config.Single, or its sentinels by config.Sentinel", n.address)
	case err != nil:
		return nil, err
	}
	text, err := reply.ToString()
	if err != nil {
		return nil, fmt.Errorf("%s: CLUSTER NODES: %w", n.address, err)
	}
	view, err := readClusterNodes(text, n.address, t.cfg.TLS != nil) // certificates are mostly made out to names
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n.address, err)
	}
	for i, told := range view {
		if told.unnamed {
			continue // the address is that which was asked, and a redirect is completed in the same way
		}
		view[i].address = t.mapped(told.address)
	}
	return view, nil
}

// ask sends one command, within the command timeout.
func (t *Topology) ask(ctx context.Context, n *Node, words ...string) (rueidis.RedisMessage, error) {
	client, err := n.conn(ctx)
	if err != nil {
		return rueidis.RedisMessage{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, t.cfg.Timeout)
	defer cancel()
	reply, err := client.Do(ctx, client.B().Arbitrary(words...).Build()).ToMessage()
	if err != nil && !rueidis.IsRedisNil(err) {
		return reply, fmt.Errorf("%s: %s: %w", n.address, strings.Join(words, " "), err)
	}
	return reply, nil
}

// mapped turns an address that a server told into the one to dial.
func (t *Topology) mapped(address string) string {
	if t.cfg.NATMapper == nil {
		return address
	}
	return t.cfg.NATMapper(address)
}

// sentinelView is what one sentinel says.
type sentinelView struct {
	master string
	peers  []string
}

// askSentinels asks all sentinels for the master. What most of them say is tried first, and counts when that server itself says that it is
// a master: after a failover a sentinel, or the old master, may not know yet. The master that is known already is not asked again.
func (t *Topology) askSentinels(ctx context.Context) (draft, error) {
	var first, others []*Node
	for _, address := range t.seeds() {
		first = append(first, t.node(address, sentinelRole))
	}
	for _, address := range t.named {
		if n := t.node(address, sentinelRole); !slices.Contains(first, n) {
			others = append(others, n)
		}
	}
	views, err := gather(ctx, first, others, patient(t.sentinel), always)
	if len(views) == 0 {
		return draft{}, err
	}
	votes := make(map[string]int)
	var peers []string
	for _, v := range views {
		votes[v.master]++
		peers = append(peers, v.peers...)
	}
	slices.Sort(peers)
	t.named = slices.Compact(peers)
	candidates := make([]string, 0, len(votes))
	for address := range votes {
		candidates = append(candidates, address)
	}
	slices.SortFunc(candidates, func(a, b string) int {
		return cmp.Or(cmp.Compare(votes[b], votes[a]), cmp.Compare(a, b))
	})
	var failures []error
	for _, address := range candidates {
		n := t.node(address, dataRole)
		if slices.Contains(t.Masters(), n) && len(failures) == 0 {
			return draft{masters: []string{address}}, nil // nothing new: should it be no master any more, its refusals tell
		}
		r, err := t.roleOf(ctx, n)
		switch {
		case err != nil:
			failures = append(failures, err)
		case !r.master:
			failures = append(failures, fmt.Errorf("the sentinels say that %s is the master, but it says that it is a replica", address))
		default:
			return draft{masters: []string{address}}, nil
		}
	}
	return draft{}, errors.Join(failures...)
}

// sentinel reads one sentinel's view.
func (t *Topology) sentinel(ctx context.Context, n *Node) (sentinelView, error) {
	name := t.cfg.Servers.MasterName()
	reply, err := t.ask(ctx, n, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", name)
	switch {
	case says(err, "unknown command"):
		return sentinelView{}, fmt.Errorf("%s is no sentinel: %w", n.address, err)
	case err != nil:
		return sentinelView{}, err
	case reply.IsNil():
		return sentinelView{}, fmt.Errorf("the sentinel %s knows no master named %q; see SENTINEL MASTERS for the names", n.address, name)
	}
	address, err := reply.AsStrSlice()
	if err != nil || len(address) != 2 {
		return sentinelView{}, fmt.Errorf("%s: SENTINEL GET-MASTER-ADDR-BY-NAME: the answer is no host and port", n.address)
	}
	view := sentinelView{master: t.mapped(net.JoinHostPort(address[0], address[1]))}
	reply, err = t.ask(ctx, n, "SENTINEL", "SENTINELS", name)
	if err != nil {
		return view, nil //nolint:nilerr // the other sentinels are only needed when those of the config are gone
	}
	peers, _ := reply.ToArray()
	for _, peer := range peers {
		if about, err := peer.AsStrMap(); err == nil && about["ip"] != "" {
			view.peers = append(view.peers, t.mapped(net.JoinHostPort(about["ip"], about["port"])))
		}
	}
	return view, nil
}

// serverRole is what a server says of itself in INFO replication.
type serverRole struct {
	node     *Node
	master   bool
	replicas int // that follow; one that is only just being filled can't acknowledge anything
}

func (t *Topology) roleOf(ctx context.Context, n *Node) (serverRole, error) {
	reply, err := t.ask(ctx, n, "INFO", "replication")
	if err != nil {
		return serverRole{}, err
	}
	text, err := reply.ToString()
	if err != nil {
		return serverRole{}, fmt.Errorf("%s: INFO replication: %w", n.address, err)
	}
	r := readRole(text)
	r.node = n
	return r, nil
}

// readRole reads INFO replication.
func readRole(text string) serverRole {
	var r serverRole
	connected, listed := 0, false
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if key == "role" {
			r.master = value == "master"
		}
		if key == "connected_slaves" {
			connected, _ = strconv.Atoi(value)
		}
		if state := strings.Index(value, "state="); strings.HasPrefix(key, "slave") && state >= 0 {
			listed = true
			if strings.HasPrefix(value[state:], "state=online") {
				r.replicas++
			}
		}
	}
	if !listed {
		r.replicas = connected // a service that does not list them
	}
	return r
}

// askRoles asks each address for its role. Where several say that they are the master, the one with the most replicas is; among equals the
// one that was it before stays.
func (t *Topology) askRoles(ctx context.Context) (draft, error) {
	var nodes []*Node
	for _, address := range t.seeds() {
		nodes = append(nodes, t.node(address, dataRole))
	}
	roles, err := gather(ctx, nodes, nil, patient(t.roleOf), func(r serverRole) bool { return r.master })
	if len(roles) == 0 {
		return draft{}, err
	}
	var best *serverRole
	for i, r := range roles {
		if r.master && (best == nil || r.replicas > best.replicas || r.replicas == best.replicas && slices.Contains(t.Masters(), r.node)) {
			best = &roles[i]
		}
	}
	if best == nil {
		return draft{}, errors.New("none of the servers that answered says that it is the master")
	}
	return draft{masters: []string{best.node.address}}, nil
}
