package redistest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
)

func TestSnapshotShowsEveryTypeInOrder(t *testing.T) {
	s := redistest.Start(t)
	s.Do(t, "HSET", "order:1", "u2:7", "1", "u1:3", "2")
	s.Do(t, "PEXPIRE", "order:1", "30000")
	s.Do(t, "RPUSH", "queue", "u9:1", "u1:1")
	s.Do(t, "ZADD", "timeouts", "20", "u1:1", "10", "u9:1")
	s.Do(t, "SET", "token", "41")
	s.Do(t, "SADD", "members", "b", "a")

	snap := s.Snapshot(t)
	require.Equal(t, strings.TrimLeft(`
set "members" stays
    "a"
    "b"
hash "order:1" expires
    "u1:3" = "2"
    "u2:7" = "1"
list "queue" stays
    [0] "u9:1"
    [1] "u1:1"
zset "timeouts" stays
    "u9:1" @ 10
    "u1:1" @ 20
string "token" stays
    "41"
`, "\n"), snap.Content())
	lock, there := snap.Get("order:1")
	require.True(t, there)
	require.Greater(t, lock.TTL, 20*time.Second)
	require.LessOrEqual(t, lock.TTL, 30*time.Second)
	require.WithinDuration(t, time.Now(), snap.At, time.Minute)
	require.Equal(t, []string{"members", "order:1", "queue", "timeouts", "token"}, snap.Keys())
}

func TestRenamedSnapshotsOfTwoOwnersAreEqual(t *testing.T) {
	var snaps []redistest.Snapshot
	s := redistest.Start(t)
	for _, owner := range []string{"zz:4", "aa:9"} {
		s.FlushAll(t)
		s.Do(t, "HSET", "lock", owner, "1", "mode", "write")
		s.Do(t, "SET", "{lock}:"+owner+":rwlock_timeout:1", "1", "PX", "30000")
		s.Do(t, "ZADD", "timeouts", "100", owner)
		snaps = append(snaps, s.Snapshot(t).Map(strings.NewReplacer(owner, "OWNER").Replace))
	}
	require.Equal(t, snaps[0].Content(), snaps[1].Content())
	require.Empty(t, snaps[0].Diff(snaps[1], 10*time.Second))
	require.Contains(t, snaps[0].Content(), `"{lock}:OWNER:rwlock_timeout:1"`)
	require.Contains(t, snaps[0].MapScores(func(_ string, score float64) float64 { return score - 40 }).Content(), `"OWNER" @ 60`)
}

func TestDiffNamesTheKeyWhoseTTLIsOff(t *testing.T) {
	s := redistest.Start(t)
	s.Do(t, "SET", "lock", "1", "PX", "30000")
	long := s.Snapshot(t)
	s.Do(t, "PEXPIRE", "lock", "10000")
	short := s.Snapshot(t)
	require.Contains(t, long.Diff(short, time.Second), `string "lock" expires in`)
	s.Do(t, "PERSIST", "lock")
	require.Contains(t, short.Diff(s.Snapshot(t), time.Hour), "stays")
}
