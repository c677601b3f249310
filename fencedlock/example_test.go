package fencedlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/fencedlock"
	"github.com/redlatch/redlatch/fencedlock/gate"
)

// server is the Redis of the examples.
func server() (*miniredis.Miniredis, string) {
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		panic(err)
	}
	return m, "redis://" + m.Addr()
}

// A lock passes on while its first holder is paused; the resource refuses what that one writes afterwards.
func Example() {
	redis, url := server()
	defer redis.Close()
	ctx := context.Background()
	client, err := redlatch.Open(ctx, config.Config{Servers: config.Single(url)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	lock := fencedlock.New(client, "order:1001")
	var orders gate.Memory // stands for the resource; see gate/sqlgate for rows, gate/redisgate for keys

	paused, err := lock.Lock(ctx, redlatch.WithLease(10*time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	redis.FastForward(11 * time.Second) // more than its lease passes in Redis

	next, err := lock.Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("tokens:", paused.Token(), next.Token())
	fmt.Println("the next one writes:", orders.Admit("order:1001", next.Token()))
	fmt.Println("the late one is refused:", errors.Is(orders.Admit("order:1001", paused.Token()), gate.ErrStale))
	fmt.Println("its lock is lost:", errors.Is(paused.Unlock(ctx), redlatch.ErrLost))
	fmt.Println("the next one's is not:", next.Unlock(ctx))
	// Output:
	// tokens: 1 2
	// the next one writes: <nil>
	// the late one is refused: true
	// its lock is lost: true
	// the next one's is not: <nil>
}

// Looking at the newest token takes nothing. It is for people and metrics; a write needs the token of its own hold.
func ExampleLock_Token() {
	redis, url := server()
	defer redis.Close()
	ctx := context.Background()
	client, err := redlatch.Open(ctx, config.Config{Servers: config.Single(url)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	lock := fencedlock.New(client, "order:1001")

	fmt.Println(lock.Token(ctx))
	for range 3 {
		if err := redlatch.Do(ctx, lock, func(context.Context) error { return nil }); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println(lock.Token(ctx))
	// Output:
	// 0 <nil>
	// 3 <nil>
}
