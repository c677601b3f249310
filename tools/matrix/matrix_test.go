package main

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/tools/internal/events"
)

func TestReleasesAreOlderByTheirNumbers(t *testing.T) {
	t.Parallel()
	order := []string{"3.9.1", "3.16.8", "3.19.0", "4.0.0", "4.7", "4.7.0", "4.10.0"}
	for i, a := range order {
		for j, b := range order {
			if got := older(a, b); got != (i < j) {
				t.Errorf("%s is older than %s: %v", a, b, got)
			}
		}
	}
}

func TestWhatAReleaseDoesNotHaveIsNotRunAndSaidSo(t *testing.T) {
	t.Parallel()
	c := &cell{Redisson: "3.16.8", Server: "7.0.15", Topology: "single"}
	topics := c.topics()
	for _, topic := range topics {
		if strings.HasPrefix(topic, "fenced") || strings.HasPrefix(topic, "non-reentrant") || strings.HasPrefix(topic, "grouped") {
			t.Errorf("%s runs", topic)
		}
	}
	left := 0
	for n := range maps.Values(c.Absent) {
		left += n
	}
	if left == 0 || len(topics)+left != len(selection) {
		t.Errorf("%d topics run and %d are said to be absent, of %d", len(topics), left, len(selection))
	}
	c.Redisson = "4.7.0"
	if topics := c.topics(); len(topics) != len(selection) || len(c.Absent) != 0 {
		t.Errorf("the newest runs %d of %d", len(topics), len(selection))
	}
}

func TestEveryDifferenceNamesTopicsOfTheSelectionAndAReason(t *testing.T) {
	t.Parallel()
	for _, d := range differences {
		if d.name == "" || d.what == "" || d.reason == "" || d.workaround == "" {
			t.Errorf("%q does not say all", d.name)
		}
		oldest := &cell{Redisson: d.before, Topology: d.topology} // any release of those it is about
		if d.from != "" {
			oldest.Redisson = d.from
		} else if d.before != "" {
			oldest.Redisson = "3.0.0"
		}
		if len(d.topics) > 0 && !d.absent && d.says == "" {
			t.Errorf("%q excuses any failure", d.name)
		}
		if len(d.topics) > 0 && !slices.ContainsFunc(selection, func(topic string) bool { return oldest.find(topic, d.absent) == d }) {
			t.Errorf("%q is met by no topic", d.name)
		}
	}
}

func TestOnlyUnknownFailuresCountAsFailed(t *testing.T) {
	t.Parallel()
	c := &cell{Redisson: "3.24.3", Server: "7.0.15", Topology: "cluster"}
	v := verdict{cell: c, seen: make(map[string]bool), said: make(map[string]*strings.Builder)}
	for _, e := range []events.Event{
		{Action: events.Pass, Test: "TestInterop/cluster/go-to-java/plain:_exclusion/a_step_of_it"},
		{Action: events.Pass, Test: "TestInterop/cluster/go-to-java/plain:_exclusion"},
		{Action: events.Pass, Test: "TestInterop/cluster/go-to-java"},
		{Action: events.Fail, Test: "TestInterop/cluster/java-to-go/plain:_exclusion"},
		{
			Action: events.Output, Test: "TestInterop/cluster/java-to-go/write:_hold_counts",
			Output: "Error: Expected error with \"not held by this owner\" in chain but got nil.\n",
		},
		{Action: events.Fail, Test: "TestInterop/cluster/java-to-go/write:_hold_counts"},
		{Action: events.Output, Test: "TestInterop/cluster/go-to-java/write:_hold_counts", Output: "Error: something else\n"},
		{Action: events.Fail, Test: "TestInterop/cluster/go-to-java/write:_hold_counts"},
		{Action: events.Fail, Test: "TestInterop/cluster/java-to-go"},
	} {
		v.visit(e)
	}
	v.finish([]string{"plain: exclusion", "write: hold counts", "fair: exclusion"}, true)
	want := []string{"java-to-go: plain: exclusion", "go-to-java: write: hold counts", "did not run: fair: exclusion"}
	if !slices.Equal(c.Failed, want) || c.Passed != 1 || c.Known["write release"] != 1 {
		t.Errorf("failed %q, %d passed, known %v", c.Failed, c.Passed, c.Known)
	}
}

func TestTheNewestHasNoLicenceToFail(t *testing.T) {
	t.Parallel()
	c := &cell{Redisson: "4.7.0", Server: "7.0.15", Topology: "single"}
	for _, topic := range selection {
		if d := c.find(topic, false); d != nil {
			t.Errorf("%s may fail: %s", topic, d.what)
		}
	}
}

func TestACellWhoseTestsBreakOffFails(t *testing.T) {
	t.Parallel()
	c := &cell{Redisson: "4.7.0", Topology: "single"}
	v := verdict{cell: c, seen: map[string]bool{"plain: exclusion": true}}
	v.finish([]string{"plain: exclusion"}, true)
	if len(c.Failed) != 1 {
		t.Errorf("failed: %q", c.Failed)
	}
}

func TestTheDocumentShowsFailuresAndWhatWasNotRun(t *testing.T) {
	t.Parallel()
	m := &matrix{redissons: []string{"4.7.0"}, servers: []string{"valkey-9.1.2"}, topologies: []string{"single", "cluster", "sentinel"}}
	m.cells = m.order()
	m.cells[0].Passed, m.cells[0].Day = 12, "2026-12-01"
	m.cells[1].Passed, m.cells[1].Failed, m.cells[1].Day = 3, []string{"both: x"}, "2026-12-03"
	m.cells[2].NotRun = "the time was over"
	text := m.document()
	for _, want := range []string{
		"The cells ran on 2026-12-01 to 2026-12-03, ",
		"| 4.7.0 | Valkey 9.1.2 | 12 passed | 3 passed, **1 failed** | not run: the time was over |\n",
		"- Redisson 4.7.0, valkey-9.1.2, cluster: both: x\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the document lacks %q:\n%s", want, text)
		}
	}
}

func TestServerThatCannotBeASentinelIsACellThatWasNotRun(t *testing.T) {
	t.Parallel()
	const test = "TestInterop/sentinel/both/plain:_exclusion"
	c := &cell{Redisson: "4.7.0", Server: "7.0.15", Topology: "sentinel"}
	v := verdict{cell: c, seen: make(map[string]bool), said: make(map[string]*strings.Builder)}
	v.visit(events.Event{Action: events.Output, Test: test, Output: "Messages: " + noSentinel + ": install another"})
	v.visit(events.Event{Action: events.Fail, Test: test})
	v.finish([]string{"plain: exclusion"}, true)
	if c.NotRun != noSentinel || len(c.Failed) > 0 {
		t.Errorf("not run %q, failed %v", c.NotRun, c.Failed)
	}
}
