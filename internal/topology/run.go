package topology

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/lua"
)

// maxHops bounds how often one request follows MOVED or ASK.
const maxHops = 5

// Run takes one call to the master that serves its keys, and follows it to where the servers say that the slot is. ctx bounds all of it.
// A call is only sent again when the server that had it ran nothing. One whose error is not [NotSentError] or [ErrNoMaster], nor a
// reply that says so, may have taken effect.
func Run[T any](ctx context.Context, t *Topology, call lua.Call[T]) (T, error) {
	v, _, err := RunBy(ctx, t, call)
	return v, err
}

// RunBy is Run, and gives the node that was asked last.
func RunBy[T any](ctx context.Context, t *Topology, call lua.Call[T]) (v T, by *Node, err error) {
	v, err = along(ctx, t, call.Keys, func(n *Node, asking bool) (T, error) {
		by = n
		return runOn(ctx, n, call, asking)
	})
	return v, by, err
}

// runOn sends a call to one node.
func runOn[T any](ctx context.Context, n *Node, call lua.Call[T], asking bool) (T, error) {
	client, err := n.conn(ctx)
	if err != nil {
		var none T
		return none, err
	}
	if asking {
		return lua.RunAsking(ctx, client, call)
	}
	return lua.Run(ctx, client, call)
}

// along does send on the node of the keys and on those that it is sent to from there.
func along[T any](ctx context.Context, t *Topology, keys []string, send func(n *Node, asking bool) (T, error)) (T, error) {
	n, asking := t.route(keys), false
	for hop := 0; ; hop++ {
		if n == nil {
			t.Stir()
			var none T
			return none, ErrNoMaster
		}
		v, err := send(n, asking)
		if err == nil {
			return v, nil
		}
		next, nextAsking := t.redirected(n, err)
		switch {
		case hop < maxHops && next != nil:
			n, asking = next, nextAsking
		case isTryAgain(err) && sleepWithin(ctx, tryAgainPause(hop)):
			n, asking = t.route(keys), false
		default:
			return v, t.noticed(n, err)
		}
	}
}

// route gives the node of a request's keys; a request without keys goes to any.
func (t *Topology) route(keys []string) *Node {
	if len(keys) == 0 {
		return t.now.Load().master(0)
	}
	return t.Master(keys[0])
}

// redirected gives the node that an answer sends a request to, nil when it does not.
func (t *Topology) redirected(from *Node, err error) (n *Node, asking bool) {
	reply, ok := rueidis.IsRedisErr(err)
	if !ok || t.discover == nil { // who was told of one server is sent to no other; see probeSlots
		return nil, false
	}
	if address, moved := reply.IsMoved(); moved {
		t.Stir()
		return t.node(t.told(from, address), dataRole), false
	}
	if address, ask := reply.IsAsk(); ask {
		return t.node(t.told(from, address), dataRole), true
	}
	return nil, false
}

// told completes an address that a server gave: without a host it means its own.
func (t *Topology) told(from *Node, address string) string {
	if known := t.aliases.Load(); known != nil && (*known)[address] != "" {
		return (*known)[address]
	}
	if host, port, err := net.SplitHostPort(address); err == nil && host == "" {
		own, _, _ := net.SplitHostPort(from.address)
		return net.JoinHostPort(own, port)
	}
	return t.mapped(address)
}

func isTryAgain(err error) bool {
	reply, ok := rueidis.IsRedisErr(err)
	return ok && reply.IsTryAgain()
}

// Unsettled tells that a request's slot is just moving to another node, and that [Run] would follow it.
func Unsettled(err error) bool { return says(err, "ASK") || says(err, "TRYAGAIN") }

// tryAgainPause is the pause while a slot's keys are on their way from one node to the other: some of the request's keys are here, some
// there. That is over as soon as the slot's last key has moved.
func tryAgainPause(hop int) time.Duration {
	return 20 * time.Millisecond << min(hop, 5)
}

