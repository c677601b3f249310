package lua_test

import (
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/lua"
)

const over = -5 * time.Second // a time that has passed

func TestGroupedAcquire(t *testing.T) {
	beside := has(foreign+":c", 1, old, "c")
	runGroupRows(t, []groupRow{
		{
			promise: "takes all values, each with its end, and gives the hash its TTL",
			steps:   []step{{groupedAcquire(mine, both...), taken}}, after: groupOf(lease, has(mine, 1, lease, both...)),
		},
		{
			promise: "leaves the values of others alone, and the longer TTL of the hash", given: groupOf(old, beside),
			steps: []step{{groupedAcquire(mine, both...), taken}}, after: groupOf(old, has(mine, 1, lease, both...), beside),
		},
		{
			promise: "raises a shorter TTL of the hash", given: groupOf(short, beside),
			steps: []step{{groupedAcquire(mine, both...), taken}}, after: groupOf(lease, has(mine, 1, lease, both...), beside),
		},
		{
			promise: "leaves a hash without a TTL without one", given: groupOf(forever, beside),
			steps: []step{{groupedAcquire(mine, both...), taken}}, after: groupOf(forever, has(mine, 1, lease, both...), beside),
		},
		{
			promise: "takes none when one value is another's, and tells for how long", given: groupOf(2*old, has(theirs, 1, old, "b")),
			steps: []step{{groupedAcquire(mine, both...), heldFor(old)}}, after: groupOf(2*old, has(theirs, 1, old, "b")),
		},
		{
			promise: "tells the time of the value that is held longest", given: groupOf(2*old, has(theirs, 1, short, "a"), has(alike, 1, old, "b")),
			steps: []step{{groupedAcquire(mine, both...), heldFor(old)}},
			after: groupOf(2*old, has(theirs, 1, short, "a"), has(alike, 1, old, "b")),
		},
		{
			promise: "tells the TTL of the hash when it ends before", given: groupOf(short, has(theirs, 1, old, both...)),
			steps: []step{{groupedAcquire(mine, both...), heldFor(short)}}, after: groupOf(short, has(theirs, 1, old, both...)),
		},
		{
			promise: "tells the time of a value in a hash without a TTL", given: groupOf(forever, has(theirs, 1, old, both...)),
			steps: []step{{groupedAcquire(mine, both...), heldFor(old)}}, after: groupOf(forever, has(theirs, 1, old, both...)),
		},
		{
			promise: "is kept out by an owner of Redisson's, which has no mark", given: groupOf(old, has(inJava, 1, old, "a")),
			steps: []step{{groupedAcquire(mine, both...), heldFor(old)}}, after: groupOf(old, has(inJava, 1, old, "a")),
		},
		{
			promise: "takes what another's time is over for, and clears it away", given: groupOf(old, has(theirs, 3, over, "a"), beside),
			steps: []step{{groupedAcquire(mine, both...), taken}}, after: groupOf(old, has(mine, 1, lease, both...), beside),
		},
		{
			promise: "takes what is left of the same owner, counted from 1", given: groupOf(old, has(mine, 2, old, both...)),
			steps: []step{{groupedAcquire(mine, both...), taken}}, after: groupOf(old, has(mine, 1, lease, both...)),
		},
		{
			promise: "takes what is left of the same owner and the rest", given: groupOf(old, has(mine, 2, over, "b")),
			steps: []step{{groupedAcquire(mine, both...), taken}}, after: groupOf(old, has(mine, 1, lease, both...)),
		},
		{
			promise: "takes a value once that is given twice", steps: []step{{groupedAcquire(mine, "a", "a"), taken}},
			after: groupOf(lease, has(mine, 1, lease, "a")),
		},
		{
			promise: "is refused where it would wait for itself", given: groupOf(old, has(wider, 1, old, "b", "c")),
			steps: []step{{groupedAcquire(mine, both...), refused("REENTRY 2")}}, after: groupOf(old, has(wider, 1, old, "b", "c")),
		},
		{
			promise: "does not mind another group of its own that is over", given: groupOf(old, has(wider, 1, over, "b", "c")),
			steps: []step{{groupedAcquire(mine, both...), taken}},
			after: groupOf(old, has(mine, 1, lease, both...), has(wider, 1, over, "c")),
		},
		{
			promise: "does not mind another group of its own that has no value in common", given: groupOf(old, has(wider, 1, old, "c", "d")),
			steps: []step{{groupedAcquire(mine, both...), taken}},
			after: groupOf(old, has(mine, 1, lease, both...), has(wider, 1, old, "c", "d")),
		},
	})
}

