package rlock

import (
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/engine"
	"github.com/redlatch/redlatch/lua"
)

// Lock is a plain lock: the counterpart of Redisson's RLock, and with options of its spin lock and non-reentrant lock. Its methods
// are those of [redlatch.Handle].
type Lock struct{ *redlatch.Handle }

var _ redlatch.Locker = (*Lock)(nil)

// Option is an extra of New.
type Option func(*engine.Lock)

// New describes the lock of that name. It sends nothing and needs no closing; what is wrong with the name is told by each call,
// as redlatch.ErrBadName.
func New(client *redlatch.Client, name string, opts ...Option) *Lock {
	set := make([]func(*engine.Lock), len(opts))
	for i, opt := range opts {
		set[i] = opt
	}
	return &Lock{redlatch.NewHandle(client, name, kind{}, set...)}
}

// NonReentrant makes a second acquisition by an owner that holds the lock fail at once with redlatch.ErrReentry, and change nothing
// (wire-protocol.md §8; Redisson 4.4 and later).
func NonReentrant() Option {
	return func(l *engine.Lock) { l.NonReentrant = true }
}

// Spin makes waiters ask again after the pauses of a back-off instead of listening for messages: for servers that offer no pub/sub,
// at the price of a request per pause. newBackOff is called once for each wait; nil means Redisson's default, exponential from 1 ms,
// doubling with some chance in it, up to 128 ms. A back-off that stops ends the wait with redlatch.ErrNotAcquired. The release
// still tells waiters that listen, so that both sorts can share a lock (wire-protocol.md §9).
func Spin(newBackOff func() backoff.BackOff) Option {
	return func(l *engine.Lock) {
		if newBackOff == nil {
			newBackOff = defaultSpin
		}
		l.Spin = newBackOff
	}
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
type kind struct{}

func (kind) Name() string              { return "plain" }
func (kind) Field(owner string) string { return owner }
func (kind) Channel(key string) string { return config.Prefixed(config.ChannelPrefix, key) }

func (kind) Acquire(t engine.Target) lua.Call[lua.Grant] {
	return lua.Acquire(t.Key, t.Latch, t.Field, t.Lease)
}

func (kind) Reenter(t engine.Target, count int) lua.Call[bool] {
	return lua.Reenter(t.Key, t.Latch, t.Field, t.Lease, count)
}

func (kind) Release(t engine.Target, count int) lua.Call[lua.Release] {
	return lua.ReleaseTo(t.Key, t.Channel, t.Latch,
		lua.Departure{Owner: t.Field, Count: count, Lease: t.Lease, Publish: t.Publish})
}

func (kind) ForceRelease(t engine.Target) lua.Call[lua.Release] {
	return lua.ForceRelease(t.Key, t.Channel, t.Publish)
}

func (kind) HandOver(t engine.Target, to string) (lua.Call[lua.Grant], bool) {
	return lua.HandOver(t.Key, t.Latch, t.Field, to, t.Lease), true
}

func (kind) Renew(keys, fields []string, lease time.Duration) lua.Call[[]bool] {
	return lua.Renew(keys, fields, lease)
}

func (kind) Locked(s lua.State) bool { return len(s.Fields) > 0 }

func (kind) Count(s lua.State, field string) int {
	n, _ := strconv.Atoi(s.Fields[field]) // absent, or not a count: 0
	return n
}
