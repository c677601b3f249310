package interop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/interop/javaagent"
	"github.com/redlatch/redlatch/multilock"
)

// taker is an owner of a lock that has no queries, such as a multi-lock.
type taker interface {
	lock(ctx context.Context, lease time.Duration) error
	tryLock(ctx context.Context, wait, lease time.Duration) (bool, error)
	unlock(ctx context.Context) error
}

var _ taker = (*javaParty)(nil)

// goTaker is one in Go. It keeps its holds in order, since Redisson's unlock does not say which one it means.
type goTaker struct {
	of    redlatch.Locker
	owner redlatch.Owner
	holds []*redlatch.Hold
}

func (g *goTaker) take(ctx context.Context, acquire func(context.Context, ...redlatch.AcquireOption) (*redlatch.Hold, error),
	lease time.Duration, opts ...redlatch.AcquireOption,
) error {
	if lease > 0 {
		opts = append(opts, redlatch.WithLease(lease))
	}
	hold, err := acquire(redlatch.WithOwner(ctx, g.owner), opts...)
	if errors.Is(err, redlatch.ErrReentry) {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	if err == nil {
		g.holds = append(g.holds, hold)
	}
	return err
}

func (g *goTaker) lock(ctx context.Context, lease time.Duration) error {
	return g.take(ctx, g.of.Lock, lease)
}

func (g *goTaker) tryLock(ctx context.Context, wait, lease time.Duration) (bool, error) {
	err := g.take(ctx, g.of.TryLock, lease, redlatch.WithWait(wait))
	if errors.Is(err, redlatch.ErrNotAcquired) {
		return false, nil
	}
	return err == nil, err
}

func (g *goTaker) unlock(ctx context.Context) error {
	last := len(g.holds) - 1
	if last < 0 {
		return errNotHeld
	}
	hold := g.holds[last]
	g.holds = g.holds[:last]
	err := hold.Unlock(ctx)
	if errors.Is(err, redlatch.ErrLost) {
		return fmt.Errorf("%w: %w", errNotHeld, err)
	}
	return err
}

// sort is how a lock is made of others in both languages.
type sort struct {
	inGo func(members ...redlatch.Locker) redlatch.Locker
	java func(members ...javaagent.Lock) javaagent.Lock
}

var (
	single = sort{
		func(members ...redlatch.Locker) redlatch.Locker { return members[0] },
		func(members ...javaagent.Lock) javaagent.Lock { return members[0] },
	}
	multi = sort{func(members ...redlatch.Locker) redlatch.Locker { return multilock.New(members...) }, javaagent.Multi}
	red   = sort{func(members ...redlatch.Locker) redlatch.Locker { return multilock.NewRed(members...) }, javaagent.Red}
)

// spot is a lock as a member: its server, kind and name.
type spot struct {
	server int
	kind   kind
	name   string
}

// at are plain locks of those names on the first server.
func at(names ...string) (spots []spot) {
	for _, n := range names {
		spots = append(spots, spot{0, plain, n})
	}
	return spots
}

// everywhere is one plain lock on each of n servers.
func everywhere(n int) (spots []spot) {
	for i := range n {
		spots = append(spots, spot{i, plain, name})
	}
	return spots
}

// ring is one or more independent servers with clients of both languages on each.
type ring struct {
	fleets []*fleet
	goes   []*redlatch.Client
	javas  []*javaagent.Client
	// first and second make owners of the two languages, the one that acts and the one that sees it.
	first, second func(t *testing.T, s sort, members ...spot) taker
}

func newRing(t *testing.T, on *topology, servers int, watchdog time.Duration) *ring {
	t.Helper()
	r := new(ring)
	for i := range servers {
		if i > 0 {
			on = alone // what several servers are together is the same wherever they are
		}
		f := newFleet(t, on, watchdog)
		r.fleets, r.goes, r.javas = append(r.fleets, f), append(r.goes, f.goClient(t)), append(r.javas, f.javaClient(t))
	}
	return r
}

func (r *ring) inGo(t *testing.T, s sort, members ...spot) taker {
	t.Helper()
	var locks []redlatch.Locker
	for _, m := range members {
		locks = append(locks, m.kind.inGo(r.goes[m.server], m.name))
	}
	return &goTaker{of: s.inGo(locks...), owner: r.goes[members[0].server].NewOwner()}
}

func (r *ring) inJava(t *testing.T, s sort, members ...spot) taker {
	t.Helper()
	home := members[0].server
	var locks []javaagent.Lock
	for _, m := range members {
		lock := m.kind.java(m.name)
		if m.server != home {
			lock = lock.Of(r.javas[m.server])
		}
		locks = append(locks, lock)
	}
	thread := r.javas[home].Thread(fmt.Sprintf("%s#%d", t.Name(), clients.Add(1)))
	return &javaParty{thread: thread, lockOf: s.java(locks...)}
}

// nothingLeft says that no server holds anything that somebody could wait for.
func (r *ring) nothingLeft(t *testing.T) {
	t.Helper()
	for _, f := range r.fleets {
		require.Empty(t, leftOvers(t, f))
	}
}

// wait starts a blocking call and returns when it listens to a lock's channel.
func (r *ring) wait(t *testing.T, who taker, member spot) <-chan error {
	t.Helper()
	acquired := make(chan error, 1)
	ctx := bounded(t)
	go func() { acquired <- who.lock(ctx, 0) }()
	require.Eventually(t, func() bool {
		return slices.Contains(r.fleets[member.server].masterOf(member.name).Channels(t), "redisson_lock__channel:{"+member.name+"}")
	}, 15*time.Second, time.Millisecond)
	return acquired
}

// soon is less than any round of a multi-lock, and than any TTL: who acquires within it was woken.
const soon = 3 * time.Second

func woken(t *testing.T, acquired <-chan error) {
	t.Helper()
	select {
	case err := <-acquired:
		require.NoError(t, err)
	case <-time.After(soon):
		require.FailNow(t, "the waiter slept through the message")
	}
}

func takes(t *testing.T, who taker, wait, lease time.Duration) bool {
	t.Helper()
	got, err := who.tryLock(bounded(t), wait, lease)
	require.NoError(t, err)
	return got
}

func frees(t *testing.T, holders ...taker) {
	t.Helper()
	for _, h := range holders {
		require.NoError(t, h.unlock(bounded(t)))
	}
}

// isFree says that a lock can be had; what a failed call took must have been given back.
func isFree(t *testing.T, who taker) {
	t.Helper()
	require.True(t, takes(t, who, 0, 0), "it was not given back")
	frees(t, who)
}

// TestInteropMulti shares multi-locks and RedLocks between the languages. Topics are named as in TestInterop.
func TestInteropMulti(t *testing.T) { onEach(t, multiTopics) }

func multiTopics(t *testing.T, on *topology) {
	topics := []struct {
		name     string
		servers  int
		watchdog time.Duration
		test     func(t *testing.T, r *ring)
	}{
		{"multi: exclusion", 1, 0, multiExcludes},
		{"multi: a single member keeps the whole out and is kept out", 1, 0, multiMeetsSingle},
		{"multi: a waiter is woken by the release of any member", 1, 0, multiWakes},
		{"multi: locks that have one member in common exclude each other", 1, 0, multiOverlaps},
		{"multi: members of all kinds", 1, 0, multiKinds},
		{"multi: an owner enters again", 1, 0, multiReenters},
		{"multi: every member has the lease in the end", 1, 0, multiLeases},
		{"multi: a lease ends and lets the waiter in", 1, 0, multiExpires},
		{"multi: the watchdog keeps the other out", 1, 1500 * time.Millisecond, multiRenews},
		{"multi: opposite orders both come through", 1, 0, multiOpposes},
		{"multi: members on several servers", 3, 0, multiSpreads},
		{"red: exclusion", 3, 0, redExcludes},
		{"red: a waiter is woken by the release", 3, 0, redWakes},
		{"red: a minority of somebody else is done without and left alone", 3, 0, redDoesWithout},
		{"red: exclusion with a dead server", 3, 0, redOutlivesServer},
	}
	for _, direction := range []string{"go-to-java", "java-to-go"} {
		t.Run(direction, func(t *testing.T) {
			for _, topic := range topics {
				on.run(t, topic.name, func(t *testing.T) {
					t.Parallel()
					watchdog := topic.watchdog
					if watchdog == 0 {
						watchdog = 30 * time.Second
					}
					r := newRing(t, on, topic.servers, watchdog)
					if r.first, r.second = r.inGo, r.inJava; direction == "java-to-go" {
						r.first, r.second = r.inJava, r.inGo
					}
					topic.test(t, r)
				})
			}
		})
	}
	t.Run("both", func(t *testing.T) {
		on.run(t, "multi: threads of both languages never overlap", func(t *testing.T) {
			hammerMembers(t, on, 1, multi, at("a", "b", "c"))
		})
		on.run(t, "red: threads of both languages never overlap", func(t *testing.T) { hammerMembers(t, on, 3, red, everywhere(3)) })
	})
}

func multiExcludes(t *testing.T, r *ring) { // ML-01
	first, second := r.first(t, multi, at("a", "b", "c")...), r.second(t, multi, at("a", "b", "c")...)
	require.NoError(t, first.lock(bounded(t), 0))
	require.False(t, takes(t, second, 0, 0), "two holders")
	require.False(t, takes(t, second, 200*time.Millisecond, time.Minute), "two holders")
	frees(t, first)
	r.nothingLeft(t)
	require.True(t, takes(t, second, 0, 0))
	require.False(t, takes(t, first, 0, 0), "two holders")
	frees(t, second)
	require.ErrorIs(t, second.unlock(bounded(t)), errNotHeld)
	r.nothingLeft(t)
}

func multiMeetsSingle(t *testing.T, r *ring) {
	whole := r.first(t, multi, at("a", "b", "c")...)
	for _, n := range []string{"a", "b", "c"} {
		member := r.second(t, single, at(n)...)
		require.True(t, takes(t, whole, 0, 0))
		require.False(t, takes(t, member, 0, 0), "two holders of %s", n)
		frees(t, whole)
		require.True(t, takes(t, member, 0, 0))
		require.False(t, takes(t, whole, 100*time.Millisecond, 0), "two holders of %s", n)
		require.Equal(t, []string{n}, leftOvers(t, r.fleets[0]), "what could be had was not given back")
		frees(t, member)
	}
	r.nothingLeft(t)
}

func multiWakes(t *testing.T, r *ring) {
	for _, n := range []string{"a", "b", "c"} {
		holder := r.first(t, single, at(n)...)
		require.NoError(t, holder.lock(bounded(t), 0))
		whole := r.second(t, multi, at("a", "b", "c")...)
		acquired := r.wait(t, whole, at(n)[0])
		frees(t, holder)
		woken(t, acquired)
		frees(t, whole)
	}
	first, second := r.first(t, multi, at("x", "y")...), r.second(t, multi, at("x", "y")...)
	require.NoError(t, first.lock(bounded(t), 0))
	acquired := r.wait(t, second, at("x")[0])
	frees(t, first)
	woken(t, acquired)
	frees(t, second)
	r.nothingLeft(t)
}

func multiOverlaps(t *testing.T, r *ring) {
	first, second := r.first(t, multi, at("a", "b")...), r.second(t, multi, at("b", "c")...)
	require.NoError(t, first.lock(bounded(t), 0))
	require.False(t, takes(t, second, 0, 0))
	isFree(t, r.second(t, single, at("c")...))
	acquired := r.wait(t, second, at("b")[0])
	frees(t, first)
	woken(t, acquired)
	require.False(t, takes(t, first, 0, 0))
	isFree(t, r.first(t, single, at("a")...))
	frees(t, second)
}

func multiKinds(t *testing.T, r *ring) {
	members := []spot{{0, plain, "a"}, {0, fair, "b"}, {0, write, "c"}, {0, read, "d"}, {0, fenced, "e"}}
	first, second := r.first(t, multi, members...), r.second(t, multi, members...)
	require.NoError(t, first.lock(bounded(t), time.Minute))
	require.False(t, takes(t, second, 0, 0), "two holders")
	acquired := r.wait(t, second, members[0])
	frees(t, first)
	woken(t, acquired)
	require.False(t, takes(t, first, 0, 0), "two holders")
	frees(t, second)
	r.nothingLeft(t)
}

func multiReenters(t *testing.T, r *ring) {
	first, second := r.first(t, multi, at("a", "b")...), r.second(t, multi, at("a", "b")...)
	require.NoError(t, first.lock(bounded(t), 0))
	require.True(t, takes(t, first, 0, 0))
	frees(t, first)
	require.False(t, takes(t, second, 0, 0))
	frees(t, first)
	require.True(t, takes(t, second, 0, 0))
	frees(t, second)
	r.nothingLeft(t)
}

// multiLeases: however members were taken, in the end each has what was asked for.
func multiLeases(t *testing.T, r *ring) { // ML-02, ML-07
	f := r.fleets[0]
	first, second := r.first(t, multi, at("a", "b")...), r.second(t, single, at("b")...)
	for _, wait := range []time.Duration{0, time.Second, time.Minute} {
		require.True(t, takes(t, first, wait, 20*time.Second))
		for _, n := range []string{"a", "b"} {
			left := f.masterOf(n).Do(t, "PTTL", n).Int()
			require.LessOrEqual(t, left, int64(20_000), n)
			require.Greater(t, left, int64(15_000), n)
		}
		require.False(t, takes(t, second, 0, 0))
		frees(t, first)
	}

	// One that comes late: what is held by then lives twice the wait limit.
	require.NoError(t, second.lock(bounded(t), 0))
	acquired := make(chan bool, 1)
	ctx := bounded(t)
	go func() {
		got, err := first.tryLock(ctx, 2*time.Second, 20*time.Second)
		acquired <- got && err == nil
	}()
	var left int64
	require.Eventually(t, func() bool {
		left = f.masterOf("a").Do(t, "PTTL", "a").Int()
		return left > 0
	}, 15*time.Second, time.Millisecond)
	require.LessOrEqual(t, left, int64(4_000))
	require.Greater(t, left, int64(2_000))
	frees(t, second)
	require.True(t, <-acquired)
	require.Greater(t, f.masterOf("a").Do(t, "PTTL", "a").Int(), int64(15_000))
	require.Greater(t, f.masterOf("b").Do(t, "PTTL", "b").Int(), int64(15_000))
	frees(t, first)
	r.nothingLeft(t)
}

func multiExpires(t *testing.T, r *ring) {
	const lease = time.Second
	first, second := r.first(t, multi, at("a", "b")...), r.second(t, multi, at("a", "b")...)
	before := time.Now()
	require.NoError(t, first.lock(bounded(t), lease))
	require.NoError(t, second.lock(bounded(t), 0))
	require.GreaterOrEqual(t, time.Since(before), lease)
	require.ErrorIs(t, first.unlock(bounded(t)), errNotHeld)
	require.False(t, takes(t, r.first(t, single, at("b")...), 0, 0), "the next owner was disturbed")
	frees(t, second)
	r.nothingLeft(t)
}

func multiRenews(t *testing.T, r *ring) {
	first := r.first(t, multi, at("a", "b")...)
	require.NoError(t, first.lock(bounded(t), 0))
	for _, n := range []string{"a", "b"} {
		require.False(t, takes(t, r.second(t, single, at(n)...), 3*time.Second, 0), "the watchdog let %s expire", n)
	}
	frees(t, first)
	r.nothingLeft(t)
}

func multiOpposes(t *testing.T, r *ring) { // ML-05
	var work sync.WaitGroup
	for _, who := range []taker{r.first(t, multi, at("a", "b")...), r.second(t, multi, at("b", "a")...)} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		t.Cleanup(cancel)
		work.Go(func() { repeat(t, ctx, who, 6, func() error { return nil }) })
	}
	work.Wait()
	r.nothingLeft(t)
}

