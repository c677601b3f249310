package engine

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/redlatch/redlatch/config"
)

// Lock is one lock as a client sees it: immutable, safe for concurrent use, without a connection of its own.
type Lock struct {
	Engine *Engine
	Name   string // as the caller gave it
	Key    string // after the name mapper: the lock's hash in Redis
	Kind   Kind
	LockOptions

	slot    uint16 // of the key on a cluster
	invalid error  // what is wrong with it, told by every call
}

// LockOptions are the extras of a lock; a kind offers those that it can honour.
type LockOptions struct {
	NonReentrant bool                   // a second entry of the same owner is an error
	Spin         func() backoff.BackOff // set: waiters poll instead of listening; called once for each wait
}

// NewLock describes a lock. What is wrong with its name is an error of each call on it.
func NewLock(e *Engine, name string, kind Kind, o LockOptions) *Lock {
	l := &Lock{Engine: e, Name: name, Kind: kind, LockOptions: o}
	if e == nil {
		l.invalid = fmt.Errorf("%w: the lock was made without a client; pass what redlatch.Open returned", ErrClosed)
		return l
	}
	key, err := e.cfg.MapName(name)
	if err != nil {
		l.invalid = err
		return l
	}
	l.Key, l.slot = key, config.Slot(key)
	if err := config.SlotSafe(key); err != nil && e.servers.Clustered() {
		l.invalid = err
	} else if err != nil {
		e.unsafeName.Do(func() {
			e.log.Warn("a lock's name works on this server, and would not on a cluster; not told again of other names", "error", err)
		})
	}
	return l
}

func (l *Lock) latch(id string) string {
	return config.Prefixed(config.UnlockLatchPrefix, l.Key) + ":" + id
}

// publish is the command that tells waiters of a release. Who polls tells nobody: waiters of this lock are thought to poll too
// (wire-protocol.md §9).
func (l *Lock) publish() string {
	if l.Spin != nil {
		return ""
	}
	return l.Engine.servers.Verbs()
}

// Field is an owner's field in the lock's hash; an owner without a client is one of this client.
func (l *Lock) Field(o Owner) string {
	if o.Client == "" && l.Engine != nil {
		o.Client = l.Engine.id
	}
	return l.Kind.Field(o.String())
}

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
