package javaagent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/redlatch/redlatch/interop/agent"
)

// DefaultRedisson is the release that is used when none is named: the one that docs and protocol refer to.
const DefaultRedisson = "4.7.0"

// mainClass is the agent's entry point.
const mainClass = "io.github.redlatch.agent.Main"

// What a build leaves in its folder.
const (
	jarFile       = "agent.jar"
	classpathFile = "classpath.txt"
)

// toInstall ends every error about a missing tool.
const toInstall = `install a JDK 17 or newer and Maven 3.6.3 or newer (Debian: apt-get install openjdk-17-jdk-headless maven)`

// aRelease is what a Redisson version may look like; it becomes part of a path and of a command line.
var aRelease = regexp.MustCompile(`^\d+(\.\d+)*([.-][A-Za-z0-9]+)*$`)

// built is an agent that can be started.
type built struct {
	java      string // the java program
	classpath string
}

// build returns the agent for a Redisson release, building it when the cache has none. ctx bounds the build, which takes
// seconds, or with an empty Maven repository as long as the downloads. On failure nothing is left in the cache but the
// lock file.
func build(ctx context.Context, release string) (built, error) {
	if !aRelease.MatchString(release) {
		return built{}, fmt.Errorf("javaagent: RedissonVersion is %q; it must be a release number such as %q", release, DefaultRedisson)
	}
	java, err := javaProgram()
	if err != nil {
		return built{}, err
	}
	root, err := cacheRoot()
	if err != nil {
		return built{}, err
	}
	hash, err := sourcesHash(agent.Sources)
	if err != nil {
		return built{}, err
	}
	dir := filepath.Join(root, release+"-"+hash)
	classpath, err := usable(dir)
	if err == nil {
		return built{java: java, classpath: classpath}, nil
	}
	if err := buildLocked(ctx, root, dir, release); err != nil {
		return built{}, err
	}
	if classpath, err = usable(dir); err != nil {
		return built{}, fmt.Errorf("javaagent: Maven has built the agent for Redisson %s, but: %w", release, err)
	}
	return built{java: java, classpath: classpath}, nil
}

// javaProgram prefers JAVA_HOME, as Maven does, so that what was compiled is run by the same JDK.
func javaProgram() (string, error) {
	if home := os.Getenv("JAVA_HOME"); home != "" {
		return programOrRemedy(filepath.Join(home, "bin", "java"))
	}
	return programOrRemedy("java")
}

func programOrRemedy(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("javaagent: no %s to run the Java agent with: %w; %s", name, err, toInstall)
	}
	return path, nil
}

func cacheRoot() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("javaagent: find the cache folder: %w; set HOME or XDG_CACHE_HOME", err)
	}
	return filepath.Join(cache, "redlatch", "agent"), nil
}

// sourcesHash names a state of the agent's sources.
func sourcesHash(sources fs.FS) (string, error) {
	sum := sha256.New()
	err := walkFiles(sources, func(path string, content []byte) error {
		_, err := fmt.Fprintf(sum, "%s %d\n%s", path, len(content), content)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil))[:12], err
}

// walkFiles visits the sources in lexical order.
func walkFiles(sources fs.FS, visit func(path string, content []byte) error) error {
	err := fs.WalkDir(sources, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(sources, path)
		if err != nil {
			return err
		}
		return visit(path, content)
	})
	if err != nil {
		return fmt.Errorf("javaagent: read the agent's sources: %w", err)
	}
	return nil
}

// usable returns the class path of a finished build. It looks at every entry, because the jars of the dependencies are
// in Maven's repository, which may have been emptied since.
func usable(dir string) (string, error) {
	content, err := os.ReadFile(filepath.Join(dir, classpathFile))
	if err != nil {
		return "", err
	}
	entries := []string{filepath.Join(dir, jarFile)}
	entries = append(entries, filepath.SplitList(strings.TrimSpace(string(content)))...)
	for _, entry := range entries {
		if _, err := os.Stat(entry); err != nil {
			return "", fmt.Errorf("the agent's class path is not complete: %w", err)
		}
	}
	return strings.Join(entries, string(os.PathListSeparator)), nil
}

