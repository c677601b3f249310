package lua_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/lua"
)

// BenchmarkPair is one acquisition and one release, against two scripts that do nothing and are sent the same.
func BenchmarkPair(b *testing.B) {
	conn := redistest.Start(b).Client(b)
	const lock, latch, channel = "order:1001", "redisson_unlock_latch:{order:1001}:1", "redisson_lock__channel:{order:1001}"
	take := lua.Acquire(lock, latch, own, lease, true)
	give := lua.ReleaseTo(lock, channel, latch, lua.Departure{Owner: own, Lease: lease, Publish: "PUBLISH"})

	b.Run("acquire and release", func(b *testing.B) {
		for b.Loop() {
			grant, err := lua.Run(b.Context(), conn, take)
			require.NoError(b, err)
			require.True(b, grant.Acquired)
			left, err := lua.Run(b.Context(), conn, give)
			require.NoError(b, err)
			require.True(b, left.Freed)
		}
	})
	b.Run("two trivial EVALSHA", func(b *testing.B) {
		ctx := b.Context()
		sha, err := conn.Do(ctx, conn.B().ScriptLoad().Script("return 1").Build()).ToString()
		require.NoError(b, err)
		for b.Loop() {
			for _, call := range []struct{ keys, args []string }{{take.Keys, take.Args}, {give.Keys, give.Args}} {
				one, err := conn.Do(ctx, conn.B().Evalsha().Sha1(sha).Numkeys(int64(len(call.keys))).
					Key(call.keys...).Arg(call.args...).Build()).ToInt64()
				require.NoError(b, err)
				require.EqualValues(b, 1, one)
			}
		}
	})
}

// BenchmarkPipelinedPair is what each of 100 locks costs that are taken in one pipeline and released in another.
func BenchmarkPipelinedPair(b *testing.B) {
	const many = 100
	conn := redistest.Start(b).Client(b)
	var take []lua.Call[lua.Grant]
	var give []lua.Call[lua.Release]
	for i := range many {
		lock, latch, channel := fmt.Sprintf("lock:%d", i), fmt.Sprintf("latch:%d", i), fmt.Sprintf("channel:%d", i)
		take = append(take, lua.Acquire(lock, latch, own, lease, true))
		give = append(give, lua.ReleaseTo(lock, channel, latch, lua.Departure{Owner: own, Lease: lease, Publish: "PUBLISH"}))
	}
	for b.Loop() {
		for _, grant := range lua.RunAll(b.Context(), conn, take) {
			require.NoError(b, grant.Err)
		}
		for _, left := range lua.RunAll(b.Context(), conn, give) {
			require.NoError(b, left.Err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/many, "ns/pair")
}

// BenchmarkRenew is a batch of the default size.
func BenchmarkRenew(b *testing.B) {
	const many = 100
	conn := redistest.Start(b).Client(b)
	var locks, owners []string
	for i := range many {
		lock := fmt.Sprintf("lock:%d", i)
		locks, owners = append(locks, lock), append(owners, own)
		_, err := lua.Run(b.Context(), conn, lua.Acquire(lock, "latch", own, short, true))
		require.NoError(b, err)
	}
	renewal := lua.Renew(locks, owners, lease, true)
	for b.Loop() {
		renewed, err := lua.Run(b.Context(), conn, renewal)
		require.NoError(b, err)
		require.NotContains(b, renewed, false)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/many, "ns/lock")
}
