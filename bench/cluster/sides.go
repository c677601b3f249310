package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/interop/javaagent"
	"github.com/redlatch/redlatch/rlock"
)

// callers is how many take locks at the same time, on both sides.
const callers = 64

// side is one of those who are compared, connected to the rig with default settings.
type side interface {
	// hold takes all locks of the rig without a lease. It returns how long that took and by how much the heap has grown, garbage apart.
	hold(ctx context.Context) (took time.Duration, heap int64, err error)
	// told is how many holders know that their lock has gone.
	told(ctx context.Context) (int, error)
	close(ctx context.Context) error
}

// open connects a side.
func (b *bench) open(ctx context.Context, name string, r *rig) (side, error) {
	switch name {
	case "redlatch":
		return openRedlatch(ctx, r, b.plan.watchdog)
	case "redisson":
		return b.openRedisson(ctx, r)
	default:
		return nil, fmt.Errorf("there are the sides redlatch and redisson, not %q", name)
	}
}

// redlatchSide is a client in this process, in which the proxies are too.
type redlatchSide struct {
	client *redlatch.Client
	names  []string
	holds  []*redlatch.Hold // in the order of names
	seen   *losses
}

func openRedlatch(ctx context.Context, r *rig, watchdog time.Duration) (*redlatchSide, error) {
	s := &redlatchSide{names: r.names, seen: &losses{at: make(map[string]time.Time)}}
	cfg := config.Config{Servers: r.cluster.Servers(), LockWatchdogTimeout: watchdog}
	var err error
	s.client, err = redlatch.Open(ctx, cfg, redlatch.WithObserver(s.seen))
	return s, err
}

func (s *redlatchSide) hold(ctx context.Context) (time.Duration, int64, error) {
	s.holds = make([]*redlatch.Hold, len(s.names))
	heap, began := liveHeap(), time.Now()
	var next atomic.Int64
	var failure atomic.Pointer[error]
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(s.names) && ctx.Err() == nil && failure.Load() == nil; i = int(next.Add(1)) - 1 {
				hold, err := rlock.New(s.client, s.names[i]).Lock(context.WithoutCancel(ctx))
				if err != nil {
					failure.Store(&err)
					return
				}
				s.holds[i] = hold
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	if err := failure.Load(); err != nil {
		return took, 0, *err
	}
	return took, liveHeap() - heap, context.Cause(ctx)
}

func (s *redlatchSide) told(context.Context) (int, error) { return s.seen.count(), nil }

func (s *redlatchSide) close(context.Context) error { return s.client.Close() }

// validUntil is until when each lock is trusted, by its name.
func (s *redlatchSide) validUntil() map[string]time.Time {
	ends := make(map[string]time.Time, len(s.names))
	for i, name := range s.names {
		ends[name] = s.holds[i].ValidUntil()
	}
	return ends
}

// liveHeap is the size of what is reachable.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC() // what the first one found to be finalised is gone after the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // no heap is as large as that
}

// losses notes when each holder was told that its lock has gone.
type losses struct {
	mu sync.Mutex
	at map[string]time.Time // guarded by mu: by the lock's name
}

func (l *losses) Observe(e redlatch.Event) {
	if e.Kind != redlatch.EventLost {
		return
	}
	l.mu.Lock()
	l.at[e.Name] = time.Now()
	l.mu.Unlock()
}

func (l *losses) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.at)
}

// latest is by how much the last of those that were told was told after its end; negative when all were told before.
func (l *losses) latest(ends map[string]time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	latest := -time.Hour
	for name, at := range l.at {
		latest = max(latest, at.Sub(ends[name]))
	}
	return latest
}

// lazyJVM is one JVM for all runs, started by the first that needs it.
type lazyJVM struct{ agent *javaagent.Agent }

func (j *lazyJVM) get(ctx context.Context) (*javaagent.Agent, error) {
	if j.agent != nil {
		return j.agent, nil
	}
	var err error
	j.agent, err = javaagent.Start(ctx, javaagent.Options{JVMDefaults: true})
	if err == nil {
		fmt.Printf("# Redisson %s, Java %s\n", j.agent.Redisson(), j.agent.Java())
	}
	return j.agent, err
}

func (j *lazyJVM) close() {
	if j.agent == nil {
		return
	}
	if err := j.agent.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "bench-cluster:", err)
	}
}

// redissonSide is a client in the JVM.
type redissonSide struct {
	client  *javaagent.Client
	locks   int
	holding *javaagent.Holding
}

func (b *bench) openRedisson(ctx context.Context, r *rig) (*redissonSide, error) {
	agent, err := b.jvm.get(ctx)
	if err != nil {
		return nil, err
	}
	yaml := fmt.Sprintf("lockWatchdogTimeout: %d\nclusterServersConfig:\n  nodeAddresses:\n", b.plan.watchdog.Milliseconds()) + yamlList(r.cluster.Addresses())
	client, err := agent.Open(ctx, b.name, yaml)
	return &redissonSide{client: client, locks: len(r.names)}, err
}

func (s *redissonSide) hold(ctx context.Context) (time.Duration, int64, error) {
	var err error
	if s.holding, err = s.client.HoldMany(ctx, lockPrefix, s.locks, callers); err != nil {
		return 0, 0, err
	}
	return s.holding.Elapsed, s.holding.HeapBytes, nil
}

func (s *redissonSide) told(ctx context.Context) (int, error) { return s.holding.Told(ctx) }

func (s *redissonSide) close(ctx context.Context) error { return s.client.Close(ctx) }