// buildLocked builds into dir unless another process has done so while this one waited for the lock. One lock serves all
// releases: Maven's repository does not bear two builds that download into it at the same time.
func buildLocked(ctx context.Context, root, dir, release string) error {
	mvn, err := programOrRemedy("mvn")
	if err != nil {
		return err
	}
	unlock, err := lockFile(ctx, root)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := usable(dir); err == nil {
		return nil
	}
	work, err := os.MkdirTemp(root, ".build-")
	if err != nil {
		return fmt.Errorf("javaagent: make a folder to build the agent in: %w", err)
	}
	defer os.RemoveAll(work)
	if err := writeSources(work); err != nil {
		return err
	}
	if err := runMaven(ctx, mvn, work, release); err != nil {
		return err
	}
	return moveResult(filepath.Join(work, "target"), dir)
}

func writeSources(dir string) error {
	return walkFiles(agent.Sources, func(path string, content []byte) error {
		target := filepath.Join(dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(target), 0o750); err != nil {
			return err
		}
		return os.WriteFile(target, content, 0o600)
	})
}

func runMaven(ctx context.Context, mvn, dir, release string) error {
	cmd := exec.CommandContext(ctx, mvn, "-q", "-B", "-Dstyle.color=never", "-Dmaven.wagon.http.retryHandler.count=5",
		"-Dredisson.version="+release, "-f", filepath.Join(dir, "pom.xml"), "package")
	cmd.Env = os.Environ()
	if os.Getenv("MAVEN_OPTS") == "" {
		// Maven lives for seconds: the optimising compiler and a parallel collector cost more than they bring.
		cmd.Env = append(cmd.Env, "MAVEN_OPTS=-XX:+UseSerialGC -XX:TieredStopAtLevel=1")
	}
	var output tail
	cmd.Stdout, cmd.Stderr = &output, &output
	// mvn is a shell script; the JVM that it has started may keep the pipe open after the script was killed.
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return fmt.Errorf("javaagent: build the Java agent for Redisson %s with Maven: %w\n%s\nIf the JDK or its compiler is what is missing: %s",
			release, err, output.String(), toInstall)
	}
	return nil
}

// moveResult puts what is needed into the cache in one rename, so that nobody ever sees half of it.
func moveResult(target, dir string) error {
	entries, err := os.ReadDir(target)
	if err != nil {
		return fmt.Errorf("javaagent: look at what Maven has built: %w", err)
	}
	for _, entry := range entries {
		if slices.Contains([]string{jarFile, classpathFile}, entry.Name()) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(target, entry.Name())); err != nil {
			return fmt.Errorf("javaagent: tidy what Maven has built: %w", err)
		}
	}
	// A folder from an earlier build whose jars have gone; it was found unusable under this lock.
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("javaagent: remove an outdated build: %w", err)
	}
	if err := os.Rename(target, dir); err != nil {
		return fmt.Errorf("javaagent: put the agent into the cache: %w", err)
	}
	return nil
}

// lockFile waits for the build lock. unlock, and also the end of the process, gives it up.
func lockFile(ctx context.Context, root string) (unlock func(), err error) {
	if err := os.MkdirAll(root, 0o750); err != nil {
		return nil, fmt.Errorf("javaagent: make the cache folder: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(root, "build.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("javaagent: open the build lock: %w", err)
	}
	err = awaitLock(ctx, file)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("javaagent: wait for another build of the agent (%s): %w", file.Name(), err), file.Close())
	}
	return func() { closeQuietly(file) }, nil
}

func awaitLock(ctx context.Context, file *os.File) error {
	retry := time.NewTicker(50 * time.Millisecond)
	defer retry.Stop()
	for {
		taken, err := tryLockFile(file)
		if taken || err != nil {
			return err
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// closeQuietly closes what was only read from or locked: there is nothing that a failure could lose.
func closeQuietly(c io.Closer) { _ = c.Close() }
