//go:build soak

package redlatch_test

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/fairlock"
	"github.com/redlatch/redlatch/fencedlock"
	"github.com/redlatch/redlatch/internal/locktest/probe"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/rlock"
	"github.com/redlatch/redlatch/rwlock"
)

// TestSoakLocksExcludeThroughFaults lets two clients do everything that can be done with locks of all kinds, while requests and
// answers are cut, lost, held back and refused. No two live holds of different owners may exclude each other and both be
// believed in, tokens must grow, and nothing may be left behind.
func TestSoakLocksExcludeThroughFaults(t *testing.T) {
	seconds, err := strconv.Atoi(os.Getenv("REDLATCH_SOAK_SECONDS"))
	require.NoError(t, err, "REDLATCH_SOAK_SECONDS says how long")
	server := redistest.Start(t)
	relay := redistest.NewRelay(t, server)
	s := &soak{arenas: make(map[string]*arena)}
	clients := []*redlatch.Client{s.open(t, relay.URL()), s.open(t, server.URL())}
	relay.OnRequest(soakFault)

	until := time.Now().Add(time.Duration(seconds) * time.Second)
	var workers sync.WaitGroup
	for i := range 24 {
		locks := s.locks(clients[i%2])
		workers.Go(func() {
			for time.Now().Before(until) {
				s.work(t, locks[rand.N(len(locks))])
			}
		})
	}
	workers.Wait()
	relay.OnRequest(func([]string) redistest.Action { return redistest.Pass() })
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for _, c := range clients {
		require.NoError(t, c.Shutdown(ctx), "requests in doubt were never settled")
	}
	left := func() []string {
		return slices.DeleteFunc(probe.Locks(server.Do(t, "KEYS", "*").Texts()), func(key string) bool {
			return strings.HasPrefix(key, config.TokenPrefix+":")
		})
	}
	if !assert.Eventually(t, func() bool { return len(left()) == 0 }, 10*time.Second, 50*time.Millisecond) {
		t.Errorf("left behind: %q\n%s", left(), server.Snapshot(t))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Positive(t, s.holds)
	t.Logf("%d holds in %d s", s.holds, seconds)
}

// soakFault does something to one command of a script in twenty.
func soakFault(cmd []string) redistest.Action {
	later := func() chan struct{} {
		c := make(chan struct{})
		time.AfterFunc(rand.N(500*time.Millisecond), func() { close(c) })
		return c
	}
	if cmd[0] != "EVALSHA" {
		return redistest.Pass()
	}
	switch rand.N(100) {
	case 0:
		return redistest.CutRequest()
	case 1:
		return redistest.LoseReply()
	case 2:
		return redistest.HoldReply(later())
	case 3:
		return redistest.HoldRequest(later())
	case 4:
		return redistest.AnswerError("LOADING Redis is loading the dataset in memory")
	default:
		return redistest.Pass()
	}
}

type soak struct {
	mu     sync.Mutex
	arenas map[string]*arena // guarded by mu, like what is in them
	holds  int
}

// arena is what is known of one lock: who believes to be in, and the newest token.
type arena struct {
	inside map[*redlatch.Hold]bool // whether it shares
	token  int64
}

type soakLock struct {
	redlatch.Locker
	arena  *arena
	shared bool
}

func (s *soak) open(t *testing.T, url string) *redlatch.Client {
	t.Helper()
	return probe.Client(t, config.Config{
		Servers: config.Single(url), LockWatchdogTimeout: 2 * time.Second, Timeout: 300 * time.Millisecond,
		RetryDelay:   config.Delay{Min: 5 * time.Millisecond, Max: 20 * time.Millisecond},
		FallbackPoll: 400 * time.Millisecond, SubscriptionLinger: 50 * time.Millisecond, FairLockWaitTimeout: 2 * time.Second,
	}, nil)
}

func (s *soak) locks(c *redlatch.Client) []soakLock {
	in := func(name string, l redlatch.Locker, shared bool) soakLock {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.arenas[name] == nil {
			s.arenas[name] = &arena{inside: make(map[*redlatch.Hold]bool)}
		}
		return soakLock{l, s.arenas[name], shared}
	}
	rw := rwlock.New(c, "read-write")
	return []soakLock{
		in("plain", rlock.New(c, "plain"), false),
		in("fair", fairlock.New(c, "fair"), false),
		in("fenced", fencedlock.New(c, "fenced"), false),
		in("read-write", rw.Read(), true),
		in("read-write", rw.Write(), false),
	}
}

// work takes a lock in some way, and may extend it, enter it again and leave it in any order.
func (s *soak) work(t *testing.T, l soakLock) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond+rand.N(400*time.Millisecond))
	defer cancel()
	if rand.N(2) == 0 {
		ctx = redlatch.WithThreadID(ctx, int64(rand.N(3)+1)) // shared by several workers
	}
	var opts []redlatch.AcquireOption
	if rand.N(3) == 0 {
		opts = append(opts, redlatch.WithLease(50*time.Millisecond+rand.N(500*time.Millisecond)))
	}
	if rand.N(2) == 0 {
		opts = append(opts, redlatch.WithWait(rand.N(150*time.Millisecond)))
	}
	s.nest(ctx, t, l, opts, 0)
}

func (s *soak) nest(ctx context.Context, t *testing.T, l soakLock, opts []redlatch.AcquireOption, depth int) {
	hold, err := l.Lock(ctx, opts...)
	if err != nil {
		return // whatever the reason: nothing is held
	}
	s.enter(t, l, hold)
	if rand.N(4) == 0 {
		_ = hold.Extend(ctx, 10*time.Millisecond+rand.N(time.Second))
	}
	if depth < 3 && rand.N(3) == 0 {
		s.nest(hold.Context(), t, l, opts, depth+1)
	}
	select { // some stay for longer than their lease
	case <-time.After(rand.N(20 * time.Millisecond)):
	case <-hold.Lost():
	}
	s.mu.Lock()
	delete(l.arena.inside, hold)
	s.mu.Unlock()
	_ = hold.Unlock(ctx) // ErrLost is to be expected here
}

// enter holds a new hold against those that are believed in.
func (s *soak) enter(t *testing.T, l soakLock, hold *redlatch.Hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds++
	for other, shared := range l.arena.inside {
		if other.Owner() == hold.Owner() || shared && l.shared {
			continue
		}
		// The other is asked last: what ended before the new one began does not count.
		if hold.Err() == nil && other.Err() == nil {
			t.Errorf("%s: %v and %v hold it at a time", l.Name(), other.Owner(), hold.Owner())
		}
	}
	if token := hold.Token(); token > 0 && hold.Err() == nil {
		if token <= l.arena.token && len(l.arena.inside) == 0 {
			t.Errorf("%s: token %d after %d", l.Name(), token, l.arena.token)
		}
		l.arena.token = max(l.arena.token, token)
	}
	l.arena.inside[hold] = l.shared
}
