package topology

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/redlatch/redlatch/config"
)

// clusterNode is one line of CLUSTER NODES, as far as it matters.
type clusterNode struct {
	address  string
	redirect string // how MOVED and ASK call it: by its IP address, also where it has a name; "" when it does not know that
	unnamed  bool   // it did not tell its host
	epoch    uint64
	slots    []slotRange // none for a replica
}

type slotRange struct{ first, last uint16 }

// readClusterNodes reads the reply to CLUSTER NODES that the server at asked gave. A line is
//
//	id host:port@bus,hostname flags master ping pong epoch link slots…
//
// A server that does not know its own address leaves the host out: it is the one that was asked. What a server has forgotten
// (noaddr, handshake) is left out. byName takes the host names of the servers that have one in place of their addresses.
func readClusterNodes(reply, asked string, byName bool) ([]clusterNode, error) {
	var nodes []clusterNode
	for line := range strings.Lines(reply) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) < 8 {
			return nil, fmt.Errorf("CLUSTER NODES: the line %q has %d fields instead of 8 or more", clip(line), len(fields))
		}
		flags := strings.Split(fields[2], ",")
		if slices.Contains(flags, "noaddr") || slices.Contains(flags, "handshake") {
			continue
		}
		n, err := nodeAt(fields[1], asked, byName)
		if err != nil {
			return nil, err
		}
		if n.epoch, err = strconv.ParseUint(fields[6], 10, 64); err != nil {
			return nil, fmt.Errorf("CLUSTER NODES: the epoch %q is no number", clip(fields[6]))
		}
		if slices.Contains(flags, "master") {
			if n.slots, err = readSlots(fields[8:]); err != nil {
				return nil, err
			}
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// nodeAt reads "host:port@bus,hostname".
func nodeAt(field, asked string, byName bool) (clusterNode, error) {
	field, names, _ := strings.Cut(field, ",")
	field, _, _ = strings.Cut(field, "@")
	colon := strings.LastIndexByte(field, ':')
	if colon < 0 {
		return clusterNode{}, fmt.Errorf("CLUSTER NODES: the address %q has no port", clip(field))
	}
	host, port := strings.Trim(field[:colon], "[]"), field[colon+1:]
	n := clusterNode{unnamed: host == ""}
	if n.unnamed {
		host, _, _ = net.SplitHostPort(asked)
	} else {
		n.redirect = net.JoinHostPort(host, port)
	}
	if name, _, _ := strings.Cut(names, ","); byName && name != "" {
		host, n.unnamed = name, false
	}
	n.address = net.JoinHostPort(host, port)
	return n, nil
}

// readSlots reads the slots of a master: "0-5460", "7000"; what it is migrating or importing stands in brackets, and changes nothing yet.
func readSlots(fields []string) ([]slotRange, error) {
	var ranges []slotRange
	for _, field := range fields {
		if strings.HasPrefix(field, "[") {
			continue
		}
		first, last, isRange := strings.Cut(field, "-")
		if !isRange {
			last = first
		}
		a, errA := strconv.ParseUint(first, 10, 16)
		b, errB := strconv.ParseUint(last, 10, 16)
		if errA != nil || errB != nil || a > b || b >= config.Slots {
			return nil, fmt.Errorf("CLUSTER NODES: %q is no range of slots", clip(field))
		}
		ranges = append(ranges, slotRange{uint16(a), uint16(b)})
	}
	return ranges, nil
}

// clip keeps what a server said short enough for a log.
func clip(s string) string {
	const most = 120
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
