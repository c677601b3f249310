package redlatch_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/fairlock"
	"github.com/redlatch/redlatch/fencedlock"
	"github.com/redlatch/redlatch/internal/locktest/probe"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/internal/redistest/redisproc"
	"github.com/redlatch/redlatch/lua"
	"github.com/redlatch/redlatch/multilock"
	"github.com/redlatch/redlatch/rlock"
	"github.com/redlatch/redlatch/rwlock"
)

// fleet is a cluster with two clients.
type fleet struct {
	*rig
	cluster *redistest.Cluster
	seen    probe.Events // of the first client
}

func newFleet(t *testing.T, cluster *redistest.Cluster, changes ...func(*config.Config)) *fleet {
	t.Helper()
	f := &fleet{rig: &rig{T: t}, cluster: cluster, seen: make(probe.Events, 100_000)}
	f.client = f.open(f.seen, changes...)
	f.other = f.open(nil, changes...)
	return f
}

func (f *fleet) open(o redlatch.Observer, changes ...func(*config.Config)) *redlatch.Client {
	f.Helper()
	return probe.Client(f, config.Config{Servers: f.cluster.Servers()}, changes, redlatch.WithObserver(o))
}

// relays are lines to the masters, one to each, and the change of a client's config that makes it take them.
func (f *fleet) relays() (relays map[*redistest.Node]*redistest.Relay, through func(*config.Config)) {
	f.Helper()
	relays, addresses := make(map[*redistest.Node]*redistest.Relay), make(map[string]string)
	for _, n := range f.cluster.Masters(f) {
		relays[n] = redistest.NewRelay(f, n.Server)
		addresses[n.Addr()] = relays[n].Addr()
	}
	return relays, func(c *config.Config) {
		c.NATMapper = func(address string) string { return cmp.Or(addresses[address], address) }
	}
}

// nameOn is the name of a lock that a master has, in another slot than the lock.
func (f *fleet) nameOn(n *redistest.Node) string { return f.namesOn(n, 1)[0] }

func (f *fleet) namesOn(n *redistest.Node, count int) []string {
	f.Helper()
	var names []string
	for i := 0; len(names) < count; i++ {
		name := fmt.Sprintf("order:%d", i)
		if f.cluster.Slot(name) != f.cluster.Slot(lockName) && f.cluster.MasterOf(f, name) == n {
			names = append(names, name)
		}
	}
	return names
}

// master is the server that has the lock.
func (f *fleet) master() *redistest.Node { return f.cluster.MasterOf(f, lockName) }

// elsewhere is a master that does not have it.
func (f *fleet) elsewhere() *redistest.Node {
	for _, n := range f.cluster.Masters(f) {
		if n != f.master() {
			return n
		}
	}
	panic("there is one master only")
}

// leftovers are all keys of all masters, latches apart.
func (f *fleet) leftovers() []string {
	var keys []string
	for _, n := range f.cluster.Masters(f) {
		keys = append(keys, n.Do(f, "KEYS", "*").Texts()...)
	}
	return probe.Locks(keys)
}

// listened waits until somebody listens for the lock on the master that has it.
func (f *fleet) listened() {
	f.Helper()
	f.until(func() bool { return f.master().Listeners(f, lockChannel) > 0 }, "the subscription of a waiter")
}

// renewedOften waits for renewals that were sent from now on.
func (f *fleet) renewedOften() {
	f.Helper()
	for len(f.seen) > 0 {
		<-f.seen
	}
	for range 3 {
		f.seen.Await(f, redlatch.EventRenewed)
	}
}

