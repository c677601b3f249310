package redlatch_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/locktest"
	"github.com/redlatch/redlatch/internal/locktest/probe"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/rlock"
)

// stressEnv is for how long TestRandomFaultsBreakNoPromise runs, as a duration.
const stressEnv = "REDLATCH_STRESS"

// Two processes work on two locks over lines that break at random: replies lost, requests cut, held back and executed late, connections
// killed. Whoever believes in its lock is alone with it, and when the faults end nothing is left.
func TestRandomFaultsBreakNoPromise(t *testing.T) {
	t.Parallel()
	length := 5 * time.Second
	if value := os.Getenv(stressEnv); value != "" {
		var err error
		length, err = time.ParseDuration(value)
		require.NoError(t, err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := newRig(t, ownWatchdog)
	w := &world{rig: r, rng: rand.New(rand.NewPCG(seed, 0)), stop: make(chan struct{})}
	second := redistest.NewRelay(t, r.server)
	r.other = probe.Open(t, second.URL(), hasty, ownWatchdog)
	for _, relay := range []*redistest.Relay{r.relay, second} {
		relay.OnRequest(w.fate)
		relay.OnMessage(func(redistest.Message) bool { return w.chance(80) })
	}

	var workers sync.WaitGroup
	for i := range 12 {
		client := []*redlatch.Client{r.client, r.other}[i%2]
		workers.Go(func() { w.work(client) })
	}
	timer := time.NewTimer(length)
	defer timer.Stop()
	<-timer.C
	close(w.stop)
	ended := make(chan struct{})
	go func() { workers.Wait(); close(ended) }()
	r.within(ended, "the end of the workers")
	for _, relay := range []*redistest.Relay{r.relay, second} {
		relay.OnRequest(nil)
	}
	t.Logf("%d times inside, %d entries again, %d losses, %d errors", w.entered.Load(), w.reentered.Load(), w.losses.Load(), w.errors.Load())
	require.Empty(t, w.broken(), "seed %d", seed)
	require.Positive(t, w.entered.Load())
	r.nothingLeft()
}

func ownWatchdog(c *config.Config) {
	c.LockWatchdogTimeout = locktest.Span(time.Second)
	c.RetryAttempts = 1
}

// world is what the workers share.
type world struct {
	*rig
	stop chan struct{}

	mu        sync.Mutex // guards the rest
	rng       *rand.Rand
	believing [2]*redlatch.Hold // who was let in last, until it leaves
	faults    []string

	entered, reentered, losses, errors atomic.Int64
}

func (w *world) chance(percent int) bool { return w.pick(100) < percent }

func (w *world) pick(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

func (w *world) broken() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.faults
}

// fate decides what becomes of a request. What is held back arrives within two command timeouts, or when the work is over.
func (w *world) fate(cmd []string) redistest.Action {
	if !redistest.SendsScript()(cmd) || !w.chance(15) {
		return redistest.Pass()
	}
	late := make(chan struct{})
	time.AfterFunc(time.Duration(w.pick(int(2*commandTimeout()))), func() { close(late) })
	switch w.pick(6) {
	case 0:
		return redistest.CutRequest()
	case 1, 2:
		return redistest.LoseReply()
	case 3:
		return redistest.HoldRequest(late)
	case 4:
		return redistest.HoldReply(late)
	default:
		return redistest.AnswerError("LOADING Redis is loading the dataset in memory")
	}
}

func (w *world) work(client *redlatch.Client) {
	for {
		select {
		case <-w.stop:
			return
		default:
		}
		which := w.pick(2)
		l := rlock.New(client, lockName+strconv.Itoa(which))
		ctx, cancel := context.WithCancel(context.Background())
		if w.chance(20) {
			time.AfterFunc(time.Duration(w.pick(int(commandTimeout()))), cancel)
		}
		opts := []redlatch.AcquireOption{redlatch.WithWait(time.Duration(w.pick(int(4 * commandTimeout()))))}
		if w.chance(30) {
			opts = append(opts, redlatch.WithLease(locktest.Span(time.Duration(50+w.pick(500))*time.Millisecond)))
		}
		hold, err := l.Lock(ctx, opts...)
		if err != nil {
			w.failed(err)
		} else {
			w.inside(l, which, hold)
		}
		cancel()
	}
}

// failed takes note of an error that is one of those to be expected.
func (w *world) failed(err error) {
	w.errors.Add(1)
	if errors.Is(err, redlatch.ErrReentry) || errors.Is(err, redlatch.ErrWrongType) || errors.Is(err, redlatch.ErrClosed) {
		w.complain("an error that has no reason: " + err.Error())
	}
}

func (w *world) complain(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, what)
}

// inside works under a lock: alone, as long as it believes.
func (w *world) inside(l *rlock.Lock, which int, hold *redlatch.Hold) {
	w.entered.Add(1)
	w.enter(which, hold)
	work := time.NewTimer(time.Duration(w.pick(int(commandTimeout() / 16))))
	defer work.Stop()
	if w.chance(30) {
		if inner, err := l.TryLock(redlatch.WithOwner(context.Background(), hold.Owner())); err == nil {
			w.reentered.Add(1)
			defer func() { w.unlocked(inner.Unlock(context.Background())) }()
		}
	}
	if w.chance(20) {
		_ = hold.Extend(context.Background(), locktest.Span(time.Duration(20+w.pick(800))*time.Millisecond)) // may fail
	}
	select {
	case <-work.C:
	case <-hold.Lost():
	}
	w.leave(which, hold)
	w.unlocked(hold.Unlock(context.Background()))
}

func (w *world) unlocked(err error) {
	if errors.Is(err, redlatch.ErrLost) {
		w.losses.Add(1)
	} else if err != nil {
		w.failed(err)
	}
}

// enter makes a holder the believer in a lock. Another one there must have stopped believing by now.
func (w *world) enter(which int, hold *redlatch.Hold) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if before := w.believing[which]; before != nil && before.Err() == nil && hold.Err() == nil {
		w.faults = append(w.faults, "two believe in one lock: "+before.Owner().String()+" and "+hold.Owner().String())
	}
	w.believing[which] = hold
}

func (w *world) leave(which int, hold *redlatch.Hold) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.believing[which] == hold {
		w.believing[which] = nil
	}
}
