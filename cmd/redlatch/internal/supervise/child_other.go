//go:build !unix

package supervise

import (
	"os"
	"os/signal"
	"syscall"
)

// Notify has interrupts sent to c; there are no other signals here. signal.Stop ends it.
func Notify(c chan<- os.Signal) { signal.Notify(c, os.Interrupt) }

// Ends tells whether a signal ends a program that does nothing about it.
func Ends(os.Signal) bool { return true }

// inForeground is true because Ctrl-C reaches all programs of a console.
func inForeground() bool { return true }

func fromTerminal(os.Signal) bool { return true }

func attributes(bool) *syscall.SysProcAttr { return nil }

// send can only kill: a process can't be asked to end here.
func (c *child) send(os.Signal) error { return c.cmd.Process.Kill() }

func (c *child) groupEmpty() bool { return true }

func exitCode(state *os.ProcessState) int { return state.ExitCode() }
