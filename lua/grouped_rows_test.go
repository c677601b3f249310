package lua_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/lua"
)

// FM-01; wire-protocol.md §11. In these tables a group has the values a and b; owners bear the mark of that.
const (
	sign   = ":ab"
	mine   = own + sign
	alike  = next + sign
	theirs = foreign + sign
	wider  = own + ":abc" // of the same owner, for another group
	inJava = "5d1c7a52-0d2f-4c0b-8a52-93b1a7c1f7aa:31"
	kin    = own + ":"
)

var both = []string{"a", "b"}

func init() { sent["value"], sent["kin"] = "the-value", "the-kin" }

// groupedCalls are the rows of typedCalls.
func groupedCalls() []typedCall {
	lock, latch, channel, owner, publish := sent["lock"], sent["latch"], sent["channel"], sent["owner"], sent["publish"]
	values := []string{sent["value"], sent["value"] + "2", sent["value"] + "3"}
	parts := []string{sent["part"], sent["part"] + "2"}
	return []typedCall{
		{"GroupedAcquire", untyped(lua.GroupedAcquire(lock, latch, owner, sent["kin"], sentLease, values))},
		{"GroupedReenter", untyped(lua.GroupedReenter(lock, latch, owner, sentLease, 7, true, values))},
		{"GroupedRelease", untyped(lua.GroupedRelease(lock, channel, latch, sentDeparture, values))},
		{"GroupedForceRelease", untyped(lua.GroupedForceRelease(lock, channel, publish, values))},
		{"GroupedHandOver", untyped(lua.GroupedHandOver(lock, latch, sent["from"], sent["to"], sentLease, values))},
		{"GroupedRenew", untyped(lua.GroupedRenew([]string{lock, lock + "2"}, parts, sentLease, []string{sent["part"] + "3"}))},
		{"GroupedInspect", untyped(lua.GroupedInspect(lock, sign, values))},
	}
}

func groupedAcquire(owner string, values ...string) func(*site) request {
	kin := strings.TrimSuffix(owner, sign) + ":"
	return func(s *site) request { return untyped(lua.GroupedAcquire(s.lock, s.latch, owner, kin, lease, values)) }
}

func groupedReenter(count int, entry bool) func(*site) request {
	return func(s *site) request {
		return untyped(lua.GroupedReenter(s.lock, s.latch, mine, lease, count, entry, both))
	}
}

func groupedRelease(owner string, count int, values ...string) func(*site) request {
	return func(s *site) request {
		d := lua.Departure{Owner: owner, Count: count, Lease: lease, Publish: s.publish, Strict: !s.lenient}
		return untyped(lua.GroupedRelease(s.lock, s.channel, s.latch, d, values))
	}
}

func groupedForce(values ...string) func(*site) request {
	return func(s *site) request { return untyped(lua.GroupedForceRelease(s.lock, s.channel, s.publish, values)) }
}

func groupedHandOver(from, to string) func(*site) request {
	return func(s *site) request { return untyped(lua.GroupedHandOver(s.lock, s.latch, from, to, lease, both)) }
}

func groupedRenew(owner string) func(*site) request {
	return func(s *site) request {
		return untyped(lua.GroupedRenew([]string{s.lock}, []string{owner}, lease, both))
	}
}

func groupedInspect(values ...string) func(*site) request {
	return func(s *site) request { return untyped(lua.GroupedInspect(s.lock, sign, values)) }
}

// keeps is a group in which an owner has values until a time that never comes.
func keeps(owner string, count int, values ...string) state {
	fields := map[string]string{}
	for _, v := range values {
		fields[v], fields[v+":"+owner+":lock_count"] = owner, strconv.Itoa(count)
		fields[v+":"+owner+":expire_time"] = "9999999999999"
	}
	return state{fields: fields, ttl: old}
}

// groupedEffects are the rows of latchedEffects.
func groupedEffects() []effect {
	once, twice, counter := keeps(mine, 1, both...), keeps(mine, 2, both...), "a:"+mine+":lock_count"
	return []effect{
		{name: "grouped acquire", ask: groupedAcquire(mine, both...), owner: counter, barred: barred},
		{name: "grouped re-enter", given: once, ask: groupedReenter(2, true), owner: counter, count: 1, barred: notEntered},
		{name: "grouped extend", given: twice, ask: groupedReenter(3, false), owner: counter, count: 2, barred: notEntered},
		{
			name: "grouped release", given: once, ask: groupedRelease(mine, 0, both...),
			owner: counter, count: 1, barred: unheld, frees: true, rewake: true, // it publishes twice, in one go
		},
		{
			name: "grouped release to a lower count", given: twice, ask: groupedRelease(mine, 1, both...),
			owner: counter, count: 2, barred: unheld,
		},
		{
			name: "grouped hand-over", given: once, ask: groupedHandOver(mine, alike),
			owner: "a:" + alike + ":lock_count", barred: notPassed,
		},
	}
}

