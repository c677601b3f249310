package topology

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/lua"
)

// ErrNotReplicated is wrapped by the error of a commit that was granted and that too few replicas have. It is the caller's to give it back.
var ErrNotReplicated = errors.New("lock not replicated")

// recount is how long the number of replicas is remembered at most.
const recount = 5 * time.Second

// Commit takes a call that may grant a lock to its master as Run does, and waits until replicas have what it wrote
// (wire-protocol.md §12). When too few say so within SlavesSyncTimeout it returns the grant together with an error that wraps
// [ErrNotReplicated].
func Commit(ctx context.Context, t *Topology, call lua.Call[lua.Grant]) (lua.Grant, error) {
	if !t.Replicates() {
		return Run(ctx, t, call)
	}
	return along(ctx, t, call.Keys, func(n *Node, asking bool) (lua.Grant, error) {
		return n.commits.commit(ctx, call, asking)
	})
}

// committer sends what a node's replicas must acknowledge: whatever is queued when its connection is free goes out together, with one WAIT
// at the end. One goroutine does that, as long as there is something.
type committer struct {
	node *Node
	cfg  config.Config
	log  *slog.Logger

	// mu guards the queue. It is never held over network I/O.
	mu      sync.Mutex
	queue   []*commit
	working bool
	closed  bool
	idle    sync.WaitGroup // of the goroutine

	// The rest belongs to the goroutine, one after the other.

	conn    *commitConn // nil while there is none
	counted time.Time   // when the replicas were counted last; zero: not, or no more true
	count   int
	silent  bool // the server knows no WAIT, or does not let us: told to the log once
	blind   bool // the same with INFO
}

type commitConn struct {
	rueidis.DedicatedClient
	release func()
}

// commit is one request in the queue.
type commit struct {
	call   lua.Call[lua.Grant]
	asking bool
	inFull bool          // the server did not know the script
	done   chan struct{} // closed when the rest is there
	grant  lua.Grant
	err    error
}

func newCommitter(n *Node, cfg config.Config, log *slog.Logger) *committer {
	return &committer{node: n, cfg: cfg, log: log}
}

// commit queues a call and waits for its outcome. When ctx ends before, the call may still take effect.
func (c *committer) commit(ctx context.Context, call lua.Call[lua.Grant], asking bool) (lua.Grant, error) {
	job := &commit{call: call, asking: asking, done: make(chan struct{})}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return lua.Grant{}, c.node.notSent(errRetired)
	}
	c.queue = append(c.queue, job)
	if !c.working {
		c.working = true
		c.idle.Go(c.work)
	}
	c.mu.Unlock()
	select {
	case <-job.done:
		return job.grant, job.err
	case <-ctx.Done():
		return lua.Grant{}, endOf(ctx)
	}
}

// work empties the queue.
func (c *committer) work() {
	for {
		c.mu.Lock()
		batch := c.queue
		c.queue = nil
		if c.working = len(batch) > 0; !c.working {
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		c.send(batch)
		for _, job := range batch {
			close(job.done)
		}
	}
}

// close ends the work and its connection.
func (c *committer) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.idle.Wait()
	c.hangUp()
}

// send sends a batch, and once more in full what the server did not know.
func (c *committer) send(batch []*commit) {
	ctx, cancel := context.WithTimeout(c.node.life, c.cfg.Timeout+c.cfg.SlavesSyncTimeout)
	defer cancel()
	command := lua.Call[lua.Grant].BySHA1
	for len(batch) > 0 {
		err := c.connect(ctx)
		if err == nil {
			err = c.countReplicas(ctx)
		}
		if err != nil {
			for _, job := range batch {
				job.err = err
			}
			return
		}
		replies := c.pipeline(ctx, batch, command)
		if replies[len(replies)-1].NonRedisError() != nil {
			c.hangUp()
			return
		}
		batch = slices.DeleteFunc(slices.Clone(batch), func(job *commit) bool { return !lua.IsNoScript(job.err) || job.inFull })
		for _, job := range batch {
			job.inFull = true
		}
		command = lua.Call[lua.Grant].InFull
	}
}

func (c *committer) connect(ctx context.Context) error {
	if c.conn != nil {
		return nil
	}
	client, release, err := c.node.dedicate(ctx)
	if err != nil {
		return err
	}
	c.conn, c.counted = &commitConn{client, release}, time.Time{}
	return nil
}

// hangUp closes a connection on which nothing can be relied on any more: an answer that did not come would be taken for the next one's.
func (c *committer) hangUp() {
	if c.conn != nil {
		c.conn.Close()
		c.conn.release()
		c.conn = nil
	}
}

