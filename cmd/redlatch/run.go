package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/supervise"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/rlock"
)

const (
	envLock      = "REDLATCH_LOCK" // tells the command the lock's name
	defaultRedis = "redis://127.0.0.1:6379"
	// defaultSentinel takes its place with --sentinel.
	defaultSentinel = "redis://127.0.0.1:26379"
	noWaitLimit     = time.Duration(-1)
	// releaseBound is how long the release may keep the program after the command has ended.
	releaseBound = 5 * time.Second
	longestGrace = 5 * time.Second
	// shortestLease is that of the watchdog: below it, a busy machine can't end a command in time.
	shortestLease = 100 * time.Millisecond
)

type runFlags struct {
	connection
	wait, lease, maxHold, grace, watchdog time.Duration
	verbose                               bool
}

func newRun(std stdio) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run NAME [flags] -- CMD [ARG...]",
		Short: "Run a command under a lock",
		Long: `run takes the lock NAME, runs the command with its own input, output and
environment plus ` + envLock + `=NAME, releases the lock when the command has
ended, and exits with the command's exit code. The lock is the one that
Redisson's getLock(NAME) gives.

While the command runs the lock is renewed, unless --lease fixes its end. When
it can't be renewed, the command gets SIGTERM --grace before the lock could
expire, and SIGKILL right before it does. When the lock was released by force
or deleted, which the next renewal finds out (at a third of
--watchdog-timeout), it gets SIGTERM at once and SIGKILL after --grace.

SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are forwarded to the
command. Without a terminal the command runs in a process group of its own, and
all signals go to that whole group. In the foreground of a terminal it stays in
this program's group and gets Ctrl-C from the terminal; other signals go to the
command alone, not to what it has started. On Linux the command is killed when
this program is. What the command leaves in the background is not waited for.

` + exitCodesHelp,
		Example: "  redlatch run nightly-report -- ./report.sh\n" +
			"  redlatch run --wait 0 import -- ./import.sh || [ $? -eq 75 ]    # somebody else is at it: fine\n" +
			"  redlatch run --redis rediss://cache:6380 --password-file /run/secrets/redis migrate -- ./migrate --all\n" +
			"  redlatch run --sentinel mymaster --redis sentinel-0:26379,sentinel-1:26379 nightly-report -- ./report.sh\n" +
			"  redlatch run --config /etc/orders/redisson.yaml nightly-report -- ./report.sh",
		Args: runArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.locate(os.Getenv(envRedis))
			return f.run(cmd.Context(), std, args[0], args[1:])
		},
	}
	f.register(cmd)
	return cmd
}

// locate fills in where the servers are when no flag says it.
func (f *runFlags) locate(environment string) {
	switch {
	case f.named():
	case environment != "":
		f.redis = []string{environment}
	case f.sentinel != "":
		f.redis = []string{defaultSentinel}
	default:
		f.redis = []string{defaultRedis}
	}
}

func (f *runFlags) register(cmd *cobra.Command) {
	f.connection.register(cmd, "`URL` of the server (default $"+envRedis+", else "+defaultRedis+")")
	flags := cmd.Flags()
	flags.DurationVar(&f.wait, "wait", noWaitLimit, "give up with exit code 75 after this time; 0 is one attempt (default: wait without limit)")
	flags.DurationVar(&f.lease, "lease", 0, "a fixed lease: the lock is not renewed, and the command is stopped before it ends")
	flags.DurationVar(&f.maxHold, "max-hold", 0, "renew the lock no longer than this; it then ends within one --watchdog-timeout")
	flags.DurationVar(&f.grace, "grace", 0, "how long before the lock's end the command gets SIGTERM (default: a sixth of the lease, at most 5s)")
	flags.DurationVar(&f.watchdog, "watchdog-timeout", 0,
		"how long the lock stays when this program dies; it is renewed at a third of it (default: that of --config, else 30s)")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "say on stderr when the lock is waited for, taken and released")
	flags.Lookup("wait").DefValue = "0s" // a default of zero is not shown
}

func runArgs(cmd *cobra.Command, args []string) error {
	switch dash := cmd.ArgsLenAtDash(); {
	case len(args) == 0:
		return usagef("run needs the name of a lock and a command: redlatch run NAME -- CMD")
	case dash < 0:
		return usagef(`put "--" between the lock's name and the command: redlatch run %s -- CMD`, args[0])
	case dash != 1:
		return usagef(`there must be one name before "--", not %d arguments: redlatch run NAME -- CMD`, dash)
	case len(args) == 1:
		return usagef(`there is no command after "--": redlatch run %s -- CMD`, args[0])
	}
	return nil
}

