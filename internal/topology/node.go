package topology

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/pubsub"
)

// Node is one server and the connections to it, which are made when they are needed first.
type Node struct {
	address string
	as      role
	dial    func(life context.Context) (rueidis.Client, error)
	keep    bool // the connection is somebody else's and stays open
	commits *committer
	newHub  func(n *Node, sharded bool) *pubsub.Hub

	life context.Context // ends with close
	end  context.CancelFunc

	unseen time.Time // since when no server names it any more; zero: one does. Guarded by Topology.mu

	// mu guards the rest. It is never held while connecting.
	mu     sync.Mutex
	hubs   [2]*pubsub.Hub // for plain and for sharded channels; nil until somebody waits
	client rueidis.Client
	making chan struct{} // closed when the attempt to connect that is on its way has ended; nil when there is none
	failed error         // how that attempt ended
	closed bool
}

// NotSentError says that a request never left: there was no connection, or none that the server let in.
type NotSentError struct {
	Address  string
	Sentinel bool // it was asked as a sentinel, which has a log-in of its own
	Err      error
}

func (e *NotSentError) Error() string { return fmt.Sprintf("connect to %s: %v", e.Address, e.Err) }

// Unwrap is what the network or the server said.
func (e *NotSentError) Unwrap() error { return e.Err }

func (n *Node) notSent(err error) error { return &NotSentError{n.address, n.as == sentinelRole, err} }

// conn gives the connection for requests, and makes it where there is none. ctx bounds the wait and not the connecting, which others may
// wait for too; that has ConnectTimeout.
func (n *Node) conn(ctx context.Context) (rueidis.Client, error) {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return nil, n.notSent(errRetired)
	}
	if n.client != nil {
		defer n.mu.Unlock()
		return n.client, nil
	}
	if ctx.Err() != nil {
		n.mu.Unlock()
		return nil, n.notSent(EndOf(ctx))
	}
	if n.making == nil {
		n.making = make(chan struct{})
		go n.connect(n.making)
	}
	made := n.making
	n.mu.Unlock()
	select {
	case <-made:
	case <-ctx.Done():
		return nil, n.notSent(EndOf(ctx))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.client != nil:
		return n.client, nil
	case n.closed:
		return nil, n.notSent(errRetired)
	default:
		return nil, n.notSent(n.failed)
	}
}

func (n *Node) connect(made chan struct{}) {
	client, err := n.dial(n.life)
	n.mu.Lock()
	late := n.closed
	if !late {
		n.client = client
	}
	n.failed, n.making = err, nil
	n.mu.Unlock()
	if late && client != nil && !n.keep {
		client.Close()
	}
	close(made)
}

// dedicate opens a connection of its own, for messages or for commits.
func (n *Node) dedicate(ctx context.Context) (rueidis.DedicatedClient, func(), error) {
	client, err := n.conn(ctx)
	if err != nil {
		return nil, nil, err
	}
	dedicated, release := client.Dedicate()
	return dedicated, release, nil
}

// hub gives the node's subscriptions, of plain or of sharded channels; nil when the node was given up.
func (n *Node) hub(sharded bool) *pubsub.Hub {
	n.mu.Lock()
	defer n.mu.Unlock()
	which := 0
	if sharded {
		which = 1
	}
	if n.hubs[which] == nil && !n.closed {
		n.hubs[which] = n.newHub(n, sharded)
	}
	return n.hubs[which]
}

// close ends the node's connections. An attempt to connect ends with it.
func (n *Node) close() {
	n.mu.Lock()
	n.closed = true
	client, making, hubs := n.client, n.making, n.hubs
	n.client = nil
	n.mu.Unlock()
	for _, hub := range hubs { // before the connections end, which they would tell of as lost
		if hub != nil {
			hub.Close()
		}
	}
	n.end()
	n.commits.close()
	if making != nil {
		<-making
	}
	if client != nil && !n.keep {
		client.Close()
	}
}

// errRetired: the server is no part of the topology any more.
var errRetired = errors.New("the server has left")

// EndOf gives the end of a context as an error that both names it and carries its cause.
func EndOf(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || errors.Is(cause, err) {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}
