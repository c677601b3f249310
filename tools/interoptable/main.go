// Interoptable turns a run of the interop tests into a table, one line for each direction and topic:
//
//	go test -json ./interop/... | interoptable
//
//	single        go-to-java  woken by the release                        ok      0.31s
//	cluster       both        random step scripts leave the same state    ok     41.70s  400 scripts compared
//	2 passed, 0 failed
//
// A topic is a subtest named TestInterop…/<direction>/<topic>, which ran on one redis-server, or
// TestInterop…/<topology>/<direction>/<topic> with the topology cluster, sentinel, master-slave or replicated; the direction
// is go-to-java (Go acts, Java sees it), java-to-go, or both. What a topic wants to have said beside its result it logs as a
// line that begins with "interop-note: " (t.Log("interop-note: 400 scripts compared")); the last such line counts.
//
// Everything else in the stream appears only where it went wrong: a failed or skipped test, a package that did not
// build or ended early. A failure is followed by what the test printed. Interoptable exits 1 when anything failed, was
// skipped, or no topic ran.
package main

import (
	"fmt"
	"os"

	"github.com/redlatch/redlatch/tools/internal/events"
)

func main() {
	table := newTable(os.Stdout)
	err := events.Read(os.Stdin, table.visit)
	if err != nil {
		fmt.Fprintln(os.Stderr, "interoptable:", err)
	}
	if ok := table.finish(); !ok || err != nil {
		os.Exit(1)
	}
}
