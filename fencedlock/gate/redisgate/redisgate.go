package redisgate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/fencedlock/gate"
	"github.com/redlatch/redlatch/lua"
)

// Gate refuses late writers of keys in one Redis. It is safe for concurrent use; the client is the caller's, who closes it.
type Gate struct {
	client    rueidis.Client
	retention time.Duration
	invalid   error // what is wrong with the gate itself
}

// Option is an extra of New.
type Option struct{ set func(*Gate) }

// New describes a gate. It sends nothing and needs no closing; what is wrong with it is told by each call.
func New(client rueidis.Client, opts ...Option) *Gate {
	g := &Gate{client: client}
	if client == nil {
		g.invalid = errors.New("the gate was made without a client; give New one")
	}
	for _, opt := range opts {
		opt.set(g)
	}
	return g
}

// WithRetention lets a fence expire d after the last write, 1 ms … 100 years. A writer that comes later than that is admitted whatever
// its token, so d must be longer than any holder can be late: hours, not leases. Without it fences stay for ever.
func WithRetention(d time.Duration) Option {
	return Option{func(g *Gate) {
		if d < time.Millisecond || d > config.MaxLease {
			g.invalid = fmt.Errorf("WithRetention: %v; allowed is %v to %v; leave it out to keep fences for ever", d, time.Millisecond, config.MaxLease)
		}
		g.retention = d
	}}
}

// fencePrefix begins the keys of fences.
const fencePrefix = "redlatch_fence"

// FenceKey is where the newest token that has written a key is kept.
func FenceKey(key string) string { return config.Prefixed(fencePrefix, key) }

// Set sets the key to a string, with a TTL of 1 ms or more, or with 0 for none.
//
// Errors of this and the other writes: *gate.StaleError (gate.ErrStale), gate.ErrNoToken, a key or value that can't be used, all of
// them with nothing written; or what the server or the network said. Without an answer of the server the outcome is unknown; the same call can
// be made again. ctx governs the wait for the answer.
func (g *Gate) Set(ctx context.Context, key string, token int64, value string, ttl time.Duration) error {
	if ttl != 0 && (ttl < time.Millisecond || ttl > config.MaxLease) {
		return fmt.Errorf("redisgate: set %q: the TTL is %v; allowed is %v to %v, or 0 for none", key, ttl, time.Millisecond, config.MaxLease)
	}
	return g.write(ctx, "set", key, token, lua.WriteString(value, ttl))
}

// HSet sets fields of the hash at the key, one at least. Its other fields and its TTL stay. A key that is no hash is an error of the
// server; its fence is the token then.
func (g *Gate) HSet(ctx context.Context, key string, token int64, fields map[string]string) error {
	if len(fields) == 0 {
		return fmt.Errorf("redisgate: set fields of %q: there are none; use Admit to write nothing", key)
	}
	return g.write(ctx, "set fields of", key, token, lua.WriteHash(fields))
}

// Del deletes the key, of whatever type; its fence stays.
func (g *Gate) Del(ctx context.Context, key string, token int64) error {
	return g.write(ctx, "delete", key, token, lua.Delete())
}

// Admit writes nothing but the fence: older tokens are refused from now on. A holder does so before it reads what late writers must not
// change afterwards.
func (g *Gate) Admit(ctx context.Context, key string, token int64) error {
	return g.write(ctx, "admit to", key, token, lua.LetThrough())
}

// Newest is the greatest token that was admitted to the key, 0 when none is known.
func (g *Gate) Newest(ctx context.Context, key string) (int64, error) {
	if err := g.check(key); err != nil {
		return 0, fmt.Errorf("redisgate: read the fence of %q: %w", key, err)
	}
	token, err := g.client.Do(ctx, g.client.B().Get().Key(FenceKey(key)).Build()).AsInt64()
	if rueidis.IsRedisNil(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("redisgate: read the fence of %q: %w", key, err)
	}
	return token, nil
}

func (g *Gate) write(ctx context.Context, op, key string, token int64, w lua.FenceWrite) error {
	if err := gate.CheckToken(token); err != nil {
		return err
	}
	if err := g.check(key); err != nil {
		return fmt.Errorf("redisgate: %s %q: %w", op, key, err)
	}
	newest, err := lua.Run(ctx, g.client, lua.FenceSet(key, FenceKey(key), token, g.retention, w))
	if err != nil {
		return fmt.Errorf("redisgate: %s %q: %w", op, key, err)
	}
	if newest != 0 {
		return &gate.StaleError{Resource: key, Token: token, Newest: newest}
	}
	return nil
}

// check finds what is wrong with a call before it is sent. rueidis panics when the keys of a command are in different slots.
func (g *Gate) check(key string) error {
	switch {
	case g.invalid != nil:
		return g.invalid
	case key == "":
		return errors.New("the key is empty")
	case g.client.Mode() == rueidis.ClientModeCluster && config.Slot(key) != config.Slot(FenceKey(key)):
		return fmt.Errorf(`its fence, %q, would be in another slot of the cluster; use a key without braces, or with one "{tag}" before any other brace`,
			FenceKey(key))
	}
	return nil
}
