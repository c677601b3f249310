package redlatch_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/rlock"
)

// server is the Redis of the examples.
func server() (url string, stop func()) {
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		panic(err)
	}
	return "redis://" + m.Addr(), m.Close
}

// The servers and settings of a Java service, from the file that it reads itself.
func ExampleOpen_redissonYAML() {
	url, stop := server()
	defer stop()
	file, remove := redissonYAML(url)
	defer remove()
	ctx := context.Background()

	cfg, warnings, err := config.LoadRedissonYAML(file)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, w := range warnings {
		fmt.Println(w) // what Go can't follow, such as a Java class, and what to set instead
	}
	client, err := redlatch.Open(ctx, cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	hold, err := rlock.New(client, "order:1001").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("a lease of", cfg.LockWatchdogTimeout, "and", hold.Unlock(ctx))
	// Output:
	// line 4: nameMaper: is unknown and passed over; did you mean nameMapper?
	// a lease of 20s and <nil>
}

// redissonYAML is a file of a Java service, with a slip in it.
func redissonYAML(url string) (file string, remove func()) {
	f, err := os.CreateTemp("", "redisson-*.yaml")
	if err != nil {
		panic(err)
	}
	defer f.Close()
	fmt.Fprintf(f, "singleServerConfig:\n  address: %q\nlockWatchdogTimeout: 20000\nnameMaper: none\n", url)
	return f.Name(), func() { _ = os.Remove(f.Name()) }
}

// The usual case: work under a lock, in one call that can't be got wrong.
func ExampleDo() {
	url, stop := server()
	defer stop()
	ctx := context.Background()

	client, err := redlatch.Open(ctx, config.Config{Servers: config.Single(url)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	lock := rlock.New(client, "order:1001")
	err = redlatch.Do(ctx, lock, func(ctx context.Context) error {
		fmt.Println("shipping order 1001")
		return ctx.Err() // ends when the lock is lost
	})
	fmt.Println(err)
	// Output:
	// shipping order 1001
	// <nil>
}

// Step by step, with a wait limit.
func Example() {
	url, stop := server()
	defer stop()
	ctx := context.Background()

	client, err := redlatch.Open(ctx, config.Config{Servers: config.Single(url)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	lock := rlock.New(client, "order:1001")

	hold, err := lock.Lock(ctx, redlatch.WithWait(5*time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = lock.TryLock(ctx)
	fmt.Println("somebody else:", errors.Is(err, redlatch.ErrNotAcquired))

	fmt.Println(hold.Unlock(context.WithoutCancel(ctx)))
	fmt.Println("unlocked twice:", errors.Is(hold.Unlock(ctx), redlatch.ErrNotHeld))
	// Output:
	// somebody else: true
	// <nil>
	// unlocked twice: true
}

// The owner travels in the context: code that gets the hold's context enters the lock again, other code does not.
func ExampleHold_Context() {
	url, stop := server()
	defer stop()
	ctx := context.Background()
	client, err := redlatch.Open(ctx, config.Config{Servers: config.Single(url)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	lock := rlock.New(client, "order:1001")

	outer, err := lock.Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer outer.Unlock(ctx)

	inner, err := lock.Lock(outer.Context())
	if err != nil {
		fmt.Println(err)
		return
	}
	count, err := lock.HoldCount(ctx, inner.Owner())
	fmt.Println(count, err)
	fmt.Println(inner.Unlock(ctx))
	// Output:
	// 2 <nil>
	// <nil>
}

// Who holds it? For the night of an outage.
func ExampleHandle_Inspect() {
	url, stop := server()
	defer stop()
	ctx := context.Background()
	client, err := redlatch.Open(ctx, config.Config{Servers: config.Single(url)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	lock := rlock.New(client, "order:1001")

	// 47 plays the part of the thread id that Redisson's lockAsync(threadId) takes.
	hold, err := lock.Lock(redlatch.WithThreadID(ctx, 47), redlatch.WithLease(time.Minute))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer hold.Unlock(ctx)

	seen, err := lock.Inspect(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, holder := range seen.Holders {
		fmt.Println(seen.Kind, seen.Name, holder.Owner.ThreadID(), holder.Owner == hold.Owner(), holder.Count)
	}
	// Output: plain order:1001 47 true 1
}