func TestGroupedReenter(t *testing.T) {
	once := groupOf(old, has(mine, 1, short, both...))
	runGroupRows(t, []groupRow{
		{
			promise: "raises the count and lengthens the lease", given: once,
			steps: []step{{groupedReenter(2, true), taken}}, after: groupOf(old, has(mine, 2, lease, both...)),
		},
		{
			promise: "raises the TTL of the hash", given: groupOf(short, has(mine, 1, short, both...)),
			steps: []step{{groupedReenter(2, true), taken}}, after: groupOf(lease, has(mine, 2, lease, both...)),
		},
		{
			promise: "as an entry shortens no lease", given: groupOf(old, has(mine, 1, old, both...)),
			steps: []step{{groupedReenter(2, true), taken}}, after: groupOf(old, has(mine, 2, old, both...)),
		},
		{
			promise: "as an extension sets the lease, also a shorter one", given: groupOf(old, has(mine, 2, old, both...)),
			steps: []step{{groupedReenter(2, false), taken}}, after: groupOf(old, has(mine, 2, lease, both...)),
		},
		{
			promise: "goes on when its time is over and nobody came", given: groupOf(old, has(mine, 1, over, both...)),
			steps: []step{{groupedReenter(2, true), taken}}, after: groupOf(old, has(mine, 2, lease, both...)),
		},
		{promise: "does not create what is gone", steps: []step{{groupedReenter(2, true), notEntered}}},
		{
			promise: "changes nothing when one value is lost", given: groupOf(old, has(mine, 1, short, "a"), has(theirs, 1, old, "b")),
			steps: []step{{groupedReenter(2, true), notEntered}, {groupedReenter(2, false), notEntered}},
			after: groupOf(old, has(mine, 1, short, "a"), has(theirs, 1, old, "b")),
		},
	})
}

