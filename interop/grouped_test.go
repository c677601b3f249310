package interop

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/interop/javaagent"
	"github.com/redlatch/redlatch/multilock"
)

// newGroupFleet has JVM clients that write values as text, which is what Go can read.
func newGroupFleet(t *testing.T, on *topology, watchdog time.Duration) *fleet {
	f := newFleet(t, on, watchdog)
	f.lines = append(f.lines, "codec: !<org.redisson.client.codec.StringCodec> {}")
	return f
}

// groupOwner makes the group of some values, under the one name, as one owner sees it.
type groupOwner func(values ...string) party

func (f *fleet) groupInGo(c *redlatch.Client) groupOwner {
	owner := c.NewOwner()
	return func(values ...string) party {
		return asGoParty(owner, multilock.NewGroup(c, name, values...), "")
	}
}

func (f *fleet) groupInJava(t *testing.T, c *javaagent.Client) groupOwner {
	t.Helper()
	thread := c.Thread(fmt.Sprintf("%s#%d", t.Name(), clients.Add(1)))
	owner, err := thread.Owner(t.Context())
	require.NoError(t, err)
	return func(values ...string) party {
		return &javaParty{thread: thread, lockOf: javaagent.Grouped(name, values...), owner: owner}
	}
}

// groupPair is two owners of different languages: first acts and second sees it.
type groupPair struct {
	*fleet
	first, second groupOwner
	another       func(of groupOwner) groupOwner // a further owner in the language of second
	goActs        bool
}

func newGroupPair(t *testing.T, on *topology, goActs bool, watchdog time.Duration) groupPair {
	f := newGroupFleet(t, on, watchdog)
	c, j := f.goClient(t), f.javaClient(t)
	p := groupPair{fleet: f, goActs: goActs}
	if p.first, p.second = f.groupInGo(c), f.groupInJava(t, j); !goActs {
		p.first, p.second = p.second, p.first
	}
	p.another = func(groupOwner) groupOwner {
		if goActs {
			return f.groupInJava(t, j)
		}
		return f.groupInGo(c)
	}
	return p
}

// waits starts a blocking call and returns when the server has seen its second try, which comes after its subscription. The scripts must
// have run in that language before.
func (p groupPair) waits(t *testing.T, who party) <-chan error {
	t.Helper()
	tries := func() int64 { return p.server.CommandStats(t)["evalsha"] + p.server.CommandStats(t)["eval"] }
	before := tries()
	acquired := make(chan error, 1)
	ctx := bounded(t)
	go func() { acquired <- who.lock(ctx, 0) }()
	require.Eventually(t, func() bool { return tries() >= before+2 }, 15*time.Second, time.Millisecond)
	return acquired
}

// TestInteropGrouped shares groups of values between the languages. Topics are named as in TestInterop.
func TestInteropGrouped(t *testing.T) { onEach(t, groupedTopics) }

func groupedTopics(t *testing.T, on *topology) {
	const lively = 1500 * time.Millisecond
	topics := []struct {
		name     string
		watchdog time.Duration
		test     func(t *testing.T, p groupPair)
	}{
		{"grouped: values in common exclude, others do not", 30 * time.Second, groupsExclude},
		{"grouped: any text as a value", 30 * time.Second, groupsHashAlike},
		{"grouped: hold counts", 30 * time.Second, groupsCount},
		{"grouped: a waiter is woken by the message", 30 * time.Second, groupsWake},
		{"grouped: a waiter is woken beside one for another value", 30 * time.Second, groupsWakeTheRightOne},
		{"grouped: the wait limit ends a wait", 30 * time.Second, groupsLimit},
		{"grouped: a lease ends one value and lets the waiter in", 30 * time.Second, groupsExpire},
		{"grouped: the watchdog keeps the other out", lively, groupsRenew},
		{"grouped: force-unlock frees and is noticed", lively, groupsForce},
		{"grouped: losing one value is noticed", lively, groupsLoseOne},
		{"grouped: a late release leaves the next owner alone", 30 * time.Second, groupsReleaseLate},
	}
	for _, goActs := range []bool{true, false} {
		direction := "java-to-go"
		if goActs {
			direction = "go-to-java"
		}
		t.Run(direction, func(t *testing.T) {
			for _, topic := range topics {
				on.run(t, topic.name, func(t *testing.T) {
					t.Parallel()
					topic.test(t, newGroupPair(t, on, goActs, topic.watchdog))
				})
			}
		})
	}
	t.Run("both", func(t *testing.T) {
		on.run(t, "grouped: each step leaves the same fields", func(t *testing.T) { groupsStepAlike(t, on) })
		on.run(t, "grouped: threads of both languages never overlap", func(t *testing.T) { groupsHammer(t, on) })
		on.run(t, "grouped: a name mapper is applied to the name alone", func(t *testing.T) { groupsMapped(t, on) })
		on.run(t, "grouped: a plain lock's name is refused", func(t *testing.T) { groupsOnPlainName(t, on) })
	})
}

