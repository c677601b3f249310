//go:build unix

package redisproc_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// lockFile takes the lock as another process would.
func lockFile(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
	return f
}
