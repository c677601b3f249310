package redlatch

import (
	"context"
	"time"

	"github.com/redlatch/redlatch/internal/engine"
)

// Hold is one acquisition of a lock. It is safe for concurrent use.
type Hold struct {
	hold engine.Holder
	name string
}

// NewHold is for the lock kinds of this module only: its parameters can't be named elsewhere.
func NewHold(name string, h engine.Holder) *Hold { return &Hold{h, name} }

// Unlock releases this acquisition, once: a second call returns ErrNotHeld and sends nothing. The lock is free when the last acquisition of
// its owner is released.
//
// It frees the lock also when ctx has ended already. ctx is looked at between requests to the server, each of which is bounded by
// config.Config.Timeout, and a hand-off that replicas must acknowledge by twice SlavesSyncTimeout more: when it ends after a request has failed, Unlock returns the error and goes on in the background.
//
// ErrLost says that the lock had ended before; what may still have been on the server is freed then. After any other error the lock is
// free already (only the waiters could not be told), or will be as soon as the server can be reached, or by its TTL at the latest: the error says which. The
// hold counts as released in each case. When an answer was lost, nil can also stand for a lock that had ended before.
func (h *Hold) Unlock(ctx context.Context) error { return wrap("unlock", h.name, h.hold.Unlock(ctx)) }

// Extend gives the lock a new lease, counted from now; it can be shorter than what was left. lease is 1 ms or more, a part of a millisecond is
// cut off. A lock that the watchdog renews stays renewed, and is left alone while the lease has more than the watchdog timeout left.
//
// ErrLost and ErrNotHeld say that there was nothing to extend. After another error the lease is the old or the new one, and ValidUntil counts on
// the earlier. ctx governs the wait between requests.
func (h *Hold) Extend(ctx context.Context, lease time.Duration) error {
	return wrap("extend", h.name, h.hold.Extend(ctx, lease))
}

// Context is the context of the work to be done under the lock. It carries the values, deadline and cancellation of the ctx given to Lock, and the
// hold's owner, so that a call which gets it can enter the lock again. It is cancelled the moment the lock can no longer be trusted;
// context.Cause then says ErrLost, ErrClosed, or ErrNotHeld after Unlock. Its end never releases the lock.
func (h *Hold) Context() context.Context { return h.hold.Context() }

// Lost is closed when the lock ended before its release, with Err saying why. It stays open after Unlock.
func (h *Hold) Lost() <-chan struct{} { return h.hold.Lost() }

// Err is nil while the lock can be trusted; then ErrLost, ErrClosed, or ErrNotHeld after Unlock. It looks at the clock: after the process was
// stopped, it does not believe what was true before.
func (h *Hold) Err() error { return wrap("hold", h.name, h.hold.Err()) }

// ValidUntil is when the lock ends for this process unless it is renewed before: the lease counted from before the request was sent, less
// a margin for clocks that run at different speed. It reads the monotonic clock. The zero time says that the hold has ended.
func (h *Hold) ValidUntil() time.Time { return h.hold.ValidUntil() }

// Owner is who holds the lock.
func (h *Hold) Owner() Owner {
	o := h.hold.Owner()
	return Owner{o.Client, o.Thread}
}

// Token is the fencing token of this acquisition; 0 unless the lock is a fenced one.
func (h *Hold) Token() int64 { return h.hold.Token() }
