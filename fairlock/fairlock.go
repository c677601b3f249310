package fairlock

import (
	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/engine"
	"github.com/redlatch/redlatch/lua"
)

// Lock is a fair lock: the counterpart of Redisson's fair lock. Its methods are those of [redlatch.Handle].
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

// kind is how the engine runs a fair lock (wire-protocol.md §5).
type kind struct{ engine.Common }

func (kind) Name() string { return "fair" }

// Together is true: each waiter stands in Redis's own queue.
func (kind) Together() bool { return true }

// Channel is one for each waiter.
func (k kind) Channel(key, field string) string { return k.Common.Channel(key, field) + ":" + field }

// keys are the fair lock's in the order of its scripts.
func (k kind) keys(key string) lua.FairKeys {
	return lua.FairKeys{
		Lock:     key,
		Queue:    config.Prefixed(config.QueuePrefix, key),
		Timeouts: config.Prefixed(config.TimeoutPrefix, key),
		Channel:  k.Common.Channel(key, ""),
	}
}

func (k kind) Acquire(t engine.Target) lua.Call[lua.Grant] {
	return lua.FairAcquire(k.keys(t.Key), t.Latch, t.Field, t.Lease, t.Wait, t.Stand, t.Strict)
}

func (k kind) Release(t engine.Target, count int) lua.Call[lua.Release] {
	return lua.FairRelease(k.keys(t.Key), t.Latch, t.Departure(count))
}

func (k kind) ForceRelease(t engine.Target) lua.Call[lua.Release] {
	return lua.FairForceRelease(k.keys(t.Key), t.Publish, t.Strict)
}

func (k kind) Leave(t engine.Target) (lua.Call[bool], bool) {
	return lua.FairLeave(k.keys(t.Key), t.Field, t.Wait, t.Publish), true
}

func (k kind) Inspect(key string) lua.Call[lua.State] { return lua.Inspect(key, k.keys(key).Queue) }
