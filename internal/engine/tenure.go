package engine

import (
	"container/heap"
	"errors"
	"fmt"
	"slices"
	"time"
)

// place names one owner's stay in one lock; kind is its identity.
type place struct{ key, kind, field string }

// tenure is what this client knows of one owner's stay in one lock. It exists as long as the owner holds the lock, a call works on
// it, or a request of it is in doubt.
type tenure struct {
	engine *Engine
	lock   *Lock
	owner  Owner
	place  place

	// lease is what was armed last; a partial release arms it again. stands says that the owner may stand in a queue in Redis, and
	// wait for how long it counts as alive there. All three belong to who has the turn.
	lease, wait time.Duration
	stands      bool

	// The rest is guarded by engine.mu.

	users   int // calls that work on it, and one for its debts
	holds   []*Hold
	waiters []*waiter // its calls that wait
	series  series    // of hand-offs that its first hold is part of
	trust   trust
	ends    []time.Time // of each hold's own lease, where the kind is stacked
	renewal renewal
	debts   []debt    // requests in doubt: while there are any, nothing lengthens the trust
	at      time.Time // its next event in the schedule
	index   int       // its place in the schedule, -1 outside
	next    *tenure   // beside it in engine.slots, as is previous
	prev    *tenure

	// Requests that set an owner's count or lease go one after the other: the count to set is known only when the one before is.
	// busy says that somebody has the turn, queue who is next.
	busy  bool
	queue []chan struct{}
}

// join finds or makes the record of an owner; the caller must part with it.
func (e *Engine) join(l *Lock, o Owner) *tenure {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := place{l.Key, Identity(l.Kind), l.Kind.Field(o.String())}
	t := e.tenures[at]
	if t == nil {
		t = &tenure{engine: e, lock: l, owner: o, place: at, index: -1}
		e.tenures[at] = t
	}
	t.users++
	return t
}

func (e *Engine) part(t *tenure) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t.users--
	e.forgetLocked(t)
}

// forgetLocked drops a record that nobody needs any more.
func (e *Engine) forgetLocked(t *tenure) {
	if t.users == 0 && len(t.holds) == 0 && e.tenures[t.place] == t {
		delete(e.tenures, t.place)
	}
}

// errTurn: somebody else had the turn until the caller's time was over.
var errTurn = errors.New("another call of the same owner is still waiting for the server's answer")

// take waits for the tenure's turn, until done is closed; nil waits however long it takes: one request and its settling, each
// bounded by the command timeout (and a grant by the waiting for replicas), for everybody who stands before.
func (t *tenure) take(done <-chan struct{}) bool {
	mu := &t.engine.mu
	mu.Lock()
	if !t.busy {
		t.busy = true
		mu.Unlock()
		return true
	}
	next := make(chan struct{})
	t.queue = append(t.queue, next)
	mu.Unlock()
	select {
	case <-next:
		return true
	case <-done:
	}
	mu.Lock()
	defer mu.Unlock()
	for i, c := range t.queue {
		if c == next {
			t.queue = append(t.queue[:i], t.queue[i+1:]...)
			return false
		}
	}
	t.passLocked() // it was given at the same moment: the next one gets it
	return false
}

func (t *tenure) give() {
	t.engine.mu.Lock()
	t.passLocked()
	t.engine.mu.Unlock()
}

func (t *tenure) passLocked() {
	if len(t.queue) == 0 {
		t.busy = false
		return
	}
	close(t.queue[0])
	t.queue = t.queue[1:]
}

func (t *tenure) target(latch string, lease time.Duration) Target {
	return Target{
		Key: t.place.key, Latch: t.lock.latch(latch), Field: t.place.field,
		Lease: lease, Publish: t.lock.publish(), Wait: t.wait, Strict: t.engine.strict(),
	}
}

// count is how many holds the owner has here, which is what the server should count.
func (t *tenure) count() int {
	t.engine.mu.Lock()
	defer t.engine.mu.Unlock()
	return len(t.holds)
}

// The ends of stacked leases: the holds last as long as the longest of them.

// stackLocked notes the lease of a new hold, or with again a new lease of the newest one, and returns the end of all.
func (t *tenure) stackLocked(end time.Time, again bool) time.Time {
	if !t.lock.Kind.Stacked() {
		return end
	}
	if again && len(t.ends) > 0 {
		t.ends = t.ends[:len(t.ends)-1]
	}
	t.ends = append(t.ends, end)
	return latest(t.ends)
}

// leftEndLocked is when the holds end that a release leaves: what was stacked last is taken off, and otherwise the lease is armed
// anew to end at end.
func (t *tenure) leftEndLocked(left int, end time.Time) time.Time {
	if t.lock.Kind.Stacked() && left > 0 && left <= len(t.ends) {
		return latest(t.ends[:left])
	}
	return end
}

func latest(times []time.Time) time.Time {
	return slices.MaxFunc(times, time.Time.Compare)
}

// limitSiblingLocked lowers the trust in the same owner's other side, whose key is about to end at end.
func (e *Engine) limitSiblingLocked(t *tenure, end time.Time) {
	kind := t.lock.Kind.Sibling()
	if kind == nil {
		return
	}
	s := e.tenures[place{t.place.key, Identity(kind), kind.Field(t.owner.String())}]
	if s != nil && len(s.holds) > 0 && end.Before(s.trust.until) {
		s.trust.limit(end)
		e.renewSoonLocked(s)
	}
}

// trustEnd is when a lease that is armed by a request sent at sent can be trusted no longer.
func (e *Engine) trustEnd(sent time.Time, lease time.Duration) time.Time {
	return sent.Add(e.cfg.Trust(lease))
}

// errGone is how the server says that a hold is lost.
var errGone = fmt.Errorf("%w: the server has no such holder any more (expired, deleted, or released by force)", ErrLost)

// expired says why time ended a tenure; to be asked before it is lost.
func (t *tenure) expired() error {
	if t.renewal.lastErr != nil {
		return fmt.Errorf("%w: its lease could not be renewed in time: %w", ErrLost, t.renewal.lastErr)
	}
	return fmt.Errorf("%w: its lease is over", ErrLost)
}

// loseLocked ends all holds of a tenure; the caller tells them when it has given up the mutex.
func (e *Engine) loseLocked(t *tenure, why error) []*Hold {
	lost := t.holds
	for _, h := range lost {
		h.state, h.err = lostHold, why
	}
	e.held -= len(lost)
	e.vacateLocked(t, nil)
	return lost
}

// vacateLocked sets the holds of a tenure that has fewer now; without any it has no trust, and the watchdog does not see it.
func (e *Engine) vacateLocked(t *tenure, holds []*Hold) {
	t.holds = holds
	if len(holds) == 0 {
		t.trust.until, t.ends, t.renewal = time.Time{}, nil, renewal{}
		if t.index >= 0 {
			heap.Remove(&e.schedule, t.index)
			e.slots.remove(t)
		}
		e.forgetLocked(t)
	}
	e.stirLocked()
}

// tell lets the holders know, outside of the mutex.
func (e *Engine) tell(lost []*Hold) {
	for _, h := range lost {
		h.cancel(h.err)
		close(h.lost)
	}
	for _, h := range lost {
		e.events.report(Event{Kind: EventLost, Lock: h.tenure.lock, Owner: h.owner, Took: time.Since(h.since), Err: h.err})
	}
}