func TestGroupedRelease(t *testing.T) {
	beside := has(theirs, 1, old, "c")
	runGroupRows(t, []groupRow{
		{
			promise: "frees all values and leaves no key", given: groupOf(old, has(mine, 1, old, both...)),
			steps: []step{{groupedRelease(mine, 0, both...), freed}}, wakes: 1,
		},
		{
			promise: "frees it from any count", given: groupOf(old, has(mine, 3, old, both...)),
			steps: []step{{groupedRelease(mine, 0, both...), freed}}, wakes: 1,
		},
		{
			promise: "leaves the values of others, and the TTL of the hash", given: groupOf(old, has(mine, 1, old, both...), beside),
			steps: []step{{groupedRelease(mine, 0, both...), freed}}, after: groupOf(old, beside), wakes: 1,
		},
		{
			promise: "to a lower count is silent, and lengthens the lease", given: groupOf(short, has(mine, 2, short, both...)),
			steps: []step{{groupedRelease(mine, 1, both...), remains}}, after: groupOf(lease, has(mine, 1, lease, both...)),
		},
		{
			promise: "to a lower count shortens no lease", given: groupOf(old, has(mine, 2, old, both...)),
			steps: []step{{groupedRelease(mine, 1, both...), remains}}, after: groupOf(old, has(mine, 1, old, both...)),
		},
		{
			promise: "of what is gone is silent", steps: []step{{groupedRelease(mine, 0, both...), unheld}, {groupedRelease(mine, 1, both...), unheld}},
		},
		{
			promise: "of foreign values touches nothing", given: groupOf(old, has(theirs, 1, old, both...)),
			steps: []step{{groupedRelease(mine, 0, both...), unheld}}, after: groupOf(old, has(theirs, 1, old, both...)),
		},
		{
			promise: "of a group that lost a value frees the rest, and says so", given: groupOf(old, has(mine, 1, old, "a"), has(theirs, 1, old, "b")),
			steps: []step{{groupedRelease(mine, 0, both...), unheld}}, after: groupOf(old, has(theirs, 1, old, "b")), wakes: 1,
		},
		{
			promise: "of a group that lost a value to a lower count changes nothing", given: groupOf(old, has(mine, 2, old, "a")),
			steps: []step{{groupedRelease(mine, 1, both...), unheld}}, after: groupOf(old, has(mine, 2, old, "a")),
		},
		{
			promise: "of a group whose time is over clears it away", given: groupOf(old, has(mine, 1, over, both...), beside),
			steps: []step{{groupedRelease(mine, 0, both...), unheld}}, after: groupOf(old, beside), wakes: 1,
		},
		{
			promise: "takes along what it has left beside another's value",
			given:   groupOf(old, []member{{"a", mine, 2, over, true}}, has(theirs, 1, old, both...)),
			steps:   []step{{groupedRelease(mine, 0, both...), unheld}}, after: groupOf(old, has(theirs, 1, old, both...)),
		},
		{
			promise: "sent again counts once", given: groupOf(old, has(mine, 3, old, both...)),
			steps: []step{{groupedRelease(mine, 1, both...), remains}, {groupedRelease(mine, 1, both...), remains}},
			after: groupOf(old, has(mine, 1, old, both...)),
		},
		{
			promise: "sent again does not free the next owner", given: groupOf(old, has(mine, 1, old, both...)), steps: []step{
				{groupedRelease(mine, 0, both...), freed}, {groupedAcquire(theirs, both...), taken}, {groupedRelease(mine, 0, both...), unheld},
			}, after: groupOf(lease, has(theirs, 1, lease, both...)), wakes: 1,
		},
	})
}

func TestGroupedForceRelease(t *testing.T) {
	runGroupRows(t, []groupRow{
		{
			promise: "frees the values of several owners and leaves those of nobody's concern",
			given:   groupOf(old, has(theirs, 2, old, "a", "c"), has(inJava, 1, old, "b")),
			steps:   []step{{groupedForce(both...), freed}}, after: groupOf(old, has(theirs, 2, old, "c")), wakes: 1,
		},
		{
			promise: "frees what is held when another value is free", given: groupOf(old, has(theirs, 1, old, "b")),
			steps: []step{{groupedForce(both...), freed}}, wakes: 1,
		},
		{
			promise: "of a time that is over frees nothing and clears it away", given: groupOf(old, has(theirs, 1, over, both...)),
			steps: []step{{groupedForce(both...), notFreed}},
		},
		{promise: "of what nobody holds is silent", steps: []step{{groupedForce(both...), notFreed}}},
	})
}

func TestGroupedHandOver(t *testing.T) {
	broken := groupOf(old, has(mine, 1, old, "a"), has(theirs, 1, old, "b"))
	runGroupRows(t, []groupRow{
		{
			promise: "passes all values on in silence, counted from 1", given: groupOf(old, has(mine, 2, old, both...)),
			steps: []step{{groupedHandOver(mine, alike), taken}}, after: groupOf(old, has(alike, 1, lease, both...)),
		},
		{
			promise: "raises the TTL of the hash", given: groupOf(short, has(mine, 1, short, both...)),
			steps: []step{{groupedHandOver(mine, alike), taken}}, after: groupOf(lease, has(alike, 1, lease, both...)),
		},
		{
			promise: "to oneself keeps it", given: groupOf(old, has(mine, 2, old, both...)),
			steps: []step{{groupedHandOver(mine, mine), taken}}, after: groupOf(old, has(mine, 1, lease, both...)),
		},
		{
			promise: "of a group that lost a value changes nothing", given: broken,
			steps: []step{{groupedHandOver(mine, alike), notPassed}}, after: broken,
		},
		{promise: "of what is gone creates nothing", steps: []step{{groupedHandOver(mine, alike), notPassed}}},
	})
}

