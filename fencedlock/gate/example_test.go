package gate_test

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

// A holder is paused for so long that its lock passes to the next one, and then writes as if nothing had happened.
func Example() {
	redis := miniredis.NewMiniRedis()
	if err := redis.Start(); err != nil {
		panic(err)
	}
	defer redis.Close()
	ctx := context.Background()
	client, err := redlatch.Open(ctx, config.Config{Servers: config.Single("redis://" + redis.Addr())})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	lock := fencedlock.New(client, "invoice:7")

	var invoices gate.Memory // in the one process that writes invoices
	write := func(hold *redlatch.Hold, who string) {
		err := invoices.Do(ctx, "invoice:7", hold.Token(), func(context.Context) error {
			fmt.Println(who, "writes with token", hold.Token())
			return nil
		})
		var stale *gate.StaleError
		if errors.As(err, &stale) {
			fmt.Println(who, "is refused:", stale.Token, "is older than", stale.Newest)
		}
	}

	slow, err := lock.Lock(ctx, redlatch.WithLease(10*time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	redis.FastForward(11 * time.Second) // the slow one is paused, and Redis lets its lock expire

	quick, err := lock.Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer quick.Unlock(ctx)
	write(quick, "the quick one")
	write(slow, "the slow one")
	// Output:
	// the quick one writes with token 2
	// the slow one is refused: 1 is older than 2
}

func ExampleMemory_Admit() {
	var g gate.Memory
	fmt.Println(g.Admit("stock:1001", 33))
	fmt.Println(g.Admit("stock:1001", 34))
	fmt.Println(g.Admit("stock:1001", 33))
	// Output:
	// <nil>
	// <nil>
	// gate: token 33 is refused for "stock:1001": the fencing token is stale, 34 has been admitted
}
