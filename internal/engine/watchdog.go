package engine

import (
	"container/heap"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redlatch/redlatch/internal/topology"
	"github.com/redlatch/redlatch/lua"
)

// renewal is what the watchdog knows of a tenure.
type renewal struct {
	due      time.Time // when to renew; zero: not
	inFlight bool
	failures int
	lastErr  error // of the last renewal, nil when it succeeded
}

// schedule is a heap of tenures with holds, by the time of their next event: a renewal, or the end of their trust. One heap and
// one timer serve any number of holds.
type schedule []*tenure

func (s schedule) Len() int           { return len(s) }
func (s schedule) Less(i, j int) bool { return s[i].at.Before(s[j].at) }
func (s schedule) Swap(i, j int)      { s[i], s[j] = s[j], s[i]; s[i].index, s[j].index = i, j }
func (s *schedule) Push(x any)        { t := x.(*tenure); t.index = len(*s); *s = append(*s, t) }
func (s *schedule) Pop() any {
	last := len(*s) - 1
	t := (*s)[last]
	(*s)[last], *s = nil, (*s)[:last]
	t.index = -1
	return t
}

// slots has for each slot of a cluster the scheduled tenures whose locks lie in it, one linked to the next. Elsewhere it is nil.
type slots []*tenure

func (s slots) add(t *tenure) {
	if s == nil {
		return
	}
	first := &s[t.lock.slot]
	if t.next = *first; t.next != nil {
		t.next.prev = t
	}
	*first = t
}

func (s slots) remove(t *tenure) {
	switch {
	case s == nil:
		return
	case t.prev != nil:
		t.prev.next = t.next
	default:
		s[t.lock.slot] = t.next
	}
	if t.next != nil {
		t.next.prev = t.prev
	}
	t.next, t.prev = nil, nil
}

// scheduleLocked puts a tenure at the time of its next event, and wakes the watchdog when that is sooner than it would wake.
func (e *Engine) scheduleLocked(t *tenure) {
	if len(t.holds) == 0 {
		return
	}
	t.at = t.trust.until
	if r := t.renewal; !r.inFlight && !r.due.IsZero() && r.due.Before(t.at) {
		t.at = r.due
	}
	if t.index < 0 {
		heap.Push(&e.schedule, t)
		e.slots.add(t)
	} else {
		heap.Fix(&e.schedule, t.index)
	}
	if t.at.Before(e.wakeAt) {
		e.wakeAt = t.at
		stir(e.reschedule)
	}
}

// planLocked sets when the lease that a request sent at sent has armed is to be renewed: when two thirds of the watchdog timeout are left of
// it, so a third of the timeout after the last confirmed renewal; a shorter lease after a third of it. The margin of a very long lease
// is longer than that, so the trust must have a third of the timeout left as well.
func (e *Engine) planLocked(t *tenure, sent time.Time, lease time.Duration) {
	timeout := e.cfg.LockWatchdogTimeout
	t.renewal.due = sent.Add(max(min(lease-timeout*2/3, e.cfg.Trust(lease)-timeout/3), lease/3))
	t.renewal.failures, t.renewal.lastErr = 0, nil
	e.scheduleLocked(t)
}

// renewSoonLocked plans a renewal of which nothing is known but that it is needed.
func (e *Engine) renewSoonLocked(t *tenure) {
	pause := e.cfg.LockWatchdogTimeout / 30 << min(t.renewal.failures, 3)
	t.renewal.due = time.Now().Add(min(pause, e.cfg.LockWatchdogTimeout/6))
	e.scheduleLocked(t)
}

// watchedLocked tells whether any hold of the tenure wants to be renewed now.
func (t *tenure) watchedLocked(now time.Time) bool {
	for _, h := range t.holds {
		if h.watched && (h.renewUntil.IsZero() || now.Before(h.renewUntil)) {
			return true
		}
	}
	return false
}

// watch is the watchdog's goroutine. It never waits for a server: renewals go out beside it, so that a slow one can't keep it from
// telling a holder that its time is over.
func (e *Engine) watch() {
	const idle = time.Hour
	timer := time.NewTimer(idle)
	defer timer.Stop()
	for {
		now := time.Now()
		e.mu.Lock()
		lost, due := e.eventsLocked(now)
		due = e.alongLocked(now, due)
		next := idle
		if len(e.schedule) > 0 {
			next = e.schedule[0].at.Sub(now)
		}
		e.wakeAt = now.Add(next)
		e.mu.Unlock()
		for _, group := range e.byMaster(due) {
			e.workers.Go(func() { e.renewAll(group) })
		}
		e.tell(lost)
		timer.Reset(next)
		select {
		case <-timer.C:
		case <-e.reschedule:
		case <-e.life.Done():
			return
		}
	}
}