// NM-01, NM-02: what would be taken and could not be released is refused before anything is sent; all other names work.
func TestNamesOnACluster(t *testing.T) {
	t.Parallel()
	f := newFleet(t, redistest.StartCluster(t, redistest.WithReplicas(0)))
	kinds := map[string]func(name string) redlatch.Locker{
		"plain":  func(name string) redlatch.Locker { return rlock.New(f.client, name) },
		"fair":   func(name string) redlatch.Locker { return fairlock.New(f.client, name) },
		"fenced": func(name string) redlatch.Locker { return fencedlock.New(f.client, name) },
		"read":   func(name string) redlatch.Locker { return rwlock.New(f.client, name).Read() },
		"write":  func(name string) redlatch.Locker { return rwlock.New(f.client, name).Write() },
	}
	for kind, lock := range kinds {
		for _, name := range []string{"a{b", "{}x", "a}b", "a{}b{c}"} {
			_, err := lock(name).TryLock(t.Context())
			require.ErrorIs(t, err, redlatch.ErrBadName, "%s %s", kind, name)
		}
		for _, key := range f.leftovers() {
			require.Contains(t, key, config.TokenPrefix, "only a fencing token stays: %s", kind)
		}
		for _, name := range []string{"order:1", "{t}:x", "a}b{c}d", "{test}:abc:key", "with space", "\xff\x00"} {
			hold, err := lock(name).TryLock(t.Context())
			require.NoError(t, err, "%s %s", kind, name)
			again, err := lock(name).TryLock(hold.Context())
			require.NoError(t, err, "%s %s", kind, name)
			require.NoError(t, again.Unlock(t.Context()), "%s %s", kind, name)
			require.NoError(t, hold.Unlock(t.Context()), "%s %s", kind, name)
		}
	}
	for _, key := range f.leftovers() {
		require.Contains(t, key, config.TokenPrefix, "only a fencing token stays")
	}
}

// WK-13: the slot of a held and awaited lock moves. It stays held and renewed, and its release wakes the waiter, who has no other way to
// find out before the TTL.
func TestWaiterIsWokenByTheReleaseAfterTheSlotHasMoved(t *testing.T) {
	t.Parallel()
	f := newFleet(t, redistest.StartCluster(t, redistest.WithReplicas(0)), probe.Deaf)
	hold := f.take(t.Context(), f.lock())
	waiter := f.starts(t.Context(), f.theirs())
	f.listened()
	f.cluster.MoveSlot(t, f.cluster.Slot(lockName), f.elsewhere())
	f.listened()
	f.release(hold)
	f.release(waiter.Succeeds())
	require.Empty(t, f.leftovers())
}

// While a slot moves some of its keys are here and some are there. What is held is renewed all the time, wherever it is.
func TestHoldsAreRenewedWhileTheirSlotMoves(t *testing.T) {
	t.Parallel()
	f := newFleet(t, redistest.StartCluster(t, redistest.WithReplicas(0)), probe.Watchdog(lively()))
	const one, two = "{order:1001}:1", "{order:1001}:2"
	first := f.take(t.Context(), rlock.New(f.client, one))
	second := f.take(t.Context(), rlock.New(f.client, two))
	slot, to := f.cluster.Slot(one), f.elsewhere()
	f.cluster.BeginMove(t, slot, to)
	f.renewedOften()
	f.cluster.MoveKeys(t, slot, to, one)
	f.renewedOften()
	f.cluster.MoveKeys(t, slot, to)
	f.renewedOften()
	f.cluster.EndMove(t, slot, to)
	f.renewedOften()
	f.release(first)
	f.release(second)
	require.Empty(t, f.leftovers())
}

// A release and an acquisition have several keys, which no server has all of while the slot moves: they wait for the end of the move.
func TestCallsWaitForTheEndOfASlotsMove(t *testing.T) {
	t.Parallel()
	f := newFleet(t, redistest.StartCluster(t, redistest.WithReplicas(0)))
	relays, through := f.relays()
	f.client = f.open(nil, through)
	hold := f.take(t.Context(), f.lock())
	slot, from, to := f.cluster.Slot(lockName), f.master(), f.elsewhere()
	var releases, acquisitions atomic.Int32
	relays[from].OnRequest(func(cmd []string) redistest.Action {
		switch {
		case runs("release")(cmd):
			releases.Add(1)
		case runs("acquire")(cmd):
			acquisitions.Add(1)
		}
		return redistest.Pass()
	})
	f.cluster.BeginMove(t, slot, to)
	release, acquisition := f.unlocks(hold), f.starts(t.Context(), rlock.New(f.client, "{"+lockName+"}"))
	f.until(func() bool { return releases.Load() > 1 && acquisitions.Load() > 1 }, "both are sent again: they were not served")
	f.cluster.MoveKeys(t, slot, to)
	f.cluster.EndMove(t, slot, to)
	require.NoError(t, release.Ends())
	f.release(acquisition.Succeeds())
	require.Empty(t, f.leftovers())
}

