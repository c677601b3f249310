package redlatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redlatch/redlatch/internal/engine"
)

// Locker is what all lock kinds have in common. The kinds' packages make them: rlock, fairlock, rwlock, fencedlock, multilock.
type Locker interface {
	// Name is the name that the lock was made with.
	Name() string

	// Lock waits for the lock until ctx ends. On success the returned Hold must be released by Unlock. On an error nothing is
	// held: a grant that comes too late is given back before Lock returns, and where that is not possible, in the background.
	//
	// ctx governs the waiting, not the hold, except that the hold's context descends from it. It is looked at between requests to
	// the server, so that Lock returns one command timeout after its end at the latest, and where replicas are waited for twice
	// config.Config.SlavesSyncTimeout more.
	//
	// Errors: ErrNotAcquired when a wait limit is over, the end of ctx, ErrClosed, ErrReentry, ErrWrongType, ErrBadName, or what
	// the server or the network said when trying again has not helped, see the package documentation.
	Lock(ctx context.Context, opts ...AcquireOption) (*Hold, error)

	// TryLock makes one attempt and returns ErrNotAcquired when the lock is not free; with WithWait it waits that long. All else
	// is as in Lock.
	TryLock(ctx context.Context, opts ...AcquireOption) (*Hold, error)
}

// AcquireOption changes one acquisition.
type AcquireOption func(*acquireOptions)

type acquireOptions struct {
	engine.Request
	errs []error
}

func (o *acquireOptions) refuse(err error) { o.errs = append(o.errs, err) }

// WithLease makes the lock expire by itself after d, with no watchdog: 1 ms … 100 years, a part of a millisecond is cut off. Without
// it the lease is config.Config.LockWatchdogTimeout, and is renewed until Unlock.
func WithLease(d time.Duration) AcquireOption {
	return func(o *acquireOptions) {
		if err := engine.CheckLease(d); err != nil {
			o.refuse(fmt.Errorf("WithLease: %w", err))
		}
		o.Lease = d.Truncate(time.Millisecond)
	}
}

// WithWait bounds the waiting: after d it ends with ErrNotAcquired. 0 is a single attempt; negative values are an error. An
// attempt that is on its way when d is over is waited for, and its success counts.
func WithWait(d time.Duration) AcquireOption {
	return func(o *acquireOptions) {
		if d < 0 {
			o.refuse(fmt.Errorf("WithWait: %v is negative; use 0 for a single attempt, or leave it out to wait for ctx", d))
		}
		o.Wait = d
	}
}

// WithMaxHold stops the watchdog d after the acquisition, so that a holder which got stuck does not hold for ever: the lock then ends with
// its running lease, at most one LockWatchdogTimeout later. d is 1 ms or more. It can't be combined with WithLease, which
// has no watchdog.
func WithMaxHold(d time.Duration) AcquireOption {
	return func(o *acquireOptions) {
		if err := engine.CheckLease(d); err != nil {
			o.refuse(fmt.Errorf("WithMaxHold: %w", err))
		}
		o.MaxHold = d.Truncate(time.Millisecond)
	}
}

// Do runs fn under the lock: it takes it with Lock and the options given, calls fn with the hold's context, and releases it
// however fn ends, by a panic too. fn should stop when its context ends: then the lock is no longer its own.
//
// It returns the error of Lock (fn did not run then), or those of fn and Unlock joined: ErrLost among them says that fn's work was
// not protected to its end.
func Do(ctx context.Context, l Locker, fn func(context.Context) error, opts ...AcquireOption) (err error) {
	if l == nil || fn == nil {
		return errors.New("redlatch: Do needs a lock and a function")
	}
	hold, err := l.Lock(ctx, opts...)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, hold.Unlock(context.WithoutCancel(ctx)))
	}()
	return fn(hold.Context())
}

// Handle is what the kinds' lock types are built on; their packages' New make it. It holds no connection, needs no closing, and is
// safe for concurrent use.
type Handle struct {
	client *Client
	lock   *engine.Lock
}

// NewHandle is for the lock kinds of this module only: its parameters can't be named elsewhere.
func NewHandle(c *Client, name string, kind engine.Kind, o engine.LockOptions) *Handle {
	var e *engine.Engine
	if c != nil {
		e = c.engine
	}
	return &Handle{c, engine.NewLock(e, name, kind, o)}
}

var _ Locker = (*Handle)(nil)

// Name is the name that the lock was made with, before the name mapper.
func (h *Handle) Name() string { return h.lock.Name }

// Lock waits for the lock; see Locker.
func (h *Handle) Lock(ctx context.Context, opts ...AcquireOption) (*Hold, error) {
	return h.acquire(ctx, "lock", engine.NoLimit, opts)
}

