package rwlock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/alicebob/miniredis/v2"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/rwlock"
)

// Readers share the lock; a writer keeps it to itself, and may leave it to its own reading.
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
	prices := rwlock.New(client, "prices")

	writing, err := prices.Write().Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = prices.Read().TryLock(ctx)
	fmt.Println("kept out:", errors.Is(err, redlatch.ErrNotAcquired))

	reading, err := prices.Read().Lock(writing.Context()) // the writer's own
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(writing.Unlock(ctx))
	other, err := prices.Read().TryLock(ctx)
	fmt.Println("let in:", err == nil)
	fmt.Println(other.Unlock(ctx), reading.Unlock(ctx))
	// Output:
	// kept out: true
	// <nil>
	// let in: true
	// <nil> <nil>
}
