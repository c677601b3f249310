package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/interop/javaagent"
	"github.com/redlatch/redlatch/rlock"
)

const (
	// failoverLocks all lie on the master that dies. Each is held by one client and waited for by another.
	failoverLocks = 100
	// servedBound is how long after there is a new master the last waiter may have its lock.
	servedBound = 2 * time.Second
	// patience is how long waiters are watched after the master died: longer than the TTL of a lock.
	patience = time.Minute
)

// mortals launch the topologies that replace a master which dies.
var mortals = []func(ctx context.Context) (*mortal, error){launchMortalCluster, launchMortalSentinel}

// mortal is servers one of whose masters is to die.
type mortal struct {
	name     string // as the figures call it
	servers  config.Servers
	yaml     string // the same for Redisson
	nodes    []*redistest.Node
	master   *redistest.Node
	channels string // how the server calls the command that counts who listens
	close    func() error
}

func launchMortalCluster(ctx context.Context) (*mortal, error) {
	c, err := redistest.LaunchCluster(ctx, redistest.WithReplicas(1))
	if err != nil {
		return nil, err
	}
	m := &mortal{
		name:    "cluster",
		servers: c.Servers(), yaml: "clusterServersConfig:\n  nodeAddresses:\n" + yamlList(c.Addresses()),
		nodes: c.Nodes(), channels: "SHARDNUMSUB", close: c.Close,
	}
	return m, m.find(func(n *redistest.Node) bool {
		_, err := n.TryDo("GET", failoverName(0)) // everybody else says who has it
		return err == nil
	})
}

func launchMortalSentinel(ctx context.Context) (*mortal, error) {
	s, err := redistest.LaunchSentinel(ctx, redistest.WithReplicas(1))
	if err != nil {
		return nil, err
	}
	m := &mortal{
		name:    "Sentinel",
		servers: s.Servers(),
		yaml:    fmt.Sprintf("sentinelServersConfig:\n  masterName: %s\n  sentinelAddresses:\n", s.MasterName()) + yamlList(s.Addresses()),
		nodes:   s.Nodes(), channels: "NUMSUB", close: s.Close,
	}
	return m, m.find(isMaster)
}

func yamlList(addresses []string) string {
	var list strings.Builder
	for _, address := range addresses {
		fmt.Fprintf(&list, "    - %q\n", address)
	}
	return list.String()
}

func isMaster(n *redistest.Node) bool {
	reply, err := n.TryDo("ROLE")
	return err == nil && reply.List()[0].Text() == "master"
}

// find finds the master that is to die.
func (m *mortal) find(is func(n *redistest.Node) bool) error {
	for _, n := range m.nodes {
		if is(n) && isMaster(n) {
			m.master = n
			return nil
		}
	}
	return errors.Join(errors.New("no master has the locks"), m.close())
}

// failoverName is the name of a lock; all lie in one slot.
func failoverName(i int) string { return "{" + lockPrefix + "}:" + strconv.Itoa(i) }

// awaited waits until somebody listens for each of the locks.
func (m *mortal) awaited(ctx context.Context) error {
	ask := []string{"PUBSUB", m.channels}
	for i := range failoverLocks {
		ask = append(ask, config.Prefixed(config.ChannelPrefix, failoverName(i)))
	}
	return poll(ctx, 20*time.Millisecond, func() (bool, error) {
		reply, err := m.master.TryDo(ask...)
		if err != nil {
			return false, err
		}
		counts := reply.List() // channel, listeners, channel, …
		for i := 1; i < len(counts); i += 2 {
			if counts[i].Int() == 0 {
				return false, nil
			}
		}
		return true, nil
	})
}

// dies kills the master, has something done at that moment, and returns when that was and when another node was master in its place.
func (m *mortal) dies(ctx context.Context, then func()) (died, replaced time.Time, err error) {
	var replicas []*redistest.Node
	for _, n := range m.nodes {
		if !isMaster(n) {
			replicas = append(replicas, n)
		}
	}
	died = time.Now()
	if err := syscall.Kill(m.master.PID(), syscall.SIGKILL); err != nil {
		return died, died, err
	}
	then()
	err = poll(ctx, 2*time.Millisecond, func() (bool, error) {
		for _, n := range replicas {
			if isMaster(n) {
				return true, nil
			}
		}
		return false, nil
	})
	return died, time.Now(), err
}

// owner is one who takes and releases one lock, in either language.
type owner interface {
	lock(ctx context.Context) error
	unlock(ctx context.Context) error
}

type redlatchOwner struct {
	of   *rlock.Lock
	hold *redlatch.Hold
}

func (o *redlatchOwner) lock(ctx context.Context) (err error) {
	o.hold, err = o.of.Lock(ctx)
	return err
}

func (o *redlatchOwner) unlock(ctx context.Context) error { return o.hold.Unlock(ctx) }

type redissonOwner struct {
	of     javaagent.Lock
	thread *javaagent.Thread
}

func (o *redissonOwner) lock(ctx context.Context) error   { return o.thread.Lock(ctx, o.of) }
func (o *redissonOwner) unlock(ctx context.Context) error { return o.thread.Unlock(ctx, o.of) }

// contenders are the owners that hold and those that wait, each in a client of theirs.
type contenders struct {
	holders, waiters []owner
	close            func(ctx context.Context) error
}

func (b *bench) contenders(ctx context.Context, name string, m *mortal) (*contenders, error) {
	switch name {
	case "redlatch":
		return b.redlatchContenders(ctx, m)
	case "redisson":
		return b.redissonContenders(ctx, m)
	default:
		return nil, fmt.Errorf("there are the sides redlatch and redisson, not %q", name)
	}
}

