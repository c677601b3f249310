package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// Lines shows the demo as one line of text for each event.
type Lines struct{ out io.Writer }

// NewLines makes a viewer that writes text to out.
func NewLines(out io.Writer) *Lines { return &Lines{out} }

var _ Viewer = (*Lines)(nil)

// Begin writes what is to be seen.
func (l *Lines) Begin(i Info, _ *Board) { fmt.Fprintln(l.out, headline(i)) }

// Event writes one line.
func (l *Lines) Event(e Event) {
	text := fmt.Sprintf("%7.3f s  %-7s %s", e.At.Seconds(), e.Worker, words(e))
	fmt.Fprintln(l.out, text)
}

// End writes the verdict.
func (l *Lines) End(v Verdict) {
	for _, line := range verdictLines(v) {
		fmt.Fprintln(l.out, line)
	}
}

func headline(i Info) string {
	workers := plural(int64(len(i.Workers)), "worker")
	if i.Java != "" {
		workers += ", one of them " + i.Java + ","
	}
	contend := "contend for"
	if len(i.Workers) == 1 {
		contend = "uses"
	}
	return fmt.Sprintf("%s %s the %s lock %q for %v, on %s, lease %v", workers, contend, i.Kind, i.Lock, i.For, i.Server, i.Lease)
}

// words says what happened.
func words(e Event) string {
	switch e.Kind {
	case Waiting:
		return fmt.Sprintf("waits     %ssection %d", map[Mode]string{Reads: "to read, ", Writes: "to write, "}[e.Mode], e.Section)
	case Acquired:
		verb := map[Mode]string{Reads: "reads", Writes: "writes", "": "holds"}[e.Mode]
		return fmt.Sprintf("%-9s section %d, waited %s", verb, e.Section, short(e.Took))
	case Released:
		return fmt.Sprintf("releases  section %d, held %s", e.Section, short(e.Took))
	case Crashed:
		return "crashes   and holds the lock: nobody unlocks it, its key expires in " + short(e.Took)
	case Restarted:
		return "restarts  as a new client"
	case Lost:
		return fmt.Sprintf("lost it   in section %d: %s", e.Section, e.Detail)
	case Company:
		return fmt.Sprintf("OVERLAP   in section %d: %s", e.Section, e.Detail)
	case Left:
		return "ends"
	case Failed:
		return "FAILS     " + e.Detail
	default:
		return string(e.Kind)
	}
}

// verdictLines are the verdict in words, the first line the short one.
func verdictLines(v Verdict) []string {
	var lines []string
	if v.OK() {
		lines = append(lines, "OK      "+score(v))
	} else {
		lines = append(lines, "FAILED  "+score(v))
		for _, problem := range v.Problems {
			lines = append(lines, "        "+problem)
		}
	}
	if len(v.Workers) <= maxShares {
		lines = append(lines, "        "+shares(v.Workers))
	}
	if v.HandOffs > 0 {
		lines = append(lines, fmt.Sprintf("        hand-off from release to the next worker's grant: p50 %s, p99 %s (%d seen)",
			short(v.P50), short(v.P99), v.HandOffs))
	}
	if c := v.Crash; c != nil && c.Next != "" {
		lines = append(lines, fmt.Sprintf("        %s crashed with the lock; its key expired, and %s had the lock %s after the crash",
			c.Worker, c.Next, short(c.After)))
	}
	if v.Lost > 0 {
		lines = append(lines, fmt.Sprintf("        %s lost before the section's end; such a section does not write", plural(int64(v.Lost), "lock")))
	}
	return lines
}

// maxShares is how many workers fit a line.
const maxShares = 8

func shares(workers []Share) string {
	parts := make([]string, len(workers))
	for i, w := range workers {
		parts[i] = fmt.Sprintf("%s %d", w.Worker, w.Sections)
		if w.Reads > 0 {
			parts[i] += fmt.Sprintf(" (%d read)", w.Reads)
		}
	}
	return "sections by worker: " + strings.Join(parts, ", ")
}

func score(v Verdict) string {
	sections := plural(v.Sections, "section")
	if v.Reads > 0 {
		sections += fmt.Sprintf(" (%d wrote, %d read, up to %d at once)", v.Sections-v.Reads, v.Reads, v.Together)
	}
	return fmt.Sprintf("%s by %s, counter %d, overlaps %d", sections, plural(int64(len(v.Workers)), "worker"), v.Counter, v.Overlaps)
}

