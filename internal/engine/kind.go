package engine

import (
	"strconv"
	"time"

	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/lua"
)

// Kind answers what differs between the kinds of locks. It is a stateless value, shared by all locks of its kind. Kinds embed
// Common and say what they do differently.
type Kind interface {
	// Name is the kind's name in states and messages to people, such as "plain".
	Name() string
	// Variant tells locks of the kind apart that have one key and yet do not exclude each other, such as groups of different values. Each has
	// waiters, holds and renewals of its own. "" for most kinds.
	Variant() string
	// Field is the owner's field in the lock's hash.
	Field(owner string) string
	// Channel is where the waiter with that field listens.
	Channel(key, field string) string
	// Together tells that all waiters of a process compete at a time: because many can enter, or because Redis keeps their order.
	// Otherwise only the first does.
	Together() bool
	// Excluded names a side of the lock, by its kind's name, which keeps the same owner from ever getting this one while it
	// holds that one alone; "" if there is none.
	Excluded() (kind string)

	// Stacked tells that each hold of an owner keeps a lease of its own, instead of arming one for all.
	Stacked() bool
	// Sibling is the other side of the lock, whose holds by the same owner live in the same key; nil if there is none.
	Sibling() Kind

	// Acquire takes the lock for a field without holds.
	Acquire(t Target) lua.Call[lua.Grant]
	// Reenter sets the hold count of a field that holds the lock, and its lease. entry tells an acquisition from an extension.
	Reenter(t Target, count int, entry bool) lua.Call[lua.Grant]
	// Release sets the hold count of a field to what is left; 0 frees.
	Release(t Target, count int) lua.Call[lua.Release]
	// ForceRelease frees the lock whoever holds it.
	ForceRelease(t Target) lua.Call[lua.Release]
	// HandOver passes the lock to another field of this client, with a new lease; false when the kind can't.
	HandOver(t Target, to string) (lua.Call[lua.Grant], bool)
	// Leave takes a waiter that gives up out of what the kind keeps of it in Redis; false when that is nothing.
	Leave(t Target) (lua.Call[bool], bool)
	// Renew renews fields[i] of keys[i]; strict as in Target.
	Renew(keys, fields []string, lease time.Duration, strict bool) lua.Call[[]bool]

	// Inspect reads the lock.
	Inspect(key string) lua.Call[lua.State]
	// Other is what a hash is instead, when the state can't be that of a lock of this kind; "" when it can.
	Other(s lua.State) string
	// Locked and Count read a state.
	Locked(s lua.State) bool
	Count(s lua.State, field string) int
}

// Forgetter is a kind of which something stays when nobody holds the lock, and that can be asked to forget it.
type Forgetter interface {
	Forget(key string, last int64) lua.Call[lua.Forgetting]
}

// Identity tells whether two kinds share waiters and holds.
func Identity(k Kind) string { return k.Name() + k.Variant() }

// Common answers as most kinds do.
type Common struct{}

// Variant is none.
func (Common) Variant() string { return "" }

// Field is the owner.
func (Common) Field(owner string) string { return owner }

// Channel is one for all waiters (wire-protocol.md §1).
func (Common) Channel(key, _ string) string { return config.Prefixed(config.ChannelPrefix, key) }

// Together is false: the others cost Redis nothing.
func (Common) Together() bool { return false }

// Excluded is none.
func (Common) Excluded() string { return "" }

// Stacked is false: the last entry's lease is that of all holds.
func (Common) Stacked() bool { return false }

// Sibling is none.
func (Common) Sibling() Kind { return nil }

// Reenter raises the count of the field (wire-protocol.md §3).
func (Common) Reenter(t Target, count int, _ bool) lua.Call[lua.Grant] {
	return lua.Reenter(t.Key, t.Latch, t.Field, t.Lease, count, t.Strict)
}

// HandOver is what the kind can't.
func (Common) HandOver(Target, string) (lua.Call[lua.Grant], bool) {
	return lua.Call[lua.Grant]{}, false
}

// Leave is nothing to do.
func (Common) Leave(Target) (lua.Call[bool], bool) { return lua.Call[bool]{}, false }

// Renew renews the TTL of the hashes (wire-protocol.md §4).
func (Common) Renew(keys, fields []string, lease time.Duration, strict bool) lua.Call[[]bool] {
	return lua.Renew(keys, fields, lease, strict)
}

// Inspect reads the hash.
func (Common) Inspect(key string) lua.Call[lua.State] { return lua.Inspect(key) }

// Other sees that there is more than one field: a plain, fair or fenced lock has one.
func (Common) Other(s lua.State) string {
	switch {
	case len(s.Fields) <= 1:
		return ""
	case s.Fields["mode"] != "":
		return "a read/write lock in mode " + s.Fields["mode"]
	default:
		return "a grouped multi-lock, or no lock"
	}
}

// Locked tells whether there is a field.
func (Common) Locked(s lua.State) bool { return len(s.Fields) > 0 }

// Count is the value of the field; absent, or no number: 0.
func (Common) Count(s lua.State, field string) int {
	n, _ := strconv.Atoi(s.Fields[field])
	return n
}

// Target is what a kind's scripts are told.
type Target struct {
	Key     string // the lock's hash
	Latch   string // names this one request
	Field   string
	Lease   time.Duration
	Publish string        // PUBLISH, SPUBLISH, or both with a space between; empty tells nobody
	Wait    time.Duration // for how long a waiter counts as alive, where Redis keeps a queue
	Stand   bool          // stand in that queue
	Strict  bool          // a lock of another kind is an error, and nobody's in a holder's eyes
}

// Departure is what a release of the target leaves behind.
func (t Target) Departure(count int) lua.Departure {
	return lua.Departure{Owner: t.Field, Count: count, Lease: t.Lease, Publish: t.Publish, Strict: t.Strict}
}
