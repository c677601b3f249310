package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/fairlock"
	"github.com/redlatch/redlatch/fencedlock"
	"github.com/redlatch/redlatch/interop/javaagent"
	"github.com/redlatch/redlatch/multilock"
	"github.com/redlatch/redlatch/rlock"
	"github.com/redlatch/redlatch/rwlock"
)

// Kind is a kind of lock that the demo can show.
type Kind struct {
	Name string
	New  func(client *redlatch.Client, name string) redlatch.Locker
	Java func(name string) javaagent.Lock
	// Reader and JavaReader are the side of the lock for sections that only read, beside each other but not beside New's; nil: there
	// is no such side.
	Reader     func(client *redlatch.Client, name string) redlatch.Locker
	JavaReader func(name string) javaagent.Lock
}

// mode is what a worker does in one of its sections. Where there is a side for readers two of three sections read, and the turns to write are
// spread over the workers. A worker that waits to write does not read meanwhile, so that readers can't keep writers out for ever.
func (k Kind) mode(worker, section int) Mode {
	switch {
	case k.Reader == nil:
		return ""
	case (worker+section)%3 == 0:
		return Writes
	default:
		return Reads
	}
}

var kinds = []Kind{
	{
		Name: "plain",
		New:  func(c *redlatch.Client, name string) redlatch.Locker { return rlock.New(c, name) },
		Java: javaagent.Plain,
	},
	{
		Name: "fair",
		New:  func(c *redlatch.Client, name string) redlatch.Locker { return fairlock.New(c, name) },
		Java: javaagent.Fair,
	},
	{
		Name: "fenced",
		New:  func(c *redlatch.Client, name string) redlatch.Locker { return fencedlock.New(c, name) },
		Java: javaagent.Fenced,
	},
	{
		Name:       "read-write",
		New:        func(c *redlatch.Client, name string) redlatch.Locker { return rwlock.New(c, name).Write() },
		Java:       javaagent.Write,
		Reader:     func(c *redlatch.Client, name string) redlatch.Locker { return rwlock.New(c, name).Read() },
		JavaReader: javaagent.Read,
	},
	{
		Name: "multi", // of three plain ones
		New: func(c *redlatch.Client, name string) redlatch.Locker {
			return multilock.New(rlock.New(c, name+":a"), rlock.New(c, name+":b"), rlock.New(c, name+":c"))
		},
		Java: func(name string) javaagent.Lock {
			return javaagent.Multi(javaagent.Plain(name+":a"), javaagent.Plain(name+":b"), javaagent.Plain(name+":c"))
		},
	},
}

// KindNames lists the kinds in words.
func KindNames() string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.Name
	}
	return strings.Join(names, ", ")
}

// KindNamed finds a kind; the error names all that there are.
func KindNamed(name string) (Kind, error) {
	for _, k := range kinds {
		if k.Name == name {
			return k, nil
		}
	}
	return Kind{}, fmt.Errorf("there is no lock of the kind %q to show; the kinds are: %s", name, KindNames())
}

// Bounds of the options.
const (
	MaxWorkers = 64
	MinFor     = 500 * time.Millisecond
	MaxFor     = 10 * time.Minute
	MinHold    = time.Millisecond
	MinLease   = 100 * time.Millisecond // that of config.Config.LockWatchdogTimeout
)

// Options say what to show. All fields but Servers, Java, Crash and Progress have to be set; Check tells what is wrong.
type Options struct {
	Kind    Kind
	Name    string        // of the lock
	Workers int           // Go workers, 1 … MaxWorkers
	Java    bool          // one JVM contends, too
	For     time.Duration // when the workers are told to stop, MinFor … MaxFor
	Hold    time.Duration // how long a section takes on average, MinHold … For
	Lease   time.Duration // the watchdog timeout, MinLease … For
	Crash   bool          // one worker crashes while it holds the lock, when 30 % of the time are over
	Servers config.Config // the server to use and how to log in; without Servers.Mode an own one is started
	// Progress is told what takes long before the demo starts; nil: nobody.
	Progress func(string)
}

// Check reports the first option out of its range.
func (o Options) Check() error {
	switch {
	case o.Kind.New == nil:
		return fmt.Errorf("no kind of lock is named; the kinds are: %s", KindNames())
	case o.Name == "":
		return errors.New("the lock's name is empty")
	case o.Workers < 1 || o.Workers > MaxWorkers:
		return fmt.Errorf("%d workers; allowed are 1 to %d", o.Workers, MaxWorkers)
	case o.For < MinFor || o.For > MaxFor:
		return fmt.Errorf("a demo of %v; allowed are %v to %v", o.For, MinFor, MaxFor)
	case o.Hold < MinHold || o.Hold > o.For:
		return fmt.Errorf("sections of %v; allowed are %v to the length of the demo, %v", o.Hold, MinHold, o.For)
	case o.Lease < MinLease || o.Lease > o.For:
		return fmt.Errorf("a lease of %v; allowed are %v to the length of the demo, %v", o.Lease, MinLease, o.For)
	case o.Crash && o.Lease > o.For/3:
		return fmt.Errorf("a lease of %v is too long to see a crashed worker's key expire within %v; use a lease up to a third of the time, or no crash",
			o.Lease, o.For)
	case o.Java && o.Kind.Java == nil:
		return fmt.Errorf("locks of the kind %q have no counterpart in Java", o.Kind.Name)
	}
	return nil
}

