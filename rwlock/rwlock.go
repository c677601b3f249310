package rwlock

import (
	"strings"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/engine"
	"github.com/redlatch/redlatch/lua"
)

// Lock is a read/write lock: the counterpart of Redisson's RReadWriteLock. It is safe for concurrent use.
type Lock struct{ read, write *Side }

// Side is the read or the write side of a Lock. Its methods are those of [redlatch.Handle].
type Side struct{ *redlatch.Handle }

var _ redlatch.Locker = (*Side)(nil)

// New describes the lock of that name. It sends nothing and needs no closing; what is wrong with the name is told by each call,
// as redlatch.ErrBadName.
func New(client *redlatch.Client, name string) *Lock {
	return &Lock{
		read:  &Side{redlatch.NewHandle(client, name, readKind{}, engine.LockOptions{})},
		write: &Side{redlatch.NewHandle(client, name, writeKind{}, engine.LockOptions{})},
	}
}

// Read is the side that any number of owners can hold at a time, while nobody else writes.
func (l *Lock) Read() *Side { return l.read }

// Write is the side that one owner holds alone.
func (l *Lock) Write() *Side { return l.write }

const writer = ":write"

func channel(key string) string { return config.Prefixed(config.RWChannelPrefix, key) }

// marker is what the keys of an owner's read holds begin with (wire-protocol.md §1).
func marker(key, owner string) string {
	return config.Suffixed(key, owner+":"+config.ReadTimeoutSuffix)
}

// otherThanRW sees that a lock has no mode.
func otherThanRW(s lua.State) string {
	switch {
	case len(s.Fields) == 0 || s.Fields["mode"] != "":
		return ""
	case len(s.Fields) == 1:
		return "a plain, fair or fenced lock"
	default:
		return "a grouped multi-lock, or no lock"
	}
}

// readKind is how the engine runs the read side (wire-protocol.md §6).
type readKind struct{ engine.Common }

func (readKind) Name() string                 { return "read" }
func (readKind) Channel(key, _ string) string { return channel(key) }

// Together is true: readers enter together.
func (readKind) Together() bool { return true }

// Stacked is true: each read hold has a key with a TTL of its own.
func (readKind) Stacked() bool { return true }

// Sibling is the write side: a read release can shorten the key that both live in.
func (readKind) Sibling() engine.Kind { return writeKind{} }

func (readKind) Acquire(t engine.Target) lua.Call[lua.Grant] {
	return lua.ReadAcquire(t.Key, marker(t.Key, t.Field), t.Latch, t.Field, t.Field+writer, t.Lease, t.Strict)
}

func (readKind) Reenter(t engine.Target, count int, _ bool) lua.Call[lua.Grant] {
	return lua.ReadReenter(t.Key, marker(t.Key, t.Field), t.Latch, t.Field, t.Lease, count, t.Strict)
}

func (readKind) Release(t engine.Target, count int) lua.Call[lua.Release] {
	return lua.ReadRelease(t.Key, channel(t.Key), markers(t.Key), t.Latch, t.Departure(count))
}

// markers is what the keys of all read holds begin with.
func markers(key string) string { return strings.TrimSuffix(config.Suffixed(key, ""), ":") }

func (readKind) ForceRelease(t engine.Target) lua.Call[lua.Release] {
	return lua.RWForceRelease(t.Key, channel(t.Key), t.Publish, "read", "0", t.Strict)
}

func (readKind) Renew(keys, fields []string, lease time.Duration, strict bool) lua.Call[[]bool] {
	of := make([]string, len(keys))
	for i, key := range keys {
		of[i] = marker(key, fields[i])
	}
	return lua.ReadRenew(keys, fields, of, lease, strict)
}

func (readKind) Other(s lua.State) string { return otherThanRW(s) }

// Locked is true for read mode, and for a writer with read holds of its own.
func (readKind) Locked(s lua.State) bool {
	return s.Fields["mode"] == "read" || s.Fields["mode"] == "write" && len(s.Fields) > 2
}

// writeKind is how the engine runs the write side (wire-protocol.md §6).
type writeKind struct{ engine.Common }

func (writeKind) Name() string                 { return "write" }
func (writeKind) Field(owner string) string    { return owner + writer }
func (writeKind) Channel(key, _ string) string { return channel(key) }

// Excluded is the same owner's read side: who reads can't become a writer, not even when nobody else reads.
func (writeKind) Excluded() string { return readKind{}.Name() }

// Sibling is the read side: a write release that leaves write holds arms the key that both live in.
func (writeKind) Sibling() engine.Kind { return readKind{} }

func (writeKind) Acquire(t engine.Target) lua.Call[lua.Grant] {
	return lua.WriteAcquire(t.Key, t.Latch, t.Field, t.Lease, t.Strict)
}

func (writeKind) Reenter(t engine.Target, count int, entry bool) lua.Call[lua.Grant] {
	return lua.WriteReenter(t.Key, t.Latch, t.Field, t.Lease, count, entry)
}

func (writeKind) Release(t engine.Target, count int) lua.Call[lua.Release] {
	return lua.WriteRelease(t.Key, channel(t.Key), t.Latch, t.Departure(count))
}

func (writeKind) ForceRelease(t engine.Target) lua.Call[lua.Release] {
	return lua.RWForceRelease(t.Key, channel(t.Key), t.Publish, "write", "1", t.Strict)
}

// Renew does not have to look for another kind: a writer's field stands in none.
func (writeKind) Renew(keys, fields []string, lease time.Duration, _ bool) lua.Call[[]bool] {
	return lua.Renew(keys, fields, lease, false)
}

func (writeKind) Other(s lua.State) string { return otherThanRW(s) }

// Locked is true for write mode.
func (writeKind) Locked(s lua.State) bool { return s.Fields["mode"] == "write" }
