package multilock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/multilock"
	"github.com/redlatch/redlatch/rlock"
	"github.com/redlatch/redlatch/rwlock"
)

// connect opens a client of a Redis of its own.
func connect(ctx context.Context) (client *redlatch.Client, stop func()) {
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		panic(err)
	}
	client, err := redlatch.Open(ctx, config.Config{
		Servers: config.Single("redis://" + m.Addr()),
		Timeout: 500 * time.Millisecond, // what one server that does not answer may cost
	})
	if err != nil {
		panic(err)
	}
	return client, func() {
		_ = client.Close()
		m.Close()
	}
}

// Two accounts at a time: either both are locked or none.
func ExampleNew() {
	ctx := context.Background()
	client, stop := connect(ctx)
	defer stop()

	from, to := rlock.New(client, "account:1"), rlock.New(client, "account:2")
	err := redlatch.Do(ctx, multilock.New(from, to), func(ctx context.Context) error {
		fmt.Println("moving money")
		// Code that gets ctx can lock one of the accounts again.
		return redlatch.Do(ctx, to, func(ctx context.Context) error { return ctx.Err() })
	}, redlatch.WithWait(5*time.Second))
	fmt.Println(err)
	// Output:
	// moving money
	// <nil>
}

// Members can be of any kind, also multi-locks: here the catalogue is read while an order and its stock are changed.
func ExampleNew_kinds() {
	ctx := context.Background()
	client, stop := connect(ctx)
	defer stop()

	stock := multilock.New(rlock.New(client, "stock:7"), rlock.New(client, "stock:8"))
	catalogue := rwlock.New(client, "catalogue")
	lock := multilock.New(rlock.New(client, "order:1001"), stock, catalogue.Read())
	fmt.Println(lock.Name())

	hold, err := lock.Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = catalogue.Write().TryLock(ctx)
	fmt.Println("catalogue can be changed:", !errors.Is(err, redlatch.ErrNotAcquired))
	fmt.Println(hold.Unlock(ctx))
	// Output:
	// order:1001, stock:7, stock:8, catalogue
	// catalogue can be changed: false
	// <nil>
}

// One lock on three servers that know nothing of each other: it is held, and released, also while one of them is away.
func ExampleNewRed() {
	ctx := context.Background()
	var members []redlatch.Locker
	var stops []func()
	for range 3 {
		client, stop := connect(ctx)
		members, stops = append(members, rlock.New(client, "leader")), append(stops, stop)
	}
	stops[0]() // one is gone
	defer stops[1]()
	defer stops[2]()

	lock := multilock.NewRed(members...)
	hold, err := lock.Lock(ctx, redlatch.WithLease(30*time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("valid for more than 20 s:", time.Until(hold.ValidUntil()) > 20*time.Second)
	_, err = lock.TryLock(ctx)
	fmt.Println("somebody else gets it:", err == nil)
	fmt.Println(hold.Unlock(ctx))
	// Output:
	// valid for more than 20 s: true
	// somebody else gets it: false
	// <nil>
}
