package multilock

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/minio/highwayhash"
	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/engine"
	"github.com/redlatch/redlatch/lua"
)

// Group is some values of one name that are taken as one: the counterpart of Redisson's getMultiLock(name, values), 3.38 and later, of a
// client with a string codec. Groups of one name exclude each other where they have a value in common, and only there. It is immutable,
// safe for concurrent use, and needs no closing.
//
// All values are taken by one script, all of them or none, so nobody ever waits while it holds a part, and no order needs to be
// kept. That, and one key for any number of values, is what a Group has over a New of many locks.
//
// What Redis keeps is one hash with three fields for each value (wire-protocol.md §11): who holds it, how often, and until when. Values end one by
// one at that time, which the scripts compare with the server's clock. A Java client compares with its own. With the watchdog it may be
// wrong by less than two thirds of LockWatchdogTimeout; of a fixed lease the last part is not protected, as long as the clocks differ.
//
// An owner enters again what it holds: the same values. A group that has values in common with another one that its owner holds, and is not
// the same, fails at once with redlatch.ErrReentry instead of waiting for itself; Redisson would let it in. Take all values in one
// group there. For that the owner field has a mark at its end that tells the group, which means nothing to Java.
//
// Waiters for the same values get them in the order of their calls within a process; between groups, and between processes, the order is
// left to chance: a group can wait long while others take its values in turn.
//
// An entry with a lease shorter than what is left leaves Redis as it is, as with Redisson, and yet ValidUntil counts on it. ForceUnlock
// takes the values from whoever holds any; who loses only a part of a group finds out at the next renewal. Inspection and HoldCount
// count holds of the whole group: a holder with the count 0 has a part of it, or its values within another group.
//
// A name is to be used for groups alone. A read/write lock, and a plain lock in its place, are redlatch.ErrWrongType, whatever
// config.Config.SkipKindCheck says; and so is a group in the place of theirs. A plain lock in Java waits until the whole hash is gone.
type Group struct {
	*redlatch.Handle
	values []string // in the order of the kind's
}

var _ redlatch.Locker = (*Group)(nil)

// NewGroup describes the group of these values under that name; a value that is given twice counts once, their order means nothing. It
// sends nothing. What is wrong with the name is told by each call, as redlatch.ErrBadName; to lock a group without values is an
// error, and nobody holds it.
//
// A value is text, or any bytes, as a Java client with StringCodec writes it: in UTF-8. Other codecs make other fields.
func NewGroup(client *redlatch.Client, name string, values ...string) *Group {
	kind, values := newGroupKind(values)
	return &Group{redlatch.NewHandle(client, name, kind, engine.LockOptions{}), values}
}

// Values are the values of the group, each once, in no particular order.
func (g *Group) Values() []string { return slices.Clone(g.values) }

// Lock waits until all values are free and takes them; see redlatch.Locker.
func (g *Group) Lock(ctx context.Context, opts ...redlatch.AcquireOption) (*redlatch.Hold, error) {
	return g.acquire(ctx, "lock", g.Handle.Lock, opts)
}

// TryLock makes one attempt; see redlatch.Locker.
func (g *Group) TryLock(ctx context.Context, opts ...redlatch.AcquireOption) (*redlatch.Hold, error) {
	return g.acquire(ctx, "try lock", g.Handle.TryLock, opts)
}

func (g *Group) acquire(ctx context.Context, op string,
	take func(context.Context, ...redlatch.AcquireOption) (*redlatch.Hold, error), opts []redlatch.AcquireOption,
) (*redlatch.Hold, error) {
	if len(g.values) == 0 {
		return nil, &redlatch.Error{Op: op, Name: g.Name(), Err: errors.New("a group without values locks nothing; pass what is to be locked")}
	}
	h, err := take(ctx, opts...)
	if value, met := g.metItself(err); met {
		err = &redlatch.Error{Op: op, Name: g.Name(), Err: fmt.Errorf("%w: the owner holds the value %q already, in a group with "+
			"other values, which would have to be released first; take all values in one group: %w", redlatch.ErrReentry, value, err)}
	}
	return h, err
}

// metItself reads the server's answer that the owner holds a value already, in another group.
func (g *Group) metItself(err error) (value string, met bool) {
	var reply *rueidis.RedisError
	if !errors.As(err, &reply) {
		return "", false
	}
	_, number, met := strings.Cut(reply.Error(), lua.GroupReentry+" ")
	if i, err := strconv.Atoi(number); met && err == nil && 0 < i && i <= len(g.values) {
		return g.values[i-1], true
	}
	return "", false
}

