package multilock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/engine"
)

const (
	// roundPerMember is Redisson's (wire-protocol.md §10).
	roundPerMember = 1500 * time.Millisecond
	// The pause after a round must leave another caller the time to notice that a member has become free, and differ from that
	// caller's.
	minPause, maxPause = 50 * time.Millisecond, 200 * time.Millisecond
	// shortestWait is what is left of a wait at least: one that is over before the request was made would ask nobody, and a wait of
	// zero would ask again and again without a pause.
	shortestWait = 10 * time.Millisecond
	// shortestCollection is a lease that outlives one slow answer of a further member.
	shortestCollection = 3 * time.Second
	// maxCuts is how many rounds in a row may end with a failure of a server that the round itself cut short. It is as often as a
	// command is tried again.
	maxCuts = config.DefaultRetryAttempts
	// cleanUpTime bounds giving back. It is safe to leave it then: the members' clients go on in the background, and keys expire.
	cleanUpTime = 3 * time.Second
)

// acquisition is one call of Lock or TryLock on its way.
type acquisition struct {
	lock   *Lock
	req    engine.Request
	caller context.Context // carries the owner
	until  time.Time       // the end of the wait limit; zero without one
}

// outcome is what a failed round says about the next one.
type outcome int

const (
	final     outcome = iota // a failure that the next round would find again
	contended                // somebody else holds what is needed
	cut                      // a failure that time did not allow to try again often enough
)

func (a *acquisition) run() (*hold, error) {
	for cuts := 0; ; {
		if a.caller.Err() != nil {
			return nil, engine.EndOf(a.caller)
		}
		h, why, err := a.round()
		switch {
		case err == nil:
			return h, nil
		case a.caller.Err() != nil:
			return nil, fmt.Errorf("%w (%v)", engine.EndOf(a.caller), err) //nolint:errorlint // its text alone: it is no contention
		case a.req.Wait == 0, why == final, a.over():
			return nil, err
		}
		cuts++
		if why != cut {
			cuts = 0
		}
		if cuts == maxCuts || !a.pause() {
			return nil, err
		}
	}
}

// round tries to take the members once, and leaves none held when it fails.
func (a *acquisition) round() (*hold, outcome, error) {
	r := a.newRound()
	gather := a.inOrder
	if a.lock.spare() > 0 {
		gather = a.majority
	}
	members, why, err := gather(r)
	if err != nil {
		a.giveBack(members)
		return nil, why, err
	}
	h := newHold(a.caller, members, a.lock.need)
	if why, err = a.confirm(h, r); err != nil {
		ctx, cancel := a.cleanUp()
		defer cancel()
		_ = h.Unlock(ctx) // see giveBack
		return nil, why, err
	}
	return h, 0, nil
}

// confirm sets the leases, and makes sure that the hold is wanted and has validity left.
func (a *acquisition) confirm(h *hold, r *round) (outcome, error) {
	var extended error
	if r.provisional {
		extended = h.Extend(a.caller, a.req.Lease)
	}
	if err := h.Err(); err != nil {
		// Not as a loss: nobody was told that the lock is held.
		return cut, fmt.Errorf("%w: a lease was over before enough members were held; use a longer one, or find out which server is slow (%v)",
			redlatch.ErrNotAcquired, err) //nolint:errorlint // the same
	}
	if a.caller.Err() != nil {
		return final, engine.EndOf(a.caller)
	}
	return final, extended
}

// round says how long members may be waited for while others are held.
type round struct {
	length time.Duration
	end    time.Time     // set when the first member is held
	lease  time.Duration // that members are taken with; 0 for the watchdog's
	// provisional says that it is not the lease asked for, which is set when enough members are held.
	provisional bool
}

