package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redlatch/redlatch/internal/topology"
	"github.com/redlatch/redlatch/lua"
)

// releaseOnce sets the count on the server to that of the holds that are left. The tenure's turn must be taken. doubt says that an
// earlier request may have released the owner: then its absence is no loss.
func (e *Engine) releaseOnce(t *tenure, doubt bool) error {
	if t.count() > 0 { // a release that frees builds upon nothing
		if err := e.payDebts(t); err != nil {
			return err
		}
	}
	for again := false; ; again = true {
		latch, sent := e.latches.next(), time.Now()
		e.mu.Lock()
		left := len(t.holds)
		end := t.leftEndLocked(left, e.trustEnd(sent, t.lease))
		before := t.trust.begin(end)
		if left > 0 {
			e.limitSiblingLocked(t, end)
		}
		e.mu.Unlock()

		reply, by, err := callBy(e, e.cfg.Timeout, t.lock.Kind.Release(t.target(latch, t.lease), left))
		if err == nil {
			e.outlast(t, by, 0)
			return e.concludeRelease(t, sent, end, reply, doubt)
		}
		if ranNothing(err) {
			e.undo(t, before)
			return err
		}
		count, settled := e.settle(t, latch, err)
		switch {
		case !settled:
			return err
		case count > left:
			e.undo(t, before)
			return err
		case count == 0:
			// It took effect, or the lock was gone before: of a release whose answer was lost nobody can tell, nor needs to.
			e.outlast(t, e.servers.MasterOf(t.lock.slot), 0)
			return e.concludeRelease(t, sent, end, lua.Release{}, true)
		case again:
			e.close(t)
			return err
		}
		// It took effect, and is barred now. The same request can be made anew, and tells the rest.
	}
}

// outlast sees to it that a failover does not bring back an owner that has left: if the master goes before replicas are known to have that, it
// becomes a debt, so that the next master is asked whom it knows, and tells the waiters. What the settling of a debt releases is not watched over in its
// turn. stood is for how long the owner would still count as alive in the queue that it has left; 0 when it stood in none. The tenure's turn must be
// taken.
func (e *Engine) outlast(t *tenure, by *topology.Node, stood time.Duration) {
	if by == nil || !e.servers.Replicates() || t.count() > 0 { // who still holds says how often with the next release
		return
	}
	l, o, lease := t.lock, t.owner, t.lease
	again := sync.OnceFunc(func() {
		returned := e.join(l, o)
		e.oweFor(returned, "", lease, stood)
		e.part(returned)
	})
	by.Outlast(l.latch(e.latches.next()), time.Now().Add(max(lease, stood, e.cfg.LockWatchdogTimeout)), again)
	if e.servers.MasterOf(l.slot) != by { // it was replaced while it answered, or the slot moves
		again()
	}
}

// concludeRelease draws the conclusion for the holds that are left.
func (e *Engine) concludeRelease(t *tenure, sent, end time.Time, reply lua.Release, doubt bool) error {
	e.mu.Lock()
	var lost []*Hold
	left := len(t.holds)
	held := reply.Held || left == 0 && doubt
	if reply.Freed && left > 0 {
		held = false // what was left of it had ended
	}
	switch {
	case left == 0:
	case !held:
		lost = e.loseLocked(t, errGone)
	default:
		if left < len(t.ends) {
			t.ends = t.ends[:left]
		}
		t.trust.confirm(end)
		e.planLocked(t, sent, max(end.Sub(sent), 0))
	}
	e.mu.Unlock()
	e.tell(lost)
	switch {
	case !held:
		return errGone
	case reply.Untold != "":
		return fmt.Errorf("released, but the server refused to tell the waiters, who find out by the lock's TTL or their poll; "+
			"grant the channel %s: %s", t.lock.Kind.Channel(t.place.key, t.place.field), reply.Untold)
	default:
		return nil
	}
}

// correct frees on the server what nobody here holds, in one sending; what remains in doubt is settled in the background. The
// tenure's turn must be taken.
func (e *Engine) correct(t *tenure) error {
	err := e.releaseOnce(t, true)
	if passing(err) {
		e.owe(t, "")
		return err
	}
	return nil
}

// ForceRelease frees a lock whoever holds it; false when nobody did. A request whose answer was lost is not made again: it could
// free the next holder's lock.
func (e *Engine) ForceRelease(ctx context.Context, l *Lock) (bool, error) {
	if err := e.admit(ctx, l); err != nil {
		return false, err
	}
	defer e.finish()
	target := Target{Key: l.Key, Publish: l.publish(), Strict: e.strict()}
	for failed := e.noFailures(); ; failed.add() {
		before := e.holdersOf(l)
		reply, err := call(e, l.Kind.ForceRelease(target))
		if err == nil {
			if reply.Freed {
				e.endHolders(before, fmt.Errorf("%w: it was released by force", ErrLost))
			}
			if reply.Untold != "" {
				err = fmt.Errorf("released, but the server refused to tell the waiters; grant the channel %s: %s",
					l.Kind.Channel(l.Key, "*"), reply.Untold)
			}
			return reply.Freed, err
		}
		if !ranNothing(err) || !e.pause(ctx, err, &failed) {
			return false, describe(err)
		}
	}
}

// Forget makes a request that deletes what a lock leaves behind, see package fencedlock. As with ForceRelease, one whose answer was lost is
// not made again.
func (e *Engine) Forget(ctx context.Context, l *Lock, ask lua.Call[lua.Forgetting]) (bool, error) {
	if err := e.admit(ctx, l); err != nil {
		return false, err
	}
	defer e.finish()
	for failed := e.noFailures(); ; failed.add() {
		reply, err := call(e, ask)
		switch {
		case err == nil && reply == lua.StillHeld:
			return false, fmt.Errorf("%w: the lock is in use: somebody holds it", ErrNotAcquired)
		case err == nil && reply == lua.NotTheLast:
			return false, fmt.Errorf("%w: the lock is in use: another token is the last one", ErrNotAcquired)
		case err == nil:
			return reply == lua.Forgotten, nil
		case !ranNothing(err) || !e.pause(ctx, err, &failed):
			return false, describe(err)
		}
	}
}

// holdersOf gives the tenures that hold a lock, with the epoch of their trust, which tells a hold from a later one.
func (e *Engine) holdersOf(l *Lock) map[*tenure]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	holders := make(map[*tenure]int)
	for at, t := range e.tenures {
		side := at.kind == Identity(l.Kind) || l.Kind.Sibling() != nil && at.kind == Identity(l.Kind.Sibling())
		if at.key == l.Key && side && len(t.holds) > 0 {
			holders[t] = t.trust.epoch
		}
	}
	return holders
}

// endHolders ends this client's own holds of which the server's answer proves that they are gone; no renewal need find out.
func (e *Engine) endHolders(holders map[*tenure]int, why error) {
	e.mu.Lock()
	var lost []*Hold
	for t, epoch := range holders {
		if t.trust.epoch == epoch {
			lost = append(lost, e.loseLocked(t, why)...)
		}
	}
	e.mu.Unlock()
	e.tell(lost)
}
