package engine

import (
	"container/list"

	"github.com/redlatch/redlatch/pubsub"
)

// room is where the waiters of one lock in this process stand in order. Only the first of them asks the server and listens; the
// others cost Redis nothing. It exists while somebody waits.
type room struct {
	key     roomKey
	waiters list.List            // of *waiter; guarded by engine.mu
	sub     *pubsub.Subscription // joined by the first waiter that had to; kept for those behind it
}

type roomKey struct{ key, kind string }

type waiter struct {
	*acquisition
	room  *room
	place *list.Element
	kick  chan struct{} // capacity one: it is first now, was offered the lock, or its owner holds the lock

	// Guarded by engine.mu: a hand-off on its way to this waiter, and what it brought.
	offered bool
	given   *given
}

func (e *Engine) enter(a *acquisition) *waiter {
	w := &waiter{acquisition: a, kick: make(chan struct{}, 1)}
	e.mu.Lock()
	defer e.mu.Unlock()
	key := roomKey{a.lock.Key, a.lock.Kind.Name()}
	if w.room = e.rooms[key]; w.room == nil {
		w.room = &room{key: key}
		e.rooms[key] = w.room
	}
	w.place = w.room.waiters.PushBack(w)
	w.tenure.waiters = append(w.tenure.waiters, w)
	return w
}

// leave takes a waiter out, with the lock or without. Whoever is first then tries at once, so that a wake-up which the
// leaving one got, and did not use, is not lost.
func (e *Engine) leave(w *waiter) {
	e.mu.Lock()
	r := w.room
	first := r.waiters.Front() == w.place
	r.waiters.Remove(w.place)
	for i, other := range w.tenure.waiters {
		if other == w {
			w.tenure.waiters = append(w.tenure.waiters[:i], w.tenure.waiters[i+1:]...)
			break
		}
	}
	var sub *pubsub.Subscription
	if next := r.waiters.Front(); next == nil {
		delete(e.rooms, r.key)
		sub = r.sub
	} else if first {
		next.Value.(*waiter).wake()
	}
	e.mu.Unlock()
	if sub != nil {
		sub.Leave()
	}
}

func (w *waiter) wake() {
	select {
	case w.kick <- struct{}{}:
	default: // it will look anyway
	}
}

func (w *waiter) mayTry() bool {
	w.engine.mu.Lock()
	defer w.engine.mu.Unlock()
	return w.room.waiters.Front() == w.place || len(w.tenure.holds) > 0
}

// listen returns the room's subscription, and whether it was joined only now.
func (w *waiter) listen() (sub *pubsub.Subscription, joined bool) {
	e, r := w.engine, w.room
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.sub == nil {
		// Join takes the hub's own mutex for a moment and never waits for the network.
		r.sub, joined = e.hub.Join(w.tenure.lock.channel), true
	}
	return r.sub, joined
}
