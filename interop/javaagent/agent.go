package javaagent

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"
)

// closeBound is how long the JVM may take to end after its stdin was closed, before it is killed. It needs a tenth of a
// second, and up to four when Redis does not answer.
const closeBound = 15 * time.Second

// Options say which agent to start.
type Options struct {
	// RedissonVersion is the Redisson release; "" is DefaultRedisson. 3.16.8 to 4.7.0 are known to work.
	RedissonVersion string
	// Stderr gets what the JVM logs (warnings and errors); nil keeps only its end, for error messages.
	Stderr io.Writer
	// Env is added to the environment of the JVM, as "NAME=value".
	Env []string
	// JVMDefaults starts the JVM as it starts by itself, in place of the flags for one that lives for seconds: with the optimising compiler
	// and the collector of its own choice, as services run it. It is for measurements.
	JVMDefaults bool
}

// Agent is a running JVM with Redisson. It is safe for concurrent use.
type Agent struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	stderr tail
	about  about
	done   chan struct{} // closed when the process is reaped and the reader has ended

	writeMu sync.Mutex // keeps lines whole
	lastID  atomic.Int64
	killed  atomic.Bool // the end is wanted by Kill, so its exit status is no fault

	mu      sync.Mutex
	pending map[int64]*Pending // guarded by mu: requests without an answer; nil when the agent has ended
	ended   error              // guarded by mu: why it has ended; wraps ErrEnded
	exit    error              // guarded by mu: nil after exit status 0

	closeOnce sync.Once
	closeErr  error
}

// about is what the agent says of itself in its first line.
type about struct {
	Redisson string `json:"redisson"`
	Java     string `json:"java"`
	PID      int    `json:"pid"`
}

// Start builds the agent if need be, starts it and returns when it can be spoken to. ctx bounds all of that, and nothing
// after it; the agent's life ends with Close. On failure nothing runs. The error says what to install when java or mvn is
// missing, and carries the output of the one that failed otherwise.
func Start(ctx context.Context, opts Options) (*Agent, error) {
	program, err := build(ctx, cmp.Or(opts.RedissonVersion, DefaultRedisson))
	if err != nil {
		return nil, err
	}
	a, err := launch(program, opts)
	if err != nil {
		return nil, fmt.Errorf("javaagent: start the Java agent: %w", err)
	}
	// One place for the one first line: the reader never waits for anybody. Closed without it when there is none.
	ready := make(chan about, 1)
	go a.read(ready)
	select {
	case about, ok := <-ready:
		if !ok {
			<-a.done
			return nil, fmt.Errorf("javaagent: the Java agent ended before it was ready (it needs Java 17 or newer): %w", a.whyEnded())
		}
		a.about = about
		return a, nil
	case <-ctx.Done():
		return nil, errors.Join(fmt.Errorf("javaagent: wait for the Java agent to be ready: %w", context.Cause(ctx)), a.Kill())
	}
}

// launch starts the process. It is not tied to a context: a context's end kills, and the agent shall end in good order.
func launch(program built, opts Options) (*Agent, error) {
	a := &Agent{done: make(chan struct{}), pending: make(map[int64]*Pending)}
	var flags []string
	if !opts.JVMDefaults {
		// For a process that lives for seconds: no optimising compiler, no collector threads, shared JDK classes.
		flags = []string{"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"}
	}
	a.cmd = exec.Command(program.java, append(flags, "-cp", program.classpath, mainClass)...)
	a.cmd.Env = append(os.Environ(), opts.Env...)
	a.cmd.Stderr = &a.stderr
	if opts.Stderr != nil {
		a.cmd.Stderr = io.MultiWriter(&a.stderr, opts.Stderr)
	}
	a.cmd.WaitDelay = 5 * time.Second
	stdin, err := a.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := a.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	a.stdin, a.stdout = stdin, bufio.NewReader(stdout)
	return a, a.cmd.Start()
}

// Redisson is the Redisson release that the agent runs on.
func (a *Agent) Redisson() string { return a.about.Redisson }

// Java is the version of the JVM.
func (a *Agent) Java() string { return a.about.Java }

// PID is the JVM's process id.
func (a *Agent) PID() int { return a.about.PID }

// Done is closed when the process has ended, for whatever reason.
func (a *Agent) Done() <-chan struct{} { return a.done }

// Signal sends the JVM a signal, such as SIGSTOP and SIGCONT to pause and continue it.
func (a *Agent) Signal(sig os.Signal) error {
	if err := a.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("javaagent: send %v to the Java agent: %w", sig, err)
	}
	return nil
}

// Kill ends the JVM as a crash would, also a stopped one, and returns when it is gone: its locks stay in Redis until they
// expire. Close afterwards is harmless.
func (a *Agent) Kill() error {
	a.killed.Store(true)
	err := a.cmd.Process.Kill()
	<-a.done
	closeQuietly(a.stdin)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("javaagent: kill the Java agent: %w", err)
	}
	return nil
}

// Close lets the JVM shut its clients down and end, and waits for that, for 15 s at most; then it is killed and Close
// returns an error, as it does when the exit status is not 0. Operations still pending fail with ErrEnded. Locks that are
// held stay in Redis until they expire. Close is idempotent and safe after Kill.
func (a *Agent) Close() error {
	a.closeOnce.Do(func() { a.closeErr = a.close() })
	return a.closeErr
}

func (a *Agent) close() error {
	closeQuietly(a.stdin)
	bound := time.NewTimer(closeBound)
	defer bound.Stop()
	select {
	case <-a.done:
	case <-bound.C:
		err := fmt.Errorf("javaagent: the Java agent did not end within %v after its stdin was closed and was killed", closeBound)
		return errors.Join(err, a.Kill())
	}
	if a.killed.Load() {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.exit != nil {
		return fmt.Errorf("javaagent: the Java agent: %w\n%s", a.exit, a.stderr.String())
	}
	return nil
}

func (a *Agent) whyEnded() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ended
}
