package fencedlock_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/fencedlock"
	"github.com/redlatch/redlatch/fencedlock/gate"
	"github.com/redlatch/redlatch/internal/locktest"
	"github.com/redlatch/redlatch/internal/locktest/probe"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/lua"
)

// runs fits the requests that run a script of the catalog.
func runs(script string) func(cmd []string) bool {
	for _, s := range lua.Catalog() {
		if s.Name == script {
			return func(cmd []string) bool {
				return len(cmd) > 1 && (cmd[1] == s.SHA1 || cmd[1] == s.Source)
			}
		}
	}
	panic("no script " + script)
}

// patiently makes hand-offs end by nothing.
func patiently(c *config.Config) { c.HandOffLimit, c.HandOffWindow = 10_000, time.Minute }

// ledger is what the holders write down, each under the lock.
type ledger struct {
	mu     sync.Mutex
	tokens []int64 // guarded by mu
}

func (l *ledger) note(h *redlatch.Hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tokens = append(l.tokens, h.Token())
}

// rising says that the tokens were written down in their order, without one that two holders had.
func (l *ledger) rising(t *testing.T) []int64 {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	require.IsIncreasing(t, l.tokens)
	return l.tokens
}

// upTo are the numbers from 1 to n.
func upTo(n int64) []int64 {
	var all []int64
	for i := range n {
		all = append(all, i+1)
	}
	return all
}

