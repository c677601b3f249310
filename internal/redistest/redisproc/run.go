package redisproc

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
)

// run is one life of a server process, from exec to reaping.
type run struct {
	proc   *os.Process
	pid    int
	output *tail // this run's output alone
	ready  chan struct{}
	exited chan struct{} // closed when the process is reaped; err is set before
	err    error
}

// startRun starts cmd and hands it to a goroutine of its own that ends when the process is reaped.
func startRun(cmd *exec.Cmd, log *tail, readyLine string) (*run, error) {
	r := &run{output: newTail(), ready: make(chan struct{}), exited: make(chan struct{})}
	out := io.MultiWriter(log, r.output, &signalWriter{text: []byte(readyLine), seen: r.ready})
	cmd.Stdout, cmd.Stderr = out, out
	started := make(chan error)
	go r.own(cmd, started)
	if err := <-started; err != nil {
		return nil, err
	}
	return r, nil
}

// own starts the process and waits for its end. It keeps its thread for as long as the process lives: the kernel sends
// the parent-death signal when the thread that started the child ends, not when the program does.
func (r *run) own(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = dieWithParent()
	if err := cmd.Start(); err != nil {
		started <- err
		return
	}
	r.proc, r.pid = cmd.Process, cmd.Process.Pid
	started <- nil
	r.err = cmd.Wait()
	close(r.exited)
}

// kill ends the process, stopped or not, and waits until it is reaped.
func (r *run) kill() {
	// An error means that the process has ended already, which the wait below confirms.
	_ = r.proc.Kill()
	<-r.exited
}

// end says how the process ended, once exited is closed.
func (r *run) end() string {
	if r.err == nil {
		return "exit status 0"
	}
	return r.err.Error()
}

// signalWriter closes seen when text has come by in the stream, also when it was cut into several writes.
type signalWriter struct {
	text []byte
	seen chan struct{}
	rest []byte
	done bool
}

func (w *signalWriter) Write(b []byte) (int, error) {
	if w.done {
		return len(b), nil
	}
	w.rest = append(w.rest, b...)
	if bytes.Contains(w.rest, w.text) {
		w.done, w.rest = true, nil
		close(w.seen)
		return len(b), nil
	}
	if keep := len(w.text) - 1; len(w.rest) > keep {
		w.rest = append([]byte(nil), w.rest[len(w.rest)-keep:]...)
	}
	return len(b), nil
}

// tailSize is how much of a server's output is kept: some hundred lines.
const tailSize = 64 << 10

// tail is a writer that keeps the end of what was written to it. It is safe for concurrent use.
type tail struct {
	mu  sync.Mutex // guards buf
	buf []byte
}

func newTail() *tail { return &tail{} }

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if over := len(t.buf) - tailSize; over > 0 {
		t.buf = append([]byte(nil), t.buf[over:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}
