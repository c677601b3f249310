package lua_test

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/lua"
)

func TestInspectReadsAndTouchesNothing(t *testing.T) {
	given := map[string]state{
		"none":   {},
		"hash":   {fields: map[string]string{own: "2", "mode": "read", foreign: "1"}, ttl: old},
		"string": {text: "not a lock", ttl: old},
		"list":   {list: []string{"not", "a", "lock"}, ttl: forever},
	}
	forEachSetting(t, func(t *testing.T, conn rueidis.Client, in setting) {
		for kind, g := range given {
			s := newSite(t, conn, in.publish, "lock-of-type-"+kind)
			s.set(t, g)
			got, err := lua.Run(t.Context(), conn, lua.Inspect(s.lock))
			require.NoError(t, err)
			require.Equal(t, kind, got.Type)
			require.Len(t, got.Fields, len(g.fields))
			for field, value := range g.fields {
				require.Equal(t, value, got.Fields[field])
			}
			if kind == "none" {
				require.Equal(t, -2*time.Millisecond, got.TTL)
			} else {
				s.requireTTL(t, g.ttl, got.TTL)
			}
			s.requireState(t, g)
			require.Empty(t, s.messages(t))
		}
	})
}

// What a key holds tells what it is to the lock, so that one script reads the locks of every kind.
func TestInspectReadsQueueAndTokenByTheirTypes(t *testing.T) {
	forEachSetting(t, func(t *testing.T, conn rueidis.Client, in setting) {
		s := newSite(t, conn, in.publish, "lock")
		look := func() lua.State {
			got, err := lua.Run(t.Context(), conn, lua.Inspect(s.lock, s.fair.Queue, s.token))
			require.NoError(t, err)
			return got
		}
		require.Equal(t, lua.State{Type: "none", TTL: -2 * time.Millisecond, Fields: map[string]string{}, Queue: []string{}}, look())

		given := hadTwice.lasting(forever).waiting(waiter{next, time.Minute}, waiter{third, never}, waiter{foreign, -time.Minute}).fencedBy("41")
		s.set(t, given)
		want := lua.State{Type: "hash", TTL: forever, Fields: given.fields, Queue: given.queue, Token: 41}
		require.Equal(t, want, look())
		s.requireState(t, given)

		s.do(t, "DEL", s.fair.Queue)
		s.do(t, "HSET", s.fair.Queue, "neither", "of them")
		s.do(t, "SET", s.token, "9223372036854775807")
		want.Queue, want.Token = []string{}, 9223372036854775807
		require.Equal(t, want, look(), "the last token that there can be")
	})
}

// What is no counter has no token, and the rest of the state can be read all the same.
func TestInspectTakesAStringThatIsNoNumberForNoToken(t *testing.T) {
	forEachSetting(t, func(t *testing.T, conn rueidis.Client, in setting) {
		s := newSite(t, conn, in.publish, "lock")
		s.set(t, hadOnce.fencedBy("a word"))
		got, err := lua.Run(t.Context(), conn, lua.Inspect(s.lock, s.token))
		require.NoError(t, err)
		require.Zero(t, got.Token)
		require.Equal(t, hadOnce.fields, got.Fields)
	})
}

func TestProbeTellsTheServersTime(t *testing.T) {
	forEachSetting(t, func(t *testing.T, conn rueidis.Client, _ setting) {
		before := time.Now().Truncate(time.Millisecond)
		at, err := lua.Run(t.Context(), conn, lua.Probe())
		require.NoError(t, err)
		require.False(t, at.Before(before), "%v is before %v", at, before)
		require.False(t, at.After(time.Now()), "%v is in the future", at)
	})
}

// NM-07: names and owners are bytes, and come back as they were sent.
func TestNamesAndOwnersAreBytes(t *testing.T) {
	names := []string{"", " ", "a b\r\nc", "Bestellung:ä:\xff\x00", "{tag}:x", "a}b{c", "%s%d"}
	forEachSetting(t, func(t *testing.T, conn rueidis.Client, in setting) {
		s := newSite(t, conn, in.publish, "many names and one channel")
		for _, name := range names {
			owner := name + ":47"
			grant, err := lua.Run(t.Context(), conn, lua.Acquire(name, s.latch, owner, lease, true))
			require.NoError(t, err, "%q", name)
			require.True(t, grant.Acquired, "%q", name)
			got, err := lua.Run(t.Context(), conn, lua.Inspect(name))
			require.NoError(t, err, "%q", name)
			require.Equal(t, map[string]string{owner: "1"}, got.Fields)
			d := lua.Departure{Owner: owner, Lease: lease, Publish: in.publish}
			left, err := lua.Run(t.Context(), conn, lua.ReleaseTo(name, s.channel, s.latch, d))
			require.NoError(t, err, "%q", name)
			require.Equal(t, freed, left, "%q", name)
		}
		require.Len(t, s.messages(t), len(names))
	})
}
