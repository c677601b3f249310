package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/redlatch/redlatch/lua"
)

// acquisition is one call of Lock or TryLock on its way.
type acquisition struct {
	engine *Engine
	lock   *Lock
	req    Request
	caller context.Context // whose end makes a grant unwanted
	ctx    context.Context // caller, ended by the wait limit too, with ErrNotAcquired as its cause
	work   context.Context // parent of the hold's context
	tenure *tenure
	spin   backoff.BackOff // nil unless the lock is polled

	// Guarded by engine.mu: a hand-off is on its way, and the hold that it brought.

	offered bool
	given   *Hold
}

// Acquire takes the lock, or says why not. When it returns an error nothing is held; a request whose answer was lost is then
// settled in the background. ctx governs the waiting, between requests to the server. work is what the hold's context descends from.
func (e *Engine) Acquire(ctx, work context.Context, l *Lock, r Request) (*Hold, error) {
	if err := e.admit(ctx, l); err != nil {
		return nil, err
	}
	defer e.finish()

	began := time.Now()
	a := &acquisition{engine: e, lock: l, req: r, caller: ctx, ctx: ctx, work: work}
	a.tenure = e.join(l, r.Owner)
	defer e.part(a.tenure)

	h, err := a.run()
	err = describe(err)
	event := Event{Kind: EventAcquired, Lock: l, Owner: r.Owner, Took: time.Since(began), Err: err}
	if err != nil {
		event.Kind = EventNotAcquired
	}
	e.events.report(event)
	return h, err
}

func (a *acquisition) run() (*Hold, error) {
	if a.req.Wait > 0 {
		ctx, cancel := context.WithTimeoutCause(a.caller, a.req.Wait, ErrNotAcquired)
		defer cancel()
		a.ctx = ctx
	}
	if h, err := a.enterHeld(); h != nil || err != nil {
		return h, err
	}
	if err := a.refused(a.ctx); err != nil {
		return nil, err
	}
	if a.req.Wait == 0 {
		h, err := a.once()
		if h == nil {
			a.standDown() // an earlier call of the same owner may not have been able to
		}
		return h, err
	}
	if a.lock.Spin != nil {
		a.spin = a.lock.Spin()
	}
	w := a.engine.enter(a)
	h, err := a.compete(w)
	a.engine.leave(w)
	late := a.collectLast()
	if h != nil && late != nil {
		a.giveUp(late) // it was given what it had got by itself, and lost again
	} else if late != nil {
		h, err = late, nil
	}
	if h != nil {
		if unwanted := a.refused(a.caller); unwanted != nil {
			a.giveUp(h)
			h, err = nil, unwanted
		}
	}
	if h == nil {
		a.standDown()
	}
	return h, err
}

