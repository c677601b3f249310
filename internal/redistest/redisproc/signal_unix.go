//go:build unix

package redisproc

import (
	"fmt"
	"syscall"
)

// pause stops the process and returns when the kernel has done so: SIGSTOP is asynchronous, and a server with several
// cores to itself can answer once more after kill(2) has returned.
func (r *run) pause() error {
	if err := r.proc.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("redisproc: send SIGSTOP to %d: %w", r.pid, err)
	}
	return awaitStopped(r)
}

func (r *run) resume() error {
	if err := r.proc.Signal(syscall.SIGCONT); err != nil {
		return fmt.Errorf("redisproc: send SIGCONT to %d: %w", r.pid, err)
	}
	return nil
}