func multiSpreads(t *testing.T, r *ring) {
	first, second := r.first(t, multi, everywhere(3)...), r.second(t, multi, everywhere(3)...)
	require.NoError(t, first.lock(bounded(t), time.Minute))
	for i := range 3 {
		require.False(t, takes(t, r.second(t, single, spot{i, plain, name}), 0, 0))
	}
	acquired := r.wait(t, second, everywhere(1)[0])
	frees(t, first)
	woken(t, acquired)
	frees(t, second)
	r.nothingLeft(t)
}

func redExcludes(t *testing.T, r *ring) {
	first, second := r.first(t, red, everywhere(3)...), r.second(t, red, everywhere(3)...)
	require.NoError(t, first.lock(bounded(t), 0))
	require.False(t, takes(t, second, 0, 0), "two holders")
	require.False(t, takes(t, second, 600*time.Millisecond, time.Minute), "two holders")
	frees(t, first)
	r.nothingLeft(t)
	require.True(t, takes(t, second, time.Second, time.Minute))
	require.False(t, takes(t, first, 0, 0), "two holders")
	frees(t, second)
	r.nothingLeft(t)
}

func redWakes(t *testing.T, r *ring) {
	first, second := r.first(t, red, everywhere(3)...), r.second(t, red, everywhere(3)...)
	require.NoError(t, first.lock(bounded(t), 0))
	acquired := r.wait(t, second, everywhere(1)[0])
	frees(t, first)
	woken(t, acquired)
	require.False(t, takes(t, first, 0, 0), "two holders")
	frees(t, second)
	r.nothingLeft(t)
}

