package fairlock_test

import (
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/fairlock"
	"github.com/redlatch/redlatch/internal/locktest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]fairlock.Option{"fair": nil, "non-reentrant fair": {fairlock.NonReentrant()}} {
		locktest.Run(t, locktest.Wiring{
			Name: name, Topology: locktest.RedisServer,
			New: func(p *locktest.Process, name string) redlatch.Locker {
				return fairlock.New(p.Client(), name, opts...)
			},
			Traits: locktest.Traits{Listens: true, Together: true, NonReentrant: len(opts) > 0},
		})
	}
}
