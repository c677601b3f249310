package engine

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// release lowers the count on the server to left. The tenure's turn must be taken. ctx is looked at between requests: when it ends
// after a failure, the release goes on in the background.
func (e *Engine) release(ctx context.Context, t *tenure, left int) error {
	for try := 0; ; try++ {
		err := e.releaseOnce(t, left)
		if err == nil {
			return nil
		}
		var failed failedRequest
		if !errors.As(err, &failed) {
			return err
		}
		if e.pause(ctx, failed.error, try) {
			continue
		}
		switch {
		case left > 0:
			return fmt.Errorf("released, but the server has not confirmed; the next release corrects its count: %w", describe(failed.error))
		case passing(failed.error):
			e.owe(t, e.latches.next())
			return fmt.Errorf("released, but the server has not confirmed; it is tried again in the background: %w", describe(failed.error))
		default:
			return fmt.Errorf("released, but the server refused; the lock expires by its TTL: %w", describe(failed.error))
		}
	}
}

// failedRequest is a request that did not take effect, or may not have.
type failedRequest struct{ error }

func (e *Engine) releaseOnce(t *tenure, left int) error {
	latch, sent := e.latches.next(), time.Now()
	end := e.trustEnd(sent, t.lease)
	e.mu.Lock()
	before := t.trust.arming(end)
	e.mu.Unlock()

	reply, err := call(e, t.lock.Kind.Release(t.target(latch, t.lease), left))
	switch {
	case err == nil:
	case ranNothing(err):
		e.unarmed(t, before)
		return failedRequest{err}
	default:
		count, settled := e.settle(t, latch, err)
		if !settled {
			return failedRequest{err}
		}
		if count > left {
			e.unarmed(t, before)
			return failedRequest{err}
		}
		// It took effect, or the lock was gone before: of a release whose answer was lost nobody can tell, nor needs to.
		reply.Held = left == 0 || count == left
	}
	if reply.Untold != "" {
		return fmt.Errorf("released, but the server refused to tell the waiters, who find out by the lock's TTL or their poll; "+
			"grant the channel %s: %s", t.lock.channel, reply.Untold)
	}
	return e.released(t, left, sent, reply.Held)
}

// released draws the conclusion for the holds that are left.
func (e *Engine) released(t *tenure, left int, sent time.Time, held bool) error {
	e.mu.Lock()
	var lost []*Hold
	switch {
	case !held:
		lost = e.loseLocked(t, errGone)
	case left > 0 && len(t.holds) > 0:
		t.trust.armed(e.trustEnd(sent, t.lease))
		e.planLocked(t, sent, t.lease)
	}
	e.mu.Unlock()
	e.tell(lost)
	if !held {
		return errGone
	}
	return nil
}

// giveBack frees what nobody wants or believes in, in one sending; what remains in doubt is settled in the background. The tenure's turn
// must be taken.
func (e *Engine) giveBack(t *tenure) {
	e.mu.Lock()
	left := len(t.holds)
	e.mu.Unlock()
	var failed failedRequest
	if errors.As(e.releaseOnce(t, left), &failed) && passing(failed.error) {
		e.owe(t, e.latches.next())
	}
}

// pause waits before a failed request is made again; false when that can't help, has been tried often enough, or ctx has ended.
func (e *Engine) pause(ctx context.Context, err error, failures int) bool {
	if !passing(err) || failures >= e.cfg.Retries() || ctx.Err() != nil {
		return false
	}
	if failures == 0 && stale(err) {
		return true
	}
	timer := time.NewTimer(e.cfg.RetryDelay.Next(failures))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	case <-e.life.Done():
		return false
	}
}

// ForceRelease frees a lock whoever holds it; false when nobody did. A request whose answer was lost is not made again: it could
// free the next holder's lock.
func (e *Engine) ForceRelease(ctx context.Context, l *Lock) (bool, error) {
	if l.invalid != nil {
		return false, l.invalid
	}
	if ctx.Err() != nil {
		return false, ended(ctx)
	}
	if err := e.begin(); err != nil {
		return false, err
	}
	defer e.finish()
	for try := 0; ; try++ {
		reply, err := call(e, l.Kind.ForceRelease(Target{Key: l.Key, Channel: l.channel, Publish: e.publish}))
		if err == nil && reply.Untold != "" {
			return true, fmt.Errorf("released, but the server refused to tell the waiters; grant the channel %s: %s", l.channel, reply.Untold)
		}
		if err == nil {
			e.lookAt(l)
			return reply.Freed, nil
		}
		if !ranNothing(err) || !e.pause(ctx, err, try) {
			return false, describe(err)
		}
	}
}

// lookAt ends this client's own holds of a lock that was just released by force: the answer proves it, no renewal need find out.
func (e *Engine) lookAt(l *Lock) {
	why := fmt.Errorf("%w: it was released by force", ErrLost)
	e.mu.Lock()
	var lost []*Hold
	for at, t := range e.tenures {
		if at.key == l.Key && t.lock.Kind.Name() == l.Kind.Name() {
			lost = append(lost, e.loseLocked(t, why)...)
		}
	}
	e.mu.Unlock()
	e.tell(lost)
}
