package multilock_test

import (
	"strings"
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
		Name: "multi",
		New: func(p *locktest.Process, name string) redlatch.Locker {
			return multilock.New(multilock.NewRed(rlock.New(p.Client(), name)))
		},
		Traits: locktest.Traits{Listens: true, HandsOver: true, Composed: true},
	}, locktest.RedisServer)
}

// Of several members it promises less: a hand-over is one of each, and a red lock keeps no order. On a cluster they are in different slots.
func TestContractOfSeveralMembers(t *testing.T) {
	t.Parallel()
	all := several(multilock.New, " and more")
	all.Name = "all"
	locktest.Run(t, all, locktest.Cluster)

	red := several(multilock.NewRed, " again", " once more")
	red.Name = "red"
	red.Unordered = true
	red.Vital = func(name string) []string { return []string{name, name + " again"} }
	locktest.Run(t, red, locktest.Cluster)
}

// several is a lock of plain ones, of the name itself and of it with each of the suffixes.
func several(of func(...redlatch.Locker) *multilock.Lock, suffixes ...string) locktest.Wiring {
	names := func(name string) []string {
		all := []string{name}
		for _, suffix := range suffixes {
			if name != "" {
				all = append(all, name+suffix)
			}
		}
		return all
	}
	return locktest.Wiring{
		New: func(p *locktest.Process, name string) redlatch.Locker {
			var members []redlatch.Locker
			for _, n := range names(name) {
				members = append(members, rlock.New(p.Client(), n))
			}
			return of(members...)
		},
		Traits: locktest.Traits{
			Listens: true, Composed: true,
			Called: func(name string) string { return strings.Join(names(name), ", ") },
		},
	}
}
