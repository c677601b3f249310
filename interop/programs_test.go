package interop

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"pgregory.net/rapid"
)

// step is one call of one owner, or something that happens to the lock from outside.
type step struct {
	actor int
	side  int // which of the program's kinds
	op    string
	lease time.Duration
}

const (
	opTry    = "try lock"
	opWait   = "wait for the lock"     // in the background, until it is free
	opGiveUp = "try lock for a moment" // long enough to stand in a queue
	opUnlock = "unlock"
	opForce  = "force unlock"
	opCount  = "hold count"
	opLocked = "is locked"
	opExpire = "let the lock expire"

	actors  = 4
	aMoment = 120 * time.Millisecond
)

// program is what is run in each language: steps on one lock of a kind, or of two kinds that are two sides of one lock.
type program struct {
	kinds []kind
	steps []step
}

func (p program) String() string {
	var b strings.Builder
	for i, s := range p.steps {
		fmt.Fprintf(&b, "  %d. %s\n", i+1, p.describe(s))
	}
	return b.String()
}

func (p program) describe(s step) string {
	if s.op == opExpire {
		return "the server: " + s.op
	}
	text := fmt.Sprintf("owner %d: %s: %s", s.actor, p.kinds[s.side].name, s.op)
	if s.lease > 0 {
		text += ", lease " + s.lease.String()
	}
	return text
}

// families are the kinds that programs are about, as far as the JVM has them; one family shares a name.
func families() [][]kind {
	list := [][]kind{{plain}, {spin}, {fair}, {read, write}}
	if javaIs(3, 19) {
		list = append(list, []kind{fenced})
	}
	if javaIs(4, 4) {
		list = append(list, []kind{once}, []kind{fairOnce})
	}
	return list
}

// drawProgram makes a random program in which every call comes to its end: those that wait are let in by what follows, or
// by the end of the program.
func drawProgram(t *rapid.T) program {
	p := program{kinds: rapid.SampledFrom(families()).Draw(t, "kinds")}
	var m model
	m.queueing = p.kinds[0].name == fair.name
	m.exclusive = len(p.kinds) == 1 && p.kinds[0].name != once.name && p.kinds[0].name != fairOnce.name
	for range rapid.IntRange(1, 14).Draw(t, "length") {
		p.steps = append(p.steps, m.draw(t, len(p.kinds)))
	}
	for m.count > 0 {
		p.steps = append(p.steps, m.apply(step{actor: m.owner, op: opUnlock}))
	}
	return p
}

// model is as much of the state of an exclusive lock as is needed to know who is let in when. Of read/write locks it knows
// nothing, so nobody waits for them in the background.
type model struct {
	exclusive, queueing bool
	owner, count        int
	waiting             []int
}

func (m *model) draw(t *rapid.T, sides int) step {
	s := step{
		actor: rapid.IntRange(0, actors-1).Draw(t, "actor"),
		side:  rapid.IntRange(0, sides-1).Draw(t, "side"),
	}
	for _, waiting := range m.waiting {
		if waiting == s.actor { // it is busy
			s.actor = m.owner
		}
	}
	s.op = rapid.SampledFrom(m.possible(s.actor)).Draw(t, "op")
	switch s.op {
	case opTry, opGiveUp, opWait:
		s.lease = rapid.SampledFrom([]time.Duration{0, 0, 20 * time.Second, time.Minute}).Draw(t, "lease")
	}
	return m.apply(s)
}

func (m *model) possible(actor int) []string {
	ops := []string{opTry, opTry, opTry, opUnlock, opUnlock, opUnlock, opForce, opCount, opLocked, opGiveUp}
	if len(m.waiting) == 0 {
		ops = append(ops, opExpire) // no message tells a waiter of that
	}
	limit := 1 // of several waiters it is chance who comes first
	if m.queueing {
		limit = 2
	}
	if m.exclusive && m.count > 0 && m.owner != actor && len(m.waiting) < limit {
		ops = append(ops, opWait, opWait)
	}
	return ops
}

func (m *model) apply(s step) step {
	if !m.exclusive {
		return s
	}
	switch s.op {
	case opTry, opGiveUp:
		if m.count == 0 || m.owner == s.actor {
			m.owner = s.actor
			m.count++
		}
	case opWait:
		m.waiting = append(m.waiting, s.actor)
	case opUnlock:
		if m.count > 0 && m.owner == s.actor {
			m.count--
		}
	case opForce, opExpire:
		m.count = 0
	}
	if m.count == 0 && len(m.waiting) > 0 {
		m.owner, m.count, m.waiting = m.waiting[0], 1, m.waiting[1:]
	}
	return s
}

