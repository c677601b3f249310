package multilock_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/locktest"
	"github.com/redlatch/redlatch/internal/locktest/probe"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/multilock"
	"github.com/redlatch/redlatch/rlock"
)

// A transfer takes both of its accounts at once. Another one that has an account in common waits, all others don't.
func ExampleNewGroup() {
	ctx := context.Background()
	client, stop := connect(ctx)
	defer stop()
	transfer := func(from, to string) *multilock.Group { return multilock.NewGroup(client, "accounts", from, to) }

	err := redlatch.Do(ctx, transfer("anna", "ben"), func(context.Context) error {
		_, err := transfer("ben", "carla").TryLock(ctx)
		fmt.Println(isNotAcquired(err))
		other, err := transfer("carla", "dora").TryLock(ctx)
		fmt.Println(err)
		return other.Unlock(ctx)
	})
	fmt.Println(err)
	// Output:
	// true
	// <nil>
	// <nil>
}

// Values end by the server's clock, which miniredis does not keep together with its TTLs.
func TestGroupContract(t *testing.T) {
	t.Parallel()
	locktest.Run(t, locktest.Wiring{
		Name: "grouped",
		New: func(p *locktest.Process, name string) redlatch.Locker {
			return multilock.NewGroup(p.Client(), name, "account:1", "account:2")
		},
		Traits: locktest.Traits{Listens: true, HandsOver: true, Messages: 2, ServerClock: true},
	}, locktest.RedisServer, locktest.Cluster)
}

// redissonFields are fields that Redisson 4.7.0 was seen to make of values with its StringCodec.
var redissonFields = map[string]string{
	"a": "qwvAS12pR0CgRitaypEjUw", "b": "Q5CdP+xmkHdTGWYr64Lw6A", "c": "b/ERpQOx2r8GXiGBU6d0Hg", "d": "cCV/U3K/CnVMICY6x8GOAQ",
	"e": "tJRIHtwLw/UZfoKTkKzmFA", "x": "Bt/D4wylKYCgzX0jVwjowg", "z": "vwOR5fJTI35BKAC66TjxhQ",
	"": "t6rZwibGo2uy1OSmNVe8pg", "a b\"c": "pfXK2qLHwQWDOzleh8AUoA", "🙂": "tV6qbElNy6TBoEWx632F4Q",
	"späti:ключ:鍵": "yI5/czDoWmgBVxTUn/OnAA",
}

// fieldsOf is the hash of all groups of a name.
func fieldsOf(t *testing.T, s *redistest.Server, name string) map[string]string {
	t.Helper()
	entry, _ := s.Snapshot(t).Get(name)
	fields := make(map[string]string)
	for _, item := range entry.Items {
		fields[item.Name] = item.Value
	}
	return fields
}

// wire-protocol.md §11
func TestGroupKeepsRedissonsFieldsOfEachValue(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := probe.Open(t, server.URL())
	group := multilock.NewGroup(client, "accounts", slices.Collect(maps.Keys(redissonFields))...)
	outer := probe.TakeAs(t, redlatch.WithThreadID(background, 47), group, redlatch.WithLease(time.Minute))
	inner := probe.TakeAs(t, outer.Context(), group, redlatch.WithLease(time.Minute))

	fields := fieldsOf(t, server, "accounts")
	require.Len(t, fields, 3*len(redissonFields))
	now := server.Snapshot(t).At
	var owners []string
	for value, field := range redissonFields {
		owner := fields[field]
		owners = append(owners, owner)
		require.True(t, strings.HasPrefix(owner, client.ID()+":47:"), "%q is held by %q", value, owner)
		require.Equal(t, "2", fields[field+":"+owner+":lock_count"])
		ends, err := strconv.ParseInt(fields[field+":"+owner+":expire_time"], 10, 64)
		require.NoError(t, err)
		require.WithinDuration(t, now.Add(time.Minute), time.UnixMilli(ends), 20*time.Second)
	}
	require.Len(t, slices.Compact(owners), 1)
	hasLease(t, server, "accounts", time.Minute)
	probe.Release(t, inner, outer)
	nothingLeft(t, server)
}

