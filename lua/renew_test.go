package lua_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/lua"
)

const short = 20 * time.Second // less than lease

// WD-16, WD-17; wire-protocol.md §4.
func TestRenew(t *testing.T) {
	due := state{fields: map[string]string{own: "2"}, ttl: short}
	alien := state{fields: map[string]string{foreign: "1"}, ttl: short}
	runRows(t, []row{
		{
			promise: "gives the lock its lease and leaves the count", given: due,
			steps: []step{{renew(own), []bool{true}}}, after: holds(own, 2),
		},
		{
			promise: "gives a TTL to a lock that lost it", given: state{fields: due.fields, ttl: forever},
			steps: []step{{renew(own), []bool{true}}}, after: holds(own, 2),
		},
		{
			promise: "does not shorten a longer lease", given: hadOnce,
			steps: []step{{renew(own), []bool{true}}}, after: hadOnce,
		},
		{
			promise: "does not create a lock that is gone", steps: []step{{renew(own), []bool{false}}},
		},
		{
			promise: "does not move the TTL of a foreign lock", given: alien,
			steps: []step{{renew(own), []bool{false}}}, after: alien,
		},
		{
			promise: "sees the other owner of the same client as foreign", given: due,
			steps: []step{{renew(next), []bool{false}}}, after: due,
		},
	})
}

func readRenew(owner string) func(*site) request {
	return func(s *site) request {
		return untyped(lua.ReadRenew([]string{s.lock}, []string{owner}, []string{s.marker(owner)}, lease, !s.lenient))
	}
}

// RW-10, WD-16, WD-17; wire-protocol.md §4, the read holds.
func TestReadRenew(t *testing.T) {
	due := func(owner string, i int) hold { return readHold(owner, i, short) }
	renewed := func(owner string, i int) hold { return readHold(owner, i, lease) }
	runRows(t, []row{
		{
			promise: "gives the lock and the hold their lease", given: reads(own, 1).lasting(short).marked(due(own, 1)),
			steps: []step{{readRenew(own), []bool{true}}}, after: reads(own, 1).atLease().marked(renewed(own, 1)),
		},
		{
			promise: "gives each of several holds its lease",
			given:   reads(own, 3).lasting(short).marked(due(own, 1), due(own, 2), due(own, 3)),
			steps:   []step{{readRenew(own), []bool{true}}},
			after:   reads(own, 3).atLease().marked(renewed(own, 1), renewed(own, 2), renewed(own, 3)),
		},
		{
			promise: "leaves the holds of other readers to end (RW-10)",
			given:   reads(own, 1, foreign, 2).lasting(short).marked(due(own, 1), due(foreign, 1), due(foreign, 2)),
			steps:   []step{{readRenew(own), []bool{true}}},
			after:   reads(own, 1, foreign, 2).atLease().marked(renewed(own, 1), due(foreign, 1), due(foreign, 2)),
		},
		{
			promise: "does not shorten what lasts longer",
			given:   reads(own, 2).marked(readHold(own, 1, old), due(own, 2)),
			steps:   []step{{readRenew(own), []bool{true}}}, after: reads(own, 2).marked(readHold(own, 1, old), renewed(own, 2)),
		},
		{
			promise: "renews inside the owner's own write hold", given: writes(writer(own), 1, own, 1).lasting(short).marked(due(own, 1)),
			steps: []step{{readRenew(own), []bool{true}}}, after: writes(writer(own), 1, own, 1).atLease().marked(renewed(own, 1)),
		},
		{
			promise: "gives a TTL to a lock that lost it", given: reads(own, 1).lasting(forever).marked(due(own, 1)),
			steps: []step{{readRenew(own), []bool{true}}}, after: reads(own, 1).atLease().marked(renewed(own, 1)),
		},
		{
			promise: "does not bring back a hold that has ended", given: reads(own, 2).lasting(short).marked(due(own, 2)),
			steps: []step{{readRenew(own), []bool{true}}}, after: reads(own, 2).atLease().marked(renewed(own, 2)),
		},
		{
			promise: "does not create a lock that is gone", steps: []step{{readRenew(own), []bool{false}}},
		},
		{
			promise: "does not move the TTL of foreign readers", given: reads(foreign, 1).lasting(short).marked(due(foreign, 1)),
			steps: []step{{readRenew(own), []bool{false}}}, after: reads(foreign, 1).lasting(short).marked(due(foreign, 1)),
		},
		{
			promise: "sees a write hold of the same owner as another hold", given: writes(writer(own), 1).lasting(short),
			steps: []step{{readRenew(own), []bool{false}}}, after: writes(writer(own), 1).lasting(short),
		},
		{
			promise: "of the write hold is the plain renewal that does not look, and leaves the reads",
			given:   writes(writer(own), 1, own, 1).lasting(short).marked(due(own, 1)),
			steps:   []step{{lenient(renew(writer(own))), []bool{true}}}, after: writes(writer(own), 1, own, 1).atLease().marked(due(own, 1)),
		},
	})
}

