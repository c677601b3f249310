package redistest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
)

func TestKeysOfMiniExpireAsTimePasses(t *testing.T) {
	m := redistest.NewMini(t)
	c := m.Client(t)
	set := func(key string, ttl time.Duration) {
		require.NoError(t, c.Do(context.Background(), c.B().Set().Key(key).Value("v").Px(ttl).Build()).Error())
	}
	set("short", 50*time.Millisecond)
	set("long", time.Minute)
	start := time.Now()
	require.Eventually(t, func() bool { return m.Do(t, "EXISTS", "short").Int() == 0 }, 10*time.Second, time.Millisecond)
	require.GreaterOrEqual(t, time.Since(start), 40*time.Millisecond)
	long, there := m.Snapshot(t).Get("long")
	require.True(t, there)
	require.InDelta(t, time.Minute-time.Since(start), long.TTL, float64(time.Second))

	m.Advance(30 * time.Second)
	long, _ = m.Snapshot(t).Get("long")
	require.Less(t, long.TTL, 31*time.Second)
	m.Advance(30 * time.Second)
	require.Empty(t, m.Snapshot(t).Keys())
}

func TestMiniIsWatchedLikeAServer(t *testing.T) {
	m := redistest.NewMini(t)
	rec := m.Record(t, "lock:*")
	m.Do(t, "PUBLISH", "lock:1", "0")
	m.Do(t, "PUBLISH", "other", "0")
	require.Equal(t, []redistest.Message{{Channel: "lock:1", Payload: "0"}}, rec.Messages(t))

	c := m.Dial(t)
	_, err := c.Do("SUBSCRIBE", "lock:2")
	require.NoError(t, err)
	require.Equal(t, []string{"lock:2"}, m.Channels(t))

	m.Do(t, "HSET", "h", "b", "2", "a", "1")
	m.Do(t, "ZADD", "z", "5", "m")
	require.Equal(t, "hash \"h\" stays\n    \"a\" = \"1\"\n    \"b\" = \"2\"\nzset \"z\" stays\n    \"m\" @ 5\n", m.Snapshot(t).Content())
}

func TestRelayStandsBeforeMiniToo(t *testing.T) {
	m := redistest.NewMini(t)
	r := redistest.NewRelay(t, m)
	w := dialWire(t, r.Addr())
	r.Next(redistest.Sends("INCR"), redistest.LoseReply())
	w.send("INCR n")
	w.ended()
	require.Equal(t, "1", m.Do(t, "GET", "n").Text())
}
