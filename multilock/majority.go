package multilock

import (
	"fmt"
	"time"

	"github.com/redlatch/redlatch"
)

// ballot is one round of NewRed.
type ballot struct {
	*acquisition
	round *round
	of    []asked // by member
}

// majority takes more than half of the members. What is held is returned with an error too.
func (a *acquisition) majority(r *round) ([]member, outcome, error) {
	b := &ballot{a, r, make([]asked, len(a.lock.members))}
	b.poll(b.which(asked.isMissing), 0, never)
	if !b.won() && a.req.Wait != 0 {
		b.wait()
	}
	if b.won() {
		return b.held(), 0, nil
	}
	why, err := b.lost()
	return b.held(), why, err
}

// wait goes on where asking everybody once has brought no majority.
func (b *ballot) wait() {
	share := max(b.round.length/time.Duration(len(b.of)), shortestWait)
	if b.count(asked.isBroken) > b.lock.spare() {
		// Their clients try again, as often as they would for a single lock, or as long as this round lasts.
		b.poll(b.which(asked.isBroken), share, func(int) bool { return b.won() })
	}
	if b.won() || b.count(asked.isBroken) > b.lock.spare() || !b.lead() {
		return
	}
	b.poll(b.which(asked.isContended), share, func(pending int) bool {
		return b.won() || b.count(asked.isHeld)+pending < b.lock.need
	})
	if b.won() {
		b.poll(b.which(asked.isAbandoned), 0, never) // they may be free all the same
	}
}

// lead has the first member that can be had at all. Who has to wait for it holds nothing else meanwhile: so callers stand in line
// for it, where otherwise each would hold some members and wait for the rest.
func (b *ballot) lead() bool {
	first := b.which(asked.isWell)[0]
	if b.of[first].isHeld() {
		return true
	}
	b.giveBack(b.held())
	for _, i := range b.which(asked.isHeld) {
		b.of[i] = asked{err: atMember(i, redlatch.ErrNotAcquired)}
	}
	wait := b.round.length
	if b.req.Wait > 0 {
		wait = min(wait, b.left())
	}
	b.poll([]int{first}, wait, never)
	return b.of[first].isHeld()
}

func never(int) bool { return false }

// poll asks members at the same time and waits for all their answers. When enough says so after one of them, with the number of those
// that are still missing, the others are not wanted any more.
func (b *ballot) poll(which []int, wait time.Duration, enough func(pending int) bool) {
	type answer struct {
		index int
		asked
	}
	answers := make(chan answer, len(which))
	asking := make([]*asking, len(which))
	for n, i := range which {
		asking[n] = newAsking(b.caller)
		go func() { answers <- answer{i, b.ask(asking[n], i, wait, b.round.lease)} }()
	}
	for pending := len(which) - 1; pending >= 0; pending-- {
		got := <-answers
		if before := b.of[got.index].err; got.abandoned && before != nil {
			got.err = before // that it was not wanted says nothing about it
		}
		b.of[got.index] = got.asked
		if enough(pending) {
			for _, k := range asking {
				k.giveUp(errEnough)
			}
		}
	}
}

func (a asked) isHeld() bool      { return a.hold != nil }
func (a asked) isMissing() bool   { return a.hold == nil }
func (a asked) isContended() bool { return a.hold == nil && a.outcome() == contended }
func (a asked) isBroken() bool    { return a.hold == nil && a.outcome() != contended }
func (a asked) isWell() bool      { return !a.isBroken() }
func (a asked) isAbandoned() bool { return a.hold == nil && a.abandoned }

func (b *ballot) which(is func(asked) bool) (list []int) {
	for i, a := range b.of {
		if is(a) {
			list = append(list, i)
		}
	}
	return list
}

func (b *ballot) count(is func(asked) bool) int { return len(b.which(is)) }

func (b *ballot) won() bool { return b.count(asked.isHeld) >= b.lock.need }

func (b *ballot) held() (members []member) {
	for _, i := range b.which(asked.isHeld) {
		members = append(members, member{i, b.of[i].hold})
	}
	return members
}

// lost says why there is no majority. When broken servers alone are enough for that, it is no contention.
func (b *ballot) lost() (outcome, error) {
	relevant, why := asked.isMissing, contended
	if b.count(asked.isBroken) > b.lock.spare() {
		relevant, why = asked.isBroken, cut
		if b.count(func(a asked) bool { return a.isBroken() && a.outcome() == final }) > b.lock.spare() {
			why = final
		}
	}
	var errs []error
	for _, i := range b.which(relevant) {
		errs = append(errs, b.of[i].err)
	}
	return why, fmt.Errorf("no majority of %d out of %d members: %w", b.lock.need, len(b.of), join(errs))
}