func TestGroupedRenew(t *testing.T) {
	broken := groupOf(short, has(mine, 1, short, "a"), has(theirs, 1, old, "b"))
	yes, no := []bool{true}, []bool{false}
	runGroupRows(t, []groupRow{
		{
			promise: "lengthens the leases and the TTL", given: groupOf(short, has(mine, 2, short, both...)),
			steps: []step{{groupedRenew(mine), yes}}, after: groupOf(lease, has(mine, 2, lease, both...)),
		},
		{
			promise: "leaves what lasts longer alone", given: groupOf(2*old, has(mine, 1, old, both...)),
			steps: []step{{groupedRenew(mine), yes}}, after: groupOf(2*old, has(mine, 1, old, both...)),
		},
		{
			promise: "goes on when its time is over and nobody came", given: groupOf(old, has(mine, 1, over, both...)),
			steps: []step{{groupedRenew(mine), yes}}, after: groupOf(old, has(mine, 1, lease, both...)),
		},
		{promise: "of a group that lost a value changes nothing", given: broken, steps: []step{{groupedRenew(mine), no}}, after: broken},
		{promise: "of what is gone creates nothing", steps: []step{{groupedRenew(mine), no}}},
	})
}

func TestGroupedRenewAnswersForEachKey(t *testing.T) {
	forEachSetting(t, func(t *testing.T, conn rueidis.Client, in setting) {
		first, second := newSite(t, conn, in.publish, "first-"), newSite(t, conn, in.publish, "second-")
		first.setGroup(t, groupOf(short, has(mine, 1, short, both...)))
		second.setGroup(t, groupOf(short, has(alike, 1, short, both...)))
		first.do(t, "SET", "a string", "no group")
		keys, owners := []string{first.lock, "a string", "nothing", second.lock}, []string{mine, mine, mine, alike}
		renewed, err := lua.Run(t.Context(), conn, lua.GroupedRenew(keys, owners, lease, both))
		require.NoError(t, err)
		require.Equal(t, []bool{true, false, false, true}, renewed)
		first.requireGroup(t, groupOf(lease, has(mine, 1, lease, both...)))
		second.requireGroup(t, groupOf(lease, has(alike, 1, lease, both...)))
	})
}

func TestGroupedInspect(t *testing.T) {
	for name, c := range map[string]struct {
		given group
		kind  string
		ttl   time.Duration
		want  map[string]string
	}{
		"nobody":                                   {group{}, "none", 0, map[string]string{}},
		"a holder of all":                          {groupOf(2*old, has(mine, 3, old, both...)), "hash", old, map[string]string{own: "3"}},
		"a holder whose hash ends before":          {groupOf(short, has(mine, 1, old, both...)), "hash", short, map[string]string{own: "1"}},
		"a holder whose time is over":              {groupOf(old, has(mine, 3, over, both...)), "none", 0, map[string]string{}},
		"a holder of other values":                 {groupOf(old, has(theirs, 1, old, "c")), "none", 0, map[string]string{}},
		"holders of a part":                        {groupOf(old, has(theirs, 1, short, "a"), has(inJava, 1, old, "b")), "hash", old, map[string]string{foreign: "0", inJava: "0"}},
		"a holder in another group":                {groupOf(old, has(wider, 1, old, "a", "b", "c")), "hash", old, map[string]string{own: "0"}},
		"one of Redisson's, with different counts": {groupOf(old, has(inJava, 2, old, "a"), has(inJava, 3, old, "b")), "hash", old, map[string]string{inJava: "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			forEachSetting(t, func(t *testing.T, conn rueidis.Client, in setting) {
				s := newSite(t, conn, in.publish, "lock-")
				s.setGroup(t, c.given)
				value, err := groupedInspect(both...)(s).run(t.Context(), conn)
				require.NoError(t, err)
				seen, ok := value.(lua.State)
				require.True(t, ok)
				require.Equal(t, c.kind, seen.Type)
				require.Equal(t, c.want, maps.Collect(maps.All(seen.Fields)))
				if c.kind == "hash" {
					s.requireTTL(t, c.ttl, seen.TTL)
				}
			})
		})
	}
}

