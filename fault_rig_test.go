package redlatch_test

import (
	"context"
	"crypto/sha1" //nolint:gosec // what EVALSHA calls a script by
	"encoding/hex"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/locktest"
	"github.com/redlatch/redlatch/internal/locktest/probe"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/lua"
	"github.com/redlatch/redlatch/rlock"
)

const (
	lockName    = "order:1001"
	lockChannel = "redisson_lock__channel:{order:1001}"
)

// commandTimeout is how long the clients of these tests wait for an answer; pollBound is how long a waiter may sleep when its message
// was lost.
func commandTimeout() time.Duration { return locktest.Span(400 * time.Millisecond) }
func pollBound() time.Duration      { return locktest.Span(500 * time.Millisecond) }

// hasty makes a client give up soon and try again soon.
func hasty(c *config.Config) {
	c.Timeout = commandTimeout()
	c.RetryAttempts = 3
	c.RetryDelay = config.Delay{Min: 5 * time.Millisecond, Max: 20 * time.Millisecond}
	c.FallbackPoll = pollBound()
}

func noRetry(c *config.Config) { c.RetryAttempts = config.NoRetry }

// rig is a server, a hasty client with a relay before it, whose line the test breaks, and another client that has its
// own way to the server. The server knows all scripts.
type rig struct {
	*testing.T
	server *redistest.Server
	relay  *redistest.Relay
	client *redlatch.Client
	other  *redlatch.Client
	hit    chan struct{} // closed when the request has come that each lets a fault befall
}

func newRig(t *testing.T, changes ...func(*config.Config)) *rig {
	t.Helper()
	return newRigOn(t, redistest.Start(t), changes...)
}

// newReplicatedRig is a rig whose server has a replica, so that what takes a lock goes over a connection of its own, with WAIT behind it.
func newReplicatedRig(t *testing.T, changes ...func(*config.Config)) *rig {
	t.Helper()
	return newRigOfMaster(t, redistest.StartReplicated(t, 1), changes...)
}

func newRigOfMaster(t *testing.T, servers *redistest.Replicated, changes ...func(*config.Config)) *rig {
	t.Helper()
	replicated := func(c *config.Config) {
		master := c.Servers.Addresses()[0].Addr
		c.Servers, c.SlavesSyncTimeout = config.MasterSlave("redis://"+master), 2*time.Second
	}
	return newRigOn(t, servers.Master().Server, append([]func(*config.Config){replicated}, changes...)...)
}

func newRigOn(t *testing.T, server *redistest.Server, changes ...func(*config.Config)) *rig {
	t.Helper()
	r := &rig{T: t, server: server, hit: make(chan struct{})}
	for _, s := range lua.Catalog() {
		r.server.Do(t, "SCRIPT", "LOAD", s.Source)
	}
	r.relay = redistest.NewRelay(t, r.server)
	r.client = probe.Open(t, r.relay.URL(), append([]func(*config.Config){hasty}, changes...)...)
	r.other = probe.Open(t, r.server.URL())
	return r
}

func (r *rig) lock() *rlock.Lock   { return rlock.New(r.client, lockName) }
func (r *rig) theirs() *rlock.Lock { return rlock.New(r.other, lockName) }

// runs fits a command that runs a script of the catalog, with arguments that contain each of the parts.
func runs(script string, parts ...string) func(cmd []string) bool {
	var source, digest string
	for _, s := range lua.Catalog() {
		if s.Name == script {
			sum := sha1.Sum([]byte(s.Source)) //nolint:gosec // the same
			source, digest = s.Source, hex.EncodeToString(sum[:])
		}
	}
	if source == "" {
		panic("there is no script " + script)
	}
	return func(cmd []string) bool {
		known := len(cmd) > 1 && (cmd[1] == digest || cmd[1] == source)
		return known && redistest.SendsScript(parts...)(cmd)
	}
}

// take takes the lock, which must be free or become so.
func (r *rig) take(ctx context.Context, l redlatch.Locker, opts ...redlatch.AcquireOption) *redlatch.Hold {
	r.Helper()
	return probe.TakeAs(r, ctx, l, opts...)
}

func (r *rig) release(h *redlatch.Hold)                  { r.Helper(); probe.Release(r, h) }
func (r *rig) until(so func() bool, words string)        { r.Helper(); probe.Until(r, so, words) }
func (r *rig) within(done <-chan struct{}, words string) { r.Helper(); probe.Within(r, done, words) }

// starts begins to take a lock.
func (r *rig) starts(ctx context.Context, l redlatch.Locker, opts ...redlatch.AcquireOption) *probe.Call {
	r.Helper()
	return probe.Start(r, ctx, l, opts...)
}

