package engine

import (
	"errors"
	"time"
)

// Hand-off: when the last hold of an owner is released while a waiter of this process is first in the room, one script gives
// the lock straight to it. That saves a message and two round trips, and takes the lock past the waiters of other processes, so
// a series of hand-offs is bounded in number and in time.

// series is a run of hand-offs; it begins with an acquisition from the server's free lock.
type series struct {
	began  time.Time
	passed int // hand-offs so far
}

// successor picks the waiter that the lock of a tenure without holds goes to, and takes its tenure's turn; nil when there is none.
func (e *Engine) successor(t *tenure) *waiter {
	e.mu.Lock()
	defer e.mu.Unlock()
	if t.series.passed >= e.cfg.HandOffLimit || time.Since(t.series.began) >= e.cfg.HandOffWindow {
		return nil
	}
	r := e.rooms[roomKey{t.place.key, t.place.kind}]
	if r == nil {
		return nil
	}
	w := r.waiters.Front().Value.(*waiter)
	if w.tenure.busy || len(w.tenure.holds) > 0 || len(w.tenure.debts) > 0 {
		return nil // it is just asking the server itself, or about to enter what it holds, or has something in doubt
	}
	w.tenure.busy, w.offered = true, true
	return w
}

// handOver releases a tenure by giving the lock to a waiter. When it is not done, the tenure is to be released as usual; doubt says that
// the waiter may have got it all the same. The turns of both tenures must be taken; the waiter's is given here.
func (e *Engine) handOver(t *tenure, w *waiter) (done, doubt bool, err error) {
	lease := w.lease()
	latch, sent := e.latches.next(), time.Now()
	ask, able := t.lock.Kind.HandOver(t.target(latch, lease), w.tenure.place.field)
	if !able {
		e.withdraw(w)
		return false, false, nil
	}
	reply, err := commit(e, ask)
	switch {
	case err == nil && reply.Acquired:
		e.present(t, w, w.newHold(sent, reply.Token), nil)
		return true, false, nil
	case errors.Is(err, ErrNotReplicated):
		e.present(t, w, w.newHold(sent, reply.Token), err)
		return true, false, nil
	case err == nil:
		e.withdraw(w)
		return true, false, errGone
	case !ranNothing(err):
		// The waiter asks for itself, and pays its debt before: should this have taken effect, that frees the lock first.
		doubt = true
		if count, settled := e.settle(t, latch, err); !settled {
			e.owe(w.tenure, latch)
		} else if count == 0 {
			e.owe(w.tenure, "")
		}
	}
	e.withdraw(w)
	return false, doubt, nil
}

// present makes the hold of what the waiter was given: it is live before anybody can see that the waiter has it. unwanted is why it must
// not have it; the lock is then released, and the waiter asks for itself.
func (e *Engine) present(from *tenure, w *waiter, h *Hold, unwanted error) {
	t := w.tenure
	t.lease = w.lease()
	e.mu.Lock()
	t.trust.confirm(e.trustEnd(h.since, t.lease))
	t.series = series{from.series.began, from.series.passed + 1}
	if unwanted == nil {
		unwanted = e.admitLocked(t, h)
	}
	if unwanted == nil {
		w.given = h
	}
	e.mu.Unlock()
	if unwanted != nil {
		h.cancel(unwanted)
		_ = e.correct(t)
	}
	e.withdraw(w)
}

// withdraw ends the offer and gives the waiter's turn.
func (e *Engine) withdraw(w *waiter) {
	e.mu.Lock()
	w.offered = false
	w.tenure.passLocked()
	e.mu.Unlock()
	w.wake()
}

// collect gives the hold that a hand-off has brought, if any.
func (a *acquisition) collect() *Hold {
	a.engine.mu.Lock()
	defer a.engine.mu.Unlock()
	h := a.given
	a.given = nil
	return h
}

// collectLast is for a waiter that has left: it gives what was given to it at the last moment.
func (a *acquisition) collectLast() *Hold {
	a.engine.mu.Lock()
	offered := a.offered
	a.engine.mu.Unlock()
	if offered {
		a.tenure.take(nil) // until the releasing side has its answer
		a.tenure.give()
	}
	return a.collect()
}

// giveUp releases a hold that nobody was told of. It is possible while the client closes, too.
func (a *acquisition) giveUp(h *Hold) {
	h.leave()
	a.tenure.take(nil)
	_ = a.engine.correct(a.tenure)
	a.tenure.give()
}
