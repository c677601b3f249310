//go:build unix

package supervise

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

const grace = 5 * time.Second

var errLost = errors.New("lost")

// fakeHold is a hold that is valid until the test says otherwise.
type fakeHold struct {
	mu    sync.Mutex
	until time.Time
	lost  chan struct{}
}

func holdFor(d time.Duration) *fakeHold {
	return &fakeHold{until: time.Now().Add(d), lost: make(chan struct{})}
}

func (h *fakeHold) ValidUntil() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.until
}

func (h *fakeHold) Lost() <-chan struct{} { return h.lost }

func (h *fakeHold) Err() error {
	if h.ValidUntil().IsZero() {
		return errLost
	}
	return nil
}

func (h *fakeHold) renew(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.until = time.Now().Add(d)
}

func (h *fakeHold) lose() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.until = time.Time{}
	close(h.lost)
}

// sent is a signal and when the command got it.
type sent struct {
	sig   os.Signal
	after time.Duration
}

// fakeProcess ends at SIGKILL, and at SIGTERM if it is told to.
type fakeProcess struct {
	start  time.Time
	exited chan struct{}
	obeys  bool
	end    sync.Once

	mu  sync.Mutex
	got []sent
}

func (p *fakeProcess) done() <-chan struct{} { return p.exited }
func (p *fakeProcess) groupEmpty() bool      { return true }
func (p *fakeProcess) exit()                 { p.end.Do(func() { close(p.exited) }) }

func (p *fakeProcess) signal(sig os.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.got = append(p.got, sent{sig, time.Since(p.start)})
	if sig == syscall.SIGKILL || sig == syscall.SIGTERM && p.obeys {
		p.exit()
	}
	return nil
}

// stage is a watch with its fakes, in a bubble in which time passes when everybody sleeps.
type stage struct {
	*watch
	hold    *fakeHold
	process *fakeProcess
	signals chan os.Signal
}

// watching runs a watch to its end, while play makes things happen; prepare comes before both.
func watching(t *testing.T, valid time.Duration, play func(stage), prepare ...func(stage)) stage {
	t.Helper()
	var s stage
	synctest.Test(t, func(*testing.T) {
		signals := make(chan os.Signal, 4)
		p := &fakeProcess{start: time.Now(), exited: make(chan struct{})}
		h := holdFor(valid)
		s = stage{
			watch: &watch{hold: h, process: p, Options: Options{Grace: grace, Signals: signals, Report: func(string) {}}},
			hold:  h, process: p, signals: signals,
		}
		for _, f := range prepare {
			f(s)
		}
		go play(s)
		s.run()
	})
	return s
}

func TestCommandIsToldGraceBeforeTheEndAndKilledRightBeforeIt(t *testing.T) {
	s := watching(t, 30*time.Second, func(stage) {})
	require.Equal(t, []sent{{syscall.SIGTERM, 25 * time.Second}, {syscall.SIGKILL, 30*time.Second - longestLead}}, s.process.got)
	require.ErrorIs(t, s.stopped, ErrEnding)
}

func TestEveryRenewalMovesTheEnd(t *testing.T) {
	s := watching(t, 30*time.Second, func(s stage) {
		for range 10 {
			time.Sleep(10 * time.Second)
			s.hold.renew(30 * time.Second)
		}
	})
	require.Equal(t, []sent{{syscall.SIGTERM, 125 * time.Second}, {syscall.SIGKILL, 130*time.Second - longestLead}}, s.process.got)
}

func TestCommandThatObeysIsNotKilled(t *testing.T) {
	s := watching(t, 30*time.Second, func(stage) {}, func(s stage) { s.process.obeys = true })
	require.Equal(t, []sent{{syscall.SIGTERM, 25 * time.Second}}, s.process.got)
}

func TestRenewalAfterSigtermTakesNothingBack(t *testing.T) {
	s := watching(t, 30*time.Second, func(s stage) {
		time.Sleep(26 * time.Second)
		s.hold.renew(30 * time.Second)
	})
	require.Equal(t, []sent{{syscall.SIGTERM, 25 * time.Second}, {syscall.SIGKILL, 30*time.Second - longestLead}}, s.process.got)
}

func TestSuddenLossTellsAtOnceAndKillsAfterTheGrace(t *testing.T) {
	s := watching(t, 30*time.Second, func(s stage) {
		time.Sleep(3 * time.Second)
		s.hold.lose()
	})
	require.Equal(t, []sent{{syscall.SIGTERM, 3 * time.Second}, {syscall.SIGKILL, 8 * time.Second}}, s.process.got)
	require.ErrorIs(t, s.stopped, errLost)
}

func TestLossNearTheEndKillsBeforeTheEnd(t *testing.T) {
	s := watching(t, 30*time.Second, func(s stage) {
		time.Sleep(26 * time.Second) // SIGTERM has been sent at 25 s
		s.hold.lose()
	})
	require.Equal(t, []sent{{syscall.SIGTERM, 25 * time.Second}, {syscall.SIGKILL, 30*time.Second - longestLead}}, s.process.got)
}

// As after the program was stopped for longer than the lease.
func TestWakingAfterTheEndKillsAtOnce(t *testing.T) {
	s := watching(t, -time.Second, func(stage) {})
	require.Equal(t, []sent{{syscall.SIGTERM, 0}, {syscall.SIGKILL, 0}}, s.process.got)
}

func TestEndOfTheCommandEndsTheWatch(t *testing.T) {
	s := watching(t, 30*time.Second, func(s stage) {
		time.Sleep(time.Second)
		s.process.exit()
	})
	require.Empty(t, s.process.got)
	require.NoError(t, s.stopped)
}

func TestSignalsAreForwardedAndMoveNothing(t *testing.T) {
	s := watching(t, 30*time.Second, func(s stage) {
		for range 20 {
			time.Sleep(time.Second)
			s.signals <- syscall.SIGUSR1
		}
	})
	require.Len(t, s.process.got, 22)
	require.Equal(t, sent{syscall.SIGUSR1, time.Second}, s.process.got[0])
	require.Equal(t, sent{syscall.SIGTERM, 25 * time.Second}, s.process.got[20])
}

func TestKeyboardSignalsAreNotForwardedTwice(t *testing.T) {
	s := watching(t, 30*time.Second, func(s stage) {
		for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP} {
			s.signals <- sig
		}
		time.Sleep(time.Second)
		s.process.exit()
	}, func(s stage) { s.shared = true })
	require.Equal(t, []sent{{syscall.SIGHUP, 0}}, s.process.got)
}
