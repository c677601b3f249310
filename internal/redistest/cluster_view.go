package redistest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// part is what one node of a cluster is in the eyes of another.
type part struct {
	replicaOf string // the id of its master; "" for a master
	slots     string // "0-5460 5462", without those that are on the move
	failed    bool   // given up by the majority
}

// view is a cluster in the eyes of one of its nodes.
type view struct {
	nodes group
	parts map[string]part // by id
	amiss error           // what keeps this from being a view of a healthy cluster
}

// viewOf asks the node how it sees the cluster.
func (c *Cluster) viewOf(conn *Conn) (view, error) {
	reply, err := conn.Do("CLUSTER", "NODES")
	if err != nil {
		return view{}, err
	}
	v := view{nodes: c.nodes, parts: make(map[string]part)}
	for line := range strings.Lines(reply.Text()) {
		if err := v.add(strings.Fields(line)); err != nil {
			return view{}, fmt.Errorf("redistest: read the line %q of CLUSTER NODES: %w", line, err)
		}
	}
	if len(v.parts) < len(c.nodes) {
		v.amiss = fmt.Errorf("%d nodes of %d are known", len(v.parts), len(c.nodes))
	}
	return v, nil
}

// add reads a line of CLUSTER NODES: id, address, flags, master, ping sent, pong received, epoch, link, slots…
func (v *view) add(fields []string) error {
	const slots = 8
	if len(fields) < slots {
		return errors.New("it is too short")
	}
	id, flags, master, link := fields[0], strings.Split(fields[2], ","), fields[3], fields[7]
	addr, _, _ := strings.Cut(fields[1], "@")
	var p part
	if master != "-" {
		p.replicaOf = master
	}
	p.failed = slices.Contains(flags, "fail")
	var owned []string
	for _, field := range fields[slots:] {
		if !strings.HasPrefix(field, "[") {
			owned = append(owned, field)
		}
	}
	p.slots = strings.Join(owned, " ")
	v.parts[id] = p

	n := v.node(id)
	switch {
	case n == nil:
		v.amiss = fmt.Errorf("%s is not known by its id", addr)
	case addr != n.announced:
		v.amiss = fmt.Errorf("%s is known as %s", n.announced, addr)
	case n.living() && (link != "connected" || p.failed || slices.Contains(flags, "fail?")):
		v.amiss = fmt.Errorf("%s is seen as %s, %s", n.Addr(), fields[2], link)
	}
	return nil
}

func (v view) node(id string) *Node {
	for _, n := range v.nodes {
		if n.id == id {
			return n
		}
	}
	return nil
}

// of are the nodes that replicate the one with this id, the masters for "", without those that are given up.
func (v view) of(master string) group {
	var out group
	for _, n := range v.nodes {
		if p := v.parts[n.id]; p.replicaOf == master && !p.failed {
			out = append(out, n)
		}
	}
	return out
}

func (v view) masterOfShard(shard int) *Node {
	for _, n := range v.of("") {
		if n.shard == shard {
			return n
		}
	}
	return nil
}

// owner is the node that the slot belongs to, nil for none.
func (v view) owner(slot uint16) *Node {
	for id, p := range v.parts {
		for r := range strings.FieldsSeq(p.slots) {
			first, last, isRange := strings.Cut(r, "-")
			if !isRange {
				last = first
			}
			if within(int(slot), first, last) {
				return v.node(id)
			}
		}
	}
	return nil
}

func within(slot int, first, last string) bool {
	low, lowErr := strconv.Atoi(first)
	high, highErr := strconv.Atoi(last)
	return lowErr == nil && highErr == nil && low <= slot && slot <= high
}

// look is what all living nodes agree on.
func (c *Cluster) look(t testing.TB) view {
	t.Helper()
	var v view
	settle(t, "the nodes to agree", func() (err error) {
		v, err = c.agreed()
		return err
	})
	return v
}

// agreed is the view of all living nodes, an error where they differ.
func (c *Cluster) agreed() (view, error) {
	var first view
	for i, n := range c.nodes.living() {
		var v view
		err := n.with(func(conn *Conn) (err error) {
			v, err = c.viewOf(conn)
			return err
		})
		if err != nil {
			return view{}, err
		}
		if i == 0 {
			first = v
		}
		if !maps.Equal(first.parts, v.parts) {
			return view{}, fmt.Errorf("the nodes see different clusters: %v and %v", first.parts, v.parts)
		}
		if first.amiss == nil && v.amiss != nil {
			first.amiss = fmt.Errorf("in the eyes of %s %w", n.Addr(), v.amiss)
		}
	}
	if first.parts == nil {
		return view{}, errors.New("no node lives")
	}
	return first, nil
}

// amiss says what WaitOK still waits for.
func (c *Cluster) amiss() error {
	v, err := c.agreed()
	if err != nil {
		return err
	}
	if v.amiss != nil {
		return v.amiss
	}
	for _, n := range c.nodes.living() {
		reply, err := n.TryDo("CLUSTER", "INFO")
		if err != nil {
			return err
		}
		info := parseInfo(reply.Text())
		if info["cluster_state"] != "ok" || info["cluster_slots_ok"] != "16384" {
			return fmt.Errorf("for %s the cluster's state is %q with %s slots", n.Addr(), info["cluster_state"], info["cluster_slots_ok"])
		}
	}
	for _, master := range v.of("").living() {
		if err := replicating(master, v.of(master.id).living()); err != nil {
			return err
		}
	}
	return nil
}
