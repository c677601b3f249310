package linear

import (
	"fmt"
	"hash/maphash"
	"strings"

	"github.com/anishathalye/porcupine"
)

// Model is what a kind of lock may do.
type Model struct {
	checked porcupine.Model
}

// The kinds.
var (
	// Plain is a reentrant lock that one owner holds at a time.
	Plain = model(hold{}, plain)
	// Fenced is a plain lock whose acquisitions, re-entries included, each draw a token that is greater than all before.
	Fenced = model(numbered{}, fenced)
	// ReadWrite is a lock that many owners read or one writes. A writer may read too, and read on when it has stopped writing; a
	// reader can't begin to write.
	ReadWrite = model(shared{}, readWrite)
)

// model makes a Model of a step: what follows from a state by a call with that answer, and whether that answer is right in it.
func model[S interface {
	comparable
	fmt.Stringer
}](start S, step func(S, Call, Answer) (S, bool),
) Model {
	seed := maphash.MakeSeed()
	return Model{porcupine.Model{
		Init: func() any { return start },
		Step: func(state, input, output any) (bool, any) {
			next, right := step(state.(S), input.(Call), output.(Answer))
			return right, next
		},
		Hash:          func(state any) uint64 { return maphash.Comparable(seed, state.(S)) },
		DescribeState: func(state any) string { return state.(S).String() },
	}}
}

// hold is who holds a lock that one owner can hold; the zero hold is nobody's, so that equal states are ==.
type hold struct {
	owner, count int
}

func (h hold) held() bool { return h.count > 0 }

// enter tells what follows, and whether the owner may.
func (h hold) enter(owner int) (hold, bool) {
	if h.held() && h.owner != owner {
		return h, false
	}
	return hold{owner, h.count + 1}, true
}

// leave tells what follows, and whether the owner held it.
func (h hold) leave(owner int) (hold, bool) {
	switch {
	case !h.held() || h.owner != owner:
		return h, false
	case h.count == 1:
		return hold{}, true
	default:
		return hold{owner, h.count - 1}, true
	}
}

func (h hold) String() string {
	if !h.held() {
		return "nobody holds it"
	}
	return fmt.Sprintf("owner %d holds it, %d deep", h.owner, h.count)
}

func plain(h hold, c Call, a Answer) (hold, bool) {
	switch c.Act {
	case Acquire:
		next, free := h.enter(c.Owner)
		return acquired(h, next, free, c, a)
	case Release:
		next, held := h.leave(c.Owner)
		return next, a.OK == held
	case Force:
		return hold{}, a.OK == h.held()
	case Locked:
		return h, a.OK == h.held()
	default:
		return h, false
	}
}

// acquired judges an acquisition that leads from one state to the next if it is granted, which it can be when the lock is free.
func acquired[S any](now, next S, free bool, c Call, a Answer) (S, bool) {
	switch {
	case a.OK:
		return next, free
	case c.Wait > 0:
		return now, true
	default:
		return now, !free
	}
}

// numbered is a fenced lock: the hold, and the last token that anybody was told.
type numbered struct {
	hold
	last int64
}

func (n numbered) String() string { return fmt.Sprintf("%v, last token %d", n.hold, n.last) }

func fenced(n numbered, c Call, a Answer) (numbered, bool) {
	if c.Act == Token { // one may have been drawn by an entry that was taken away before its owner knew of it
		return numbered{n.hold, a.Token}, a.Token >= n.last
	}
	next, right := plain(n.hold, c, a)
	if c.Act == Acquire && a.OK {
		return numbered{next, a.Token}, right && a.Token > n.last
	}
	return numbered{next, n.last}, right
}

// shared is a read/write lock: how often each owner reads, and who writes.
type shared struct {
	readers [MaxOwners]uint16
	writer  hold
}

func (s shared) read() bool { return s.readers != [MaxOwners]uint16{} }

func (s shared) String() string {
	var reading []string
	for owner, count := range s.readers {
		if count > 0 {
			reading = append(reading, fmt.Sprintf("owner %d reads, %d deep", owner, count))
		}
	}
	return strings.Join(append(reading, "write side: "+s.writer.String()), "; ")
}

func readWrite(s shared, c Call, a Answer) (shared, bool) {
	switch c.Side {
	case Read:
		return readSide(s, c, a)
	case Write:
		return writeSide(s, c, a)
	default:
		return s, false
	}
}

func readSide(s shared, c Call, a Answer) (shared, bool) {
	next := s
	switch c.Act {
	case Acquire:
		next.readers[c.Owner]++
		return acquired(s, next, !s.writer.held() || s.writer.owner == c.Owner, c, a)
	case Release:
		if s.readers[c.Owner] == 0 {
			return s, !a.OK
		}
		next.readers[c.Owner]--
		return next, a.OK
	case Force: // frees a lock that is only read
		freed := s.read() && !s.writer.held()
		if freed {
			next = shared{}
		}
		return next, a.OK == freed
	case Locked:
		return s, a.OK == s.read()
	default:
		return s, false
	}
}

func writeSide(s shared, c Call, a Answer) (shared, bool) {
	next := s
	switch c.Act {
	case Acquire:
		var free bool
		next.writer, free = s.writer.enter(c.Owner)
		return acquired(s, next, free && (s.writer.held() || !s.read()), c, a)
	case Release:
		var held bool
		next.writer, held = s.writer.leave(c.Owner)
		return next, a.OK == held
	case Force: // takes the writer's read holds along
		freed := s.writer.held()
		if freed {
			next = shared{}
		}
		return next, a.OK == freed
	case Locked:
		return s, a.OK == s.writer.held()
	default:
		return s, false
	}
}
