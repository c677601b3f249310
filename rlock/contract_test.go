package rlock_test

import (
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/locktest"
	"github.com/redlatch/redlatch/rlock"
)

func TestContract(t *testing.T) {
	t.Parallel()
	for _, topology := range []locktest.Topology{locktest.RedisServer, locktest.Miniredis} {
		t.Run(topology.Name, func(t *testing.T) {
			t.Parallel()
			locktest.Run(t, locktest.Wiring{
				Name: "plain", Topology: topology, New: with(),
				Traits: locktest.Traits{Listens: true, HandsOver: true},
			})
			locktest.Run(t, locktest.Wiring{
				Name: "non-reentrant", Topology: topology, New: with(rlock.NonReentrant()),
				Traits: locktest.Traits{Listens: true, HandsOver: true, NonReentrant: true},
			})
			locktest.Run(t, locktest.Wiring{
				Name: "spin", Topology: topology, New: with(rlock.Spin(nil)),
				Traits: locktest.Traits{HandsOver: true},
			})
		})
	}
}

func with(opts ...rlock.Option) locktest.Make {
	return func(p *locktest.Process, name string) redlatch.Locker { return rlock.New(p.Client(), name, opts...) }
}
