package pubsub

import (
	"time"
)

// setStateLocked is the only writer of channel.state.
func (l *link) setStateLocked(ch *channel, to state) {
	if ch.state == active {
		l.confirmed--
	}
	if to == active {
		l.confirmed++
	}
	ch.state = to
}

// settleLocked puts a channel where its members and its state on the server call for. Whoever changes one of the two
// calls it; the commands are sent by the link's goroutine. A channel with a command on its way is left alone: the answer
// settles it, so that no second command can overtake the first.
func (l *link) settleLocked(ch *channel) {
	switch {
	case ch.state == asking || ch.state == dropping:
	case ch.wanted() && ch.state == active:
		ch.unlink() // it lingered, or was about to be dropped: that is off, and nothing was sent
	case ch.wanted():
		l.subscribe.push(ch)
		l.stir()
	case ch.state == active:
		l.lingerLocked(ch)
	default:
		l.hub.removeLocked(ch)
	}
}

// lingerLocked begins the wait before a channel without members is undone. The goroutine is stirred only when it would
// sleep past the end: on a hot lock one alarm serves all the joins and leaves of its period.
func (l *link) lingerLocked(ch *channel) {
	if l.hub.linger == 0 {
		l.unsubscribe.push(ch)
		l.stir()
		return
	}
	ch.ends = time.Now().Add(l.hub.linger)
	l.lingering.push(ch)
	if l.alarm.IsZero() || l.alarm.After(ch.ends.Add(l.slack())) {
		l.stir()
	}
}

// slack is by how much a linger may be late, so that the ends of many channels share one batch.
func (l *link) slack() time.Duration { return min(l.hub.linger/10, maxSlack) }

// expireLocked moves what has lingered long enough to the channels to unsubscribe. All linger equally long, so they stand
// in the order of their ends.
func (l *link) expireLocked(now time.Time) {
	for ch := l.lingering.first; ch != nil && !ch.ends.After(now); ch = l.lingering.first {
		l.unsubscribe.push(ch)
	}
}

// requeueLocked lets the deferred channels be tried again.
func (l *link) requeueLocked() {
	for ch := l.deferred.first; ch != nil; ch = l.deferred.first {
		if ch.state == active {
			l.unsubscribe.push(ch)
		} else {
			l.subscribe.push(ch)
		}
	}
}

// deferLocked keeps a channel back until the next pause is over: what failed once may fail at once again.
func (l *link) deferLocked(ch *channel) {
	l.deferred.push(ch)
	l.stir()
}

// subscribed is the server's `subscribe` push: the server has the channel from here on. It is told on the goroutine that
// reads the connection, before any message of that channel.
func (l *link) subscribed(c *conn, name string) {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	ch := l.hub.channels[name]
	if l.current != c || ch == nil || ch.state != asking {
		return
	}
	l.confirmLocked(ch)
}

// confirmLocked makes a channel one that can be relied on.
func (l *link) confirmLocked(ch *channel) {
	l.setStateLocked(ch, active)
	ch.wakeLocked()
	l.settleLocked(ch)
}

// unsubscribed is the server's `unsubscribe` push: the server no longer has the channel. When the UNSUBSCRIBE was ours its
// answer settles the rest. When it was not (the slot moved, a permission was taken away) the channel is cut off: its
// members are woken, and it is sought again after a pause, since the server may drop it again at once.
func (l *link) unsubscribed(c *conn, name string) {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	ch := l.hub.channels[name]
	if l.current != c || ch == nil || ch.state != active {
		return
	}
	l.setStateLocked(ch, absent)
	if !ch.wanted() {
		l.settleLocked(ch)
		return
	}
	ch.wakeLocked()
	l.deferLocked(ch)
}

// message wakes all members. What it says is of no interest, and neither is whether the connection is still the current
// one: a wake too many costs one try.
func (l *link) message(name string) {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	if ch := l.hub.channels[name]; ch != nil {
		ch.wakeLocked()
	}
}

// askedLocked takes the answer to a SUBSCRIBE. When it was good, the push that came before it has confirmed the channel
// already, and the state is no longer asking. It returns the refusal if it was one for good.
func (l *link) askedLocked(ch *channel, err error) error {
	if ch.err != nil || ch.state != asking {
		return nil //nolint:nilerr // that is why the channel has ended, and no answer to this
	}
	l.setStateLocked(ch, absent)
	switch {
	case !ch.wanted():
		l.settleLocked(ch)
	case err == nil || passing(err):
		l.deferLocked(ch)
	default:
		refusal := &RefusedError{Channel: ch.name, Command: l.command(), Err: err}
		l.hub.expelLocked(ch, refusal)
		return refusal
	}
	return nil
}

// droppedLocked takes the answer to an UNSUBSCRIBE. A refusal that passes leaves the subscription in force: whoever has
// joined meanwhile can rely on it again, else it is undone later. Any other refusal is for ever (no permission): the
// channel is forgotten here, its messages are ignored until the connection ends, and the refusal is returned.
func (l *link) droppedLocked(ch *channel, err error) error {
	if ch.err != nil || ch.state != dropping {
		return nil //nolint:nilerr // that is why the channel has ended, and no answer to this
	}
	switch {
	case err != nil && passing(err) && ch.wanted():
		l.confirmLocked(ch)
	case err != nil && passing(err):
		l.setStateLocked(ch, active)
		l.deferLocked(ch)
	default:
		l.setStateLocked(ch, absent)
		l.settleLocked(ch)
		return err
	}
	return nil
}

// adopt makes c the connection whose word counts. It is false after Close.
func (l *link) adopt(c *conn) bool {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	if l.hub.closed {
		return false
	}
	l.current = c
	l.connects++
	return true
}

// cut makes the table say what a lost connection means: the server has nothing. Members are woken, since a message may
// have been lost, and are queued to be subscribed again; what only lingered is forgotten. It returns how many are queued.
func (l *link) cut() int {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	l.current = nil
	for _, ch := range l.hub.channels {
		if ch.state != absent {
			l.setStateLocked(ch, absent)
			ch.wakeLocked()
		}
		l.settleLocked(ch)
	}
	return l.subscribe.size
}