// groupKind is how the engine runs groups of the same values (wire-protocol.md §11). Its field is the hold count of one of the values:
// as long as nothing but the scripts of these groups touches them, it is that of all. So that no other group of the same owner does,
// an owner bears a mark that tells the values.
type groupKind struct {
	engine.Common
	fields []string // of the values, in order
	first  string   // of them; it stands for all
	mark   string
}

// newGroupKind gives the values in the order of their fields.
func newGroupKind(values []string) (*groupKind, []string) {
	byField := make(map[string]string, len(values))
	k := &groupKind{fields: make([]string, 0, len(values))}
	for _, value := range values {
		field := fieldOf(value)
		if _, twice := byField[field]; !twice {
			k.fields = append(k.fields, field)
		}
		byField[field] = value
	}
	slices.Sort(k.fields)
	if len(k.fields) > 0 {
		k.first = k.fields[0]
	}
	k.mark = ":" + fieldOf(strings.Join(k.fields, ""))
	ordered := make([]string, len(k.fields))
	for i, field := range k.fields {
		ordered[i] = byField[field]
	}
	return k, ordered
}

// hashKey is Redisson's, the words of 64 bits in little-endian order (wire-protocol.md §11).
var hashKey = func() []byte {
	var key []byte
	for _, word := range []uint64{0x9e3779b97f4a7c15, 0xf39cc0605cedc834, 0x1082276bf3a27251, 0xf86c6a11d0c18e95} {
		key = binary.LittleEndian.AppendUint64(key, word)
	}
	return key
}()

// fieldOf is the field of a value: its HighwayHash of 128 bits, in base64 without padding. HighwayHash makes two words of 64 bits, which
// the module writes in little-endian order and Redisson in big-endian.
func fieldOf(value string) string {
	sum := highwayhash.Sum128([]byte(value), hashKey)
	slices.Reverse(sum[:8])
	slices.Reverse(sum[8:])
	return base64.RawStdEncoding.EncodeToString(sum[:])
}

func (k *groupKind) Name() string { return "grouped" }

// Variant tells the values: groups of others have their own waiters, renewals and holds.
func (k *groupKind) Variant() string { return k.mark }

const counter = ":lock_count"

func (k *groupKind) Field(owner string) string { return k.first + ":" + owner + k.mark + counter }

// holder is the owner, with its mark, that a field was made for.
func (k *groupKind) holder(field string) string {
	return strings.TrimSuffix(strings.TrimPrefix(field, k.first+":"), counter)
}

// owner is the one without its mark.
func (k *groupKind) owner(field string) string { return strings.TrimSuffix(k.holder(field), k.mark) }

func (k *groupKind) Acquire(t engine.Target) lua.Call[lua.Grant] {
	return lua.GroupedAcquire(t.Key, t.Latch, k.holder(t.Field), k.owner(t.Field)+":", t.Lease, k.fields)
}

func (k *groupKind) Reenter(t engine.Target, count int, entry bool) lua.Call[lua.Grant] {
	return lua.GroupedReenter(t.Key, t.Latch, k.holder(t.Field), t.Lease, count, entry, k.fields)
}

func (k *groupKind) Release(t engine.Target, count int) lua.Call[lua.Release] {
	d := t.Departure(count)
	d.Owner = k.holder(t.Field)
	return lua.GroupedRelease(t.Key, k.Channel(t.Key, t.Field), t.Latch, d, k.fields)
}

func (k *groupKind) ForceRelease(t engine.Target) lua.Call[lua.Release] {
	return lua.GroupedForceRelease(t.Key, k.Channel(t.Key, ""), t.Publish, k.fields)
}

func (k *groupKind) HandOver(t engine.Target, to string) (lua.Call[lua.Grant], bool) {
	return lua.GroupedHandOver(t.Key, t.Latch, k.holder(t.Field), k.holder(to), t.Lease, k.fields), true
}

// Renew finds the same values in all keys, since the kind's variant tells them.
func (k *groupKind) Renew(keys, fields []string, lease time.Duration, _ bool) lua.Call[[]bool] {
	holders := make([]string, len(fields))
	for i, field := range fields {
		holders[i] = k.holder(field)
	}
	return lua.GroupedRenew(keys, holders, lease, k.fields)
}

func (k *groupKind) Inspect(key string) lua.Call[lua.State] {
	return lua.GroupedInspect(key, k.mark, k.fields)
}

// Other is nothing: what Inspect finds of another kind it says in the state's type.
func (k *groupKind) Other(lua.State) string { return "" }

// Count takes a field, or an owner as a state has it.
func (k *groupKind) Count(s lua.State, field string) int { return k.Common.Count(s, k.owner(field)) }