func groupsExclude(t *testing.T, p groupPair) {
	require.NoError(t, p.first("a", "b").lock(bounded(t), 0))
	for _, values := range [][]string{{"a", "b"}, {"b", "a"}, {"a"}, {"b", "c"}, {"a", "a"}} {
		require.False(t, try(t, p.second(values...), 0, 0), "two holders of %v", values)
		require.False(t, try(t, p.second(values...), 0, time.Minute), "two holders of %v", values)
		locked, err := p.second(values...).isLocked(bounded(t))
		require.NoError(t, err)
		require.True(t, locked)
	}
	beside := p.second("c", "A")
	locked, err := beside.isLocked(bounded(t))
	require.NoError(t, err)
	require.False(t, locked)
	require.True(t, try(t, beside, 0, 0), "nobody holds these")
	require.False(t, try(t, p.first("d", "c"), 0, 0), "two holders")
}

func groupsHashAlike(t *testing.T, p groupPair) {
	values := []string{"", " ", "späti:ключ:鍵", "🙂", "a b\"c\\", "tab\tand\nline", "mode", "{x}", strings.Repeat("long ", 500)}
	for length := range 100 { // HighwayHash works in blocks of 32 bytes, with a way of its own for each rest
		var b strings.Builder
		for range length {
			b.WriteByte(byte(' ' + rand.IntN(95))) //nolint:gosec // 32 to 126
		}
		values = append(values, b.String())
	}
	require.NoError(t, p.first(values...).lock(bounded(t), 0))
	for _, v := range values {
		require.False(t, try(t, p.second(v), 0, 0), "two holders of %q", v)
	}
	require.True(t, try(t, p.second("none of them"), 0, 0))
}

func groupsCount(t *testing.T, p groupPair) { // RL-01
	held, wanted := p.first("a", "b"), p.second("b", "c")
	for range 3 {
		require.NoError(t, held.lock(bounded(t), 0))
	}
	for range 3 {
		require.False(t, try(t, wanted, 0, 0))
		require.NoError(t, held.unlock(bounded(t)))
	}
	require.ErrorIs(t, held.unlock(bounded(t)), errNotHeld)
	require.True(t, try(t, wanted, 0, 0))
	require.NoError(t, wanted.unlock(bounded(t)))
	require.Empty(t, leftOvers(t, p.fleet), "nothing may be left behind") // RL-10
}

func groupsWake(t *testing.T, p groupPair) { // WK-01, WK-02
	held, wanted := p.first("a", "b"), p.second("b", "c")
	require.NoError(t, held.lock(bounded(t), 0))
	require.False(t, try(t, wanted, time.Millisecond, 0))
	acquired := p.waits(t, wanted)
	require.NoError(t, held.unlock(bounded(t)))
	woken(t, acquired)
	require.NoError(t, wanted.unlock(bounded(t)))
	for range 10 {
		require.NoError(t, held.lock(bounded(t), 0))
		acquired := make(chan error, 1)
		ctx := bounded(t)
		go func() { acquired <- wanted.lock(ctx, 0) }() // released at any point of its way to sleep
		require.NoError(t, held.unlock(bounded(t)))
		require.NoError(t, <-acquired, "the waiter slept through the message")
		require.NoError(t, wanted.unlock(bounded(t)))
	}
}

