//go:build crowd

package interop

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/fencedlock"
	"github.com/redlatch/redlatch/internal/linear"
	"github.com/redlatch/redlatch/interop/javaagent"
)

// family is what histories are about: a lock with its sides, and what is expected of it.
type family struct {
	name    string
	model   linear.Model
	sides   map[linear.Side]kind
	owners  int    // of each client: the more wait at a time, the more orders there are to be tried, and most with readers
	channel string // the prefix of that on which its releases are announced
}

var (
	plainFamily  = family{"plain", linear.Plain, map[linear.Side]kind{linear.Whole: plain}, 3, "redisson_lock__channel"}
	fencedFamily = family{"fenced", linear.Fenced, map[linear.Side]kind{linear.Whole: fenced}, 3, "redisson_lock__channel"}
	rwFamily     = family{"read-write", linear.ReadWrite, map[linear.Side]kind{linear.Read: read, linear.Write: write}, 2, "redisson_rwlock"}
)

// TestHistories records what owners in both languages are answered when all of them are at one lock, and asks whether one lock can have
// given these answers. REDLATCH_HISTORIES is the number of histories for each kind, REDLATCH_SEED repeats what the owners do, though not
// when.
func TestHistories(t *testing.T) { onEach(t, histories) }

func histories(t *testing.T, on *topology) {
	count, err := strconv.Atoi(envOr("REDLATCH_HISTORIES", "10"))
	require.NoError(t, err)
	seed, err := strconv.ParseUint(envOr("REDLATCH_SEED", strconv.FormatInt(time.Now().UnixNano(), 10)), 10, 64)
	require.NoError(t, err)
	s := newScene(t, on)
	for _, fam := range []family{plainFamily, rwFamily, fencedFamily} {
		t.Run(fam.name+": both languages share one lock", func(t *testing.T) {
			calls, began := 0, time.Now()
			var judging time.Duration
			for i := range count {
				h := s.record(t, fam, seed+uint64(i), nil)
				recorded := time.Now()
				calls += h.Len()
				require.NoError(t, h.Check(fam.model, time.Minute), "seed %d", seed)
				judging += time.Since(recorded)
			}
			t.Logf("%v, of which %v to judge", time.Since(began), judging)
			t.Logf("interop-note: %d histories, %d calls, seed %d", count, calls, seed)
		})
	}
	if on != alone { // that broken locks are found out does not depend on the servers
		return
	}
	for _, broken := range []struct {
		does     string
		families []family
		fault    fault
	}{
		{"releases without a look at who holds it", []family{plainFamily, rwFamily, fencedFamily}, newDeleter},
		{"holds what it was refused", []family{plainFamily, rwFamily}, newClaimant},
		{"takes a message for the lock", []family{plainFamily}, newBeliever},
		{"reads its token before it is let in", []family{fencedFamily}, newForeseer},
	} {
		for _, fam := range broken.families {
			t.Run(fam.name+": an owner is found that "+broken.does, func(t *testing.T) { s.isFound(t, fam, seed, broken.fault) })
		}
	}
}

// scene is servers with two clients of each language.
type scene struct {
	*fleet
	goes  [2]*redlatch.Client
	javas [2]*javaagent.Client
	conn  rueidis.Client // for what goes past the locks
	locks int            // that histories were recorded of
}

// isFound records histories with faulty owners until one of them can't be explained. A fault shows only when somebody comes at the
// wrong moment.
func (s *scene) isFound(t *testing.T, fam family, seed uint64, broken fault) {
	const enough = 20
	for i := range enough {
		h := s.record(t, fam, seed+uint64(i), broken)
		switch err := h.Check(fam.model, time.Minute); {
		case errors.Is(err, linear.ErrImpossible):
			t.Logf("found in history %d", i+1)
			return
		default:
			require.NoError(t, err)
		}
	}
	t.Fatalf("%d histories of a broken lock look right, seed %d", enough, seed)
}

func newScene(t *testing.T, on *topology) *scene {
	t.Helper()
	s := &scene{fleet: newFleet(t, on, 30*time.Second)}
	s.conn = s.server.Client(t)
	for i := range 2 {
		s.goes[i], s.javas[i] = s.goClient(t), s.javaClient(t)
	}
	return s
}

const (
	rounds   = 12              // of each owner
	patience = 5 * time.Second // a thousand times longer than anybody holds a lock
)

