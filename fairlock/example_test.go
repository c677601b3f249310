package fairlock_test

import (
	"context"
	"fmt"

	"github.com/alicebob/miniredis/v2"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/fairlock"
)

// Who came first is let in first.
func Example() {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	ctx := context.Background()
	client, err := redlatch.Open(ctx, config.Config{Servers: config.Single("redis://" + server.Addr())})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	counter := fairlock.New(client, "counter:7")

	hold, err := counter.Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	served := make(chan string)
	go func() {
		_ = redlatch.Do(ctx, counter, func(context.Context) error {
			served <- "the one who waited"
			return nil
		})
	}()
	for waiting := 0; waiting == 0; {
		seen, err := counter.Inspect(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		waiting = len(seen.Queue)
	}
	fmt.Println(hold.Unlock(ctx))
	fmt.Println(<-served)
	// Output:
	// <nil>
	// the one who waited
}
