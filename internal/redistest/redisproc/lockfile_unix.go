//go:build unix

package redisproc

import (
	"errors"
	"os"
	"syscall"
)

// tryLockFile takes an exclusive lock that ends with the open file.
func tryLockFile(f *os.File) (taken bool, err error) {
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