// FE-01, FE-02, FE-08: over clients that wait for each other, hand over within a process and enter again, tokens grow with
// each acquisition, and none is left out.
func TestTokensGrowOverClientsHandOffsAndReentries(t *testing.T) {
	t.Parallel()
	const clients, workers, rounds = 3, 4, 15
	server := redistest.Start(t)
	seen := server.Monitor(t)
	var book ledger
	var wg sync.WaitGroup
	for i := range clients {
		changes := []func(*config.Config){}
		if i > 0 {
			changes = append(changes, patiently)
		}
		client := probe.Open(t, server.URL(), changes...)
		for range workers {
			wg.Go(func() {
				l := fencedlock.New(client, name)
				for range rounds {
					if err := work(l, &book); err != nil {
						t.Errorf("work under the lock: %v", err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	tokens := book.rising(t)
	require.GreaterOrEqual(t, len(tokens), clients*workers*rounds)
	require.Equal(t, upTo(int64(len(tokens))), tokens, "nothing else draws tokens")
	counter(t, server, int64(len(tokens)))

	handOver, handedOver := runs("fenced_hand_over"), 0
	for _, c := range seen.Commands(t) {
		if handOver(c.Args) {
			handedOver++
		}
	}
	require.NotZero(t, handedOver, "the test is meant to see hand-offs too")
}

// work takes the lock in one of several ways, and sometimes enters it again.
func work(l *fencedlock.Lock, book *ledger) error {
	var opts []redlatch.AcquireOption
	if rand.IntN(2) == 0 {
		opts = append(opts, redlatch.WithLease(time.Hour))
	}
	return redlatch.Do(context.Background(), entered{l, book}, func(ctx context.Context) error {
		if rand.IntN(3) > 0 {
			return ctx.Err()
		}
		return redlatch.Do(ctx, entered{l, book}, func(ctx context.Context) error { return ctx.Err() }, opts...)
	}, opts...)
}

// entered is a lock whose holds are written down.
type entered struct {
	redlatch.Locker
	book *ledger
}

func (e entered) Lock(ctx context.Context, opts ...redlatch.AcquireOption) (*redlatch.Hold, error) {
	h, err := e.Locker.Lock(ctx, opts...)
	if err == nil {
		e.book.note(h)
	}
	return h, err
}

// Of waiters that leave, of leases that run out under their holders and of locks that are freed by force, no two acquisitions have
// one token, and those that are there at the same time with an old one are told apart by it.
func TestTokensGrowThroughLossesAndThoseWhoGiveUp(t *testing.T) {
	t.Parallel()
	const clients, workers, rounds = 2, 4, 12
	server := redistest.Start(t)
	var mu sync.Mutex
	var all []int64 // guarded by mu: in no order, for a lost hold's owner may be late with its note
	var wg sync.WaitGroup
	for range clients {
		client := probe.Open(t, server.URL(), patiently)
		for range workers {
			wg.Go(func() {
				l := fencedlock.New(client, name)
				for range rounds {
					before, err := l.Token(context.Background())
					if err != nil {
						t.Errorf("read the token: %v", err)
						return
					}
					h := disturbed(t, l)
					if h == nil {
						continue
					}
					if h.Token() <= before {
						t.Errorf("token %d was drawn after %d had been read", h.Token(), before)
					}
					mu.Lock()
					all = append(all, h.Token())
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	require.NotEmpty(t, all)
	slices.Sort(all)
	require.IsIncreasing(t, all, "a token was drawn twice")
	newest, err := fencedlock.New(probe.Open(t, server.URL()), name).Token(context.Background())
	require.NoError(t, err)
	require.GreaterOrEqual(t, newest, all[len(all)-1])
}

// disturbed takes the lock and loses or releases it, or gives up waiting for it; nil then.
func disturbed(t *testing.T, l *fencedlock.Lock) *redlatch.Hold {
	fate := rand.IntN(4)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var opts []redlatch.AcquireOption
	switch fate {
	case 0: // gives up when it may just be getting the lock
		opts = append(opts, redlatch.WithWait(time.Duration(rand.IntN(2000))*time.Microsecond))
	case 1:
		opts = append(opts, redlatch.WithLease(locktest.Span(20*time.Millisecond)))
	}
	h, err := l.Lock(ctx, opts...)
	switch {
	case err != nil && fate > 1:
		t.Errorf("lock: %v", err)
		return nil
	case err != nil:
		return nil
	}
	switch fate {
	case 1:
		<-h.Lost()
		return h // and leaves it to expire
	case 2:
		if _, err := l.ForceUnlock(ctx); err != nil {
			t.Errorf("force unlock: %v", err)
		}
		return h
	}
	_ = h.Unlock(ctx) // ErrLost where somebody else freed it by force
	return h
}

// A request whose answer was lost may have drawn a token already. The hold that comes of it has one that is the newest all the same.
func TestLostAnswerLeavesTheHoldWithTheNewestToken(t *testing.T) {
	t.Parallel()
	for _, script := range []string{"fenced_acquire", "fenced_reenter", "fenced_hand_over"} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			relay := redistest.NewRelay(t, server)
			l := fencedlock.New(probe.Open(t, relay.URL(), patiently), name)
			draw := func() *redlatch.Hold {
				outer := probe.Take(t, l)
				inner := probe.TakeAs(t, outer.Context(), l)
				require.Greater(t, inner.Token(), outer.Token())
				waiter := probe.Start(t, context.Background(), l)
				// The waiter can be handed the lock when it listens.
				probe.Until(t, func() bool { return len(server.Channels(t)) > 0 })
				_, err := l.TryLock(context.Background()) // answered after the waiter's second attempt: they share a connection
				require.ErrorIs(t, err, redlatch.ErrNotAcquired)
				_ = inner.Unlock(context.Background())
				_ = outer.Unlock(context.Background()) // an error when it is this answer that was lost
				next := waiter.Succeeds()
				require.Greater(t, next.Token(), inner.Token())
				return next
			}
			first := draw()
			probe.Release(t, first)
			trap := relay.Next(runs(script), redistest.LoseReply())
			last := draw()
			for tries := 0; !sprung(trap); tries++ { // the waiter was just asking for itself, and so not handed the lock
				require.Less(t, tries, 100)
				probe.Release(t, last)
				last = draw()
			}
			trap.AwaitReply(t)
			counter(t, server, last.Token())
			probe.Release(t, last)
		})
	}
}

func sprung(trap *redistest.Trap) bool {
	select {
	case <-trap.Requested():
		return true
	default:
		return false
	}
}

// FE-08: the holder that went on after its lock had passed to somebody else has an older token, at whatever gate.
func TestLateWriterHasTheOlderToken(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l, next := fencedlock.New(probe.Open(t, server.URL()), name), fencedlock.New(probe.Open(t, server.URL()), name)
	var resource gate.Memory
	for range 5 {
		late := probe.Take(t, l, redlatch.WithLease(time.Hour))
		server.Do(t, "PEXPIRE", name, "1") // its lease ends, and it does not notice
		hold := probe.Take(t, next)
		require.NoError(t, late.Err())
		require.Greater(t, hold.Token(), late.Token())
		require.NoError(t, resource.Admit(name, hold.Token()))
		require.ErrorIs(t, resource.Admit(name, late.Token()), gate.ErrStale)
		probe.Release(t, hold)
		require.ErrorIs(t, resource.Admit(name, late.Token()), gate.ErrStale, "nor when the lock is free again")
		require.ErrorIs(t, late.Unlock(context.Background()), redlatch.ErrLost)
	}
}

// FE-05: who deletes the counter lets tokens begin anew. A gate refuses them then until they have grown beyond what it knows.
func TestGateRefusesTokensThatBeganAnew(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l := fencedlock.New(probe.Open(t, server.URL()), name)
	var resource gate.Memory
	var newest int64
	for range 3 {
		hold := probe.Take(t, l)
		newest = hold.Token()
		require.NoError(t, resource.Admit(name, newest))
		probe.Release(t, hold)
	}
	server.Do(t, "DEL", tokenKey)
	for range newest - 1 {
		hold := probe.Take(t, l)
		require.ErrorIs(t, resource.Admit(name, hold.Token()), gate.ErrStale)
		probe.Release(t, hold)
	}
	hold := probe.Take(t, l)
	require.NoError(t, resource.Admit(name, hold.Token()))
	probe.Release(t, hold)
}
