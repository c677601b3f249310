//go:build unix

package supervise

import (
	"errors"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// forwarded are the signals that go on to the command.
var forwarded = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
}

// Notify has the forwarded signals sent to c, except those that this program was started to ignore, as nohup does with SIGHUP.
// signal.Stop ends it.
func Notify(c chan<- os.Signal) {
	for _, sig := range forwarded {
		if !signal.Ignored(sig) {
			signal.Notify(c, sig)
		}
	}
}

// Ends tells whether a signal ends a program that does nothing about it; SIGUSR1 and SIGUSR2 do as well, but are meant for the
// command.
func Ends(sig os.Signal) bool {
	return sig == syscall.SIGINT || sig == syscall.SIGTERM || sig == syscall.SIGHUP || sig == syscall.SIGQUIT
}

// inForeground tells whether this program's group has the terminal, so that its child must stay in it.
func inForeground() bool {
	tty, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false // no terminal belongs to this process
	}
	defer unix.Close(tty)
	group, err := unix.IoctlGetInt(tty, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// fromTerminal tells whether the terminal sends a signal to the whole foreground group by itself.
func fromTerminal(sig os.Signal) bool { return sig == syscall.SIGINT || sig == syscall.SIGQUIT }

func (c *child) send(sig os.Signal) error {
	number, ok := sig.(syscall.Signal)
	if !ok || c.shared {
		return c.cmd.Process.Signal(sig)
	}
	// The group outlives its leader as long as anybody is in it, and its number is not given to another meanwhile.
	if err := syscall.Kill(-c.cmd.Process.Pid, number); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// groupEmpty tells whether nobody is left of the command and what it has started. In a shared group that can't be known.
func (c *child) groupEmpty() bool {
	return c.shared || errors.Is(syscall.Kill(-c.cmd.Process.Pid, 0), syscall.ESRCH)
}

// exitCode is the command's own, or as shells have it 128 plus the signal that ended it.
func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}
