package pubsub

import "time"

// state is what the server knows of a channel on the current connection. What should be is told by the members: at least
// one, and the channel is wanted.
//
// The server's pushes decide, in the order in which they come: `subscribe` and `unsubscribe` say what the server has
// done, whoever caused it. At most one command for a channel is on its way at any time, so each push has one meaning.
type state uint8

const (
	absent   state = iota // the server does not have it, or there is no connection
	asking                // a SUBSCRIBE for it is on its way
	active                // confirmed: messages arrive
	dropping              // an UNSUBSCRIBE for it is on its way: nobody may rely on it any more
)

// channel is one entry of the Hub's table. All fields but name are guarded by Hub.mu.
type channel struct {
	name    string
	state   state
	members []*Subscription
	err     error     // why the table no longer has it although it has members
	ends    time.Time // while it lingers: when it is to be undone

	in         *list // the list that it stands in, at most one
	prev, next *channel
}

// wanted says that somebody waits for the channel.
func (ch *channel) wanted() bool { return len(ch.members) > 0 }

// wakeLocked wakes all members.
func (ch *channel) wakeLocked() {
	for _, s := range ch.members {
		s.wakeUp()
	}
}

// removeLocked takes a member out; the last one takes its place, since their order has no meaning.
func (ch *channel) removeLocked(s *Subscription) {
	last := len(ch.members) - 1
	moved := ch.members[last]
	ch.members[s.place] = moved
	moved.place = s.place
	ch.members[last] = nil
	ch.members = ch.members[:last]
	s.place = gone
}

// list is a queue of channels from which any can be taken out at once. It is linked through the channels themselves, so
// that 100 000 of them cost no further memory.
type list struct {
	first, last *channel
	size        int
}

// push puts ch at the end, after taking it out of the list that it stands in.
func (l *list) push(ch *channel) {
	ch.unlink()
	ch.in, ch.prev = l, l.last
	if l.last == nil {
		l.first = ch
	} else {
		l.last.next = ch
	}
	l.last = ch
	l.size++
}

// pop takes out up to n channels from the front.
func (l *list) pop(n int) []*channel {
	n = min(n, l.size)
	if n == 0 {
		return nil
	}
	out := make([]*channel, 0, n)
	for len(out) < n {
		ch := l.first
		ch.unlink()
		out = append(out, ch)
	}
	return out
}

// unlink takes ch out of the list that it stands in, if any.
func (ch *channel) unlink() {
	l := ch.in
	if l == nil {
		return
	}
	if ch.prev == nil {
		l.first = ch.next
	} else {
		ch.prev.next = ch.next
	}
	if ch.next == nil {
		l.last = ch.prev
	} else {
		ch.next.prev = ch.prev
	}
	l.size--
	ch.in, ch.prev, ch.next = nil, nil, nil
}
