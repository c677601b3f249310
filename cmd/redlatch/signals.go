package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// ending is a signal that ended what was going on. It is the cause of the context that it cancels.
type ending struct{ signal os.Signal }

func (e *ending) Error() string { return "ended by signal: " + e.signal.String() }

// code is what shells report for a program that a signal has ended.
func (e *ending) code() int {
	if number, ok := e.signal.(syscall.Signal); ok {
		return exitSignalled + int(number)
	}
	return exitSignalled
}

// interruptible returns a context that the first SIGINT or SIGTERM ends; the second one has its usual effect, for those who do not
// want to wait. finish gives the signals back and returns the one that came, or nil; it can be called again.
func interruptible(parent context.Context) (ctx context.Context, finish func() *ending) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	var caught *ending
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case sig := <-signals:
			signal.Stop(signals)
			caught = &ending{sig}
			cancel(caught)
		case <-ctx.Done():
		}
	}()
	return ctx, func() *ending {
		signal.Stop(signals)
		cancel(nil)
		<-done
		return caught
	}
}
