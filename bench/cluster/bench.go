package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/redlatch/redlatch/bench/internal/figures"
)

const (
	// lookEvery is how often the servers are asked for the TTLs of 3 000 locks; of 100 000 it is less often, not to disturb them, and out of
	// step with the 10 s after which locks are renewed.
	lookEvery       = 250 * time.Millisecond
	lookAtManyEvery = 3700 * time.Millisecond
	// roundBound is what a round may take at a round trip of 2 ms.
	roundBound = 2 * time.Second
)

// bench is one run of both sides on one cluster.
type bench struct {
	plan  plan
	name  string // "frozen", "failover", or the latency as Go writes it
	sheet *figures.Sheet
	jvm   *lazyJVM
}

// run measures each side in turn; its error says what broke and which promises Redlatch missed.
func (b *bench) run(ctx context.Context) error {
	if b.name == "failover" {
		return b.failover(ctx)
	}
	measure, locks := b.latency, b.plan.holds
	if b.name == "frozen" {
		measure, locks = b.frozen, min(b.plan.holds, frozenHolds)
	}
	r, err := newRig(ctx, locks)
	if err != nil {
		return err
	}
	version, err := r.version()
	if err != nil {
		return errors.Join(err, r.close())
	}
	fmt.Printf("# %s: %d masters, Redis %s, %d locks\n", b.name, len(r.nodes), version, locks)
	var errs []error
	for _, name := range b.plan.sides {
		if err := b.one(ctx, name, r, measure); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(append(errs, r.close())...)
}

// one measures one side.
func (b *bench) one(ctx context.Context, name string, r *rig, measure func(context.Context, string, side, *rig) error) error {
	b.progress(name, "opens")
	s, err := b.open(ctx, name, r)
	if err != nil {
		return err
	}
	err = measure(ctx, name, s, r)
	return errors.Join(err, s.close(context.WithoutCancel(ctx)), r.clear(ctx))
}

// frozen stops the first node and watches the others.
func (b *bench) frozen(ctx context.Context, name string, s side, r *rig) error {
	frozen, healthy := r.nodes[0], r.nodes[1:]
	if _, _, err := s.hold(ctx); err != nil {
		return err
	}
	b.progress(name, "holds %d locks; one node freezes", len(r.names))
	if err := syscall.Kill(frozen.PID(), syscall.SIGSTOP); err != nil {
		return err
	}
	worst, ends, err := b.watchHealthy(ctx, s, healthy)
	told, toldErr := s.told(ctx)
	if err := errors.Join(err, toldErr, frozen.silent(ctx), syscall.Kill(frozen.PID(), syscall.SIGCONT)); err != nil {
		return err
	}
	held := len(r.names) - len(frozen.names)
	b.sheet.Count("frozen: holds on the healthy nodes", name, held, "holds")
	b.sheet.Count("frozen: lost on the healthy nodes", name, held-worst.present, "holds")
	b.sheet.Number("frozen: smallest TTL on the healthy nodes", name, worst.smallest.Seconds(), "s")
	b.sheet.Count("frozen: holds on the frozen node", name, len(frozen.names), "holds")
	b.sheet.Count("frozen: holders told", name, told, "holds")
	ours, ok := s.(*redlatchSide)
	if !ok {
		return nil
	}
	if told > 0 {
		b.sheet.Number("frozen: last holder told after ValidUntil", name, float64(ours.seen.latest(ends).Microseconds())/1000, "ms")
	}
	if held > worst.present {
		return fmt.Errorf("%d locks on healthy nodes were lost", held-worst.present)
	}
	if worst.smallest < b.plan.watchdog/2 {
		return fmt.Errorf("a lock on a healthy node had %v left, less than half the watchdog timeout of %v", worst.smallest, b.plan.watchdog)
	}
	if told < len(frozen.names) && min(b.plan.length, frozenTime) > b.plan.watchdog*11/10 {
		return fmt.Errorf("%d holders on the frozen node were not told", len(frozen.names)-told)
	}
	return nil
}

// watchHealthy looks at the healthy nodes for as long as the run takes. It returns the worst that it saw, and until when Redlatch trusted each
// lock when no renewal of the frozen node's could be on its way any more.
func (b *bench) watchHealthy(ctx context.Context, s side, healthy []*node) (worst view, ends map[string]time.Time, err error) {
	settled := time.After(b.plan.watchdog / 5) // a renewal waits for a sixth at most
	ours, _ := s.(*redlatchSide)
	worst, err = b.watch(ctx, min(b.plan.length, frozenTime), lookEvery, healthy, func() {
		select {
		case <-settled:
			if ours != nil {
				ends = ours.validUntil()
			}
		default:
		}
	})
	return worst, ends, err
}

// latency makes the way to the servers long and watches all of them.
func (b *bench) latency(ctx context.Context, name string, s side, r *rig) error {
	roundTrip, err := time.ParseDuration(b.name)
	if err != nil {
		return fmt.Errorf("a run is frozen, failover, or a time such as 2ms: %w", err)
	}
	for _, n := range r.nodes {
		n.SetLatency(roundTrip)
	}
	took, heap, err := s.hold(ctx)
	if err != nil {
		return err
	}
	b.progress(name, "holds %d locks, taken in %v", len(r.names), took)
	counting, stop := context.WithCancel(ctx)
	defer stop()
	counted := make(chan error, 1)
	var seen *rounds
	go func() {
		var err error
		seen, err = watchRounds(counting, r.nodes, len(r.names))
		counted <- err
	}()
	worst, err := b.watch(ctx, b.plan.length, lookAtManyEvery, r.nodes, func() {})
	stop()
	if err := errors.Join(err, <-counted); err != nil {
		return err
	}
	told, err := s.told(ctx)
	if err != nil {
		return err
	}
	lost := len(r.names) - worst.present
	b.sheet.Count(b.name+": holds", name, len(r.names), "holds")
	b.sheet.Number(b.name+": taken in", name, took.Seconds(), "s")
	b.sheet.Count(b.name+": lost", name, lost, "holds")
	b.sheet.Count(b.name+": holders told", name, told, "holds")
	b.sheet.Number(b.name+": smallest TTL", name, worst.smallest.Seconds(), "s")
	b.sheet.Count(b.name+": whole rounds of renewals", name, len(seen.whole), "rounds")
	if len(seen.whole) > 0 {
		b.progress(name, "renewed all in %v", seen.whole)
		b.sheet.Number(b.name+": median round", name, seen.median().Seconds(), "s")
		b.sheet.Number(b.name+": longest round", name, seen.longest().Seconds(), "s")
	}
	b.sheet.Count(b.name+": memory per hold", name, int(heap)/len(r.names), "B")
	if name != "redlatch" {
		return nil
	}
	if lost+told > 0 {
		return fmt.Errorf("%d locks were lost and %d holders were told so", lost, told)
	}
	if roundTrip == 2*time.Millisecond && len(seen.whole) > 0 && seen.longest() > roundBound {
		return fmt.Errorf("a round took %v", seen.longest())
	}
	return nil
}

// watch looks at the nodes again and again and returns the worst that it saw: the last look is at the end.
func (b *bench) watch(ctx context.Context, length, every time.Duration, nodes []*node, each func()) (view, error) {
	worst := view{smallest: time.Hour}
	over := time.After(length)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for last := false; ; {
		seen, err := look(ctx, nodes)
		if err != nil {
			return worst, err
		}
		worst = view{seen.present, min(worst.smallest, seen.smallest)} // what has gone does not come back
		each()
		if last {
			return worst, nil
		}
		select {
		case <-ticker.C:
		case <-over:
			last = true
		case <-ctx.Done():
			return worst, context.Cause(ctx)
		}
	}
}

// progress tells who waits what goes on.
func (b *bench) progress(side, format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s %s: %s %s\n", time.Now().Format(time.TimeOnly), b.name, side, fmt.Sprintf(format, args...))
}
