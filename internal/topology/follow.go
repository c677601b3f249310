package topology

import (
	"context"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/redlatch/redlatch/config"
)

const (
	// minGap keeps the follower from asking in a loop, however many requests meet trouble.
	minGap = 50 * time.Millisecond
	// maxGap is how long the pauses become while there is trouble, give or take a half: who waits for a new master waits that much longer.
	maxGap = 400 * time.Millisecond
	// troubleLasts is how long the follower keeps asking at short intervals after the last request that met trouble: a failover
	// takes its time, and those who wait should have the new master as soon as there is one.
	troubleLasts = 20 * time.Second
	// redialGap is how long a server that refuses to write is let be after it was connected to anew first, give or take a half.
	redialGap = time.Second
	// retireAfter is how long a server that nobody names any more keeps its connections.
	retireAfter = 30 * time.Second
)

// Stir tells the follower that the layout may be out of date. It never blocks.
func (t *Topology) Stir() {
	select {
	case t.stirred <- struct{}{}:
	default:
	}
}

// follow is the follower's goroutine. A request that meets trouble makes it ask soon, and then, for a while, again and again; at
// intervals that grow, so that an outage is no storm of questions for those that are well.
func (t *Topology) follow() {
	pace := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(minGap), backoff.WithMaxInterval(maxGap), backoff.WithMaxElapsedTime(0))
	timer := time.NewTimer(t.cfg.ScanInterval)
	defer timer.Stop()
	var trouble time.Time // when a request met some last
	var last error
	for gap := minGap; ; {
		select {
		case <-t.life.Done():
			return
		case <-timer.C:
		case <-t.stirred:
			if time.Since(trouble) > troubleLasts {
				pace.Reset()
				gap = minGap
			}
			trouble = time.Now()
			if !sleepWithin(t.life, gap) {
				return
			}
		}
		changed, err := t.refresh(t.life)
		if t.life.Err() != nil {
			return
		}
		switch {
		case err != nil && last == nil:
			t.log.Warn("cannot find out where the masters are; asked again and again", "error", err)
		case err == nil && last != nil:
			t.log.Info("found out again where the masters are")
		}
		last = err
		if changed {
			pace.Reset()
		}
		gap = pace.NextBackOff()
		next := t.cfg.ScanInterval
		if err != nil || time.Since(trouble) < troubleLasts {
			next = min(next, gap)
		}
		timer.Reset(next)
	}
}

// refresh asks the servers once and puts the layout in force that they tell of.
func (t *Topology) refresh(ctx context.Context) (changed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, t.cfg.ConnectTimeout)
	defer cancel()
	d, err := t.discover(ctx)
	if err != nil {
		return false, err
	}
	next := &layout{slots: d.slots}
	for _, address := range d.masters {
		next.masters = append(next.masters, t.node(address, dataRole))
	}
	before := t.now.Load()
	if changed = !before.same(next); changed {
		t.now.Store(next)
		if len(before.masters) > 0 {
			t.log.Info("the masters are others now", "masters", d.masters)
			t.changed(func(key string) bool {
				slot := config.Slot(key)
				return before.master(slot) != next.master(slot)
			})
		}
		for _, n := range before.masters {
			n.commits.handOver(next)
		}
	}
	t.retire(d.masters)
	return changed, nil
}

// move is a server behind a fixed address that is to be left, and the one that its name leads to now, which has answered.
type move struct{ from, to *Node }

// redial is the follower's goroutine where the address is fixed. A server that refuses to write is connected to anew: the name, or what
// stands at the address, may lead to another one by now. If it goes on to refuse, that is tried more and more seldom. A server that the name
// has left is replaced by the one that it leads to.
func (t *Topology) redial() {
	pace := backoff.NewExponentialBackOff(backoff.WithInitialInterval(redialGap), backoff.WithMaxInterval(4*redialGap), backoff.WithMaxElapsedTime(0))
	var last time.Time
	for {
		var old, heir *Node
		why := "it refuses to write"
		select {
		case <-t.life.Done():
			return
		case old = <-t.demoted:
		case m := <-t.moved:
			old, heir, why = m.from, m.to, "its name leads elsewhere"
		}
		if old != t.Master("") {
			if heir != nil {
				heir.close()
			}
			continue
		}
		if time.Since(last) > troubleLasts {
			pace.Reset()
		}
		last = time.Now()
		t.log.Info("a server is left, and its address connected to anew", "server", old.address, "why", why)
		next := single(t.replace(old, heir))
		t.now.Store(next)
		t.changed(func(string) bool { return true })
		old.commits.handOver(next)
		live := sleepWithin(t.life, pace.NextBackOff())
		old.close() // what was on its way has its answer, and is not in doubt
		if !live {
			return
		}
	}
}

// replace puts another node in the place of one; where there is none yet, one that connects when it is asked.
func (t *Topology) replace(old, heir *Node) *Node {
	t.mu.Lock()
	delete(t.nodes, nodeKey{old.address, old.as})
	if heir != nil {
		t.nodes[nodeKey{old.address, old.as}] = heir
	}
	t.mu.Unlock()
	return t.node(old.address, old.as)
}

// retire closes the connections of servers that nobody has named for a while. Those that the config names stay: where all servers have
// gone and come again under other addresses, these are asked.
func (t *Topology) retire(masters []string) {
	named := slices.Concat(masters, t.seeds(), t.named)
	var gone []*Node
	t.mu.Lock()
	for key, n := range t.nodes {
		switch {
		case slices.Contains(named, key.address):
			n.unseen = time.Time{}
		case n.unseen.IsZero():
			n.unseen = time.Now()
		case time.Since(n.unseen) > retireAfter:
			delete(t.nodes, key)
			gone = append(gone, n)
		}
	}
	t.mu.Unlock()
	closeAll(gone)
}