// known is a difference between the languages that is meant. It says of a step whether it shows there.
type known struct {
	difference, reason string
	shows              func(c comparison) bool
}

// comparison is a step of a program with what Java and the other cast did.
type comparison struct {
	step
	kind        kind
	java, other trace
	leaking     bool // the TTL may come from a remembered lease
	mixed       bool // the hold has entries with a lease and without one
	free        bool // there was no lock before the step
}

// The differences on purpose, apart from the two that ignoredKey and leaking stand for.
var (
	leaseLeak = known{
		difference: "an entry without a lease sets the TTL to the watchdog timeout; in Java to the lease of an entry before it, if there " +
			"was one since the lock object's last full or failed release; the same for a release that leaves the lock held",
		reason: "Redisson 4.7.0 keeps the lease in a field of the lock object, which all its threads share (RL-04)",
		shows:  func(c comparison) bool { return c.leaking },
	}
	cutLease = known{
		difference: "a renewal never shortens a lease; in Java it cuts one that is longer to the watchdog timeout, at its next tick",
		reason:     "a renewal that arrives late must not shorten a lease that was given since",
		shows:      func(c comparison) bool { return c.leaking },
	}
	otherTick = known{
		difference: "a lease of 20 s, of a hold with an entry that is renewed, lengthens to 30 s at another moment than in Java; in Java also one " +
			"whose owner had such an entry before, which ended by expiry or by force",
		reason: "Java has one tick for all locks, and finds out by it what has ended; Go renews each a third of its lease after it was armed",
		shows:  func(c comparison) bool { return c.mixed },
	}
	freeFair = known{
		difference: "a release of a fair lock that nobody holds is refused; in Java it succeeds",
		reason:     "a hold that ended is told so, whatever the server's reply is (wire-protocol.md §14)",
		shows: func(c comparison) bool {
			return c.op == opUnlock && strings.Contains(c.kind.name, fair.name) && c.free
		},
	}
	unheard = known{
		difference: "a release without a hold sends nothing; in Java it can publish a message",
		reason:     "a Hold is released once, and whoever has none has nothing to release (RW-13)",
		shows:      func(c comparison) bool { return c.op == opUnlock && c.other.answer == errNotHeld.Error() },
	}
	upgrade = known{
		difference: "a reader that asks for the write side is refused with a reason; in Java it is merely not let in",
		reason:     "waiting would be for ever (RW-05)",
		shows: func(c comparison) bool {
			return c.kind.name == write.name && c.other.answer == errRefused.Error() && c.java.answer == "false"
		},
	}
	downgraded = known{
		difference: "a writer that keeps read holds wakes the waiters when it releases; in Java they sleep until the TTL",
		reason:     "other readers may enter then (wire-protocol.md §6)",
		shows:      func(c comparison) bool { return c.kind.name == write.name && c.op == opUnlock },
	}
	freedByLeaving = known{
		difference: "a waiter that leaves the queue of a free fair lock wakes the next one; in Java that one sleeps on",
		reason:     "the wake-up that the leaving one got would be lost",
		shows:      func(c comparison) bool { return c.op == opGiveUp && strings.Contains(c.kind.name, fair.name) },
	}
	handedOver = known{
		difference: "a release that gives the lock to a waiter of the same process publishes nothing; in Java it publishes",
		reason:     "the lock was at no time free: nobody else could have taken it (config.HandOffLimit)",
		shows: func(c comparison) bool {
			return c.op == opUnlock && c.other.letIn && len(c.other.messages) == 0 && !strings.Contains(c.kind.name, fair.name)
		},
	}
	forgivenRelease = known{
		difference: "a release of a read/write lock that is gone is refused; in Java it succeeds",
		reason:     "Redisson before 3.44 does not look (RW-13)",
		shows: func(c comparison) bool {
			return c.op == opUnlock && (c.kind.name == read.name || c.kind.name == write.name) && c.free && !javaIs(3, 44)
		},
	}
	kindCheck = known{
		difference: "a lock on a name that has one of another kind is refused, told what is there; in Java it waits, or enters beside the holder",
		reason:     "a reader beside the holder of a plain lock is kept out by nothing (RL-20); config.Config.SkipKindCheck leaves it as in Java",
	}
	latchKey = known{
		difference: "Java writes redisson_unlock_latch keys at each release and deletes them right after",
		reason:     "each latch belongs to one request of one client; Go writes one only after a lost answer (wire-protocol.md §1)",
	}
	differences = []known{
		leaseLeak, cutLease, otherTick, freeFair, unheard, upgrade, downgraded, freedByLeaving, handedOver, forgivenRelease, kindCheck, latchKey,
	}
)

