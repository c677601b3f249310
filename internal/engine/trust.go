package engine

import "time"

// trust is how long a client may believe that it holds a lock. It is counted from before a request was sent, never from
// its answer, and ends earlier than the TTL on the server can.
//
// Two kinds of requests move a TTL. One arms it anew, also to a shorter time (an entry, a partial release, Extend); a
// tenure's turn lets only one of these be on its way. A renewal only ever lengthens it. Since a renewal can overtake or be
// overtaken by the other kind, its answer counts only when no arming was sent since.
type trust struct {
	until time.Time
	epoch int // number of armings sent
}

// arming is called before a request is sent that sets the TTL to end at end. From now on either time can be true.
func (t *trust) arming(end time.Time) (before time.Time) {
	before = t.until
	t.epoch++
	if !t.until.IsZero() && end.Before(t.until) {
		t.until = end
	}
	return before
}

// armed is called when the server has confirmed.
func (t *trust) armed(end time.Time) { t.until = end }

// unarmed is called when it is sure that the request had no effect and never will.
func (t *trust) unarmed(before time.Time) { t.until = before }

// renewed takes the answer to a renewal; the caller has made sure that no arming was sent since the renewal was.
func (t *trust) renewed(end time.Time) {
	if end.After(t.until) {
		t.until = end
	}
}

func (t *trust) passed(now time.Time) bool { return !t.until.IsZero() && !now.Before(t.until) }
