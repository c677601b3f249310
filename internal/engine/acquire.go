package engine

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// acquisition is one call of Lock or TryLock on its way.
type acquisition struct {
	engine *Engine
	lock   *Lock
	req    Request
	ctx    context.Context
	work   context.Context // parent of the hold's context
	tenure *tenure
	limit  <-chan time.Time // fires when Request.Wait is over; nil: no limit
	spin   backoff.BackOff  // nil unless the lock is polled
}

// Acquire takes the lock, or says why not. When it returns an error nothing is held; a request whose answer was lost is then
// settled in the background. ctx governs the waiting, between requests to the server. work is what the hold's context descends from.
func (e *Engine) Acquire(ctx, work context.Context, l *Lock, r Request) (*Hold, error) {
	if l.invalid != nil {
		return nil, l.invalid
	}
	if ctx.Err() != nil {
		return nil, ended(ctx)
	}
	if err := e.begin(); err != nil {
		return nil, err
	}
	defer e.finish()

	began := time.Now()
	a := &acquisition{engine: e, lock: l, req: r, ctx: ctx, work: work}
	a.tenure = e.join(l, l.Kind.Field(r.Owner.String()))
	defer e.part(a.tenure)

	h, err := a.run()
	event := Event{Kind: EventAcquired, Lock: l, Owner: r.Owner, Took: time.Since(began), Err: err}
	if err != nil {
		event.Kind = EventNotAcquired
	}
	e.report(event)
	return h, err
}

func (a *acquisition) run() (*Hold, error) {
	if a.holds() { // no queue for who is in already
		if h, _, err := a.attempt(); h != nil || err != nil {
			return h, describe(err)
		}
	}
	if err := a.refused(); err != nil {
		return nil, err
	}
	if a.req.Wait == 0 {
		return a.once()
	}
	if a.req.Wait > 0 {
		timer := time.NewTimer(a.req.Wait)
		defer timer.Stop()
		a.limit = timer.C
	}
	if a.lock.Spin != nil {
		a.spin = a.lock.Spin()
	}
	w := a.engine.enter(a)
	defer a.engine.leave(w)
	return a.compete(w)
}

// once asks a single time. A connection that proves to be broken says nothing about the lock, so one that is new is asked too.
func (a *acquisition) once() (*Hold, error) {
	h, _, err := a.attempt()
	if err != nil && stale(err) {
		h, _, err = a.attempt()
	}
	if h == nil && err == nil {
		err = ErrNotAcquired
	}
	return h, describe(err)
}

