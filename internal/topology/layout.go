package topology

import (
	"errors"
	"slices"

	"github.com/redlatch/redlatch/config"
)

// layout says which node serves a slot. It never changes.
type layout struct {
	masters []*Node
	// slots has, for each slot, one more than the index of its master; 0 is nobody. Nil where one master serves all.
	slots []uint16
}

// ErrNoMaster says that, as far as is known, nobody serves the slot, or nobody is the master. Nothing was sent.
var ErrNoMaster = errors.New("no master is known that serves it; does CLUSTER INFO (or the sentinels) say that all is well?")

// master gives the node of a slot.
func (l *layout) master(slot uint16) *Node {
	index := 0
	if l.slots != nil {
		index = int(l.slots[slot]) - 1
	}
	if index < 0 || index >= len(l.masters) {
		return nil
	}
	return l.masters[index]
}

// same tells whether two layouts send every slot to the same node.
func (l *layout) same(other *layout) bool {
	return slices.Equal(l.masters, other.masters) && slices.Equal(l.slots, other.slots)
}

// single is a layout of one master for all.
func single(n *Node) *layout { return &layout{masters: []*Node{n}} }

// draft is a layout in the making, by addresses.
type draft struct {
	masters []string // in ascending order, so that two equal layouts are equal
	slots   []uint16
	all     []string // all servers that were named, replicas too
}

// claims collects who serves which slot, by the epochs of those who say so.
type claims struct {
	owner [config.Slots]string
	epoch [config.Slots]uint64
	named map[string]bool
}

// add takes one server's word: of two that claim a slot the one with the higher epoch has it.
func (c *claims) add(view []clusterNode) {
	if c.named == nil {
		c.named = make(map[string]bool)
	}
	for _, n := range view {
		c.named[n.address] = true
		for _, r := range n.slots {
			for slot := int(r.first); slot <= int(r.last); slot++ {
				if c.owner[slot] == "" || n.epoch > c.epoch[slot] {
					c.owner[slot], c.epoch[slot] = n.address, n.epoch
				}
			}
		}
	}
}

// draft gives the layout that the claims amount to.
func (c *claims) draft() draft {
	d := draft{slots: make([]uint16, config.Slots)}
	index := make(map[string]uint16)
	for _, address := range &c.owner {
		index[address] = 0
	}
	delete(index, "")
	for address := range index {
		d.masters = append(d.masters, address)
	}
	slices.Sort(d.masters)
	for i, address := range d.masters {
		index[address] = uint16(i + 1)
	}
	for slot, address := range &c.owner {
		d.slots[slot] = index[address]
	}
	for address := range c.named {
		d.all = append(d.all, address)
	}
	return d
}