// record lets all owners do random things to a new lock at once, and takes down their calls. With a fault, one owner of each Go client has
// it.
func (s *scene) record(t *testing.T, fam family, seed uint64, broken fault) *linear.History {
	t.Helper()
	s.locks++
	lockName := fmt.Sprintf("{%s}:history:%d", name, s.locks)
	var players []*player
	h := new(linear.History)
	join := func(a actor, inGo bool, rng *rand.Rand) {
		players = append(players, &player{fam: fam, actor: a, inGo: inGo, number: len(players), history: h, rng: rng})
	}
	b := bench{s.conn, lockName, config.Prefixed(fam.channel, lockName)}
	for i := range 2 {
		for j := range fam.owners {
			rng := rand.New(rand.NewPCG(seed, uint64(len(players))))
			inGo := newGoActor(s.goes[i], fam, lockName)
			if broken != nil && j == 0 {
				join(broken(b, inGo, rng), true, rng)
			} else {
				join(inGo, true, rng)
			}
			rng = rand.New(rand.NewPCG(seed, uint64(len(players))))
			join(newJavaActor(s.javas[i], j, fam, lockName), false, rng)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var work sync.WaitGroup
	for _, p := range players {
		work.Go(func() { assert.NoError(t, p.play(ctx), "owner %d, seed %d", p.number, seed) })
	}
	work.Wait()
	require.False(t, t.Failed())
	return h
}

// actor is an owner whose calls can be recorded: each with the wall clock before and after it.
type actor interface {
	do(ctx context.Context, c linear.Call) (a linear.Answer, began, ended time.Time, err error)
}

// player is an owner with a plan: it does at random what a caller can do, and never waits for what its own holds keep from it.
type player struct {
	fam     family
	actor   actor
	inGo    bool
	number  int
	history *linear.History
	rng     *rand.Rand
	holds   []linear.Side // as it believes, the newest last
}

func (p *player) play(ctx context.Context) error {
	for range rounds {
		if err := p.act(ctx); err != nil {
			return err
		}
	}
	for len(p.holds) > 0 {
		if err := p.release(ctx, len(p.holds)-1); err != nil {
			return err
		}
	}
	return nil
}

func (p *player) act(ctx context.Context) error {
	switch dice := p.rng.IntN(100); {
	case dice < 3:
		_, err := p.call(ctx, linear.Call{Act: linear.Force, Side: p.side()})
		return err
	case dice < 12:
		_, err := p.call(ctx, linear.Call{Act: linear.Locked, Side: p.side()})
		return err
	case dice < 20 && p.fam.name == fencedFamily.name:
		_, err := p.call(ctx, linear.Call{Act: linear.Token})
		return err
	case dice < 24 && !p.inGo: // a release of what is not held, which a Hold can't ask for
		side := p.side()
		for _, held := range p.holds {
			if held == side {
				return p.acquire(ctx, side, 0)
			}
		}
		_, err := p.call(ctx, linear.Call{Act: linear.Release, Side: side})
		return err
	case len(p.holds) == 0:
		return p.acquire(ctx, p.side(), p.wait())
	case len(p.holds) < 3 && dice < 55:
		return p.acquire(ctx, p.side(), 0)
	default:
		return p.release(ctx, p.rng.IntN(len(p.holds)))
	}
}

func (p *player) side() linear.Side {
	switch {
	case len(p.fam.sides) == 1:
		return linear.Whole
	case p.rng.IntN(3) == 0:
		return linear.Write
	default:
		return linear.Read
	}
}

// wait is a single attempt, a moment, or as long as it takes.
func (p *player) wait() time.Duration {
	switch p.rng.IntN(4) {
	case 0:
		return 0
	case 1:
		return time.Duration(1+p.rng.IntN(15)) * time.Millisecond
	default:
		return patience
	}
}

func (p *player) acquire(ctx context.Context, side linear.Side, wait time.Duration) error {
	a, err := p.call(ctx, linear.Call{Act: linear.Acquire, Side: side, Wait: wait})
	// Redisson's waiters can miss a message, once in some hundred histories, also one that Java has sent. A "1" wakes as many as sleep at that
	// moment, and not who has just been refused and is about to; a "0" may go to one whose wait ends with it, and who leaves without trying.
	if err == nil && !a.OK && wait == patience && p.inGo {
		err = fmt.Errorf("waited %v for a lock that nobody holds for long: a wake-up was lost", wait)
	}
	if a.OK {
		p.holds = append(p.holds, side)
	}
	return err
}

// release leaves a side; which of several holds of it is the actor's choice.
func (p *player) release(ctx context.Context, i int) error {
	side := p.holds[i]
	p.holds = append(p.holds[:i:i], p.holds[i+1:]...)
	_, err := p.call(ctx, linear.Call{Act: linear.Release, Side: side})
	return err
}

func (p *player) call(ctx context.Context, c linear.Call) (linear.Answer, error) {
	c.Owner = p.number
	a, began, ended, err := p.actor.do(ctx, c)
	if err == nil {
		p.history.Add(c, a, began, ended)
	}
	return a, err
}

// goActor is an owner in Go.
type goActor struct {
	owner   redlatch.Owner
	handles map[linear.Side]handle
	holds   map[linear.Side][]*redlatch.Hold
}

func newGoActor(client *redlatch.Client, fam family, lockName string) *goActor {
	a := &goActor{owner: client.NewOwner(), handles: make(map[linear.Side]handle), holds: make(map[linear.Side][]*redlatch.Hold)}
	for side, k := range fam.sides {
		a.handles[side] = k.inGo(client, lockName)
	}
	return a
}

func (g *goActor) do(ctx context.Context, c linear.Call) (a linear.Answer, began, ended time.Time, err error) {
	ctx = redlatch.WithOwner(ctx, g.owner)
	began = time.Now()
	switch c.Act {
	case linear.Acquire:
		a, err = g.acquire(ctx, c)
	case linear.Release:
		a.OK, err = g.release(ctx, c.Side)
	case linear.Force:
		a.OK, err = g.handles[c.Side].ForceUnlock(ctx)
	case linear.Locked:
		a.OK, err = g.handles[c.Side].IsLocked(ctx)
	case linear.Token:
		a.Token, err = g.handles[c.Side].(*fencedlock.Lock).Token(ctx)
	}
	return a, began, time.Now(), err
}

func (g *goActor) acquire(ctx context.Context, c linear.Call) (linear.Answer, error) {
	acquire := g.handles[c.Side].TryLock
	if c.Wait == patience {
		acquire = g.handles[c.Side].Lock
	}
	hold, err := acquire(ctx, redlatch.WithWait(c.Wait))
	switch {
	case errors.Is(err, redlatch.ErrNotAcquired), errors.Is(err, redlatch.ErrReentry):
		return linear.Answer{}, nil
	case err != nil:
		return linear.Answer{}, err
	}
	g.holds[c.Side] = append(g.holds[c.Side], hold)
	return linear.Answer{OK: true, Token: hold.Token()}, nil
}

// forget takes the newest hold of a side: after a loss, those before it are the lost ones.
func (g *goActor) forget(side linear.Side) *redlatch.Hold {
	holds := g.holds[side]
	g.holds[side] = holds[:len(holds)-1]
	return holds[len(holds)-1]
}

func (g *goActor) release(ctx context.Context, side linear.Side) (bool, error) {
	err := g.forget(side).Unlock(ctx)
	if errors.Is(err, redlatch.ErrLost) {
		return false, nil
	}
	return err == nil, err
}

// javaActor is an owner in Java.
type javaActor struct {
	thread *javaagent.Thread
	locks  map[linear.Side]javaagent.Lock
	fenced bool
}

func newJavaActor(client *javaagent.Client, thread int, fam family, lockName string) *javaActor {
	a := &javaActor{
		thread: client.Thread(fmt.Sprintf("%s:history:%d", client.Name(), thread)),
		locks:  make(map[linear.Side]javaagent.Lock), fenced: fam.name == fencedFamily.name,
	}
	for side, k := range fam.sides {
		a.locks[side] = k.java(lockName)
	}
	return a
}

func (j *javaActor) do(ctx context.Context, c linear.Call) (a linear.Answer, began, ended time.Time, err error) {
	var list []javaagent.Arg
	operation := map[linear.Act]string{
		linear.Acquire: javaagent.OpTryLock, linear.Release: javaagent.OpUnlock, linear.Force: javaagent.OpForceUnlock,
		linear.Locked: javaagent.OpIsLocked, linear.Token: javaagent.OpGetToken,
	}[c.Act]
	switch {
	case c.Act == linear.Acquire && j.fenced: // a wait of 0 is named: without it, Redisson waits for ever
		operation, list = javaagent.OpTryLockAndGetToken, []javaagent.Arg{javaagent.Wait(c.Wait)}
	case c.Act == linear.Acquire:
		list = args(c.Wait, 0)
	}
	result, err := j.thread.Do(ctx, javaagent.NewOp(operation, j.locks[c.Side], list...))
	switch {
	case c.Act == linear.Release:
		a.OK = err == nil
		if javaagent.CodeOf(err) == javaagent.CodeIllegalMonitorState {
			err = nil
		}
	case c.Wait > 0 && javaagent.CodeOf(err) == javaagent.CodeTimeout && strings.Contains(err.Error(), "subscription lock"):
		err = nil // a fenced lock's way to say that the wait was over before it could subscribe
	case err != nil:
	case operation == javaagent.OpTryLockAndGetToken || operation == javaagent.OpGetToken:
		a.OK = c.Act == linear.Acquire && !result.IsNull()
		if !result.IsNull() {
			a.Token, err = strconv.ParseInt(string(result.Value), 10, 64)
		}
	default:
		a.OK = result.Bool()
	}
	return a, result.Start, result.End, err
}
