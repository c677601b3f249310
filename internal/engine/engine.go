package engine

import (
	"container/heap"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/lua"
	"github.com/redlatch/redlatch/pubsub"
)

// Engine is what stands behind a client: its connections, what it holds, who waits, and the goroutines that look after it.
type Engine struct {
	id         string
	cfg        config.Config
	log        *slog.Logger
	observe    func(Event)
	conn       rueidis.Client
	borrowed   bool // the connection is the caller's and stays open
	hub        *pubsub.Hub
	publish    string
	latches    latches
	reschedule chan struct{} // capacity one: the watchdog's next event came nearer
	debtCame   chan struct{} // capacity one: the settler has something new to do

	// life ends with Close; every request to the server ends with it.
	life context.Context
	end  context.CancelFunc
	// shut is closed when no new acquisition is admitted any more: by Shutdown, or by Close.
	shut     chan struct{}
	shutOnce sync.Once
	workers  sync.WaitGroup // the watchdog, its renewals, the settler
	closing  sync.Once
	closed   chan struct{} // closed when Close has done everything

	// mu guards everything below, and the fields of tenures, holds, rooms and waiters that say so. It is never held over network I/O, nor
	// while a caller's code runs.
	mu       sync.Mutex
	tenures  map[place]*tenure
	rooms    map[roomKey]*room
	schedule schedule
	wakeAt   time.Time // when the watchdog wakes by itself
	held     int       // live holds
	calls    int       // calls of Acquire and Unlock on their way
	debts    []debt
	owing    int           // debts, those being settled included
	quiet    chan struct{} // closed and replaced when held, calls and debts may all have become 0; nil when nobody listens
}

// Options are what Open needs besides the config.
type Options struct {
	Log     *slog.Logger
	Observe func(Event)
	Redis   rueidis.Client // nil: connect as cfg says
}

// Open connects, checks that scripts may run, and starts the watchdog. ctx governs the opening only.
func Open(ctx context.Context, cfg config.Config, o Options) (*Engine, error) {
	cfg, err := cfg.WithDefaults()
	if err != nil {
		return nil, err
	}
	e := &Engine{
		id: uuid.NewString(), cfg: cfg, log: o.Log, observe: o.Observe, publish: "PUBLISH",
		reschedule: make(chan struct{}, 1), debtCame: make(chan struct{}, 1),
		shut: make(chan struct{}), closed: make(chan struct{}),
		tenures: make(map[place]*tenure), rooms: make(map[roomKey]*room),
	}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	e.latches.prefix = newLatchPrefix(e.id)
	if e.conn, e.borrowed = o.Redis, o.Redis != nil; !e.borrowed {
		if e.conn, err = connect(ctx, cfg); err != nil {
			return nil, err
		}
	}
	if err := e.check(ctx); err != nil {
		e.disconnect()
		return nil, err
	}
	e.life, e.end = context.WithCancel(context.Background())
	e.hub = pubsub.New(pubsub.Options{
		Connect: e.dedicate,
		Linger:  max(cfg.SubscriptionLinger, 0),
		Logger:  e.log,
	})
	e.workers.Go(e.watch)
	e.workers.Go(e.settleDebts)
	return e, nil
}

// ID is the client's part of its owners.
func (e *Engine) ID() string { return e.id }

// Config is what the client was told, defaults filled in.
func (e *Engine) Config() config.Config { return e.cfg }

// begin admits a call; the caller must say finish.
func (e *Engine) begin() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.life.Err() != nil {
		return ErrClosed
	}
	e.calls++
	return nil
}

func (e *Engine) finish() {
	e.mu.Lock()
	e.calls--
	e.stirLocked()
	e.mu.Unlock()
}

// stirLocked tells Shutdown that something came to its end.
func (e *Engine) stirLocked() {
	if e.quiet != nil {
		close(e.quiet)
		e.quiet = nil
	}
}

// Shutdown admits no new acquisitions, ends the waiting ones with ErrClosed, waits until ctx ends for the holds to be released
// and the doubtful requests to be settled, and closes. It returns ctx's error when that ended first; closed it is in any case.
func (e *Engine) Shutdown(ctx context.Context) error {
	e.shutOnce.Do(func() { close(e.shut) })
	defer e.Close()
	for {
		e.mu.Lock()
		holds, busy := e.held, e.held+e.calls+e.owing
		if e.quiet == nil {
			e.quiet = make(chan struct{})
		}
		quiet := e.quiet
		e.mu.Unlock()
		if busy == 0 || e.life.Err() != nil {
			return nil
		}
		select {
		case <-quiet:
		case <-e.closed:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("shut down with %d holds left, which expire by themselves: %w", holds, ended(ctx))
		}
	}
}

// Close ends everything at once: waiters and holds end with ErrClosed, and keys are left to expire. It blocks until the
// client's goroutines have ended, and can be called again.
func (e *Engine) Close() {
	e.closing.Do(func() {
		e.shutOnce.Do(func() { close(e.shut) })
		e.mu.Lock()
		e.end() // under mu: no call can be admitted, and no hold be granted, after this
		var lost []*Hold
		for _, t := range e.tenures {
			lost = append(lost, e.loseLocked(t, ErrClosed)...)
		}
		e.stirLocked()
		e.mu.Unlock()
		e.tell(lost)
		e.hub.Close()
		e.workers.Wait()
		e.disconnect()
		close(e.closed)
	})
	<-e.closed
}

