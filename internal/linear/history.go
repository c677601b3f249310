package linear

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// The ways in which Check can end badly.
var (
	// ErrImpossible says that no lock of the model can have given these answers.
	ErrImpossible = errors.New("no order of the calls explains their answers")
	// ErrUndecided says that the time for looking was too short.
	ErrUndecided = errors.New("not decided in time; record fewer calls, or fewer that overlap")
	// ErrUnusable says that what was recorded is no history.
	ErrUnusable = errors.New("the history can't be judged")
)

// History is a record of the calls to one lock, by all its owners. The zero History is empty. It is safe for concurrent use.
type History struct {
	mu    sync.Mutex
	calls []porcupine.Operation // guarded by mu
}

// Add records a call that has ended. began is the wall clock before it, ended after it, in whichever process made the call.
func (h *History) Add(c Call, a Answer, began, ended time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, porcupine.Operation{
		ClientId: c.Owner, Input: c, Output: a,
		Call:   began.UnixMicro(),
		Return: ended.UnixMicro() + 1, // the part of a microsecond that is cut off must not make the call end too early
	})
}

// Len is the number of calls recorded.
func (h *History) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.calls)
}

// Check judges what was recorded so far, and looks for an order no longer than limit (0: without limit). It returns nil when there is one,
// ErrImpossible with the place at which the best attempt ends, ErrUndecided, or ErrUnusable with the reason.
func (h *History) Check(m Model, limit time.Duration) error {
	h.mu.Lock()
	calls := slices.Clone(h.calls)
	h.mu.Unlock()
	var telling []porcupine.Operation
	for _, op := range calls {
		c, a := op.Input.(Call), op.Output.(Answer)
		if c.Act != Acquire || c.Wait == 0 || a.OK {
			telling = append(telling, op) // a refusal after a wait is right anywhere, and would only multiply the orders
		}
		if c.Owner < 0 || c.Owner >= MaxOwners {
			return fmt.Errorf("%w: the owner %d is outside 0…%d", ErrUnusable, c.Owner, MaxOwners-1)
		}
		if op.Return < op.Call {
			return fmt.Errorf("%w: %q ended %d µs before it began; was the clock set back?", ErrUnusable, describe(c, a), op.Call-op.Return)
		}
	}
	switch porcupine.CheckOperationsTimeout(m.checked, telling, limit) {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return fmt.Errorf("%w: %d calls", ErrUndecided, len(calls))
	}
	// To remember the best attempt makes the search several times slower, so only now.
	_, info := porcupine.CheckOperationsVerbose(m.checked, telling, limit)
	return fmt.Errorf("%w:\n%s", ErrImpossible, explain(m, telling, info.PartialLinearizationsOperations()[0]))
}

// shown is how many calls before the dead end are shown; all come from there.
const shown = 12

// explain shows where the longest of the orders that were tried ends, and which calls would have to come next.
func explain(m Model, calls []porcupine.Operation, tried [][]porcupine.Operation) string {
	var best []porcupine.Operation
	for _, order := range tried {
		if len(order) > len(best) {
			best = order
		}
	}
	state := m.checked.Init()
	for _, op := range best {
		_, state = m.checked.Step(state, op.Input, op.Output)
	}
	start := slices.MinFunc(calls, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) }).Call
	var b strings.Builder
	line := func(op porcupine.Operation) {
		fmt.Fprintf(&b, "  %9.3f … %9.3f ms  %s\n", float64(op.Call-start)/1000, float64(op.Return-start)/1000,
			describe(op.Input.(Call), op.Output.(Answer)))
	}
	fmt.Fprintf(&b, "%d of %d calls can be put in order, the last of them\n", len(best), len(calls))
	for _, op := range best[max(0, len(best)-shown):] {
		line(op)
	}
	fmt.Fprintf(&b, "then: %s; none of these can come next\n", m.checked.DescribeState(state))
	for _, op := range next(calls, best) {
		line(op)
	}
	return b.String()
}

// next are the calls that are not in the order and began before any other of those had ended.
func next(calls, order []porcupine.Operation) (list []porcupine.Operation) {
	for _, op := range calls {
		if !slices.Contains(order, op) {
			list = append(list, op)
		}
	}
	if len(list) == 0 {
		return nil
	}
	end := slices.MinFunc(list, func(a, b porcupine.Operation) int { return int(a.Return - b.Return) }).Return
	return slices.DeleteFunc(list, func(op porcupine.Operation) bool { return op.Call > end })
}
