package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/redlatch/redlatch/tools/internal/events"
	"github.com/redlatch/redlatch/tools/internal/topics"
)

const (
	noteMarker = "interop-note: "
	// nowhere stands in the table for what is no topic: other tests, set-up, whole packages.
	nowhere = "-"
)

var directions = []string{"go-to-java", "java-to-go", "both"}

// table prints a line as soon as its test has ended, so that a long run can be watched.
type table struct {
	out            io.Writer
	passed, failed int
	// open holds the packages that have begun and not ended, each with what its unfinished rows printed.
	open map[string]*packageRun
}

type packageRun struct {
	output map[string]*strings.Builder // by row, see row.id
	failed []string                    // ids of the rows that failed
}

// row is what shares one line of the table: a topic with its subtests, or any other test with its own.
type row struct {
	id        string // the test's name up to where the row's own subtests begin
	topology  string
	direction string
	topic     string
	isTopic   bool
}

func newTable(out io.Writer) *table {
	return &table{out: out, open: map[string]*packageRun{}}
}

// rowOf says in which row a test belongs. The empty test name is the package itself.
func rowOf(pkg, test string) row {
	n, ok := topics.Read(test)
	switch {
	case test == "":
		return row{topology: nowhere, direction: nowhere, topic: pkg}
	case !ok:
		first, _, _ := strings.Cut(test, "/")
		return row{id: first, topology: nowhere, direction: nowhere, topic: first}
	default:
		return row{
			id:        n.Test,
			topology:  cmp.Or(n.Topology, nowhere),
			direction: cmp.Or(n.Direction, nowhere),
			topic:     cmp.Or(n.Topic, test),
			isTopic:   n.Topic != "",
		}
	}
}

func (t *table) visit(e events.Event) {
	switch e.Action {
	case events.Raw, events.BuildOutput:
		fmt.Fprint(t.out, e.Output)
		return
	case events.BuildFail:
		return // the failure of the package follows
	}
	run := t.run(e.Package)
	r := rowOf(e.Package, e.Test)
	switch {
	case e.Action == events.Output:
		run.buffer(r.id).WriteString(e.Output)
	case e.Outcome() && e.Test == "":
		t.endPackage(run, r, e)
		delete(t.open, e.Package)
	case e.Outcome() && e.Test == r.id:
		t.endRow(run, r, e)
	}
}

func (t *table) run(pkg string) *packageRun {
	if t.open[pkg] == nil {
		t.open[pkg] = &packageRun{output: map[string]*strings.Builder{}}
	}
	return t.open[pkg]
}

func (t *table) endRow(run *packageRun, r row, e events.Event) {
	output := run.buffer(r.id).String()
	delete(run.output, r.id)
	note := noteIn(output)
	ok := e.Action == events.Pass
	switch {
	case ok && !r.isTopic:
		return // a test that only sets the stage
	case r.isTopic && !slices.Contains(directions, r.direction):
		ok, note = false, "the direction must be one of "+strings.Join(directions, ", ")
	case e.Action == events.Skip:
		note = "skipped"
	case !ok && run.explains(r.id):
		return // failed only because a row below it did, which has its line already
	}
	t.print(r, ok, e.Elapsed, note)
	if !ok {
		run.failed = append(run.failed, r.id)
		t.quote(output)
	}
}

// endPackage reports a package that failed without any failed row to explain it: it did not build, its set-up failed,
// it timed out or the process died. What its unfinished tests had printed is shown then.
func (t *table) endPackage(run *packageRun, r row, e events.Event) {
	if e.Action != events.Fail || len(run.failed) > 0 {
		return
	}
	t.print(r, false, e.Elapsed, "the package failed as a whole")
	for _, id := range slices.Sorted(maps.Keys(run.output)) {
		t.quote(run.output[id].String())
	}
}

// finish prints the totals and says whether the run was good.
func (t *table) finish() bool {
	for _, pkg := range slices.Sorted(maps.Keys(t.open)) {
		t.print(rowOf(pkg, ""), false, 0, "the run broke off before the package ended")
	}
	if t.passed+t.failed == 0 {
		fmt.Fprintln(t.out, "no test named TestInterop/<direction>/<topic> ran")
	}
	fmt.Fprintf(t.out, "%d passed, %d failed\n", t.passed, t.failed)
	return t.failed == 0 && t.passed > 0
}

func (t *table) print(r row, ok bool, seconds float64, note string) {
	result := "ok"
	if ok {
		t.passed++
	} else {
		t.failed++
		result = "FAIL"
	}
	line := fmt.Sprintf("%-12s  %-10s  %-52s  %-4s %8.2fs  %s", r.topology, r.direction, r.topic, result, seconds, note)
	fmt.Fprintln(t.out, strings.TrimRight(line, " "))
}

func (t *table) quote(output string) {
	for line := range strings.Lines(output) {
		fmt.Fprint(t.out, "    | ", strings.TrimRight(line, "\n"), "\n")
	}
}

func (run *packageRun) buffer(id string) *strings.Builder {
	if run.output[id] == nil {
		run.output[id] = &strings.Builder{}
	}
	return run.output[id]
}

// explains says whether a row below id has failed.
func (run *packageRun) explains(id string) bool {
	return slices.ContainsFunc(run.failed, func(failed string) bool { return strings.HasPrefix(failed, id+"/") })
}

func noteIn(output string) string {
	at := strings.LastIndex(output, noteMarker)
	if at < 0 {
		return ""
	}
	note, _, _ := strings.Cut(output[at+len(noteMarker):], "\n")
	return strings.TrimSpace(note)
}
