package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/redlatch/redlatch/internal/redistest"
)

// Nobody renews the lock any more, so the command must not go on. The output's end says that it is gone.
func TestCommandDoesNotOutliveAKilledTool(t *testing.T) {
	server := redistest.Start(t)
	c := launch(t, with(server, nil, child("stubborn"))...)
	c.says("ready")
	c.signal(syscall.SIGKILL)
	c.ends()
	require.True(t, locked(t, server), "the lock is left to expire by itself")
}

// terminal opens a pair of pseudo-terminals: what is written to the first is typed into the second.
func terminalPair(t *testing.T) (keyboard, tty *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = keyboard.Close() })
	raw, err := keyboard.SyscallConn()
	require.NoError(t, err)
	var number int
	require.NoError(t, raw.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}))
	require.NoError(t, err)
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tty.Close() })
	return keyboard, tty
}

// A second SIGINT means "at once" to many programs.
func TestCtrlCReachesTheCommandOnce(t *testing.T) {
	server := redistest.Start(t)
	keyboard, tty := terminalPair(t)
	out, outEnd := pipe(t)
	cmd := exec.Command(os.Args[0], append([]string{"tool"}, with(server, nil, child("obey"))...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, outEnd, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	require.NoError(t, outEnd.Close())

	lines := bufio.NewScanner(out)
	says := func(want string) {
		t.Helper()
		require.True(t, lines.Scan())
		require.Equal(t, want, lines.Text())
	}
	says("ready")
	_, err := keyboard.WriteString("\x03")
	require.NoError(t, err)
	says("interrupt")
	// What the tool gets itself is forwarded, in order: a second SIGINT would come before it.
	require.NoError(t, cmd.Process.Signal(syscall.SIGUSR1))
	says("user defined signal 1")
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	says("terminated")
	var ended *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &ended)
	require.Equal(t, 5, ended.ExitCode())
}

func TestDemoDrawsATimelineInATerminal(t *testing.T) {
	keyboard, tty := terminalPair(t)
	require.NoError(t, setSize(tty, 100, 30))
	cmd := exec.Command(os.Args[0], "tool", "demo", "--for", "1s", "--lease", "300ms")
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "LANG=C.UTF-8", "NO_COLOR=")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	require.NoError(t, tty.Close())
	require.NoError(t, keyboard.SetReadDeadline(time.Now().Add(patience)))

	var seen []byte
	for chunk := make([]byte, 4096); ; {
		n, err := keyboard.Read(chunk)
		seen = append(seen, chunk[:n]...)
		if err != nil { // EIO when the last one has closed the terminal
			require.ErrorIs(t, err, syscall.EIO)
			break
		}
	}
	require.NoError(t, cmd.Wait())
	for _, want := range []string{"\x1b[?25l", "\x1b[36mgo-1", "█", "▒", "\x1b[?25h", "\x1b[1;32mOK ", "overlaps 0"} {
		require.Contains(t, string(seen), want)
	}
}

func setSize(tty *os.File, width, height uint16) error {
	return unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: width, Row: height})
}
