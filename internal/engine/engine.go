package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/topology"
	"github.com/redlatch/redlatch/lua"
)

// Engine is what stands behind a client: its connections, what it holds, who waits, and the goroutines that look after it.
type Engine struct {
	id         string
	cfg        config.Config
	log        *slog.Logger
	events     events
	servers    *topology.Topology
	latches    latches
	reschedule chan struct{} // capacity one: the watchdog's next event came nearer
	debtCame   chan struct{} // capacity one: there is a debtor that no settler was told of

	// life ends with Close; every request to the server ends with it.
	life context.Context
	end  context.CancelFunc
	// shut is closed when no new acquisition is admitted any more: by Shutdown, or by Close.
	shut      chan struct{}
	shutOnce  sync.Once
	workers   sync.WaitGroup // the watchdog, its renewals, the settler, the teller of events
	closed    chan struct{}  // closed when Close has done everything
	closeOnce sync.Once

	unsafeName sync.Once // a name that no cluster could take was told to the log

	// mu guards everything below, and what tenures, holds, rooms and acquisitions say of theirs. It is never held over network I/O,
	// nor while a caller's code runs.
	mu       sync.Mutex
	tenures  map[place]*tenure
	rooms    map[roomKey]*room
	debtors  map[*tenure]struct{} // with requests in doubt
	fresh    []*tenure            // of these, those that no settler was told of yet
	schedule schedule
	slots    slots
	wakeAt   time.Time     // when the watchdog wakes by itself
	held     int           // live holds
	calls    int           // calls of the public API on their way
	closing  bool          // Close was called
	rerouted chan struct{} // closed when some locks have got another master; then there is a new one
	quiet    chan struct{} // closed when held, calls or debtors have become fewer; nil when nobody listens
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
		id: uuid.NewString(), cfg: cfg, log: o.Log,
		events:     events{observe: o.Observe, stir: make(chan struct{}, 1)},
		reschedule: make(chan struct{}, 1), debtCame: make(chan struct{}, 1),
		shut: make(chan struct{}), closed: make(chan struct{}),
		tenures: make(map[place]*tenure), rooms: make(map[roomKey]*room), debtors: make(map[*tenure]struct{}),
		rerouted: make(chan struct{}),
	}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	e.latches.prefix = newLatchPrefix(e.id)
	if err := e.connect(ctx, o.Redis); err != nil {
		return nil, err
	}
	if e.servers.Clustered() {
		e.slots = make(slots, config.Slots)
	}
	e.life, e.end = context.WithCancel(context.Background())
	e.workers.Go(e.watch)
	e.workers.Go(e.settleDebts)
	if e.events.observe != nil {
		e.workers.Go(func() { e.events.deliver(e.life.Done()) })
	}
	return e, nil
}

// ID is the client's part of its owners.
func (e *Engine) ID() string { return e.id }

// Config is what the client was told, defaults filled in.
func (e *Engine) Config() config.Config { return e.cfg }

// strict tells that a lock of another kind under a lock's name is an error.
func (e *Engine) strict() bool { return !e.cfg.SkipKindCheck }

// admit lets a call on a lock begin, if the lock is one, the caller still waits, and the client is open; the caller must say finish.
func (e *Engine) admit(ctx context.Context, l *Lock) error {
	if l.invalid != nil {
		return l.invalid
	}
	if ctx.Err() != nil {
		return EndOf(ctx)
	}
	return e.begin()
}

// begin admits a call; the caller must say finish.
func (e *Engine) begin() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing {
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

func (e *Engine) isClosing() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closing
}