// compete waits for the front of the process's queue and there for the lock.
func (a *acquisition) compete(w *waiter) (*Hold, error) {
	failures := 0
	for {
		h, err := a.step(w, &failures)
		if h == nil {
			given, refused := a.collect(w)
			h, err = given, cmp.Or(err, refused)
		}
		if h != nil {
			return h, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// step waits for the front, or asks the server and then sleeps until it is worth asking again.
func (a *acquisition) step(w *waiter, failures *int) (*Hold, error) {
	if !w.mayTry() {
		return nil, a.await(forEver, nil, w.kick)
	}
	h, ttl, err := a.attempt()
	if h != nil {
		return h, nil
	}
	if err != nil {
		*failures++
		return nil, a.recover(err, *failures-1)
	}
	*failures = 0
	return nil, a.sleep(w, ttl)
}

// sleep returns when the lock may be free: a message came, the holder's TTL is over, or so much time passed that a message may have
// been lost.
func (a *acquisition) sleep(w *waiter, ttl time.Duration) error {
	if a.spin != nil {
		pause := a.spin.NextBackOff()
		if pause == backoff.Stop {
			return fmt.Errorf("%w: the spin lock's back-off has come to its end", ErrNotAcquired)
		}
		return a.await(time.Now().Add(pause), nil, w.kick)
	}
	sub, joined := w.listen()
	if err := sub.Err(); err != nil {
		return describe(err)
	}
	if joined && sub.Confirmed() {
		return nil // the channel lingered: a message may have come between the attempt and the joining
	}
	return a.await(time.Now().Add(a.engine.napFor(ttl)), sub.Wake(), w.kick)
}

// napFor bounds a sleep by the holder's TTL and the fallback poll, which is spread by a fifth each way.
func (e *Engine) napFor(ttl time.Duration) time.Duration {
	poll := e.cfg.FallbackPoll
	nap := poll - poll/5 + rand.N(2*poll/5+1)
	if ttl >= 0 {
		// Redis expires a key at the end of its last millisecond.
		nap = min(nap, ttl+time.Millisecond)
	}
	return nap
}

// recover pauses after a failure that may pass; it returns the error that ends the call otherwise.
func (a *acquisition) recover(err error, failures int) error {
	if !passing(err) || failures >= a.engine.cfg.Retries() {
		return describe(err)
	}
	if failures == 0 && stale(err) {
		return nil
	}
	pause := time.Now().Add(a.engine.cfg.RetryDelay.Next(failures))
	if ended := a.await(pause, nil, nil); ended != nil {
		return fmt.Errorf("%w (%w)", describe(err), ended)
	}
	return nil
}

// await returns nil at the given time or when woken, and otherwise the error that ends the call.
func (a *acquisition) await(until time.Time, wake, kick <-chan struct{}) error {
	var alarm <-chan time.Time
	if until != forEver {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		alarm = timer.C
	}
	select {
	case <-alarm:
	case <-wake:
	case <-kick:
	case <-a.limit:
		return ErrNotAcquired
	case <-a.ctx.Done():
	case <-a.engine.shut:
	}
	return a.refused()
}

// refused tells whether the caller or the client does not want the lock any more. It is asked before an attempt and after a
// grant: a done context beats a free lock.
func (a *acquisition) refused() error {
	if a.ctx.Err() != nil {
		return ended(a.ctx)
	}
	select {
	case <-a.engine.shut:
		if a.holds() && a.engine.life.Err() == nil {
			return nil // a shutdown waits for this owner, who may have to enter again in order to finish
		}
		return ErrClosed
	default:
		return nil
	}
}

func (a *acquisition) holds() bool {
	a.engine.mu.Lock()
	defer a.engine.mu.Unlock()
	return len(a.tenure.holds) > 0
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

// attempt asks the server once. Without a hold and an error it gives the TTL of who holds the lock.
func (a *acquisition) attempt() (h *Hold, ttl time.Duration, err error) {
	t := a.tenure
	if !t.take(a.ctx.Done()) {
		return nil, 0, ended(a.ctx)
	}
	defer t.give()
	if err := a.refused(); err != nil {
		return nil, 0, err
	}
	if a.holds() {
		h, err = a.reenter()
		return h, 0, err
	}
	return a.acquire()
}

func (a *acquisition) reenter() (*Hold, error) {
	if a.lock.NonReentrant {
		return nil, fmt.Errorf("%w: owner %s holds it already and the lock was made NonReentrant", ErrReentry, a.req.Owner)
	}
	sent := time.Now()
	held, err := a.engine.rearm(a.tenure, a.lease(), 1)
	if err != nil || !held {
		return nil, err
	}
	return a.grant(sent, 0, series{began: sent})
}

func (a *acquisition) acquire() (*Hold, time.Duration, error) {
	e, t := a.engine, a.tenure
	latch, sent := e.latches.next(), time.Now()
	end := e.trustEnd(sent, a.lease())
	e.mu.Lock()
	t.trust.arming(end)
	t.lease = a.lease()
	e.mu.Unlock()

	reply, err := call(e, a.lock.Kind.Acquire(t.target(latch, a.lease())))
	if err != nil {
		if ranNothing(err) {
			return nil, 0, err
		}
		if count, settled := e.settle(t, latch, err); !settled || count == 0 {
			return nil, 0, err
		}
		reply.Acquired = true
	}
	if !reply.Acquired {
		return nil, reply.TTL, nil
	}
	e.mu.Lock()
	t.trust.armed(end)
	e.mu.Unlock()
	h, err := a.grant(sent, reply.Token, series{began: sent})
	return h, 0, err
}

// grant makes the hold of what the server has given, or gives it back when nobody wants it any more.
func (a *acquisition) grant(sent time.Time, token int64, s series) (*Hold, error) {
	e, t := a.engine, a.tenure
	h := &Hold{
		engine: e, tenure: t, owner: a.req.Owner, token: token, since: sent, series: s, lost: make(chan struct{}),
	}
	h.ctx.hold = h
	h.ctx.Context, h.cancel = context.WithCancelCause(a.work)
	if a.req.Lease == 0 {
		h.renewUntil = forEver
		if a.req.MaxHold > 0 {
			h.renewUntil = sent.Add(a.req.MaxHold)
		}
	}

	unwanted := a.refused()
	e.mu.Lock()
	left := len(t.holds)
	switch {
	case unwanted != nil:
	case e.life.Err() != nil:
		unwanted = ErrClosed
	case t.trust.passed(time.Now()), t.trust.until.IsZero():
		unwanted = fmt.Errorf("%w: the server's answer took longer than the lease of %v can be trusted; use a longer lease",
			ErrNotAcquired, a.lease())
	default:
		t.holds = append(t.holds, h)
		e.held++
		if left == 0 {
			e.planLocked(t, sent, a.lease())
		} else {
			e.scheduleLocked(t)
		}
		for _, w := range t.waiters {
			w.wake()
		}
		e.mu.Unlock()
		return h, nil
	}
	if left == 0 {
		t.trust.until = time.Time{}
	}
	e.mu.Unlock()
	h.cancel(unwanted)
	e.giveBack(t)
	return nil, unwanted
}