// groupsWakeTheRightOne: all values of a name share one channel. A JVM wakes one of its waiters for the message 0, and so the wrong one
// between JVMs; Go's release says 1 before it, and Go's waiters all look.
func groupsWakeTheRightOne(t *testing.T, p groupPair) {
	a, b := p.first("a"), p.first("b")
	require.NoError(t, a.lock(bounded(t), 0))
	require.NoError(t, b.lock(bounded(t), 0))
	forA, forB := p.second("a"), p.another(p.second)("b")
	require.False(t, try(t, forA, time.Millisecond, 0))
	waiting := p.waits(t, forA)
	acquired := p.waits(t, forB)
	require.NoError(t, b.unlock(bounded(t)))
	woken(t, acquired)
	require.NoError(t, a.unlock(bounded(t)))
	require.NoError(t, <-waiting)
}

func groupsLimit(t *testing.T, p groupPair) { // WK-05
	require.NoError(t, p.first("a", "b").lock(bounded(t), 0))
	began := time.Now()
	require.False(t, try(t, p.second("b"), 300*time.Millisecond, 0))
	require.GreaterOrEqual(t, time.Since(began), 290*time.Millisecond)
}

func groupsExpire(t *testing.T, p groupPair) { // WK-04
	const lease = 400 * time.Millisecond
	held, wanted := p.first("a", "b"), p.second("b", "c")
	require.NoError(t, p.another(p.second)("long").lock(bounded(t), time.Hour)) // keeps the hash
	before := time.Now()
	require.NoError(t, held.lock(bounded(t), lease))
	require.NoError(t, wanted.lock(bounded(t), 0))
	require.GreaterOrEqual(t, time.Since(before), lease, "the waiter was let in before the lease was over")
	require.ErrorIs(t, held.unlock(bounded(t)), errNotHeld)
	locked, err := p.second("b").isLocked(bounded(t))
	require.NoError(t, err)
	require.True(t, locked, "the next owner was disturbed")
	require.NoError(t, wanted.unlock(bounded(t)))
}

func groupsRenew(t *testing.T, p groupPair) { // WD-01
	held, wanted := p.first("a", "b"), p.second("b", "c")
	require.NoError(t, held.lock(bounded(t), 0))
	require.False(t, try(t, wanted, 4*time.Second, 0), "the watchdog let the values expire")
	require.NoError(t, held.unlock(bounded(t)))
	require.True(t, try(t, wanted, 0, 0))
	require.NoError(t, wanted.unlock(bounded(t)))
	require.Empty(t, leftOvers(t, p.fleet))
}

func groupsForce(t *testing.T, p groupPair) { // RL-16
	held, other := p.first("a", "b"), p.second("a", "b")
	require.NoError(t, held.lock(bounded(t), 0))
	freed, err := other.forceUnlock(bounded(t))
	require.NoError(t, err)
	require.Equal(t, !p.goActs, freed, "Redisson says false when it freed more than one value")
	require.True(t, try(t, other, 0, 0))
	if in, ok := held.(*goParty); ok {
		require.ErrorIs(t, in.lost(bounded(t)), redlatch.ErrLost, "the holder was not told")
	}
	require.ErrorIs(t, held.unlock(bounded(t)), errNotHeld)
	require.False(t, try(t, held, 0, 0), "the next owner was disturbed")
	require.NoError(t, other.unlock(bounded(t)))
	require.Empty(t, leftOvers(t, p.fleet))
}

func groupsLoseOne(t *testing.T, p groupPair) {
	held, one := p.first("a", "b"), p.second("b")
	require.NoError(t, held.lock(bounded(t), 0))
	freed, err := one.forceUnlock(bounded(t))
	require.NoError(t, err)
	require.True(t, freed)
	require.True(t, try(t, one, 0, 0))
	if in, ok := held.(*goParty); ok {
		require.ErrorIs(t, in.lost(bounded(t)), redlatch.ErrLost, "the holder was not told")
	}
	require.ErrorIs(t, held.unlock(bounded(t)), errNotHeld)
	require.False(t, try(t, held, 0, 0), "the next owner was disturbed")
	require.NoError(t, one.unlock(bounded(t)))
}

func groupsReleaseLate(t *testing.T, p groupPair) { // RL-07
	held, next := p.first("a", "b"), p.second("a", "b")
	require.NoError(t, p.another(p.second)("long").lock(bounded(t), time.Hour))
	require.NoError(t, held.lock(bounded(t), 200*time.Millisecond))
	require.NoError(t, next.lock(bounded(t), time.Minute))
	before := groupFields(t, p.fleet)
	require.ErrorIs(t, held.unlock(bounded(t)), errNotHeld)
	require.Equal(t, before, groupFields(t, p.fleet), "the next owner was disturbed")
	require.NoError(t, next.unlock(bounded(t)))
}