// WD-14: holds on the other nodes are renewed as if nothing had happened, and those on the frozen one are told when their trust ends.
func TestFrozenNodeCostsNoLockOfTheOthers(t *testing.T) {
	t.Parallel()
	const locks = 90
	f := newFleet(t, redistest.StartCluster(t, redistest.WithReplicas(0), redistest.WithConfig("cluster-require-full-coverage", "no")),
		probe.Watchdog(lively()), func(c *config.Config) { c.Timeout = lively() / 4 })
	frozen := f.master()
	var lost, kept []*redlatch.Hold
	for i := range locks {
		name := fmt.Sprintf("order:%d", i)
		hold := f.take(t.Context(), rlock.New(f.client, name))
		if f.cluster.MasterOf(t, name) == frozen {
			lost = append(lost, hold)
		} else {
			kept = append(kept, hold)
		}
	}
	require.NotEmpty(t, lost)
	require.NotEmpty(t, kept)
	frozen.Freeze(t)
	t.Cleanup(func() { frozen.Thaw(t) })
	for _, hold := range lost {
		f.isLost(hold, "could not be renewed")
	}
	for range 3 {
		f.renewedOften()
	}
	for _, hold := range kept {
		require.NoError(t, hold.Err())
		f.release(hold)
	}
	// Locks of the others are taken and released as ever.
	for i := range locks {
		name := fmt.Sprintf("order:%d", i)
		if f.cluster.Slot(name) == f.cluster.Slot(lockName) || f.cluster.MasterOf(t, name) == frozen {
			continue
		}
		f.release(f.take(t.Context(), rlock.New(f.client, name)))
	}
}

// However far apart they were acquired: otherwise many holds cost many scripts, since only those of one slot can share one.
func TestHoldsOfOneSlotComeToBeRenewedTogether(t *testing.T) {
	t.Parallel()
	const one, two = "{order:1001}:1", "{order:1001}:2"
	f := newFleet(t, redistest.StartCluster(t, redistest.WithReplicas(0)), probe.Watchdog(lively()))
	first := f.take(t.Context(), rlock.New(f.client, one))
	second := f.take(t.Context(), rlock.New(f.client, two))
	// As if it were acquired some time later: it falls due later too, by more than what is due soon in any case.
	require.NoError(t, second.Extend(t.Context(), lively()*108/100))
	monitor := f.cluster.MasterOf(t, one).Monitor(t)
	together := runs("renew", one, two)
	monitor.Await(t, func(c redistest.Command) bool { return together(c.Args) })
	f.renewedOften()
	f.release(first)
	f.renewedOften()
	f.release(second)
	require.Empty(t, f.leftovers())
}

// slotWatch sees every script that the masters are sent.
type slotWatch struct {
	*fleet
	monitors map[*redistest.Node]*redistest.Monitor
}

func (f *fleet) watch() *slotWatch {
	f.Helper()
	w := &slotWatch{fleet: f, monitors: make(map[*redistest.Node]*redistest.Monitor)}
	for _, n := range f.cluster.Masters(f) {
		n.Do(f, "CONFIG", "RESETSTAT")
		w.monitors[n] = n.Monitor(f)
	}
	return w
}

// keepToOneSlot says that the keys of each script share a slot, and returns those of each.
func (w *slotWatch) keepToOneSlot() (keys [][]string) {
	w.Helper()
	for n, monitor := range w.monitors {
		for _, c := range monitor.Commands(w) {
			if c.FromScript() || !redistest.SendsScript()(c.Args) {
				continue
			}
			count, err := strconv.Atoi(c.Args[2])
			require.NoError(w, err)
			of := c.Args[3 : 3+count]
			for _, key := range of {
				require.Equal(w, w.cluster.Slot(of[0]), w.cluster.Slot(key), "%s", c)
			}
			keys = append(keys, of)
		}
		// The server refuses such a script before it is shown.
		require.NotContains(w, n.Do(w, "INFO", "errorstats").Text(), "CROSSSLOT")
	}
	return keys
}

