//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/rlock"
)

// with builds a command line of run: flags, name, and the command after them.
func with(server *redistest.Server, flags, command []string) []string {
	args := append([]string{"run", "--redis", server.URL()}, flags...)
	return append(append(args, "job"), command...)
}

// other is the lock as somebody else has it.
func other(t *testing.T, server *redistest.Server) *rlock.Lock {
	t.Helper()
	client, err := redlatch.Open(t.Context(), config.Config{Servers: config.Single(server.URL())})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return rlock.New(client, "job")
}

func locked(t *testing.T, server *redistest.Server) bool {
	t.Helper()
	return server.Do(t, "EXISTS", "job").Int() == 1
}

func TestCommandRunsUnderTheLockWithItsOwnInputAndOutput(t *testing.T) {
	server := redistest.Start(t)
	c := launch(t, with(server, nil, child("print"))...)
	c.says("job")
	require.True(t, locked(t, server))
	_, err := other(t, server).TryLock(t.Context())
	require.ErrorIs(t, err, redlatch.ErrNotAcquired)
	fmt.Fprintln(c.in, "hello")
	c.says("hello")
	require.NoError(t, c.in.Close())
	require.Equal(t, 0, c.ends())
	require.False(t, locked(t, server))
	require.Empty(t, c.errors.String(), "quiet when all is well")
}

func TestExitCodeIsTheCommandsAndTheLockIsFreeAfterwards(t *testing.T) {
	server := redistest.Start(t)
	for _, want := range []int{0, 3, 75, 255} {
		code, _, stderr := here(t, with(server, nil, child("exit", strconv.Itoa(want)))...)
		require.Equal(t, want, code)
		require.Empty(t, stderr)
		require.False(t, locked(t, server))
	}
}

func TestLockThatIsHeldIsNotAcquired(t *testing.T) {
	server := redistest.Start(t)
	hold, err := other(t, server).Lock(t.Context())
	require.NoError(t, err)
	for wait, words := range map[string]string{"0": "at the first attempt", "50ms": "within 50ms"} {
		code, stdout, stderr := here(t, with(server, []string{"--wait", wait}, child("print"))...)
		require.Equal(t, exitNotAcquired, code)
		require.Empty(t, stdout, "the command must not run")
		require.Contains(t, stderr, words)
		require.Contains(t, stderr, hold.Owner().String()+" holds it")
		require.Equal(t, 1, strings.Count(stderr, "\n"), "one line")
	}
	require.NoError(t, hold.Unlock(t.Context()))
}

func TestLockThatBecomesFreeIsWaitedFor(t *testing.T) {
	server := redistest.Start(t)
	hold, err := other(t, server).Lock(t.Context())
	require.NoError(t, err)
	c := launch(t, with(server, []string{"-v"}, child("exit", "4"))...)
	c.notesThat("waiting for it")
	require.NoError(t, hold.Unlock(t.Context()))
	require.Equal(t, 4, c.ends())
	require.Contains(t, c.errors.String(), "taken after")
	require.Contains(t, c.errors.String(), "released")
}

func TestSignalsAreForwarded(t *testing.T) {
	server := redistest.Start(t)
	c := launch(t, with(server, nil, child("obey"))...)
	c.says("ready")
	for _, sig := range allSignals {
		c.signal(sig)
		c.says(sig.String())
	}
	require.Equal(t, 5, c.ends(), "the command's own code: it has ended by itself")
	require.False(t, locked(t, server))
}

func TestSignalEndsTheWaitForTheLock(t *testing.T) {
	server := redistest.Start(t)
	hold, err := other(t, server).Lock(t.Context())
	require.NoError(t, err)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		c := launch(t, with(server, []string{"-v"}, child("print"))...)
		c.notesThat("waiting for it")
		c.signal(syscall.SIGUSR1) // is the command's, which is not there yet
		c.signal(sig)
		require.Equal(t, exitSignalled+int(sig), c.ends())
		require.Contains(t, c.errors.String(), "before the command was started")
	}
	require.NoError(t, hold.Unlock(t.Context()))
	require.False(t, locked(t, server))
}

// A renewal finds out at a third of the watchdog timeout.
var impatient = []string{"--watchdog-timeout", "900ms", "--grace", "150ms"}

func TestCommandIsToldWhenTheLockIsReleasedByForce(t *testing.T) {
	server := redistest.Start(t)
	c := launch(t, with(server, impatient, child("obey"))...)
	c.says("ready")
	freed, err := other(t, server).ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, freed)
	c.says("terminated")
	require.Equal(t, exitLost, c.ends())
	require.Contains(t, c.errors.String(), "the command was stopped (exit code 5) because lock lost")
}

func TestCommandThatDoesNotObeyIsKilledAndTheNextHolderIsLeftAlone(t *testing.T) {
	server := redistest.Start(t)
	c := launch(t, with(server, impatient, child("stubborn"))...)
	c.says("ready")
	lock := other(t, server)
	_, err := lock.ForceUnlock(t.Context())
	require.NoError(t, err)
	hold, err := lock.Lock(t.Context())
	require.NoError(t, err)
	c.says("terminated")
	require.Equal(t, exitLost, c.ends())
	require.Contains(t, c.errors.String(), "gets SIGKILL")
	require.NoError(t, hold.Unlock(t.Context()), "what the tool cleans up is its own only")
}

