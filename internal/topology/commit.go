package topology

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/lua"
)

// ErrNotReplicated is wrapped by the error of a commit that was granted and that too few replicas have. It is the caller's to give it back.
var ErrNotReplicated = errors.New("lock not replicated")

const (
	// recount is how long the number of replicas is remembered at most.
	recount = 5 * time.Second
	// atOnce bounds how many requests share a WAIT.
	atOnce = 500
)

// errDemoted says that the server stopped being a master while its replicas were waited for: it may have granted the lock, or not, and another
// one is asked next.
var errDemoted = errors.New("the server stopped being the master while its replicas were waited for")

// Commit takes a call that may grant a lock to its master as Run does, and waits until replicas have what it wrote
// (wire-protocol.md §12). When too few say so within SlavesSyncTimeout it returns the grant together with an error that wraps
// [ErrNotReplicated].
func Commit(ctx context.Context, t *Topology, call lua.Call[lua.Grant]) (lua.Grant, error) {
	if !t.Replicates() {
		return Run(ctx, t, call)
	}
	return along(ctx, t, call.Keys, func(n *Node, asking bool) (lua.Grant, error) {
		if n.commits.alone() {
			return runOn(ctx, n, call, asking)
		}
		return n.commits.commit(ctx, call, asking)
	})
}

// committer sends what a node's replicas must acknowledge: whatever is queued when its connection is free goes out together, with one WAIT
// at the end. One goroutine does that, as long as there is something. That WAIT also tells of what others wrote before, see [Node.Outlast].
type committer struct {
	node *Node
	cfg  config.Config
	log  *slog.Logger

	// mu guards what follows, up to idle. It is never held over network I/O.
	mu      sync.Mutex
	queue   []*commit
	unsure  []unsure    // in the order of their numbers
	watched int64       // how many have come
	due     bool        // the replicas are to be asked for these, though nothing else may be queued
	planned *time.Timer // sets due; nil: not planned
	silent  bool        // the replicas were asked for these alone, and did not acknowledge them
	working bool
	closed  bool
	idle    sync.WaitGroup // of the goroutine

	// aloneUntil is for how long there is nobody to wait for: no replicas, or none that could be asked. Past or nil: there is, or who knows.
	aloneUntil atomic.Pointer[time.Time]

	// The rest belongs to the goroutine, one after the other.

	conn    *commitConn // nil while there is none
	counted time.Time   // when the replicas were counted last; zero: not, or no more true
	count   int
	mute    bool // the server knows no WAIT, or does not let us: told to the log once
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
	done   chan struct{} // closed when the rest is there
	grant  lua.Grant
	err    error
}

func newCommitter(n *Node, cfg config.Config, log *slog.Logger) *committer {
	return &committer{node: n, cfg: cfg, log: log}
}

// alone tells whether there is nobody to wait for, as the master had no replicas a short while ago: then there is no reason to share a
// connection that others wait on.
func (c *committer) alone() bool {
	until := c.aloneUntil.Load()
	return until != nil && time.Now().Before(*until)
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
		if c.withdraw(job) {
			return lua.Grant{}, c.node.notSent(EndOf(ctx))
		}
		return lua.Grant{}, EndOf(ctx)
	}
}

// withdraw takes a request back that was not sent yet.
func (c *committer) withdraw(job *commit) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.queue, job)
	if i < 0 {
		return false
	}
	c.queue = slices.Delete(c.queue, i, i+1)
	return true
}

// work empties the queue.
func (c *committer) work() {
	for c.more() {
		err := c.prepare() // before anything is taken out of the queue: who gives up meanwhile knows that nothing was sent
		batch, before := c.take()
		known := open
		if err == nil && len(batch) > 0 {
			known = c.send(batch)
			c.learn(before, known)
		}
		for _, job := range batch {
			if err != nil {
				job.err = err
			}
			close(job.done)
		}
		if before.due && known == open {
			if err == nil {
				known = c.ask(before.mark)
			}
			c.learn(before, known)
			c.silence(known == open)
		}
	}
}

// more tells whether there is anything to do; if not, the work is over.
func (c *committer) more() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.working = len(c.queue) > 0 || c.due
	c.planLocked()
	return c.working
}

// take takes a batch out of the queue, and tells of those that are unsure whose writes the server has answered before it gets the batch.
func (c *committer) take() (batch []*commit, before earlier) {
	c.mu.Lock()
	defer c.mu.Unlock()
	batch = slices.Clone(c.queue[:min(len(c.queue), atOnce)])
	c.queue = c.queue[len(batch):]
	before.last = c.watched
	if c.due && len(c.unsure) > 0 {
		before.due, before.mark = true, c.unsure[len(c.unsure)-1].mark
	}
	c.due = false
	return batch, before
}

// prepare makes sure of the connection and of the number of replicas.
func (c *committer) prepare() error {
	if err := c.connect(); err != nil {
		return err
	}
	return c.countReplicas()
}

// close ends the work and its connection.
func (c *committer) close() {
	c.mu.Lock()
	c.closed = true
	if c.planned != nil {
		c.planned.Stop()
	}
	c.mu.Unlock()
	c.idle.Wait()
	c.hangUp()
}