func TestGroupsOfOneNameExcludeEachOtherByTheValuesInCommon(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	here, there := probe.Open(t, server.URL()), probe.Open(t, server.URL())
	held := probe.Take(t, multilock.NewGroup(here, "accounts", "a", "b"))
	for _, client := range []*redlatch.Client{here, there} {
		for _, values := range [][]string{{"a"}, {"b"}, {"a", "b"}, {"b", "a", "b"}, {"b", "c"}, {"c", "b", "d", "e"}} {
			probe.IsHeld(t, multilock.NewGroup(client, "accounts", values...))
		}
		probe.IsFree(t, multilock.NewGroup(client, "accounts", "c"), multilock.NewGroup(client, "accounts", "c", "A", ""),
			multilock.NewGroup(client, "other accounts", "a", "b"))
	}
	probe.Release(t, held)
	nothingLeft(t, server)
}

func TestValuesAreASet(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := probe.Open(t, server.URL())
	given := []string{"b", "a", "b"}
	group := multilock.NewGroup(client, "accounts", given...)
	given[0] = "changed afterwards"
	require.ElementsMatch(t, []string{"a", "b"}, group.Values())
	group.Values()[0] = "changed, too"
	require.ElementsMatch(t, []string{"a", "b"}, group.Values())

	outer := probe.Take(t, group)
	inner, err := multilock.NewGroup(client, "accounts", "a", "b", "a").TryLock(outer.Context())
	require.NoError(t, err, "it is the same group")
	count, err := group.HoldCount(background, outer.Owner())
	require.NoError(t, err)
	require.Equal(t, 2, count)
	probe.Release(t, inner, outer)
}

// Redisson lets an owner in; without the mark that tells Go's groups apart, a release of one would free the other's values.
func TestOwnerIsToldWhenAGroupWouldWaitForItself(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := probe.Open(t, server.URL(), probe.Deaf)
	outer := probe.Take(t, multilock.NewGroup(client, "accounts", "a", "b"))
	for _, values := range [][]string{{"b", "c"}, {"b"}, {"a", "b", "c"}} {
		group := multilock.NewGroup(client, "accounts", values...)
		for _, try := range []func(context.Context, ...redlatch.AcquireOption) (*redlatch.Hold, error){group.Lock, group.TryLock} {
			h, err := try(outer.Context())
			require.Nil(t, h)
			require.ErrorIs(t, err, redlatch.ErrReentry, "%v", values)
			require.ErrorContains(t, err, `"accounts"`)
			require.Regexp(t, `the value "[ab]"`, err.Error())
		}
		probe.IsHeld(t, group) // to others it is contention
	}
	require.Equal(t, []string{"accounts"}, server.Snapshot(t).Keys(), "the refusal leaves no doubt that has to be settled")
	beside := probe.TakeAs(t, outer.Context(), multilock.NewGroup(client, "accounts", "c", "d"))
	require.Equal(t, outer.Owner(), beside.Owner())
	probe.Release(t, outer)
	after := probe.TakeAs(t, redlatch.WithOwner(background, outer.Owner()), multilock.NewGroup(client, "accounts", "b"))
	probe.Release(t, after, beside)
	nothingLeft(t, server)
}

// All waiters of a name listen to one channel, and none stands in the way of one for other values.
func TestWaiterForOneValueDoesNotHoldUpAnother(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	here, there := probe.Open(t, server.URL()), probe.Open(t, server.URL(), probe.Deaf)
	a, b := probe.Take(t, multilock.NewGroup(here, "accounts", "a")), probe.Take(t, multilock.NewGroup(here, "accounts", "b"))
	first := probe.Start(t, background, multilock.NewGroup(there, "accounts", "a", "x"))
	waited(t, server, "accounts")
	second := probe.Start(t, background, multilock.NewGroup(there, "accounts", "b", "y"))
	probe.Release(t, b)
	probe.Release(t, second.Succeeds())
	probe.IsHeld(t, multilock.NewGroup(here, "accounts", "a"))
	probe.IsFree(t, multilock.NewGroup(here, "accounts", "x")) // who waits holds nothing
	probe.Release(t, a)
	probe.Release(t, first.Succeeds())
	nothingLeft(t, server)
}

