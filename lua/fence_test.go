package lua_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/lua"
)

// FE-08: data is written by no token that is older than the newest one which was let through. A row is what newest
// holds, a write, and what both keys hold then.
func TestFenceSet(t *testing.T) {
	hash := lua.WriteHash(map[string]string{"left": "11", "place": "B7"})
	text := func(expire time.Duration) lua.FenceWrite { return lua.WriteString("new", expire) }
	rows := []struct {
		promise string
		newest  string
		data    []string // command that sets it up
		token   int64
		keep    time.Duration
		write   lua.FenceWrite
		refused int64
		after   string // what newest holds
		ttl     time.Duration
		content string
		lasts   time.Duration
	}{
		{promise: "the first token is let through", token: 7, write: text(0), after: "7", ttl: forever, content: "new", lasts: forever},
		{promise: "a newer one, too", newest: "7", token: 8, write: text(0), after: "8", ttl: forever, content: "new", lasts: forever},
		{promise: "the same one again", newest: "7", token: 7, write: text(0), after: "7", ttl: forever, content: "new", lasts: forever},
		{
			promise: "an older one is refused, and changes nothing", newest: "8", data: []string{"SET", "old"}, token: 7, keep: lease,
			write: text(lease), refused: 8, after: "8", ttl: forever, content: "old", lasts: forever,
		},
		{promise: "more digits are newer", newest: "9", token: 10, write: text(0), after: "10", ttl: forever, content: "new", lasts: forever},
		{promise: "fewer digits are older", newest: "10", token: 9, write: text(0), refused: 10, after: "10", ttl: forever},
		{
			promise: "tokens beyond 53 bits are told apart", newest: "9223372036854775807", token: 9223372036854775806,
			write: text(0), refused: 9223372036854775807, after: "9223372036854775807", ttl: forever,
		},
		{
			promise: "newest and data last as long as is said", token: 7, keep: lease, write: text(short),
			after: "7", ttl: lease, content: "new", lasts: short,
		},
		{
			promise: "fields join a hash", data: []string{"HSET", "colour", "red"}, token: 7, write: hash,
			after: "7", ttl: forever, content: "colour red left 11 place B7", lasts: forever,
		},
		{promise: "data is deleted, and newest stays", newest: "7", data: []string{"SET", "old"}, token: 8, write: lua.Delete(), after: "8", ttl: forever},
		{
			promise: "nothing is written by one who only wants to be let through", data: []string{"SET", "old"}, token: 8,
			write: lua.LetThrough(), after: "8", ttl: forever, content: "old", lasts: forever,
		},
	}
	forEachSetting(t, func(t *testing.T, conn rueidis.Client, in setting) {
		for _, r := range rows {
			t.Run(r.promise, func(t *testing.T) {
				s := newSite(t, conn, in.publish, "lock")
				data, newest := "data of "+r.promise, "newest of "+r.promise
				if r.newest != "" {
					s.do(t, "SET", newest, r.newest)
				}
				if r.data != nil {
					s.do(t, append([]string{r.data[0], data}, r.data[1:]...)...)
				}
				got, err := lua.Run(t.Context(), conn, lua.FenceSet(data, newest, r.token, r.keep, r.write))
				require.NoError(t, err)
				require.Equal(t, r.refused, got)
				require.Equal(t, r.after, s.text(t, newest))
				s.requireTTL(t, r.ttl, s.pttl(t, newest))
				require.Equal(t, r.content, s.content(t, data))
				if r.content != "" {
					s.requireTTL(t, r.lasts, s.pttl(t, data))
				}
			})
		}
	})
}

// content is a string, or a hash's fields with their values in the order of their names.
func (s *site) content(t *testing.T, key string) string {
	t.Helper()
	kind, err := s.do(t, "TYPE", key).ToString()
	require.NoError(t, err)
	switch kind {
	case "none":
		return ""
	case "string":
		return s.text(t, key)
	}
	fields, err := s.do(t, "HGETALL", key).AsStrMap()
	require.NoError(t, err)
	var words []string
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		words = append(words, field, fields[field])
	}
	return strings.Join(words, " ")
}

// What newest must never hold, and what data can't be: the caller learns it, and no older writer is let in by it.
func TestFenceSetThatFailsLetsNobodyIn(t *testing.T) {
	forEachSetting(t, func(t *testing.T, conn rueidis.Client, in setting) {
		s := newSite(t, conn, in.publish, "lock")
		set := func(token int64, w lua.FenceWrite) error {
			_, err := lua.Run(t.Context(), conn, lua.FenceSet("data", "newest", token, 0, w))
			return err
		}
		for _, odd := range []string{"a word", "", "007", "-1", "1.5", "0"} {
			s.do(t, "SET", "newest", odd)
			require.ErrorContains(t, set(7, lua.WriteString("new", 0)), "must hold a fencing token", "%q", odd)
			require.Equal(t, odd, s.text(t, "newest"))
			require.Empty(t, s.content(t, "data"))
		}
		s.do(t, "DEL", "newest")
		s.do(t, "SET", "data", "a string")
		require.ErrorContains(t, set(7, lua.WriteHash(map[string]string{"a": "b"})), "WRONGTYPE")
		require.Equal(t, "a string", s.content(t, "data"))
		require.Equal(t, "7", s.text(t, "newest"), "who came with this token has been seen")
		s.do(t, "DEL", "newest")
		s.do(t, "RPUSH", "newest", "a list")
		require.ErrorContains(t, set(7, lua.WriteString("new", 0)), "WRONGTYPE")
		require.Equal(t, "a string", s.content(t, "data"))
	})
}