// WD-13: locks of every kind in many slots, several in each. They are renewed with those of their own slot and no other.
func TestRenewalsOfManySlotsKeepToOneSlotEach(t *testing.T) {
	t.Parallel()
	const slots, each, rounds = 8, 2, 3
	f := newFleet(t, redistest.StartCluster(t, redistest.WithReplicas(0)), probe.Watchdog(lively()))
	watch := f.watch()
	var holds []*redlatch.Hold
	left := make(map[string]int) // renewals to come of each lock
	for kind, lock := range everyKind() {
		for i := range slots * each {
			name := fmt.Sprintf("{order:%d}:%s:%d", i/each, kind, i%each)
			hold := f.take(t.Context(), lock(f.client, name))
			holds = append(holds, hold, f.take(hold.Context(), lock(f.client, name)))
			left[name] = rounds
		}
	}
	for len(left) > 0 {
		event := <-f.seen // each lock is renewed or lost
		require.NotEqual(t, redlatch.EventLost, event.Kind, "%s: %v", event.Name, event.Err)
		if event.Kind != redlatch.EventRenewed {
			continue
		}
		left[event.Name]--
		if left[event.Name] <= 0 {
			delete(left, event.Name)
		}
	}
	for _, hold := range holds {
		f.release(hold)
	}
	together := 0
	for _, keys := range watch.keepToOneSlot() {
		if slices.Contains(keys, "{order:1}:plain:0") && slices.Contains(keys, "{order:1}:plain:1") {
			together++
		}
	}
	require.Positive(t, together)
}

// RW-25: read holds that are parts of a multi-lock, with a lease that is set when all are held, entered again, extended and renewed.
func TestReadHoldsOfAMultiLockKeepToTheirSlots(t *testing.T) {
	t.Parallel()
	f := newFleet(t, redistest.StartCluster(t, redistest.WithReplicas(0)), probe.Watchdog(lively()))
	var members []redlatch.Locker
	var slots []uint16
	for _, n := range f.cluster.Masters(t) {
		name := f.nameOn(n)
		members, slots = append(members, rwlock.New(f.client, name).Read()), append(slots, f.cluster.Slot(name))
	}
	lock := multilock.New(members...)
	watch := f.watch()
	for _, opts := range [][]redlatch.AcquireOption{nil, {redlatch.WithLease(time.Minute)}} {
		hold := f.take(t.Context(), lock, opts...)
		again := f.take(hold.Context(), lock, opts...)
		if opts == nil {
			f.renewedOften()
		}
		require.NoError(t, again.Extend(t.Context(), time.Minute))
		f.release(again)
		f.release(hold)
	}
	scripts := make(map[uint16]int)
	for _, keys := range watch.keepToOneSlot() {
		if len(keys) > 1 {
			scripts[f.cluster.Slot(keys[0])]++
		}
	}
	for _, slot := range slots {
		require.Positive(t, scripts[slot], "no script with the keys of several holds")
	}
	require.Empty(t, f.leftovers())
}

