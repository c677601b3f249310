package locktest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
)

// Make makes a lock of the given name for a process.
type Make func(p *Process, name string) redlatch.Locker

// Wiring is a kind of lock on a topology.
type Wiring struct {
	Name     string
	Topology Topology // Run sets it
	// New makes the lock under test.
	New Make
	// Rival makes what keeps the lock under test out, and is kept out by it and by itself. Nil: the same as New.
	Rival Make
	Traits
}

// Traits is what is particular about a kind. The zero value is a plain lock that polls and is shared by nobody.
type Traits struct {
	// Shared: several owners hold the lock under test at the same time, as readers do.
	Shared bool
	// NonReentrant: an owner that holds it gets redlatch.ErrReentry when it asks again.
	NonReentrant bool
	// Listens: waiters are woken by messages. Otherwise they ask again by themselves, within milliseconds.
	Listens bool
	// Together: all waiters of a process ask Redis, because many can enter or because Redis keeps their order. Otherwise only the first
	// does, and the others cost nothing.
	Together bool
	// Unordered: nobody keeps the order of those who wait, neither the process nor Redis, and all of them ask.
	Unordered bool
	// HandsOver: a release can give the lock straight to the next waiter of its process.
	HandsOver bool
	// Messages is how many a release that frees the lock publishes; 0: one.
	Messages int
	// OnlyLengthens: an extension to less time than is left frees the lock no sooner.
	OnlyLengthens bool
	// Composed: the lock is made of others, such as a multi-lock, and a Handle's queries are not there.
	Composed bool
	// ServerClock: what ends does so by the server's clock and not by the TTL of a key.
	ServerClock bool
	// Called is what the lock says its name is. Nil: the name that it was made with.
	Called func(name string) string
	// Key names one key of the lock, for a lock name that the name mapper has been through. Nil: the name itself.
	Key func(name string) string
	// Vital names the keys which, all of another type, keep the lock from working. Nil: Key alone.
	Vital func(name string) []string
	// Stays tells of a key that is meant to stay when nobody holds the lock any more. Nil: none is.
	Stays func(key string) bool
	// Forced tells of a key that a release by force leaves to its TTL. Nil: none is.
	Forced func(key string) bool
}

// Topology is a kind of Redis.
type Topology struct {
	Name string
	// Start runs one for the length of a test.
	Start func(t testing.TB) *Site
	// Counts: Site.Commands is there.
	Counts bool
	// Replicates: an acquisition that reached the server is followed by one WAIT, and now and then preceded by an INFO that counts replicas.
	// Otherwise there is neither.
	Replicates bool
	// OwnClock: TTLs do not go by the server's clock.
	OwnClock bool
	// Slow: a script takes milliseconds, so that promises that need many of them make do with fewer, and leave more time to those they
	// wait for.
	Slow bool
	// Lent: who has it keeps others waiting, so that promises that need much make do with less.
	Lent bool
}

func (t Topology) frugal() bool { return t.Slow || t.Lent }

// Site is a running Redis, and what a test can do with it beside locking.
type Site struct {
	// Servers are what a process has a client of each of; one, but for locks that spread over several.
	Servers []config.Servers
	// Keys are all keys that exist.
	Keys func(t testing.TB) []string
	// Channels are all channels that somebody listens to.
	Channels func(t testing.TB) []string
	// Do sends a command to where the key of a lock is.
	Do func(t testing.TB, args ...string)
	// Commands is how often clients sent each command since ResetCommands, those that scripts run included, by lower-case
	// name. Both are nil where nobody counts.
	Commands      func(t testing.TB) map[string]int64
	ResetCommands func(t testing.TB)
}

// Handle is what every lock that is not composed has beside redlatch.Locker.
type Handle interface {
	redlatch.Locker
	IsLocked(ctx context.Context) (bool, error)
	HoldCount(ctx context.Context, o redlatch.Owner) (int, error)
	RemainingTTL(ctx context.Context) (time.Duration, error)
	ForceUnlock(ctx context.Context) (bool, error)
	Inspect(ctx context.Context) (redlatch.Inspection, error)
}

// Process is one process in miniature: a client of each server of the site.
type Process struct {
	Clients []*redlatch.Client
}

// Client is the first client, the only one unless the site has several servers.
func (p *Process) Client() *redlatch.Client { return p.Clients[0] }

// Close closes all clients.
func (p *Process) Close() {
	for _, c := range p.Clients {
		_ = c.Close() // never fails
	}
}

// promise is one part of the contract.
type promise struct {
	name string
	// of says whether a wiring makes this promise; nil: all do.
	of   func(w Wiring) bool
	test func(s *stage)
}

// Run puts a wiring to the test on each of the topologies, and with the build tag "contract" on all that there are and that it is fit for:
// one subtest for each promise, all in parallel, each on a site of its own.
func Run(t *testing.T, w Wiring, on ...Topology) {
	t.Helper()
	if full {
		on = every(w)
	}
	t.Run(w.Name, func(t *testing.T) {
		t.Parallel()
		for _, topology := range on {
			t.Run(topology.Name, func(t *testing.T) {
				t.Parallel()
				w := w
				w.Topology = topology
				run(t, w)
			})
		}
	})
}

// every is all topologies that a wiring is fit for.
func every(w Wiring) []Topology {
	all := []Topology{RedisServer, Miniredis, Cluster, Sentinel, MasterSlave, Replicated}
	return slices.DeleteFunc(all, func(t Topology) bool { return w.ServerClock && t.OwnClock })
}

func run(t *testing.T, w Wiring) {
	t.Helper()
	if w.Rival == nil {
		w.Rival = w.New
	}
	if w.Key == nil {
		w.Key = func(name string) string { return name }
	}
	if w.Vital == nil {
		w.Vital = func(name string) []string { return []string{w.Key(name)} }
	}
	if w.Called == nil {
		w.Called = func(name string) string { return name }
	}
	if w.Stays == nil {
		w.Stays = func(string) bool { return false }
	}
	if w.Forced == nil {
		w.Forced = func(string) bool { return false }
	}
	for _, p := range contract() {
		if p.of != nil && !p.of(w) {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			p.test(newStage(t, w))
		})
	}
}

// contract is all promises.
func contract() []promise {
	var all []promise
	for _, part := range [][]promise{
		exclusionPromises, reentryPromises, unlockPromises, waitPromises, queuePromises, leasePromises, extendPromises,
		forcePromises, queryPromises, doPromises, closePromises, contextPromises, inputPromises, namePromises, handOffPromises, kindPromises,
	} {
		all = append(all, part...)
	}
	return all
}

// Which wirings make a promise.

func exclusive(w Wiring) bool    { return !w.Shared }
func reentrant(w Wiring) bool    { return !w.NonReentrant }
func nonReentrant(w Wiring) bool { return w.NonReentrant }
func counted(w Wiring) bool      { return w.Topology.Counts }
func inTurn(w Wiring) bool       { return !w.Together && !w.Unordered }
func ordered(w Wiring) bool      { return !w.Unordered }
func queried(w Wiring) bool      { return !w.Composed }
func listens(w Wiring) bool      { return w.Listens }
func handsOver(w Wiring) bool    { return w.HandsOver }

func both(a, b func(Wiring) bool) func(Wiring) bool {
	return func(w Wiring) bool { return a(w) && b(w) }
}
