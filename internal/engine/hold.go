package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/lua"
)

type holdState int

const (
	liveHold holdState = iota
	releasedHold
	lostHold
)

// Holder is what a hold can do: one of a single lock, or one made of several. The root package documents its methods.
type Holder interface {
	Unlock(ctx context.Context) error
	Extend(ctx context.Context, lease time.Duration) error
	Context() context.Context
	Lost() <-chan struct{}
	Err() error
	ValidUntil() time.Time
	Owner() Owner
	Token() int64
}

var _ Holder = (*Hold)(nil)

// Hold is one acquisition. It is safe for concurrent use.
type Hold struct {
	engine *Engine
	tenure *tenure
	owner  Owner
	token  int64
	since  time.Time
	lost   chan struct{}
	ctx    holdContext
	cancel context.CancelCauseFunc

	watched    bool      // the watchdog renews it,
	renewUntil time.Time // if not zero no longer than this

	// Guarded by engine.mu.

	state    holdState
	err      error // why it is not live any more
	unlocked bool  // Unlock was called
}

// errReleased is the cause of a hold's context after its own release.
var errReleased = fmt.Errorf("released: %w", ErrNotHeld)

// holdContext looks at the clock before it answers: after the process was stopped, the code that runs first must not believe in
// a hold whose time passed meanwhile, although no goroutine could yet cancel it.
type holdContext struct {
	context.Context
	hold *Hold
}

func (c holdContext) Err() error {
	if c.Context.Err() == nil {
		if why := c.hold.Err(); why != nil {
			c.hold.cancel(why)
		}
	}
	return c.Context.Err()
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
	e := h.engine
	e.mu.Lock()
	var lost []*Hold
	if h.state == liveHold && h.tenure.trust.passed(time.Now()) {
		lost = e.loseLocked(h.tenure, h.tenure.expired())
	}
	err := h.err
	e.mu.Unlock()
	e.tell(lost)
	return err
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
	t := e.join(h.tenure.lock, h.owner)
	defer e.part(t)
	for failed := e.noFailures(); ; failed.add() {
		err := h.extendOnce(ctx, t, lease)
		if err == nil || !e.pause(ctx, err, &failed) {
			return describe(err)
		}
	}
}

func (h *Hold) extendOnce(ctx context.Context, t *tenure, lease time.Duration) error {
	if !t.take(ctx.Done()) {
		return fmt.Errorf("%w: %w", EndOf(ctx), errTurn)
	}
	defer t.give()
	if err := h.Err(); err != nil {
		return err
	}
	if err := h.engine.payDebts(t); err != nil {
		return err
	}
	if _, err := h.engine.rearm(t, lease, false); err != nil {
		return err
	}
	return h.Err()
}

// rearm sets the lease, and for an entry the count, of an owner that holds the lock. The tenure's turn must be taken. A grant
// that is not acquired means that the holds are lost; they have been told.
func (e *Engine) rearm(t *tenure, lease time.Duration, entry bool) (lua.Grant, error) {
	for again := false; ; again = true {
		latch, sent := e.latches.next(), time.Now()
		before, count := e.beginRearm(t, e.trustEnd(sent, lease))
		if count == 0 {
			return lua.Grant{}, nil
		}
		if entry {
			count++
		}
		request := t.lock.Kind.Reenter(t.target(latch, lease), count, entry)
		var grant lua.Grant
		var err error
		if entry {
			grant, err = commit(e, request)
		} else {
			grant, err = call(e, request)
		}
		if err == nil {
			return e.concludeRearm(t, sent, lease, entry, grant), nil
		}
		if ranNothing(err) {
			e.undo(t, before)
			return lua.Grant{}, err
		}
		if errors.Is(err, ErrNotReplicated) {
			_ = e.correct(t)
			e.close(t)
			return lua.Grant{}, err
		}
		left, settled := e.settle(t, latch, err)
		switch {
		case !settled: // the trust stays at the earlier of the two ends, and is renewed as soon as it is known what is true
			e.mu.Lock()
			e.renewSoonLocked(t)
			e.mu.Unlock()
			return lua.Grant{}, err
		case left == 0:
			return e.concludeRearm(t, sent, lease, entry, lua.Grant{}), nil
		case again:
			_ = e.correct(t)
			e.close(t)
			return lua.Grant{}, err
		}
		// Whether it took effect or not, it is barred now, and the same request can be made anew.
	}
}

