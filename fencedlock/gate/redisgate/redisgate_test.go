package redisgate_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/fencedlock/gate"
	"github.com/redlatch/redlatch/fencedlock/gate/redisgate"
	"github.com/redlatch/redlatch/internal/redistest"
)

const (
	key   = "stock:1001"
	fence = "redlatch_fence:{stock:1001}"
)

// onEach runs a test on a redis-server and on miniredis.
func onEach(t *testing.T, test func(t *testing.T, e *redistest.Endpoint)) {
	t.Run("redis-server", func(t *testing.T) { test(t, &redistest.Start(t).Endpoint) })
	t.Run("miniredis", func(t *testing.T) { test(t, &redistest.NewMini(t).Endpoint) })
}

// isStale says that a token was refused because of a newer one.
func isStale(t *testing.T, err error, token, newest int64) {
	t.Helper()
	var stale *gate.StaleError
	require.ErrorAs(t, err, &stale)
	require.Equal(t, gate.StaleError{Resource: key, Token: token, Newest: newest}, *stale)
}

// holds says what is in Redis.
func holds(t *testing.T, e *redistest.Endpoint, content string) {
	t.Helper()
	require.Equal(t, content, e.Snapshot(t).Content())
}

// FE-08
func TestLateWriterChangesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, e *redistest.Endpoint) {
		g := redisgate.New(e.Client(t))
		require.NoError(t, g.Set(t.Context(), key, 34, "12", 0))
		const kept = `string "redlatch_fence:{stock:1001}" stays
    "34"
string "stock:1001" stays
    "12"
`
		holds(t, e, kept)
		isStale(t, g.Set(t.Context(), key, 33, "13", time.Minute), 33, 34)
		isStale(t, g.HSet(t.Context(), key, 33, map[string]string{"left": "13"}), 33, 34)
		isStale(t, g.Del(t.Context(), key, 33), 33, 34)
		isStale(t, g.Admit(t.Context(), key, 33), 33, 34)
		holds(t, e, kept)
	})
}

func TestHolderWritesAsOftenAsItLikes(t *testing.T) {
	onEach(t, func(t *testing.T, e *redistest.Endpoint) {
		g := redisgate.New(e.Client(t))
		for _, value := range []string{"12", "11", "11", "", "\x00\xff\r\n"} {
			require.NoError(t, g.Set(t.Context(), key, 34, value, 0))
			require.Equal(t, value, e.Do(t, "GET", key).Text())
		}
		require.NoError(t, g.Set(t.Context(), key, 35, "10", 0))
		newest, err := g.Newest(t.Context(), key)
		require.NoError(t, err)
		require.EqualValues(t, 35, newest)
	})
}

func TestHashKeepsItsOtherFieldsAndItsTTL(t *testing.T) {
	onEach(t, func(t *testing.T, e *redistest.Endpoint) {
		g := redisgate.New(e.Client(t))
		e.Do(t, "HSET", key, "left", "12", "place", "B7")
		e.Do(t, "PEXPIRE", key, "100000")
		require.NoError(t, g.HSet(t.Context(), key, 34, map[string]string{"left": "11", "sold": "1"}))
		holds(t, e, `string "redlatch_fence:{stock:1001}" stays
    "34"
hash "stock:1001" expires
    "left" = "11"
    "place" = "B7"
    "sold" = "1"
`)
		isStale(t, g.HSet(t.Context(), key, 1, map[string]string{"left": "12"}), 1, 34)
		require.Equal(t, "11", e.Do(t, "HGET", key, "left").Text())
	})
}

// A late writer must not bring back what was deleted or has expired.
func TestFenceOutlivesItsKey(t *testing.T) {
	onEach(t, func(t *testing.T, e *redistest.Endpoint) {
		g := redisgate.New(e.Client(t))
		require.NoError(t, g.HSet(t.Context(), key, 34, map[string]string{"left": "12"}))
		require.NoError(t, g.Del(t.Context(), key, 34))
		const fenced = `string "redlatch_fence:{stock:1001}" stays
    "34"
`
		holds(t, e, fenced)
		isStale(t, g.Set(t.Context(), key, 33, "13", 0), 33, 34)
		require.NoError(t, g.Del(t.Context(), key, 34), "nothing to delete is no error")

		require.NoError(t, g.Set(t.Context(), key, 34, "12", time.Millisecond))
		require.Eventually(t, func() bool { return len(e.Snapshot(t).Entries) == 1 }, 10*time.Second, time.Millisecond)
		isStale(t, g.Set(t.Context(), key, 33, "13", 0), 33, 34)
		holds(t, e, fenced)
	})
}

