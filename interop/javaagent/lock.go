package javaagent

import "time"

// Kind is a kind of lock, as the agent names it.
type Kind string

// The kinds.
const (
	KindPlain            Kind = "plain"
	KindFair             Kind = "fair"
	KindRead             Kind = "read"
	KindWrite            Kind = "write"
	KindFenced           Kind = "fenced" // since Redisson 3.19
	KindSpin             Kind = "spin"
	KindNonReentrant     Kind = "nonreentrant"      // since Redisson 4.4
	KindNonReentrantFair Kind = "nonreentrant-fair" // since Redisson 4.4
	KindMulti            Kind = "multi"
	KindRed              Kind = "red"
	KindGrouped          Kind = "grouped" // since Redisson 3.38
)

// Lock says which lock an operation is about. The agent keeps one lock object for each Lock of a client and uses it
// again, as an application does that keeps it in a field; see Fresh.
type Lock struct {
	Kind    Kind     `json:"kind"`
	Name    string   `json:"name,omitempty"`
	Client  string   `json:"client,omitempty"`  // of a member: the client that it is of, if not the multi-lock's own
	Members []Lock   `json:"members,omitempty"` // of KindMulti and KindRed
	Values  []string `json:"values,omitempty"`  // of KindGrouped
	BackOff *BackOff `json:"backOff,omitempty"` // of KindSpin; nil is Redisson's default
}

// BackOff is how a spin lock waits between two tries.
type BackOff struct {
	Type       string `json:"type"`                 // "exponential" or "constant"
	InitialMs  int64  `json:"initialMs,omitempty"`  // 1…60000; 0 is the default: 1, for a constant back-off 64
	MaxMs      int64  `json:"maxMs,omitempty"`      // 1…60000; 0 is 128
	Multiplier int    `json:"multiplier,omitempty"` // 1…100; 0 is 2
}

// Plain is getLock(name).
func Plain(name string) Lock { return Lock{Kind: KindPlain, Name: name} }

// Fair is getFairLock(name).
func Fair(name string) Lock { return Lock{Kind: KindFair, Name: name} }

// Read is getReadWriteLock(name).readLock().
func Read(name string) Lock { return Lock{Kind: KindRead, Name: name} }

// Write is getReadWriteLock(name).writeLock().
func Write(name string) Lock { return Lock{Kind: KindWrite, Name: name} }

// Fenced is getFencedLock(name).
func Fenced(name string) Lock { return Lock{Kind: KindFenced, Name: name} }

// Spin is getSpinLock(name), with Redisson's default back-off; set BackOff for another one.
func Spin(name string) Lock { return Lock{Kind: KindSpin, Name: name} }

// NonReentrant is getNonReentrantLock(name).
func NonReentrant(name string) Lock { return Lock{Kind: KindNonReentrant, Name: name} }

// NonReentrantFair is getNonReentrantFairLock(name).
func NonReentrantFair(name string) Lock { return Lock{Kind: KindNonReentrantFair, Name: name} }

// Multi is getMultiLock(members…).
func Multi(members ...Lock) Lock { return Lock{Kind: KindMulti, Members: members} }

// Red is new RedissonRedLock(members…).
func Red(members ...Lock) Lock { return Lock{Kind: KindRed, Members: members} }

// Grouped is getMultiLock(name, values).
func Grouped(name string, values ...string) Lock {
	return Lock{Kind: KindGrouped, Name: name, Values: values}
}

// Of makes the lock, as a member of a Multi or Red, one of another client.
func (l Lock) Of(client *Client) Lock {
	l.Client = client.name
	return l
}

// The operations, named as Redisson's methods are.
const (
	OpLock                  = "lock"
	OpLockInterruptibly     = "lockInterruptibly"
	OpTryLock               = "tryLock"
	OpUnlock                = "unlock"
	OpForceUnlock           = "forceUnlock"
	OpIsLocked              = "isLocked"
	OpIsHeldByCurrentThread = "isHeldByCurrentThread"
	OpIsHeldByThread        = "isHeldByThread"
	OpGetHoldCount          = "getHoldCount"
	OpRemainTimeToLive      = "remainTimeToLive"
	OpGetName               = "getName"
	OpLockAsync             = "lockAsync"
	OpTryLockAsync          = "tryLockAsync"
	OpUnlockAsync           = "unlockAsync"
	OpLockAndGetToken       = "lockAndGetToken"
	OpTryLockAndGetToken    = "tryLockAndGetToken"
	OpGetToken              = "getToken"
	OpDelete                = "delete"
	OpExpire                = "expire"
)

// Op is one operation on a lock.
type Op struct {
	Name     string // one of the Op… constants
	Lock     Lock
	Wait     *time.Duration // nil calls the method without a wait time; rounded up to whole milliseconds
	Lease    *time.Duration // nil calls the method without a lease; rounded up to whole milliseconds
	ThreadID *int64         // for the …Async operations and isHeldByThread
	Fresh    bool           // make a new lock object for this operation and keep it from now on
}

// NewOp puts an operation together.
func NewOp(name string, lock Lock, args ...Arg) Op {
	op := Op{Name: name, Lock: lock}
	for _, arg := range args {
		arg(&op)
	}
	return op
}

// Arg is an optional argument of an operation.
type Arg func(*Op)

// Wait is the wait time of a tryLock.
func Wait(d time.Duration) Arg { return func(op *Op) { op.Wait = &d } }

// Lease is a fixed lease; without it the watchdog renews the lock.
func Lease(d time.Duration) Arg { return func(op *Op) { op.Lease = &d } }

// ThreadID is the thread id that an …Async operation acts for.
func ThreadID(id int64) Arg { return func(op *Op) { op.ThreadID = &id } }

// Fresh makes a new lock object instead of using the kept one. Redisson remembers the lease of its last acquisition on the
// object, so this is also how to forget it.
func Fresh() Arg { return func(op *Op) { op.Fresh = true } }

// milliseconds rounds up, so that a positive duration never becomes 0.
func milliseconds(d *time.Duration) *int64 {
	if d == nil {
		return nil
	}
	ms := int64((*d + time.Millisecond - 1) / time.Millisecond)
	if *d < 0 {
		ms = d.Milliseconds()
	}
	return &ms
}