// groupFields are the fields of what is held; those that an earlier owner has left are not.
func groupFields(t *testing.T, f *fleet) map[string]string {
	t.Helper()
	entry, _ := f.server.Snapshot(t).Get(name)
	all, held := map[string]string{}, map[string]string{}
	for _, item := range entry.Items {
		all[item.Name] = item.Value
	}
	for field, value := range all {
		hashed, of, more := strings.Cut(field, ":")
		if !more || strings.HasPrefix(of, all[hashed]+":") {
			held[field] = value
		}
	}
	return held
}

// groupsHammer: groups that overlap in one value exclude each other over both languages, with unprotected read-modify-write inside.
func groupsHammer(t *testing.T, on *topology) {
	const threads, sections = 3, 30
	f := newGroupFleet(t, on, 30*time.Second)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var work sync.WaitGroup
	for i := range 2 {
		j, c := f.javaClient(t), f.goClient(t)
		work.Go(func() {
			result, err := j.Hammer(ctx, javaagent.Contention{
				Lock: javaagent.Grouped(name, "common", "java "+strconv.Itoa(i)), Threads: threads, Sections: sections,
				CounterKey: counter, InsideKey: inside,
			})
			if assert.NoError(t, err) {
				assert.Zero(t, result.Overlaps)
			}
		})
		for n := range threads {
			group := multilock.NewGroup(c, name, "go "+strconv.Itoa(i*threads+n), "common")
			conn := f.server.Client(t)
			work.Go(func() {
				for range sections {
					err := redlatch.Do(ctx, group, func(context.Context) error { return section(t, ctx, conn) })
					if !assert.NoError(t, err) {
						return
					}
				}
			})
		}
	}
	work.Wait()
	require.Equal(t, strconv.Itoa(4*threads*sections), f.server.Do(t, "GET", counter).Text())
	t.Logf("interop-note: %d sections, 0 overlaps", 4*threads*sections)
}

func groupsMapped(t *testing.T, on *topology) { // NM-06
	f := newGroupFleet(t, on, 30*time.Second)
	f.cfg.NameMapper = func(name string) string { return "app:" + name }
	c := f.goClient(t)
	j, err := agent.Open(t.Context(), t.Name(), f.yaml(f.lines...), javaagent.NamePrefix("app:"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, j.Close(context.Background())) })
	inGo, inJava := f.groupInGo(c)("a", "b"), f.groupInJava(t, j)("b")
	for _, p := range [][]party{{inGo, inJava}, {inJava, inGo}} {
		require.NoError(t, p[0].lock(bounded(t), 0))
		require.Equal(t, []string{"app:" + name}, leftOvers(t, f))
		require.False(t, try(t, p[1], 0, 0), "two holders")
		acquired := make(chan error, 1)
		ctx := bounded(t)
		go func() { acquired <- p[1].lock(ctx, 0) }()
		require.Eventually(t, func() bool {
			return slices.Contains(f.masterOf("app:"+name).Channels(t), "redisson_lock__channel:{app:"+name+"}")
		}, 15*time.Second, time.Millisecond)
		require.NoError(t, p[0].unlock(bounded(t)))
		require.NoError(t, <-acquired)
		require.NoError(t, p[1].unlock(bounded(t)))
	}
}

func groupsOnPlainName(t *testing.T, on *topology) { // FM-01
	f := newGroupFleet(t, on, 30*time.Second)
	c, j := f.goClient(t), f.javaClient(t)
	inJava := newJavaParty(t, j, "t1", plain, name)
	group := multilock.NewGroup(c, name, "a")
	require.NoError(t, inJava.lock(bounded(t), 0))
	_, err := group.TryLock(bounded(t))
	require.ErrorIs(t, err, redlatch.ErrWrongType)
	require.NoError(t, inJava.unlock(bounded(t)))

	hold, err := group.TryLock(bounded(t))
	require.NoError(t, err)
	require.False(t, try(t, inJava, 0, 0), "a plain lock stays out of a group's hash")
	require.NoError(t, hold.Unlock(bounded(t)))
}
