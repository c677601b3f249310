package redistest

import (
	"testing"

	"github.com/redlatch/redlatch/config"
)

// Mortal are servers that replace a master which dies: a Cluster, or a Sentinel.
type Mortal interface {
	Servers() config.Servers // as a client is told of them
	MasterOf(t testing.TB, key string) *Node
	AwaitHeir(t testing.TB, dead *Node) *Node
}
