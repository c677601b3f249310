package interop

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/interop/javaagent"
)

// trace is what one run of a program shows after a step.
type trace struct {
	answer   string
	letIn    bool // a waiter
	messages []string
	state    redistest.Snapshot
	deaths   map[string]time.Duration // of a fair lock's waiters: in how long each counts as dead
}

// cast is who plays the owners of a program, on a lock of its own name: so nobody inherits from another run what a client
// remembers of a lock. An owner has a party for each of the program's kinds.
type cast struct {
	language string
	lockName string
	server   *redistest.Server // the master of the lock
	parties  [actors][]party
}

// stage is where programs run: two clients of each language with two owners each, on one Redis.
type stage struct {
	*fleet
	goes  [2]*redlatch.Client
	javas [2]*javaagent.Client
}

func newStage(t *testing.T, on *topology) *stage {
	s := &stage{fleet: newFleet(t, on, 30*time.Second)}
	for i := range 2 {
		s.goes[i], s.javas[i] = s.goClient(t), s.javaClient(t)
	}
	return s
}

// cast puts owners in place: owner i is the thread i/2 of client i%2 of its language, which inJava tells.
func (s *stage) cast(t *testing.T, language string, kinds []kind, lockName string, inJava func(owner int) bool) cast {
	c := cast{language: language, lockName: lockName + ":" + language}
	c.server = s.masterOf(c.lockName)
	for i := range actors {
		owner := s.goes[i%2].NewOwner()
		for _, k := range kinds {
			if inJava(i) {
				c.parties[i] = append(c.parties[i], newJavaParty(t, s.javas[i%2], strconv.Itoa(i/2), k, c.lockName))
				continue
			}
			p := newGoParty(s.goes[i%2], k, c.lockName)
			p.owner = owner
			c.parties[i] = append(c.parties[i], p)
		}
	}
	return c
}

// casts are all Java, which is the standard, all Go, and mixed.
func (s *stage) casts(t *testing.T, kinds []kind, lockName string) []cast {
	return []cast{
		s.cast(t, "Java", kinds, lockName, func(int) bool { return true }),
		s.cast(t, "Go", kinds, lockName, func(int) bool { return false }),
		s.cast(t, "mixed", kinds, lockName, func(owner int) bool { return owner%2 == 0 }),
	}
}

// run plays a program and takes down what shows after each step.
func (s *stage) run(t *testing.T, c cast, p program) []trace {
	s.flush(t)
	names := []string{c.lockName, "<lock>"}
	var owners []string
	for i, parties := range c.parties {
		owners = append(owners, strings.TrimSuffix(parties[0].field(), ":write"))
		names = append(names, owners[i], fmt.Sprintf("<owner %d>", i))
	}
	heard := s.listen(t, c.lockName, channelsOf(c.lockName, owners...)...)
	defer heard.stop()
	rename := strings.NewReplacer(names...)
	m := model{exclusive: len(p.kinds) == 1 && p.kinds[0].name != once.name && p.kinds[0].name != fairOnce.name}
	background := make(map[int]<-chan error)
	traces := make([]trace, len(p.steps))
	for i, st := range p.steps {
		before := m
		m.apply(st)
		traces[i].answer = c.play(t, st, background)
		if len(m.waiting) < len(before.waiting) {
			traces[i].letIn = true
			if err := <-background[m.owner]; err != nil {
				traces[i].answer += "; the waiter: " + err.Error()
			}
		}
		c.observe(t, &traces[i], heard, rename)
	}
	return traces
}

func (c cast) observe(t *testing.T, tr *trace, heard listener, rename *strings.Replacer) {
	snap := c.server.Snapshot(t)
	kept := snap.Entries[:0]
	for _, e := range snap.Entries {
		if !ignoredKey(e.Key) {
			kept = append(kept, e)
		}
	}
	snap.Entries = kept
	tr.deaths = make(map[string]time.Duration)
	for _, e := range snap.Entries {
		if e.Type != "zset" {
			continue
		}
		for _, item := range e.Items {
			ms, err := strconv.ParseFloat(item.Value, 64)
			require.NoError(t, err)
			tr.deaths[rename.Replace(item.Name)] = time.UnixMilli(int64(ms)).Sub(snap.At)
		}
	}
	tr.state = snap.MapScores(func(string, float64) float64 { return 0 }).Map(rename.Replace)
	for _, m := range heard.Messages(t) {
		tr.messages = append(tr.messages, rename.Replace(m.Channel)+" "+m.Payload)
	}
	heard.Reset(t)
}

// play makes one step and gives what it answered in words that both languages share.
func (c cast) play(t *testing.T, st step, background map[int]<-chan error) string {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	p := c.parties[st.actor][st.side]
	var value any
	var err error
	switch st.op {
	case opTry:
		value, err = p.tryLock(ctx, 0, st.lease)
	case opGiveUp:
		value, err = p.tryLock(ctx, aMoment, st.lease)
	case opWait:
		background[st.actor] = c.wait(t, p, st.lease)
		value = "waits"
	case opUnlock:
		err = p.unlock(ctx)
	case opForce:
		value, err = p.forceUnlock(ctx)
	case opCount:
		value, err = p.holdCount(ctx)
	case opLocked:
		value, err = p.isLocked(ctx)
	case opExpire:
		c.server.Do(t, "PEXPIRE", c.lockName, "0")
	}
	for _, known := range []error{errNotHeld, errRefused} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	switch {
	case err != nil:
		return "error: " + err.Error()
	case value == nil:
		return "done"
	default:
		return fmt.Sprint(value)
	}
}

// wait starts a waiting call and returns when the server has seen its second try, which comes after its subscription.
func (c cast) wait(t *testing.T, p party, lease time.Duration) <-chan error {
	tries := func() int64 { return c.server.CommandStats(t)["evalsha"] + c.server.CommandStats(t)["eval"] }
	before := tries()
	acquired := make(chan error, 1)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
	go func() {
		defer cancel()
		acquired <- p.lock(ctx, lease)
	}()
	require.Eventually(t, func() bool { return tries() >= before+2 }, 15*time.Second, time.Millisecond)
	return acquired
}

// randomPrograms runs random programs in Java, in Go, and with owners of both, and compares everything after each step.
// REDLATCH_PROGRAMS is their number, by default 300 on one server and less on others where not everything is to run; REDLATCH_SEED repeats a run.
func randomPrograms(t *testing.T, on *topology) {
	programs, seed := envOr("REDLATCH_PROGRAMS", on.programs()), envOr("REDLATCH_SEED", strconv.FormatInt(time.Now().UnixNano(), 10))
	require.NoError(t, flag.Set("rapid.checks", programs))
	require.NoError(t, flag.Set("rapid.seed", seed))
	require.NoError(t, flag.Set("rapid.nofailfile", "true"))
	s := newStage(t, on)
	ran, steps := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		p := drawProgram(rt)
		ran++
		steps += len(p.steps)
		casts := s.casts(t, p.kinds, "program:"+strconv.Itoa(ran))
		standard := s.run(t, casts[0], p)
		for _, c := range casts[1:] {
			if diff := compare(p, standard, s.run(t, c, p)); diff != "" {
				rt.Fatalf("%s differs from Java at %s\nprogram:\n%s", c.language, diff, p)
			}
		}
	})
	t.Logf("interop-note: %d programs, %d steps in each of 3 casts, 0 divergences, seed %s", ran, steps, seed)
	for _, d := range differences {
		t.Logf("on purpose: %s, because %s", d.difference, d.reason)
	}
}

func envOr(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}
