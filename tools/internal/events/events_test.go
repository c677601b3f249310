package events

import (
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
)

func TestReadKeepsEveryLineInOrder(t *testing.T) {
	t.Parallel()
	const stream = `{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0.25}` + "\n" +
		"a JVM's last words\n" +
		`{"Action":"build-output","ImportPath":"p [p.test]","Output":"x.go:1: no\n"}` + "\n" +
		`{"half an event`
	want := []Event{
		{Action: Pass, Package: "p", Test: "TestA", Elapsed: 0.25},
		{Action: Raw, Output: "a JVM's last words\n"},
		{Action: BuildOutput, ImportPath: "p [p.test]", Output: "x.go:1: no\n"},
		{Action: Raw, Output: `{"half an event`},
	}

	var got []Event
	if err := Read(strings.NewReader(stream), func(e Event) { got = append(got, e) }); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got  %+v\nwant %+v", got, want)
	}
}

func TestReadTakesLinesLongerThanAnyBuffer(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	var got Event
	err := Read(strings.NewReader(`{"Action":"output","Output":"`+long+`"}`), func(e Event) { got = e })
	if err != nil || got.Output != long {
		t.Fatalf("err %v, %d characters of output, want %d", err, len(got.Output), len(long))
	}
}

func TestReadReportsABrokenStream(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk gone")
	err := Read(io.MultiReader(strings.NewReader("line\n"), failing{broken}), func(Event) {})
	if !errors.Is(err, broken) {
		t.Fatalf("got %v, want it to wrap %v", err, broken)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
