package fencedlock

import (
	"context"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/engine"
	"github.com/redlatch/redlatch/lua"
)

// Lock is a fenced lock: the counterpart of Redisson's RFencedLock. Each hold has a token, see redlatch.Hold.Token; its other methods
// are those of [redlatch.Handle].
type Lock struct{ *redlatch.Handle }

var _ redlatch.Locker = (*Lock)(nil)

// New describes the lock of that name. It sends nothing and needs no closing; what is wrong with the name is told by each call,
// as redlatch.ErrBadName.
func New(client *redlatch.Client, name string) *Lock {
	return &Lock{redlatch.NewHandle(client, name, kind{}, engine.LockOptions{})}
}

// Token is the token of the last acquisition by anybody, 0 when there was none. It takes nothing.
func (l *Lock) Token(ctx context.Context) (int64, error) {
	seen, err := l.Inspect(ctx)
	return seen.Token, err
}

// ForgetToken deletes the counter of a name that is used no more, if last is the last token that anybody drew, see Token; false when there is no
// counter. While somebody holds the lock, or when another token is the last one, it is redlatch.ErrNotAcquired, and nothing is changed.
// So a clean-up that saw the token some time ago, long enough for every holder to have come to its end, can't take it from a lock that
// has been used since.
//
// It is dangerous: the next token is 1. A gate that knows greater ones refuses the next holders, until it is reset; and once it is reset, a
// holder from before, late and with a great token, would get past it and past all who come after. Nothing but the caller can know that there is
// none, in Java either. Keep the counter when in doubt: it is one small key.
//
// ctx is looked at between requests. After an error that is not the server's own refusal the counter may have been deleted.
func (l *Lock) ForgetToken(ctx context.Context, last int64) (bool, error) {
	return redlatch.Forget(ctx, l.Handle, kind{}, last)
}

// kind is how the engine runs a fenced lock (wire-protocol.md §7).
type kind struct{ engine.Common }

func (kind) Name() string { return "fenced" }

func token(key string) string { return config.Prefixed(config.TokenPrefix, key) }

func (kind) Acquire(t engine.Target) lua.Call[lua.Grant] {
	return lua.FencedAcquire(t.Key, token(t.Key), t.Latch, t.Field, t.Lease, t.Strict)
}

func (kind) Reenter(t engine.Target, count int, entry bool) lua.Call[lua.Grant] {
	return lua.FencedReenter(t.Key, token(t.Key), t.Latch, t.Field, t.Lease, count, entry, t.Strict)
}

func (k kind) Release(t engine.Target, count int) lua.Call[lua.Release] {
	return lua.ReleaseTo(t.Key, k.Channel(t.Key, t.Field), t.Latch, t.Departure(count))
}

func (k kind) ForceRelease(t engine.Target) lua.Call[lua.Release] {
	return lua.ForceRelease(t.Key, k.Channel(t.Key, ""), t.Publish, t.Strict)
}

func (kind) HandOver(t engine.Target, to string) (lua.Call[lua.Grant], bool) {
	return lua.FencedHandOver(t.Key, token(t.Key), t.Latch, t.Field, to, t.Lease, t.Strict), true
}

// Forget deletes the counter.
func (kind) Forget(key string, last int64) lua.Call[lua.Forgetting] {
	return lua.FencedForget(key, token(key), last)
}

func (kind) Inspect(key string) lua.Call[lua.State] { return lua.Inspect(key, token(key)) }
