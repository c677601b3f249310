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
	parties  [actors][]party
}

// stage is where programs run: one server, and two clients of each language with two owners each.
type stage struct {
	*fleet
	heard *redistest.Recorder
	goes  [2]*redlatch.Client
	javas [2]*javaagent.Client
}

func newStage(t *testing.T) *stage {
	s := &stage{fleet: newFleet(t, 30*time.Second)}
	s.heard = s.server.Record(t, "*")
	for i := range 2 {
		s.goes[i], s.javas[i] = s.goClient(t), s.javaClient(t)
	}
	return s
}

// cast puts owners in place: owner i is the thread i/2 of client i%2 of its language, which inJava tells.
func (s *stage) cast(t *testing.T, language string, kinds []kind, lockName string, inJava func(owner int) bool) cast {
	c := cast{language: language, lockName: lockName + ":" + language}
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
	s.server.Do(t, "FLUSHALL")
	s.heard.Reset(t)
	names := []string{c.lockName, "<lock>"}
	for i, parties := range c.parties {
		names = append(names, strings.TrimSuffix(parties[0].field(), ":write"), fmt.Sprintf("<owner %d>", i))
	}
	rename := strings.NewReplacer(names...)
	m := model{exclusive: len(p.kinds) == 1 && p.kinds[0].name != once.name && p.kinds[0].name != fairOnce.name}
	background := make(map[int]<-chan error)
	traces := make([]trace, len(p.steps))
	for i, st := range p.steps {
		before := m
		m.apply(st)
		traces[i].answer = s.play(t, c, st, background)
		if len(m.waiting) < len(before.waiting) {
			traces[i].letIn = true
			if err := <-background[m.owner]; err != nil {
				traces[i].answer += "; the waiter: " + err.Error()
			}
		}
		s.observe(t, &traces[i], rename)
	}
	return traces
}

func (s *stage) observe(t *testing.T, tr *trace, rename *strings.Replacer) {
	snap := s.server.Snapshot(t)
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
	for _, m := range s.heard.Messages(t) {
		tr.messages = append(tr.messages, rename.Replace(m.Channel)+" "+m.Payload)
	}
	s.heard.Reset(t)
}

// play makes one step and gives what it answered in words that both languages share.
func (s *stage) play(t *testing.T, c cast, st step, background map[int]<-chan error) string {
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
		background[st.actor] = s.wait(t, p, st.lease)
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
		s.server.Do(t, "PEXPIRE", c.lockName, "0")
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
func (s *stage) wait(t *testing.T, p party, lease time.Duration) <-chan error {
	tries := func() int64 { return s.server.CommandStats(t)["evalsha"] + s.server.CommandStats(t)["eval"] }
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
// REDLATCH_PROGRAMS is their number, REDLATCH_SEED repeats a run.
func randomPrograms(t *testing.T) {
	programs, seed := envOr("REDLATCH_PROGRAMS", "300"), envOr("REDLATCH_SEED", strconv.FormatInt(time.Now().UnixNano(), 10))
	require.NoError(t, flag.Set("rapid.checks", programs))
	require.NoError(t, flag.Set("rapid.seed", seed))
	require.NoError(t, flag.Set("rapid.nofailfile", "true"))
	s := newStage(t)
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
