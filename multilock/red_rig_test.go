package multilock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/locktest/probe"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/multilock"
	"github.com/redlatch/redlatch/rlock"
)

const key = "order:1001"

// servers are independent of each other, each behind a relay.
type servers struct {
	of     []*redistest.Server
	relays []*redistest.Relay
}

func startServers(t *testing.T, n int) servers {
	t.Helper()
	var s servers
	for range n {
		server := redistest.Start(t)
		s.of, s.relays = append(s.of, server), append(s.relays, redistest.NewRelay(t, server))
	}
	return s
}

// process is a red lock of one name over all servers, with the clients and members that it is made of.
type process struct {
	*multilock.Lock
	clients []*redlatch.Client
	members []redlatch.Locker
	seen    probe.Events
}

func (s servers) process(t *testing.T, changes ...func(*config.Config)) process {
	t.Helper()
	p := process{seen: make(probe.Events, 10_000)}
	for _, relay := range s.relays {
		c := probe.Observed(t, relay.URL(), p.seen, changes...)
		p.clients, p.members = append(p.clients, c), append(p.members, rlock.New(c, key))
	}
	p.Lock = multilock.NewRed(p.members...)
	return p
}

// warm makes the scripts known to the servers, so that each request is a single command.
func (p process) warm(t *testing.T) {
	t.Helper()
	hold := probe.Take(t, p.Lock, redlatch.WithLease(time.Minute))
	require.NoError(t, hold.Extend(background, time.Hour))
	probe.Release(t, hold)
}

// holders is on how many servers the lock is held.
func (s servers) holders(t *testing.T) (n int) {
	t.Helper()
	for _, server := range s.of {
		n += int(server.Do(t, "EXISTS", key).Int())
	}
	return n
}

func (s servers) nothingStays(t *testing.T) {
	t.Helper()
	nothingStays(t, s.of...)
}

// otherThan is the lock of a process that does not know of one server's being dead, and goes past its relay.
func (s servers) otherThan(t *testing.T, dead int) *multilock.Lock {
	t.Helper()
	var members []redlatch.Locker
	for i, server := range s.of {
		if i != dead {
			members = append(members, rlock.New(probe.Open(t, server.URL()), key))
		}
	}
	return multilock.NewRed(members...)
}

func force(t *testing.T, l redlatch.Locker) {
	t.Helper()
	freed, err := l.(*rlock.Lock).ForceUnlock(background)
	require.NoError(t, err)
	require.True(t, freed)
}
