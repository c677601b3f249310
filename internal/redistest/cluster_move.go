package redistest

import (
	"errors"
	"net"
	"strconv"
	"testing"
)

// MoveSlot moves the slot, with its keys, to another master while clients use it, and returns when all living nodes agree on
// the new owner.
func (c *Cluster) MoveSlot(t testing.TB, slot uint16, to *Node) {
	t.Helper()
	c.BeginMove(t, slot, to)
	c.MoveKeys(t, slot, to)
	c.EndMove(t, slot, to)
}

// BeginMove opens the slot's move to another master: the owner still serves the keys that it has and answers ASK for all
// others. For a command with keys of both kinds the answer is TRYAGAIN; before 7.0 the owner says ASK and the other one
// TRYAGAIN.
func (c *Cluster) BeginMove(t testing.TB, slot uint16, to *Node) {
	t.Helper()
	from := c.owner(t, slot)
	// In this order: a client that is sent on must find the other one ready for it.
	to.setSlot(t, slot, "IMPORTING", from.id)
	from.setSlot(t, slot, "MIGRATING", to.id)
}

// MoveKeys takes the keys over to the new master; without any it takes all of the slot that the owner has.
func (c *Cluster) MoveKeys(t testing.TB, slot uint16, to *Node, keys ...string) {
	t.Helper()
	from := c.owner(t, slot)
	if len(keys) > 0 {
		from.migrate(t, to, keys)
		return
	}
	const batch = "100"
	for {
		keys := from.Do(t, "CLUSTER", "GETKEYSINSLOT", strconv.Itoa(int(slot)), batch).Texts()
		if len(keys) == 0 {
			return
		}
		from.migrate(t, to, keys)
	}
}

// EndMove makes the other master the slot's owner, and returns when all living nodes agree on it. It fails the test if the old
// owner still has keys of the slot, which would be lost.
func (c *Cluster) EndMove(t testing.TB, slot uint16, to *Node) {
	t.Helper()
	from := c.owner(t, slot)
	if left := from.Do(t, "CLUSTER", "COUNTKEYSINSLOT", strconv.Itoa(int(slot))).Int(); left > 0 {
		t.Fatalf("redistest: %s still has %d keys of slot %d; MoveKeys comes first", from.Addr(), left, slot)
	}
	masters := group(c.Masters(t)).living()
	// The new owner first: from then on there is one, whatever happens.
	to.setSlot(t, slot, "NODE", to.id)
	for _, n := range masters.but(to) {
		n.setSlot(t, slot, "NODE", to.id)
	}
	settle(t, "the nodes to know the slot's new owner", func() error {
		v, err := c.agreed()
		if err == nil && v.owner(slot) != to {
			err = errors.New("the old one is still the owner")
		}
		return err
	})
}

// owner is the node that the living nodes agree to be the slot's owner.
func (c *Cluster) owner(t testing.TB, slot uint16) *Node {
	t.Helper()
	owner := c.look(t).owner(slot)
	if owner == nil {
		t.Fatalf("redistest: no node owns slot %d", slot)
	}
	return owner
}

func (n *Node) setSlot(t testing.TB, slot uint16, state, id string) {
	t.Helper()
	n.Do(t, "CLUSTER", "SETSLOT", strconv.Itoa(int(slot)), state, id)
}

// migrate takes keys from the node to another one, each in one step. Keys that have expired meanwhile are no error.
func (n *Node) migrate(t testing.TB, to *Node, keys []string) {
	t.Helper()
	host, port, err := net.SplitHostPort(to.Addr())
	if err != nil {
		t.Fatalf("redistest: read the address of a node: %v", err)
	}
	cmd := []string{"MIGRATE", host, port, "", "0", "10000"}
	if to.Password() != "" {
		cmd = append(cmd, "AUTH", to.Password())
	}
	n.Do(t, append(append(cmd, "KEYS"), keys...)...)
}
