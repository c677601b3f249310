package engine

import (
	"sync"
	"time"
)

// EventKind says what happened.
type EventKind int

// What an Event tells of.
const (
	EventAcquired EventKind = iota + 1
	EventNotAcquired
	EventReleased
	EventLost
	EventRenewed
	EventRenewalFailed
)

var eventNames = map[EventKind]string{
	EventAcquired: "acquired", EventNotAcquired: "not acquired", EventReleased: "released",
	EventLost: "lost", EventRenewed: "renewed", EventRenewalFailed: "renewal failed",
}

func (k EventKind) String() string { return eventNames[k] }

// Event is one thing that happened to one lock.
type Event struct {
	Kind  EventKind
	Lock  *Lock
	Owner Owner
	Took  time.Duration // how long it was waited for, or held
	Err   error
}

// events carries what happened to the observer, in order and by a goroutine of its own: wherever an event arises, somebody may be
// waiting for a turn that the observer's own calls would wait for.
type events struct {
	observe func(Event) // nil: nobody wants to know
	stir    chan struct{}

	mu      sync.Mutex
	waiting []Event // guarded by mu
}

func (v *events) report(e Event) {
	if v.observe == nil {
		return
	}
	v.mu.Lock()
	v.waiting = append(v.waiting, e)
	v.mu.Unlock()
	stir(v.stir)
}

// deliver runs until done is closed and everything has been told.
func (v *events) deliver(done <-chan struct{}) {
	for {
		select {
		case <-v.stir:
			v.flush()
		case <-done:
			v.flush()
			return
		}
	}
}

func (v *events) flush() {
	v.mu.Lock()
	list := v.waiting
	v.waiting = nil
	v.mu.Unlock()
	for _, e := range list {
		v.observe(e)
	}
}