// leaseInForce is the shortest lease that the command can run under.
func (f *runFlags) leaseInForce() time.Duration {
	switch {
	case f.lease > 0:
		return f.lease
	case f.maxHold > 0:
		return min(f.maxHold, f.watchdog)
	default:
		return f.watchdog
	}
}

// leaseFits tells whether a command can be told and ended within a lease; 0 stands for a flag that was not given.
func leaseFits(d time.Duration) bool { return d == 0 || d >= shortestLease && d <= config.MaxLease }

// complete checks the flags that config and the acquire options do not check, and fills in the grace.
func (f *runFlags) complete() error {
	switch {
	case f.wait < 0 && f.wait != noWaitLimit:
		return usagef("--wait is %v; use 0 for one attempt, or leave it out to wait without limit", f.wait)
	case !leaseFits(f.lease):
		return usagef("--lease is %v; allowed is %v to %v", f.lease, shortestLease, config.MaxLease)
	case !leaseFits(f.maxHold):
		return usagef("--max-hold is %v; allowed is %v to %v", f.maxHold, shortestLease, config.MaxLease)
	case f.grace < 0:
		return usagef("--grace is %v; allowed is up to a third of the lease", f.grace)
	case f.lease > 0 && f.maxHold > 0:
		return usagef("--max-hold bounds the renewals and --lease has none; use one of them")
	case f.grace == 0:
		f.grace = min(f.leaseInForce()/6, longestGrace)
	case f.grace > f.leaseInForce()/3:
		// A renewal comes at a third of the lease, and may fail once or twice before it is time to tell the command.
		return usagef("--grace is %v; allowed is up to a third of the lease of %v", f.grace, f.leaseInForce())
	}
	return nil
}

func (f *runFlags) acquireOptions() []redlatch.AcquireOption {
	var opts []redlatch.AcquireOption
	if f.wait != noWaitLimit {
		opts = append(opts, redlatch.WithWait(f.wait))
	}
	if f.lease > 0 {
		opts = append(opts, redlatch.WithLease(f.lease))
	}
	if f.maxHold > 0 {
		opts = append(opts, redlatch.WithMaxHold(f.maxHold))
	}
	return opts
}

// run is the whole life of one command under the lock.
func (f *runFlags) run(ctx context.Context, std stdio, name string, argv []string) error {
	cfg, err := f.config(std.err)
	if err != nil {
		return err
	}
	f.watchdog = cmp.Or(f.watchdog, cfg.LockWatchdogTimeout, config.DefaultLockWatchdogTimeout)
	cfg.LockWatchdogTimeout = f.watchdog
	if err := f.complete(); err != nil {
		return err
	}
	if err := f.checked(cfg); err != nil {
		return err
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return notStarted(argv[0], err)
	}
	signals := make(chan os.Signal, 16)
	supervise.Notify(signals)
	defer signal.Stop(signals)

	r := &runner{runFlags: f, std: std, name: name, signals: signals}
	client, hold, err := r.acquire(ctx, cfg)
	if err != nil {
		return err
	}
	outcome, err := supervise.Run(hold, supervise.Command{
		Path: path, Args: argv[1:], Env: append(os.Environ(), envLock+"="+name),
		Stdin: std.in, Stdout: std.out, Stderr: std.err,
	}, supervise.Options{Grace: f.grace, Signals: signals, Report: r.report})
	released := r.release(client, hold)
	if err != nil {
		if errors.Is(err, redlatch.ErrLost) {
			return exit(exitLost, err)
		}
		return notStarted(argv[0], err)
	}
	return r.conclude(outcome, released)
}

// runner is what the steps of one run share.
type runner struct {
	*runFlags
	std     stdio
	name    string
	signals <-chan os.Signal
	failing atomic.Bool // the last renewal failed
}

// report writes one line to stderr.
func (r *runner) report(text string) {
	fmt.Fprintf(r.std.err, "redlatch: lock %q: %s\n", r.name, strings.TrimPrefix(text, "redlatch: "))
}

func (r *runner) chat(format string, args ...any) {
	if r.verbose {
		r.report(fmt.Sprintf(format, args...))
	}
}

// Observe reports renewals that fail, each series once: they decide over the command.
func (r *runner) Observe(e redlatch.Event) {
	switch e.Kind {
	case redlatch.EventRenewalFailed:
		if !r.failing.Swap(true) {
			r.report(fmt.Sprintf("it could not be renewed and is tried again: %v", e.Err))
		}
	case redlatch.EventRenewed:
		if r.failing.Swap(false) {
			r.report("it is renewed again")
		}
	}
}

