package demo

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Verdict says whether the lock did its work.
type Verdict struct {
	Problems []string // what speaks against the lock, or kept the demo from showing it; empty: all is well
	Took     time.Duration
	Workers  []Share
	Sections int64 // that the workers say to have finished
	Reads    int64 // those among them that only read; the others have counted
	Counter  int64 // what was counted
	Overlaps int   // entries that found somebody inside who should not be: for a reader a writer, for all others anybody
	Together int   // the most readers that were inside at once
	Lost     int   // holds that ended before their section did
	HandOffs int   // releases with somebody waiting
	// P50 and P99 are how long it took from before such a release was sent until the next worker had the lock.
	P50, P99 time.Duration
	Crash    *Crash // nil: none
}

// Share is what one worker did.
type Share struct {
	Worker   string
	Sections int64 // that it finished
	Reads    int64 // those among them that only read
}

func (s *Share) add(m Mode) {
	s.Sections++
	if m == Reads {
		s.Reads++
	}
}

// Crash is the end of a worker that held the lock.
type Crash struct {
	Worker string
	At     time.Duration
	Lease  time.Duration // how long the lock could still be trusted
	Next   string        // who had the lock next; "" for nobody
	After  time.Duration // after the crash
}

// OK tells whether nothing speaks against the lock.
func (v Verdict) OK() bool { return len(v.Problems) == 0 }

// judge is called when all workers have ended. The error says that the counter could not be read.
func (s *stage) judge(failures []error) (Verdict, error) {
	counter, err := s.count(s.data.B().Get().Key(s.keys.counter).Build())
	if err != nil {
		return Verdict{}, fmt.Errorf("read the counter %s: %w", s.keys.counter, errors.Join(err, errors.Join(failures...)))
	}
	v := s.board.verdict()
	v.Counter = counter
	v.Problems = v.problems(s.Lease)
	for _, failure := range failures {
		if failure != nil {
			v.Problems = append(v.Problems, failure.Error())
		}
	}
	return v, nil
}

func (b *Board) verdict() Verdict {
	b.mu.Lock()
	defer b.mu.Unlock()
	v := Verdict{Took: b.Now(), Lost: b.lost}
	for _, r := range b.rows {
		v.Workers = append(v.Workers, Share{r.name, r.done.Sections, r.done.Reads})
		v.Sections += r.done.Sections
		v.Reads += r.done.Reads
	}
	spans := slices.Clone(b.spans)
	slices.SortStableFunc(spans, func(x, y span) int { return cmp.Compare(x.from, y.from) })
	// Both count entries that found somebody inside: the gauge what was inside in Redis's eyes, the spans also a lock that was given
	// away before a dead holder's lease was over.
	v.Overlaps = max(b.company, overlaps(spans))
	v.Together = together(spans)
	v.HandOffs, v.P50, v.P99 = handOffs(spans)
	v.Crash = crash(spans)
	return v
}

func (v *Verdict) problems(lease time.Duration) []string {
	var found []string
	add := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	if v.Overlaps > 0 {
		add("%s found somebody else inside: the lock did not exclude", plural(int64(v.Overlaps), "section"))
	}
	if wrote := v.Sections - v.Reads; v.Counter != wrote {
		what := "section"
		if v.Reads > 0 {
			what = "writing section"
		}
		add("the counter is %d after %s: updates were lost", v.Counter, plural(wrote, what))
	}
	if v.Sections == 0 {
		add("no worker got the lock; does somebody else hold it?")
	}
	if c := v.Crash; c != nil && c.Next == "" && v.Took-c.At > 2*lease {
		add("nobody got the lock after %s had crashed, although its lease was over", c.Worker)
	}
	return found
}

// overlaps counts the spans, sorted by their start, that begin before an earlier one has ended, unless both only read.
func overlaps(spans []span) int {
	n, inside, alone := 0, time.Duration(0), time.Duration(0) // until when anybody is inside, and somebody who must be alone
	for _, s := range spans {
		if s.from < alone || !s.reading && s.from < inside {
			n++
		}
		inside = max(inside, s.to)
		if !s.reading {
			alone = max(alone, s.to)
		}
	}
	return n
}

// together is the most readers that were inside at once; spans are sorted by their start.
func together(spans []span) int {
	most := 0
	var inside []span
	for _, s := range spans {
		if s.reading {
			inside = append(slices.DeleteFunc(inside, func(before span) bool { return before.to <= s.from }), s)
			most = max(most, len(inside))
		}
	}
	return most
}

// handOffs measures how fast a lock went from one worker to another who was waiting; a reader waits for the last writer, everybody else for the
// last of all. Nearest rank.
func handOffs(spans []span) (n int, p50, p99 time.Duration) {
	var took []time.Duration
	var last, alone *span // of those before: who left last of all, and of those who were alone
	for i := range spans {
		to, from := &spans[i], last
		if to.reading {
			from = alone
		}
		if from != nil && !from.crashed && !from.expired && to.waiting <= from.to && to.from >= from.to {
			took = append(took, to.from-from.to)
		}
		last = later(last, to)
		if !to.reading {
			alone = later(alone, to)
		}
	}
	if len(took) == 0 {
		return 0, 0, 0
	}
	slices.Sort(took)
	rank := func(percent int) time.Duration { return took[(len(took)*percent+99)/100-1] }
	return len(took), rank(50), rank(99)
}

// later is the span that ended last; a is nil for none.
func later(a, b *span) *span {
	if a == nil || b.to > a.to {
		return b
	}
	return a
}

func crash(spans []span) *Crash {
	for i, s := range spans {
		if !s.crashed {
			continue
		}
		c := &Crash{Worker: s.worker, At: s.crashedAt, Lease: s.to - s.crashedAt}
		if i+1 < len(spans) {
			c.Next, c.After = spans[i+1].worker, spans[i+1].from-s.crashedAt
		}
		return c
	}
	return nil
}

func plural(n int64, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
