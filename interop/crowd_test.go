//go:build crowd

package interop

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// late is by how much somebody may be late who had to come at a given time, on a machine with more to do than it can.
const late = time.Second

// TestCrowds has many owners in several processes of both languages on one lock, and kills some.
func TestCrowds(t *testing.T) { onEach(t, crowds) }

func crowds(t *testing.T, on *topology) {
	w := newWorld(t, on)
	t.Run("a fair lock passes in the order of arrival over five processes", func(t *testing.T) { passesInOrder(t, w) })
	t.Run("readers and writers never meet", func(t *testing.T) { meetNever(t, on) })
	t.Run("readers and writers pass the lock on at once", func(t *testing.T) { handOn(t, on) })
	t.Run("a killed process", func(t *testing.T) {
		t.Run("in Go in a fair queue is passed over at its time of death", func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, on, 3*time.Second)
			victim := w.child(t, f, fair, 2)
			passesOver(t, f, victim.owners, func() { victim.kill(t) },
				javaOwners(t, agent, f, fair, 1)[0], w.child(t, f, fair, 1).owners[0])
		})
		t.Run("in Java in a fair queue is passed over at its time of death", func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, on, 3*time.Second)
			victims := javaOwners(t, w.second, f, fair, 2)
			passesOver(t, f, victims, func() { require.NoError(t, w.second.Kill()) },
				w.child(t, f, fair, 1).owners[0], javaOwners(t, agent, f, fair, 1)[0])
		})
		for _, language := range []string{"Go", "Java"} {
			t.Run("leaves a reader that goes with the next one to leave, in "+language, func(t *testing.T) {
				t.Parallel()
				zombieGoesWithReader(t, w, language == "Java")
			})
			t.Run("leaves a reader that keeps a writer out until its lease is over, beside "+language, func(t *testing.T) {
				t.Parallel()
				zombieGoesWithLease(t, w, language == "Java")
			})
		}
	})
}

// queue is a fair lock's in Redis.
type queue struct {
	f *fleet
	t *testing.T
}

func (q queue) fields() []string {
	return q.f.server.Do(q.t, "LRANGE", "redisson_lock_queue:{"+name+"}", "0", "-1").Texts()
}

// scores are the times of death, in milliseconds since the epoch.
func (q queue) scores() map[string]int64 {
	scores := make(map[string]int64)
	for field, score := range q.f.server.Do(q.t, "ZRANGE", "redisson_lock_timeout:{"+name+"}", "0", "-1", "WITHSCORES").Map() {
		ms, err := strconv.ParseFloat(score, 64)
		require.NoError(q.t, err)
		scores[field] = int64(ms)
	}
	return scores
}

// entry is an acquisition.
type entry struct {
	place int
	at    time.Time
	err   error
}

// stand makes an owner the last in the queue and returns when it stands there. Its entry comes by the channel.
func (q queue) stand(ctx context.Context, place int, who caller, wait time.Duration, entered chan<- entry) {
	q.t.Helper()
	go func() {
		got := true
		var err error
		if wait == 0 {
			err = who.lock(ctx, 0)
		} else {
			got, err = who.tryLock(ctx, wait, 0)
		}
		e := entry{place: place, at: time.Now(), err: err}
		if err == nil && !got {
			e.err = fmt.Errorf("refused after %v", wait)
		}
		entered <- e
	}()
	require.Eventually(q.t, func() bool {
		fields := q.fields()
		return len(fields) == place+1 && fields[place] == who.field()
	}, 15*time.Second, 2*time.Millisecond)
}

