package interop

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// worker takes a lock again and again.
type worker struct {
	party
	inside   *atomic.Int64 // how many are in the lock's section
	sections atomic.Int64  // that it came through
	troubles atomic.Int64  // calls that failed, in Java
	doubles  atomic.Int64  // releases that left the lock held, in Java
}

// loadOn are the kinds of the locks that a loaded failover is about, and their names, which lie on one master.
var loadOn = []kind{plain, write}

func loadedName(k kind) string { return "{" + name + "}:" + k.name }

// allGoOn has sixteen owners in four clients of each language on two locks, and kills their master. Whatever is granted is one owner's alone,
// before, while and after; owners in Go meet no error; and everybody goes on at the new master.
//
// In Java a call can fail in a failover, and then the lock lasts for its TTL; or an acquisition counts twice, since it is sent again when its answer was
// lost, and the lock is kept for ever (HA-02). An application that minds releases it until it is released.
func allGoOn(t *testing.T, m *mortal) {
	const each = 3 // sections of each worker before the failover, and after it
	all := newWorkers(t, m)
	end := all.start(t)
	all.goOn(t, m, each)
	dead := m.MasterOf(t, name)
	dead.Kill(t)
	heir := m.AwaitHeir(t, dead)
	all.goOn(t, m, each)
	end()
	require.False(t, t.Failed())

	var sections, troubles, doubles int64
	for _, w := range all {
		sections, troubles, doubles = sections+w.sections.Load(), troubles+w.troubles.Load(), doubles+w.doubles.Load()
	}
	t.Logf("interop-note: %d sections, 0 meetings; in Java %d calls failed and %d locks were kept after their release, in Go none", sections, troubles, doubles)
	require.Eventually(t, func() bool { return heir.Do(t, "EXISTS", loadedName(plain), loadedName(write)).Int() == 0 },
		2*mortalWatchdog, 20*time.Millisecond, "a lock stays behind")
}

type workers []*worker

func newWorkers(t *testing.T, m *mortal) (all workers) {
	t.Helper()
	for _, k := range loadOn {
		inside := new(atomic.Int64)
		for range 2 {
			goes, java := m.goClient(), m.javaClient()
			for i := range 2 {
				all = append(all,
					&worker{party: newGoParty(goes, k, loadedName(k)), inside: inside},
					&worker{party: newJavaParty(t, java, k.name+strconv.Itoa(i), k, loadedName(k)), inside: inside})
			}
		}
	}
	return all
}

// start lets them work until end is called, which waits for them.
func (all workers) start(t *testing.T) (end func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	var over atomic.Bool
	var working sync.WaitGroup
	for _, w := range all {
		working.Go(func() {
			for !over.Load() && ctx.Err() == nil && !t.Failed() {
				w.section(ctx, t)
			}
		})
	}
	t.Cleanup(func() { cancel(); working.Wait() })
	return func() { over.Store(true); working.Wait() }
}

// goOn returns when each of them has come through so many more sections.
func (all workers) goOn(t *testing.T, m *mortal, more int64) {
	t.Helper()
	from := make(map[*worker]int64)
	for _, w := range all {
		from[w] = w.sections.Load()
	}
	var behind []string
	for deadline := time.Now().Add(90 * time.Second); ; <-time.After(5 * time.Millisecond) {
		behind = behind[:0]
		for w, before := range from {
			if w.sections.Load() < before+more {
				behind = append(behind, fmt.Sprintf("%T %s", w.party, w.field()))
			}
		}
		require.False(t, t.Failed())
		if len(behind) == 0 {
			return
		}
		if time.Now().After(deadline) {
			break
		}
	}
	for _, k := range loadOn {
		t.Logf("%s: %v", k.name, m.MasterOf(t, name).Do(t, "HGETALL", loadedName(k)).Map())
	}
	require.Fail(t, "they do not get on", "%v", behind)
}

// section takes the lock, sees that it is alone, and releases it.
func (w *worker) section(ctx context.Context, t *testing.T) {
	if err := w.lock(ctx, 0); err != nil {
		w.failed(ctx, t, err)
		return
	}
	assert.EqualValues(t, 1, w.inside.Add(1), "two owners at a time")
	time.Sleep(time.Millisecond) // the work
	w.inside.Add(-1)
	if err := w.unlock(ctx); err != nil {
		w.failed(ctx, t, err)
	}
	w.sections.Add(1)
	if _, java := w.party.(*javaParty); !java {
		return
	}
	if count, err := w.holdCount(ctx); err == nil && count > 0 {
		w.doubles.Add(1)
		w.letGo(ctx)
	}
}

// failed is what an application in Java does about a call that failed: it may hold the lock, and even more than once.
func (w *worker) failed(ctx context.Context, t *testing.T, err error) {
	if ctx.Err() != nil {
		return
	}
	if _, java := w.party.(*javaParty); !java {
		assert.NoError(t, err)
		return
	}
	w.troubles.Add(1)
	w.letGo(ctx)
}

func (w *worker) letGo(ctx context.Context) {
	for err := error(nil); !errors.Is(err, errNotHeld) && ctx.Err() == nil; {
		err = w.unlock(ctx)
	}
}
