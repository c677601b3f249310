package redlatch_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/rlock"
)

// BenchmarkLockUnlock holds an uncontended Lock and Unlock against the least that they could cost: two EVALSHA of a script that does
// nothing, over the same client library. Both take turns within one run, and the ratio is what counts.
func BenchmarkLockUnlock(b *testing.B) {
	ctx := context.Background()
	server := redistest.Start(b)
	client, err := redlatch.Open(ctx, config.Config{Servers: config.Single(server.URL())})
	require.NoError(b, err)
	defer client.Close()
	lock := rlock.New(client, "order:1001")
	pair := func() {
		hold, err := lock.Lock(ctx)
		if err != nil {
			b.Fatal(err)
		}
		if err := hold.Unlock(ctx); err != nil {
			b.Fatal(err)
		}
	}

	raw := server.Client(b)
	sha, err := raw.Do(ctx, raw.B().ScriptLoad().Script("return 1").Build()).ToString()
	require.NoError(b, err)
	evalsha := func() rueidis.Completed {
		return raw.B().Evalsha().Sha1(sha).Numkeys(1).Key("order:1001").Arg("30000").Build()
	}
	rawPair := func() {
		for range 2 {
			if err := raw.Do(ctx, evalsha()).Error(); err != nil {
				b.Fatal(err)
			}
		}
	}

	for range 50 {
		pair()
		rawPair()
	}
	var ours, least time.Duration
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		began := time.Now()
		pair()
		between := time.Now()
		rawPair()
		ours, least = ours+between.Sub(began), least+time.Since(between)
	}
	b.ReportMetric(float64(ours.Nanoseconds())/float64(b.N), "ns/pair")
	b.ReportMetric(float64(least.Nanoseconds())/float64(b.N), "ns/2-evalsha")
	b.ReportMetric(float64(ours)/float64(least), "ratio")
}

// BenchmarkManyLocks is the same with many callers, each with a lock of its own.
func BenchmarkManyLocks(b *testing.B) {
	ctx := context.Background()
	server := redistest.Start(b)
	client, err := redlatch.Open(ctx, config.Config{Servers: config.Single(server.URL())})
	require.NoError(b, err)
	defer client.Close()
	b.SetParallelism(32)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		lock := rlock.New(client, fmt.Sprintf("order:%p", pb))
		for pb.Next() {
			hold, err := lock.Lock(ctx)
			if err != nil {
				b.Error(err)
				return
			}
			if err := hold.Unlock(ctx); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