// stir leaves word in a channel with room for one.
func stir(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// stirLocked tells who waits for quiet that something came to its end.
func (e *Engine) stirLocked() {
	if e.quiet != nil {
		close(e.quiet)
		e.quiet = nil
	}
}

// waitFor returns when quiet, which is asked under the mutex, says so; false when done is closed before.
func (e *Engine) waitFor(quiet func() bool, done <-chan struct{}) bool {
	for {
		e.mu.Lock()
		if quiet() {
			e.mu.Unlock()
			return true
		}
		if e.quiet == nil {
			e.quiet = make(chan struct{})
		}
		stirred := e.quiet
		e.mu.Unlock()
		select {
		case <-stirred:
		case <-done:
			return false
		}
	}
}

// Shutdown admits no new acquisitions, ends the waiting ones with ErrClosed, waits until ctx ends for the holds to be released
// and the doubtful requests to be settled, and closes. It returns ctx's error when that ended first; closed it is in any case.
func (e *Engine) Shutdown(ctx context.Context) error {
	e.shutOnce.Do(func() { close(e.shut) })
	defer e.Close()
	quiet := func() bool { return e.closing || e.held+e.calls+len(e.debtors) == 0 }
	if e.waitFor(quiet, ctx.Done()) {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return fmt.Errorf("closed with %d holds and %d requests in doubt left, which expire by themselves: %w",
		e.held, len(e.debtors), EndOf(ctx))
}

// Close ends everything at once: waiters and holds end with ErrClosed, and keys are left to expire. Calls on their way have one command
// timeout to put things in order: what they are just being granted is given back, and they leave the queues they stand in. It blocks
// until the client's goroutines have ended, and can be called again.
func (e *Engine) Close() {
	e.closeOnce.Do(func() {
		e.shutOnce.Do(func() { close(e.shut) })
		e.mu.Lock()
		e.closing = true // no call can be admitted, and no hold be granted, after this
		var lost []*Hold
		for _, t := range e.tenures {
			lost = append(lost, e.loseLocked(t, ErrClosed)...)
		}
		e.stirLocked()
		e.mu.Unlock()
		e.tell(lost)

		grace, cancel := context.WithTimeout(e.life, e.cfg.Timeout)
		e.waitFor(func() bool { return e.calls == 0 }, grace.Done())
		cancel()
		e.end()
		e.workers.Wait()
		e.servers.Close()
		close(e.closed)
	})
	<-e.closed
}

// call runs one script within the command timeout. The caller's context has no part in it: its end must not leave a request in
// doubt, so it is looked at between requests.
func call[T any](e *Engine, c lua.Call[T]) (T, error) { return callOne(e, e.cfg.Timeout, c) }

func callOne[T any](e *Engine, timeout time.Duration, c lua.Call[T]) (T, error) {
	v, _, err := callBy(e, timeout, c)
	return v, err
}

// callBy is callOne, and gives the node that has answered.
func callBy[T any](e *Engine, timeout time.Duration, c lua.Call[T]) (T, *topology.Node, error) {
	ctx, cancel := context.WithTimeout(e.life, timeout)
	defer cancel()
	v, by, err := topology.RunBy(ctx, e.servers, c)
	return v, by, e.failed(err)
}

// commit is call for what takes a lock, of which replicas have to know where there are some. The time for that comes on top, twice, since
// the request may have to wait for those before it. With ErrNotReplicated the lock was granted, and is to be given back.
func commit(e *Engine, c lua.Call[lua.Grant]) (lua.Grant, error) {
	ctx, cancel := context.WithTimeout(e.life, e.cfg.Timeout+2*e.cfg.SlavesSyncTimeout)
	defer cancel()
	grant, err := topology.Commit(ctx, e.servers, c)
	return grant, e.failed(err)
}

// callAll runs scripts in one pipeline for each master within the command timeout. One whose slot is just moving is not followed, see
// [topology.Unsettled]: most have several keys, which no server has all of before the move is over.
func callAll[T any](e *Engine, calls []lua.Call[T]) []lua.Result[T] {
	return callWithin(e, e.cfg.Timeout, calls)
}

func callWithin[T any](e *Engine, timeout time.Duration, calls []lua.Call[T]) []lua.Result[T] {
	ctx, cancel := context.WithTimeout(e.life, timeout)
	defer cancel()
	results := topology.RunAll(ctx, e.servers, calls)
	for i := range results {
		results[i].Err = e.failed(results[i].Err)
	}
	return results
}

func (e *Engine) failed(err error) error {
	switch {
	case err == nil:
		return nil
	case e.life.Err() != nil:
		return ErrClosed
	case errors.Is(err, ErrNotReplicated): // that is no failed request: the caller is to know
		return err
	default:
		return &requestError{err}
	}
}
