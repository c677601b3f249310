package topology

import (
	"context"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/config"
)

const (
	// askSoon is how long a write may wait for a grant whose WAIT tells of it too, before the replicas are asked for it alone; askAgain is
	// the same when they have not acknowledged it.
	askSoon  = 100 * time.Millisecond
	askAgain = time.Second
	// askWithin is how long they are waited for then. Grants stand behind that.
	askWithin = 100 * time.Millisecond
	// unsureAtMost bounds how many writes to one node are watched over. Those beyond that are not.
	unsureAtMost = 20_000
)

// unsure is a write that the replicas may not have yet. It was made since the committer has its connection, if it has one.
type unsure struct {
	number int64     // counted from one
	mark   string    // a key of the same slot that nobody needs
	until  time.Time // when the write does not matter any more
	lost   func()
}

// earlier are those of them that the server has answered before it gets a batch.
type earlier struct {
	last int64  // number of the last one
	due  bool   // the replicas are to be asked for them
	mark string // of the last one, when they are due
}

// knowledge is what has been found out about such writes.
type knowledge int

const (
	open   knowledge = iota // nothing
	copied                  // as many replicas have them as a grant needs
	gone                    // the server has died, or is no master any more: the next one may not have them
)

// Outlast watches over a write that this node has just answered and that a failover must not take back. lost is called, once, when the node
// dies, is given up, or stops being the slot's master before replicas are known to have the write: whoever is the master then has to be asked. It is not
// called when that happens after until, nor where no replica was linked when the server was asked last, nor when very many are watched over. It must
// not block.
//
// Nobody waits for all this: the WAIT of the next grant tells of it, or else one that is sent a moment later for all such writes, behind one to mark, a
// key of the same slot that nobody needs and that is gone at once.
func (n *Node) Outlast(mark string, until time.Time, lost func()) {
	if n.commits.alone() {
		return
	}
	if !n.commits.watch(unsure{mark: mark, until: until, lost: lost}) {
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
	if len(c.unsure) < unsureAtMost {
		c.watched++
		u.number = c.watched
		c.unsure = append(c.unsure, u)
		c.planLocked()
	}
	return true
}

// planLocked has the replicas asked in a while, unless that is planned, or somebody is at work who plans it at the end.
func (c *committer) planLocked() {
	if c.planned != nil || c.working || c.closed || len(c.unsure) == 0 {
		return
	}
	pause := askSoon
	if c.silent {
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

// ask finds out whether replicas have what was written before. WAIT looks back to the last write of its own connection, so there is one.
func (c *committer) ask(mark string) knowledge {
	ctx, cancel := context.WithTimeout(c.node.life, c.cfg.Timeout+askWithin)
	defer cancel()
	b := c.conn.B()
	commands := []rueidis.Completed{b.Set().Key(mark).Value("").Px(time.Millisecond).Build()}
	least := max(c.cfg.CheckLockSyncedSlaves.Count(), 1)
	if c.wanted() > 0 {
		commands = append(commands, b.Wait().Numreplicas(int64(least)).Timeout(askWithin.Milliseconds()).Build())
	}
	replies := c.conn.DoMulti(ctx, commands...)
	last, written := replies[len(replies)-1], replies[0].Error() == nil
	if last.NonRedisError() != nil {
		c.hangUp()
		return gone
	}
	if len(replies) == 1 {
		if says(last.Error(), "READONLY") {
			return gone
		}
		return open
	}
	have, err := last.AsInt64()
	switch {
	case refusesCommand(err):
		return open // the next grant tells of it
	case err != nil:
		return gone // see errDemoted
	case written && int(have) >= least:
		return copied
	default:
		return open // a mark that was refused is that of a slot that is moving
	}
}

// learn draws the conclusion.
func (c *committer) learn(before earlier, known knowledge) {
	switch known {
	case gone:
		c.lose()
	case copied:
		c.mu.Lock()
		for len(c.unsure) > 0 && c.unsure[0].number <= before.last {
			c.unsure = c.unsure[1:]
		}
		c.silent = false
		c.mu.Unlock()
	case open:
		now := time.Now()
		c.mu.Lock()
		c.unsure = slices.DeleteFunc(c.unsure, func(u unsure) bool { return before.due && now.After(u.until) })
		c.mu.Unlock()
	}
}

// silence notes whether the replicas keep silent about what they are asked for alone.
func (c *committer) silence(silent bool) {
	c.mu.Lock()
	c.silent = silent
	c.mu.Unlock()
}

// lose gives up all that are unsure.
func (c *committer) lose() { c.loseWhere(func(unsure) bool { return true }) }

// handOver gives up those that are unsure in slots of which the node is not the master any more.
func (c *committer) handOver(to *layout) {
	c.loseWhere(func(u unsure) bool { return to.master(config.Slot(u.mark)) != c.node })
}

func (c *committer) loseWhere(so func(unsure) bool) {
	now := time.Now()
	var lost, rest []unsure
	c.mu.Lock()
	for _, u := range c.unsure {
		switch {
		case !so(u):
			rest = append(rest, u)
		case now.Before(u.until):
			lost = append(lost, u)
		}
	}
	c.unsure = rest
	c.mu.Unlock()
	for _, u := range lost {
		u.lost()
	}
}