// otherGroupedEffects are the rows of otherEffects. A key of another type is a lost group to the renewal, as to the others.
func otherGroupedEffects() []effect {
	return []effect{
		{name: "grouped renew", given: keeps(mine, 1, both...).lasting(short), ask: groupedRenew(mine)},
		{name: "grouped force-release", given: keeps(theirs, 1, both...), ask: groupedForce(both...), frees: true},
	}
}

// member is a value of a group, or with gone only what an earlier owner has left beside it.
type member struct {
	value, owner string
	count        int
	ends         time.Duration // from when the site was set up
	gone         bool
}

// group is what Redis holds of all groups of a name; no members, no key.
type group struct {
	ttl     time.Duration // as it was last set
	members []member
}

// has are values of one owner.
func has(owner string, count int, ends time.Duration, values ...string) (members []member) {
	for _, v := range values {
		members = append(members, member{v, owner, count, ends, false})
	}
	return members
}

func groupOf(ttl time.Duration, members ...[]member) group {
	return group{ttl, slices.Concat(members...)}
}

func (m member) field(what string) string { return m.value + ":" + m.owner + ":" + what }

func (s *site) setGroup(t *testing.T, g group) {
	t.Helper()
	for _, m := range g.members {
		s.do(t, "HSET", s.lock, m.field("lock_count"), strconv.Itoa(m.count),
			m.field("expire_time"), strconv.FormatInt(s.epoch+m.ends.Milliseconds(), 10))
		if !m.gone {
			s.do(t, "HSET", s.lock, m.value, m.owner)
		}
	}
	if g.ttl > 0 {
		s.do(t, "PEXPIRE", s.lock, millis(g.ttl))
	}
}

// requireGroup compares all fields. A time that a script has set is up to the time later that has passed since the site was set up.
func (s *site) requireGroup(t *testing.T, g group) {
	t.Helper()
	got, err := s.do(t, "HGETALL", s.lock).AsStrMap()
	require.NoError(t, err)
	passed := time.Since(s.begun) + 2*time.Millisecond
	want := map[string]string{}
	for _, m := range g.members {
		if !m.gone {
			want[m.value] = m.owner
		}
		want[m.field("lock_count")] = strconv.Itoa(m.count)
		field := m.field("expire_time")
		want[field] = got[field]
		at, err := strconv.ParseInt(got[field], 10, 64)
		require.NoError(t, err, "%s: Redisson reads it as a whole number", field)
		ends := time.Duration(at-s.epoch) * time.Millisecond
		require.GreaterOrEqual(t, ends, m.ends-2*time.Millisecond, field)
		require.LessOrEqual(t, ends, m.ends+passed, field)
	}
	require.Equal(t, want, got)
	if len(g.members) == 0 {
		require.Zero(t, g.ttl, "a key that is absent has no TTL: mistake of the table")
		return
	}
	s.requireTTL(t, g.ttl, s.pttl(t, s.lock))
}

type groupRow struct {
	promise string
	given   group
	steps   []step
	after   group
	wakes   int // how many times 1 and 0 are published
}

func runGroupRows(t *testing.T, rows []groupRow) {
	forEachSetting(t, func(t *testing.T, conn rueidis.Client, in setting) {
		for i, r := range rows {
			t.Run(r.promise, func(t *testing.T) {
				s := newSite(t, conn, in.publish, "lock-"+strconv.Itoa(i)+"-")
				s.setGroup(t, r.given)
				for i, step := range r.steps {
					value, err := step.ask(s).run(t.Context(), s.conn)
					s.requireReply(t, i+1, step.reply, value, err)
				}
				s.requireGroup(t, r.after)
				require.Equal(t, slices.Concat(slices.Repeat([]string{"1", "0"}, r.wakes)), slices.Concat(s.messages(t)), "messages")
			})
		}
	})
}
