//go:build unix

package supervise

import (
	"bufio"
	"bytes"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// playing is a supervised command of which the test reads the output.
type playing struct {
	hold    *fakeHold
	signals chan os.Signal
	out     *bufio.Scanner
	ended   chan Outcome
	reports *bytes.Buffer // to be read after the end
}

func play(t *testing.T, hold *fakeHold, part ...string) playing {
	t.Helper()
	read, write, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = read.Close() })
	require.NoError(t, read.SetReadDeadline(time.Now().Add(time.Minute)))
	p := playing{
		hold: hold, signals: make(chan os.Signal, 16), out: bufio.NewScanner(read),
		ended: make(chan Outcome, 1), reports: new(bytes.Buffer),
	}
	go func() {
		defer write.Close()
		// Not shared, whether or not the tests run in a terminal.
		outcome, err := run(hold, Command{
			Path: os.Args[0], Args: append([]string{"child"}, part...), Env: os.Environ(), Stdout: write, Stderr: os.Stderr,
		}, Options{Grace: 200 * time.Millisecond, Signals: p.signals, Report: func(s string) { p.reports.WriteString(s + "\n") }}, false)
		if err != nil {
			t.Error(err)
		}
		p.ended <- outcome
	}()
	return p
}

// says waits for the command's next line.
func (p playing) says(t *testing.T, want string) {
	t.Helper()
	require.True(t, p.out.Scan(), "the command has ended before it said %q", want)
	require.Equal(t, want, p.out.Text())
}

func TestExitCodeIsTheCommandsOwn(t *testing.T) {
	for _, code := range []int{0, 1, 7, 255} {
		outcome := <-play(t, holdFor(time.Hour), "exit", strconv.Itoa(code)).ended
		require.Equal(t, code, outcome.Code)
		require.NoError(t, outcome.Stopped)
	}
}

func TestCommandEndedByASignalHasTheShellsExitCode(t *testing.T) {
	require.Equal(t, 128+9, (<-play(t, holdFor(time.Hour), "kill").ended).Code)
}

func TestSignalsReachTheCommand(t *testing.T) {
	p := play(t, holdFor(time.Hour), "obey")
	p.says(t, "ready")
	for _, sig := range forwarded {
		if sig != syscall.SIGTERM {
			p.signals <- sig
			p.says(t, sig.String())
		}
	}
	p.signals <- syscall.SIGTERM
	p.says(t, "terminated")
	outcome := <-p.ended
	require.Equal(t, 5, outcome.Code)
	require.NoError(t, outcome.Stopped)
}

func TestStubbornCommandIsKilledWhenTheLockIsLost(t *testing.T) {
	p := play(t, holdFor(time.Hour), "stubborn")
	p.says(t, "ready")
	p.hold.lose()
	p.says(t, "terminated")
	outcome := <-p.ended
	require.Equal(t, 128+9, outcome.Code)
	require.ErrorIs(t, outcome.Stopped, errLost)
	require.Contains(t, p.reports.String(), "SIGKILL")
}

// A shell dies of SIGTERM at once; what it runs must not stay behind. The output's end says that nobody has it open any more.
func TestWhatTheCommandStartedIsKilledWithIt(t *testing.T) {
	p := play(t, holdFor(time.Hour), "parent")
	p.says(t, "ready")
	p.hold.lose()
	p.says(t, "terminated")
	outcome := <-p.ended
	require.Equal(t, 128+15, outcome.Code, "the parent itself dies of SIGTERM")
	require.False(t, p.out.Scan(), "%q", p.out.Text())
	require.NoError(t, p.out.Err(), "the child's child lives on")
}

func TestCommandThatCannotBeStartedIsAnError(t *testing.T) {
	_, err := Run(holdFor(time.Hour), Command{Path: "/nonexistent/program"}, Options{Grace: time.Second})
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestNothingIsStartedUnderALostHold(t *testing.T) {
	hold := holdFor(time.Hour)
	hold.lose()
	_, err := Run(hold, Command{Path: os.Args[0], Args: []string{"child", "exit", "0"}}, Options{Grace: time.Second})
	require.ErrorIs(t, err, errLost)
}