// eventsLocked ends the tenures whose time is over and collects those to renew. What is due soon goes along, so that holds
// acquired one after the other share a script.
func (e *Engine) eventsLocked(now time.Time) (lost []*Hold, due []*tenure) {
	soon := now.Add(e.cfg.LockWatchdogTimeout / 60)
	for len(e.schedule) > 0 {
		t := e.schedule[0]
		switch r := &t.renewal; {
		case t.trust.passed(now):
			lost = append(lost, e.loseLocked(t, t.expired())...)
			continue
		case r.inFlight || r.due.IsZero() || r.due.After(soon):
			return lost, due
		case !t.watchedLocked(now):
			r.due = time.Time{}
		default:
			r.inFlight = true
			due = append(due, t)
		}
		e.scheduleLocked(t)
	}
	return lost, due
}

// alongLocked adds to what is due what shares its slots, as far as half of its usual time has passed: there is a script on its way to
// that slot in any case. So holds that were acquired at any time come together, and each slot costs one script in a third of the watchdog
// timeout. Without this, a hundred thousand holds would cost about as many scripts, since only those of one slot can share one.
func (e *Engine) alongLocked(now time.Time, due []*tenure) []*tenure {
	if e.slots == nil {
		return due
	}
	soon := now.Add(e.cfg.LockWatchdogTimeout / 6)
	visited := make(map[group]struct{})
	for _, first := range due {
		g := e.groupOf(first)
		if _, before := visited[g]; before {
			continue
		}
		visited[g] = struct{}{}
		for t := e.slots[g.slot]; t != nil; t = t.next {
			r := &t.renewal
			waits := !r.inFlight && !r.due.IsZero() && r.failures == 0 // after a failure it has a pace of its own
			if waits && r.due.Before(soon) && t.place.kind == g.kind && t.watchedLocked(now) {
				r.inFlight = true
				due = append(due, t)
				e.scheduleLocked(t)
			}
		}
	}
	return due
}

// group is what one script can renew: locks of one kind, and on a cluster of one slot.
type group struct {
	kind string
	slot uint16
}

func (e *Engine) groupOf(t *tenure) group {
	g := group{kind: t.place.kind}
	if e.slots != nil {
		g.slot = t.lock.slot
	}
	return g
}

// renewing is a tenure whose renewal is on its way, and the epoch in which it was sent.
type renewing struct {
	tenure *tenure
	epoch  int
}

// byMaster groups tenures by the server that has them, so that one which is slow or dead keeps only its own.
func (e *Engine) byMaster(tenures []*tenure) map[*topology.Node][]*tenure {
	groups := make(map[*topology.Node][]*tenure)
	for _, t := range tenures {
		n := e.servers.MasterOf(t.lock.slot)
		groups[n] = append(groups[n], t)
	}
	return groups
}

// scriptsAtOnce bounds how many scripts go out in one pipeline, so that the answer to each can come within its timeout, and other requests are
// not behind all of them.
const scriptsAtOnce = 500

// renewAll renews what one server has, in batches of one script each and many batches in one pipeline. What moves to another server comes
// last, since that one may be slow, or dead.
func (e *Engine) renewAll(due []*tenure) {
	var round renewalRound
	moving := e.renewHere(e.batches(e.stillHeld(due)), &round)
	// Some keys of a moving slot are here and some there: one lock at a time is sent, first here.
	e.renewGone(e.renewHere(moving, &round), &round)
	if round.err != nil && e.life.Err() == nil {
		e.log.Warn("locks could not be renewed; tried again while they can be trusted", "locks", round.failed, "error", describe(round.err))
	}
}

// renewalRound is what is told of many renewals at a time.
type renewalRound struct {
	failed int
	err    error // the last one
}

func (r *renewalRound) note(batch []renewing, err error) {
	if err != nil {
		r.failed, r.err = r.failed+len(batch), err
	}
}

// renewHere renews batches on the master that the layout names, and returns the locks of slots that move, each by itself. After the
// connection broke, the rest is not sent: it would only wait for the same answer.
func (e *Engine) renewHere(batches [][]renewing, round *renewalRound) (moving [][]renewing) {
	var broken error
	for some := range slices.Chunk(batches, scriptsAtOnce) {
		sent, results := time.Now(), slices.Repeat([]lua.Result[[]bool]{{Err: broken}}, len(some))
		if broken == nil {
			results = callWithin(e, e.renewalTimeout(), e.renewals(some))
		}
		for i, result := range results {
			switch {
			case topology.Unsettled(result.Err):
				moving = slices.AppendSeq(moving, slices.Chunk(some[i], 1))
				continue
			case result.Err != nil && !isReply(result.Err) && !topology.Elsewhere(result.Err):
				broken = result.Err
			}
			round.note(some[i], e.renewed(some[i], sent, result))
		}
	}
	return moving
}

