package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/redlatch/redlatch/bench/internal/figures"
)

// What is run unless the flags ask for less.
const (
	latencyHolds = 100_000
	latencyTime  = 3 * time.Minute
	frozenHolds  = 3_000
	frozenTime   = time.Minute
)

// plan is what the command line asks for.
type plan struct {
	holds    int           // of the runs with latency; that with a frozen node has 3 000 at most
	length   time.Duration // of the runs with latency; that with a frozen node takes a minute at most
	watchdog time.Duration // lockWatchdogTimeout of both sides
	runs     []string      // frozen, failover, or a latency
	sides    []string
}

func main() {
	p, err := parse(os.Args[1:])
	if err != nil {
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = run(ctx, p)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-cluster:", err)
		os.Exit(1)
	}
}

func parse(args []string) (plan, error) {
	var p plan
	var seconds int
	var runs, sides string
	flags := flag.NewFlagSet("cluster", flag.ContinueOnError)
	flags.IntVar(&p.holds, "holds", latencyHolds, "how many locks are held; the run with a frozen node takes 3000 at most")
	flags.IntVar(&seconds, "seconds", int(latencyTime.Seconds()), "how long they are watched; the run with a frozen node takes 60 at most")
	flags.DurationVar(&p.watchdog, "watchdog", 30*time.Second, "lockWatchdogTimeout")
	flags.StringVar(&runs, "runs", "frozen,failover,2ms,10ms", "what to run: frozen, failover, or a round trip's additional time")
	flags.StringVar(&sides, "sides", "redlatch,redisson", "whom to measure")
	if err := flags.Parse(args); err != nil {
		return p, err
	}
	p.length = time.Duration(seconds) * time.Second
	p.runs, p.sides = strings.Split(runs, ","), strings.Split(sides, ",")
	return p, nil
}

// run does one run after the other and prints the table in any case. Its error joins what went wrong and which promises were missed.
func run(ctx context.Context, p plan) error {
	sheet := figures.New(os.Stdout)
	jvm := &lazyJVM{}
	defer jvm.close()
	fmt.Printf("# %d cores, %s\n", runtime.NumCPU(), runtime.Version())
	var errs []error
	for _, name := range p.runs {
		if ctx.Err() != nil {
			break
		}
		b := &bench{plan: p, name: name, sheet: sheet, jvm: jvm}
		if err := b.run(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	sheet.Table()
	return errors.Join(append(errs, context.Cause(ctx))...)
}
