package demo

import (
	"sort"
	"sync"
	"time"
)

// EventKind says what a worker did.
type EventKind string

// What an Event tells of.
const (
	Waiting   EventKind = "waiting"   // asks for the lock
	Acquired  EventKind = "acquired"  // has it, after the time Took
	Released  EventKind = "released"  // is about to give it back, after holding it for the time Took
	Crashed   EventKind = "crashed"   // ended while it held the lock, which could be trusted for the time Took longer
	Restarted EventKind = "restarted" // is there again, as a new client
	Lost      EventKind = "lost"      // noticed that the lock ended before the section did
	Company   EventKind = "company"   // found somebody else inside: the lock does not exclude
	Left      EventKind = "left"      // has ended in good order
	Failed    EventKind = "failed"    // has ended because of the error in Detail
)

// Mode is what a section does under a lock that has a side for readers and one for writers; "" where there is one side only.
type Mode string

// The modes.
const (
	Reads  Mode = "read"  // looks at the counter, maybe together with others
	Writes Mode = "write" // changes it, alone
)

// Event is one step of one worker.
type Event struct {
	At      time.Duration // since the start of the demo
	Worker  string
	Kind    EventKind
	Section int // the worker's own count, from 1; 0 where there is none
	Mode    Mode
	Took    time.Duration
	Detail  string
}

// state is what a worker is doing, as far as the lock is concerned.
type state int

const (
	idle state = iota
	waits
	holds
	reads // holds it together with others
	dead  // crashed, and its lease still runs
	ended // left, failed, or crashed and its lease is over
)

// stateAfter is what follows from an event, but for Acquired by a reader; Company changes nothing.
var stateAfter = map[EventKind]state{
	Waiting: waits, Acquired: holds, Released: idle, Lost: idle, Crashed: dead, Restarted: idle, Left: ended, Failed: ended,
}

// segment is a state that a worker was in from a time on.
type segment struct {
	state state
	from  time.Duration
}

// span is one stay inside the lock.
type span struct {
	worker           string
	waiting          time.Duration // when it began to wait
	from, to         time.Duration
	reading          bool // others that read may be inside, too
	crashed, expired bool // it did not end by a release: the worker crashed, or lost the lock
	crashedAt        time.Duration
}

// row is what the board knows of one worker.
type row struct {
	name     string
	segments []segment // by time; the first one starts at 0
	sections int       // that it left by a release
	read     int       // those among them that only read
	done     Share     // what it says to have done
	stay     span      // the present or last one
}

// enter begins a new state, unless a later one is laid down already: a crash settles what follows until its lease is over.
func (r *row) enter(s state, from time.Duration) {
	if from >= r.segments[len(r.segments)-1].from {
		r.segments = append(r.segments, segment{s, from})
	}
}

// at is the segment at a time.
func (r *row) at(t time.Duration) segment {
	next := sort.Search(len(r.segments), func(i int) bool { return r.segments[i].from > t })
	return r.segments[max(next, 1)-1]
}

// Board keeps what has happened and passes it on to the viewer. It is safe for concurrent use.
type Board struct {
	start  time.Time
	viewer Viewer

	mu      sync.Mutex // guards all below; held while the viewer is told, so that it sees the events in their order
	rows    []*row
	spans   []span // closed ones
	company int    // entries that found somebody else inside
	lost    int
}

func newBoard(workers []string, wallClock bool, v Viewer) *Board {
	b := &Board{start: time.Now(), viewer: v}
	if wallClock {
		b.start = b.start.Round(0)
	}
	for _, name := range workers {
		b.rows = append(b.rows, &row{name: name, segments: []segment{{state: idle}}})
	}
	return b
}

// Now is the time since the start of the demo.
func (b *Board) Now() time.Duration { return time.Since(b.start) }

// since is the demo's time of a moment that another process has measured.
func (b *Board) since(at time.Time) time.Duration { return at.Sub(b.start) }

// say records what happens now.
func (b *Board) say(e Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e.At = b.Now()
	b.recordLocked(e)
}

// tell records what has happened at e.At.
func (b *Board) tell(e Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.recordLocked(e)
}

func (b *Board) recordLocked(e Event) {
	r := b.rowLocked(e.Worker)
	switch e.Kind {
	case Waiting:
		r.stay = span{worker: r.name, waiting: e.At, reading: e.Mode == Reads}
	case Acquired:
		e.Took = e.At - r.stay.waiting
		r.stay.from = e.At
	case Released, Lost, Crashed:
		if e.Kind == Crashed {
			r.stay.crashed, r.stay.crashedAt, r.stay.to = true, e.At, e.At+e.Took
		} else {
			e.Took = e.At - r.stay.from
			r.stay.to = e.At
		}
		r.stay.expired = e.Kind == Lost
		b.spans = append(b.spans, r.stay)
	}
	switch e.Kind {
	case Released:
		r.sections++
		if e.Mode == Reads {
			r.read++
		}
	case Lost:
		b.lost++
	case Company:
		b.company++
	}
	if s, changes := stateAfter[e.Kind]; changes {
		if s == holds && e.Mode == Reads {
			s = reads
		}
		r.enter(s, e.At)
	}
	if e.Kind == Crashed {
		r.enter(ended, r.stay.to)
	}
	b.viewer.Event(e)
}

func (b *Board) rowLocked(name string) *row {
	for _, r := range b.rows {
		if r.name == name {
			return r
		}
	}
	panic("demo: no worker " + name)
}

// finished notes what a worker says to have done.
func (b *Board) finished(worker string, done Share) {
	b.mu.Lock()
	defer b.mu.Unlock()
	done.Worker = worker
	b.rowLocked(worker).done = done
}

// found adds entries with company that a worker has counted by itself.
func (b *Board) found(company int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.company += company
}
