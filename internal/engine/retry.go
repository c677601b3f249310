package engine

import (
	"context"
	"errors"
	"time"
)

// failures counts what a call has met in a row.
type failures struct {
	count    int
	began    time.Time       // the first one
	rerouted <-chan struct{} // closed when some locks have got another master since before the request
}

func (e *Engine) noFailures() failures { return failures{rerouted: e.nextLayout()} }

func (f *failures) add() {
	if f.count == 0 {
		f.began = time.Now()
	}
	f.count++
}

// worthRetrying tells whether a failed request is to be made again: when that can help, and RetryAttempts are not used up. Where masters can
// change, the failures of a failover come one after the other within moments, so there the time counts that as many timeouts would
// have taken: a failover that a patient client would have lived through is lived through. So it is with a server that refuses to write, since
// its address can come to lead to another one.
func (e *Engine) worthRetrying(err error, failed failures) bool {
	if !passing(err) && !errors.Is(err, errLate) {
		return false
	}
	if failed.count < e.cfg.Retries() {
		return true
	}
	patience := time.Duration(e.cfg.Retries()) * (e.cfg.Timeout + e.cfg.RetryDelay.Max)
	changes := e.servers.Discovers() || serverSays(err, "READONLY")
	return changes && ranNothing(err) && time.Since(failed.began) < patience
}

// pause waits before a failed request is made again, no longer than until some locks have got another master; false when that can't help, has
// been tried often enough, or ctx has ended.
func (e *Engine) pause(ctx context.Context, err error, failed *failures) bool {
	if !e.worthRetrying(err, *failed) || ctx.Err() != nil {
		return false
	}
	if failed.count == 0 && stale(err) {
		return true
	}
	timer := time.NewTimer(e.cfg.RetryDelay.Next(failed.count))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-failed.rerouted:
		failed.rerouted = e.nextLayout()
		return true
	case <-ctx.Done():
		return false
	case <-e.life.Done():
		return false
	}
}
