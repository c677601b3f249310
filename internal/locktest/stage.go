package locktest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/locktest/probe"
)

const (
	// patience is short enough to tell a wake-up from the TTL of a lock, which is 30 s unless a promise says otherwise.
	patience = probe.Patience
	// slack is by how much a wait may be longer than asked, on a machine that is busy with other tests.
	slack = 3 * time.Second
)

// lockName is the name of the lock of most promises: each has a site of its own.
const lockName = "order:1001"

// stage is where one promise is put to the test.
type stage struct {
	t *testing.T
	*require.Assertions
	wiring Wiring
	site   *Site
}

func newStage(t *testing.T, w Wiring) *stage {
	t.Helper()
	return &stage{t: t, Assertions: require.New(t), wiring: w, site: w.Topology.Start(t)}
}

// process opens the clients of one more process; they are closed with the test.
func (s *stage) process(changes ...func(*config.Config)) *Process {
	s.t.Helper()
	return s.observed(nil, changes...)
}

// observed is process with an observer.
func (s *stage) observed(o redlatch.Observer, changes ...func(*config.Config)) *Process {
	s.t.Helper()
	p := new(Process)
	for _, servers := range s.site.Servers {
		p.Clients = append(p.Clients, probe.Client(s.t, config.Config{Servers: servers}, changes, redlatch.WithObserver(o)))
	}
	return p
}

// lock is the lock under test, rival what excludes it.
func (s *stage) lock(p *Process) redlatch.Locker  { return s.wiring.New(p, lockName) }
func (s *stage) rival(p *Process) redlatch.Locker { return s.wiring.Rival(p, lockName) }

// handle is the lock under test with its queries.
func (s *stage) handle(p *Process) Handle {
	s.t.Helper()
	h, ok := s.lock(p).(Handle)
	s.True(ok, "the lock has no queries; mark its wiring as Composed if that is meant")
	return h
}

// take takes a lock that must be free, or become so.
func (s *stage) take(ctx context.Context, l redlatch.Locker, opts ...redlatch.AcquireOption) *redlatch.Hold {
	s.t.Helper()
	return probe.TakeAs(s.t, ctx, l, opts...)
}

// release releases a hold that must be live.
func (s *stage) release(h *redlatch.Hold) {
	s.t.Helper()
	probe.Release(s.t, h)
}

// isHeld says that l can't be had: somebody holds it against this owner.
func (s *stage) isHeld(l redlatch.Locker) {
	s.t.Helper()
	probe.IsHeld(s.t, l)
}

// isFree says that nobody holds l.
func (s *stage) isFree(l redlatch.Locker) {
	s.t.Helper()
	probe.IsFree(s.t, l)
}

// becomesFree waits until nobody holds l.
func (s *stage) becomesFree(l redlatch.Locker) {
	s.t.Helper()
	s.release(s.take(context.Background(), l))
}

// nothingLeft waits until nothing of any lock is in Redis.
func (s *stage) nothingLeft() {
	s.t.Helper()
	s.onlyLeft(s.wiring.Stays)
}

// nothingLeftButForced is nothingLeft after a release by force.
func (s *stage) nothingLeftButForced() {
	s.t.Helper()
	s.onlyLeft(func(key string) bool { return s.wiring.Stays(key) || s.wiring.Forced(key) })
}

// onlyLeft waits until only keys that may stay are in Redis.
func (s *stage) onlyLeft(may func(key string) bool) {
	s.t.Helper()
	if s.site.Keys == nil {
		return
	}
	var left []string
	for deadline := time.Now().Add(patience); ; <-time.After(2 * time.Millisecond) {
		left = slices.DeleteFunc(s.site.Keys(s.t), may)
		if len(left) == 0 {
			return
		}
		s.True(time.Now().Before(deadline), "keys stay behind: %q", left)
	}
}

// until waits for something that only asking again and again can tell.
func (s *stage) until(so func() bool) {
	s.t.Helper()
	probe.Until(s.t, so)
}

// rounds is how often to try what goes wrong only now and then.
func (s *stage) rounds(n int) int {
	if s.wiring.Topology.frugal() {
		return n / 4
	}
	return n
}

// complain is Errorf of the test, for goroutines beside it.
func (s *stage) complain(format string, args ...any) { s.t.Errorf(format, args...) }

// sends runs f and returns how many commands clients sent to Redis meanwhile, each by its name. The promise must be made by counted
// topologies only, and nothing else must go on.
func (s *stage) sends(f func()) map[string]int64 {
	s.t.Helper()
	s.site.ResetCommands(s.t)
	f()
	return s.site.Commands(s.t)
}

// sendsNothing says that f sends nothing, where that can be seen.
func (s *stage) sendsNothing(f func()) {
	s.t.Helper()
	if !s.wiring.Topology.Counts {
		f()
		return
	}
	sent := s.sends(f)
	if s.wiring.Topology.Replicates { // a moment after a release its client asks whether a replica has it
		delete(sent, "set")
		delete(sent, "wait")
	}
	s.Empty(sent, "commands were sent")
}

// keys are those that exist, without what only tells requests apart.
func (s *stage) keys() []string {
	s.t.Helper()
	return probe.Locks(s.site.Keys(s.t))
}

// within fails the test unless done is closed soon.
func (s *stage) within(done <-chan struct{}, what string) {
	s.t.Helper()
	probe.Within(s.t, done, what)
}

// finishes waits for goroutines that do a lot of work. Since they all compete for the same lock, a machine that is busy with other
// tests slows each of their steps.
func (s *stage) finishes(wg *sync.WaitGroup, what string) {
	s.t.Helper()
	ended := make(chan struct{})
	go func() {
		wg.Wait()
		close(ended)
	}()
	probe.WithinLimit(s.t, 8*patience, ended, what)
}