// enterHeld lets an owner enter what it holds, past all waiters. Neither hold nor error: it holds nothing.
func (a *acquisition) enterHeld() (*Hold, error) {
	for failed := a.engine.noFailures(); a.tenure.count() > 0; failed.add() {
		h, _, err := a.attempt(false)
		if err == nil || a.req.Wait == 0 && (failed.count > 0 || !stale(err)) {
			return h, err
		}
		if err := a.recover(err, &failed, nil); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// once asks a single time. A connection that proves to be broken says nothing about the lock, so a new one is asked too.
func (a *acquisition) once() (*Hold, error) {
	h, _, err := a.attempt(false)
	if stale(err) {
		h, _, err = a.attempt(false)
	}
	if h == nil && err == nil {
		err = ErrNotAcquired
	}
	return h, err
}

// compete waits for the front of the process's queue, and there for the lock.
func (a *acquisition) compete(w *waiter) (*Hold, error) {
	for failed := a.engine.noFailures(); ; {
		if h := a.collect(); h != nil {
			return h, nil
		}
		if !w.first() && a.tenure.count() == 0 {
			if err := a.await(nil, nil, w.kick); err != nil {
				return nil, err
			}
			continue
		}
		h, ttl, err := a.attempt(true)
		switch {
		case h != nil:
			return h, nil
		case err == nil:
			failed = a.engine.noFailures()
			err = a.sleep(w, ttl)
		default:
			err = a.recover(err, &failed, w.kick)
			failed.add()
		}
		if err != nil {
			return nil, err
		}
	}
}

// sleep returns when the lock may be free: a message came, the holder's TTL is over, or so much time passed that a message may have
// been lost.
func (a *acquisition) sleep(w *waiter, ttl time.Duration) error {
	if !w.first() {
		return a.await(nil, nil, w.kick) // the messages are for the first one
	}
	if a.spin != nil {
		pause := a.spin.NextBackOff()
		if pause == backoff.Stop {
			return fmt.Errorf("%w: the spin lock's back-off has come to its end", ErrNotAcquired)
		}
		return a.pause(pause, nil, w.kick)
	}
	if w.misled() {
		if err := a.pause(misledPause, nil, w.kick); err != nil {
			return err
		}
	}
	sub, joined := w.listen()
	if err := sub.Err(); err != nil {
		return err
	}
	if joined && sub.Confirmed() {
		return nil // the channel lingered: a message may have come between the attempt and the joining
	}
	return a.pause(a.engine.napFor(ttl), sub.Wake(), w.kick)
}

// napFor bounds a sleep by the holder's TTL and the fallback poll, which is spread by a fifth each way.
func (e *Engine) napFor(ttl time.Duration) time.Duration {
	poll := e.cfg.FallbackPoll
	nap := poll - poll/5 + rand.N(2*poll/5+1)
	if ttl != -time.Millisecond { // it has a TTL
		nap = min(nap, max(ttl, 0)+time.Millisecond) // Redis expires a key at the end of its last millisecond
	}
	return nap
}

// recover pauses after a failure that may pass; it returns the error that ends the call otherwise.
func (a *acquisition) recover(err error, failed *failures, kick <-chan struct{}) error {
	if !a.engine.worthRetrying(err, *failed) {
		return err
	}
	if failed.count == 0 && stale(err) {
		return nil
	}
	over := a.pause(a.engine.cfg.RetryDelay.Next(failed.count), failed.rerouted, kick)
	failed.rerouted = a.engine.nextLayout()
	switch {
	case over == nil:
		return nil
	case errors.Is(over, ErrNotAcquired):
		// A broken server is no contention: the limit is over, but what it says is why.
		return fmt.Errorf("the wait is over and the server has not recovered: %w", describe(err))
	default:
		return fmt.Errorf("%w (before that: %w)", over, describe(err))
	}
}

func (a *acquisition) pause(d time.Duration, wake, kick <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	return a.await(timer.C, wake, kick)
}

// await returns nil when something comes by one of the channels, and otherwise the error that ends the call.
func (a *acquisition) await(alarm <-chan time.Time, wake, kick <-chan struct{}) error {
	shut := a.engine.shut
	if a.tenure.count() > 0 && !a.engine.isClosing() {
		shut = nil // see refused
	}
	select {
	case <-alarm:
	case <-wake:
	case <-kick:
	case <-a.ctx.Done():
	case <-shut:
	}
	return a.refused(a.ctx)
}

// refused tells whether the caller or the client does not want the lock any more. It is asked before an attempt and after a
// grant: a done context beats a free lock.
func (a *acquisition) refused(ctx context.Context) error {
	if ctx.Err() != nil {
		if a.caller.Err() == nil {
			return ErrNotAcquired // the wait limit
		}
		return EndOf(a.caller)
	}
	select {
	case <-a.engine.shut:
		if a.tenure.count() > 0 && !a.engine.isClosing() {
			return nil // a shutdown waits for this owner, who may have to enter again in order to finish
		}
		return ErrClosed
	default:
		return nil
	}
}

func (a *acquisition) lease() time.Duration {
	switch {
	case a.req.Lease > 0:
		return a.req.Lease
	case a.req.MaxHold > 0:
		return min(a.req.MaxHold, a.engine.cfg.LockWatchdogTimeout)
	default:
		return a.engine.cfg.LockWatchdogTimeout
	}
}

// attempt asks the server once, with stand as a waiter. Without a hold and an error it gives the time until the lock may be free.
func (a *acquisition) attempt(stand bool) (h *Hold, ttl time.Duration, err error) {
	t := a.tenure
	if !t.take(a.ctx.Done()) {
		if err := a.refused(a.ctx); !errors.Is(err, ErrNotAcquired) {
			return nil, 0, err
		}
		return nil, 0, fmt.Errorf("%w: %w", ErrNotAcquired, errTurn)
	}
	defer t.give()
	if h := a.collect(); h != nil { // a hand-off had the turn
		return h, 0, nil
	}
	if err := a.refused(a.ctx); err != nil {
		return nil, 0, err
	}
	if err := a.excluded(); err != nil {
		return nil, 0, err
	}
	if err := a.engine.payDebts(t); err != nil {
		return nil, 0, err
	}
	if t.count() > 0 {
		h, err = a.reenter()
		return h, 0, err
	}
	return a.acquire(stand)
}

// excluded tells when waiting would be for ever: the owner itself keeps the lock from being had in this way. The server is asked, since
// what the owner is believed to hold may be gone.
func (a *acquisition) excluded() error {
	t := a.tenure
	other, epoch, reason := a.obstacle()
	if other == nil {
		return nil
	}
	state, err := call(a.engine, other.lock.Kind.Inspect(t.place.key))
	if err != nil {
		return err
	}
	if other.lock.Kind.Count(state, other.place.field) > 0 && a.engine.checkKind(other.lock, state) == nil {
		return fmt.Errorf("%w: owner %s %s", ErrReentry, t.owner, reason)
	}
	a.engine.endHolders(map[*tenure]int{other: epoch}, errGone)
	return nil
}

// obstacle is what the owner holds and must not: the lock itself, if it is non-reentrant, or the side that excludes this one.
func (a *acquisition) obstacle() (other *tenure, epoch int, reason string) {
	e, t := a.engine, a.tenure
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(t.holds) > 0 {
		if a.lock.NonReentrant {
			return t, t.trust.epoch, "holds it already, and the lock was made NonReentrant"
		}
		return nil, 0, ""
	}
	side := a.lock.Kind.Excluded()
	if side == "" {
		return nil, 0, ""
	}
	other = e.tenures[place{t.place.key, side, t.owner.String()}]
	if other == nil || len(other.holds) == 0 {
		return nil, 0, ""
	}
	return other, other.trust.epoch, "holds its " + side + " side, which would have to be released first"
}

func (a *acquisition) reenter() (*Hold, error) {
	e, t := a.engine, a.tenure
	sent := time.Now()
	grant, err := e.rearm(t, a.lease(), true)
	if err != nil || !grant.Acquired {
		return nil, err
	}
	return a.grant(sent, grant.Token)
}

// acquire asks for a lock that the owner does not hold. The tenure's turn must be taken.
func (a *acquisition) acquire(stand bool) (*Hold, time.Duration, error) {
	e, t := a.engine, a.tenure
	t.lease = a.lease()
	if !t.stands { // what it stands with is what it leaves with
		t.wait = a.req.Wait
		if t.wait <= 0 {
			t.wait = e.cfg.FairLockWaitTimeout
		}
	}
	t.stands = t.stands || stand
	for again := false; ; again = true {
		latch, sent := e.latches.next(), time.Now()
		target := t.target(latch, t.lease)
		target.Stand = stand
		grant, err := commit(e, a.lock.Kind.Acquire(target))
		if err == nil && !grant.Acquired {
			return nil, grant.TTL, nil
		}
		if err == nil {
			e.mu.Lock()
			t.ends = nil
			t.trust.confirm(t.stackLocked(e.trustEnd(sent, t.lease), false))
			t.series = series{began: sent}
			e.mu.Unlock()
			t.stands = false
			h, err := a.grant(sent, grant.Token)
			return h, 0, err
		}
		if ranNothing(err) {
			if again { // the request before did take effect
				e.owe(t, "")
			}
			return nil, 0, err
		}
		if errors.Is(err, ErrNotReplicated) {
			_ = e.correct(t)
			return nil, 0, err
		}
		count, settled := e.settle(t, latch, err)
		switch {
		case !settled || count == 0:
			return nil, 0, err
		case again || a.refused(a.ctx) != nil:
			_ = e.correct(t)
			return nil, 0, err
		}
		// It did take effect, and is barred now. Asking anew finds the owner in the lock, and arms the lease from now.
	}
}

// errLate is a grant whose trust was over when it came.
var errLate = fmt.Errorf("%w: the server's answer took longer than the lease can be trusted; use a longer lease", ErrNotAcquired)

// grant makes the hold of what the server has given, or gives it back when nobody wants it any more.
func (a *acquisition) grant(sent time.Time, token int64) (*Hold, error) {
	e, t := a.engine, a.tenure
	h := a.newHold(sent, token)
	unwanted := a.refused(a.caller)
	if unwanted == nil {
		e.mu.Lock()
		unwanted = e.admitLocked(t, h)
		e.mu.Unlock()
	}
	if unwanted == nil {
		return h, nil
	}
	h.cancel(unwanted)
	_ = e.correct(t)
	return nil, unwanted
}

func (a *acquisition) newHold(sent time.Time, token int64) *Hold {
	h := &Hold{
		engine: a.engine, tenure: a.tenure, owner: a.req.Owner, token: token, since: sent, lost: make(chan struct{}),
		watched: a.req.Lease == 0,
	}
	h.ctx.hold = h
	h.ctx.Context, h.cancel = context.WithCancelCause(a.work)
	if a.req.MaxHold > 0 {
		h.renewUntil = sent.Add(a.req.MaxHold)
	}
	return h
}

// admitLocked makes a hold live. The trust has been confirmed.
func (e *Engine) admitLocked(t *tenure, h *Hold) error {
	switch {
	case e.closing:
		return ErrClosed
	case t.trust.until.IsZero(), t.trust.passed(time.Now()):
		return errLate
	}
	t.holds = append(t.holds, h)
	e.held++
	e.planLocked(t, h.since, t.lease)
	for _, w := range t.waiters {
		w.wake() // it may enter now
	}
	return nil
}

// standDown takes the owner out of what Redis keeps of waiters, unless another of its calls still waits or has the lock.
func (a *acquisition) standDown() {
	e, t := a.engine, a.tenure
	if _, kept := a.lock.Kind.Leave(Target{}); !kept {
		return
	}
	if !t.take(a.engine.life.Done()) {
		return
	}
	defer t.give()
	if leave, due := e.leaving(t); due {
		_, by, err := callBy(e, e.cfg.Timeout, leave)
		if err != nil {
			e.owe(t, "")
			return
		}
		t.stands = false
		e.outlast(t, by, t.wait)
	}
}

// leaving is the request that takes an owner out of the queue in Redis, when it stands there and neither holds nor waits.
func (e *Engine) leaving(t *tenure) (lua.Call[bool], bool) {
	e.mu.Lock()
	due := t.mustLeaveLocked()
	e.mu.Unlock()
	if !due {
		return lua.Call[bool]{}, false
	}
	return t.lock.Kind.Leave(t.target("", t.lease))
}

// mustLeaveLocked is for who has the turn.
func (t *tenure) mustLeaveLocked() bool {
	if _, kept := t.lock.Kind.Leave(Target{}); !kept {
		return false
	}
	return t.stands && len(t.holds) == 0 && len(t.waiters) == 0
}
