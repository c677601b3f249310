package fairlock_test

import (
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/fairlock"
	"github.com/redlatch/redlatch/internal/locktest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	locktest.Run(t, locktest.Wiring{
		Name: "fair", New: with(),
		Traits: locktest.Traits{Listens: true, Together: true},
	}, locktest.RedisServer, locktest.Miniredis, locktest.Cluster, locktest.Sentinel)
	locktest.Run(t, locktest.Wiring{
		Name: "non-reentrant", New: with(fairlock.NonReentrant()),
		Traits: locktest.Traits{Listens: true, Together: true, NonReentrant: true},
	}, locktest.Cluster)
}

func with(opts ...fairlock.Option) locktest.Make {
	return func(p *locktest.Process, name string) redlatch.Locker { return fairlock.New(p.Client(), name, opts...) }
}
