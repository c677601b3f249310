package lua_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/lua"
)

// FE-01, FE-02, FE-04, FE-08; wire-protocol.md §7. requireState holds each row to a counter that has no TTL.

func fencedAcquire(owner string) func(*site) request {
	return func(s *site) request {
		return untyped(lua.FencedAcquire(s.lock, s.token, s.latch, owner, lease, !s.lenient))
	}
}

func fencedReenter(owner string, count int, entry bool) func(*site) request {
	return func(s *site) request {
		return untyped(lua.FencedReenter(s.lock, s.token, s.latch, owner, lease, count, entry, !s.lenient))
	}
}

func fencedHandOver(from, to string) func(*site) request {
	return func(s *site) request {
		return untyped(lua.FencedHandOver(s.lock, s.token, s.latch, from, to, lease, !s.lenient))
	}
}

func fencedForget(last int64) func(*site) request {
	return func(s *site) request { return untyped(lua.FencedForget(s.lock, s.token, last)) }
}

// takenWith is an acquisition with that token.
func takenWith(token int64) lua.Grant { return lua.Grant{Acquired: true, Token: token} }

func TestFencedAcquire(t *testing.T) {
	endless := others.lasting(forever).fencedBy("41")
	runRows(t, []row{
		{
			promise: "takes a free lock with the first token", steps: []step{{fencedAcquire(own), takenWith(1)}},
			after: holds(own, 1).fencedBy("1"),
		},
		{
			promise: "goes on from the last token, whoever had it", given: nobody.fencedBy("41"),
			steps: []step{{fencedAcquire(own), takenWith(42)}}, after: holds(own, 1).fencedBy("42"),
		},
		{
			promise: "takes what is left of the same owner, counted from 1, with a token of its own", given: hadTwice.fencedBy("41"),
			steps: []step{{fencedAcquire(own), takenWith(42)}}, after: holds(own, 1).fencedBy("42"),
		},
		{
			promise: "tells how long a foreign owner may hold, and spends no token", given: others.fencedBy("41"),
			steps: []step{{fencedAcquire(own), heldFor(old)}}, after: others.fencedBy("41"),
		},
		{
			promise: "of a foreign lock does not begin to count", given: others,
			steps: []step{{fencedAcquire(own), heldFor(old)}}, after: others,
		},
		{
			promise: "tells that a foreign hold has no end", given: endless,
			steps: []step{{fencedAcquire(own), heldFor(forever)}}, after: endless,
		},
		{
			promise: "keeps two owners of one client apart", given: hadOnce.fencedBy("41"),
			steps: []step{{fencedAcquire(next), heldFor(old)}}, after: hadOnce.fencedBy("41"),
		},
		{
			promise: "tells tokens of 53 bits exactly, which is as far as Lua counts", given: nobody.fencedBy("9007199254740990"),
			steps: []step{{fencedAcquire(own), takenWith(9007199254740991)}}, after: holds(own, 1).fencedBy("9007199254740991"),
		},
		{
			promise: "is refused where the counter is at its end, and takes nothing", given: nobody.fencedBy("9223372036854775807"),
			steps: []step{{fencedAcquire(own), refused("overflow")}}, after: nobody.fencedBy("9223372036854775807"),
		},
		{
			promise: "is refused where the counter is no number, and takes nothing", given: nobody.fencedBy("a word"),
			steps: []step{{fencedAcquire(own), refused("not an integer")}}, after: nobody.fencedBy("a word"),
		},
	})
}

func TestFencedReenter(t *testing.T) {
	runRows(t, []row{
		{
			promise: "raises the count, renews the lease and has a token of its own", given: hadOnce.fencedBy("41"),
			steps: []step{{fencedReenter(own, 2, true), takenWith(42)}}, after: holds(own, 2).fencedBy("42"),
		},
		{
			promise: "as an extension renews the lease and keeps the token", given: hadTwice.fencedBy("41"),
			steps: []step{{fencedReenter(own, 2, false), takenWith(41)}}, after: holds(own, 2).fencedBy("41"),
		},
		{
			promise: "as an extension of a hold without a token makes none", given: hadOnce,
			steps: []step{{fencedReenter(own, 1, false), takenWith(0)}}, after: holds(own, 1),
		},
		{
			promise: "does not create a lock that has expired, and spends no token", given: nobody.fencedBy("41"),
			steps: []step{{fencedReenter(own, 2, true), notEntered}}, after: nobody.fencedBy("41"),
		},
		{
			promise: "does not touch a foreign lock, and spends no token", given: others.fencedBy("41"),
			steps: []step{{fencedReenter(own, 2, true), notEntered}, {fencedReenter(own, 2, false), notEntered}},
			after: others.fencedBy("41"),
		},
	})
}

