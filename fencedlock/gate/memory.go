package gate

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// DefaultLimit is how many resources a Memory knows at most unless it is told otherwise. Each costs some 200 bytes and its name.
	DefaultLimit = 100_000
	// DefaultRetention is after what time without use a resource may be forgotten to make room for another.
	DefaultRetention = 24 * time.Hour
	// KeepForever is a Retention that forgets nothing.
	KeepForever time.Duration = -1
)

// ErrFull tells that the gate knows as many resources as its Limit allows, none of them unused for its Retention. It does not admit one
// that it could not remember. A higher Limit, a shorter Retention or Forget makes room.
var ErrFull = errors.New("the gate can't remember another resource")

// Memory is a gate for resources that live in this process, such as files that it alone writes, or the state of a server that other
// processes send their tokens to. It is ready to be used as it is, safe for concurrent use, and must not be copied. What it
// knows ends with the process: a resource that outlives it needs a gate that does too.
//
// # Memory use
//
// A token must be remembered for as long as an older one can still arrive. So the gate forgets a resource only when it needs room, at
// Limit resources, and then only those for which no token has arrived, admitted or refused, for as long as Retention. When there is no such
// resource, an unknown one is refused with ErrFull; those that are known are served on. Retention is thus a promise of the user: no writer is later than
// that.
type Memory struct {
	// Limit is how many resources are known at most; 0 or less is DefaultLimit. It must not change after the first use.
	Limit int
	// Retention is how long a resource is remembered after its last use at least; 0 is DefaultRetention, KeepForever for ever. It must
	// not change after the first use.
	Retention time.Duration

	mu    sync.Mutex               // guards the rest
	known map[string]*list.Element // of order
	order list.List                // of *resource, the last used one in front
}

// resource is what a Memory knows of one; guarded by its mutex.
type resource struct {
	name   string
	newest int64
	used   time.Time
	turn   chan struct{} // of capacity one: full while a write of Do runs; nil until the first Do
	calls  int           // of Do that run or wait: until they end the resource stays, for its turn is theirs
}

// Admit says whether a token is the greatest that has been admitted for the resource, or as great: nil, or a *StaleError, ErrNoToken,
// ErrFull.
//
// Between Admit and a write that follows it, a newer holder can be admitted and write. So it must be called where nothing can come between: in
// the critical section that does the write. Do brings one.
func (m *Memory) Admit(name string, token int64) error {
	if err := CheckToken(token); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := m.admitLocked(name, token)
	return err
}

// Do runs write if the token is admitted, and no two writes of one resource at the same time: a write whose token was admitted is done, or
// given up, before a newer one begins, and none that is older begins after it. write must not call Do for the same resource. Its error
// is returned as it is; the token stays admitted then. ctx governs the wait for the turn, and is handed to write.
//
// Errors beside those of write and of Admit: the cause of ctx's end. write did not run then.
func (m *Memory) Do(ctx context.Context, name string, token int64, write func(context.Context) error) error {
	if write == nil {
		return errors.New("gate: Do needs a function")
	}
	if err := CheckToken(token); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r, err := m.enter(name, token)
	if err != nil {
		return err
	}
	defer m.leave(r)
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if ctx.Err() != nil { // a done context beats a free turn
		return context.Cause(ctx)
	}
	if err := m.Admit(name, token); err != nil { // a newer one came while this one waited
		return err
	}
	return write(ctx)
}

// Newest is the greatest token that has been admitted for the resource; 0 when none is known.
func (m *Memory) Newest(name string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at := m.known[name]; at != nil {
		return at.Value.(*resource).newest
	}
	return 0
}

// Len is how many resources are known.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.known)
}

// Forget makes the resource unknown, so that any token is admitted for it: for one that is gone for good. False when it was not known, or
// when a Do of it runs or waits; it is remembered then.
func (m *Memory) Forget(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := m.known[name]
	if at == nil || at.Value.(*resource).calls > 0 {
		return false
	}
	m.dropLocked(at)
	return true
}

// enter admits the token already before its turn: writes that wait in front of it are too old from now on.
func (m *Memory) enter(name string, token int64) (*resource, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.admitLocked(name, token)
	if err != nil {
		return nil, err
	}
	if r.turn == nil {
		r.turn = make(chan struct{}, 1)
	}
	r.calls++
	return r, nil
}

func (m *Memory) leave(r *resource) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.calls--
	m.touchLocked(m.known[r.name])
}

func (m *Memory) admitLocked(name string, token int64) (*resource, error) {
	at := m.known[name]
	if at == nil {
		if err := m.makeRoomLocked(name); err != nil {
			return nil, err
		}
		if m.known == nil {
			m.known = make(map[string]*list.Element)
		}
		at = m.order.PushFront(&resource{name: name})
		m.known[name] = at
	}
	m.touchLocked(at) // by a refused one too: it shows that late writers are about
	r := at.Value.(*resource)
	if token < r.newest {
		return nil, &StaleError{Resource: name, Token: token, Newest: r.newest}
	}
	r.newest = token
	return r, nil
}

func (m *Memory) touchLocked(at *list.Element) {
	at.Value.(*resource).used = time.Now()
	m.order.MoveToFront(at)
}

// makeRoomLocked forgets one resource where that is needed and allowed.
func (m *Memory) makeRoomLocked(name string) error {
	limit := m.Limit
	if limit <= 0 {
		limit = DefaultLimit
	}
	if len(m.known) < limit {
		return nil
	}
	retention := m.Retention
	if retention == 0 {
		retention = DefaultRetention
	}
	for at := m.order.Back(); at != nil && retention > 0; at = at.Prev() {
		r := at.Value.(*resource)
		if time.Since(r.used) < retention {
			break // the others were used later
		}
		if r.calls == 0 {
			m.dropLocked(at)
			return nil
		}
	}
	kept := "for ever"
	if retention > 0 {
		kept = fmt.Sprintf("for %v after its last use", retention)
	}
	return fmt.Errorf("gate: %q is refused: %w: it knows %d, its Limit, and remembers each %s, its Retention", name, ErrFull, len(m.known), kept)
}

func (m *Memory) dropLocked(at *list.Element) {
	delete(m.known, at.Value.(*resource).name)
	m.order.Remove(at)
}
