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
		renewed, err := lua.Run(t.Context(), conn, lua.Renew(locks, owners, lease))
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

		renewed, err := lua.Run(t.Context(), conn, lua.Renew([]string{a.lock, b.lock}, []string{next, own}, lease))
		require.NoError(t, err)
		require.Equal(t, []bool{false, false}, renewed)
		renewed, err = lua.Run(t.Context(), conn, lua.Renew([]string{a.lock, b.lock}, []string{own, next}, lease))
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
		renewed, err := lua.Run(t.Context(), conn, lua.Renew(locks, owners, lease))
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
