package multilock_test

import (
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/locktest"
	"github.com/redlatch/redlatch/multilock"
	"github.com/redlatch/redlatch/rlock"
)

// A multi-lock is a lock like any other. Of a single member it promises all that its member does, order and events included; nested, so that
// both sorts and a multi-lock as a member are put to the test.
func TestContract(t *testing.T) {
	t.Parallel()
	locktest.Run(t, locktest.Wiring{
		Name: "multi", Topology: locktest.RedisServer,
		New: func(p *locktest.Process, name string) redlatch.Locker {
			return multilock.New(multilock.NewRed(rlock.New(p.Client(), name)))
		},
		Traits: locktest.Traits{Listens: true, HandsOver: true, Composed: true},
	})
}
