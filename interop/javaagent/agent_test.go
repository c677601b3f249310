package javaagent_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/interop/javaagent"
)

func start(t *testing.T, opts javaagent.Options) *javaagent.Agent {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), buildBound)
	defer cancel()
	agent, err := javaagent.Start(ctx, opts)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, agent.Kill())
		server.FlushAll(t)
	})
	return agent
}

func TestAgentTellsWhatItRunsOn(t *testing.T) {
	require.Equal(t, javaagent.DefaultRedisson, jvm.Redisson())
	require.NotEmpty(t, jvm.Java())
	require.Positive(t, jvm.PID())
}

func TestAgentEndsWhenItsStdinCloses(t *testing.T) {
	ctx := bounded(t)
	agent := start(t, javaagent.Options{})
	client, err := agent.Open(ctx, "a", javaagent.YAMLSingle(server.Addr()))
	require.NoError(t, err)
	lock := javaagent.Plain(key(t, "lock"))
	require.NoError(t, client.Thread("holder").Lock(ctx, lock, javaagent.Lease(20*time.Second)))
	waiting := client.Thread("waiter").Go(javaagent.NewOp(javaagent.OpLock, lock))
	awaitSubscribed(t, lock.Name)

	began := time.Now()
	require.NoError(t, agent.Close(), "it must exit with 0 by itself")
	require.Less(t, time.Since(began), 10*time.Second)
	select {
	case <-agent.Done():
	default:
		require.Fail(t, "Close returned before the process had ended")
	}
	_, err = waiting.Wait(ctx)
	require.Error(t, err, "Redisson may still have said that it is shut down; else it is ErrEnded")
	require.ErrorIs(t, client.Thread("waiter").Unlock(ctx, lock), javaagent.ErrEnded)
	require.NoError(t, agent.Close(), "Close is idempotent")
	require.Equal(t, int64(1), server.Do(t, "EXISTS", lock.Name).Int(), "what a JVM held stays until its lease ends")
}

func TestKilledAgentFailsWhatIsPending(t *testing.T) {
	ctx := bounded(t)
	agent := start(t, javaagent.Options{})
	client, err := agent.Open(ctx, "a", javaagent.YAMLSingle(server.Addr()))
	require.NoError(t, err)
	require.NoError(t, agent.Signal(syscall.SIGSTOP))
	pending := client.Thread("t").Go(javaagent.NewOp(javaagent.OpLock, javaagent.Plain(key(t, "lock"))))
	require.NoError(t, agent.Kill(), "a stopped process can be killed too")
	_, err = pending.Wait(ctx)
	require.ErrorIs(t, err, javaagent.ErrEnded)
	require.NoError(t, agent.Close(), "the caller wanted that end")
}

func TestWaitEndsWithItsContextAndTheOperationGoesOn(t *testing.T) {
	ctx, client, lock := bounded(t), open(t), javaagent.Plain(key(t, "lock"))
	holder, waiter := thread(t, client, "holder"), thread(t, client, "waiter")
	require.NoError(t, holder.Lock(ctx, lock))
	pending := waiter.Go(javaagent.NewOp(javaagent.OpLock, lock))
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	_, err := pending.Wait(cancelled)
	require.ErrorIs(t, err, context.Canceled)

	require.NoError(t, holder.Unlock(ctx, lock))
	_, err = pending.Wait(ctx)
	require.NoError(t, err)
	_, err = pending.Wait(cancelled)
	require.NoError(t, err, "an answer that is there beats a context that is done")
	require.NoError(t, waiter.Unlock(ctx, lock))
}

func TestJVMLogsGoToStderr(t *testing.T) {
	var log bytes.Buffer
	agent := start(t, javaagent.Options{Stderr: &log, Env: []string{"JAVA_TOOL_OPTIONS=-Dredlatch.test=1"}})
	require.NoError(t, agent.Close())
	require.Contains(t, log.String(), "-Dredlatch.test=1", "the JVM says on stderr that it picked the options up")
}

