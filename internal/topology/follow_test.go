package topology

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/config"
)

// followed is a topology whose discoverer counts how often it is asked, and says who the master is.
type followed struct {
	*Topology
	asked  atomic.Int32
	master atomic.Value
}

func newFollowed(t *testing.T) *followed {
	t.Helper()
	f := &followed{Topology: bare(t, config.Config{Servers: config.Replicated("redis://a:1"), ScanInterval: time.Minute})}
	f.master.Store("a:1")
	f.changed = func(func(string) bool) {}
	f.discover = func(context.Context) (draft, error) {
		f.asked.Add(1)
		return draft{masters: []string{f.master.Load().(string)}}, nil
	}
	f.follower.Go(f.follow)
	return f
}

// meets has requests meet trouble for so long, far more often than the servers may be asked.
func (f *followed) meets(trouble time.Duration) {
	for began := time.Now(); time.Since(began) < trouble; time.Sleep(10 * time.Millisecond) {
		f.Stir()
	}
	synctest.Wait()
}

// However many requests fail while a master is dead, the others are asked two or three times a second.
func TestOutageIsNoStormOfQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFollowed(t)
		f.meets(5 * time.Second) // at the begin more often
		asked := f.asked.Swap(0)
		require.Greater(t, asked, int32(5))
		require.Less(t, asked, int32(30))
		f.meets(time.Minute)
		asked = f.asked.Swap(0)
		require.Greater(t, asked, int32(100))
		require.Less(t, asked, int32(200))
	})
}

// Of a new master the next question tells, however long the old one has been dead.
func TestEndOfAnOutageIsFoundOutWithinMoments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFollowed(t)
		f.meets(time.Minute)
		f.master.Store("b:1")
		f.meets(2 * time.Second) // the pace and its jitter
		require.Equal(t, "b:1", f.Master("lock").address)
	})
}

// After an outage it is as it was before: the scan interval alone.
func TestWithoutTroubleTheScanIntervalIsThePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFollowed(t)
		f.meets(time.Second)
		time.Sleep(troubleLasts + time.Minute)
		synctest.Wait()
		f.asked.Store(0)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		require.Equal(t, int32(10), f.asked.Load())
	})
}

// A server that nobody names any more keeps its connections for a while, since it may come back; then it is closed, so that servers which come
// and go leave nothing behind.
func TestServerThatHasLeftIsClosedAfterAWhileUnlessItComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top := bare(t, config.Config{Servers: config.Cluster("redis://seed:1")})
		kept := make(map[nodeKey]*Node)
		for _, address := range []string{"master:1", "replica:1", "seed:1"} {
			kept[nodeKey{address, dataRole}] = top.node(address, dataRole)
		}
		gone := top.node("gone:1", dataRole)
		passes := func(d time.Duration, masters ...string) {
			time.Sleep(d)
			top.retire(masters)
		}
		top.named = []string{"replica:1"}
		passes(0, "master:1", "gone:1")
		passes(time.Hour, "master:1") // it was seen until now
		passes(retireAfter, "master:1")
		require.Len(t, top.nodes, 4)
		passes(time.Second, "master:1", "gone:1")
		passes(time.Second, "master:1")
		passes(retireAfter, "master:1")
		require.Same(t, gone, top.node("gone:1", dataRole), "since it came back the time counts anew")
		passes(time.Second, "master:1")
		_, err := gone.conn(t.Context())
		require.ErrorIs(t, err, errRetired)
		require.Equal(t, kept, top.nodes)
		require.NotSame(t, gone, top.node("gone:1", dataRole), "who comes later is a new one")
	})
}
