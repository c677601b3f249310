package engine

import (
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/lua"
)

// Kind answers what differs between the kinds of locks. It is a stateless value, shared by all locks of its kind.
type Kind interface {
	// Name is the kind's name in states and messages to people, such as "plain".
	Name() string
	// Field is the owner's field in the lock's hash.
	Field(owner string) string
	// Channel is where the waiters of a lock listen.
	Channel(key string) string

	// Acquire takes the lock for a field without holds.
	Acquire(r Target) lua.Call[lua.Grant]
	// Reenter sets the hold count of a field that holds the lock, and its lease.
	Reenter(r Target, count int) lua.Call[bool]
	// Release sets the hold count of a field to what is left; 0 frees.
	Release(r Target, count int) lua.Call[lua.Release]
	// ForceRelease frees the lock whoever holds it.
	ForceRelease(r Target) lua.Call[lua.Release]
	// HandOver passes the lock to another field of this client, with a new lease; false when the kind can't.
	HandOver(r Target, to string) (lua.Call[lua.Grant], bool)
	// Renew renews fields[i] of keys[i].
	Renew(keys, fields []string, lease time.Duration) lua.Call[[]bool]

	// Locked and Count read a state.
	Locked(s lua.State) bool
	Count(s lua.State, field string) int
}

// Target is what a kind's scripts are told.
type Target struct {
	Key     string // the lock's hash
	Channel string
	Latch   string // names this one request
	Field   string
	Lease   time.Duration
	Publish string // PUBLISH or SPUBLISH
}

// Lock is one lock as a client sees it: immutable, safe for concurrent use, without a connection of its own.
type Lock struct {
	Engine *Engine
	Name   string // as the caller gave it
	Key    string // after the name mapper: the lock's hash in Redis
	Kind   Kind

	NonReentrant bool                   // a second entry of the same owner is an error
	Spin         func() backoff.BackOff // set: waiters poll instead of listening; called once for each wait

	channel string
	invalid error // what is wrong with it, told by every call
}

// NewLock describes a lock. What is wrong with its name is an error of each call on it.
func NewLock(e *Engine, name string, kind Kind) *Lock {
	l := &Lock{Engine: e, Name: name, Kind: kind}
	if e == nil {
		l.invalid = fmt.Errorf("%w: the lock was made without a client; pass what redlatch.Open returned", ErrClosed)
		return l
	}
	key, err := e.cfg.MapName(name)
	if err != nil {
		l.invalid = fmt.Errorf("%w: %w", ErrBadName, err)
		return l
	}
	l.Key, l.channel = key, kind.Channel(key)
	return l
}

// Invalidate makes every call on the lock fail; for options that can't be honoured.
func (l *Lock) Invalidate(err error) { l.invalid = errors.Join(l.invalid, err) }

// Owner is who holds a lock: a client and a thread number within it (wire-protocol.md §1).
type Owner struct {
	Client string // empty: the client whose lock is taken
	Thread int64
}

func (o Owner) String() string { return o.Client + ":" + strconv.FormatInt(o.Thread, 10) }

// Fresh thread numbers are one sequence for the whole process, so that an owner of one client, used with another one, can't be
// mistaken for an owner made there. They start where no number from outside is expected: a JVM's thread ids are small, and
// numbers in the reserved range are refused by CheckThread.
const (
	firstFresh = int64(1) << 62
	freshRange = int64(1) << 40
)

var freshThreads atomic.Int64

// NewThread returns a thread number that no other owner of this process has.
func NewThread() int64 { return firstFresh + freshThreads.Add(1)%freshRange }

// CheckThread refuses thread numbers that a fresh owner could have.
func CheckThread(thread int64) error {
	if thread >= firstFresh && thread < firstFresh+freshRange {
		return fmt.Errorf("thread id %d is in the range %d … %d, which is reserved for fresh owners; use another one",
			thread, firstFresh, firstFresh+freshRange-1)
	}
	return nil
}

// Request is one call of Lock or TryLock.
type Request struct {
	Owner   Owner
	Lease   time.Duration // 0: the watchdog renews
	Wait    time.Duration // NoLimit, 0 for one attempt, or the limit
	MaxHold time.Duration // 0: none; else the watchdog stops then
}

// NoLimit as Request.Wait waits until the context ends.
const NoLimit time.Duration = -1

// CheckLease refuses a lease that Redis can't keep.
func CheckLease(lease time.Duration) error {
	if lease < time.Millisecond || lease > config.MaxLease {
		return fmt.Errorf("lease %v is out of range; allowed is 1ms … %v", lease, config.MaxLease)
	}
	return nil
}

func (l *Lock) latch(id string) string {
	return config.Prefixed(config.UnlockLatchPrefix, l.Key) + ":" + id
}