func TestJVMThatCannotStartIsAnErrorWithItsWords(t *testing.T) {
	_, err := javaagent.Start(bounded(t), javaagent.Options{Env: []string{"JAVA_TOOL_OPTIONS=-XX:NoSuchFlag"}})
	require.ErrorIs(t, err, javaagent.ErrEnded)
	require.ErrorContains(t, err, "NoSuchFlag")
	require.ErrorContains(t, err, "exit status 1")
}

func TestBuiltAgentNeedsNoMaven(t *testing.T) {
	java, err := exec.LookPath("java")
	require.NoError(t, err)
	bin := t.TempDir()
	require.NoError(t, os.Symlink(java, filepath.Join(bin, "java")))
	t.Setenv("PATH", bin)
	require.NoError(t, start(t, javaagent.Options{}).Close())
}

func TestMissingToolsAreNamedWithTheRemedy(t *testing.T) {
	java, err := exec.LookPath("java")
	require.NoError(t, err)
	bin, cache := t.TempDir(), t.TempDir()
	t.Setenv("JAVA_HOME", "")
	t.Setenv("PATH", bin)
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("HOME", cache)

	_, err = javaagent.Start(bounded(t), javaagent.Options{})
	require.ErrorContains(t, err, "no java")
	require.ErrorContains(t, err, "apt-get install openjdk-17-jdk-headless maven")

	require.NoError(t, os.Symlink(java, filepath.Join(bin, "java")))
	_, err = javaagent.Start(bounded(t), javaagent.Options{})
	require.ErrorContains(t, err, "no mvn")
	require.ErrorContains(t, err, "apt-get install openjdk-17-jdk-headless maven")
}

// fakeMaven puts a program named mvn before all others in PATH, and an empty cache in the place of the user's.
func fakeMaven(t *testing.T, script string) (cache string) {
	t.Helper()
	bin := t.TempDir()
	cache = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bin, "mvn"), []byte("#!/bin/sh\n"+script), 0o755))
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("XDG_CACHE_HOME", cache)
	return cache
}

func TestAgentIsBuiltOnceForAllThatStartIt(t *testing.T) {
	builds := filepath.Join(t.TempDir(), "builds")
	fakeMaven(t, `echo one >> '`+builds+`'
for last; do [ "$previous" = -f ] && pom=$last; previous=$last; done
target=$(dirname "$pom")/target
mkdir "$target" && touch "$target/agent.jar" "$target/classpath.txt"
`)
	ctx := bounded(t)
	failures := make(chan error)
	for range 4 {
		go func() {
			_, err := javaagent.Start(ctx, javaagent.Options{})
			failures <- err
		}()
	}
	for range 4 {
		// What this Maven makes is no program, so each JVM ends at once; by then the build is over.
		require.ErrorIs(t, <-failures, javaagent.ErrEnded)
	}
	log, err := os.ReadFile(builds)
	require.NoError(t, err)
	require.Equal(t, "one\n", string(log))
}

func TestBuildEndsWithItsContext(t *testing.T) {
	fakeMaven(t, "exec sleep 600\n")
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, err := javaagent.Start(ctx, javaagent.Options{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestFailedBuildShowsMavensWordsAndLeavesNothing(t *testing.T) {
	cache := fakeMaven(t, "echo '[ERROR] the repository is on holiday'\nexit 1\n")
	_, err := javaagent.Start(bounded(t), javaagent.Options{})
	require.ErrorContains(t, err, "the repository is on holiday")
	require.ErrorContains(t, err, "exit status 1")
	left, err := filepath.Glob(filepath.Join(cache, "redlatch", "agent", "*"))
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(cache, "redlatch", "agent", "build.lock")}, left)
}

func TestStrangeRedissonVersionIsRefused(t *testing.T) {
	for _, version := range []string{"../4.7.0", "latest", "4.7.0 -X", "-4", "4..7"} {
		_, err := javaagent.Start(bounded(t), javaagent.Options{RedissonVersion: version})
		require.ErrorContains(t, err, "RedissonVersion", version)
	}
}