// TryLock makes one attempt; see Locker.
func (h *Handle) TryLock(ctx context.Context, opts ...AcquireOption) (*Hold, error) {
	return h.acquire(ctx, "try lock", 0, opts)
}

func (h *Handle) acquire(ctx context.Context, op string, wait time.Duration, opts []AcquireOption) (*Hold, error) {
	work, request, err := h.client.resolve(ctx, wait, opts)
	if err != nil {
		return nil, wrap(op, h.Name(), err)
	}
	hold, err := h.lock.Engine.Acquire(ctx, work, h.lock, request)
	if err != nil {
		return nil, wrap(op, h.Name(), err)
	}
	return &Hold{hold, h.Name()}, nil
}

// IsLocked tells whether anybody holds the lock.
func (h *Handle) IsLocked(ctx context.Context) (bool, error) {
	s, err := h.lock.Engine.State(ctx, h.lock)
	return err == nil && h.lock.Kind.Locked(s), wrap("is locked", h.Name(), err)
}

// HoldCount is how often an owner, of this client or another, holds the lock; 0 when it does not.
func (h *Handle) HoldCount(ctx context.Context, o Owner) (int, error) {
	s, err := h.lock.Engine.State(ctx, h.lock)
	if err != nil {
		return 0, wrap("hold count", h.Name(), err)
	}
	return h.lock.Kind.Count(s, h.lock.Field(engine.Owner{Client: o.client, Thread: o.thread})), nil
}

// IsHeldBy tells whether an owner holds the lock. As in WithOwner, an owner of another client stands for the owner of this lock's client
// with the same number; HoldCount takes it for whom it is.
func (h *Handle) IsHeldBy(ctx context.Context, o Owner) (bool, error) {
	s, err := h.lock.Engine.State(ctx, h.lock)
	if err != nil {
		return false, wrap("is held by", h.Name(), err)
	}
	return h.lock.Kind.Count(s, h.lock.Field(engine.Owner{Thread: o.thread})) > 0, nil
}

// RemainingTTL is how long the lock lives unless it is renewed: 0 when nobody holds it, negative when it has no TTL, which only
// something else than a lock library can have done.
func (h *Handle) RemainingTTL(ctx context.Context) (time.Duration, error) {
	s, err := h.lock.Engine.State(ctx, h.lock)
	if err != nil || s.Type == "none" {
		return 0, wrap("remaining ttl", h.Name(), err)
	}
	return s.TTL, nil
}

// ForceUnlock frees the lock whoever holds it and wakes who waits; false when nobody held it. The holder is not asked: one of this
// process is told ErrLost at once, others find out at their next renewal. After an error that is not the server's own refusal the lock may
// have been freed.
func (h *Handle) ForceUnlock(ctx context.Context) (bool, error) {
	freed, err := h.lock.Engine.ForceRelease(ctx, h.lock)
	return freed, wrap("force unlock", h.Name(), err)
}

// Forget is for the lock kinds of this module only: its parameters can't be named elsewhere. See fencedlock.Lock.ForgetToken.
func Forget(ctx context.Context, h *Handle, kind engine.Forgetter, last int64) (bool, error) {
	done, err := h.lock.Engine.Forget(ctx, h.lock, kind.Forget(h.lock.Key, last))
	return done, wrap("forget token", h.Name(), err)
}

// Inspection is the state of a lock at one moment.
type Inspection struct {
	Kind    string        // such as "plain"
	Name    string        // as given to the constructor
	Key     string        // in Redis
	Mode    string        // "read" or "write" for read/write locks
	Holders []Holder      // by field, in byte order; empty when nobody holds it
	TTL     time.Duration // as RemainingTTL
	Queue   []Owner       // who waits, in order, for fair locks
	Token   int64         // the last fencing token, for fenced locks
}

// Holder is one owner in an Inspection.
type Holder struct {
	Owner Owner
	Field string // as it stands in Redis
	Count int
}

// Inspect reads who holds the lock, for people who look into an outage.
func (h *Handle) Inspect(ctx context.Context) (Inspection, error) {
	s, err := h.lock.Engine.State(ctx, h.lock)
	if err != nil {
		return Inspection{}, wrap("inspect", h.Name(), err)
	}
	view := Inspection{Kind: h.lock.Kind.Name(), Name: h.Name(), Key: h.lock.Key, TTL: s.TTL, Mode: s.Fields["mode"], Token: s.Token}
	if s.Type == "none" {
		view.TTL = 0
	}
	for _, field := range slices.Sorted(maps.Keys(s.Fields)) {
		if owner, ok := parseOwner(field); ok {
			view.Holders = append(view.Holders, Holder{owner, field, h.lock.Kind.Count(s, field)})
		}
	}
	for _, field := range s.Queue {
		if owner, ok := parseOwner(field); ok {
			view.Queue = append(view.Queue, owner)
		}
	}
	return view, nil
}
