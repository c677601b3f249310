package lua_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/lua"
)

// Owners, leases and the like in the tables. old is the TTL of what a row finds: it differs from lease, so that a TTL
// that was set again shows.
const (
	own     = "8743c9c0-0795-4907-87fd-6c719a6b4586:47"
	next    = "8743c9c0-0795-4907-87fd-6c719a6b4586:48"
	third   = "8743c9c0-0795-4907-87fd-6c719a6b4586:49"
	foreign = "0b1ba43a-6a5f-4c51-9f7a-0d7d1f4a8e11:47"

	lease = 30 * time.Second
	old   = 100 * time.Second
	bar   = 200 * time.Second
)

// row is a state, what is asked in turn, and what comes of it.
type row struct {
	promise  string
	given    state
	steps    []step
	after    state
	messages int      // how many times 0 is published on the channel for all waiters
	said     []string // further messages: toWaiter and onRW
}

// step is one request and its reply: a value of the call's own type, heldFor or refused.
type step struct {
	ask   func(*site) request
	reply any
}

// heldFor is a lock that is taken for this long, less the time that passed meanwhile.
type heldFor time.Duration

// notFreed is the reply of a forced release that found nothing to free.
var notFreed = lua.Release{}

// notEntered is the reply of a re-entry, and notPassed that of a hand-over, by an owner that does not hold the lock.
var notEntered, notPassed = lua.Grant{}, lua.Grant{}

// refused is an error reply with this in it.
type refused string

func runRows(t *testing.T, rows []row) {
	forEachSetting(t, func(t *testing.T, conn rueidis.Client, in setting) {
		for i, r := range rows {
			t.Run(r.promise, func(t *testing.T) { r.run(t, newSite(t, conn, in.publish, "lock-"+strconv.Itoa(i)+"-")) })
		}
	})
}

func (r row) run(t *testing.T, s *site) {
	s.set(t, r.given)
	for i, step := range r.steps {
		value, err := step.ask(s).run(t.Context(), s.conn)
		s.requireReply(t, i+1, step.reply, value, err)
	}
	s.requireState(t, r.after)
	messages := slices.Concat(slices.Repeat([]string{"0"}, r.messages), r.said)
	require.Equal(t, messages, slices.Concat(s.messages(t)), "messages")
}

func (s *site) requireReply(t *testing.T, number int, want, value any, err error) {
	t.Helper()
	switch want := want.(type) {
	case refused:
		require.Error(t, err, "step %d", number)
		_, fromServer := rueidis.IsRedisErr(err)
		require.True(t, fromServer, "step %d: the server's own words, not %v", number, err)
		require.ErrorContains(t, err, string(want), "step %d", number)
	case heldFor:
		require.NoError(t, err, "step %d", number)
		grant, ok := value.(lua.Grant)
		require.True(t, ok, "step %d: %T", number, value)
		s.requireTTL(t, time.Duration(want), grant.TTL)
		require.Equal(t, lua.Grant{TTL: grant.TTL}, grant, "step %d", number)
	default:
		require.NoError(t, err, "step %d", number)
		require.Equal(t, want, value, "step %d", number)
	}
}

var (
	taken    = lua.Grant{Acquired: true}
	unheld   = lua.Release{}
	remains  = lua.Release{Held: true}
	freed    = lua.Release{Held: true, Freed: true}
	barred   = lua.Grant{TTL: -2 * time.Millisecond} // not granted although the lock is free
	nobody   = state{}
	hadOnce  = state{fields: map[string]string{own: "1"}, ttl: old}
	hadTwice = state{fields: map[string]string{own: "2"}, ttl: old}
	others   = state{fields: map[string]string{foreign: "1"}, ttl: old}
)

func acquire(owner string) func(*site) request {
	return func(s *site) request { return untyped(lua.Acquire(s.lock, s.latch, owner, lease, !s.lenient)) }
}

func reenter(owner string, count int) func(*site) request {
	return func(s *site) request { return untyped(lua.Reenter(s.lock, s.latch, owner, lease, count, !s.lenient)) }
}

func release(owner string, count int) func(*site) request {
	return func(s *site) request {
		d := lua.Departure{Owner: owner, Count: count, Lease: lease, Publish: s.publish, Strict: !s.lenient}
		return untyped(lua.ReleaseTo(s.lock, s.channel, s.latch, d))
	}
}

func settle(owner string) func(*site) request {
	return func(s *site) request { return untyped(lua.Settle(s.lock, s.latch, owner, bar)) }
}

func forceRelease(s *site) request {
	return untyped(lua.ForceRelease(s.lock, s.channel, s.publish, !s.lenient))
}

func renew(owner string) func(*site) request {
	return func(s *site) request { return untyped(lua.Renew([]string{s.lock}, []string{owner}, lease, !s.lenient)) }
}

func handOver(from, to string) func(*site) request {
	return func(s *site) request { return untyped(lua.HandOver(s.lock, s.latch, from, to, lease, !s.lenient)) }
}

func inspect(s *site) request { return untyped(lua.Inspect(s.lock)) }

// fresh is the same request with a latch of its own: another request, not the same one sent again.
func fresh(ask func(*site) request) func(*site) request {
	return func(s *site) request {
		another := *s
		another.latch += "2"
		return ask(&another)
	}
}

// lenient is the same request that does not look for a lock of another kind.
func lenient(ask func(*site) request) func(*site) request {
	return func(s *site) request {
		easy := *s
		easy.lenient = true
		return ask(&easy)
	}
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
