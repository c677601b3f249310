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
	section int
	done    int64 // sections that wrote the counter
}

// run works until stop ends, over a crash and the start after it. The error is what no lock can be blamed for.
func (w *worker) run(stop context.Context) error {
	for {
		crashed, err := w.live(stop)
		w.board.wrote(w.name, w.done)
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
	lock := w.Kind.New(client, w.Name)
	for stop.Err() == nil {
		w.section++
		w.board.say(Event{Worker: w.name, Kind: Waiting, Section: w.section})
		hold, err := lock.Lock(stop)
		if err != nil {
			if stop.Err() != nil {
				return false, nil
			}
			return false, err
		}
		w.board.say(Event{Worker: w.name, Kind: Acquired, Section: w.section})
		if w.crashes() {
			w.crash(client, hold)
			return true, nil
		}
		if err := w.work(hold); err != nil {
			return false, err
		}
		pause(stop, w.rest())
	}
	return false, nil
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
// that it leaves the counter and the gauge as they are.
func (w *worker) crashes() bool {
	return w.Crash && w.board.Now() > w.For*3/10 && w.crashed.CompareAndSwap(false, true)
}

func (w *worker) crash(client *redlatch.Client, hold *redlatch.Hold) {
	until := hold.ValidUntil()
	w.board.say(Event{Worker: w.name, Kind: Crashed, Section: w.section, Took: time.Until(until)})
	_ = client.Close() // always nil
}

// work is a section: an update that only a lock protects, with a gauge beside it that shows company.
func (w *worker) work(hold *redlatch.Hold) error {
	err := w.update(hold)
	if err == nil && hold.Err() != nil {
		w.board.say(Event{Worker: w.name, Kind: Lost, Section: w.section, Detail: hold.Err().Error()})
	} else {
		w.board.say(Event{Worker: w.name, Kind: Released, Section: w.section})
	}
	// A loss has been told above.
	if unlockErr := hold.Unlock(context.Background()); err == nil && unlockErr != nil && !errors.Is(unlockErr, redlatch.ErrLost) {
		err = unlockErr
	}
	return err
}

func (w *worker) update(hold *redlatch.Hold) error {
	inside, err := w.count(w.data.B().Incr().Key(w.keys.inside).Build())
	if err != nil {
		return err
	}
	if inside > 1 {
		w.board.say(Event{Worker: w.name, Kind: Company, Section: w.section, Detail: fmt.Sprintf("%d are inside", inside)})
	}
	read, err := w.count(w.data.B().Get().Key(w.keys.counter).Build())
	if err != nil {
		return err
	}
	// A section is finished also when the time is over; but who has lost the lock leaves without writing.
	select {
	case <-time.After(w.Hold/2 + rand.N(w.Hold+1)):
	case <-hold.Lost():
	}
	if hold.Err() == nil {
		next := strconv.FormatInt(read+1, 10)
		if err := w.do(w.data.B().Set().Key(w.keys.counter).Value(next).Build()).Error(); err != nil {
			return err
		}
		w.done++
	}
	return w.do(w.data.B().Decr().Key(w.keys.inside).Build()).Error()
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