// The hash as a whole lives as long as any of its values.
func TestValueEndsByItsOwnLease(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, other := probe.Open(t, server.URL()), probe.Open(t, server.URL(), probe.Deaf)
	long := probe.Take(t, multilock.NewGroup(client, "accounts", "long"), redlatch.WithLease(time.Hour))
	short := multilock.NewGroup(client, "accounts", "a", "b")
	hold := probe.Take(t, short, redlatch.WithLease(300*time.Millisecond))
	left, err := short.RemainingTTL(background)
	require.NoError(t, err)
	require.LessOrEqual(t, left, 300*time.Millisecond)

	next := probe.Start(t, background, multilock.NewGroup(other, "accounts", "b", "c")).Succeeds()
	require.ErrorIs(t, hold.Err(), redlatch.ErrLost)
	require.ErrorIs(t, hold.Unlock(background), redlatch.ErrLost)
	require.NoError(t, next.Err())
	probe.IsHeld(t, multilock.NewGroup(client, "accounts", "b"))
	hasLease(t, server, "accounts", time.Hour)
	probe.Release(t, next)
	require.Len(t, fieldsOf(t, server, "accounts"), 3, "what nobody holds is cleared away")
	probe.Release(t, long)
	nothingLeft(t, server)
}

func TestGroupIsLostWithAnyOfItsValues(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := probe.Open(t, server.URL(), probe.Watchdog(1500*time.Millisecond))
	operator := probe.Open(t, server.URL())
	hold := probe.Take(t, multilock.NewGroup(client, "accounts", "a", "b"))
	freed, err := multilock.NewGroup(operator, "accounts", "b", "c").ForceUnlock(background)
	require.NoError(t, err)
	require.True(t, freed)
	probe.IsHeld(t, multilock.NewGroup(operator, "accounts", "a"))
	next := probe.Take(t, multilock.NewGroup(operator, "accounts", "b"))
	probe.Within(t, hold.Lost())
	require.ErrorIs(t, hold.Err(), redlatch.ErrLost)
	require.ErrorIs(t, hold.Unlock(background), redlatch.ErrLost)
	probe.IsFree(t, multilock.NewGroup(operator, "accounts", "a"))
	require.NoError(t, next.Err())
	probe.Release(t, next)
	nothingLeft(t, server)
}

// WD-01: groups of other values have scripts of their own.
func TestWatchdogRenewsGroupsOfDifferentValues(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	seen := make(probe.Events, 1000)
	client := probe.Observed(t, server.URL(), seen, probe.Watchdog(1500*time.Millisecond))
	var holds []*redlatch.Hold
	for i := range 5 {
		holds = append(holds, probe.Take(t, multilock.NewGroup(client, "accounts", strconv.Itoa(i), "and "+strconv.Itoa(i))))
	}
	for began := time.Now(); time.Since(began) < 3*time.Second; {
		seen.Await(t, redlatch.EventRenewed, "accounts")
	}
	for _, h := range holds {
		require.NoError(t, h.Err())
	}
	probe.IsHeld(t, multilock.NewGroup(client, "accounts", "3"))
	probe.Release(t, holds...)
	nothingLeft(t, server)
}

func TestGroupTellsWhoKeepsItsValues(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	here, there := probe.Open(t, server.URL()), probe.Open(t, server.URL())
	group := multilock.NewGroup(here, "accounts", "a", "b", "c")
	part := probe.Take(t, multilock.NewGroup(there, "accounts", "a", "z"), redlatch.WithLease(time.Minute))
	other := probe.Take(t, multilock.NewGroup(here, "accounts", "b"), redlatch.WithLease(time.Hour))
	seen, err := group.Inspect(background)
	require.NoError(t, err)
	require.Equal(t, "grouped", seen.Kind)
	require.Equal(t, "accounts", seen.Key)
	require.Len(t, seen.Holders, 2)
	for _, h := range seen.Holders {
		require.Zero(t, h.Count, "it holds a part only")
		require.Contains(t, []redlatch.Owner{part.Owner(), other.Owner()}, h.Owner)
		held, err := group.IsHeldBy(background, h.Owner)
		require.NoError(t, err)
		require.False(t, held)
	}
	require.Greater(t, seen.TTL, 50*time.Minute, "as long as the value that is held longest")
	probe.Release(t, part, other)

	hold := probe.Take(t, group)
	held, err := group.IsHeldBy(background, hold.Owner())
	require.NoError(t, err)
	require.True(t, held)
	count, err := multilock.NewGroup(there, "accounts", "a").HoldCount(background, hold.Owner())
	require.NoError(t, err)
	require.Zero(t, count, "it holds the value within another group")
	probe.Release(t, hold)
}

