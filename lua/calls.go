package lua

import (
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// Grant is the reply to an attempt to take a lock.
type Grant struct {
	Acquired bool
	TTL      time.Duration // when not acquired: how long the lock may still be held; -1 ms when it has no TTL, -2 ms when it has just gone
	Token    int64         // fencing token of this acquisition, 0 where the kind has none
}

// Release is the reply to an attempt to release.
type Release struct {
	Held   bool   // false: the owner did not hold the lock
	Freed  bool   // nobody holds the lock any more
	Untold string // the server's words when it freed the lock but refused to publish the message
}

// State is what Inspect reads.
type State struct {
	Type   string // as the TYPE command says it; "none" when there is no key
	TTL    time.Duration
	Fields map[string]string
	Queue  []string // who waits, the next one first
	Token  int64    // the last fencing token
}

var (
	acquire      = named("acquire")
	reenter      = named("reenter")
	release      = named("release")
	settle       = named("settle")
	forceRelease = named("force_release")
	renew        = named("renew")
	handOver     = named("hand_over")
	inspect      = named("inspect")
	probe        = named("probe")
)

// OtherKind is how the server's reply begins when a script meets a lock of another kind; what it is follows. As a parameter, strict
// asks for that. A script of a holder then finds that it does not hold the lock. Without strict the kinds meet as in Redisson
// (wire-protocol.md §14).
const OtherKind = "WRONGTYPE the hash is "

// Acquire takes a plain lock for an owner without holds (wire-protocol.md §3).
func Acquire(lock, latch, owner string, lease time.Duration, strict bool) Call[Grant] {
	return Call[Grant]{acquire, []string{lock, latch}, []string{millis(lease), owner, flag(strict)}, readGrant}
}

// Reenter raises the count of an owner to count; not acquired when the owner does not hold the lock (wire-protocol.md §3).
func Reenter(lock, latch, owner string, lease time.Duration, count int, strict bool) Call[Grant] {
	args := []string{millis(lease), owner, strconv.Itoa(count), flag(strict)}
	return Call[Grant]{reenter, []string{lock, latch}, args, readEntry}
}

// Departure is what a release leaves behind.
type Departure struct {
	Owner   string
	Count   int           // holds of the owner that remain; 0 frees the lock
	Lease   time.Duration // TTL of a lock that stays held
	Publish string        // PUBLISH, SPUBLISH, or both with a space between; empty tells nobody
	Strict  bool          // look for another kind where an owner could stand in one; see OtherKind
}

// ReleaseTo lowers a plain lock's count (wire-protocol.md §3).
func ReleaseTo(lock, channel, latch string, d Departure) Call[Release] {
	return Call[Release]{release, []string{lock, channel, latch}, append(d.args(), flag(d.Strict)), readRelease}
}

func (d Departure) args() []string {
	return []string{d.Owner, strconv.Itoa(d.Count), millis(d.Lease), d.Publish}
}

// Settle bars a request whose answer was lost for the time bar, 1 ms at least, and reads the owner's hold count.
func Settle(lock, latch, owner string, bar time.Duration) Call[int] {
	return Call[int]{settle, []string{lock, latch}, []string{owner, millis(max(bar, time.Millisecond))}, readInt}
}

// ForceRelease frees a plain lock whoever holds it (wire-protocol.md §3).
func ForceRelease(lock, channel, publish string, strict bool) Call[Release] {
	return Call[Release]{forceRelease, []string{lock, channel}, []string{publish, flag(strict)}, readForced}
}

// Renew renews the lease of each lock that its owner still holds; locks[i] belongs to owners[i] (wire-protocol.md §4).
func Renew(locks, owners []string, lease time.Duration, strict bool) Call[[]bool] {
	args := make([]string, 0, len(owners)+2)
	args = append(append(args, millis(lease), flag(strict)), owners...)
	return Call[[]bool]{renew, locks, args, readBools}
}

// HandOver passes a plain lock between two owners of one client; not acquired when from does not hold it.
func HandOver(lock, latch, from, to string, lease time.Duration, strict bool) Call[Grant] {
	return Call[Grant]{handOver, []string{lock, latch}, []string{from, to, millis(lease), flag(strict)}, readEntry}
}

// Inspect reads type, TTL and fields of a lock, and of further keys a queue or a fencing token, by their types.
func Inspect(lock string, more ...string) Call[State] {
	return Call[State]{inspect, append([]string{lock}, more...), nil, readState}
}

// Probe reads the server's clock by a script.
func Probe() Call[time.Time] {
	return Call[time.Time]{probe, nil, nil, func(m rueidis.RedisMessage) (time.Time, error) {
		ms, err := m.ToInt64()
		return time.UnixMilli(ms), err
	}}
}

func millis(d time.Duration) string { return strconv.FormatInt(max(d.Milliseconds(), 1), 10) }

func readGrant(m rueidis.RedisMessage) (Grant, error) {
	if m.IsNil() {
		return Grant{Acquired: true}, nil
	}
	ttl, err := m.ToInt64()
	return Grant{TTL: time.Duration(ttl) * time.Millisecond}, err
}

func readRelease(m rueidis.RedisMessage) (Release, error) {
	if m.IsNil() {
		return Release{}, nil
	}
	if m.IsString() {
		words, err := m.ToString()
		return Release{Held: true, Freed: true, Untold: words}, err
	}
	freed, err := m.ToInt64()
	return Release{Held: true, Freed: freed == 1}, err
}

func readInt(m rueidis.RedisMessage) (int, error) {
	n, err := m.ToInt64()
	return int(n), err
}

func readBool(m rueidis.RedisMessage) (bool, error) {
	n, err := m.ToInt64()
	return n == 1, err
}

func readBools(m rueidis.RedisMessage) ([]bool, error) {
	numbers, err := m.AsIntSlice()
	if err != nil {
		return nil, err
	}
	flags := make([]bool, len(numbers))
	for i, n := range numbers {
		flags[i] = n == 1
	}
	return flags, nil
}

func readState(m rueidis.RedisMessage) (State, error) {
	parts, err := m.ToArray()
	if err != nil {
		return State{}, err
	}
	if len(parts) != 5 {
		return State{}, fmt.Errorf("inspect: the server replied %d elements instead of 5", len(parts))
	}
	var s State
	if s.Type, err = parts[0].ToString(); err != nil {
		return State{}, err
	}
	ttl, err := parts[1].ToInt64()
	if err != nil {
		return State{}, err
	}
	s.TTL = time.Duration(ttl) * time.Millisecond
	if s.Fields, err = parts[2].AsStrMap(); err != nil {
		return State{}, err
	}
	if s.Queue, err = parts[3].AsStrSlice(); err != nil {
		return State{}, err
	}
	s.Token, err = parts[4].AsInt64()
	return s, err
}

// readForced tells a lock that nobody held apart from one that was freed: 0 does not mean still held here.
func readForced(m rueidis.RedisMessage) (Release, error) {
	r, err := readRelease(m)
	r.Held = r.Freed
	return r, err
}
