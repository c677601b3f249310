package supervise

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// Command is what to run.
type Command struct {
	Path           string // of the program
	Args           []string
	Env            []string // all of it
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// child is the running command, from its start to its reaping.
type child struct {
	cmd    *exec.Cmd
	shared bool          // it is in this program's process group
	exited chan struct{} // closed when it is reaped; state is set before
	state  *os.ProcessState
}

// pipeBound is how long output is copied after the command's end, when something it has left behind keeps the pipe open. Files
// are inherited and need no copying.
const pipeBound = time.Second

// start runs the command, in this program's process group or in its own. On failure nothing runs.
func start(c Command, shared bool) (*child, error) {
	cmd := exec.Command(c.Path) //nolint:gosec,noctx // running it is what this is for, and the lock ends it, not a context
	cmd.Args, cmd.Env = append([]string{c.Path}, c.Args...), c.Env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, c.Stdout, c.Stderr
	cmd.WaitDelay = pipeBound
	ch := &child{cmd: cmd, shared: shared, exited: make(chan struct{})}
	cmd.SysProcAttr = attributes(shared)
	started := make(chan error)
	go ch.own(started)
	return ch, <-started
}

// own starts the command and reaps it. It keeps its thread as long as the command lives: the kernel sends the parent-death signal
// when the thread that started the child ends, not when the program does.
func (c *child) own(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := c.cmd.Start(); err != nil {
		started <- err
		return
	}
	started <- nil
	// An error is about the exit code, which is in the state, or about copying to a reader or writer that is no file.
	_ = c.cmd.Wait()
	c.state = c.cmd.ProcessState
	close(c.exited)
}

func (c *child) done() <-chan struct{} { return c.exited }

// signal passes a signal on. A command that has just ended needs none.
func (c *child) signal(sig os.Signal) error {
	err := c.send(sig)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}