// A line on which each round trip takes long costs a round of renewals a few of them, not one for each slot: slot after slot, these locks
// would take twenty seconds.
func TestSlowLineCostsNoneOfManyLocks(t *testing.T) {
	t.Parallel()
	const locks, takers, rounds = 3000, 512, 3
	f := newFleet(t, redistest.StartCluster(t, redistest.WithReplicas(0), redistest.WithProxies()), probe.Watchdog(2*lively()))
	for _, n := range f.cluster.Nodes() {
		n.SetLatency(20 * time.Millisecond)
	}
	holds := make([]*redlatch.Hold, locks)
	each := func(do func(i int)) {
		var all sync.WaitGroup
		for taker := range takers {
			all.Go(func() {
				for i := taker; i < locks; i += takers {
					do(i)
				}
			})
		}
		all.Wait()
	}
	each(func(i int) {
		hold, err := rlock.New(f.client, fmt.Sprintf("order:%d", i)).Lock(context.Background())
		assert.NoError(t, err)
		holds[i] = hold
	})
	require.False(t, t.Failed())
	renewed, left := make(map[string]int), locks
	for left > 0 {
		e := <-f.seen // each lock is renewed or lost
		require.NotEqual(t, redlatch.EventLost, e.Kind, "%s: %v", e.Name, e.Err)
		if e.Kind != redlatch.EventRenewed {
			continue
		}
		renewed[e.Name]++
		if renewed[e.Name] == rounds {
			left--
		}
	}
	each(func(i int) { assert.NoError(t, holds[i].Unlock(context.Background())) })
	require.Empty(t, f.leftovers())
}

// What is in doubt in a slot that moves to a dead node can't be settled before the move is over: it is not even tried there, so that what is in doubt
// beside it need not wait.
func TestMoveToADeadNodeDoesNotHoldUpTheSettling(t *testing.T) {
	t.Parallel()
	const moving, rounds = 8, 5
	f := newFleet(t, redistest.StartCluster(t, redistest.WithReplicas(0)))
	relays, through := f.relays()
	f.client = f.open(nil, through, noRetry)
	from, to, resting := f.master(), f.elsewhere(), f.nameOn(f.master())
	for _, script := range lua.Catalog() {
		from.Do(t, "SCRIPT", "LOAD", script.Source)
	}
	loading := redistest.AnswerError("LOADING Redis is loading the dataset in memory")
	relays[from].OnRequest(func(cmd []string) redistest.Action {
		if runs("settle")(cmd) {
			return loading
		}
		return redistest.Pass()
	})
	names := []string{resting}
	for i := range moving {
		names = append(names, fmt.Sprintf("{%s}:%d", lockName, i))
	}
	for _, name := range names {
		relays[from].Next(runs("acquire"), redistest.LoseReply())
		_, err := rlock.New(f.client, name).TryLock(t.Context())
		require.Error(t, err)
	}
	slot := f.cluster.Slot(lockName)
	f.cluster.BeginMove(t, slot, to)
	f.cluster.MoveKeys(t, slot, to)
	var attempts atomic.Int32
	relays[to].OnRequest(func(cmd []string) redistest.Action {
		if runs("settle")(cmd) {
			attempts.Add(1)
			return redistest.CutRequest()
		}
		return redistest.Pass()
	})
	asked := make(chan struct{}, 1000)
	relays[from].OnRequest(func(cmd []string) redistest.Action {
		if runs("settle", resting)(cmd) {
			asked <- struct{}{}
			return loading
		}
		return redistest.Pass()
	})
	for range rounds {
		f.within(asked, "a round of settling")
	}
	require.Zero(t, attempts.Load())
	relays[to].OnRequest(nil)
	relays[from].OnRequest(nil)
	f.cluster.EndMove(t, slot, to)
	f.until(func() bool { return len(f.leftovers()) == 0 }, "a lock stays behind")
}

// What is in doubt on one node is settled while another one, which has its own doubts, says nothing.
func TestSilentNodeDoesNotHoldUpTheSettlingOnOthers(t *testing.T) {
	t.Parallel()
	f := newFleet(t, redistest.StartCluster(t, redistest.WithReplicas(0)))
	relays, through := f.relays()
	f.client = f.open(nil, through, func(c *config.Config) { c.Timeout, c.RetryAttempts = time.Minute, config.NoRetry })
	silent, healthy := f.master(), f.elsewhere()
	name := f.nameOn(healthy)
	var settles atomic.Bool
	leaveInDoubt := func(n *redistest.Node, name string) {
		for _, script := range lua.Catalog() {
			n.Do(t, "SCRIPT", "LOAD", script.Source)
		}
		relays[n].OnRequest(func(cmd []string) redistest.Action {
			if !settles.Load() && runs("settle")(cmd) {
				return redistest.CutRequest()
			}
			return redistest.Pass()
		})
		relays[n].Next(runs("acquire"), redistest.LoseReply())
		_, err := rlock.New(f.client, name).TryLock(t.Context())
		require.Error(t, err)
		require.NotErrorIs(t, err, redlatch.ErrNotAcquired)
		require.Equal(t, int64(1), n.Do(t, "EXISTS", name).Int())
	}
	free := func(n *redistest.Node, name string) {
		f.until(func() bool { return n.Do(t, "EXISTS", name).Int() == 0 }, name+" stays behind")
	}
	leaveInDoubt(silent, lockName)
	speaks := make(chan struct{})
	speak := sync.OnceFunc(func() { close(speaks) })
	t.Cleanup(speak)
	relays[silent].Next(runs("settle"), redistest.HoldRequest(speaks)).AwaitRequest(t)

	leaveInDoubt(healthy, name)
	settles.Store(true)
	free(healthy, name)
	speak()
	free(silent, lockName)
}

