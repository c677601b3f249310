package engine

import (
	"context"
	"fmt"
	"time"
)

type holdState int

const (
	liveHold holdState = iota
	releasedHold
	lostHold
)

// Hold is one acquisition. It is safe for concurrent use.
type Hold struct {
	engine *Engine
	tenure *tenure
	owner  Owner
	token  int64
	since  time.Time
	series series // the hand-offs that led to it
	lost   chan struct{}
	ctx    holdContext
	cancel context.CancelCauseFunc

	// Guarded by engine.mu.

	state    holdState
	err      error // why it is not live any more
	unlocked bool  // Unlock was called

	renewUntil time.Time // the watchdog renews until then; zero: it does not renew at all
}

// forEver as renewUntil never comes.
var forEver = time.Unix(1<<40, 0)

// errReleased is the cause of a hold's context after its own release.
var errReleased = fmt.Errorf("released: %w", ErrNotHeld)

// holdContext looks at the clock before it answers: after the process was stopped, the code that runs first must not believe in
// a hold whose time passed meanwhile, although no goroutine could yet cancel it.
type holdContext struct {
	context.Context
	hold *Hold
}

func (c holdContext) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	c.hold.expire()
	return c.Context.Err()
}

func (h *Hold) expire() {
	e := h.engine
	e.mu.Lock()
	var lost []*Hold
	if h.state == liveHold && h.tenure.trust.passed(time.Now()) {
		lost = e.loseLocked(h.tenure, h.tenure.expired())
	}
	e.mu.Unlock()
	e.tell(lost)
}

// expired says why time ended a tenure; to be called before it is lost.
func (t *tenure) expired() error {
	if t.renewal.lastErr != nil {
		return fmt.Errorf("%w: its lease could not be renewed in time: %w", ErrLost, t.renewal.lastErr)
	}
	return fmt.Errorf("%w: its lease is over", ErrLost)
}

// Context is the context of the work done under the lock.
func (h *Hold) Context() context.Context { return h.ctx }

// Lost is closed when the hold was lost before its release.
func (h *Hold) Lost() <-chan struct{} { return h.lost }

// Owner is who holds.
func (h *Hold) Owner() Owner { return h.owner }

// Token is the fencing token, or 0.
func (h *Hold) Token() int64 { return h.token }

// Err is nil while the hold can be trusted.
func (h *Hold) Err() error {
	h.expire()
	h.engine.mu.Lock()
	defer h.engine.mu.Unlock()
	return h.err
}

// ValidUntil is when the trust ends unless it is renewed; zero when it has ended.
func (h *Hold) ValidUntil() time.Time {
	h.engine.mu.Lock()
	defer h.engine.mu.Unlock()
	if h.state != liveHold {
		return time.Time{}
	}
	return h.tenure.trust.until
}

// Extend gives the lock a new lease, counted from now.
func (h *Hold) Extend(ctx context.Context, lease time.Duration) error {
	e := h.engine
	if err := CheckLease(lease); err != nil {
		return err
	}
	if err := e.begin(); err != nil {
		return err
	}
	defer e.finish()
	t := e.join(h.tenure.lock, h.tenure.place.field)
	defer e.part(t)
	if !t.take(ctx.Done()) {
		return ended(ctx)
	}
	defer t.give()
	if err := h.Err(); err != nil {
		return err
	}
	for try := 0; ; try++ {
		held, err := e.rearm(t, lease, 0)
		if err == nil && !held {
			return h.Err()
		}
		if err == nil {
			return nil
		}
		if !e.pause(ctx, err, try) {
			return describe(err)
		}
	}
}

