package rlock

import (
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/engine"
	"github.com/redlatch/redlatch/lua"
)

// Lock is a plain lock: the counterpart of Redisson's RLock, and with options of its spin lock and non-reentrant lock. Its methods
// are those of [redlatch.Handle].
type Lock struct{ *redlatch.Handle }

var _ redlatch.Locker = (*Lock)(nil)

// Option is an extra of New.
type Option struct{ set func(*engine.LockOptions) }

// New describes the lock of that name. It sends nothing and needs no closing; what is wrong with the name is told by each call,
// as redlatch.ErrBadName.
func New(client *redlatch.Client, name string, opts ...Option) *Lock {
	var o engine.LockOptions
	for _, opt := range opts {
		opt.set(&o)
	}
	return &Lock{redlatch.NewHandle(client, name, kind{}, o)}
}

// NonReentrant makes a second acquisition by an owner that holds the lock fail at once with redlatch.ErrReentry, and change nothing
// (wire-protocol.md §8; Redisson 4.4 and later).
func NonReentrant() Option {
	return Option{func(o *engine.LockOptions) { o.NonReentrant = true }}
}

// Spin makes waiters ask again after the pauses of a back-off instead of listening for messages, and releases tell nobody: for servers
// that offer no pub/sub, or suffer from it, at the price of a request per pause. newBackOff is called once for each wait; nil means
// Redisson's default, exponential from 1 ms, doubling with some chance in it, up to 128 ms. A back-off that stops ends the wait with
// redlatch.ErrNotAcquired.
//
// A lock is to be polled by everybody: a waiter that listens for it, in Go or in Java, finds its release out by its poll or the
// TTL only (wire-protocol.md §9).
func Spin(newBackOff func() backoff.BackOff) Option {
	if newBackOff == nil {
		newBackOff = defaultSpin
	}
	return Option{func(o *engine.LockOptions) { o.Spin = newBackOff }}
}

func defaultSpin() backoff.BackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(time.Millisecond),
		backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(0.2),
		backoff.WithMaxInterval(128*time.Millisecond),
		backoff.WithMaxElapsedTime(0),
	)
}

// ConstantSpin is a back-off for Spin with the same pause each time; Redisson's default for it is 64 ms.
func ConstantSpin(pause time.Duration) func() backoff.BackOff {
	return func() backoff.BackOff { return backoff.NewConstantBackOff(pause) }
}

// kind is how the engine runs a plain lock (wire-protocol.md §3).
type kind struct{ engine.Common }

func (kind) Name() string { return "plain" }

func (kind) Acquire(t engine.Target) lua.Call[lua.Grant] {
	return lua.Acquire(t.Key, t.Latch, t.Field, t.Lease, t.Strict)
}

func (k kind) Release(t engine.Target, count int) lua.Call[lua.Release] {
	return lua.ReleaseTo(t.Key, k.Channel(t.Key, t.Field), t.Latch, t.Departure(count))
}

func (k kind) ForceRelease(t engine.Target) lua.Call[lua.Release] {
	return lua.ForceRelease(t.Key, k.Channel(t.Key, ""), t.Publish, t.Strict)
}

func (kind) HandOver(t engine.Target, to string) (lua.Call[lua.Grant], bool) {
	return lua.HandOver(t.Key, t.Latch, t.Field, to, t.Lease, t.Strict), true
}