func (e *Engine) beginRearm(t *tenure, end time.Time) (before time.Time, count int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(t.holds) == 0 {
		return time.Time{}, 0
	}
	before = t.trust.begin(end)
	e.scheduleLocked(t) // the trust may end sooner now
	return before, len(t.holds)
}

func (e *Engine) concludeRearm(t *tenure, sent time.Time, lease time.Duration, entry bool, grant lua.Grant) lua.Grant {
	t.lease = lease
	e.mu.Lock()
	var lost []*Hold
	gone := len(t.holds) == 0 // lost while the request was on its way
	switch {
	case gone:
	case !grant.Acquired:
		lost = e.loseLocked(t, errGone)
	default:
		t.trust.confirm(t.stackLocked(e.trustEnd(sent, lease), !entry))
		if t.trust.passed(time.Now()) {
			gone, lost = true, e.loseLocked(t, t.expired())
			break
		}
		e.planLocked(t, sent, lease)
	}
	e.mu.Unlock()
	e.tell(lost)
	if gone && grant.Acquired {
		_ = e.correct(t)
		grant.Acquired = false
	}
	return grant
}

// close ends an arming of which it is not known whether it took effect, but that it can't any more.
func (e *Engine) close(t *tenure) {
	e.mu.Lock()
	t.trust.close()
	e.renewSoonLocked(t)
	e.mu.Unlock()
}

func (e *Engine) undo(t *tenure, before time.Time) {
	e.mu.Lock()
	if len(t.holds) > 0 {
		t.trust.undo(before)
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
	t := e.join(h.tenure.lock, h.owner)
	defer e.part(t)
	if !t.take(ctx.Done()) {
		return h.unlockLater(ctx, t)
	}
	if !h.leave() {
		defer t.give()
		if t.count() == 0 {
			_ = e.correct(t) // its trust ended before its TTL
		}
		return h.Err()
	}
	err := e.letGo(ctx, t)
	e.events.report(Event{Kind: EventReleased, Lock: t.lock, Owner: h.owner, Took: time.Since(h.since), Err: err})
	return err
}

// unlockLater releases a hold whose turn did not come before ctx ended: it ends here, and on the server in the background.
func (h *Hold) unlockLater(ctx context.Context, t *tenure) error {
	left := h.leave()
	h.engine.oweFor(t, "", 0, 0)
	if !left {
		return h.Err()
	}
	return fmt.Errorf("released, but the server is not told yet; that goes on in the background: %w: %w", EndOf(ctx), errTurn)
}

// leave ends a live hold; false when it was lost. From here on the watchdog does not renew for it: no renewal may be sent after the
// release.
func (h *Hold) leave() bool {
	e, t := h.engine, h.tenure
	if h.Err() != nil {
		return false
	}
	e.mu.Lock()
	if h.state != liveHold {
		e.mu.Unlock()
		return false
	}
	h.state, h.err = releasedHold, errReleased
	e.held--
	rest := make([]*Hold, 0, len(t.holds)-1)
	for _, other := range t.holds {
		if other != h {
			rest = append(rest, other)
		}
	}
	e.vacateLocked(t, rest)
	e.mu.Unlock()
	h.cancel(errReleased)
	return true
}

// letGo releases on the server, or hands the lock to the next waiter of this process. It gives the tenure's turn.
func (e *Engine) letGo(ctx context.Context, t *tenure) error {
	var doubt bool
	if t.count() == 0 {
		if next := e.successor(t); next != nil {
			var done bool
			var err error
			if done, doubt, err = e.handOver(t, next); done {
				t.give()
				return err
			}
		}
	}
	return e.release(ctx, t, doubt)
}

// release lowers the count on the server to what is left, again and again if need be, and gives the tenure's turn: also while it pauses,
// for others of the same owner. doubt says that the owner may have been released already.
func (e *Engine) release(ctx context.Context, t *tenure, doubt bool) error {
	for failed := e.noFailures(); ; failed.add() {
		err := e.releaseOnce(t, doubt)
		t.give()
		var request *requestError
		if !errors.As(err, &request) {
			return err
		}
		doubt = doubt || !ranNothing(err)
		if e.pause(ctx, err, &failed) && t.take(ctx.Done()) {
			continue
		}
		switch {
		case passing(err):
			e.owe(t, "")
			return fmt.Errorf("released, but the server has not confirmed; it is tried again in the background: %w", describe(err))
		default:
			return fmt.Errorf("released, but the server refused; there it ends by its TTL: %w", describe(err))
		}
	}
}
