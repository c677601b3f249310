//go:build unix

package javaagent

import (
	"errors"
	"os"
	"syscall"
)

// tryLockFile takes an exclusive lock that ends with the open file.
func tryLockFile(file *os.File) (taken bool, err error) {
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