// FM-01: a name is one kind's. What groups would not see of another kind is refused.
func TestGroupOnAnotherKindsNameIsRefused(t *testing.T) {
	for name, given := range map[string]state{
		"plain": others, "read": reads(foreign, 1), "write": writes(writer(foreign), 1), "write and read": writes(writer(own), 1, own, 1),
	} {
		t.Run(name, func(t *testing.T) {
			runRows(t, []row{
				{promise: "acquire", given: given, steps: []step{{groupedAcquire(mine, both...), isOther(given)}}, after: given},
				{promise: "renew", given: given, steps: []step{{groupedRenew(mine), []bool{false}}}, after: given},
				{promise: "re-enter", given: given, steps: []step{{groupedReenter(2, true), notEntered}}, after: given},
				{promise: "release", given: given, steps: []step{{groupedRelease(mine, 0, both...), unheld}}, after: given},
				{promise: "force-release", given: given, steps: []step{{groupedForce(both...), isOther(given)}}, after: given},
			})
			forEachSetting(t, func(t *testing.T, conn rueidis.Client, in setting) {
				s := newSite(t, conn, in.publish, "lock-")
				s.set(t, given)
				seen, err := lua.Run(t.Context(), conn, lua.GroupedInspect(s.lock, sign, both))
				require.NoError(t, err)
				require.Equal(t, string(isOther(given)), lua.OtherKind+"a "+seen.Type)
			})
		})
	}
}

// NM-01 has no limit of its own for groups: as many values as one likes, in one script.
func TestGroupHasAnyNumberOfValues(t *testing.T) {
	forEachSetting(t, func(t *testing.T, conn rueidis.Client, in setting) {
		count := 10_000
		if in.name == "miniredis" {
			count = 100
		}
		values := make([]string, count)
		for i := range values {
			values[i] = "value-" + strconv.Itoa(i)
		}
		s := newSite(t, conn, in.publish, "lock-")
		for i, step := range []step{
			{groupedAcquire(mine, values...), taken},
			{groupedAcquire(theirs, values[count-1]), heldFor(lease)},
			{groupedRelease(mine, 0, values...), freed},
			{groupedAcquire(theirs, values[count-1]), taken},
		} {
			value, err := step.ask(s).run(t.Context(), conn)
			s.requireReply(t, i+1, step.reply, value, err)
		}
		s.requireGroup(t, groupOf(lease, has(theirs, 1, lease, values[count-1])))
	})
}

// A lease that rounds to nothing would free the values in the same breath in which the reply says that they were taken.
func TestGroupedLeaseIsAtLeastAMillisecond(t *testing.T) {
	for _, lease := range []time.Duration{-time.Second, 0, time.Microsecond, time.Millisecond} {
		d := lua.Departure{Owner: "owner", Count: 1, Lease: lease}
		for _, r := range []request{
			untyped(lua.GroupedAcquire("lock", "latch", "owner", "kin", lease, both)),
			untyped(lua.GroupedReenter("lock", "latch", "owner", lease, 2, true, both)),
			untyped(lua.GroupedRelease("lock", "channel", "latch", d, both)),
			untyped(lua.GroupedHandOver("lock", "latch", "from", "to", lease, both)),
			untyped(lua.GroupedRenew([]string{"lock"}, []string{"owner"}, lease, both)),
		} {
			at := slices.IndexFunc(r.script.Args, func(p lua.Param) bool { return p.Name == "lease" })
			require.Equal(t, "1", r.args[at], "%s with a lease of %v", r.script.Name, lease)
		}
	}
}
