package topology

import (
	"time"

	"github.com/redlatch/redlatch/config"
)

const (
	// askSoon is how long a write may wait for a grant whose WAIT tells of it too, before the replicas are asked for it alone.
	askSoon = 100 * time.Millisecond
	// askAgain is the same after replicas have not acknowledged it.
	askAgain = time.Second
)

// unsure is a write that the replicas may not have yet.
type unsure struct {
	mark  string    // a key beside what was written, see [committer.pipeline]
	until time.Time // when it does not matter any more
	lost  func()
}

// knowledge is what has been found out about such writes.
type knowledge int

const (
	open   knowledge = iota // nothing: to be asked again
	copied                  // as many replicas have them as a grant needs
	moved                   // the slot of the last one has gone to another node, as it was; of the others nothing
	gone                    // the server has died, or is no master any more: the next one may not have them
)

// Outlast watches over a write that this node has just answered and that a failover must not take back. lost is called, once, when the node
// dies or is replaced before replicas have the write; the next master may not know of it. It is not called when that happens after
// until, nor where there are no replicas. It must not block. Nobody waits for all this: the replicas are asked by the WAIT of the next
// grant, or a moment later for themselves, by means of mark, a key of the same slot that nobody needs.
func (n *Node) Outlast(mark string, until time.Time, lost func()) {
	if n.commits.alone() {
		return
	}
	if !n.commits.watch(unsure{mark, until, lost}) {
		lost()
	}
}

// watch is false when the node was given up.
func (c *committer) watch(u unsure) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.unsure = append(c.unsure, u)
	c.planLocked()
	return true
}

// planLocked has the replicas asked in a while, unless that is planned, or somebody is at work who plans it at the end.
func (c *committer) planLocked() {
	if c.planned != nil || c.working || c.closed || len(c.unsure) == 0 {
		return
	}
	pause := askSoon
	if c.silence {
		pause = askAgain
	}
	c.planned = time.AfterFunc(pause, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.planned = nil
		if c.closed || len(c.unsure) == 0 {
			return
		}
		c.due = true
		if !c.working {
			c.working = true
			c.idle.Go(c.work)
		}
	})
}

// learn draws the conclusion for the first n that are unsure.
func (c *committer) learn(n int, known knowledge) {
	now := time.Now()
	var rest, lost []unsure
	c.mu.Lock()
	for _, u := range c.unsure[:n] {
		switch {
		case known == copied || now.After(u.until):
		case known == moved && config.Slot(u.mark) == config.Slot(c.unsure[n-1].mark):
		case known == gone:
			lost = append(lost, u)
		default:
			rest = append(rest, u)
		}
	}
	c.unsure = append(rest, c.unsure[n:]...)
	c.silence = known == open
	c.mu.Unlock()
	for _, u := range lost {
		u.lost()
	}
}