// The locks of a slot that moves are renewed at its new node where they are there already. While that one is silent, those of the old node's
// other slots are renewed as ever.
func TestMoveToASilentNodeDoesNotHoldUpTheRenewals(t *testing.T) {
	t.Parallel()
	const locks = 30
	f := newFleet(t, redistest.StartCluster(t, redistest.WithReplicas(0), redistest.WithConfig("cluster-require-full-coverage", "no")),
		probe.Watchdog(4*lively()))
	from, to := f.master(), f.elsewhere()
	names := f.namesOn(from, locks)
	holds := make(map[string]*redlatch.Hold)
	var calls []*probe.Call
	for _, name := range names {
		calls = append(calls, f.starts(t.Context(), rlock.New(f.client, name), redlatch.WithWait(probe.Patience)))
	}
	for i, call := range calls {
		holds[names[i]] = call.Succeeds()
	}
	f.take(context.Background(), f.lock()) // the last one, so that its renewal is due last
	slot := f.cluster.Slot(lockName)
	f.cluster.BeginMove(t, slot, to)
	f.cluster.MoveKeys(t, slot, to, lockName)
	to.Freeze(t)
	t.Cleanup(func() { to.Thaw(t) })
	renewed := make(map[string]bool)
	for {
		event := <-f.seen
		if event.Kind == redlatch.EventRenewed {
			renewed[event.Name] = true
		}
		if event.Kind == redlatch.EventRenewalFailed {
			require.Equal(t, lockName, event.Name)
			break
		}
	}
	for name, hold := range holds {
		require.True(t, renewed[name], "the renewal of %s waits for that of the one whose slot moves", name)
		require.NoError(t, hold.Err())
		f.release(hold)
	}
}

// Of the locks of one slot that moves, those that are still here are renewed here, also behind one that is already at a silent node.
func TestLocksThatHaveNotMovedYetAreRenewedWhereTheyAre(t *testing.T) {
	t.Parallel()
	const locks, rounds = 6, 3
	f := newFleet(t, redistest.StartCluster(t, redistest.WithReplicas(0), redistest.WithConfig("cluster-require-full-coverage", "no")),
		probe.Watchdog(2*lively()))
	to := f.elsewhere()
	var holds []*redlatch.Hold
	for i := range locks {
		holds = append(holds, f.take(t.Context(), rlock.New(f.client, fmt.Sprintf("{%s}:%d", lockName, i))))
	}
	first := fmt.Sprintf("{%s}:%d", lockName, 0) // whose renewal is due first each time
	f.cluster.BeginMove(t, f.cluster.Slot(lockName), to)
	f.cluster.MoveKeys(t, f.cluster.Slot(lockName), to, first)
	to.Freeze(t)
	t.Cleanup(func() { to.Thaw(t) })
	renewed := make(map[string]int)
	for left := locks - 1; left > 0; {
		event := <-f.seen
		require.False(t, event.Kind == redlatch.EventLost && event.Name != first, "%s: %v", event.Name, event.Err)
		if event.Kind != redlatch.EventRenewed || event.Name == first {
			continue
		}
		renewed[event.Name]++
		if renewed[event.Name] == rounds {
			left--
		}
	}
	f.isLost(holds[0], "could not be renewed")
	for _, hold := range holds[1:] {
		require.NoError(t, hold.Err())
	}
}

