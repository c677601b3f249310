package rwlock_test

import (
	"strings"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/locktest"
	"github.com/redlatch/redlatch/rwlock"
)

func TestContract(t *testing.T) {
	t.Parallel()
	read := func(p *locktest.Process, name string) redlatch.Locker { return rwlock.New(p.Client(), name).Read() }
	write := func(p *locktest.Process, name string) redlatch.Locker { return rwlock.New(p.Client(), name).Write() }
	locktest.Run(t, locktest.Wiring{
		Name: "read", New: read, Rival: write,
		Traits: locktest.Traits{
			Shared: true, Listens: true, Together: true, OnlyLengthens: true,
			Forced: func(key string) bool { return strings.Contains(key, ":"+config.ReadTimeoutSuffix+":") },
		},
	}, locktest.RedisServer, locktest.Cluster)
	locktest.Run(t, locktest.Wiring{
		Name: "write", New: write,
		Traits: locktest.Traits{Listens: true},
	}, locktest.RedisServer, locktest.Miniredis, locktest.Cluster, locktest.Sentinel)
}