func (e *Engine) disconnect() {
	if !e.borrowed {
		e.conn.Close()
	}
}

// place names one owner's stay in one lock.
type place struct{ key, field string }

// tenure is what this client knows of one owner's stay in one lock. It exists as long as the owner holds the lock or a call
// works on it.
type tenure struct {
	engine *Engine
	lock   *Lock
	place  place

	// The rest is guarded by engine.mu.

	users   int // calls that work on it
	holds   []*Hold
	trust   trust
	lease   time.Duration // armed last; a partial release arms it again
	debts   int           // requests in doubt: while there are any, a renewal does not lengthen the trust
	waiters []*waiter     // its calls that wait
	renewal renewal
	at      time.Time // its next event in the schedule
	index   int       // its place in the schedule, -1 outside

	// A tenure's requests that set count or lease go one after the other: the count to set is only known when the one before
	// is. busy says that one is on its way, queue who is next.
	busy  bool
	queue []chan struct{}
}

// join finds or makes the record of an owner; the caller must part with it.
func (e *Engine) join(l *Lock, field string) *tenure {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := place{l.Key, field}
	t := e.tenures[at]
	if t == nil {
		t = &tenure{engine: e, lock: l, place: at, index: -1}
		e.tenures[at] = t
	}
	t.users++
	return t
}

func (e *Engine) part(t *tenure) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t.users--
	e.forgetLocked(t)
}

// forgetLocked drops a record that nobody needs any more.
func (e *Engine) forgetLocked(t *tenure) {
	if t.users == 0 && len(t.holds) == 0 && e.tenures[t.place] == t {
		delete(e.tenures, t.place)
	}
}

// take waits for the tenure's turn; what has it is bounded by the command timeout. It fails only when done is closed first.
func (t *tenure) take(done <-chan struct{}) bool {
	mu := &t.engine.mu
	mu.Lock()
	if !t.busy {
		t.busy = true
		mu.Unlock()
		return true
	}
	next := make(chan struct{})
	t.queue = append(t.queue, next)
	mu.Unlock()
	select {
	case <-next:
		return true
	case <-done:
	}
	mu.Lock()
	defer mu.Unlock()
	for i, c := range t.queue {
		if c == next {
			t.queue = append(t.queue[:i], t.queue[i+1:]...)
			return false
		}
	}
	t.passLocked() // it was given at the same moment
	return false
}

func (t *tenure) give() {
	t.engine.mu.Lock()
	t.passLocked()
	t.engine.mu.Unlock()
}

func (t *tenure) passLocked() {
	if len(t.queue) == 0 {
		t.busy = false
		return
	}
	close(t.queue[0])
	t.queue = t.queue[1:]
}

func (t *tenure) target(latch string, lease time.Duration) Target {
	return Target{
		Key: t.lock.Key, Channel: t.lock.channel, Latch: t.lock.latch(latch),
		Field: t.place.field, Lease: lease, Publish: t.engine.publish,
	}
}

// end is when a lease that is armed by a request sent now can be trusted no longer.
func (e *Engine) trustEnd(sent time.Time, lease time.Duration) time.Time {
	return sent.Add(e.cfg.Trust(lease))
}

// loseLocked ends all holds of a tenure; the caller tells them after it has given up the mutex.
func (e *Engine) loseLocked(t *tenure, why error) []*Hold {
	lost := t.holds
	for _, h := range lost {
		h.state, h.err = lostHold, why
	}
	e.held -= len(lost)
	t.holds, t.trust.until, t.renewal = nil, time.Time{}, renewal{}
	e.unscheduleLocked(t)
	e.forgetLocked(t)
	e.stirLocked()
	return lost
}

// tell lets the holders know, outside of the mutex since their callbacks run here.
func (e *Engine) tell(lost []*Hold) {
	for _, h := range lost {
		h.cancel(h.err)
		close(h.lost)
		e.report(Event{Kind: EventLost, Lock: h.tenure.lock, Owner: h.owner, Err: h.err})
	}
}

// unscheduleLocked takes a tenure out of the watchdog's sight.
func (e *Engine) unscheduleLocked(t *tenure) {
	if t.index >= 0 {
		heap.Remove(&e.schedule, t.index)
	}
}

// EventKind says what happened.
type EventKind int

// What an Event tells of.
const (
	EventAcquired EventKind = iota + 1
	EventNotAcquired
	EventReleased
	EventLost
	EventRenewed
	EventRenewalFailed
)

var eventNames = map[EventKind]string{
	EventAcquired: "acquired", EventNotAcquired: "not acquired", EventReleased: "released",
	EventLost: "lost", EventRenewed: "renewed", EventRenewalFailed: "renewal failed",
}

func (k EventKind) String() string { return eventNames[k] }

// Event is one thing that happened to one lock.
type Event struct {
	Kind  EventKind
	Lock  *Lock
	Owner Owner
	Took  time.Duration // how long it was waited for, or held
	Err   error
}

func (e *Engine) report(v Event) {
	if e.observe != nil {
		e.observe(v)
	}
}

// call runs one script within the command timeout. The caller's context has no part in it: its end must not leave a request in
// doubt, so it is looked at between requests.
func call[T any](e *Engine, c lua.Call[T]) (T, error) {
	ctx, cancel := context.WithTimeout(e.life, e.cfg.Timeout)
	defer cancel()
	v, err := lua.Run(ctx, e.conn, c)
	if err != nil && e.life.Err() != nil {
		err = ErrClosed
	}
	return v, err
}
