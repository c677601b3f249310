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
			grant, err := lua.Run(t.Context(), conn, lua.Acquire(name, s.latch, owner, lease))
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