func TestTTLIsTheOneOfTheLastSet(t *testing.T) {
	onEach(t, func(t *testing.T, e *redistest.Endpoint) {
		g := redisgate.New(e.Client(t))
		require.NoError(t, g.Set(t.Context(), key, 34, "12", time.Minute))
		entry, _ := e.Snapshot(t).Get(key)
		require.InDelta(t, time.Minute, entry.TTL, float64(20*time.Second))
		require.LessOrEqual(t, entry.TTL, time.Minute)
		require.NoError(t, g.Set(t.Context(), key, 34, "12", 0))
		entry, _ = e.Snapshot(t).Get(key)
		require.Equal(t, redistest.NoTTL, entry.TTL)
	})
}

func TestRetentionIsCountedFromTheLastAdmission(t *testing.T) {
	onEach(t, func(t *testing.T, e *redistest.Endpoint) {
		short := redisgate.New(e.Client(t), redisgate.WithRetention(time.Hour))
		require.NoError(t, short.Admit(t.Context(), key, 34))
		e.Do(t, "PEXPIRE", fence, "50000") // as if most of it had passed
		isStale(t, short.Admit(t.Context(), key, 33), 33, 34)
		entry, _ := e.Snapshot(t).Get(fence)
		require.LessOrEqual(t, entry.TTL, 50*time.Second, "a refused one renews nothing")
		require.NoError(t, short.Set(t.Context(), key, 34, "12", 0))
		entry, _ = e.Snapshot(t).Get(fence)
		require.Greater(t, entry.TTL, 59*time.Minute)
		require.LessOrEqual(t, entry.TTL, time.Hour)

		require.NoError(t, redisgate.New(e.Client(t)).Admit(t.Context(), key, 34))
		entry, _ = e.Snapshot(t).Get(fence)
		require.Equal(t, redistest.NoTTL, entry.TTL, "a gate that keeps fences for ever")
	})
}

// Lua's numbers can't tell these apart.
func TestTokensAreComparedOverAllTheirBits(t *testing.T) {
	onEach(t, func(t *testing.T, e *redistest.Endpoint) {
		g := redisgate.New(e.Client(t))
		for _, pair := range [][2]int64{{9, 10}, {99, 100}, {1 << 53, 1<<53 + 1}, {math.MaxInt64 - 1, math.MaxInt64}} {
			require.NoError(t, g.Admit(t.Context(), key, pair[0]))
			require.NoError(t, g.Admit(t.Context(), key, pair[1]))
			isStale(t, g.Admit(t.Context(), key, pair[0]), pair[0], pair[1])
		}
	})
}

func TestNewestOfAKeyThatNobodyWroteIsZero(t *testing.T) {
	onEach(t, func(t *testing.T, e *redistest.Endpoint) {
		newest, err := redisgate.New(e.Client(t)).Newest(t.Context(), key)
		require.NoError(t, err)
		require.Zero(t, newest)
	})
}

// A write that fails on the server has let nobody through who should not be, and has written nothing.
func TestKeyOfAnotherTypeIsAnErrorOfTheServer(t *testing.T) {
	onEach(t, func(t *testing.T, e *redistest.Endpoint) {
		g := redisgate.New(e.Client(t))
		e.Do(t, "SET", key, "12")
		err := g.HSet(t.Context(), key, 34, map[string]string{"left": "11"})
		require.ErrorContains(t, err, "WRONGTYPE")
		require.NotErrorIs(t, err, gate.ErrStale)
		require.Equal(t, "12", e.Do(t, "GET", key).Text())
		isStale(t, g.Admit(t.Context(), key, 33), 33, 34)
	})
}

func TestFenceThatHoldsSomethingElseAdmitsNobody(t *testing.T) {
	onEach(t, func(t *testing.T, e *redistest.Endpoint) {
		g := redisgate.New(e.Client(t))
		for _, value := range []string{"", "abc", "-1", "0", "1.5", " 1", "01"} {
			e.Do(t, "SET", fence, value)
			require.ErrorContains(t, g.Set(t.Context(), key, 34, "12", 0), fence, "%q", value)
			require.Zero(t, e.Do(t, "EXISTS", key).Int())
		}
		e.Do(t, "SET", fence, "9223372036854775808")
		require.ErrorContains(t, g.Set(t.Context(), key, 34, "12", 0), "64 bits")
		e.Do(t, "DEL", fence)
		e.Do(t, "RPUSH", fence, "34")
		require.ErrorContains(t, g.Set(t.Context(), key, 34, "12", 0), "WRONGTYPE")
		require.Zero(t, e.Do(t, "EXISTS", key).Int())
	})
}

