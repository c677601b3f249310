package engine

import (
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/redlatch/redlatch/internal/topology"
	"github.com/redlatch/redlatch/lua"
)

// A request whose answer was lost may have taken effect, or may still do so: it can sit in a socket, a proxy or a frozen server.
// Settling bars it by its latch and reads the owner's count in one script, after which nothing of it is open. The count
// tells nothing about the lease, so nobody is let in by it: who still wants the lock asks anew.
//
// barFor is how long a latch lives. No network holds a command back for so long without the connection being closed.
const barFor = 10 * time.Minute

// settle makes the outcome of a request final and returns the owner's count on the server. When the server can't be asked now it
// becomes a debt. A server that gave no answer in time is not asked in the foreground: the caller has waited for one timeout
// and need not wait for two. The tenure's turn must be taken.
func (e *Engine) settle(t *tenure, latch string, cause error) (count int, settled bool) {
	if !isTimeout(cause) {
		ask := lua.Settle(t.place.key, t.lock.latch(latch), t.place.field, barFor)
		count, err := call(e, ask)
		if stale(err) {
			count, err = call(e, ask)
		}
		if err == nil {
			return count, true
		}
	}
	e.owe(t, latch)
	return 0, false
}

// debt is a request in doubt that is to be settled. Whatever the owner holds on the server beyond what this client knows of is
// released then.
type debt struct {
	latch string
	// until is when the lease of the request is over at the latest, if it takes effect today: a server that refuses to settle is not
	// asked any longer than that.
	until time.Time
	// stood is for how long the owner counts as alive in a queue where it may stand, though it has left; 0 when it can't.
	stood time.Duration
}

// owe notes a debt. An empty latch stands for no request in particular: the owner's count has to be looked at.
func (e *Engine) owe(t *tenure, latch string) { e.oweFor(t, latch, t.lease, 0) }

