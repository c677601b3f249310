package engine

import (
	"container/list"
	"slices"
	"time"

	"github.com/redlatch/redlatch/internal/topology"
)

// room is where the waiters of one lock in this process stand in order. Only the first of them asks the server and listens; the
// others cost Redis nothing. It exists while somebody waits. Where all compete together, each has a room of its own.
type room struct {
	key roomKey

	// Guarded by engine.mu.

	waiters list.List              // of *waiter
	sub     *topology.Subscription // joined by the first waiter that had to; kept for those behind it
}

type roomKey struct{ key, kind string }

// waiter is an acquisition in a room.
type waiter struct {
	*acquisition
	room  *room
	place *list.Element
	kick  chan struct{}          // capacity one: it is first now, was given the lock, or its owner holds it
	heard *topology.Subscription // what it has listened to; its own
}

func (e *Engine) enter(a *acquisition) *waiter {
	w := &waiter{acquisition: a, kick: make(chan struct{}, 1)}
	key := roomKey{a.lock.Key, Identity(a.lock.Kind)}
	e.mu.Lock()
	defer e.mu.Unlock()
	if w.room = e.rooms[key]; w.room == nil {
		w.room = &room{key: key}
		if !a.lock.Kind.Together() {
			e.rooms[key] = w.room
		}
	}
	w.place = w.room.waiters.PushBack(w)
	w.tenure.waiters = append(w.tenure.waiters, w)
	return w
}

// leave takes a waiter out, with the lock or without. Whoever is first then tries at once, so that a wake-up which the
// leaving one got, and did not use, is not lost. Nothing is given to a waiter that has left.
func (e *Engine) leave(w *waiter) {
	e.mu.Lock()
	r := w.room
	first := r.waiters.Front() == w.place
	r.waiters.Remove(w.place)
	w.tenure.waiters = slices.DeleteFunc(w.tenure.waiters, func(other *waiter) bool { return other == w })
	if len(w.tenure.waiters) == 0 {
		w.tenure.waiters = nil // held for as long as the lock, for nothing
	}
	var sub *topology.Subscription
	if next := r.waiters.Front(); next == nil {
		sub = r.sub
		if e.rooms[r.key] == r {
			delete(e.rooms, r.key)
		}
	} else if first {
		next.Value.(*waiter).wake()
	}
	e.mu.Unlock()
	if sub != nil {
		sub.Leave()
	}
}

func (w *waiter) wake() {
	stir(w.kick)
}

func (w *waiter) first() bool {
	w.engine.mu.Lock()
	defer w.engine.mu.Unlock()
	return w.room.waiters.Front() == w.place
}

// listen returns the room's subscription, and whether it was joined only now. It is for the first waiter. A channel that the
// server refused to somebody before is asked for again: the refusal may have been mended since. So is one whose slot has moved.
func (w *waiter) listen() (sub *topology.Subscription, joined bool) {
	e, r := w.engine, w.room
	e.mu.Lock()
	sub = r.sub
	e.mu.Unlock()
	if sub != nil && !sub.Stale() && (sub.Err() == nil || sub == w.heard) {
		w.heard = sub
		return sub, false
	}
	if sub != nil {
		sub.Leave()
	}
	sub = e.servers.Join(w.lock.Kind.Channel(w.lock.Key, w.tenure.place.field))
	e.mu.Lock()
	r.sub = sub
	e.mu.Unlock()
	w.heard = sub
	return sub, true
}

// misledPause keeps a waiter from joining again and again on a server that sends it elsewhere, until it is known where.
const misledPause = 50 * time.Millisecond

// misled tells that the room's subscription was sent elsewhere.
func (w *waiter) misled() bool {
	w.engine.mu.Lock()
	sub := w.room.sub
	w.engine.mu.Unlock()
	return sub != nil && sub.Misled()
}