// send sends a batch, and once more in full what the server did not know. It tells what became of what was written before.
func (c *committer) send(batch []*commit) (before knowledge) {
	for _, command := range []scriptCommand{lua.Call[lua.Grant].BySHA1, lua.Call[lua.Grant].InFull} {
		ctx, cancel := context.WithTimeout(c.node.life, c.cfg.Timeout+c.cfg.SlavesSyncTimeout)
		var replies []rueidis.RedisResult
		replies, before = c.pipeline(ctx, batch, command)
		cancel()
		if replies[len(replies)-1].NonRedisError() != nil {
			c.hangUp()
			return gone
		}
		batch = slices.DeleteFunc(slices.Clone(batch), func(job *commit) bool { return !lua.IsNoScript(job.err) })
		if len(batch) == 0 {
			break
		}
	}
	return before
}

// scriptCommand is how a call is sent.
type scriptCommand = func(lua.Call[lua.Grant], rueidis.Builder) rueidis.Completed

// connect makes the connection where there is none. It has ConnectTimeout for that, and not the time of those who wait: or a server that is
// slow to reach would never be reached.
func (c *committer) connect() error {
	if c.conn != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.node.life, c.cfg.ConnectTimeout)
	defer cancel()
	client, release, err := c.node.dedicate(ctx)
	if err != nil {
		return err
	}
	if err := client.Do(ctx, client.B().Ping().Build()).NonRedisError(); err != nil { // it is made now at the earliest
		client.Close()
		release()
		return c.node.notSent(err)
	}
	c.conn, c.counted = &commitConn{client, release}, time.Time{}
	c.silence(false)
	c.lose() // what was written before, this server need not have: it may be another one, or have restarted
	return nil
}

// hangUp closes a connection on which nothing can be relied on any more: an answer that did not come would be taken for the next one's.
func (c *committer) hangUp() {
	defer c.lose()
	if c.conn != nil {
		c.conn.Close()
		c.conn.release()
		c.conn = nil
	}
}

// pipeline sends the batch with one WAIT behind it, and concludes what the replies say.
func (c *committer) pipeline(ctx context.Context, batch []*commit, command scriptCommand) ([]rueidis.RedisResult, knowledge) {
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
	for i, job := range batch {
		if job.grant, job.err = job.call.Read(replies[at[i]]); job.err == nil && job.grant.Acquired {
			job.err = missing
		}
	}
	switch {
	case errors.Is(missing, errDemoted):
		return replies, gone
	case wanted == 0 || missing != nil || !slices.ContainsFunc(batch, func(job *commit) bool { return job.grant.Acquired }):
		return replies, open // WAIT looks back to the last write of its own connection
	default:
		return replies, copied
	}
}

// wanted is how many replicas WAIT is to wait for; 0: no WAIT.
func (c *committer) wanted() int {
	switch {
	case c.mute:
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
		c.mute = true
		c.renounce()
		c.log.Warn("the server refuses WAIT: locks work without waiting for replicas, and a failover can lose them",
			"server", c.node.address, "answer", err)
		return c.missing(0, reply)
	case err != nil && reply.NonRedisError() == nil:
		return fmt.Errorf("%w: %v", errDemoted, err) //nolint:errorlint // it is no refusal of the acquisition
	case err != nil:
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

// renounce lets grants go without waiting, on the connection that all share, for as long as the client lives. Who demands a number of replicas
// can't have that.
func (c *committer) renounce() {
	if c.cfg.CheckLockSyncedSlaves.Count() == 0 {
		never := time.Now().Add(100 * 365 * 24 * time.Hour)
		c.aloneUntil.Store(&never)
	}
}

// countReplicas asks for the number of replicas when that is not known, or was asked long ago.
func (c *committer) countReplicas() error {
	if c.blind || c.mute || c.cfg.CheckLockSyncedSlaves.Count() > 0 || !c.counted.IsZero() && time.Since(c.counted) < recount {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.node.life, c.cfg.Timeout)
	defer cancel()
	text, err := c.conn.Do(ctx, c.conn.B().Info().Section("replication").Build()).ToString()
	switch {
	case refusesCommand(err):
		c.blind, c.count = true, 0
		c.renounce()
		c.log.Warn("the server refuses INFO, so that its replicas can't be counted: locks work without waiting for them, and a failover can lose them; "+
			"grant +info, or set CheckLockSyncedSlaves to SyncedSlavesAtLeast(n)", "server", c.node.address, "answer", err)
		return nil
	case err != nil:
		c.hangUp()
		return c.node.notSent(err)
	}
	c.count, c.counted = readRole(text).replicas, time.Now()
	if c.count == 0 {
		until := c.counted.Add(recount)
		c.aloneUntil.Store(&until)
	}
	return nil
}

// refusesCommand tells of a server, or a proxy, that does not know a command or does not let this user run it.
func refusesCommand(err error) bool {
	var reply *rueidis.RedisError
	if !errors.As(err, &reply) {
		return false
	}
	text := strings.ToLower(reply.Error())
	for _, words := range []string{
		"unknown command", "unknown redis command", "unknown subcommand", "unknown pubsub subcommand", "noperm", "no permissions",
		"not supported", "not allowed",
	} {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}