func (e *Engine) oweFor(t *tenure, latch string, lease, stood time.Duration) {
	if latch == "" {
		latch = e.latches.next()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(t.debts) == 0 {
		t.users++
		e.debtors[t] = struct{}{}
		e.fresh = append(e.fresh, t)
		stir(e.debtCame)
	}
	lease = max(lease, e.cfg.LockWatchdogTimeout)
	t.debts = append(t.debts, debt{latch, time.Now().Add(max(lease, stood) + e.cfg.Timeout), stood})
}

// paidLocked takes the first n debts off a tenure.
func (e *Engine) paidLocked(t *tenure, n int) {
	t.debts = t.debts[n:]
	if len(t.debts) > 0 || n == 0 {
		return
	}
	t.debts = nil
	t.trust.close()
	t.users--
	delete(e.debtors, t)
	e.forgetLocked(t)
	e.stirLocked()
}

// asks are the requests that settle a tenure's debts. The tenure's turn must be taken.
func (e *Engine) asks(t *tenure) (asks []lua.Call[int], debts []debt) {
	e.mu.Lock()
	debts = append(debts, t.debts...)
	holds := len(t.holds) > 0
	e.mu.Unlock()
	for _, d := range debts {
		if d.stood > 0 && !t.stands && !holds {
			t.stands, t.wait = true, d.stood
		}
		asks = append(asks, lua.Settle(t.place.key, t.lock.latch(d.latch), t.place.field, barFor))
	}
	return asks, debts
}

// payDebts settles what is in doubt of a tenure before anything is built upon it. The tenure's turn must be taken.
func (e *Engine) payDebts(t *tenure) error {
	asks, debts := e.asks(t)
	if len(asks) == 0 {
		return nil
	}
	results := callAll(e, asks)
	for _, r := range results {
		if r.Err != nil {
			return r.Err
		}
	}
	e.mu.Lock()
	count := results[len(results)-1].Value
	extra := count > len(t.holds)
	lost := e.provenLocked(t, count)
	e.paidLocked(t, len(debts))
	e.mu.Unlock()
	e.tell(lost)
	if extra {
		return e.correct(t)
	}
	return nil
}

// provenLocked ends the holds of an owner of whom the server knows nothing any more, while nothing of it is open.
func (e *Engine) provenLocked(t *tenure, count int) []*Hold {
	if count > 0 || len(t.holds) == 0 {
		return nil
	}
	return e.loseLocked(t, errGone)
}

// settleDebts is the goroutine that has debts settled: by one settler for each master that has debtors, so that a master which is slow or
// dead keeps only its own.
func (e *Engine) settleDebts() {
	const lookAgain = time.Second // a debtor's slot can have moved meanwhile
	timer, armed := time.NewTimer(lookAgain), true
	defer timer.Stop()
	settlers := make(map[*topology.Node]chan struct{}) // those at work, by what tells them of a new debt
	ended := make(chan *topology.Node)
	for {
		fresh := false
		select {
		case <-e.debtCame:
			fresh = true
		case n := <-ended:
			delete(settlers, n)
		case <-e.nextLayout():
		case <-timer.C:
			armed = false
		case <-e.life.Done():
			return
		}
		masters, owing := e.creditors(fresh)
		for n := range masters {
			if wake, working := settlers[n]; working {
				if fresh {
					stir(wake)
				}
				continue
			}
			wake := make(chan struct{}, 1)
			settlers[n] = wake
			e.workers.Go(func() {
				e.settleOn(n, wake)
				select {
				case ended <- n:
				case <-e.life.Done():
				}
			})
		}
		if owing && !armed { // a stream of new debts does not put it off
			armed = true
			timer.Reset(lookAgain)
		}
	}
}

// creditors are the masters that have debtors, or only those of the debtors that are new since the last time; nil stands for one that nobody
// knows at present. owing says that there are any debtors.
func (e *Engine) creditors(newOnly bool) (masters map[*topology.Node]bool, owing bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	masters = make(map[*topology.Node]bool)
	if newOnly {
		for _, t := range e.fresh {
			masters[e.servers.MasterOf(t.lock.slot)] = true
		}
		e.fresh = nil
		return masters, len(e.debtors) > 0
	}
	for t := range e.debtors {
		masters[e.servers.MasterOf(t.lock.slot)] = true
	}
	return masters, len(e.debtors) > 0
}

// settleOn is the settler of one master: it tries again and again, until there are no debtors of that master any more.
func (e *Engine) settleOn(n *topology.Node, wake <-chan struct{}) {
	rounds := newRounds()
	defer rounds.due.Stop()
	for {
		select {
		case <-rounds.due.C:
			before, left := e.settleRound(n)
			if left == 0 {
				return
			}
			rounds.again(left < before)
		case <-wake:
			rounds.hurry()
		case <-e.life.Done():
			return
		}
	}
}

// rounds paces a settler: a server that can't settle is asked more and more seldom.
type rounds struct {
	pace *backoff.ExponentialBackOff
	due  *time.Timer // of the next round; the first one is due at once
	at   time.Time   // when it fires
}

func newRounds() *rounds {
	return &rounds{
		pace: backoff.NewExponentialBackOff(
			backoff.WithInitialInterval(50*time.Millisecond), backoff.WithMaxInterval(5*time.Second), backoff.WithMaxElapsedTime(0)),
		due: time.NewTimer(0), at: time.Now(),
	}
}

// again plans the next round after one that got something done, or nothing.
func (r *rounds) again(better bool) {
	if better {
		r.pace.Reset()
	}
	r.plan(r.pace.NextBackOff())
}

// hurry is for a new debtor, who does not wait for the others' pace, but for the shortest pause: a broken server is not asked in a loop. A
// round that comes sooner is not put off, or a stream of debts would keep it from ever coming.
func (r *rounds) hurry() {
	r.pace.Reset()
	if pause := r.pace.NextBackOff(); time.Now().Add(pause).Before(r.at) {
		r.plan(pause)
	}
}

func (r *rounds) plan(pause time.Duration) {
	r.at = time.Now().Add(pause)
	r.due.Reset(pause)
}

// settleRound tries to pay all debts on one master once, and returns how many tenures had some and how many have some left. A tenure that is
// busy is left for the next round: its turn orders the settling before or after what the owner does.
func (e *Engine) settleRound(n *topology.Node) (before, left int) {
	due := e.debtorsOf(n)
	for some := range slices.Chunk(due, scriptsAtOnce) {
		idle := e.takeIdle(some)
		answered := e.settleGroup(idle)
		e.mu.Lock()
		for _, t := range idle {
			t.users--
			e.forgetLocked(t)
		}
		e.mu.Unlock()
		if !answered {
			break // nor will the rest be answered
		}
	}
	return len(due), len(e.debtorsOf(n))
}

func (e *Engine) debtorsOf(n *topology.Node) []*tenure {
	e.mu.Lock()
	defer e.mu.Unlock()
	var debtors []*tenure
	for t := range e.debtors {
		if e.servers.MasterOf(t.lock.slot) == n {
			debtors = append(debtors, t)
		}
	}
	return debtors
}

// takeIdle takes the turns of those who are not busy.
func (e *Engine) takeIdle(tenures []*tenure) []*tenure {
	e.mu.Lock()
	defer e.mu.Unlock()
	var idle []*tenure
	for _, t := range tenures {
		if !t.busy && len(t.debts) > 0 {
			t.busy = true
			t.users++
			idle = append(idle, t)
		}
	}
	return idle
}

// settleGroup tries to pay the debts of tenures whose turns are taken, all on one server, and gives the turns. It tells whether the server has
// answered to anything, or nothing was asked.
func (e *Engine) settleGroup(due []*tenure) (answered bool) {
	var all []lua.Call[int]
	debts := make([][]debt, len(due))
	for i, t := range due {
		var asks []lua.Call[int]
		asks, debts[i] = e.asks(t)
		all = append(all, asks...)
	}
	results := callAll(e, all)
	answered = len(all) == 0 || slices.ContainsFunc(results, func(r lua.Result[int]) bool { return r.Err == nil || isReply(r.Err) })
	var extra, rest []*tenure
	for i, t := range due {
		own := results[:len(debts[i])]
		results = results[len(own):]
		if e.pay(t, debts[i], own) {
			extra = append(extra, t)
		} else {
			rest = append(rest, t)
		}
	}
	e.leaveQueues(rest)
	e.correctAll(extra)
	return answered
}

// pay draws the conclusions from the answers to a tenure's debts. It returns true when the owner is to be released on the server. The
// last debt stays until that is confirmed, or until the owner has left the queue that it stands in.
func (e *Engine) pay(t *tenure, debts []debt, answers []lua.Result[int]) (extra bool) {
	var refusal error
	var lost []*Hold
	paid := 0
	e.mu.Lock()
	for i, d := range debts {
		err := answers[i].Err
		if err != nil && (passing(err) || time.Now().Before(d.until)) {
			break
		}
		paid++
		if err != nil {
			refusal = err
			continue
		}
		extra = answers[i].Value > len(t.holds)
		if paid == len(debts) {
			lost = e.provenLocked(t, answers[i].Value)
		}
	}
	all := paid == len(debts)
	extra = extra && all
	if all && (extra || t.mustLeaveLocked()) {
		paid--
	}
	e.paidLocked(t, paid)
	e.mu.Unlock()
	e.tell(lost)
	if refusal != nil {
		e.log.Warn("a request in doubt could not be settled; if it took effect, its lock has expired by now",
			"lock", t.lock.Name, "owner", t.place.field, "error", describe(refusal))
	}
	return extra
}

// correctAll releases on the server what the owners do not hold here, and gives their turns. Those who hold nothing go in one pipeline;
// a count that is too high for the others is so rare that each takes the careful way.
func (e *Engine) correctAll(tenures []*tenure) {
	var calls []lua.Call[lua.Release]
	var of []*tenure
	var latches []string
	for _, t := range tenures {
		if t.count() == 0 {
			latch := e.latches.next()
			latches = append(latches, latch)
			calls, of = append(calls, t.lock.Kind.Release(t.target(latch, t.lease), 0)), append(of, t)
			continue
		}
		e.mu.Lock()
		e.paidLocked(t, 1)
		e.mu.Unlock()
		_ = e.correct(t)
		t.give()
	}
	for i, result := range callAll(e, calls) {
		if result.Err != nil && !ranNothing(result.Err) {
			e.owe(of[i], latches[i])
		}
		e.mu.Lock()
		if result.Err == nil {
			e.paidLocked(of[i], 1)
		}
		of[i].passLocked()
		e.mu.Unlock()
	}
}

// leaveQueues takes those who neither hold nor wait out of the queues in Redis, where nothing else of theirs is in doubt, and gives the
// turns of all.
func (e *Engine) leaveQueues(tenures []*tenure) {
	var calls []lua.Call[bool]
	var of []*tenure
	for _, t := range tenures {
		e.mu.Lock()
		settled := len(t.debts) == 1
		e.mu.Unlock()
		if leave, due := e.leaving(t); due && settled {
			calls, of = append(calls, leave), append(of, t)
		}
	}
	for i, result := range callAll(e, calls) {
		if result.Err == nil || !passing(result.Err) {
			of[i].stands = false
			e.mu.Lock()
			e.paidLocked(of[i], 1)
			e.mu.Unlock()
		}
	}
	for _, t := range tenures {
		t.give()
	}
}