// Info is what is known before the first event.
type Info struct {
	Lock    string
	Kind    string
	Server  string // in words
	Java    string // Redisson and Java release, "" without a JVM
	Workers []string
	For     time.Duration
	Lease   time.Duration
	Readers bool // some sections only read, and are inside together
}

// Viewer is shown the demo. Begin comes first and End last; the calls come one after the other, from several goroutines, and must
// return soon. The Board can be asked at any time between the two.
type Viewer interface {
	Begin(Info, *Board)
	Event(Event)
	End(Verdict)
}

// Run shows the demo and returns its verdict. The end of ctx ends it early; the verdict then is about what ran. The error says why there
// is no verdict: the server or the JVM could not be started or asked. Nothing is left running, and on the server nothing but a
// lock that a crashed worker held, which expires.
func Run(ctx context.Context, o Options, v Viewer) (verdict Verdict, err error) {
	if err := o.Check(); err != nil {
		return Verdict{}, err
	}
	srv, err := openServer(ctx, &o)
	if err != nil {
		return Verdict{}, err
	}
	defer srv.close()
	s := &stage{Options: o, cfg: srv.cfg, data: srv.data, keys: newKeys()}
	s.cfg.LockWatchdogTimeout = o.Lease
	defer func() {
		if cleanErr := s.cleanUp(); err == nil {
			err = cleanErr
		}
	}()
	if o.Java {
		if s.jvm, err = startJVM(ctx, &o, srv.cfg); err != nil {
			return Verdict{}, err
		}
		defer func() { err = errors.Join(err, s.jvm.close()) }()
	}
	return s.play(ctx, srv.about, v)
}

// keys are what the lock protects. They are this run's own, so that two demos on one server can share a lock but not a counter.
// On a cluster they are in one slot.
type keys struct{ counter, inside, reading string }

func newKeys() keys {
	counter := "redlatch-demo:{" + uuid.NewString() + "}"
	return keys{counter, counter + ":inside", counter + ":reading"}
}

// gauges are the key that counts who is inside in a mode, and the key of those who must stay outside meanwhile beside them, "" for none.
func (k keys) gauges(m Mode) (own, beside string) {
	switch m {
	case Reads:
		return k.reading, k.inside
	case Writes:
		return k.inside, k.reading
	default:
		return k.inside, ""
	}
}

// stage is what all workers share.
type stage struct {
	Options
	cfg   config.Config
	data  rueidis.Client
	keys  keys
	board *Board
	jvm   *jvm

	crashed atomic.Bool // the crash has been played
}

// play runs the workers until the time is over.
func (s *stage) play(ctx context.Context, about string, v Viewer) (Verdict, error) {
	info := Info{Lock: s.Name, Kind: s.Kind.Name, Server: about, For: s.For, Lease: s.Lease, Readers: s.Kind.Reader != nil}
	for i := range s.Workers {
		info.Workers = append(info.Workers, fmt.Sprintf("go-%d", i+1))
	}
	if s.jvm != nil {
		info.Java = s.jvm.about()
		info.Workers = append(info.Workers, javaName)
	}
	// The JVM stamps its events with the wall clock, and the monotonic clock drifts away from that by milliseconds.
	s.board = newBoard(info.Workers, s.jvm != nil, v)
	v.Begin(info, s.board)
	stop, cancel := context.WithTimeout(ctx, s.For)
	defer cancel()

	var running sync.WaitGroup
	failures := make([]error, s.Workers+1)
	for i := range s.Workers {
		w := &worker{stage: s, name: info.Workers[i], number: i}
		running.Go(func() { failures[i] = w.run(stop) })
	}
	if s.jvm != nil {
		running.Go(func() { failures[s.Workers] = s.jvm.contend(stop, s) })
	}
	running.Wait()

	verdict, err := s.judge(failures)
	if err == nil {
		v.End(verdict)
	}
	return verdict, err
}

func (s *stage) cleanUp() error {
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	if err := s.data.Do(ctx, s.data.B().Del().Key(s.keys.counter, s.keys.inside, s.keys.reading).Build()).Error(); err != nil {
		return fmt.Errorf("remove the demo's keys %s…: %w", s.keys.counter, err)
	}
	return nil
}
