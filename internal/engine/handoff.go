package engine

import (
	"time"
)

// Hand-off: when the last hold of an owner is released while a waiter of this process is first in the room, one script gives
// the lock straight to it. That saves a message and two round trips, and takes the lock past the waiters of other processes, so
// a series of hand-offs is bounded in number and in time.

// series is a run of hand-offs; it begins with a hold that was acquired from the server's free lock.
type series struct {
	began  time.Time
	passed int // hand-offs so far
}

func (s series) mayGoOn(limit int, window time.Duration) bool {
	return s.passed < limit && time.Since(s.began) < window
}

// given is what a waiter got by a hand-off and has not collected yet.
type given struct {
	sent   time.Time
	token  int64
	series series
}

// successor picks the waiter that a released hold goes to, and takes its tenure's turn; nil when there is none.
func (e *Engine) successor(h *Hold) *waiter {
	if !h.series.mayGoOn(e.cfg.HandOffLimit, e.cfg.HandOffWindow) {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.rooms[roomKey{h.tenure.lock.Key, h.tenure.lock.Kind.Name()}]
	if r == nil {
		return nil
	}
	w := r.waiters.Front().Value.(*waiter)
	if w.tenure.busy || len(w.tenure.holds) > 0 || w.tenure == h.tenure {
		return nil // it is just asking the server itself, or is about to enter what it holds
	}
	w.tenure.busy, w.offered = true, true
	return w
}

// handOver releases the last hold of a tenure by giving the lock to a waiter. False means that it was not done, and that the hold
// is to be released as usual. The turns of both tenures must be taken; the waiter's is given here.
func (e *Engine) handOver(h *Hold, t *tenure, w *waiter) (done bool, err error) {
	latch, sent := e.latches.next(), time.Now()
	next := w.acquisition
	ask, able := t.lock.Kind.HandOver(t.target(latch, next.lease()), w.tenure.place.field)
	if !able {
		e.pass(w, nil)
		return false, nil
	}
	end := e.trustEnd(sent, next.lease())
	e.mu.Lock()
	t.trust.arming(end)
	w.tenure.trust.arming(end)
	w.tenure.lease = next.lease()
	e.mu.Unlock()

	reply, err := call(e, ask)
	switch {
	case err == nil && reply.Acquired:
		e.mu.Lock()
		w.tenure.trust.armed(end)
		e.mu.Unlock()
		e.pass(w, &given{sent, reply.Token, series{h.series.began, h.series.passed + 1}})
		return true, nil
	case err == nil:
		e.pass(w, nil)
		return true, e.released(t, 0, sent, false)
	case !ranNothing(err):
		count, settled := e.settle(t, latch, err)
		if !settled {
			e.owe(w.tenure, latch)
			break
		}
		if count == 0 {
			// Passed on, or gone before. The waiter asks for itself, and finds itself in the lock if it was passed on. Should it
			// leave instead, its debt frees the lock.
			e.owe(w.tenure, e.latches.next())
			e.pass(w, nil)
			return true, nil
		}
	}
	e.pass(w, nil)
	return false, nil
}

// pass tells the waiter what became of the offer, and gives its turn.
func (e *Engine) pass(w *waiter, g *given) {
	e.mu.Lock()
	w.given = g
	w.tenure.passLocked()
	e.mu.Unlock()
	w.wake()
}

// collect makes a hold of what a hand-off gave; nil without an error when there was none. A waiter calls it before it goes on,
// or leaves: what was given to it must not be left behind.
func (a *acquisition) collect(w *waiter) (*Hold, error) {
	e, t := a.engine, a.tenure
	e.mu.Lock()
	offered := w.offered
	e.mu.Unlock()
	if !offered {
		return nil, nil
	}
	t.take(nil) // until the releasing side has its answer, which is bounded by the command timeout
	defer t.give()
	e.mu.Lock()
	g := w.given
	w.offered, w.given = false, nil
	e.mu.Unlock()
	if g == nil {
		return nil, nil
	}
	return a.grant(g.sent, g.token, g.series)
}
