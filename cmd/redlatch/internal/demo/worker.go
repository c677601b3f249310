package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch"
)

// commandTimeout bounds what is asked of the server beside the lock.
const commandTimeout = 5 * time.Second

// worker is a process in miniature.
type worker struct {
	*stage
	name    string
	number  int // from 0
	section int
	done    Share
}

// run works until stop ends, over a crash and the start after it. The error is what no lock can be blamed for.
func (w *worker) run(stop context.Context) error {
	for {
		crashed, err := w.live(stop)
		w.board.finished(w.name, w.done)
		if err != nil {
			w.board.say(Event{Worker: w.name, Kind: Failed, Detail: err.Error()})
			return fmt.Errorf("%s: %w", w.name, err)
		}
		// Long enough for the others to get past the dead one's lease first.
		if !crashed || !pause(stop, w.Lease+w.Lease/4) {
			w.board.say(Event{Worker: w.name, Kind: Left})
			return nil
		}
		w.board.say(Event{Worker: w.name, Kind: Restarted})
	}
}

// live is one life of the process: it opens a client and works until it is stopped or crashes.
func (w *worker) live(stop context.Context) (crashed bool, err error) {
	client, err := redlatch.Open(context.WithoutCancel(stop), w.cfg)
	if err != nil {
		return false, err
	}
	defer client.Close()
	for stop.Err() == nil {
		w.section++
		mode := w.Kind.mode(w.number, w.section)
		w.say(mode, Event{Kind: Waiting})
		hold, err := w.lock(client, mode).Lock(stop)
		if err != nil {
			if stop.Err() != nil {
				return false, nil
			}
			return false, err
		}
		w.say(mode, Event{Kind: Acquired})
		if w.crashes(mode) {
			w.crash(client, hold, mode)
			return true, nil
		}
		if err := w.work(hold, mode); err != nil {
			return false, err
		}
		pause(stop, w.rest())
	}
	return false, nil
}

func (w *worker) lock(client *redlatch.Client, mode Mode) redlatch.Locker {
	if mode == Reads {
		return w.Kind.Reader(client, w.Name)
	}
	return w.Kind.New(client, w.Name)
}

// say tells of a step in the section.
func (w *worker) say(mode Mode, e Event) {
	e.Worker, e.Section, e.Mode = w.name, w.section, mode
	w.board.say(e)
}

// rest is the pause between two sections. It is short, so that somebody always waits; but not with a JVM, which would hardly
// ever win: a plain lock goes to whoever asks first after the release, and Go is faster at that than a JVM just started.
func (w *worker) rest() time.Duration {
	if w.jvm != nil {
		return rand.N(4*w.Hold + 1)
	}
	return rand.N(w.Hold/2 + 1)
}

// crashes tells whether this is the moment and the worker for the crash. A crash comes before the section's first write, so
// that it leaves the counter and the gauge as they are. A reader does not crash: others would go on to read, and nothing be seen of it.
func (w *worker) crashes(mode Mode) bool {
	return w.Crash && mode != Reads && w.board.Now() > w.For*3/10 && w.crashed.CompareAndSwap(false, true)
}

func (w *worker) crash(client *redlatch.Client, hold *redlatch.Hold, mode Mode) {
	until := hold.ValidUntil()
	w.say(mode, Event{Kind: Crashed, Took: time.Until(until)})
	_ = client.Close() // always nil
}

// work is a section: an update that only a lock protects, or a look at what must stand still, with gauges beside it that show company.
func (w *worker) work(hold *redlatch.Hold, mode Mode) error {
	err := w.visit(hold, mode)
	if err == nil && hold.Err() != nil {
		w.say(mode, Event{Kind: Lost, Detail: hold.Err().Error()})
	} else {
		w.say(mode, Event{Kind: Released})
	}
	// A loss has been told above.
	if unlockErr := hold.Unlock(context.Background()); err == nil && unlockErr != nil && !errors.Is(unlockErr, redlatch.ErrLost) {
		err = unlockErr
	}
	return err
}

func (w *worker) visit(hold *redlatch.Hold, mode Mode) error {
	own, beside := w.keys.gauges(mode)
	company, err := w.enter(mode, own, beside)
	if err != nil {
		return err
	}
	if company != "" {
		w.say(mode, Event{Kind: Company, Detail: company})
	}
	read, err := w.read()
	if err != nil {
		return err
	}
	// A section is finished also when the time is over; but who has lost the lock leaves without writing.
	select {
	case <-time.After(w.Hold/2 + rand.N(w.Hold+1)):
	case <-hold.Lost():
	}
	switch {
	case mode == Reads:
		err = w.compare(hold, read, company == "")
	case hold.Err() == nil:
		err = w.write(read + 1)
	}
	if err != nil {
		return err
	}
	return w.do(w.data.B().Decr().Key(own).Build()).Error()
}

// enter counts the worker in, and says whom it found inside who should not be there, "" for nobody. It looks after it has counted itself, so
// that of two who enter at once one sees the other.
func (w *worker) enter(mode Mode, own, beside string) (company string, err error) {
	inside, err := w.count(w.data.B().Incr().Key(own).Build())
	if err != nil {
		return "", err
	}
	if mode != Reads && inside > 1 {
		return fmt.Sprintf("%d are inside", inside), nil
	}
	if beside == "" {
		return "", nil
	}
	others, err := w.count(w.data.B().Get().Key(beside).Build())
	switch {
	case err != nil || others <= 0:
		return "", err
	case mode == Reads:
		return plural(others, "writer") + " inside", nil
	default:
		return plural(others, "reader") + " inside", nil
	}
}

func (w *worker) read() (int64, error) { return w.count(w.data.B().Get().Key(w.keys.counter).Build()) }

// write ends a section that changes the counter.
func (w *worker) write(counter int64) error {
	if err := w.do(w.data.B().Set().Key(w.keys.counter).Value(strconv.FormatInt(counter, 10)).Build()).Error(); err != nil {
		return err
	}
	w.done.add(Writes)
	return nil
}

// compare ends a reader's section: whether the counter has stood still. alone says that nobody was found inside on entry.
func (w *worker) compare(hold *redlatch.Hold, before int64, alone bool) error {
	now, err := w.read()
	if err != nil || hold.Err() != nil {
		return err
	}
	w.done.add(Reads)
	if alone && now != before {
		w.say(Reads, Event{Kind: Company, Detail: fmt.Sprintf("the counter went from %d to %d while it was read", before, now)})
	}
	return nil
}

// count runs a command that answers with a number, or with nothing, which is 0.
func (s *stage) count(cmd rueidis.Completed) (int64, error) {
	n, err := s.do(cmd).AsInt64()
	if rueidis.IsRedisNil(err) {
		return 0, nil
	}
	return n, err
}

func (s *stage) do(cmd rueidis.Completed) rueidis.RedisResult {
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	return s.data.Do(ctx, cmd)
}

// pause sleeps; false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
