package interop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/interop/javaagent"
)

// party is one owner of locks, in Go or in Java. Its calls are those of Redisson's RLock.
type party interface {
	// lock waits for the lock until ctx ends; lease 0 leaves it to the watchdog.
	lock(ctx context.Context, lease time.Duration) error
	// tryLock makes one attempt, or with wait waits that long.
	tryLock(ctx context.Context, wait, lease time.Duration) (bool, error)
	// unlock releases one hold; errNotHeld when there is none.
	unlock(ctx context.Context) error
	forceUnlock(ctx context.Context) (bool, error)
	isLocked(ctx context.Context) (bool, error)
	holdCount(ctx context.Context) (int, error)
	remainingTTL(ctx context.Context) (time.Duration, error) // 0 when there is no lock
	field() string                                           // its owner field in Redis
}

// How both languages say that a release found no hold, and that an owner can't enter what it holds.
var (
	errNotHeld = errors.New("not held by this owner")
	errRefused = errors.New("entry refused")
)

// handle is what the lock types of all kinds have.
type handle interface {
	redlatch.Locker
	IsLocked(ctx context.Context) (bool, error)
	HoldCount(ctx context.Context, o redlatch.Owner) (int, error)
	RemainingTTL(ctx context.Context) (time.Duration, error)
	ForceUnlock(ctx context.Context) (bool, error)
}

// goParty is a goTaker of a lock that can be queried.
type goParty struct {
	goTaker
	lockOf handle
	suffix string
}

func asGoParty(owner redlatch.Owner, lockOf handle, suffix string) *goParty {
	return &goParty{goTaker: goTaker{of: lockOf, owner: owner}, lockOf: lockOf, suffix: suffix}
}

func (p *goParty) forceUnlock(ctx context.Context) (bool, error) { return p.lockOf.ForceUnlock(ctx) }
func (p *goParty) isLocked(ctx context.Context) (bool, error)    { return p.lockOf.IsLocked(ctx) }
func (p *goParty) field() string                                 { return p.owner.String() + p.suffix }

func (p *goParty) holdCount(ctx context.Context) (int, error) {
	return p.lockOf.HoldCount(ctx, p.owner)
}

func (p *goParty) remainingTTL(ctx context.Context) (time.Duration, error) {
	return p.lockOf.RemainingTTL(ctx)
}

// lost waits until the newest hold is told that it was lost, and returns why.
func (p *goParty) lost(ctx context.Context) error {
	hold := p.holds[len(p.holds)-1]
	select {
	case <-hold.Lost():
		return hold.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// javaParty is an owner in Java: a thread of a Redisson client.
type javaParty struct {
	thread *javaagent.Thread
	lockOf javaagent.Lock
	owner  string
	suffix string
}

func args(wait, lease time.Duration) (list []javaagent.Arg) {
	if wait > 0 {
		list = append(list, javaagent.Wait(wait))
	}
	if lease > 0 {
		list = append(list, javaagent.Lease(lease))
	}
	return list
}

func (p *javaParty) lock(ctx context.Context, lease time.Duration) error {
	return refused(p.thread.Lock(ctx, p.lockOf, args(0, lease)...))
}

func (p *javaParty) tryLock(ctx context.Context, wait, lease time.Duration) (bool, error) {
	got, err := p.thread.TryLock(ctx, p.lockOf, args(wait, lease)...)
	return got, refused(err)
}

// refused: only a non-reentrant lock ends an acquisition so.
func refused(err error) error {
	if javaagent.CodeOf(err) == javaagent.CodeIllegalMonitorState {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	return err
}

func (p *javaParty) unlock(ctx context.Context) error {
	err := p.thread.Unlock(ctx, p.lockOf)
	if javaagent.CodeOf(err) == javaagent.CodeIllegalMonitorState {
		return fmt.Errorf("%w: %w", errNotHeld, err)
	}
	return err
}

func (p *javaParty) forceUnlock(ctx context.Context) (bool, error) {
	return p.thread.ForceUnlock(ctx, p.lockOf)
}

func (p *javaParty) isLocked(ctx context.Context) (bool, error) {
	return p.thread.IsLocked(ctx, p.lockOf)
}

func (p *javaParty) holdCount(ctx context.Context) (int, error) {
	return p.thread.HoldCount(ctx, p.lockOf)
}

func (p *javaParty) remainingTTL(ctx context.Context) (time.Duration, error) {
	ms, err := p.thread.RemainTimeToLive(ctx, p.lockOf)
	return time.Duration(max(ms, 0)) * time.Millisecond, err
}

func (p *javaParty) field() string { return p.owner + p.suffix }

// kind is a kind of lock in both languages; they can differ where the kinds work together.
type kind struct {
	name string
	inGo func(c *redlatch.Client, name string) handle
	java func(name string) javaagent.Lock

	goSuffix, javaSuffix string // of the owner's field
	told                 string // the message of a release that frees, while nobody waits: channel of the lock's name and payload
}

// fleet is a Redis with clients of both languages.
type fleet struct {
	*site
	server *redistest.Server // the master of the key name
	cfg    config.Config
	lines  []string // further ones of redisson.yaml
}

// newFleet has servers. The watchdog timeout is the same in both languages, and Go's waiters are woken by messages or not at
// all, so that a test which ends has seen a message.
func newFleet(t *testing.T, on *topology, watchdog time.Duration) *fleet {
	t.Helper()
	s := on.lend(t)
	f := &fleet{
		site:   s,
		server: s.masterOf(name),
		cfg: config.Config{
			Servers:             s.servers,
			LockWatchdogTimeout: watchdog,
			FallbackPoll:        time.Hour,
		},
		lines: []string{fmt.Sprintf("lockWatchdogTimeout: %d", watchdog.Milliseconds())},
	}
	f.cfg.PlainAndSharded = on == cluster && !javaKnowsSharded()
	return f
}

func (f *fleet) goClient(t *testing.T) *redlatch.Client {
	t.Helper()
	client, err := redlatch.Open(t.Context(), f.cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

func (f *fleet) javaClient(t *testing.T) *javaagent.Client {
	t.Helper()
	name := fmt.Sprintf("%s#%d", t.Name(), clients.Add(1))
	client, err := agent.Open(t.Context(), name, f.yaml(f.lines...))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close(context.Background())) })
	return client
}

func newGoParty(c *redlatch.Client, k kind, name string) *goParty {
	return asGoParty(c.NewOwner(), k.inGo(c, name), k.goSuffix)
}

func newJavaParty(t *testing.T, c *javaagent.Client, thread string, k kind, name string) *javaParty {
	t.Helper()
	owned := c.Thread(strings.ReplaceAll(t.Name(), "/", "-") + ":" + c.Name() + ":" + thread)
	owner, err := owned.Owner(t.Context())
	require.NoError(t, err)
	return &javaParty{thread: owned, lockOf: k.java(name), owner: owner, suffix: k.javaSuffix}
}

// keys are those of all masters, sorted.
func (s *site) keys(t *testing.T) (keys []string) {
	t.Helper()
	for _, m := range s.masters {
		keys = append(keys, m.Snapshot(t).Keys()...)
	}
	slices.Sort(keys)
	return keys
}

// leftOvers are the keys in Redis apart from those that are meant to stay: a fenced lock's token, and for a moment Java's latches.
func leftOvers(t *testing.T, f *fleet) (keys []string) {
	t.Helper()
	for _, key := range f.keys(t) {
		if !strings.HasPrefix(key, "redisson_lock_token:") && !ignoredKey(key) {
			keys = append(keys, key)
		}
	}
	return keys
}