// passesInOrder (FL-01, FL-05, FL-10): three Go processes and two JVMs with eight waiters each. Nobody is dropped from the queue while
// it lives: after each acquisition the queue is what has not yet had its turn, and each time of death has moved by the same.
func passesInOrder(t *testing.T, w *world) {
	const each, budget = 8, 300_000 // ms: fairLockWaitTimeout, in both languages
	f := newFleet(t, w.on, 30*time.Second)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	first := goOwners(t, f, fair, 1)[0]
	require.NoError(t, first.lock(ctx, 0))
	processes := [][]caller{
		w.child(t, f, fair, each).owners, javaOwners(t, agent, f, fair, each), w.child(t, f, fair, each).owners,
		javaOwners(t, w.second, f, fair, each), w.child(t, f, fair, each).owners,
	}
	q, entered := queue{f, t}, make(chan entry, each*len(processes))
	var line []caller
	var fields []string
	for i := range each {
		for _, owners := range processes {
			q.stand(ctx, len(line), owners[i], 0, entered)
			line, fields = append(line, owners[i]), append(fields, owners[i].field())
		}
	}
	dies := q.scores()
	require.Len(t, dies, len(line))

	require.NoError(t, first.unlock(ctx))
	began := time.Now()
	for place, who := range line {
		e := <-entered
		require.NoError(t, e.err, "place %d", place)
		require.Equal(t, place, e.place, "somebody was let in before its turn")
		require.Equal(t, append([]string(nil), fields[place+1:]...), q.fields(), "somebody was dropped from the queue")
		for field, death := range q.scores() {
			require.Equal(t, dies[field]-int64(place+1)*budget, death, "after %d acquisitions", place+1)
		}
		require.NoError(t, who.unlock(ctx))
	}
	t.Logf("interop-note: %d waiters in %d processes, %v for each turn", len(line), len(processes), time.Since(began)/time.Duration(len(line)))
	require.Empty(t, leftOvers(t, f))
}

// passesOver (FL-06, FL-07): a process dies that stands in the queue twice, before each of two that live. Each of them is let in when the
// dead one before it counts as dead: not before, and not later.
func passesOver(t *testing.T, f *fleet, victims []caller, kill func(), next, last caller) {
	const short, long = 3 * time.Second, time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	first := goOwners(t, f, fair, 1)[0]
	require.NoError(t, first.lock(ctx, 0))
	q, entered := queue{f, t}, make(chan entry, 2)
	dead := make(chan entry, len(victims))
	q.stand(ctx, 0, victims[0], short, dead)
	q.stand(ctx, 1, next, long, entered)
	q.stand(ctx, 2, victims[1], short, dead)
	q.stand(ctx, 3, last, long, entered)
	kill()
	for range victims {
		require.Error(t, (<-dead).err)
	}
	require.Equal(t, victims[0].field(), q.fields()[0], "the head left although it was killed")
	require.NoError(t, first.unlock(ctx))
	for i, who := range []caller{next, last} {
		death := time.UnixMilli(q.scores()[victims[i].field()])
		require.Positive(t, time.Until(death), "the machine was too slow to see the dead one in the queue")
		e := <-entered
		require.NoError(t, e.err)
		require.Equal(t, 2*i+1, e.place)
		require.False(t, e.at.Before(death), "let in %v before the one before it counted as dead", death.Sub(e.at))
		require.WithinDuration(t, death, e.at, late, "let in too late after the one before it counted as dead")
		t.Logf("let in %v after the time of death", e.at.Sub(death))
		require.NoError(t, who.unlock(ctx))
	}
	require.Empty(t, leftOvers(t, f))
}

// gauges count in Redis who is inside, unprotected.
type gauges struct {
	t    *testing.T
	conn rueidis.Client
	most atomic.Int64 // readers at once
}

func (g *gauges) number(ctx context.Context, command ...string) int64 {
	n, err := g.conn.Do(ctx, g.conn.B().Arbitrary(command...).Build()).AsInt64()
	if !rueidis.IsRedisNil(err) {
		assert.NoError(g.t, err)
	}
	return n
}

// section takes a side, looks who else is inside, and releases it.
func (g *gauges) section(ctx context.Context, who caller, own, other string, alone bool) bool {
	if err := who.lock(ctx, 0); err != nil {
		return assert.Fail(g.t, "not let in", "%v", err)
	}
	inside := g.number(ctx, "INCR", own)
	assert.Zero(g.t, g.number(ctx, "GET", other), "%s beside %s", own, other)
	if alone {
		assert.EqualValues(g.t, 1, inside, "two %s", own)
	}
	for most := g.most.Load(); inside > most && !g.most.CompareAndSwap(most, inside); most = g.most.Load() {
	}
	g.number(ctx, "DECR", own)
	return assert.NoError(g.t, who.unlock(ctx))
}

