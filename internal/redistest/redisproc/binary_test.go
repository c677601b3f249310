//go:build unix

package redisproc_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest/redisproc"
)

// fakeServer is a program that says of itself that it is a server of some version.
func fakeServer(t *testing.T, path, says string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\necho '"+says+"'\n"), 0o755))
	return path
}

// bare makes a machine that has nothing: no server, no package manager, an empty cache.
func bare(t *testing.T) (path, cache string) {
	t.Helper()
	path, cache = t.TempDir(), t.TempDir()
	t.Setenv("PATH", path)
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv(redisproc.EnvServer, "")
	t.Setenv(redisproc.EnvVersion, "")
	return path, cache
}

func binary(t *testing.T, version redisproc.Version) string {
	t.Helper()
	path, err := redisproc.Binary(context.Background(), version)
	require.NoError(t, err)
	return path
}

func TestEnvironmentNamesTheDefaultServer(t *testing.T) {
	path, _ := bare(t)
	own := fakeServer(t, filepath.Join(t.TempDir(), "mine"), "Redis server v=9.9.9 sha=0")
	inPath := fakeServer(t, filepath.Join(path, "redis-server"), "Redis server v=7.0.15 sha=0")
	require.Equal(t, inPath, binary(t, redisproc.Default))
	t.Setenv(redisproc.EnvServer, own)
	require.Equal(t, own, binary(t, redisproc.Default))
	require.Equal(t, own, binary(t, "9.9.9"))
	require.Equal(t, inPath, binary(t, redisproc.Redis7), "a version asked for by name is not the environment's to change")
}

func TestVersionIsTakenFromWhereverItIs(t *testing.T) {
	path, cache := bare(t)
	fakeServer(t, filepath.Join(path, "redis-server"), "Redis server v=7.0.15 sha=0")
	valkey := fakeServer(t, filepath.Join(path, "valkey-server"), "Valkey server v=9.1.2 sha=0")
	cached := fakeServer(t, filepath.Join(cache, "redlatch", "redis-server", "6.2.5", "redis-server"), "Redis server v=6.2.5 sha=0")
	require.Equal(t, valkey, binary(t, redisproc.Valkey9))
	require.Equal(t, cached, binary(t, redisproc.Redis6))
	t.Setenv(redisproc.EnvVersion, string(redisproc.Redis6))
	require.Equal(t, cached, binary(t, redisproc.Default))
}

func TestDefaultIsTheCachedServerWhereNothingIsInstalled(t *testing.T) {
	_, cache := bare(t)
	cached := fakeServer(t, filepath.Join(cache, "redlatch", "redis-server", string(redisproc.Redis8), "redis-server"), "Redis server v=8.2.3 sha=0")
	require.Equal(t, cached, binary(t, redisproc.Default))
}

func TestMissingServerNamesWhatToInstall(t *testing.T) {
	bare(t)
	_, err := redisproc.Binary(context.Background(), redisproc.Default)
	require.ErrorContains(t, err, "apt-get install redis-server")
	require.ErrorContains(t, err, redisproc.EnvServer)
	require.ErrorContains(t, err, "pip3")

	_, err = redisproc.Binary(context.Background(), "5.0.0")
	require.ErrorContains(t, err, `version "5.0.0" is not one that can be fetched`)

	t.Setenv(redisproc.EnvServer, "/no/such/server")
	_, err = redisproc.Binary(context.Background(), redisproc.Default)
	require.ErrorContains(t, err, `REDLATCH_REDIS_SERVER="/no/such/server"`)
}

func TestInstalledServerIsTheOneThatLaunchRuns(t *testing.T) {
	want, err := exec.LookPath("redis-server")
	if os.Getenv(redisproc.EnvServer) == "" && os.Getenv(redisproc.EnvVersion) == "" && err == nil {
		require.Equal(t, want, launch(t, redisproc.Options{}).Binary())
	}
}

func TestOneFetchAtATime(t *testing.T) {
	_, cache := bare(t)
	_, err := redisproc.Binary(context.Background(), "5.0.0") // makes the lock file
	require.Error(t, err)
	held := lockFile(t, filepath.Join(cache, "redlatch", "redis-server", "lock"))
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error)
	go func() {
		_, err := redisproc.Binary(ctx, "5.0.0")
		failed <- err
	}()
	cancel()
	require.ErrorIs(t, <-failed, context.Canceled)
	require.NoError(t, held.Close())
	_, err = redisproc.Binary(context.Background(), "5.0.0")
	require.ErrorContains(t, err, "not one that can be fetched")
}

// The package manager here is a script that, as a fresh container's, installs nothing before it has been updated.
func TestDebianPackageIsInstalledByRootAlone(t *testing.T) {
	path, cache := bare(t)
	script := `#!/bin/sh
case "$1" in
update) : > updated ;;
install) [ -e updated ] || exit 100
	printf '#!/bin/sh\necho "Redis server v=7.0.15 sha=0"\n' > "$PATH/redis-server"
	/bin/chmod +x "$PATH/redis-server" ;;
esac
`
	require.NoError(t, os.WriteFile(filepath.Join(path, "apt-get"), []byte(script), 0o755))
	t.Chdir(cache)
	got, err := redisproc.Binary(context.Background(), redisproc.Redis7)
	if os.Geteuid() != 0 {
		require.ErrorContains(t, err, "needs root")
		return
	}
	require.NoError(t, err)
	require.Equal(t, filepath.Join(path, "redis-server"), got)
}
