package multilock_test

import (
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/locktest"
	"github.com/redlatch/redlatch/multilock"
)

func TestGroupContract(t *testing.T) {
	t.Parallel()
	for _, topology := range []locktest.Topology{locktest.RedisServer, locktest.Miniredis} {
		t.Run(topology.Name, func(t *testing.T) {
			t.Parallel()
			locktest.Run(t, locktest.Wiring{
				Name: "grouped", Topology: topology,
				New: func(p *locktest.Process, name string) redlatch.Locker {
					return multilock.NewGroup(p.Client(), name, "account:1", "account:2")
				},
				Traits: locktest.Traits{Listens: true, HandsOver: true},
			})
		})
	}
}