// rearm sets lease and count of an owner that holds the lock; entries are those that come on top of the holds it has. The
// tenure's turn must be taken. False means that the server has lost the holds; they have been told then.
func (e *Engine) rearm(t *tenure, lease time.Duration, entries int) (held bool, err error) {
	latch, sent := e.latches.next(), time.Now()
	end := e.trustEnd(sent, lease)
	e.mu.Lock()
	count := len(t.holds) + entries
	if len(t.holds) == 0 {
		e.mu.Unlock()
		return false, nil
	}
	before := t.trust.arming(end)
	e.scheduleLocked(t) // the trust may end sooner now
	e.mu.Unlock()

	held, err = call(e, t.lock.Kind.Reenter(t.target(latch, lease), count))
	if err != nil {
		if ranNothing(err) {
			e.unarmed(t, before)
			return false, err
		}
		left, settled := e.settle(t, latch, err)
		switch {
		case !settled:
			return false, err
		case left == 0:
			held = false // told below
		case left == count && entries > 0:
			held = true
		case entries > 0:
			e.unarmed(t, before)
			return false, err
		default: // the count tells nothing about a mere extension: the trust stays at the earlier of the two ends
			e.renewNow(t)
			return false, err
		}
	}

	e.mu.Lock()
	var lost []*Hold
	switch {
	case len(t.holds) == 0:
		held = false
	case held:
		t.lease = lease
		t.trust.armed(end)
		e.planLocked(t, sent, lease)
		if t.trust.passed(time.Now()) {
			lost, held = e.loseLocked(t, t.expired()), false
		}
	default:
		lost = e.loseLocked(t, errGone)
	}
	e.mu.Unlock()
	e.tell(lost)
	return held, nil
}

func (e *Engine) renewNow(t *tenure) {
	e.mu.Lock()
	e.renewSoonLocked(t)
	e.mu.Unlock()
}

func (e *Engine) unarmed(t *tenure, before time.Time) {
	e.mu.Lock()
	if len(t.holds) > 0 {
		t.trust.unarmed(before)
		e.scheduleLocked(t)
	}
	e.mu.Unlock()
}

// Unlock releases this acquisition, once.
func (h *Hold) Unlock(ctx context.Context) error {
	e := h.engine
	e.mu.Lock()
	if h.unlocked {
		e.mu.Unlock()
		return ErrNotHeld
	}
	h.unlocked = true
	e.mu.Unlock()
	if err := e.begin(); err != nil {
		return err
	}
	defer e.finish()
	// While the hold is live this is its own tenure. After a loss it can be a new one of the same owner.
	t := e.join(h.tenure.lock, h.tenure.place.field)
	defer e.part(t)
	t.take(nil)
	defer t.give()

	h.expire()
	e.mu.Lock()
	if h.state == lostHold {
		left := len(t.holds)
		e.mu.Unlock()
		if left == 0 {
			e.giveBack(t)
		}
		return h.err
	}
	left := h.leaveLocked()
	e.mu.Unlock()
	h.cancel(errReleased)

	err := e.letGo(ctx, h, t, left)
	e.report(Event{Kind: EventReleased, Lock: t.lock, Owner: h.owner, Took: time.Since(h.since), Err: err})
	return err
}

// letGo releases on the server, or hands the lock to the next waiter of this process.
func (e *Engine) letGo(ctx context.Context, h *Hold, t *tenure, left int) error {
	if left == 0 {
		if next := e.successor(h); next != nil {
			if done, err := e.handOver(h, t, next); done {
				return err
			}
		}
	}
	return e.release(ctx, t, left)
}

// leaveLocked takes the hold out of its tenure, and the tenure from the watchdog when it was the last one: no renewal may be sent
// after the release.
func (h *Hold) leaveLocked() (left int) {
	e, t := h.engine, h.tenure
	for i, other := range t.holds {
		if other == h {
			t.holds = append(t.holds[:i:i], t.holds[i+1:]...)
			break
		}
	}
	h.state, h.err = releasedHold, errReleased
	e.held--
	if len(t.holds) == 0 {
		t.trust.until, t.renewal = time.Time{}, renewal{}
		e.unscheduleLocked(t)
	}
	return len(t.holds)
}