func ignoredKey(key string) bool { return strings.HasPrefix(key, "redisson_unlock_latch:") }

// compare says how another run of a program differs from Java's, "" when it does not.
func compare(p program, java, other []trace) string {
	remembers := make(map[string]bool) // Java's lock objects with a lease in their field
	vague := !javaIs(3, 45)            // what a lock object remembers of leases, and until when, was otherwise before
	leaking, free := false, true
	var ghost bool                 // Java may still renew for an owner whose hold ended by expiry or by force, until its next tick
	var watched, leased, long bool // the hold has an entry without a lease, one with a lease, and more time than the watchdog timeout
	for i, s := range p.steps {
		object := strconv.Itoa(s.actor%2) + p.kinds[s.side].name
		if s.op == opTry || s.op == opGiveUp || s.op == opWait {
			entered := java[i].answer == "true" || s.op == opWait
			leaking = leaking || entered && s.lease == 0 && remembers[object]
			remembers[object] = remembers[object] || s.lease > 0 && entered
			watched, leased = watched || ghost || entered && s.lease == 0, leased || entered && s.lease > 0
			if s.lease > 0 && (!entered || s.op == opWait) && p.kinds[s.side].name == spin.name {
				leaking, remembers[object] = true, true // the spin lock's object remembers attempts in vain as well
			}
		}
		if s.op == opUnlock && java[i].answer == errNotHeld.Error() && remembers[object] {
			leaking, remembers[object] = true, false // a release that fails makes the object forget
		}
		long = long || lasts(java[i]) > 30*time.Second || lasts(other[i]) > 30*time.Second
		leaking = leaking || watched && long // Java's next renewal cuts the lease, see cutLease
		leaking = leaking || vague && s.lease > 0
		c := comparison{s, p.kinds[s.side], java[i], other[i], leaking, watched && leased, free}
		if diff := c.diff(); diff != "" {
			return fmt.Sprintf("step %d, %s: %s", i+1, p.describe(s), diff)
		}
		if _, there := java[i].state.Get("<lock>"); !there {
			if s.op == opUnlock {
				remembers[object] = false
			}
			ghost = ghost || watched && (s.op == opExpire || s.op == opForce)
			free, watched, leased, long = true, false, false, false
			leaking = leaking && (vague || strings.Contains(strings.Join(java[i].state.Keys(), " "), "rwlock_timeout"))
		} else {
			free = false
		}
	}
	return ""
}

// lasts is the TTL of the lock after a step.
func lasts(tr trace) time.Duration {
	e, _ := tr.state.Get("<lock>")
	return e.TTL
}

func (c comparison) diff() string {
	tolerance := 3 * time.Second // the runs are apart in time, and a machine can be slow
	switch {
	case leaseLeak.shows(c):
		tolerance = time.Hour
	case otherTick.shows(c):
		tolerance += 10 * time.Second
	}
	answers := freeFair.shows(c) || upgrade.shows(c) || forgivenRelease.shows(c)
	messages := freeFair.shows(c) || unheard.shows(c) || downgraded.shows(c) || freedByLeaving.shows(c) || handedOver.shows(c)
	if c.java.answer != c.other.answer && !answers {
		return fmt.Sprintf("answers %q instead of %q", c.other.answer, c.java.answer)
	}
	if told, want := strings.Join(c.other.messages, ", "), strings.Join(c.java.messages, ", "); told != want && !messages {
		return fmt.Sprintf("has published [%s] instead of [%s]", told, want)
	}
	if diff := c.java.state.Diff(c.other.state, tolerance); diff != "" {
		return diff
	}
	for owner, dies := range c.java.deaths {
		if (dies - c.other.deaths[owner]).Abs() > tolerance {
			return fmt.Sprintf("%s counts as dead in %v instead of %v", owner, c.other.deaths[owner], dies)
		}
	}
	return ""
}
