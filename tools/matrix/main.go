// Matrix runs a choice of the interop tests over releases of Redisson, servers and topologies, and writes what came out as a document:
//
//	matrix -out ../docs/compatibility.md
//
// It runs in the folder tools, as make matrix has it. A cell is one Redisson, one server and one topology. What a release of Redisson does
// not have, and what is known to differ, is data (known.go) with its reason, and appears in the document. Matrix exits with 1 when a
// cell failed in another way, or when none ran.
//
// What the cells gave is kept in .build/matrix.json, so that with -resume a run goes on where another was stopped, or did not do well.
//
// With -for, no cell is begun after that time; the document says which were not run. VERBOSE=1 shows what the tests printed where one failed.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	allRedissons  = "4.7.0,4.3.0,4.0.0,3.52.0,3.45.0,3.24.3,3.16.8"
	allServers    = "7.0.15,8.2.3,valkey-9.1.2,6.2.5"
	allTopologies = "single,cluster,sentinel"
)

func main() { os.Exit(run()) }

func run() (code int) {
	redissons := flag.String("redisson", allRedissons, "the releases of Redisson")
	servers := flag.String("servers", allServers, "the servers, by the names that redisproc has for them")
	topologies := flag.String("topologies", allTopologies, "the topologies")
	out := flag.String("out", "", "where to write the document; empty: the screen")
	limit := flag.Duration("for", 0, "begin no cell after this time; 0: no limit")
	resume := flag.Bool("resume", false, "run only the cells that no earlier run has brought to a good end")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	m := matrix{
		redissons: strings.Split(*redissons, ","), servers: strings.Split(*servers, ","), topologies: strings.Split(*topologies, ","),
		file: filepath.Join("..", ".build", "matrix.json"), again: !*resume,
	}
	if *limit > 0 {
		m.until = time.Now().Add(*limit)
	}
	ok, err := m.all(ctx)
	if err == nil {
		err = write(*out, m.document())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
	}
	if err != nil || !ok {
		return 1
	}
	return 0
}

func write(path, text string) error {
	if path == "" {
		fmt.Print(text)
		return nil
	}
	return os.WriteFile(path, []byte(text), 0o644) //nolint:gosec // a document
}

// matrix is one run.
type matrix struct {
	redissons, servers, topologies []string

	until time.Time // zero: no end
	file  string    // keeps the cells between runs
	again bool      // what an earlier run did is not taken over
	cells []*cell
}

// earlier are the cells that earlier runs have brought to a good end, by their names; with again there are none.
func (m *matrix) earlier() map[string]*cell {
	good := make(map[string]*cell)
	text, err := os.ReadFile(m.file)
	var cells []*cell
	if m.again || err != nil || json.Unmarshal(text, &cells) != nil {
		return good
	}
	for _, c := range cells {
		if c.NotRun == "" && len(c.Failed) == 0 {
			good[c.String()] = c
		}
	}
	return good
}

// keep writes down what has been done so far.
func (m *matrix) keep() error {
	text, err := json.Marshal(m.cells)
	if err == nil {
		err = os.WriteFile(m.file, text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write down what has been done: %w", err)
	}
	return nil
}

// all runs all cells, one after the other, and says whether each did as it should.
func (m *matrix) all(ctx context.Context) (ok bool, err error) {
	program, err := build(ctx)
	if err != nil {
		return false, err
	}
	earlier := m.earlier()
	ok = true
	for _, c := range m.order() {
		if done := earlier[c.String()]; done != nil {
			c = done
		} else if ctx.Err() != nil || !m.until.IsZero() && time.Now().After(m.until) {
			c.NotRun = "the time was over"
		} else if err := c.run(ctx, program); err != nil {
			return false, err
		}
		ok = ok && len(c.Failed) == 0
		m.cells = append(m.cells, c)
		fmt.Println(c.line())
		if err := m.keep(); err != nil {
			return false, err
		}
	}
	ran := slices.ContainsFunc(m.cells, func(c *cell) bool { return c.NotRun == "" })
	return ok && ran, nil
}

// order is the cells in the order in which they run: when the time is over, all releases of Redisson have met the first servers.
func (m *matrix) order() (cells []*cell) {
	for _, server := range m.servers {
		for _, redisson := range m.redissons {
			for _, topology := range m.topologies {
				cells = append(cells, &cell{Redisson: redisson, Server: server, Topology: topology})
			}
		}
	}
	return cells
}

// build makes one program of the tests for all cells. It is in the folder of the tests, where go test would run it.
func build(ctx context.Context) (string, error) {
	program, err := filepath.Abs(filepath.Join("..", ".build", "interop.test"))
	if err != nil {
		return "", fmt.Errorf("find the folder of the tests: %w", err)
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-o", program, "./interop") //nolint:gosec // a path of ours
	cmd.Dir = ".."
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the interop tests: %w\n%s", err, output)
	}
	return program, nil
}