// pipeline sends the batch with one WAIT behind it, and concludes what the replies say.
func (c *committer) pipeline(ctx context.Context, batch []*commit, command func(lua.Call[lua.Grant], rueidis.Builder) rueidis.Completed) []rueidis.RedisResult {
	b := c.conn.B()
	var commands []rueidis.Completed
	at := make([]int, len(batch))
	for i, job := range batch {
		if job.asking {
			commands = append(commands, b.Asking().Build())
		}
		at[i] = len(commands)
		commands = append(commands, command(job.call, b))
	}
	wanted := c.wanted()
	if wanted > 0 {
		commands = append(commands, b.Wait().Numreplicas(int64(wanted)).Timeout(c.cfg.SlavesSyncTimeout.Milliseconds()).Build())
	}
	replies := c.conn.DoMulti(ctx, commands...)
	missing := c.missing(wanted, replies[len(replies)-1])
	if missing != nil && c.gone(ctx) {
		missing = nil
	}
	for i, job := range batch {
		if job.grant, job.err = job.call.Read(replies[at[i]]); job.err == nil && job.grant.Acquired {
			job.err = missing
		}
	}
	return replies
}

// wanted is how many replicas WAIT is to wait for; 0: no WAIT.
func (c *committer) wanted() int {
	switch {
	case c.silent:
		return 0
	case c.cfg.CheckLockSyncedSlaves.Count() > 0:
		return c.cfg.CheckLockSyncedSlaves.Count()
	default:
		return c.count
	}
}

// missing tells from WAIT's reply whether too few replicas have what was written before it. As Redisson, the default asks for all that are
// there, and is content with one (wire-protocol.md §12).
func (c *committer) missing(wanted int, reply rueidis.RedisResult) error {
	least := c.cfg.CheckLockSyncedSlaves.Count()
	if wanted == 0 {
		if least == 0 {
			return nil
		}
		return fmt.Errorf("%w: the server refuses WAIT, so that no replica can be asked; use SyncedSlavesOff to go without", ErrNotReplicated)
	}
	got, err := reply.AsInt64()
	switch {
	case refusesCommand(err):
		c.silent = true
		c.log.Warn("the server refuses WAIT: locks work without waiting for replicas, and a failover can lose them",
			"server", c.node.address, "answer", err)
		return c.missing(0, reply)
	case err != nil:
		c.counted = time.Time{}
		return fmt.Errorf("%w: WAIT failed: %v", ErrNotReplicated, err) //nolint:errorlint // the acquisition itself had no error
	}
	if int(got) != wanted {
		c.counted = time.Time{}
	}
	if int(got) < max(least, 1) {
		return fmt.Errorf("%w: %d of %d replicas acknowledged it within %v (at least %d must)",
			ErrNotReplicated, got, wanted, c.cfg.SlavesSyncTimeout, max(least, 1))
	}
	return nil
}

// gone tells whether there are no replicas any more, so that none had to acknowledge anything: they were counted before they left.
func (c *committer) gone(ctx context.Context) bool {
	return c.cfg.CheckLockSyncedSlaves.Count() == 0 && c.counted.IsZero() && c.countReplicas(ctx) == nil && c.count == 0
}

// countReplicas asks for the number of replicas when that is not known, or was asked long ago.
func (c *committer) countReplicas(ctx context.Context) error {
	if c.blind || c.silent || c.cfg.CheckLockSyncedSlaves.Count() > 0 || !c.counted.IsZero() && time.Since(c.counted) < recount {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	text, err := c.conn.Do(ctx, c.conn.B().Info().Section("replication").Build()).ToString()
	switch {
	case refusesCommand(err):
		c.blind, c.count = true, 0
		c.log.Warn("the server refuses INFO, so that its replicas can't be counted: locks work without waiting for them, and a failover can lose them; "+
			"grant +info, or set CheckLockSyncedSlaves to SyncedSlavesAtLeast(n)", "server", c.node.address, "answer", err)
		return nil
	case err != nil:
		c.hangUp()
		return c.node.notSent(err)
	}
	c.count, c.counted = readRole(text).replicas, time.Now()
	return nil
}

// refusesCommand tells of a server, or a proxy, that does not know a command or does not let this user run it.
func refusesCommand(err error) bool {
	reply, ok := rueidis.IsRedisErr(err)
	if !ok {
		return false
	}
	text := strings.ToLower(reply.Error())
	for _, words := range []string{"unknown command", "unknown redis command", "noperm", "no permissions", "not supported", "not allowed"} {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}