// RL-08, RL-13: the answers to the acquisition, the re-entry and both releases are lost, one after the other.
func TestLostAnswersCountOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	relay := redistest.NewRelay(t, server)
	client := probe.Open(t, "redis://"+relay.Addr())
	group := multilock.NewGroup(client, "accounts", "a", "b")
	lose := func() *redistest.Trap { return relay.Next(redistest.SendsScript("accounts"), redistest.LoseReply()) }
	counts := func(want int, o redlatch.Owner) {
		t.Helper()
		count, err := group.HoldCount(background, o)
		require.NoError(t, err)
		require.Equal(t, want, count)
	}
	probe.IsFree(t, group) // the scripts are known from now on
	lose()
	outer := probe.Take(t, group)
	counts(1, outer.Owner())
	lose()
	inner := probe.TakeAs(t, outer.Context(), group)
	counts(2, outer.Owner())
	lose()
	probe.Release(t, inner)
	counts(1, outer.Owner())
	lose()
	probe.Release(t, outer)
	nothingStays(t, server)
}

func TestGroupWithoutValuesIsRefused(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	none := multilock.NewGroup(probe.Open(t, server.URL()), "accounts")
	for _, try := range []func(context.Context, ...redlatch.AcquireOption) (*redlatch.Hold, error){none.Lock, none.TryLock} {
		h, err := try(background)
		require.Nil(t, h)
		require.ErrorContains(t, err, "without values")
		require.ErrorContains(t, err, `"accounts"`)
	}
	locked, err := none.IsLocked(background)
	require.NoError(t, err)
	require.False(t, locked)
	count, err := none.HoldCount(background, redlatch.Owner{})
	require.NoError(t, err)
	require.Zero(t, count)
	nothingLeft(t, server)
}

// FM-01
func TestNameOfAnotherKindIsRefused(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := probe.Open(t, server.URL())
	group := multilock.NewGroup(client, "accounts", "a", "b")
	plain := probe.Take(t, rlock.New(client, "accounts"))
	_, err := group.TryLock(background)
	require.ErrorIs(t, err, redlatch.ErrWrongType)
	_, err = group.Lock(background)
	require.ErrorIs(t, err, redlatch.ErrWrongType)
	_, err = group.Inspect(background)
	require.ErrorIs(t, err, redlatch.ErrWrongType)
	_, err = group.ForceUnlock(background)
	require.ErrorIs(t, err, redlatch.ErrWrongType)
	probe.Release(t, plain)

	hold := probe.Take(t, group)
	_, err = rlock.New(client, "accounts").TryLock(background)
	require.ErrorIs(t, err, redlatch.ErrWrongType)
	require.ErrorContains(t, err, "grouped")
	probe.Release(t, hold)
	nothingLeft(t, server)
}

// What tells groups apart is no concern of who counts locks by their kind.
func TestKindOfAGroupInEventsAndInspectionsIsTheSameForAllGroups(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	told := make(probe.Events, 10)
	client := probe.Observed(t, server.URL(), told)
	for _, values := range [][]string{{"a"}, {"b", "c"}} {
		group := multilock.NewGroup(client, "accounts", values...)
		hold := probe.Take(t, group)
		view, err := group.Inspect(background)
		require.NoError(t, err)
		require.Equal(t, "grouped", view.Kind)
		probe.Release(t, hold)
		for _, kind := range []redlatch.EventKind{redlatch.EventAcquired, redlatch.EventReleased} {
			event := <-told
			require.Equal(t, kind, event.Kind)
			require.Equal(t, "grouped", event.LockKind)
		}
	}
}

// A group is a Locker like any other.
func TestGroupsAreMembersOfAMultiLock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := probe.Open(t, server.URL())
	group := func(values ...string) redlatch.Locker { return multilock.NewGroup(client, "accounts", values...) }
	all := multilock.New(group("a", "b"), group("c"), rlock.New(client, "ledger"))
	hold := probe.Take(t, all, redlatch.WithLease(time.Minute))
	for _, member := range []redlatch.Locker{group("b"), group("c", "d"), rlock.New(client, "ledger")} {
		probe.IsHeld(t, member)
	}
	probe.Release(t, hold)
	nothingLeft(t, server)

	_, err := multilock.New(group("a", "b"), group("b", "a")).TryLock(background)
	require.ErrorContains(t, err, "twice")
	_, err = multilock.New(group("a", "b"), group("b", "c")).TryLock(background)
	require.ErrorIs(t, err, redlatch.ErrReentry, "one owner acts in all members")
	probe.IsFree(t, group("a", "b", "c"))
}
