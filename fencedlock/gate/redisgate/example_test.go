package redisgate_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/fencedlock/gate"
	"github.com/redlatch/redlatch/fencedlock/gate/redisgate"
)

// connect starts the Redis of the examples and connects to it.
func connect() (client rueidis.Client, stop func()) {
	redis := miniredis.NewMiniRedis()
	if err := redis.Start(); err != nil {
		panic(err)
	}
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{redis.Addr()}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		panic(err)
	}
	return client, func() {
		client.Close()
		redis.Close()
	}
}

// The tokens are those of two holds of a fencedlock; the one with 33 was paused until its lock had passed to the one with 34.
func ExampleGate_Set() {
	client, stop := connect()
	defer stop()
	ctx := context.Background()
	stock := redisgate.New(client)

	fmt.Println(stock.Set(ctx, "stock:1001", 34, "11", 0))
	err := stock.Set(ctx, "stock:1001", 33, "12", 0)
	fmt.Println(errors.Is(err, gate.ErrStale), err)

	left, err := client.Do(ctx, client.B().Get().Key("stock:1001").Build()).ToString()
	fmt.Println(left, err)
	// Output:
	// <nil>
	// true gate: token 33 is refused for "stock:1001": the fencing token is stale, 34 has been admitted
	// 11 <nil>
}

func ExampleGate_HSet() {
	client, stop := connect()
	defer stop()
	ctx := context.Background()
	stock := redisgate.New(client)

	fmt.Println(stock.HSet(ctx, "stock:1001", 34, map[string]string{"left": "11", "place": "B7"}))
	err := stock.HSet(ctx, "stock:1001", 33, map[string]string{"left": "12"})
	fmt.Println(errors.Is(err, gate.ErrStale))
	// Output:
	// <nil>
	// true
}
