// Waiter is a Go process that takes locks as it is told, for tests that need several processes and kill some of them.
//
//	waiter -config redisson.yaml -kind fair -name order:1001 -owners 8
//
// Its first line out is "ready" and the fields of its owners in Redis. Then it takes orders from stdin, one a line, and answers
// each with a line that begins with the owner's number, counted from 0:
//
//	lock <owner> <wait>   "<owner> ok" or "<owner> refused"; a wait of 0s is none, "lock 3 2.5s" gives up after 2.5 s
//	unlock <owner>        "<owner> ok"
//
// or with "<owner> error …". Orders to different owners overlap. When stdin ends it closes its client, which gives up what waits,
// and ends with exit code 0.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/fairlock"
	"github.com/redlatch/redlatch/rwlock"
)

func main() {
	path := flag.String("config", "", "the redisson.yaml that leads to the servers")
	both := flag.Bool("both-channels", false, "also publish as Redisson did before it knew sharded messages")
	kind := flag.String("kind", "fair", "fair, read or write")
	name := flag.String("name", "", "the lock's name")
	owners := flag.Int("owners", 1, "how many owners")
	flag.Parse()
	if err := run(*path, *both, *kind, *name, *owners); err != nil {
		fmt.Fprintln(os.Stderr, "waiter:", err)
		os.Exit(1)
	}
}

// owner is one owner and what it holds.
type owner struct {
	number int
	lock   redlatch.Locker
	field  string
	ctx    context.Context
	hold   *redlatch.Hold
}

func run(path string, both bool, kind, name string, owners int) error {
	cfg, _, err := config.LoadRedissonYAML(path)
	if err != nil {
		return err
	}
	cfg.FallbackPoll, cfg.PlainAndSharded = time.Hour, both // a wake-up must come by a message
	client, err := redlatch.Open(context.Background(), cfg)
	if err != nil {
		return err
	}
	lock, suffix, err := lockOf(client, kind, name)
	if err != nil {
		return errors.Join(err, client.Close())
	}
	list := make([]*owner, owners)
	ready := []string{"ready"}
	for i := range list {
		o := client.NewOwner()
		list[i] = &owner{number: i, lock: lock, field: o.String() + suffix, ctx: redlatch.WithOwner(context.Background(), o)}
		ready = append(ready, list[i].field)
	}
	fmt.Println(strings.Join(ready, " "))
	var orders sync.WaitGroup
	err = obey(list, &orders)
	err = errors.Join(err, client.Close())
	orders.Wait()
	return err
}

func lockOf(client *redlatch.Client, kind, name string) (lock redlatch.Locker, suffix string, err error) {
	switch kind {
	case "fair":
		return fairlock.New(client, name), "", nil
	case "read":
		return rwlock.New(client, name).Read(), "", nil
	case "write":
		return rwlock.New(client, name).Write(), ":write", nil
	default:
		return nil, "", fmt.Errorf("the kind is %q; it must be fair, read or write", kind)
	}
}

// obey carries out the orders until stdin ends. Whoever gives them waits for an owner's answer before its next order.
func obey(owners []*owner, orders *sync.WaitGroup) error {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		line := lines.Text()
		var order string
		var number int
		if _, err := fmt.Sscan(line, &order, &number); err != nil || number < 0 || number >= len(owners) {
			return fmt.Errorf("the order %q: want lock or unlock and the number of one of %d owners", line, len(owners))
		}
		var do func() error
		switch order {
		case "lock":
			wait, err := time.ParseDuration(line[strings.LastIndexByte(line, ' ')+1:])
			if err != nil {
				return fmt.Errorf("the order %q: %w", line, err)
			}
			do = func() error { return owners[number].take(wait) }
		case "unlock":
			do = owners[number].release
		default:
			return fmt.Errorf("the order %q: want lock or unlock", line)
		}
		orders.Go(func() { owners[number].answer(do()) })
	}
	return lines.Err()
}

func (o *owner) take(wait time.Duration) (err error) {
	if wait == 0 {
		o.hold, err = o.lock.Lock(o.ctx)
	} else {
		o.hold, err = o.lock.TryLock(o.ctx, redlatch.WithWait(wait))
	}
	return err
}

func (o *owner) release() error {
	if o.hold == nil {
		return redlatch.ErrNotHeld
	}
	return o.hold.Unlock(o.ctx)
}

// answer writes one line at once, so that answers of several owners do not mix.
func (o *owner) answer(err error) {
	switch {
	case err == nil:
		fmt.Printf("%d ok\n", o.number)
	case errors.Is(err, redlatch.ErrNotAcquired):
		fmt.Printf("%d refused\n", o.number)
	default:
		fmt.Printf("%d error %q\n", o.number, err)
	}
}
