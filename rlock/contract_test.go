package rlock_test

import (
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/locktest"
	"github.com/redlatch/redlatch/rlock"
)

func TestContract(t *testing.T) {
	t.Parallel()
	locktest.Run(t, locktest.Wiring{
		Name: "plain", New: with(),
		Traits: locktest.Traits{Listens: true, HandsOver: true},
	}, locktest.RedisServer, locktest.Miniredis, locktest.Cluster, locktest.Sentinel, locktest.MasterSlave)
	locktest.Run(t, locktest.Wiring{
		Name: "non-reentrant", New: with(rlock.NonReentrant()),
		Traits: locktest.Traits{Listens: true, HandsOver: true, NonReentrant: true},
	}, locktest.RedisServer, locktest.Miniredis, locktest.Cluster)
	locktest.Run(t, locktest.Wiring{
		Name: "spin", New: with(rlock.Spin(nil)),
		Traits: locktest.Traits{HandsOver: true},
	}, locktest.RedisServer, locktest.Miniredis, locktest.Cluster)
}

func with(opts ...rlock.Option) locktest.Make {
	return func(p *locktest.Process, name string) redlatch.Locker { return rlock.New(p.Client(), name, opts...) }
}
