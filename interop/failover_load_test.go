package interop

import (
	"context"
	"errors"
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
}

// allGoOn has sixteen owners in four clients of both languages on two locks, and kills their master. Whatever is granted is one owner's alone,
// before, while and after; owners in Go meet no error; and everybody goes on at the new master.
//
// In Java a call can fail in a failover, and a lock whose release has failed lasts for its TTL; an application that minds tries again.
func allGoOn(t *testing.T, m *mortal) {
	const each = 3 // sections of each worker before the failover, and after it
	var workers []*worker
	for _, k := range []kind{plain, write} {
		on, inside := "{"+name+"}:"+k.name, new(atomic.Int64)
		for range 2 {
			goes, java := m.goClient(), m.javaClient()
			for i := range 2 {
				workers = append(workers,
					&worker{party: newGoParty(goes, k, on), inside: inside},
					&worker{party: newJavaParty(t, java, k.name+strconv.Itoa(i), k, on), inside: inside})
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var over atomic.Bool
	var all sync.WaitGroup
	t.Cleanup(all.Wait)
	t.Cleanup(func() { over.Store(true); cancel() })
	for _, w := range workers {
		all.Go(func() {
			for !over.Load() && ctx.Err() == nil && !t.Failed() {
				w.section(ctx, t)
			}
		})
	}
	come := func(from []int64) {
		t.Helper()
		require.Eventually(t, func() bool {
			for i, w := range workers {
				if w.sections.Load() < from[i]+each {
					return t.Failed()
				}
			}
			return true
		}, 90*time.Second, 5*time.Millisecond, "somebody does not get on")
		require.False(t, t.Failed())
	}
	come(make([]int64, len(workers)))
	dead := m.master()
	dead.Kill(t)
	heir := m.replaced(dead)
	var before []int64
	for _, w := range workers {
		before = append(before, w.sections.Load())
	}
	come(before)
	over.Store(true)
	all.Wait()
	require.False(t, t.Failed())

	var sections, troubles int64
	for _, w := range workers {
		sections, troubles = sections+w.sections.Load(), troubles+w.troubles.Load()
	}
	t.Logf("interop-note: %d sections, 0 meetings; %d calls failed in Java, none in Go", sections, troubles)
	require.Eventually(t, func() bool {
		return heir.Do(t, "EXISTS", "{"+name+"}:"+plain.name, "{"+name+"}:"+write.name).Int() == 0
	}, 2*mortalWatchdog, 20*time.Millisecond, "a lock stays behind")
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
	for err = nil; !errors.Is(err, errNotHeld) && ctx.Err() == nil; {
		err = w.unlock(ctx)
	}
}