// renewGone renews locks where they are going, several at a time. When no answer comes from there, the rest are not sent.
func (e *Engine) renewGone(locks [][]renewing, round *renewalRound) {
	const atOnce = 50
	var broken error
	for some := range slices.Chunk(locks, atOnce) {
		sent, results := time.Now(), slices.Repeat([]lua.Result[[]bool]{{Err: broken}}, len(some))
		if broken == nil {
			var all sync.WaitGroup
			for i, renewal := range e.renewals(some) {
				all.Go(func() { results[i].Value, results[i].Err = callOne(e, e.renewalTimeout(), renewal) })
			}
			all.Wait()
		}
		for i, result := range results {
			if result.Err != nil && !isReply(result.Err) {
				broken = result.Err
			}
			round.note(some[i], e.renewed(some[i], sent, result))
		}
	}
}

// renewals are the scripts that renew the batches.
func (e *Engine) renewals(batches [][]renewing) []lua.Call[[]bool] {
	calls := make([]lua.Call[[]bool], len(batches))
	for i, batch := range batches {
		keys, fields := make([]string, len(batch)), make([]string, len(batch))
		for j, r := range batch {
			keys[j], fields[j] = r.tenure.place.key, r.tenure.place.field
		}
		calls[i] = batch[0].tenure.lock.Kind.Renew(keys, fields, e.cfg.LockWatchdogTimeout, e.strict())
	}
	return calls
}

// renewalTimeout is how long a renewal's answer is waited for. With a short watchdog timeout it is less than a command's, so that there
// is time for another try.
func (e *Engine) renewalTimeout() time.Duration {
	return min(e.cfg.Timeout, e.cfg.LockWatchdogTimeout/6)
}

// stillHeld leaves out what was released since it became due: no renewal may be sent after the release.
func (e *Engine) stillHeld(due []*tenure) []renewing {
	e.mu.Lock()
	defer e.mu.Unlock()
	held := make([]renewing, 0, len(due))
	for _, t := range due {
		if len(t.holds) > 0 {
			held = append(held, renewing{t, t.trust.epoch})
		}
	}
	return held
}

// batches groups what one script can renew.
func (e *Engine) batches(due []renewing) [][]renewing {
	groups := make(map[group][]renewing)
	for _, r := range due {
		g := e.groupOf(r.tenure)
		groups[g] = append(groups[g], r)
	}
	var batches [][]renewing
	for _, same := range groups {
		batches = slices.AppendSeq(batches, slices.Chunk(same, e.cfg.LockWatchdogBatchSize))
	}
	return batches
}

// renewed draws the conclusions from the answer to one batch, and returns why it was not renewed.
func (e *Engine) renewed(batch []renewing, sent time.Time, result lua.Result[[]bool]) error {
	if result.Err == nil && len(result.Value) != len(batch) {
		result.Err = fmt.Errorf("the server answered for %d locks instead of %d", len(result.Value), len(batch))
	}
	now := time.Now()
	var lost []*Hold
	var events []Event
	e.mu.Lock()
	for i, r := range batch {
		t := r.tenure
		t.renewal.inFlight = false
		event := Event{Kind: EventRenewed, Lock: t.lock, Owner: t.owner}
		switch {
		case len(t.holds) == 0: // released or lost meanwhile
			continue
		case t.trust.passed(now): // an answer that comes too late changes nothing
			lost = append(lost, e.loseLocked(t, t.expired())...)
			continue
		case result.Err != nil:
			t.renewal.failures++
			t.renewal.lastErr = describe(result.Err)
			event.Kind, event.Err = EventRenewalFailed, t.renewal.lastErr
			e.renewSoonLocked(t)
		case r.epoch != t.trust.epoch || t.trust.open || len(t.debts) > 0:
			// It says nothing about what was armed since, or may still be.
			e.renewSoonLocked(t)
			continue
		case result.Value[i]:
			end := e.trustEnd(sent, e.cfg.LockWatchdogTimeout)
			for i := range t.ends {
				t.ends[i] = latest([]time.Time{t.ends[i], end})
			}
			t.trust.renewed(end)
			e.planLocked(t, sent, e.cfg.LockWatchdogTimeout)
		default:
			lost = append(lost, e.loseLocked(t, errGone)...)
			continue
		}
		events = append(events, event)
	}
	e.mu.Unlock()
	e.tell(lost)
	for _, event := range events {
		e.events.report(event)
	}
	return result.Err
}