func (b *bench) redlatchContenders(ctx context.Context, m *mortal) (*contenders, error) {
	var clients [2]*redlatch.Client
	for i := range clients {
		var err error
		if clients[i], err = redlatch.Open(ctx, config.Config{Servers: m.servers, LockWatchdogTimeout: b.plan.watchdog}); err != nil {
			if i > 0 {
				err = errors.Join(err, clients[0].Close())
			}
			return nil, err
		}
	}
	c := &contenders{close: func(context.Context) error { return errors.Join(clients[0].Close(), clients[1].Close()) }}
	for i := range failoverLocks {
		c.holders = append(c.holders, &redlatchOwner{of: rlock.New(clients[0], failoverName(i))})
		c.waiters = append(c.waiters, &redlatchOwner{of: rlock.New(clients[1], failoverName(i))})
	}
	return c, nil
}

func (b *bench) redissonContenders(ctx context.Context, m *mortal) (*contenders, error) {
	agent, err := b.jvm.get(ctx)
	if err != nil {
		return nil, err
	}
	var clients [2]*javaagent.Client
	for i, of := range []string{"holders", "waiters"} {
		yaml := fmt.Sprintf("lockWatchdogTimeout: %d\n", b.plan.watchdog.Milliseconds()) + m.yaml
		if clients[i], err = agent.Open(ctx, of, yaml); err != nil {
			if i > 0 {
				err = errors.Join(err, clients[0].Close(context.WithoutCancel(ctx)))
			}
			return nil, err
		}
	}
	c := &contenders{close: func(ctx context.Context) error { return errors.Join(clients[0].Close(ctx), clients[1].Close(ctx)) }}
	for i := range failoverLocks {
		c.holders = append(c.holders, &redissonOwner{javaagent.Plain(failoverName(i)), clients[0].Thread(m.name + " holder " + strconv.Itoa(i))})
		c.waiters = append(c.waiters, &redissonOwner{javaagent.Plain(failoverName(i)), clients[1].Thread(m.name + " waiter " + strconv.Itoa(i))})
	}
	return c, nil
}

// failover measures each side on each topology, with servers of its own, since one of them dies.
func (b *bench) failover(ctx context.Context) error {
	var errs []error
	for _, launch := range mortals {
		for _, side := range b.plan.sides {
			if err := b.failOver(ctx, side, launch); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", side, err))
			}
		}
	}
	return errors.Join(errs...)
}

func (b *bench) failOver(ctx context.Context, side string, launch func(ctx context.Context) (*mortal, error)) error {
	b.progress(side, "opens")
	m, err := launch(ctx)
	if err != nil {
		return err
	}
	c, err := b.contenders(ctx, side, m)
	if err != nil {
		return errors.Join(err, m.close())
	}
	err = b.survive(ctx, side, m, c)
	return errors.Join(err, c.close(context.WithoutCancel(ctx)), m.close())
}

// survive lets the master die while each lock is held and waited for. Its holder releases it at once, and the waiter is to have it as soon as there
// is a new master.
func (b *bench) survive(ctx context.Context, side string, m *mortal, c *contenders) error {
	figure := "failover, " + m.name
	for _, o := range c.holders {
		if err := o.lock(ctx); err != nil {
			return err
		}
	}
	waiting, giveUp := context.WithCancel(ctx)
	defer giveUp()
	entered := make(chan entry, failoverLocks)
	for _, o := range c.waiters {
		go func() {
			err := o.lock(waiting)
			entered <- entry{time.Now(), err}
		}()
	}
	if err := m.awaited(ctx); err != nil {
		return err
	}
	b.progress(side, "holds %d locks and waits for them; their master dies", failoverLocks)
	var refused atomic.Int64
	var releasing sync.WaitGroup
	died, replaced, err := m.dies(ctx, func() {
		for _, o := range c.holders {
			releasing.Go(func() {
				if o.unlock(ctx) != nil {
					refused.Add(1)
				}
			})
		}
	})
	if err != nil {
		return err
	}
	result := watchEntries(entered, replaced)
	giveUp()
	releasing.Wait()
	b.sheet.Number(figure+": new master after", side, replaced.Sub(died).Seconds(), "s")
	b.sheet.Count(figure+": waiters that have the lock 2 s later", side, result.inTime, "waiters")
	b.sheet.Count(figure+": waiters that have it within a minute", side, result.all, "waiters")
	b.sheet.Number(figure+": last of these after the new master", side, result.last.Seconds(), "s")
	b.sheet.Count(figure+": releases that failed", side, int(refused.Load()), "releases")
	if side == "redlatch" && result.inTime < failoverLocks {
		return fmt.Errorf("%d of %d waiters had the lock within %v of the new master, the last one after %v",
			result.inTime, failoverLocks, servedBound, result.last)
	}
	return nil
}

// entry is the end of a waiter's waiting.
type entry struct {
	at  time.Time
	err error
}

// entries sum up the waiters: how many have their locks, within the bound and at all, and when the last one had.
type entries struct {
	inTime, all int
	last        time.Duration
}

// watchEntries looks at all waiters, for a while, and counts from when there was a new master.
func watchEntries(entered <-chan entry, replaced time.Time) (sum entries) {
	over := time.After(patience)
	for range failoverLocks {
		select {
		case e := <-entered:
			if e.err != nil {
				continue
			}
			took := e.at.Sub(replaced)
			sum.all++
			sum.last = max(sum.last, took)
			if took <= servedBound {
				sum.inTime++
			}
		case <-over:
			return sum
		}
	}
	return sum
}