func redDoesWithout(t *testing.T, r *ring) { // ML-17
	for minority := range 3 {
		member := r.second(t, single, spot{minority, plain, name})
		require.NoError(t, member.lock(bounded(t), 0))
		whole := r.first(t, red, everywhere(3)...)
		require.True(t, takes(t, whole, 300*time.Millisecond, 0))
		require.False(t, takes(t, r.second(t, red, everywhere(3)...), 0, 0), "two holders")
		frees(t, whole)
		for i, f := range r.fleets {
			require.Equal(t, i == minority, len(leftOvers(t, f)) > 0, "server %d: %s", i+1, f.server.Snapshot(t))
		}
		frees(t, member)
	}
	r.nothingLeft(t)
}

func redOutlivesServer(t *testing.T, r *ring) { // ML-16
	first, second := r.first(t, red, everywhere(3)...), r.second(t, red, everywhere(3)...)
	r.fleets[2].server.Kill(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got, err := first.tryLock(ctx, 9*time.Second, 0)
	require.NoError(t, err)
	require.True(t, got)
	got, err = second.tryLock(ctx, 0, 0)
	require.False(t, got && err == nil, "two holders")
	for i := range 2 {
		require.EqualValues(t, 1, r.fleets[i].server.Do(t, "EXISTS", name).Int())
	}
	_ = first.unlock(ctx) // Java reports the dead server's member
	for i := range 2 {
		require.Zero(t, r.fleets[i].server.Do(t, "EXISTS", name).Int())
	}
}

// hammerMembers lets owners of both languages do unprotected read-modify-write under one lock of several members.
func hammerMembers(t *testing.T, on *topology, servers int, s sort, members []spot) {
	const threads, sections = 3, 15
	r := newRing(t, on, servers, 30*time.Second)
	server := r.fleets[0].server
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	conn := server.Client(t)
	var work sync.WaitGroup
	for range threads {
		for _, who := range []taker{r.inGo(t, s, members...), r.inJava(t, s, members...)} {
			work.Go(func() { repeat(t, ctx, who, sections, func() error { return section(t, ctx, conn) }) })
		}
	}
	work.Wait()
	require.Equal(t, strconv.Itoa(2*threads*sections), server.Do(t, "GET", counter).Text())
	t.Logf("interop-note: %d sections, 0 overlaps", 2*threads*sections)
}

// repeat takes and releases a lock again and again, with something to do in between.
func repeat(t *testing.T, ctx context.Context, who taker, times int, section func() error) { //nolint:revive // the test comes first
	t.Helper()
	for range times {
		err := who.lock(ctx, 0)
		if err == nil {
			err = errors.Join(section(), who.unlock(ctx))
		}
		if err != nil {
			t.Errorf("%v", err)
			return
		}
	}
}