// WD-11, RW-10: as TestRenewOfManyLosesOnlyTheLost, and each lock with its own owner and holds.
func TestReadRenewOfManyLosesOnlyTheLost(t *testing.T) {
	notALock := state{text: "not a lock", ttl: short}
	batch := []struct {
		owner   string
		given   state
		renewed bool
		after   state
	}{
		{own, reads(own, 1).lasting(short).marked(readHold(own, 1, short)), true, reads(own, 1).atLease().marked(readHold(own, 1, lease))},
		{next, reads(own, 1).lasting(short).marked(readHold(own, 1, short)), false, reads(own, 1).lasting(short).marked(readHold(own, 1, short))},
		{own, notALock, false, notALock},
		{next, reads(next, 1).lasting(short).marked(readHold(next, 1, short)), true, reads(next, 1).atLease().marked(readHold(next, 1, lease))},
		{own, nobody, false, nobody},
		{own, reads(own, 1).lasting(short).marked(readHold(own, 1, short)), true, reads(own, 1).atLease().marked(readHold(own, 1, lease))},
	}
	forEachSetting(t, func(t *testing.T, conn rueidis.Client, in setting) {
		var sites []*site
		var locks, owners, markers []string
		var want []bool
		for i, b := range batch {
			s := newSite(t, conn, in.publish, fmt.Sprintf("lock-%d-", i))
			s.set(t, b.given)
			sites, locks = append(sites, s), append(locks, s.lock)
			owners, markers = append(owners, b.owner), append(markers, s.marker(b.owner))
			want = append(want, b.renewed)
		}
		renewed, err := lua.Run(t.Context(), conn, lua.ReadRenew(locks, owners, markers, lease, true))
		require.NoError(t, err)
		require.Equal(t, want, renewed)
		for i, s := range sites {
			s.requireState(t, batch[i].after)
			require.Empty(t, s.messages(t))
		}
	})
}

// WD-11, WD-17: what is lost in a batch is lost alone, wherever it stands.
func TestRenewOfManyLosesOnlyTheLost(t *testing.T) {
	batch := []struct {
		given   state
		renewed bool
		after   state
	}{
		{given: state{fields: map[string]string{own: "1"}, ttl: short}, renewed: true, after: holds(own, 1)},
		{given: state{fields: map[string]string{foreign: "1"}, ttl: short}, after: state{fields: map[string]string{foreign: "1"}, ttl: short}},
		{},
		{given: state{text: "not a lock", ttl: short}, after: state{text: "not a lock", ttl: short}},
		{given: state{fields: map[string]string{own: "3"}, ttl: short}, renewed: true, after: holds(own, 3)},
		{given: state{list: []string{"not", "a", "lock"}, ttl: forever}, after: state{list: []string{"not", "a", "lock"}, ttl: forever}},
		{given: state{fields: map[string]string{own: "1"}, ttl: short}, renewed: true, after: holds(own, 1)},
	}
	forEachSetting(t, func(t *testing.T, conn rueidis.Client, in setting) {
		var sites []*site
		var locks, owners []string
		var want []bool
		for i, b := range batch {
			s := newSite(t, conn, in.publish, fmt.Sprintf("lock-%d-", i))
			s.set(t, b.given)
			sites, locks, owners, want = append(sites, s), append(locks, s.lock), append(owners, own), append(want, b.renewed)
		}
		renewed, err := lua.Run(t.Context(), conn, lua.Renew(locks, owners, lease, true))
		require.NoError(t, err)
		require.Equal(t, want, renewed)
		for i, s := range sites {
			s.requireState(t, batch[i].after)
			require.Empty(t, s.messages(t))
		}
	})
}

func TestRenewTakesEachLockWithItsOwnOwner(t *testing.T) {
	forEachSetting(t, func(t *testing.T, conn rueidis.Client, in setting) {
		a, b := newSite(t, conn, in.publish, "a"), newSite(t, conn, in.publish, "b")
		a.set(t, state{fields: map[string]string{own: "1"}, ttl: short})
		b.set(t, state{fields: map[string]string{next: "1"}, ttl: short})

		renewed, err := lua.Run(t.Context(), conn, lua.Renew([]string{a.lock, b.lock}, []string{next, own}, lease, true))
		require.NoError(t, err)
		require.Equal(t, []bool{false, false}, renewed)
		renewed, err = lua.Run(t.Context(), conn, lua.Renew([]string{a.lock, b.lock}, []string{own, next}, lease, true))
		require.NoError(t, err)
		require.Equal(t, []bool{true, true}, renewed)
	})
}

// A batch as large as a user may set it passes the limits of the interpreter (its stack, the number of arguments).
func TestRenewOfAThousand(t *testing.T) {
	const many = 1000
	forEachSetting(t, func(t *testing.T, conn rueidis.Client, in setting) {
		s := newSite(t, conn, in.publish, "many")
		var locks, owners []string
		var take, look rueidis.Commands
		for i := range many {
			lock := fmt.Sprintf("%s:%d", s.lock, i)
			locks, owners = append(locks, lock), append(owners, own)
			take = append(take, conn.B().Hset().Key(lock).FieldValue().FieldValue(own, "1").Build())
			look = append(look, conn.B().Pttl().Key(lock).Build())
		}
		for _, result := range conn.DoMulti(t.Context(), take...) {
			require.NoError(t, result.Error())
		}
		renewed, err := lua.Run(t.Context(), conn, lua.Renew(locks, owners, lease, true))
		require.NoError(t, err)
		require.Len(t, renewed, many)
		require.NotContains(t, renewed, false)
		for _, result := range conn.DoMulti(t.Context(), look...) {
			ms, err := result.AsInt64()
			require.NoError(t, err)
			s.requireTTL(t, lease, time.Duration(ms)*time.Millisecond)
		}
	})
}