func TestFencedHandOver(t *testing.T) {
	runRows(t, []row{
		{
			promise: "passes the lock on in silence, with a new token", given: hadOnce.fencedBy("41"),
			steps: []step{{fencedHandOver(own, next), takenWith(42)}}, after: holds(next, 1).fencedBy("42"),
		},
		{
			promise: "counts the next owner from 1", given: hadTwice.fencedBy("41"),
			steps: []step{{fencedHandOver(own, next), takenWith(42)}}, after: holds(next, 1).fencedBy("42"),
		},
		{
			promise: "to oneself keeps the lock", given: hadTwice.fencedBy("41"),
			steps: []step{{fencedHandOver(own, own), takenWith(42)}}, after: holds(own, 1).fencedBy("42"),
		},
		{
			promise: "of a lock that is gone does not create it, and spends no token", given: nobody.fencedBy("41"),
			steps: []step{{fencedHandOver(own, next), notPassed}}, after: nobody.fencedBy("41"),
		},
		{
			promise: "of a foreign lock touches nothing, and spends no token", given: others.fencedBy("41"),
			steps: []step{{fencedHandOver(own, next), notPassed}}, after: others.fencedBy("41"),
		},
		{
			promise: "leaves the old owner nothing to release or renew", given: hadOnce.fencedBy("41"), steps: []step{
				{fencedHandOver(own, next), takenWith(42)},
				{release(own, 0), unheld},
				{renew(own), []bool{false}},
				{fencedReenter(own, 2, true), notEntered},
			}, after: holds(next, 1).fencedBy("42"),
		},
	})
}

// FE-01, FE-02, FE-04, FE-08: a token is greater than all before it, whichever way its holder came by the lock, and
// outlives the lock.
func TestTokensGrowWithEachAcquisition(t *testing.T) {
	runRows(t, []row{{
		promise: "in a life of a lock",
		steps: []step{
			{fencedAcquire(own), takenWith(1)},
			{fencedAcquire(foreign), heldFor(lease)},
			{fencedReenter(own, 2, true), takenWith(2)},
			{renew(own), []bool{true}},
			{fencedReenter(own, 2, false), takenWith(2)},
			{release(own, 1), remains},
			{fencedHandOver(own, next), takenWith(3)},
			{release(next, 0), freed},
			{fencedAcquire(foreign), takenWith(4)},
			{forceRelease, freed},
			{fencedAcquire(own), takenWith(5)},
			{release(own, 0), freed},
		},
		after: nobody.fencedBy("5"), messages: 3,
	}})
}

// FE-04: tokens start again only where that was asked for, and nobody is about who could have one.
func TestFencedForget(t *testing.T) {
	const beyond = 9007199254740993 // numbers of Lua can't tell it from the one before
	runRows(t, []row{
		{promise: "deletes the counter of a free lock", given: nobody.fencedBy("41"), steps: []step{{fencedForget(41), lua.Forgotten}}},
		{promise: "of no counter does nothing", steps: []step{{fencedForget(41), lua.NoCounter}, {fencedForget(0), lua.NoCounter}}},
		{
			promise: "is refused while the lock is held", given: others.fencedBy("41"),
			steps: []step{{fencedForget(41), lua.StillHeld}}, after: others.fencedBy("41"),
		},
		{
			promise: "is refused while another kind has the name", given: reads(foreign, 1).fencedBy("41"),
			steps: []step{{fencedForget(41), lua.StillHeld}}, after: reads(foreign, 1).fencedBy("41"),
		},
		{
			promise: "is refused after a later token", given: nobody.fencedBy("42"),
			steps: []step{{fencedForget(41), lua.NotTheLast}}, after: nobody.fencedBy("42"),
		},
		{
			promise: "tells any two tokens apart", given: nobody.fencedBy(strconv.Itoa(beyond)),
			steps: []step{{fencedForget(beyond - 1), lua.NotTheLast}}, after: nobody.fencedBy(strconv.Itoa(beyond)),
		},
		{
			promise: "lets tokens begin at 1", given: nobody.fencedBy("41"),
			steps: []step{{fencedForget(41), lua.Forgotten}, {fencedAcquire(own), takenWith(1)}}, after: holds(own, 1).fencedBy("1"),
		},
	})
}

// The pairs are those of Redisson's acquire-and-get: a TTL or -1 for taken, a token or -1 for not taken.
func TestFencedRepliesArePairsAsRedissonReadsThem(t *testing.T) {
	conn := startRedis(t)
	for name, r := range map[string]struct {
		given state
		ask   func(*site) request
		pair  []int64
	}{
		"acquire":                {nobody.fencedBy("41"), fencedAcquire(own), []int64{-1, 42}},
		"acquire what is held":   {others.lasting(forever), fencedAcquire(own), []int64{-1, -1}},
		"re-enter":               {hadOnce.fencedBy("41"), fencedReenter(own, 2, true), []int64{-1, 42}},
		"re-enter what is gone":  {nobody, fencedReenter(own, 2, true), []int64{0, -1}},
		"hand-over":              {hadOnce.fencedBy("41"), fencedHandOver(own, next), []int64{-1, 42}},
		"hand-over what is gone": {nobody, fencedHandOver(own, next), []int64{0, -1}},
	} {
		s := newSite(t, conn, "PUBLISH", "lock "+name+".")
		s.set(t, r.given)
		call := r.ask(s)
		command := append([]string{"EVAL", call.script.Source, strconv.Itoa(len(call.keys))}, append(call.keys, call.args...)...)
		pair, err := s.do(t, command...).AsIntSlice()
		require.NoError(t, err, name)
		require.Equal(t, r.pair, pair, name)
	}
}
