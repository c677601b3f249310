package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/redlatch/redlatch/tools/internal/events"
	"github.com/redlatch/redlatch/tools/internal/topics"
)

// cell is one Redisson on one server in one topology, and what came out. Its exported fields are kept in a file.
type cell struct {
	Redisson, Server, Topology string

	NotRun string         // why; "" when it ran
	Passed int            // checks: a topic in one direction
	Known  map[string]int // checks that failed as they were known to, by the name of the difference
	Absent map[string]int // topics that there are none of in this release, by the name of the difference
	Failed []string       // checks that failed otherwise, and topics that did not run
	Took   time.Duration
	Day    string // on which it ran, as 2026-12-01
}

func (c *cell) String() string {
	return fmt.Sprintf("Redisson %s, %s, %s", c.Redisson, c.Server, c.Topology)
}

// line is what the screen shows of it.
func (c *cell) line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-45s %s", c, c.result())
	if c.NotRun == "" {
		fmt.Fprintf(&b, "  %.0fs", c.Took.Seconds())
	}
	for _, failed := range c.Failed {
		fmt.Fprintf(&b, "\n    failed: %s", failed)
	}
	return b.String()
}

// topics are those of the selection that this cell runs; the others are noted as absent.
func (c *cell) topics() (list []string) {
	c.Absent = make(map[string]int)
	for _, topic := range selection {
		if d := c.find(topic, true); d != nil {
			c.Absent[d.name]++
		} else {
			list = append(list, topic)
		}
	}
	return list
}

// find is the difference that is known of a topic in this cell, nil for none.
func (c *cell) find(topic string, absent bool) *difference {
	for _, d := range differences {
		if d.absent == absent && d.concerns(c) && slices.ContainsFunc(d.topics, func(pattern string) bool {
			return regexp.MustCompile("^(" + pattern + ")$").MatchString(topic)
		}) {
			return d
		}
	}
	return nil
}

// run runs the tests. An error is about the machinery alone.
func (c *cell) run(ctx context.Context, program string) error {
	topics := c.topics()
	quoted := make([]string, len(topics))
	for i, topic := range topics {
		quoted[i] = regexp.QuoteMeta(topic)
	}
	parallel := "2" // each of two tests has servers of its own
	if c.Topology == "single" {
		parallel = "4"
	}
	cmd := exec.CommandContext(ctx, "go", "tool", "test2json", "-p", "interop", program, //nolint:gosec // a path of ours
		"-test.v=test2json", "-test.timeout", "5m", "-test.parallel", parallel, "-test.run", "^TestInterop(Multi|Grouped)?$")
	cmd.Dir = filepath.Join("..", "interop")
	cmd.Env = append(os.Environ(), "REDLATCH_REDISSON_VERSION="+c.Redisson, "REDLATCH_REDIS_VERSION="+c.Server,
		"REDLATCH_TOPOLOGY="+c.Topology, "REDLATCH_TOPICS=^("+strings.Join(quoted, "|")+")$", "REDLATCH_PROGRAMS=20")
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("run the tests: %w", err)
	}
	cmd.Stderr = os.Stderr
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("run the tests: %w", err)
	}
	v := verdict{cell: c, seen: make(map[string]bool), said: make(map[string]*strings.Builder)}
	if err := events.Read(out, v.visit); err != nil {
		return err
	}
	err = cmd.Wait()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		return fmt.Errorf("run the tests: %w", err)
	}
	c.Took, c.Day = time.Since(began), began.Format(time.DateOnly)
	v.finish(topics, err != nil)
	return nil
}

// noSentinel is how the tests say that they need another server program. There they fail; here it is a cell that does not exist.
const noSentinel = "the server program cannot be a sentinel"

// verdict makes counts of the events of a cell's tests.
type verdict struct {
	*cell
	seen   map[string]bool             // topics
	unable bool                        // the server program can't be what the cell asks for
	output []string                    // what the program printed, to be shown where it broke
	said   map[string]*strings.Builder // what each test printed
}

func (v *verdict) visit(e events.Event) {
	if e.Action == events.Output || e.Action == events.Raw {
		v.output = append(v.output, strings.TrimSpace(e.Output))
		if v.said[e.Test] == nil {
			v.said[e.Test] = new(strings.Builder)
		}
		v.said[e.Test].WriteString(e.Output)
		v.unable = v.unable || strings.Contains(e.Output, noSentinel)
		return
	}
	n, _ := topics.Read(e.Test)
	if n.Topic == "" || n.Test != e.Test || !e.Outcome() {
		return
	}
	direction, topic := n.Direction, n.Topic
	v.seen[topic] = true
	switch d := v.find(topic, false); {
	case e.Action == events.Pass:
		v.Passed++
	case d != nil && v.said[e.Test] != nil && strings.Contains(v.said[e.Test].String(), d.says):
		if v.Known == nil {
			v.Known = make(map[string]int)
		}
		v.Known[d.name]++
	default:
		v.Failed = append(v.Failed, direction+": "+topic)
	}
}

// finish adds what the single tests do not tell: that they were not there.
func (v *verdict) finish(topics []string, broken bool) {
	if v.unable && v.Passed == 0 {
		v.NotRun = noSentinel
		v.Failed = nil
		return
	}
	for _, topic := range topics {
		if !v.seen[topic] {
			v.Failed = append(v.Failed, "did not run: "+topic)
		}
	}
	if broken && len(v.Failed) == 0 && len(v.Known) == 0 {
		v.Failed = append(v.Failed, "the tests ended with an error")
	}
	if len(v.Failed) > 0 && os.Getenv("VERBOSE") != "" {
		fmt.Println(strings.Join(v.output, "\n"))
	}
}
