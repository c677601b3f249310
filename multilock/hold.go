package multilock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/engine"
)

// member is one that is held.
type member struct {
	index int // its place in the lock
	*redlatch.Hold
}

type state int

const (
	live state = iota
	released
	lost
)

var errReleased = fmt.Errorf("released: %w", redlatch.ErrNotHeld)

// hold is one acquisition of a multi-lock. It is safe for concurrent use.
type hold struct {
	members []member // that were taken, in order
	need    int      // of them must stay held
	ctx     workContext
	cancel  context.CancelCauseFunc
	lost    chan struct{}

	mu       sync.Mutex
	state    state         // guarded by mu
	err      error         // guarded by mu: why it is not live any more
	unlocked bool          // guarded by mu: Unlock was called
	watches  []func() bool // guarded by mu: each ends the watching of a member
}

var _ engine.Holder = (*hold)(nil)

// workContext looks at the members, and they at the clock, before it answers: code that runs first after the process was stopped must not
// believe in a hold whose time has passed.
type workContext struct {
	context.Context
	hold *hold
}

func (c workContext) Err() error {
	if c.Context.Err() == nil {
		if why := c.hold.Err(); why != nil {
			c.hold.cancel(why)
		}
	}
	return c.Context.Err()
}

func newHold(parent context.Context, members []member, need int) *hold {
	h := &hold{members: members, need: need, lost: make(chan struct{})}
	h.ctx.hold = h
	h.ctx.Context, h.cancel = context.WithCancelCause(parent)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range members {
		// The contexts of the members end with their holds, for they descend from an asking.
		h.watches = append(h.watches, context.AfterFunc(m.Context(), func() { _ = h.Err() }))
	}
	return h
}

// spare is how many of the members may be lost.
func (h *hold) spare() int { return len(h.members) - h.need }

// Context is the context of the work done under the lock.
func (h *hold) Context() context.Context { return h.ctx }

// Lost is closed when too few members are left.
func (h *hold) Lost() <-chan struct{} { return h.lost }

// Owner is that of the first member held; in the others it is their client's owner with the same number.
func (h *hold) Owner() engine.Owner {
	o := h.members[0].Owner()
	return engine.Owner{Client: o.ClientID(), Thread: o.ThreadID()}
}

// Token is 0: the members' tokens are theirs.
func (h *hold) Token() int64 { return 0 }

// Err is nil while enough members can be trusted. It asks them.
func (h *hold) Err() error {
	h.mu.Lock()
	news := h.state == live && h.examineLocked()
	err := h.err
	h.mu.Unlock()
	if news {
		h.cancel(err)
		close(h.lost)
	}
	return err
}

// examineLocked finds out whether too many members have ended; the caller tells it when it has given up the mutex.
func (h *hold) examineLocked() (ended bool) {
	var gone []error
	for _, m := range h.members {
		if err := m.Err(); err != nil {
			gone = append(gone, atMember(m.index, err))
		}
	}
	if len(gone) <= h.spare() {
		return false
	}
	h.state, h.err = lost, join(gone)
	return true
}

// ValidUntil is the time after which fewer members than needed can be trusted.
func (h *hold) ValidUntil() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != live {
		return time.Time{}
	}
	ends := make([]time.Time, len(h.members))
	for i, m := range h.members {
		ends[i] = m.ValidUntil() // zero when it was lost, and so before all others
	}
	slices.SortFunc(ends, func(a, b time.Time) int { return b.Compare(a) })
	return ends[h.need-1]
}

// Extend gives all members a new lease.
func (h *hold) Extend(ctx context.Context, lease time.Duration) error {
	if err := engine.CheckLease(lease); err != nil {
		return err
	}
	if err := h.Err(); err != nil {
		return err
	}
	failed := each(ctx, h.members, h.need, func(ctx context.Context, m *redlatch.Hold) error { return m.Extend(ctx, lease) })
	if err := h.Err(); err != nil {
		return err
	}
	if len(failed) > h.spare() {
		return join(failed)
	}
	return nil
}

// Unlock releases all members, once.
func (h *hold) Unlock(ctx context.Context) error {
	loss, err := h.leave()
	if err != nil {
		return err
	}
	failed := each(ctx, h.members, h.need, unlock)
	if loss != nil {
		// The loss says already why those that are lost could not be released.
		known := func(err error) bool { return errors.Is(err, redlatch.ErrLost) || errors.Is(err, redlatch.ErrClosed) }
		return join(append([]error{loss}, slices.DeleteFunc(failed, known)...))
	}
	if len(failed) > h.spare() {
		return join(failed)
	}
	return nil
}

func unlock(ctx context.Context, m *redlatch.Hold) error { return m.Unlock(ctx) }

// leave ends the hold; loss says that it had ended before. err is ErrNotHeld for all calls but the first.
func (h *hold) leave() (loss, err error) {
	_ = h.Err() // so that what has happened to the members is known
	h.mu.Lock()
	if h.unlocked {
		h.mu.Unlock()
		return nil, redlatch.ErrNotHeld
	}
	h.unlocked = true
	loss = h.err
	if h.state == live {
		h.state, h.err = released, errReleased
	}
	for _, stop := range h.watches {
		stop()
	}
	h.mu.Unlock()
	h.cancel(errReleased)
	return loss, nil
}

// errEnough ends further tries when a majority has answered.
var errEnough = errors.New("enough members have answered")

// each does something with all members at the same time and returns the errors. When it has succeeded with as many as needed, the others
// have the one try that they are in, and no further one.
func each(ctx context.Context, members []member, need int, do func(context.Context, *redlatch.Hold) error) (failed []error) {
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	errs := make([]error, len(members))
	var done atomic.Int64
	var work sync.WaitGroup
	for i, m := range members {
		work.Go(func() {
			errs[i] = atMember(m.index, do(ctx, m.Hold))
			if errs[i] == nil && done.Add(1) == int64(need) {
				cut(errEnough)
			}
		})
	}
	work.Wait()
	for _, err := range errs {
		if err != nil {
			failed = append(failed, err)
		}
	}
	return failed
}
