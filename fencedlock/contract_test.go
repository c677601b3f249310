package fencedlock_test

import (
	"strings"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/fencedlock"
	"github.com/redlatch/redlatch/internal/locktest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	locktest.Run(t, locktest.Wiring{
		Name: "fenced",
		New:  func(p *locktest.Process, name string) redlatch.Locker { return fencedlock.New(p.Client(), name) },
		Traits: locktest.Traits{
			Listens: true, HandsOver: true,
			Stays: func(key string) bool { return strings.HasPrefix(key, config.TokenPrefix+":") },
		},
	}, locktest.RedisServer, locktest.Miniredis, locktest.Cluster)
}