// meetNever: 32 readers and 8 writers. REDLATCH_SECTIONS is how often each of them enters.
func meetNever(t *testing.T, on *topology) {
	sections, err := strconv.Atoi(envOr("REDLATCH_SECTIONS", "5"))
	require.NoError(t, err)
	// Redisson's waiters can miss a message when they are about to sleep; a short TTL ends that.
	f := newFleet(t, on, 3*time.Second)
	readers, writers := readersAndWriters(t, f)
	g := &gauges{t: t, conn: f.server.Client(t)}
	const reading, writing = "{" + name + "}:readers", "{" + name + "}:writers"
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	crowd(readers, func(who caller) {
		for i := 0; i < sections && g.section(ctx, who, reading, writing, false); i++ {
		}
	}, writers, func(who caller) {
		for i := 0; i < sections && g.section(ctx, who, writing, reading, true); i++ {
		}
	})
	require.Greater(t, g.most.Load(), int64(1), "readers were never inside together")
	require.False(t, t.Failed())

	f.server.Do(t, "DEL", reading, writing)
	require.Empty(t, leftOvers(t, f))
	t.Logf("interop-note: %d sections, up to %d readers at once, 0 meetings", sections*(len(readers)+len(writers)), g.most.Load())
}

// handOn (RW-20): who can enter when others leave does so at once, and not by a TTL, which is 20 s at least, nor by the poll.
func handOn(t *testing.T, on *topology) {
	f := newFleet(t, on, 30*time.Second)
	readers, writers := readersAndWriters(t, f)
	writersFollow(t, f, readers, writers)
	readersFollow(t, f, readers, writers[0])
	require.Empty(t, leftOvers(t, f))
}

// readersAndWriters are 32 and 8, in two clients of each language.
func readersAndWriters(t *testing.T, f *fleet) (readers, writers []caller) {
	t.Helper()
	for range 2 {
		readers = append(append(readers, goOwners(t, f, read, 8)...), javaOwners(t, agent, f, read, 8)...)
		writers = append(append(writers, goOwners(t, f, write, 2)...), javaOwners(t, agent, f, write, 2)...)
	}
	return readers, writers
}

// crowd lets two crowds do their work at the same time, and waits for the end.
func crowd(some []caller, work func(caller), others []caller, otherWork func(caller)) {
	var all sync.WaitGroup
	for _, who := range some {
		all.Go(func() { work(who) })
	}
	for _, who := range others {
		all.Go(func() { otherWork(who) })
	}
	all.Wait()
}

// writersFollow: all writers come in one after the other when the last of all readers leaves.
func writersFollow(t *testing.T, f *fleet, readers, writers []caller) {
	ctx := bounded(t)
	for _, who := range readers {
		require.NoError(t, who.lock(ctx, 0))
	}
	var waiting sync.WaitGroup
	var last atomic.Pointer[time.Time]
	for _, who := range writers {
		waiting.Go(func() {
			if assert.NoError(t, who.lock(ctx, 0)) {
				now := time.Now()
				last.Store(&now)
				settled(t, f) // the others are refused and sleep
				assert.NoError(t, who.unlock(ctx))
			}
		})
	}
	settled(t, f)
	leaving := bounded(t)
	began := time.Now()
	crowd(readers, func(who caller) { assert.NoError(t, who.unlock(leaving)) }, nil, nil)
	waiting.Wait()
	require.False(t, t.Failed())
	t.Logf("%d readers out and %d writers inside in %v", len(readers), len(writers), last.Load().Sub(began))
}

// readersFollow: all readers come in when a writer leaves, and are inside together.
func readersFollow(t *testing.T, f *fleet, readers []caller, writer caller) {
	ctx := bounded(t)
	require.NoError(t, writer.lock(ctx, 0))
	var inside, done sync.WaitGroup
	inside.Add(len(readers))
	for _, who := range readers {
		done.Go(func() {
			err := who.lock(ctx, 0)
			inside.Done()
			if assert.NoError(t, err) {
				inside.Wait()
				assert.NoError(t, who.unlock(ctx))
			}
		})
	}
	settled(t, f)
	began := time.Now()
	require.NoError(t, writer.unlock(ctx))
	inside.Wait()
	t.Logf("a writer out and %d readers inside in %v", len(readers), time.Since(began))
	done.Wait()
	require.False(t, t.Failed())
}