// sleepWithin is false when ctx would end before.
func sleepWithin(ctx context.Context, d time.Duration) bool {
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= d {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// noticed looks at a node's failure for what it says of the layout, and returns it.
func (t *Topology) noticed(n *Node, err error) error {
	if errors.Is(err, ErrNotReplicated) {
		return err
	}
	reply, ok := rueidis.IsRedisErr(err)
	if !ok {
		t.Stir()
		if errors.Is(err, rueidis.ErrClosing) && t.life.Err() == nil {
			return errRetired
		}
		return err
	}
	if t.discover == nil && strings.Contains(reply.Error(), "READONLY") {
		select {
		case t.demoted <- n:
		default:
		}
	}
	for _, code := range []string{"READONLY", "MASTERDOWN", "CLUSTERDOWN", "MOVED", "LOADING"} {
		if strings.Contains(reply.Error(), code) {
			t.Stir()
			break
		}
	}
	return err
}

// RunAll takes the calls to their masters, in one pipeline for each of these, side by side. Results stand in the order of the calls.
// What is sent elsewhere by MOVED follows in a further pipeline. ASK and TRYAGAIN are left to the caller, see [Unsettled]: a slot on its
// way must not hold up the others.
func RunAll[T any](ctx context.Context, t *Topology, calls []lua.Call[T]) []lua.Result[T] {
	results := make([]lua.Result[T], len(calls))
	due := make(map[*Node][]int)
	for i, call := range calls {
		n := t.route(call.Keys)
		due[n] = append(due[n], i)
	}
	for hop := 0; len(due) > 0; hop++ {
		r := round[T]{topology: t, calls: calls, results: results, hop: hop, next: make(map[*Node][]int)}
		var all sync.WaitGroup
		for n, of := range due {
			if len(due) == 1 {
				r.send(ctx, n, of)
			} else {
				all.Go(func() { r.send(ctx, n, of) })
			}
		}
		all.Wait()
		due = r.next
	}
	return results
}

// elsewhereError is a failure on a server that another one had sent the request to.
type elsewhereError struct{ error }

func (e *elsewhereError) Unwrap() error { return e.error }

// Elsewhere tells that a failure is not that of the master which the layout names, and says nothing of what else is asked there.
func Elsewhere(err error) bool {
	var away *elsewhereError
	return errors.As(err, &away)
}

// round is one pipeline to each node that has something to do.
type round[T any] struct {
	topology *Topology
	calls    []lua.Call[T]
	results  []lua.Result[T] // each element belongs to the one send that has its call
	hop      int             // 0: the master that the layout names

	mu   sync.Mutex
	next map[*Node][]int // guarded by mu: what was sent elsewhere
}

// send takes some of the calls to one node and looks where those go that it does not serve.
func (r *round[T]) send(ctx context.Context, n *Node, of []int) {
	r.sendTo(ctx, n, of)
	moved := make(map[*Node][]int)
	for _, i := range of {
		result := &r.results[i]
		if result.Err == nil {
			continue
		}
		target, asking := r.topology.redirected(n, result.Err)
		if target == nil || asking || r.hop == maxHops {
			result.Err = r.topology.noticed(n, result.Err)
			if r.hop > 0 {
				result.Err = &elsewhereError{result.Err}
			}
			continue
		}
		moved[target] = append(moved[target], i)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for target, of := range moved {
		r.next[target] = append(r.next[target], of...)
	}
}

func (r *round[T]) sendTo(ctx context.Context, n *Node, of []int) {
	var client rueidis.Client
	err := ErrNoMaster
	if n != nil {
		client, err = n.conn(ctx)
	}
	if err != nil {
		for _, i := range of {
			r.results[i].Err = err
		}
		return
	}
	batch := make([]lua.Call[T], len(of))
	for j, i := range of {
		batch[j] = r.calls[i]
	}
	for j, result := range lua.RunAll(ctx, client, batch) {
		r.results[of[j]] = result
	}
}