// Many writers at a time: the fence never falls, and the key is what the newest wrote.
func TestFenceNeverFallsUnderConcurrentWriters(t *testing.T) {
	const clients, tokens = 6, 600
	server := redistest.Start(t)
	seen := server.Monitor(t)
	order := rand.Perm(tokens)
	var next, admitted, refused atomic.Int64
	var wg sync.WaitGroup
	for range clients {
		g := redisgate.New(server.Client(t))
		wg.Go(func() {
			for i := next.Add(1); i <= tokens; i = next.Add(1) {
				token := int64(order[i-1]) + 1
				switch err := g.Set(t.Context(), key, token, strconv.FormatInt(token, 10), 0); {
				case err == nil:
					admitted.Add(1)
				case errors.Is(err, gate.ErrStale):
					refused.Add(1)
				default:
					t.Errorf("write with token %d: %v", token, err)
				}
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, tokens, admitted.Load()+refused.Load())
	require.Equal(t, strconv.Itoa(tokens), server.Do(t, "GET", key).Text())
	require.Equal(t, strconv.Itoa(tokens), server.Do(t, "GET", fence).Text())

	var written []int
	for _, c := range seen.Commands(t) {
		if c.FromScript() && c.Name() == "SET" && c.Args[1] == key {
			n, err := strconv.Atoi(c.Args[2])
			require.NoError(t, err)
			written = append(written, n)
		}
	}
	require.Len(t, written, int(admitted.Load()))
	require.IsNonDecreasing(t, written)
}

func TestWriteIsOneScript(t *testing.T) {
	server := redistest.Start(t)
	g := redisgate.New(server.Client(t))
	require.NoError(t, g.Set(t.Context(), key, 34, "12", 0)) // the server knows the script now
	server.ResetStats(t)
	require.NoError(t, g.Set(t.Context(), key, 34, "11", 0))
	require.Equal(t, map[string]int64{"evalsha": 1, "get": 1, "set": 2}, server.CommandStats(t))
	server.Do(t, "SCRIPT", "FLUSH")
	require.NoError(t, g.Set(t.Context(), key, 34, "10", 0), "a restart of the server forgets scripts")
}

func TestWhatCannotBeSentIsNotSent(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	g := redisgate.New(client)
	server.ResetStats(t)
	require.ErrorIs(t, g.Set(t.Context(), key, 0, "12", 0), gate.ErrNoToken)
	require.ErrorIs(t, g.Del(t.Context(), key, -1), gate.ErrNoToken)
	require.ErrorContains(t, g.Set(t.Context(), "", 34, "12", 0), "empty")
	require.ErrorContains(t, g.HSet(t.Context(), key, 34, nil), "none")
	for _, ttl := range []time.Duration{-1, time.Microsecond, config.MaxLease + 1} {
		require.ErrorContains(t, g.Set(t.Context(), key, 34, "12", ttl), "TTL")
	}
	for _, d := range []time.Duration{0, -1, time.Microsecond, config.MaxLease + 1} {
		bad := redisgate.New(client, redisgate.WithRetention(d))
		require.ErrorContains(t, bad.Admit(t.Context(), key, 34), "WithRetention")
		_, err := bad.Newest(t.Context(), key)
		require.ErrorContains(t, err, "WithRetention")
	}
	require.ErrorContains(t, redisgate.New(nil).Admit(t.Context(), key, 34), "without a client")
	require.Empty(t, server.CommandStats(t))
}

// clustered is a client of a cluster that nothing reaches.
type clustered struct{ rueidis.Client }

func (clustered) Mode() rueidis.ClientMode { return rueidis.ClientModeCluster }

func TestFenceIsInTheSlotOfItsKeyOrTheKeyIsRefused(t *testing.T) {
	for _, name := range []string{"x", key, "{tenant}:stock", "a{b}c", "a{b}c{d}", "a{}b", "ключ", "a\x00b"} {
		if config.SlotSafe(name) == nil {
			require.Equal(t, config.Slot(name), config.Slot(redisgate.FenceKey(name)), "%q", name)
		}
	}
	g := redisgate.New(clustered{})
	for _, name := range []string{"a}b", "a{b", "{}x"} {
		require.ErrorContains(t, g.Set(t.Context(), name, 34, "12", 0), "slot", "%q", name)
		_, err := g.Newest(t.Context(), name)
		require.ErrorContains(t, err, "slot")
	}
	single := redisgate.New(redistest.Start(t).Client(t))
	require.NoError(t, single.Set(t.Context(), "a}b", 34, "12", 0), "there are no slots on a single server")
	require.ErrorIs(t, single.Set(t.Context(), "a}b", 33, "12", 0), gate.ErrStale)
}

func TestErrorOfTheNetworkStaysVisible(t *testing.T) {
	g := redisgate.New(redistest.Start(t).Client(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := g.Set(ctx, key, 34, "12", 0)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, key)
	_, err = g.Newest(ctx, key)
	require.ErrorIs(t, err, context.Canceled)
}
