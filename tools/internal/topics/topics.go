// Package topics takes the names of the interop tests apart, for the programs that make tables of them.
package topics

import (
	"slices"
	"strings"
)

const root = "TestInterop"

// Single is the topology of topics that name none: they ran on one redis-server.
const Single = "single"

// topologies have a level of their own above the directions.
var topologies = []string{"cluster", "sentinel", "master-slave", "replicated"}

// Name is the name of an interop test, TestInterop…/[<topology>/]<direction>/<topic>[/…]. What a test stands above is empty.
type Name struct {
	Test                       string // up to the topic; what stands below it belongs to it
	Topology, Direction, Topic string
}

// Read takes the name of a test apart; false when it is none of the interop tests.
func Read(test string) (Name, bool) {
	parts := strings.Split(test, "/")
	if !strings.HasPrefix(parts[0], root) {
		return Name{}, false
	}
	n := Name{Test: test}
	above := 1 // how many parts stand above the direction
	if len(parts) > 1 {
		n.Topology = Single
		if slices.Contains(topologies, parts[1]) {
			n.Topology, above = parts[1], 2
		}
	}
	if len(parts) > above {
		n.Direction = parts[above]
	}
	if len(parts) > above+1 {
		n.Test, n.Topic = strings.Join(parts[:above+2], "/"), strings.ReplaceAll(parts[above+1], "_", " ")
	}
	return n, true
}