// A master that starts, or is kept busy by a script, is no reason not to open, nor one to take the cluster for an old one.
func TestClusterIsOpenedWhileOneMasterCanNotAnswer(t *testing.T) {
	t.Parallel()
	f := newFleet(t, redistest.StartCluster(t, redistest.WithReplicas(0)))
	relays, through := f.relays()
	// The one that comes first where they are asked in order.
	first := slices.MinFunc(f.cluster.Masters(t), func(a, b *redistest.Node) int { return cmp.Compare(relays[a].Addr(), relays[b].Addr()) })
	name := lockName
	if f.master() == first {
		name = f.nameOn(f.elsewhere())
	}
	for _, words := range []string{
		"LOADING Redis is loading the dataset in memory",
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
	} {
		relays[first].OnRequest(func(cmd []string) redistest.Action {
			if redistest.Sends("HELLO")(cmd) {
				return redistest.Pass()
			}
			return redistest.AnswerError(words)
		})
		lock := rlock.New(f.open(nil, through, probe.Deaf), name)
		hold := f.take(t.Context(), lock)
		waiter := f.starts(t.Context(), lock)
		f.until(func() bool { return f.cluster.MasterOf(t, name).Listeners(t, "redisson_lock__channel:{"+name+"}") > 0 },
			"the waiter's subscription")
		f.release(hold)
		f.release(waiter.Succeeds())
	}
}

// WK-14: by default messages on a cluster travel as Redisson's do: sharded where the server can (wire-protocol.md §2).
func TestMessagesOnAClusterTravelAsRedissons(t *testing.T) {
	t.Parallel()
	mode := func(m config.ShardedSubscriptionMode) func(*config.Config) {
		return func(c *config.Config) { c.ShardedSubscriptionMode = m }
	}
	both := func(c *config.Config) { c.PlainAndSharded = true }
	for _, c := range []struct {
		name           string
		change         func(*config.Config)
		plain, sharded int
	}{
		{"Auto", mode(config.ShardedSubscriptionAuto), 0, 1},
		{"On", mode(config.ShardedSubscriptionOn), 0, 1},
		{"Off", mode(config.ShardedSubscriptionOff), 1, 0},
		{"Both", both, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, redistest.StartCluster(t, redistest.WithReplicas(0)), c.change, probe.Deaf)
			plain := f.master().Record(t, lockChannel)
			sharded := f.master().RecordSharded(t, lockChannel)
			hold := f.take(t.Context(), f.lock())
			waiter := f.starts(t.Context(), f.theirs())
			// The sharded recorder is one, that of patterns none.
			f.until(func() bool { return f.master().Listeners(f, lockChannel) == 1+c.plain+c.sharded }, "the waiter's subscriptions")
			f.release(hold)
			got := waiter.Succeeds()
			require.Len(t, plain.Messages(t), c.plain)
			require.Len(t, sharded.Messages(t), c.sharded)
			f.release(got)
		})
	}
}

// A cluster before 7.0 has no sharded messages, and is asked before the first is sent.
func TestMessagesOnAnOldClusterArePlain(t *testing.T) {
	t.Parallel()
	f := newFleet(t, redistest.StartCluster(t, redistest.WithReplicas(0), redistest.WithVersion(redisproc.Redis6)), probe.Deaf)
	hold := f.take(t.Context(), f.lock())
	waiter := f.starts(t.Context(), f.theirs())
	f.until(func() bool { return f.master().Listeners(f, lockChannel) > 0 }, "the waiter's subscription")
	f.release(hold)
	f.release(waiter.Succeeds())
}