// newRound draws a length that no other caller has: two that hold what the other one waits for do not step back at the same time.
func (a *acquisition) newRound() *round {
	length := a.lock.pace * time.Duration(len(a.lock.members))
	length = length*4/5 + rand.N(length*2/5)
	if a.req.Wait > 0 {
		length = min(length, a.left())
	}
	r := &round{length: length, lease: a.req.Lease, provisional: a.req.Lease > 0 && a.req.Wait != 0}
	if r.provisional {
		r.lease = max(2*length, shortestCollection).Truncate(time.Millisecond)
	}
	return r
}

// left is how long the call may wait.
func (a *acquisition) left() time.Duration {
	if a.req.Wait <= 0 {
		return a.req.Wait
	}
	return max(time.Until(a.until), shortestWait)
}

// over tells that the wait limit has passed.
func (a *acquisition) over() bool { return a.req.Wait > 0 && !time.Now().Before(a.until) }

// pause lets others have what this call has given back. It returns false when it may not go on.
func (a *acquisition) pause() bool {
	d := minPause + rand.N(maxPause-minPause)
	if a.req.Wait > 0 {
		d = min(d, a.left())
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-a.caller.Done(): // run says so
	}
	return !a.over()
}

// inOrder takes one member after the other. What is held is returned with an error too.
func (a *acquisition) inOrder(r *round) (held []member, why outcome, err error) {
	for i := range a.lock.members {
		got := a.ask(newAsking(a.caller), i, a.waitFor(i, r), r.lease)
		if got.err != nil {
			return held, got.outcome(), got.err
		}
		if held = append(held, member{i, got.hold}); len(held) == 1 {
			r.end = time.Now().Add(r.length)
		}
	}
	return held, 0, nil
}

func (a *acquisition) waitFor(i int, r *round) time.Duration {
	switch {
	case a.req.Wait == 0:
		return 0
	case i == 0:
		return a.left() // nothing is held yet, so nobody is kept out
	case a.req.Wait > 0 && a.until.Before(r.end):
		return a.left()
	default:
		return max(time.Until(r.end), shortestWait)
	}
}

// asked is what came of asking a member: a hold or an error.
type asked struct {
	hold      *redlatch.Hold
	err       error
	late      bool // there was no time left when it failed, so it was not tried as often as it could have been
	abandoned bool // it was not wanted any more before it could be had
}

func (a asked) outcome() outcome {
	switch {
	case errors.Is(a.err, redlatch.ErrNotAcquired):
		return contended
	case a.late:
		return cut
	default:
		return final
	}
}

// errUnwanted is a member that could be had when it was not wanted any more.
var errUnwanted = errors.New("given back, since it is not wanted any more")

// ask tries to take one member.
func (a *acquisition) ask(k *asking, i int, wait, lease time.Duration) asked {
	began := time.Now()
	hold, err := a.take(k, a.lock.members[i], wait, lease)
	kept := k.settle()
	if err == nil && !kept {
		a.giveBack([]member{{i, hold}})
		err = errUnwanted
	}
	if err != nil {
		return asked{err: atMember(i, err), late: wait >= 0 && time.Since(began) >= wait, abandoned: !kept}
	}
	return asked{hold: hold}
}

func (a *acquisition) take(ctx context.Context, m redlatch.Locker, wait, lease time.Duration) (*redlatch.Hold, error) {
	var opts []redlatch.AcquireOption
	if lease > 0 {
		opts = append(opts, redlatch.WithLease(lease))
	}
	if a.req.MaxHold > 0 {
		opts = append(opts, redlatch.WithMaxHold(a.req.MaxHold))
	}
	switch {
	case wait == 0:
		return m.TryLock(ctx, opts...)
	case wait > 0:
		opts = append(opts, redlatch.WithWait(wait))
	}
	return m.Lock(ctx, opts...)
}

func (a *acquisition) cleanUp() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(a.caller), cleanUpTime)
}

// giveBack releases members of a hold that does not come about. What it says is of no use to the caller: a member that was lost is free, and
// one whose server does not answer is released in the background.
func (a *acquisition) giveBack(members []member) {
	ctx, cancel := a.cleanUp()
	defer cancel()
	each(ctx, members, len(members), unlock)
}
