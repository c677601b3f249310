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

// allGoOn has sixteen owners in four clients of both languages on two locks, and kills their master. Whatever is granted is one owner's alone,
// before, while and after; owners in Go meet no error; and everybody goes on at the new master.
//
// In Java a call can fail in a failover, and then the lock lasts for its TTL; or an acquisition counts twice, since it is sent again when its answer was
// lost, and the lock is kept for ever (HA-02). An application that minds releases it until it is released.
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
	state := func() (locks []string) {
		for _, k := range []kind{plain, write} {
			locks = append(locks, fmt.Sprint(m.MasterOf(t, name).Do(t, "HGETALL", "{"+name+"}:"+k.name).Map()))
		}
		return locks
	}
	come := func(from []int64) {
		t.Helper()
		var behind []string
		assert.Eventually(t, func() bool {
			behind = behind[:0]
			for i, w := range workers {
				if w.sections.Load() < from[i]+each {
					behind = append(behind, fmt.Sprintf("%T %s", w.party, w.field()))
				}
			}
			return len(behind) == 0 || t.Failed()
		}, 90*time.Second, 5*time.Millisecond)
		require.Empty(t, behind, "they do not get on; %s", state())
		require.False(t, t.Failed())
	}
	come(make([]int64, len(workers)))
	dead := m.MasterOf(t, name)
	dead.Kill(t)
	heir := m.AwaitHeir(t, dead)
	var before []int64
	for _, w := range workers {
		before = append(before, w.sections.Load())
	}
	come(before)
	over.Store(true)
	all.Wait()
	require.False(t, t.Failed())

	var sections, troubles, doubles int64
	for _, w := range workers {
		sections, troubles, doubles = sections+w.sections.Load(), troubles+w.troubles.Load(), doubles+w.doubles.Load()
	}
	t.Logf("interop-note: %d sections, 0 meetings; in Java %d calls failed and %d locks were kept after their release, in Go none", sections, troubles, doubles)
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