// acquire connects and takes the lock. Signals end it.
func (r *runner) acquire(parent context.Context, cfg config.Config) (*redlatch.Client, *redlatch.Hold, error) {
	ctx, cancel := context.WithCancelCause(parent)
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		r.cancelOnSignal(ctx, cancel)
	}()
	client, hold, err := r.take(ctx, cfg)
	cancel(nil)
	<-listening
	// A signal that came with the grant ends the program all the same: the command must not start after it.
	var signalled *ending
	if !errors.As(context.Cause(ctx), &signalled) {
		return client, hold, err
	}
	if err == nil {
		_ = r.release(client, hold) // the end is by the signal in any case
	}
	return nil, nil, exit(signalled.code(), errors.New(signalled.Error()+", before the command was started"))
}

func (r *runner) cancelOnSignal(ctx context.Context, cancel context.CancelCauseFunc) {
	for {
		select {
		case sig := <-r.signals:
			if supervise.Ends(sig) {
				cancel(&ending{sig})
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

func (r *runner) take(ctx context.Context, cfg config.Config) (*redlatch.Client, *redlatch.Hold, error) {
	client, err := redlatch.Open(ctx, cfg, redlatch.WithObserver(r))
	if err != nil {
		return nil, nil, exit(exitUnavailable, err)
	}
	lock := rlock.New(client, r.name)
	r.chat("waiting for it")
	began := time.Now()
	hold, err := lock.Lock(ctx, r.acquireOptions()...)
	if err != nil {
		err = r.explain(lock, err)
		_ = client.Close() // always nil
		return nil, nil, err
	}
	r.chat("taken after %v as %s", time.Since(began).Round(time.Millisecond), hold.Owner())
	return client, hold, nil
}

// explain gives the error of an acquisition its exit code, and says who is in the way.
func (r *runner) explain(lock *rlock.Lock, err error) error {
	switch {
	case errors.Is(err, redlatch.ErrNotAcquired):
		tried := "at the first attempt"
		if r.wait > 0 {
			tried = fmt.Sprintf("within %v", r.wait)
		}
		return exit(exitNotAcquired, fmt.Errorf("lock %q was not acquired %s: %s", r.name, tried, r.holder(lock)))
	case errors.Is(err, redlatch.ErrBadName):
		return exit(exitUsage, err)
	default:
		return exit(exitUnavailable, err)
	}
}

func (r *runner) holder(lock *rlock.Lock) string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	view, err := lock.Inspect(ctx)
	if err != nil || len(view.Holders) == 0 {
		return "somebody else held it"
	}
	return fmt.Sprintf("%s holds it, for %v more unless it is renewed", view.Holders[0].Owner, view.TTL.Round(time.Millisecond))
}

// release frees the lock and closes the client. A server that does not answer keeps it no longer than releaseBound.
func (r *runner) release(client *redlatch.Client, hold *redlatch.Hold) error {
	ctx, cancel := context.WithTimeout(context.Background(), releaseBound)
	defer cancel()
	err := hold.Unlock(ctx)
	// What Unlock could not settle is settled meanwhile; what is left then, expires.
	_ = client.Shutdown(ctx)
	if err == nil {
		r.chat("released")
	}
	return err
}

// conclude turns the command's end and the release into an exit code.
func (r *runner) conclude(o supervise.Outcome, released error) error {
	switch {
	case o.Stopped != nil:
		return exit(exitLost, fmt.Errorf("lock %q: the command was stopped (exit code %d) because %w", r.name, o.Code, trimmed(o.Stopped)))
	case errors.Is(released, redlatch.ErrLost):
		return exit(exitLost, fmt.Errorf("lock %q: the command has ended (exit code %d), but was not protected to its end: %w",
			r.name, o.Code, trimmed(released)))
	case released != nil:
		r.report(fmt.Sprintf("the release failed: %v", released))
	}
	if o.Code != 0 {
		return &exitError{code: o.Code}
	}
	return nil
}

// trimmed takes the operation and the name off an error that is put into a sentence with both.
func trimmed(err error) error {
	var named *redlatch.Error
	if errors.As(err, &named) {
		return named.Err
	}
	return err
}

// notStarted has the exit codes of shells.
func notStarted(command string, err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return exit(exitNotFound, fmt.Errorf("the command %q was not found: %w", command, err))
	}
	return exit(exitNotRunnable, fmt.Errorf("the command %q can't be executed: %w", command, err))
}
