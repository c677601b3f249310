// Package events reads what `go test -json` writes, for the programs that judge a test run.
package events

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Actions of an Event that these programs look at. The others (start, run, pause, cont, bench) say nothing about an
// outcome.
const (
	Pass        = "pass"
	Fail        = "fail"
	Skip        = "skip"
	Output      = "output"
	BuildOutput = "build-output"
	BuildFail   = "build-fail"
	// Raw is ours: a line that is no event, such as what a child process printed past the test's own output.
	Raw = "raw"
)

// Event is one line of `go test -json`; `go doc test2json` describes the fields.
type Event struct {
	Action  string
	Package string
	// Test is empty where the event concerns the whole package.
	Test string
	// ImportPath stands instead of Package in the events of a build.
	ImportPath string
	// Elapsed is in seconds, and set on pass, fail and skip.
	Elapsed float64
	// Output ends with a newline where the line did.
	Output string
}

// Outcome says whether the event ends a test or a package.
func (e Event) Outcome() bool {
	return e.Action == Pass || e.Action == Fail || e.Action == Skip
}

// Read calls visit for every line of r in order until r ends. Lines of any length are taken. It returns what reading
// r failed with; the events before that have been visited.
func Read(r io.Reader, visit func(Event)) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			visit(parse(line))
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read test events: %w", err)
		}
	}
}

func parse(line string) Event {
	var event Event
	if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &event) != nil || event.Action == "" {
		return Event{Action: Raw, Output: line}
	}
	return event
}
