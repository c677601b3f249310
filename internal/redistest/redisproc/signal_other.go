//go:build !unix

package redisproc

import (
	"errors"
	"fmt"
	"runtime"
)

func (r *run) pause() error {
	return fmt.Errorf("redisproc: stop process %d: %s has no SIGSTOP: %w", r.pid, runtime.GOOS, errors.ErrUnsupported)
}

func (r *run) resume() error {
	return fmt.Errorf("redisproc: continue process %d: %s has no SIGCONT: %w", r.pid, runtime.GOOS, errors.ErrUnsupported)
}
