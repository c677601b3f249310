// Package pubsub lets all waiters of a process share one subscription per channel, and all channels one connection.
//
// # Overview
//
// A waiter joins the channel of its lock, and leaves it. The first member of a channel has it subscribed, the others share
// that; after the last one it lingers for a while and is then unsubscribed on the server. Members are told by a wake-up:
// a channel with room for one, in which any number of events merge.
//
// Wake-ups carry no truth. A waiter that was woken asks Redis again, and one that was not still has its fallback: the TTL
// and a slow poll. The order that loses nothing is
//
//	try → Join → until Confirmed: wait for Wake → try → wait for Wake → try → … → Leave
//
// since a release before the confirmation is seen by the second try, and one after it wakes. Each event wakes: a message
// (`0` and `1` alike, wire-protocol.md §1), the confirmation, a refusal, a cut, the confirmation after it, Close. What was
// before the Join does not: ask Confirmed before the first wait.
//
// A Hub has the table of channels and their members. A link has the connection: one goroutine compares what the table
// wants with what the server has said it has, and sends the difference, in pipelined batches of one command for each
// channel. There is no goroutine and no timer for a channel, and none that wakes while nothing happens.
//
// # What is guaranteed
//
//   - Once a Subscription is Confirmed, a message published after that wakes it; if the message is lost with the
//     connection, the cut wakes it, when it is noticed. A confirmation is never remembered over a cut.
//   - Nobody relies on a subscription that is being undone. Whoever joins before the UNSUBSCRIBE is decided on keeps the
//     old subscription and nothing is sent; whoever joins after that is Confirmed by a new one.
//   - Each message wakes every Subscription of its channel.
//   - Join, Leave, Confirmed and Err never wait for the network.
//   - When the last member has left and the linger is over, neither the server nor the table has the channel any more.
//   - A name that was refused, or never confirmed, leaves nothing behind when its members have left.
//
// # What is not guaranteed
//
//   - A wake-up for each message. They merge, and some come without a message.
//   - That Confirmed is true at this moment on the server. A dead connection is noticed by its end, or by rueidis's ping
//     (its KeepAlive plus ConnWriteTimeout), whichever is first; until then messages are lost, and the poll must do.
//   - Order among channels, or among the members of one.
//   - That an unsubscribed channel is gone at once: a server that is not well is left alone (see below), and a user without
//     permission to UNSUBSCRIBE keeps subscriptions until the connection ends. Their messages are ignored.
//
// # Failure handling
//
// Connection cut, or an answer that does not come within 10 s (2 s for UNSUBSCRIBE): all members are woken at once and
// nobody is Confirmed; what only lingered is forgotten. While anybody waits, connecting is tried again with back-off
// (Options.Retry), else with the next Join. Then everything is subscribed again, and each member woken when its channel is
// confirmed.
//
// Channel dropped by the server (its slot moved, for sharded channels): as a cut, of that channel alone. It is asked for
// again with back-off, so that a server that drops it at once does not make the Hub spin.
//
// Channel refused: LOADING, BUSY, CLUSTERDOWN, MASTERDOWN and TRYAGAIN pass, so it is asked for again, with back-off. Anything
// else (NOPERM, MOVED, a server that does not know the command) is the Err of those who are members now, and nobody
// else's: the next Join asks afresh.
//
// Server busy with a long script, or unable to write to its disk: UNSUBSCRIBE waits until it is well. rueidis 1.0.79 panics
// when it sends that command to a server in such a state, so the server is asked first. The user therefore needs +ping, and
// the pub/sub commands: +subscribe +unsubscribe, or +ssubscribe +sunsubscribe, and the channels (&redisson_* for Redisson's).
//
// Server frozen: Close waits at most 1 s for what rueidis cannot be made to give up.
package pubsub
