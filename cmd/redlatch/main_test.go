//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// The test binary plays the tool ("<binary> tool ARG…") and the commands that the tool runs ("<binary> child PART …").
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "tool":
			os.Exit(execute(context.Background(), os.Args[2:], stdio{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
		case "child":
			os.Exit(playChild(os.Args[2:]))
		}
	}
	for _, name := range []string{envRedis, envPassword, envLock} {
		if err := os.Unsetenv(name); err != nil {
			panic(err)
		}
	}
	// Under nohup a hangup is ignored, and children inherit that; one that is listened for is not.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	goleak.VerifyTestMain(m)
}

// playChild returns the exit code of a part.
func playChild(part []string) int {
	switch part[0] {
	case "exit":
		code, _ := strconv.Atoi(part[1])
		return code
	case "print": // the lock's name, then what comes in until its end
		fmt.Println(os.Getenv(envLock))
		_, _ = io.Copy(os.Stdout, os.Stdin)
		return 0
	case "obey": // says what signal it gets, and ends at SIGTERM
		return obey(syscall.SIGTERM)
	case "stubborn": // never ends; keeps the file that is named open, if one is
		if len(part) > 1 {
			file, err := os.OpenFile(part[1], os.O_WRONLY, 0)
			if err != nil {
				return 98
			}
			defer file.Close()
		}
		return obey(nil)
	default:
		return 99
	}
}

var allSignals = []os.Signal{syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTERM}

func obey(last os.Signal) int {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, allSignals...)
	fmt.Println("ready")
	for sig := range signals {
		fmt.Println(sig)
		if sig == last {
			return 5
		}
	}
	return 0
}

// child is the command line of a part.
func child(part ...string) []string {
	return append([]string{"--", os.Args[0], "child"}, part...)
}

// tool is the tool as a process of its own, in a session without a terminal.
type tool struct {
	t      *testing.T
	cmd    *exec.Cmd
	out    *bufio.Scanner // its and its child's stdout
	errors *bytes.Buffer  // its and its child's stderr, to be read after the end
	notes  *bufio.Scanner // the same, to be read while it runs
	in     io.WriteCloser
}

const patience = time.Minute

// launch starts the tool. Its output has a deadline, so that a test fails instead of hanging.
func launch(t *testing.T, args ...string) *tool {
	t.Helper()
	c := &tool{t: t, cmd: exec.Command(os.Args[0], append([]string{"tool"}, args...)...), errors: new(bytes.Buffer)}
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, outEnd := pipe(t)
	notes, notesEnd := pipe(t)
	c.out = bufio.NewScanner(out)
	c.notes = bufio.NewScanner(io.TeeReader(notes, c.errors))
	c.cmd.Stdout, c.cmd.Stderr = outEnd, notesEnd
	var err error
	c.in, err = c.cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, c.cmd.Start())
	require.NoError(t, outEnd.Close())
	require.NoError(t, notesEnd.Close())
	t.Cleanup(func() { _ = c.cmd.Process.Kill() })
	return c
}

func pipe(t *testing.T) (read, write *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = read.Close() })
	require.NoError(t, read.SetReadDeadline(time.Now().Add(patience)))
	return read, write
}

// says waits for the next line on stdout.
func (c *tool) says(want string) {
	c.t.Helper()
	require.True(c.t, c.out.Scan(), "ended before it said %q: %v", want, c.out.Err())
	require.Equal(c.t, want, c.out.Text())
}

// notesThat waits for a line on stderr that contains text.
func (c *tool) notesThat(text string) {
	c.t.Helper()
	for c.notes.Scan() {
		if strings.Contains(c.notes.Text(), text) {
			return
		}
	}
	c.t.Fatalf("ended before it noted %q: %s", text, c.errors)
}

func (c *tool) signal(sig os.Signal) {
	c.t.Helper()
	require.NoError(c.t, c.cmd.Process.Signal(sig))
}

// ends reads the rest of the output, waits for the end, and returns the exit code.
func (c *tool) ends() int {
	c.t.Helper()
	for c.out.Scan() {
		c.t.Logf("stdout: %s", c.out.Text())
	}
	require.NoError(c.t, c.out.Err(), "somebody still has stdout open")
	for c.notes.Scan() {
		continue
	}
	_ = c.in.Close()
	_ = c.cmd.Wait() // the code is looked at below
	return c.cmd.ProcessState.ExitCode()
}

// grave is a named pipe for a "stubborn" command to keep open. Reading from it, once the command is ready, waits for the
// command's death.
func grave(t *testing.T) (name string, death *os.File) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "grave")
	require.NoError(t, syscall.Mkfifo(name, 0o600))
	death, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = death.Close() })
	require.NoError(t, death.SetReadDeadline(time.Now().Add(patience)))
	return name, death
}

func awaitDeath(t *testing.T, death *os.File) {
	t.Helper()
	_, err := death.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

// here runs the tool in this process, which is enough wherever it gets no signals.
func here(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errors bytes.Buffer
	code = execute(t.Context(), args, stdio{in: strings.NewReader(""), out: &out, err: &errors})
	return code, out.String(), errors.String()
}
