package pubsub

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/redis/rueidis"
)

// Options says how a Hub connects and how long it keeps what nobody waits for.
type Options struct {
	// Connect opens one dedicated connection and returns how to give it back; required. It is called for the first Join
	// and again after each cut, never twice at a time. For rueidis it is client.Dedicate, whose failure to dial may also
	// show only when the connection is used. ctx ends with Close; what an attempt brings after that is closed at once.
	// Whoever opens it, the Hub closes the connection before it calls release, so that nothing subscribed ever returns
	// to a pool.
	Connect func(ctx context.Context) (client rueidis.DedicatedClient, release func(), err error)

	// Sharded subscribes with SSUBSCRIBE instead of SUBSCRIBE (wire-protocol.md §2).
	Sharded bool

	// Linger is how long a subscription outlives its last member, so that a hot lock does not subscribe and unsubscribe
	// in a loop. It may last up to a tenth longer (at most 100 ms), so that many ends share one batch. 0 or less is none.
	Linger time.Duration

	// Logger is told of cuts, refusals and recoveries; nil discards.
	Logger *slog.Logger

	// Retry makes the pauses between connection attempts, and, another one, between attempts to get back a channel that
	// the server dropped. Nil is exponential from 50 ms to 2 s, each up to half shorter or longer, without an end. A
	// schedule that does end starts over after 2 s: as long as anybody waits the Hub does not give up.
	Retry func() backoff.BackOff
}

// Hub is the subscriptions of one process: one for each channel, shared by all who wait for it, over one connection. It
// opens no connection before the first Join. It is safe for concurrent use.
//
// The Hub keeps the table of channels and their members; the link keeps the connection and makes the server follow the
// table.
type Hub struct {
	linger time.Duration
	link   *link

	// mu guards everything below, and the changeable fields of link, channel and Subscription. It is never held over
	// network I/O, a call into rueidis or foreign code: the hooks that take it run on the goroutine that reads the
	// connection.
	mu       sync.Mutex
	channels map[string]*channel
	peak     int // the largest len(channels) since the map was made
	closed   bool
	started  bool
	members  int
}

// Stats is a snapshot for tests and metrics.
type Stats struct {
	Channels   int    // channels in the table, those that only linger included
	Members    int    // Subscriptions of these that have not left
	Confirmed  int    // channels whose subscription the server has confirmed
	Connected  bool   // there is a connection, as far as is known
	Reconnects uint64 // connections opened after the first
}

// New returns a Hub without a connection. It panics when o.Connect is nil.
func New(o Options) *Hub {
	if o.Connect == nil {
		panic("pubsub: Options.Connect is nil; give a function that opens a dedicated connection")
	}
	h := &Hub{linger: max(o.Linger, 0), channels: make(map[string]*channel)}
	h.link = newLink(h, o)
	return h
}

// Join makes the caller a member of the channel's subscription, and has it subscribed if it is not. It never blocks on
// the network. The caller must Leave, whatever becomes of the Subscription.
//
// A channel that others have joined, or that lingers, may be confirmed at once: ask Confirmed before waiting for Wake,
// since what happened before the Join wakes nobody. After Close the Subscription is woken and its Err is ErrClosed.
func (h *Hub) Join(name string) *Subscription { return h.JoinWith(name, make(chan struct{}, 1)) }

// JoinWith is Join with a wake-up channel of the caller's, with room for one, so that several Subscriptions can wake by the same.
func (h *Hub) JoinWith(name string, wake chan struct{}) *Subscription {
	s := &Subscription{hub: h, wake: wake, place: gone}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		s.channel = &channel{name: name, err: ErrClosed}
		s.wakeUp()
		return s
	}
	s.channel = h.channelLocked(name)
	s.channel.members = append(s.channel.members, s)
	s.place = len(s.channel.members) - 1
	h.members++
	if s.place == 0 { // for those who come later everything is on its way
		h.link.settleLocked(s.channel)
	}
	h.startLocked()
	return s
}

// channelLocked finds the channel or enters it into the table.
func (h *Hub) channelLocked(name string) *channel {
	if ch, ok := h.channels[name]; ok {
		return ch
	}
	ch := &channel{name: name}
	h.channels[name] = ch
	h.peak = max(h.peak, len(h.channels))
	return ch
}

// startLocked starts the link's goroutine with the first Join: a Hub that nobody uses has none.
func (h *Hub) startLocked() {
	if !h.started {
		h.started = true
		go h.link.run()
	}
}

// leave ends a membership. A channel that the table no longer has (refused, or the Hub closed) is nobody's any more.
func (h *Hub) leave(s *Subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.place == gone {
		return
	}
	s.channel.removeLocked(s)
	if s.channel.err != nil {
		return
	}
	h.members--
	if len(s.channel.members) == 0 {
		h.link.settleLocked(s.channel)
	}
}

// expelLocked takes a channel out of the table because of err, and tells its members. The next Join of that name begins
// afresh with a channel of its own: a refusal is never remembered.
func (h *Hub) expelLocked(ch *channel, err error) {
	ch.err = err
	ch.wakeLocked()
	h.members -= len(ch.members)
	h.removeLocked(ch)
}

// removeLocked takes a channel out of the table.
func (h *Hub) removeLocked(ch *channel) {
	ch.unlink()
	h.link.setStateLocked(ch, absent)
	delete(h.channels, ch.name)
	// A Go map keeps the room of its largest size; after a storm of names it is given back.
	if len(h.channels) == 0 && h.peak > peakToKeep {
		h.channels, h.peak = make(map[string]*channel), 0
	}
}

// peakToKeep is the size up to which an empty table keeps its memory.
const peakToKeep = 1024

// Stats says what the Hub holds.
func (h *Hub) Stats() Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	return Stats{
		Channels:   len(h.channels),
		Members:    h.members,
		Confirmed:  h.link.confirmed,
		Connected:  h.link.current != nil,
		Reconnects: max(h.link.connects, 1) - 1,
	}
}

// Close ends all subscriptions: every member is woken with ErrClosed, the connection is closed and the Hub's goroutine
// ends before Close returns. It is idempotent. Against a server that is frozen it waits at most 1 s: rueidis then closes
// the connection, or ends its attempt to open one, in its own time.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	for _, ch := range h.channels {
		h.expelLocked(ch, ErrClosed)
	}
	started := h.started
	h.mu.Unlock()

	h.link.cancel()
	if started {
		<-h.link.done
	}
}