// However many locks are waited for, there is one connection for messages to each node, and no channel of ours is left in the end.
// REDLATCH_WAITERS is how many.
func TestManyWaitersOnAClusterShareItsNodesConnections(t *testing.T) {
	t.Parallel()
	locks, err := strconv.Atoi(cmp.Or(os.Getenv("REDLATCH_WAITERS"), "1500"))
	require.NoError(t, err)
	f := newFleet(t, redistest.StartCluster(t, redistest.WithReplicas(0)), probe.Deaf, func(c *config.Config) { c.SubscriptionLinger = config.NoLinger })
	f.client = f.open(nil, probe.Deaf) // nobody listens to what so many locks have to tell
	subscribers := func() (connections, channels int) {
		for _, n := range f.cluster.Masters(t) {
			connections += len(n.Clients(t, "pubsub"))
			channels += len(n.Do(t, "PUBSUB", "SHARDCHANNELS").List())
		}
		return connections, channels
	}
	var holds []*redlatch.Hold
	var waiters []*probe.Call
	for i := range locks {
		name := fmt.Sprintf("order:%d", i)
		holds = append(holds, f.take(context.Background(), rlock.New(f.client, name)))
		waiters = append(waiters, f.starts(context.Background(), rlock.New(f.other, name)))
	}
	f.until(func() bool { _, channels := subscribers(); return channels == locks }, "all subscriptions")
	connections, _ := subscribers()
	require.LessOrEqual(t, connections, len(f.cluster.Masters(t)))
	for _, hold := range holds {
		f.release(hold)
	}
	for _, waiter := range waiters {
		f.release(waiter.Succeeds())
	}
	f.until(func() bool { _, channels := subscribers(); return channels == 0 }, "the end of all subscriptions")
	require.Empty(t, f.leftovers())
}

// Half of the locks would fail: so it is told at once, with what to write instead.
func TestNodeOfAClusterIsNoSingleServer(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.WithReplicas(0))
	require.ErrorContains(t, refused(t, config.Config{Servers: config.Single(cluster.Addresses()[0])}), "config.Cluster")
}

func TestSingleServerIsNoCluster(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	require.ErrorContains(t, refused(t, config.Config{Servers: config.Cluster(server.URL())}), "config.Single")
	require.ErrorContains(t, refused(t, config.Config{Servers: config.Sentinel("mymaster", server.URL())}), "sentinel")
}

func TestUnknownMasterNameIsTold(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t, redistest.WithReplicas(1))
	require.ErrorContains(t, refused(t, config.Config{Servers: config.Sentinel("nobody", sentinel.Addresses()...)}), `"nobody"`)
}

// HA-17: a proxy shows a whole cluster as one server, which takes no script over several slots. A cluster of one node does the same.
func TestProxyOfAClusterGetsItsRenewalsBySlot(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.WithMasters(1), redistest.WithReplicas(0))
	r := &rig{T: t, server: cluster.Nodes()[0].Server}
	seen := make(probe.Events, 1000)
	r.client = probe.Observed(t, cluster.Addresses()[0], seen, probe.Watchdog(lively()))
	var holds []*redlatch.Hold
	for i := range 5 {
		holds = append(holds, r.take(t.Context(), rlock.New(r.client, fmt.Sprintf("order:%d", i))))
	}
	renewed := make(map[string]bool)
	for len(renewed) < len(holds) {
		renewed[seen.Await(r, redlatch.EventRenewed).Name] = true
	}
	for _, hold := range holds {
		r.release(hold)
	}
	_, err := rlock.New(r.client, "a{b").TryLock(t.Context())
	require.ErrorIs(t, err, redlatch.ErrBadName)
}

// NM-02: on a single server such a name works; that it will not on a cluster is worth a word, once.
func TestNameThatNoClusterCouldTakeIsToldToTheLogOnce(t *testing.T) {
	t.Parallel()
	server, logs := redistest.Start(t), &logBook{}
	client, err := redlatch.Open(t.Context(), config.Config{Servers: config.Single(server.URL())},
		redlatch.WithLogger(slog.New(slog.NewTextHandler(logs, nil))))
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	for _, name := range []string{"order:1001", "a{b", "a{b", "{}x"} {
		hold, err := rlock.New(client, name).TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, hold.Unlock(t.Context()))
	}
	require.Equal(t, 1, logs.count("level=WARN"))
	require.Equal(t, 1, logs.count("would not on a cluster"))
}