// settled waits until the server has seen no try for a while: whoever waits is asleep.
func settled(t *testing.T, f *fleet) {
	const while = 150 * time.Millisecond
	tries := func() int64 { return f.server.CommandStats(t)["evalsha"] }
	last := int64(-1)
	assert.Eventually(t, func() bool {
		seen := last
		last = tries()
		return last == seen
	}, 10*time.Second, while)
}

// haunt has a reader in a process that is killed, beside one that lives, in Java or in Go. The key of the dead one's hold is returned.
func haunt(t *testing.T, w *world, inJava bool) (f *fleet, alive, dead caller, marker string) {
	t.Helper()
	f = newFleet(t, w.on, 3*time.Second)
	if inJava {
		alive = javaOwners(t, agent, f, read, 1)[0]
	} else {
		alive = goOwners(t, f, read, 1)[0]
	}
	process := w.child(t, f, read, 1)
	dead = process.owners[0]
	require.NoError(t, alive.lock(bounded(t), 0))
	require.NoError(t, dead.lock(bounded(t), 0))
	process.kill(t)
	return f, alive, dead, "{" + name + "}:" + dead.field() + ":rwlock_timeout:1"
}

// zombieGoesWithReader (RW-10, Redisson 4.4 and later): the dead reader's hold ends with its lease, which nobody renews; its field stays, as long as others
// read, and the next reader to leave takes it along.
func zombieGoesWithReader(t *testing.T, w *world, inJava bool) {
	f, alive, dead, marker := haunt(t, w, inJava)
	require.Eventually(t, func() bool { return f.server.Do(t, "EXISTS", marker).Int() == 0 },
		15*time.Second, 5*time.Millisecond, "a killed reader's hold was renewed")
	require.Positive(t, f.server.Do(t, "PTTL", "{"+name+"}:"+alive.field()+":rwlock_timeout:1").Int())
	require.Equal(t, map[string]string{"mode": "read", alive.field(): "1", dead.field(): "1"}, f.server.Do(t, "HGETALL", name).Map())
	writers := []caller{goOwners(t, f, write, 1)[0], javaOwners(t, agent, f, write, 1)[0]}
	for _, writer := range writers {
		got, err := writer.tryLock(bounded(t), 0, 0)
		require.NoError(t, err)
		require.False(t, got, "a writer beside a reader")
	}
	heard := f.listen(t, name, channelsOf(name)...)
	require.NoError(t, alive.unlock(bounded(t)))
	require.Equal(t, read.told, words(heard.Messages(t)))
	require.Empty(t, leftOvers(t, f), "the killed reader is still there")
	for _, writer := range writers {
		got, err := writer.tryLock(bounded(t), 0, 0)
		require.NoError(t, err)
		require.True(t, got)
		require.NoError(t, writer.unlock(bounded(t)))
	}
}

// zombieGoesWithLease: while the dead reader's lease runs, the lock is read, and no longer.
func zombieGoesWithLease(t *testing.T, w *world, inJava bool) {
	f, alive, dead, marker := haunt(t, w, inJava)
	var writer caller
	if inJava {
		writer = goOwners(t, f, write, 1)[0]
	} else {
		writer = javaOwners(t, agent, f, write, 1)[0]
	}
	heard := f.listen(t, name, channelsOf(name)...)
	require.NoError(t, alive.unlock(bounded(t)))
	require.Empty(t, heard.Messages(t), "a lock that is still read was announced as free")
	left := time.Duration(f.server.Do(t, "PTTL", marker).Int()) * time.Millisecond
	require.Positive(t, left, "the machine was too slow to see the dead reader's lease")
	require.Equal(t, map[string]string{"mode": "read", dead.field(): "1"}, f.server.Do(t, "HGETALL", name).Map())
	began := time.Now()
	require.NoError(t, writer.lock(bounded(t), 0))
	took := time.Since(began)
	require.GreaterOrEqual(t, took, left-20*time.Millisecond, "a writer beside a reader whose lease has not ended")
	require.Less(t, took, left+late)
	require.NoError(t, writer.unlock(bounded(t)))
	require.Empty(t, leftOvers(t, f))
}
