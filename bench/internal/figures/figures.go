// Package figures collects what benchmarks have measured of Redlatch and of those that it is compared with, and prints it for programs and
// for people.
package figures

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"text/tabwriter"
)

// Sheet is the figures of one run. It is safe for concurrent use.
type Sheet struct {
	out io.Writer

	mu      sync.Mutex
	figures []figure // guarded by mu
}

type figure struct{ name, side, value, unit string }

// New makes a sheet that prints each figure to out as it comes in.
func New(out io.Writer) *Sheet { return &Sheet{out: out} }

// Count adds a whole number.
func (s *Sheet) Count(name, side string, value int, unit string) {
	s.add(figure{name, side, strconv.Itoa(value), unit})
}

// Number adds a measure, with two decimals.
func (s *Sheet) Number(name, side string, value float64, unit string) {
	s.add(figure{name, side, strconv.FormatFloat(value, 'f', 2, 64), unit})
}

// add prints the line "FIGURE<tab>name<tab>side<tab>value<tab>unit".
func (s *Sheet) add(f figure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.figures = append(s.figures, f)
	fmt.Fprintf(s.out, "FIGURE\t%s\t%s\t%s\t%s\n", f.name, f.side, f.value, f.unit)
}

// Table prints all figures, a line for each name and a column for each side, both in the order in which they came first. A side without
// that figure has a dash.
func (s *Sheet) Table() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names, sides []string
	cells := make(map[[2]string]string)
	for _, f := range s.figures {
		name := f.name + " (" + f.unit + ")"
		names, sides = appendNew(names, name), appendNew(sides, f.side)
		cells[[2]string{name, f.side}] = f.value
	}
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "\t")
	for _, side := range sides {
		fmt.Fprint(w, side, "\t")
	}
	fmt.Fprintln(w)
	for _, name := range names {
		fmt.Fprint(w, name, "\t")
		for _, side := range sides {
			value, measured := cells[[2]string{name, side}]
			if !measured {
				value = "-"
			}
			fmt.Fprint(w, value, "\t")
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush() // to the terminal, as all lines before
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}
