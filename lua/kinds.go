package lua

import (
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

var (
	fairAcquire      = named("fair_acquire")
	fairRelease      = named("fair_release")
	fairLeave        = named("fair_leave")
	fairForceRelease = named("fair_force_release")
	fencedAcquire    = named("fenced_acquire")
	fencedReenter    = named("fenced_reenter")
	fencedHandOver   = named("fenced_hand_over")
	fencedForget     = named("fenced_forget")
	readAcquire      = named("read_acquire")
	readReenter      = named("read_reenter")
	readSideRelease  = named("read_release")
	readRenew        = named("read_renew")
	writeAcquire     = named("write_acquire")
	writeReenter     = named("write_reenter")
	writeRelease     = named("write_release")
	rwForceRelease   = named("rw_force_release")
)

// FairKeys are the keys of a fair lock.
type FairKeys struct {
	Lock     string
	Queue    string
	Timeouts string
	Channel  string // what the waiters' own channels begin with
}

// FairAcquire takes a fair lock for an owner without holds, or with stand gives it a place in the queue, where it counts as alive
// for the time wait (wire-protocol.md §5). Grant.TTL is then the time until it is worth asking again without a message.
func FairAcquire(k FairKeys, latch, owner string, lease, wait time.Duration, stand, strict bool) Call[Grant] {
	keys := []string{k.Lock, k.Queue, k.Timeouts, latch}
	args := []string{millis(lease), owner, millis(wait), flag(stand), flag(strict)}
	return Call[Grant]{fairAcquire, keys, args, readGrant}
}

// FairRelease lowers a fair lock's count (wire-protocol.md §5).
func FairRelease(k FairKeys, latch string, d Departure) Call[Release] {
	keys := []string{k.Lock, k.Queue, k.Timeouts, k.Channel, latch}
	return Call[Release]{fairRelease, keys, append(d.args(), flag(d.Strict)), readRelease}
}

// FairLeave takes a waiter out of the queue; false when it did not stand there (wire-protocol.md §5).
func FairLeave(k FairKeys, owner string, wait time.Duration, publish string) Call[bool] {
	keys := []string{k.Lock, k.Queue, k.Timeouts, k.Channel}
	return Call[bool]{fairLeave, keys, []string{owner, millis(wait), publish}, readBool}
}

// FairForceRelease frees a fair lock whoever holds it (wire-protocol.md §5).
func FairForceRelease(k FairKeys, publish string, strict bool) Call[Release] {
	keys := []string{k.Lock, k.Queue, k.Timeouts, k.Channel}
	return Call[Release]{fairForceRelease, keys, []string{publish, flag(strict)}, readForced}
}

// FencedAcquire takes a fenced lock for an owner without holds (wire-protocol.md §7).
func FencedAcquire(lock, token, latch, owner string, lease time.Duration, strict bool) Call[Grant] {
	return Call[Grant]{fencedAcquire, []string{lock, token, latch}, []string{millis(lease), owner, flag(strict)}, readFencedGrant}
}

// FencedReenter raises the count of an owner to count, with a new token for an entry (wire-protocol.md §7).
func FencedReenter(lock, token, latch, owner string, lease time.Duration, count int, entry, strict bool) Call[Grant] {
	args := []string{millis(lease), owner, strconv.Itoa(count), flag(entry), flag(strict)}
	return Call[Grant]{fencedReenter, []string{lock, token, latch}, args, readFencedGrant}
}

// FencedHandOver passes a fenced lock between two owners of one client.
func FencedHandOver(lock, token, latch, from, to string, lease time.Duration, strict bool) Call[Grant] {
	args := []string{from, to, millis(lease), flag(strict)}
	return Call[Grant]{fencedHandOver, []string{lock, token, latch}, args, readFencedGrant}
}

// Forgetting is the reply to FencedForget.
type Forgetting int

// What FencedForget can reply.
const (
	Forgotten  Forgetting = 1
	NoCounter  Forgetting = 0
	StillHeld  Forgetting = -1
	NotTheLast Forgetting = -2
)

// FencedForget deletes the counter of a fenced lock that nobody holds, if last is its last token.
func FencedForget(lock, token string, last int64) Call[Forgetting] {
	return Call[Forgetting]{fencedForget, []string{lock, token}, []string{strconv.FormatInt(last, 10)}, readForgetting}
}

func readForgetting(m rueidis.RedisMessage) (Forgetting, error) {
	n, err := m.ToInt64()
	return Forgetting(n), err
}

// ReadAcquire takes the read side for an owner without read holds; marker is what the keys of its read holds begin with
// (wire-protocol.md §6).
func ReadAcquire(lock, marker, latch, owner, writer string, lease time.Duration, strict bool) Call[Grant] {
	args := []string{millis(lease), owner, writer, flag(strict)}
	return Call[Grant]{readAcquire, []string{lock, marker, latch}, args, readGrant}
}

// ReadReenter raises the count of an owner's read holds to count (wire-protocol.md §6).
func ReadReenter(lock, marker, latch, owner string, lease time.Duration, count int, strict bool) Call[Grant] {
	args := []string{millis(lease), owner, strconv.Itoa(count), flag(strict)}
	return Call[Grant]{readReenter, []string{lock, marker, latch}, args, readEntry}
}

// ReadRelease lowers the count of an owner's read holds; name is what the keys of all read holds begin with (wire-protocol.md §6).
func ReadRelease(lock, channel, name, latch string, d Departure) Call[Release] {
	args := []string{d.Owner, strconv.Itoa(d.Count), d.Publish}
	return Call[Release]{readSideRelease, []string{lock, channel, name, latch}, args, readRelease}
}

// ReadRenew renews the read holds of owners[i] of locks[i], whose keys begin with markers[i] (wire-protocol.md §4).
func ReadRenew(locks, owners, markers []string, lease time.Duration, strict bool) Call[[]bool] {
	args := make([]string, 0, 2*len(owners)+2)
	args = append(args, millis(lease), flag(strict))
	for i, owner := range owners {
		args = append(args, owner, markers[i])
	}
	return Call[[]bool]{readRenew, locks, args, readBools}
}

// WriteAcquire takes the write side for an owner without write holds (wire-protocol.md §6).
func WriteAcquire(lock, latch, writer string, lease time.Duration, strict bool) Call[Grant] {
	return Call[Grant]{writeAcquire, []string{lock, latch}, []string{millis(lease), writer, flag(strict)}, readGrant}
}

// WriteReenter raises the count of a writer to count; an entry adds its lease to what is left (wire-protocol.md §6).
func WriteReenter(lock, latch, writer string, lease time.Duration, count int, entry bool) Call[Grant] {
	args := []string{millis(lease), writer, strconv.Itoa(count), flag(entry)}
	return Call[Grant]{writeReenter, []string{lock, latch}, args, readEntry}
}

// WriteRelease lowers the count of a writer (wire-protocol.md §6).
func WriteRelease(lock, channel, latch string, d Departure) Call[Release] {
	return Call[Release]{writeRelease, []string{lock, channel, latch}, d.args(), readRelease}
}

// RWForceRelease frees one side of a read/write lock whoever holds it (wire-protocol.md §6).
func RWForceRelease(lock, channel, publish, mode, message string, strict bool) Call[Release] {
	return Call[Release]{rwForceRelease, []string{lock, channel}, []string{publish, mode, message, flag(strict)}, readForced}
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// readEntry reads the reply of an entry without a token.
func readEntry(m rueidis.RedisMessage) (Grant, error) {
	entered, err := readBool(m)
	return Grant{Acquired: entered}, err
}

// readFencedGrant reads -1 and a token, or a TTL and -1.
func readFencedGrant(m rueidis.RedisMessage) (Grant, error) {
	pair, err := m.AsIntSlice()
	if err != nil {
		return Grant{}, err
	}
	if len(pair) != 2 {
		return Grant{}, fmt.Errorf("fenced lock: the server replied %d elements instead of 2", len(pair))
	}
	if pair[1] < 0 {
		return Grant{TTL: time.Duration(pair[0]) * time.Millisecond}, nil
	}
	return Grant{Acquired: true, Token: pair[1]}, nil
}
