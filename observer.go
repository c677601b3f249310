package redlatch

import (
	"time"

	"github.com/redlatch/redlatch/internal/engine"
)

// Observer is told what happens to the locks of a client, in order and by one goroutine. Observe may use locks, but must not close
// or shut down the client. While it takes its time, later events are kept for it.
type Observer interface {
	Observe(Event)
}

// EventKind says what happened.
type EventKind int

// What an Event tells of.
const (
	// EventAcquired: a Lock or TryLock succeeded after the time Took.
	EventAcquired = EventKind(engine.EventAcquired)
	// EventNotAcquired: it returned Err after the time Took.
	EventNotAcquired = EventKind(engine.EventNotAcquired)
	// EventReleased: Unlock returned Err, nil if all is well, for a hold that lasted the time Took.
	EventReleased = EventKind(engine.EventReleased)
	// EventLost: a hold ended before its release, for the reason Err.
	EventLost = EventKind(engine.EventLost)
	// EventRenewed: the watchdog renewed the lock's lease.
	EventRenewed = EventKind(engine.EventRenewed)
	// EventRenewalFailed: it could not, for the reason Err, and goes on trying while the lock can be trusted.
	EventRenewalFailed = EventKind(engine.EventRenewalFailed)
)

// String is the kind in words.
func (k EventKind) String() string { return engine.EventKind(k).String() }

// Event is one thing that happened to one lock.
type Event struct {
	Kind     EventKind
	LockKind string // such as "plain"
	Name     string // of the lock
	Owner    Owner
	Took     time.Duration
	Err      error
}

func newEvent(e engine.Event) Event {
	return Event{
		Kind: EventKind(e.Kind), LockKind: e.Lock.Kind.Name(), Name: e.Lock.Name,
		Owner: Owner{e.Owner.Client, e.Owner.Thread}, Took: e.Took, Err: e.Err,
	}
}
