package topology

import (
	"errors"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/pubsub"
)

// Verbs are the commands that publish a message, in one word of a script's arguments (wire-protocol.md §2).
func (t *Topology) Verbs() string {
	switch {
	case t.sharded && t.cfg.PlainAndSharded:
		return "SPUBLISH PUBLISH"
	case t.sharded:
		return "SPUBLISH"
	default:
		return "PUBLISH"
	}
}

// Subscription is a waiter's membership of a channel, on the node that serves the channel's slot. It is for one goroutine, but for Wake.
type Subscription struct {
	topology *Topology
	channel  string
	node     *Node // nil: nobody served the slot
	wake     chan struct{}
	parts    []*pubsub.Subscription // one, or two where messages come both ways
}

// Join makes the caller a member of the channel's subscription. It does not block on the network. The caller must Leave.
func (t *Topology) Join(channel string) *Subscription {
	s := &Subscription{topology: t, channel: channel, node: t.Master(channel), wake: make(chan struct{}, 1)}
	if s.node == nil {
		t.Stir()
		return s
	}
	ways := []bool{t.sharded}
	if t.sharded && t.cfg.PlainAndSharded {
		ways = append(ways, false)
	}
	for _, sharded := range ways {
		if hub := s.node.hub(sharded); hub != nil {
			s.parts = append(s.parts, hub.JoinWith(channel, s.wake))
		}
	}
	return s
}

// Wake receives when there may be something to try for; see pubsub.Subscription.
func (s *Subscription) Wake() <-chan struct{} { return s.wake }

// Confirmed tells whether the server has confirmed all of it.
func (s *Subscription) Confirmed() bool {
	for _, part := range s.parts {
		if !part.Confirmed() {
			return false
		}
	}
	return len(s.parts) > 0
}

// Err is why the subscription will not come to be. That its slot is served elsewhere is no error: see Stale.
func (s *Subscription) Err() error {
	for _, part := range s.parts {
		if err := part.Err(); err != nil && !s.elsewhere(err) {
			return err
		}
	}
	return nil
}

// Stale tells that the channel is to be joined anew: its slot has another master, or the node says so, or was given up.
func (s *Subscription) Stale() bool {
	return len(s.parts) == 0 || s.node != s.topology.Master(s.channel) || s.Misled()
}

// Misled tells that the node which should serve the channel says that another one does.
func (s *Subscription) Misled() bool {
	for _, part := range s.parts {
		if s.elsewhere(part.Err()) {
			s.topology.Stir()
			return true
		}
	}
	return false
}

// elsewhere tells of a refusal that says that the slot, or the topology, has moved on.
func (s *Subscription) elsewhere(err error) bool {
	var reply *rueidis.RedisError
	if errors.As(err, &reply) {
		_, moved := reply.IsMoved()
		return moved
	}
	return errors.Is(err, pubsub.ErrClosed) && s.topology.life.Err() == nil
}

// Leave ends the membership. It is idempotent.
func (s *Subscription) Leave() {
	for _, part := range s.parts {
		part.Leave()
	}
}
