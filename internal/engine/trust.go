package engine

import "time"

// trust is how long a client may believe that it holds a lock. It is counted from before a request was sent, never from
// its answer, and ends earlier than the TTL on the server can.
//
// Two sorts of requests move a TTL. One arms it, also with a shorter time: an entry, a partial release, Extend. A tenure's turn lets
// only one of these be on its way. A renewal only ever lengthens it, and can overtake an arming or be overtaken. So a renewal's
// answer counts only when no arming was begun or ended since the renewal was sent: when the epoch is the same and nothing is open.
type trust struct {
	until time.Time // zero: there is nothing to trust
	epoch int
	open  bool // an arming is on its way, or in doubt
}

// begin is called before an arming is sent that ends the lease at end: from now on, either end can be the true one.
func (t *trust) begin(end time.Time) (before time.Time) {
	before = t.until
	t.limit(end)
	t.open = true
	return before
}

// limit lowers the trust to an end that something else has set.
func (t *trust) limit(end time.Time) {
	t.epoch++
	if !t.until.IsZero() && end.Before(t.until) {
		t.until = end
	}
}

// close is called when an arming can't take effect any more of which nobody knows whether it did: the earlier end stays.
func (t *trust) close() { t.epoch++; t.open = false }

// confirm is called when the server has answered that it took effect.
func (t *trust) confirm(end time.Time) { t.close(); t.until = end }

// undo is called when it is sure that the arming had no effect and never will.
func (t *trust) undo(before time.Time) { t.close(); t.until = before }

// renewed takes the answer to a renewal that was sent in this epoch.
func (t *trust) renewed(end time.Time) {
	if end.After(t.until) {
		t.until = end
	}
}

func (t *trust) passed(now time.Time) bool { return !t.until.IsZero() && !now.Before(t.until) }
