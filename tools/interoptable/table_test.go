package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/tools/internal/events"
)

func TestEachTopicIsOneLineWithItsNote(t *testing.T) {
	t.Parallel()
	got, ok := render(t,
		start("interop"),
		output("TestInterop/both/random_steps/seed_1", "    x_test.go:9: interop-note: 1 script\n"),
		end("pass", "interop", "TestInterop/both/random_steps/seed_1"),
		output("TestInterop/both/random_steps", "    x_test.go:9: interop-note: 400 scripts compared\n"),
		end("pass", "interop", "TestInterop/both/random_steps"),
		end("pass", "interop", "TestInterop/both"),
		end("pass", "interop", "TestInterop/go-to-java/exclusion"),
		end("pass", "interop", "TestInterop/java-to-go/exclusion"),
		end("pass", "interop", "TestInterop"),
		end("pass", "interop", "TestAgentEndsWithItsInput"),
		end("pass", "interop", ""),
		end("skip", "interop/agent", ""),
	)
	want(t, got, ok, true,
		"single both random steps ok 1.50s 400 scripts compared",
		"single go-to-java exclusion ok 1.50s",
		"single java-to-go exclusion ok 1.50s",
		"3 passed, 0 failed",
	)
}

func TestTopicsOfATopologySayWhichItIs(t *testing.T) {
	t.Parallel()
	got, ok := render(t,
		output("TestInterop/cluster/both/random_steps/seed_1", "    x_test.go:9: interop-note: 1 script\n"),
		end("pass", "interop", "TestInterop/cluster/both/random_steps/seed_1"),
		end("pass", "interop", "TestInterop/cluster/both/random_steps"),
		end("pass", "interop", "TestInterop/cluster/both"),
		end("pass", "interop", "TestInterop/cluster"),
		end("pass", "interop", "TestInteropMulti/sentinel/go-to-java/exclusion"),
		end("fail", "interop", "TestInterop/sentinel/sideways/x"),
		end("fail", "interop", "TestInteropMulti/sentinel/go-to-java"),
		end("fail", "interop", "TestInteropMulti/sentinel"),
		end("fail", "interop", ""),
	)
	want(t, got, ok, false,
		"cluster both random steps ok 1.50s 1 script",
		"sentinel go-to-java exclusion ok 1.50s",
		"sentinel sideways x FAIL 1.50s the direction must be one of go-to-java, java-to-go, both",
		"sentinel go-to-java TestInteropMulti/sentinel/go-to-java FAIL 1.50s",
		"2 passed, 2 failed",
	)
}

func TestAFailedTopicShowsWhatItPrintedAndCountsOnce(t *testing.T) {
	t.Parallel()
	got, ok := render(t,
		output("TestInterop/go-to-java/exclusion", "=== RUN\n"),
		output("TestInterop/go-to-java/exclusion/held", "    both hold it\n"),
		end("fail", "interop", "TestInterop/go-to-java/exclusion/held"),
		end("fail", "interop", "TestInterop/go-to-java/exclusion"),
		end("fail", "interop", "TestInterop/go-to-java"),
		end("fail", "interop", "TestInterop"),
		end("fail", "interop", ""),
	)
	want(t, got, ok, false,
		"single go-to-java exclusion FAIL 1.50s",
		"| === RUN",
		"| both hold it",
		"0 passed, 1 failed",
	)
}

func TestWhatIsNoTopicAppearsOnlyWhenItWentWrong(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		stream []events.Event
		want   []string
	}{
		"other test": {
			stream: []events.Event{end("fail", "interop", "TestAgent/opens"), end("fail", "interop", "TestAgent"), end("fail", "interop", "")},
			want:   []string{"- - TestAgent FAIL 1.50s", "0 passed, 1 failed"},
		},
		"set-up of all": {
			stream: []events.Event{end("fail", "interop", "TestInterop"), end("fail", "interop", "")},
			want:   []string{"- - TestInterop FAIL 1.50s", "0 passed, 1 failed"},
		},
		"set-up of a direction": {
			stream: []events.Event{end("fail", "interop", "TestInterop/both"), end("fail", "interop", "TestInterop"), end("fail", "interop", "")},
			want:   []string{"single both TestInterop/both FAIL 1.50s", "0 passed, 1 failed"},
		},
		"set-up of a topology": {
			stream: []events.Event{end("fail", "interop", "TestInterop/cluster"), end("fail", "interop", "TestInterop"), end("fail", "interop", "")},
			want:   []string{"cluster - TestInterop/cluster FAIL 1.50s", "0 passed, 1 failed"},
		},
		"skipped topic": {
			stream: []events.Event{end("skip", "interop", "TestInterop/both/x"), end("pass", "interop", "")},
			want:   []string{"single both x FAIL 1.50s skipped", "0 passed, 1 failed"},
		},
		"unknown direction": {
			stream: []events.Event{end("pass", "interop", "TestInterop/sideways/x"), end("pass", "interop", "")},
			want: []string{
				"single sideways x FAIL 1.50s the direction must be one of go-to-java, java-to-go, both",
				"0 passed, 1 failed",
			},
		},
		"build": {
			stream: []events.Event{
				{Action: events.BuildOutput, ImportPath: "interop", Output: "x.go:1: no\n"},
				{Action: events.BuildFail, ImportPath: "interop"},
				end("fail", "interop", ""),
			},
			want: []string{"x.go:1: no", "- - interop FAIL 1.50s the package failed as a whole", "0 passed, 1 failed"},
		},
		"timeout": {
			stream: []events.Event{
				output("TestInterop/both/x", "waiting\n"),
				output("", "panic: test timed out\n"),
				end("fail", "interop", ""),
			},
			want: []string{
				"- - interop FAIL 1.50s the package failed as a whole", "| panic: test timed out", "| waiting", "0 passed, 1 failed",
			},
		},
		"broken off": {
			stream: []events.Event{start("interop"), end("pass", "interop", "TestInterop/both/x")},
			want: []string{
				"single both x ok 1.50s", "- - interop FAIL 0.00s the run broke off before the package ended", "1 passed, 1 failed",
			},
		},
		"nothing": {
			want: []string{"no test named TestInterop/<direction>/<topic> ran", "0 passed, 0 failed"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := render(t, tt.stream...)
			want(t, got, ok, false, tt.want...)
		})
	}
}

func start(pkg string) events.Event { return events.Event{Action: "start", Package: pkg} }

func end(action, pkg, test string) events.Event {
	return events.Event{Action: action, Package: pkg, Test: test, Elapsed: 1.5}
}

func output(test, text string) events.Event {
	return events.Event{Action: events.Output, Package: "interop", Test: test, Output: text}
}

func render(t *testing.T, stream ...events.Event) (string, bool) {
	t.Helper()
	var out strings.Builder
	table := newTable(&out)
	for _, e := range stream {
		table.visit(e)
	}
	ok := table.finish()
	return out.String(), ok
}

// want compares line by line, with runs of blanks as one.
func want(t *testing.T, got string, gotOK, wantOK bool, lines ...string) {
	t.Helper()
	var squeezed []string
	for line := range strings.Lines(got) {
		squeezed = append(squeezed, strings.Join(strings.Fields(line), " "))
	}
	if fmt.Sprintf("%q", squeezed) != fmt.Sprintf("%q", lines) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(squeezed, "\n"), strings.Join(lines, "\n"))
	}
	if gotOK != wantOK {
		t.Errorf("run judged good: %v, want %v", gotOK, wantOK)
	}
}