func (r *rig) unlocks(h *redlatch.Hold) *probe.Call {
	return probe.Go(r, func() error { return h.Unlock(context.Background()) })
}

// locks are the keys of locks. Latches, by which a request in doubt was barred, stay for some minutes and are no locks.
func (r *rig) locks() []redistest.Entry {
	r.Helper()
	var entries []redistest.Entry
	for _, e := range r.server.Snapshot(r).Entries {
		if !strings.HasPrefix(e.Key, config.UnlockLatchPrefix) {
			entries = append(entries, e)
		}
	}
	return entries
}

// count is how often an owner holds the lock, as Redis says.
func (r *rig) count(o redlatch.Owner) string {
	r.Helper()
	return r.server.Do(r, "HGET", lockName, o.String()).Text()
}

// holdsAlone says that an owner holds the lock so many times, and nobody else, and that it does not believe in it for longer than
// Redis does.
func (r *rig) holdsAlone(h *redlatch.Hold, count int) {
	r.Helper()
	require.NoError(r, h.Err())
	locks := r.locks()
	require.Len(r, locks, 1)
	require.Equal(r, []redistest.Item{{Name: h.Owner().String(), Value: strconv.Itoa(count)}}, locks[0].Items)
	r.trustsRightly(h)
}

// trustsRightly says that a hold is not believed in for longer than it lasts in Redis.
func (r *rig) trustsRightly(h *redlatch.Hold) {
	r.Helper()
	until := h.ValidUntil()
	ttl := r.server.TTL(r, lockName)
	require.False(r, until.After(time.Now().Add(ttl)), "trusted for %v longer than the lock lasts",
		until.Sub(time.Now().Add(ttl)))
}

// nothingLeft waits until no lock is held.
func (r *rig) nothingLeft() {
	r.Helper()
	r.until(func() bool { return len(r.locks()) == 0 }, "a lock stays behind")
}

// isLost waits for the news that a hold was lost, and checks that it is told in each way, for a reason in these words.
func (r *rig) isLost(h *redlatch.Hold, words string) {
	r.Helper()
	r.within(h.Lost(), "the news that a lock is lost")
	r.within(h.Context().Done(), "the end of a lost hold's context")
	require.ErrorIs(r, context.Cause(h.Context()), redlatch.ErrLost)
	require.ErrorIs(r, h.Err(), redlatch.ErrLost)
	require.ErrorContains(r, h.Err(), words)
}

// fault is what happens to one request, and whether the server ran it.
type fault struct {
	name   string
	action func(late <-chan struct{}) redistest.Action
	ran    bool
	silent bool // the client finds out by its timeout only
}

// faults are what can befall a request. late is closed when the client has ended its call.
var faults = []fault{
	{"ReplyLost", func(<-chan struct{}) redistest.Action { return redistest.LoseReply() }, true, false},
	{"RequestCutOff", func(<-chan struct{}) redistest.Action { return redistest.CutRequest() }, false, false},
	{"ReplyTooLate", redistest.HoldReply, true, true},
	{"RequestTooLate", redistest.HoldRequest, false, true},
	{"RequestSwallowed", func(<-chan struct{}) redistest.Action { return redistest.SwallowRequest() }, false, true},
}

// mending are the faults after which the connection goes on or is gone. The one that is left out leaves it silent, which a client
// whose calls share it notices only after seconds.
var mending = faults[:4]

func (r *rig) wasHit() bool {
	select {
	case <-r.hit:
		return true
	default:
		return false
	}
}

// each runs a test with each fault at its first command that fits. late must be called when the call that was hit has ended, and
// lets through what the relay has kept back.
func each(t *testing.T, fits func([]string) bool, test func(r *rig, f fault, late func()), changes ...func(*config.Config)) {
	t.Helper()
	eachOf(t, faults, fits, test, changes...)
}

// eachOf is each for some faults.
func eachOf(
	t *testing.T, some []fault, fits func([]string) bool, test func(r *rig, f fault, late func()), changes ...func(*config.Config),
) {
	t.Helper()
	for _, f := range some {
		for suffix, rigged := range map[string]func(*testing.T, ...func(*config.Config)) *rig{"": newRig, "Replicated": newReplicatedRig} {
			t.Run(f.name+suffix, func(t *testing.T) {
				t.Parallel()
				r := rigged(t, changes...)
				late := make(chan struct{})
				release := sync.OnceFunc(func() { close(late) })
				t.Cleanup(release)
				r.relay.OnRequest(func(cmd []string) redistest.Action {
					if r.wasHit() || !fits(cmd) {
						return redistest.Pass()
					}
					close(r.hit)
					return f.action(late)
				})
				test(r, f, release)
				require.True(t, r.wasHit(), "the request that was to be hit was not sent")
			})
		}
	}
}
