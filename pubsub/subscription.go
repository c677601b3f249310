package pubsub

// Subscription is one waiter's membership of a channel. It is safe for concurrent use.
//
// Each message wakes every Subscription of its channel: which of them may compete for the lock is a matter of those who
// wait (of one process only one does), and the Hub cannot know who is still interested.
type Subscription struct {
	hub     *Hub
	channel *channel
	wake    chan struct{}
	place   int // in channel.members, gone after Leave; guarded by hub.mu
}

// gone is the place of a Subscription that is not a member.
const gone = -1

// Wake receives whenever there may be something to try for: a message on the channel, the server's confirmation of the
// subscription, its refusal, a cut of the connection, the confirmation after it, Close. It has room for one; what happens
// before it is received is merged. That loses nothing, as long as the waiter asks Redis again after each receive.
// It is never closed, and quiet after Leave.
func (s *Subscription) Wake() <-chan struct{} { return s.wake }

// Confirmed says that the server has confirmed the subscription and that the connection has not been cut since, as far
// as is known: a message published from now on wakes this Subscription, or a cut does. It is false after Leave.
func (s *Subscription) Confirmed() bool {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return s.place != gone && s.channel.state == active
}

// Err is nil while the subscription stands or is being sought. It is a *RefusedError when the server refused the channel,
// and ErrClosed after Hub.Close; neither ever goes away, Leave and Join again to try afresh. A lost connection is not an
// error: it is sought again for as long as there are members.
func (s *Subscription) Err() error {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return s.channel.err
}

// Leave ends the membership. With the last member the subscription begins to linger and is then undone on the server. It
// does not block on the network and is idempotent.
func (s *Subscription) Leave() { s.hub.leave(s) }

// wakeUp latches one wake-up. It never blocks: a waiter that has not taken the last one will see both at once.
func (s *Subscription) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
