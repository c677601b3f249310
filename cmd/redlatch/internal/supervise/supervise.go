package supervise

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Hold is what supervise needs of a redlatch.Hold.
type Hold interface {
	ValidUntil() time.Time
	Lost() <-chan struct{}
	Err() error
}

// Options say how a command is watched over.
type Options struct {
	// Grace is the time between SIGTERM and SIGKILL when the lock ends before the command; above 0.
	Grace time.Duration
	// Signals are forwarded to the command.
	Signals <-chan os.Signal
	// Report is told in words what is done to the command and why.
	Report func(string)
}

// Outcome is how the command ended.
type Outcome struct {
	// Code is the command's exit code, or 128 plus the signal that ended it.
	Code int
	// Stopped is why the command was told to end because of the lock; nil if it ended by itself.
	Stopped error
}

// ErrEnding is why a command is told to end while the lock is still held.
var ErrEnding = errors.New("the lock's lease is about to end")

// Run starts the command, forwards signals, and returns when it has ended; it then must not outlive the hold, which the caller
// releases afterwards. The error says that the command was not started: it could not be, or the hold had ended already.
func Run(hold Hold, c Command, o Options) (Outcome, error) {
	if err := hold.Err(); err != nil {
		return Outcome{}, err
	}
	return run(hold, c, o, inForeground())
}

func run(hold Hold, c Command, o Options, shared bool) (Outcome, error) {
	ch, err := start(c, shared)
	if err != nil {
		return Outcome{}, err
	}
	w := &watch{hold: hold, process: ch, Options: o, shared: shared}
	w.run()
	if w.stopped != nil {
		w.clear()
	}
	return Outcome{Code: exitCode(ch.state), Stopped: w.stopped}, nil
}

// process is what a watch needs of a child.
type process interface {
	done() <-chan struct{}
	signal(os.Signal) error
	groupEmpty() bool
}

// watch is the life of one command under one hold. It has no goroutine of its own.
type watch struct {
	Options
	hold    Hold
	process process
	shared  bool

	until   time.Time // the last known end of validity
	stopped error     // why SIGTERM was sent
	killAt  time.Time // set with stopped
	killed  bool
}

func (w *watch) run() {
	lost := w.hold.Lost()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-w.process.done():
			return
		case sig := <-w.Signals:
			w.forward(sig)
			continue
		case <-lost:
			lost = nil
		case <-timer.C:
		}
		if next := w.look(time.Now()); !next.IsZero() {
			timer.Reset(time.Until(next))
		}
	}
}

// look does what the hour demands and says when to look again; zero: never.
func (w *watch) look(now time.Time) time.Time {
	if w.stopped == nil {
		if until := w.hold.ValidUntil(); until.IsZero() {
			w.stop(earlier(now.Add(w.Grace), w.until.Add(-w.lead())), w.hold.Err())
		} else {
			w.until = until
			if notice := until.Add(-w.Grace); now.Before(notice) {
				return notice
			}
			w.stop(until.Add(-w.lead()), ErrEnding)
		}
	}
	if w.killed {
		return time.Time{}
	}
	if now.Before(w.killAt) {
		return w.killAt
	}
	w.kill()
	return time.Time{}
}

// longestLead is how much sooner than the end of validity SIGKILL is sent at most.
const longestLead = 250 * time.Millisecond

// lead is what the kernel and a busy machine get to end the command with: at the end of validity it has to be gone.
func (w *watch) lead() time.Duration { return min(w.Grace/4, longestLead) }

// stop tells the command to end.
func (w *watch) stop(killAt time.Time, why error) {
	w.stopped, w.killAt = why, killAt
	left := max(time.Until(killAt), 0).Round(time.Millisecond)
	w.Report(fmt.Sprintf("%v; the command gets SIGTERM, and SIGKILL in %v", why, left))
	w.send(syscall.SIGTERM)
}

func (w *watch) kill() {
	w.killed = true
	w.Report("the command did not end in time and gets SIGKILL")
	w.send(syscall.SIGKILL)
}

func (w *watch) forward(sig os.Signal) {
	if w.shared && fromTerminal(sig) {
		return
	}
	w.send(sig)
}

func (w *watch) send(sig os.Signal) {
	if err := w.process.signal(sig); err != nil {
		w.Report(fmt.Sprintf("send %v to the command: %v", sig, err))
	}
}

// groupPause is how often a group is looked at whose leader has ended; the kernel tells nobody when the last one has gone.
const groupPause = 10 * time.Millisecond

// clear sees to it that what a stopped command has started ends in time, too: a shell dies of SIGTERM at once, while its children
// may still be cleaning up.
func (w *watch) clear() {
	for !w.process.groupEmpty() {
		if left := time.Until(w.killAt); left <= 0 {
			w.send(syscall.SIGKILL)
			return
		}
		time.Sleep(groupPause)
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