// short is a duration with three digits.
func short(d time.Duration) string {
	switch ms := d.Seconds() * 1000; {
	case d < 0:
		return "0 ms"
	case ms < 10:
		return fmt.Sprintf("%.2f ms", ms)
	case ms < 1000:
		return fmt.Sprintf("%.0f ms", ms)
	default:
		return fmt.Sprintf("%.2f s", ms/1000)
	}
}

// JSON shows the demo as one JSON object for each line: one with the event "start", the events, one with the event "verdict".
type JSON struct{ enc *json.Encoder }

// NewJSON makes a viewer that writes JSON to out.
func NewJSON(out io.Writer) *JSON { return &JSON{json.NewEncoder(out)} }

var _ Viewer = (*JSON)(nil)

type jsonStart struct {
	Event   string   `json:"event"`
	Lock    string   `json:"lock"`
	Kind    string   `json:"kind"`
	Server  string   `json:"server"`
	Java    string   `json:"java,omitempty"`
	Workers []string `json:"workers"`
	ForMs   float64  `json:"forMs"`
	LeaseMs float64  `json:"leaseMs"`
}

// Begin writes the start.
func (j *JSON) Begin(i Info, _ *Board) {
	j.write(jsonStart{"start", i.Lock, i.Kind, i.Server, i.Java, i.Workers, millis(i.For), millis(i.Lease)})
}

type jsonEvent struct {
	AtMs    float64   `json:"atMs"`
	Event   EventKind `json:"event"`
	Worker  string    `json:"worker"`
	Section int       `json:"section,omitempty"`
	Mode    Mode      `json:"mode,omitempty"`
	TookMs  *float64  `json:"tookMs,omitempty"`
	Detail  string    `json:"detail,omitempty"`
}

// Event writes one step. tookMs is the time waited for "acquired", held for "released" and "lost", and what was left of the
// lease for "crashed".
func (j *JSON) Event(e Event) {
	out := jsonEvent{AtMs: millis(e.At), Event: e.Kind, Worker: e.Worker, Section: e.Section, Mode: e.Mode, Detail: e.Detail}
	switch e.Kind {
	case Acquired, Released, Lost, Crashed:
		took := millis(e.Took)
		out.TookMs = &took
	}
	j.write(out)
}

type jsonVerdict struct {
	Event    string         `json:"event"`
	OK       bool           `json:"ok"`
	Problems []string       `json:"problems"`
	TookMs   float64        `json:"tookMs"`
	Sections int64          `json:"sections"`
	Reads    int64          `json:"reads,omitempty"`
	Together int            `json:"readersAtOnce,omitempty"`
	Counter  int64          `json:"counter"`
	Overlaps int            `json:"overlaps"`
	Lost     int            `json:"lost"`
	HandOff  jsonHandOff    `json:"handOff"`
	Crash    *jsonCrash     `json:"crash,omitempty"`
	Workers  []jsonSections `json:"workers"`
}

type jsonHandOff struct {
	Count int     `json:"count"`
	P50Ms float64 `json:"p50Ms"`
	P99Ms float64 `json:"p99Ms"`
}

type jsonCrash struct {
	Worker      string  `json:"worker"`
	AtMs        float64 `json:"atMs"`
	LeaseMs     float64 `json:"leaseMs"`
	TakenOverBy string  `json:"takenOverBy,omitempty"`
	AfterMs     float64 `json:"afterMs,omitempty"`
}

type jsonSections struct {
	Worker   string `json:"worker"`
	Sections int64  `json:"sections"`
	Reads    int64  `json:"reads,omitempty"`
}

// End writes the verdict.
func (j *JSON) End(v Verdict) {
	out := jsonVerdict{
		Event: "verdict", OK: v.OK(), Problems: v.Problems, TookMs: millis(v.Took), Sections: v.Sections, Reads: v.Reads,
		Together: v.Together, Counter: v.Counter, Overlaps: v.Overlaps, Lost: v.Lost, HandOff: jsonHandOff{v.HandOffs, millis(v.P50), millis(v.P99)},
		Workers: make([]jsonSections, len(v.Workers)),
	}
	if out.Problems == nil {
		out.Problems = []string{}
	}
	for i, w := range v.Workers {
		out.Workers[i] = jsonSections(w)
	}
	if c := v.Crash; c != nil {
		out.Crash = &jsonCrash{c.Worker, millis(c.At), millis(c.Lease), c.Next, millis(c.After)}
	}
	j.write(out)
}

// write ignores errors: when nobody reads any more, the verdict is still the exit code.
func (j *JSON) write(v any) { _ = j.enc.Encode(v) }

// millis is in milliseconds with microseconds behind the point.
func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
