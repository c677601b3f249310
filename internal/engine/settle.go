package engine

import (
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/redlatch/redlatch/lua"
)

// A request whose answer was lost may have taken effect, or may still do so: it can sit in a socket, a proxy or a frozen server.
// Settling bars it by its latch and reads the owner's count in one script, after which nothing of it is open.
//
// barFor is how long a latch lives. No network holds a command back for so long without the connection being closed.
const barFor = 10 * time.Minute

// settle makes the outcome of a request final and returns the owner's count on the server. When the server can't be asked now it
// becomes a debt. A server that gave no answer in time is not asked in the foreground: the caller has waited for one timeout
// and need not wait for two.
func (e *Engine) settle(t *tenure, latch string, cause error) (count int, settled bool) {
	if !isTimeout(cause) {
		ask := lua.Settle(t.lock.Key, t.lock.latch(latch), t.place.field, barFor)
		count, err := call(e, ask)
		if err != nil && stale(err) {
			count, err = call(e, ask)
		}
		if err == nil {
			return count, true
		}
		if !passing(err) {
			e.warnUnsettled(t, err)
			return 0, false
		}
	}
	e.owe(t, latch)
	return 0, false
}

// debt is a request in doubt that is settled in the background. Whatever the owner holds on the server beyond what this client
// knows of is released then.
type debt struct {
	tenure *tenure
	latch  string
}

func (e *Engine) owe(t *tenure, latch string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.life.Err() != nil {
		return // closed: keys are left to expire
	}
	t.users++
	t.debts++
	e.owing++
	e.debts = append(e.debts, debt{t, latch})
	select {
	case e.debtCame <- struct{}{}:
	default:
	}
}

// settleDebts is the settler's goroutine.
func (e *Engine) settleDebts() {
	pace := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(50*time.Millisecond), backoff.WithMaxInterval(5*time.Second), backoff.WithMaxElapsedTime(0))
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-e.debtCame:
			pace.Reset()
		case <-timer.C:
		case <-e.life.Done():
			return
		}
		if e.settleRound() > 0 {
			timer.Reset(pace.NextBackOff())
		}
	}
}

// settleRound tries all debts once, in one pipeline, and returns how many are left. A tenure that is busy is left for the next
// round: its turn orders the settling before or after what the owner does.
func (e *Engine) settleRound() int {
	e.mu.Lock()
	var due, later []debt
	for _, d := range e.debts {
		if d.tenure.busy {
			later = append(later, d)
			continue
		}
		d.tenure.busy = true
		due = append(due, d)
	}
	e.debts = later
	e.mu.Unlock()
	if len(due) == 0 {
		return len(later)
	}

	calls := make([]lua.Call[int], len(due))
	for i, d := range due {
		calls[i] = lua.Settle(d.tenure.lock.Key, d.tenure.lock.latch(d.latch), d.tenure.place.field, barFor)
	}
	for i, result := range callAll(e, calls) {
		e.settled(due[i], result)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.debts)
}

// settled ends a debt or puts it back. It gives the tenure's turn.
func (e *Engine) settled(d debt, result lua.Result[int]) {
	t := d.tenure
	e.mu.Lock()
	defer e.mu.Unlock()
	defer t.passLocked()
	if result.Err != nil && passing(result.Err) && e.life.Err() == nil {
		e.debts = append(e.debts, d)
		return
	}
	if known := len(t.holds); result.Err == nil && result.Value > known {
		e.mu.Unlock()
		e.giveBack(t)
		e.mu.Lock()
	}
	if result.Err != nil && e.life.Err() == nil {
		e.warnUnsettled(t, result.Err)
	}
	t.debts--
	t.users--
	e.owing--
	e.forgetLocked(t)
	e.stirLocked()
}

func (e *Engine) warnUnsettled(t *tenure, err error) {
	e.log.Warn("a request in doubt can't be settled; if it took effect, its lock expires by its TTL",
		"lock", t.lock.Name, "owner", t.place.field, "error", describe(err))
}