func TestCommandIsKilledBeforeAFixedLeaseEnds(t *testing.T) {
	server := redistest.Start(t)
	name, death := grave(t)
	c := launch(t, with(server, []string{"--lease", "2s", "--grace", "600ms"}, child("stubborn", name))...)
	c.says("ready")
	expiry := time.UnixMilli(server.Do(t, "PEXPIRETIME", "job").Int())
	c.says("terminated")
	awaitDeath(t, death)
	dead := time.Now()
	require.True(t, dead.Before(expiry), "the command ended %v after the key", dead.Sub(expiry))
	require.Equal(t, exitLost, c.ends())
}

func TestCommandIsKilledWhenTheServerAnswersNoMore(t *testing.T) {
	server := redistest.Start(t)
	name, death := grave(t)
	c := launch(t, with(server, impatient, child("stubborn", name))...)
	c.says("ready")
	server.Stop(t)
	c.says("terminated")
	awaitDeath(t, death)
	server.Cont(t)
	require.Equal(t, exitLost, c.ends())
	require.Contains(t, c.errors.String(), "about to end")
}

func TestCommandThatEndsAfterTheLossIsNotASuccess(t *testing.T) {
	server := redistest.Start(t)
	// No renewal is due before the command's end.
	c := launch(t, with(server, []string{"--watchdog-timeout", "1h"}, child("print"))...)
	c.says("job")
	_, err := other(t, server).ForceUnlock(t.Context())
	require.NoError(t, err)
	require.NoError(t, c.in.Close())
	require.Equal(t, exitLost, c.ends())
	require.Contains(t, c.errors.String(), "was not protected to its end")
}

func TestMaxHoldEndsTheCommand(t *testing.T) {
	server := redistest.Start(t)
	c := launch(t, with(server, []string{"--watchdog-timeout", "600ms", "--max-hold", "700ms"}, child("obey"))...)
	c.says("ready")
	c.says("terminated")
	require.Equal(t, exitLost, c.ends())
	require.False(t, locked(t, server))
}

func TestServerThatIsNotThereIsUnavailable(t *testing.T) {
	code, _, stderr := here(t, append([]string{"run", "--redis", "redis://127.0.0.1:1", "job"}, child("print")...)...)
	require.Equal(t, exitUnavailable, code)
	require.Contains(t, stderr, "127.0.0.1:1")
	require.Equal(t, 1, strings.Count(stderr, "\n"))
}

func TestKeyThatIsNoLockIsAnError(t *testing.T) {
	server := redistest.Start(t)
	server.Do(t, "SET", "job", "x")
	code, stdout, stderr := here(t, with(server, nil, child("print"))...)
	require.Equal(t, exitUnavailable, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "holds something else")
}

func TestCommandThatCannotRunHasTheShellsCodesAndTakesNoLock(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(script, []byte("not executable"), 0o600))
	for command, want := range map[string]int{"no-such-command": exitNotFound, "/no/such/file": exitNotFound, script: exitNotRunnable} {
		code, _, stderr := here(t, "run", "--redis", "redis://127.0.0.1:1", "job", "--", command)
		require.Equal(t, want, code, stderr)
		require.Contains(t, stderr, command)
	}
}

// The kernel finds out that it can't run it, after the lock was taken.
func TestCommandThatFailsToStartFreesTheLock(t *testing.T) {
	server := redistest.Start(t)
	garbage := filepath.Join(t.TempDir(), "garbage")
	require.NoError(t, os.WriteFile(garbage, []byte("\x7fELF garbage"), 0o700))
	code, _, stderr := here(t, with(server, nil, []string{"--", garbage})...)
	require.Equal(t, exitNotRunnable, code)
	require.Contains(t, stderr, "can't be executed")
	require.False(t, locked(t, server))
}

func TestPasswordComesFromAFileOrTheEnvironment(t *testing.T) {
	server := redistest.Start(t, redistest.WithPassword(`p"@:/ w`))
	bare := []string{"run", "--redis", "redis://" + server.Addr(), "job"}
	code, _, stderr := here(t, append(bare, child("exit", "0")...)...)
	require.Equal(t, exitUnavailable, code)
	require.Contains(t, stderr, "NOAUTH")

	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte(server.Password()+"\n"), 0o600))
	code, _, stderr = here(t, append([]string{"run", "--password-file", file}, append(bare[1:], child("exit", "0")...)...)...)
	require.Equal(t, 0, code, stderr)

	t.Setenv(envPassword, server.Password())
	t.Setenv(envRedis, server.Addr())
	code, _, stderr = here(t, append([]string{"run", "job"}, child("exit", "0")...)...)
	require.Equal(t, 0, code, stderr)
}

func TestTLSTrustsTheAuthorityThatIsNamed(t *testing.T) {
	o := redistest.Options{Dir: t.TempDir(), TLS: true}
	server, err := redistest.Launch(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	code, _, stderr := here(t, with(server, nil, child("exit", "0"))...)
	require.Equal(t, exitUnavailable, code)
	require.Contains(t, stderr, "certificate")
	code, _, stderr = here(t, with(server, []string{"--tls-ca", filepath.Join(o.Dir, "ca.pem")}, child("exit", "0"))...)
	require.Equal(t, 0, code, stderr)
}
