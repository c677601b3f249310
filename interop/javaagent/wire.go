package javaagent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// request is one line to the agent; interop/agent/README.md describes the fields.
type request struct {
	ID       int64  `json:"id"`
	Op       string `json:"op"`
	Client   string `json:"client,omitempty"`
	Thread   string `json:"thread,omitempty"`
	Target   int64  `json:"target,omitempty"`
	YAML     string `json:"yaml,omitempty"`
	Prefix   string `json:"namePrefix,omitempty"`
	*Lock           // its client is a member's; the request's own wins
	WaitMs   *int64 `json:"waitMs,omitempty"`
	LeaseMs  *int64 `json:"leaseMs,omitempty"`
	ThreadID *int64 `json:"threadId,omitempty"`
	Fresh    bool   `json:"fresh,omitempty"`
	Count    int    `json:"count,omitempty"` // of holdMany
	*workload
}

// workload is what hammer and contend take beside the lock, and of which holdMany takes the threads.
type workload struct {
	Threads    int    `json:"threads,omitempty"`
	Sections   int    `json:"sections,omitempty"`
	CounterKey string `json:"counterKey"`
	InsideKey  string `json:"insideKey,omitempty"`
	BesideKey  string `json:"besideKey,omitempty"`
	Shared     bool   `json:"shared,omitempty"`
	HoldMs     int64  `json:"holdMs,omitempty"`
	PauseMs    int64  `json:"pauseMs,omitempty"`
}

// line is one line from the agent: an answer, or with Event set an event.
type line struct {
	ID        int64           `json:"id"`
	Event     string          `json:"event"`
	OK        bool            `json:"ok"`
	Value     json.RawMessage `json:"value"`
	Error     *JavaError      `json:"error"`
	StartUS   int64           `json:"startUs"`
	EndUS     int64           `json:"endUs"`
	ElapsedUS int64           `json:"elapsedUs"`
	Thread    int             `json:"thread"`
	Section   int64           `json:"section"`
	AtUS      int64           `json:"atUs"`
	about
}

// Result is what an operation came to.
type Result struct {
	// Value is the JSON of what the method returned; null for none.
	Value json.RawMessage
	// Start and End are the JVM's wall clock just before and just after the method, to the microsecond. They compare with
	// the clock of other processes on the same machine.
	Start, End time.Time
	// Elapsed is the time between them by the JVM's monotonic clock.
	Elapsed time.Duration
}

// Bool is the value of a method that returns a boolean; false when it is none.
func (r Result) Bool() bool { return string(r.Value) == "true" }

// IsNull tells whether the method returned null or nothing.
func (r Result) IsNull() bool { return len(r.Value) == 0 || string(r.Value) == "null" }

// decode reads the value into v.
func (r Result) decode(v any) error {
	if err := json.Unmarshal(r.Value, v); err != nil {
		return fmt.Errorf("javaagent: the agent answered %s: %w", r.Value, err)
	}
	return nil
}

// Pending is an operation that the JVM has not ended, or that has ended and waits to be looked at.
type Pending struct {
	agent   *Agent
	id      int64
	thread  string
	onEvent func(Event) // called by the reader; nil for operations without events
	done    chan struct{}
	result  Result // valid when done is closed
	err     error  // valid when done is closed
}

// Done is closed when the operation has ended or can no longer be answered.
func (p *Pending) Done() <-chan struct{} { return p.done }

// Wait waits for the operation's end. ctx bounds the waiting alone: after its end the operation goes on in the JVM. The
// error is a *JavaError for what the JVM threw, wraps ErrEnded when the JVM is gone, or is ctx's.
func (p *Pending) Wait(ctx context.Context) (Result, error) {
	select {
	case <-p.done:
		return p.result, p.err
	default:
	}
	select {
	case <-p.done:
		return p.result, p.err
	case <-ctx.Done():
		return Result{}, fmt.Errorf("javaagent: wait for the JVM: %w", context.Cause(ctx))
	}
}

// Interrupt interrupts this operation, running or still queued on its thread, and nothing else; false when it has ended
// already. Redisson's lock() takes no notice of an interrupt.
func (p *Pending) Interrupt(ctx context.Context) (bool, error) {
	result, err := p.agent.call(ctx, &request{Op: "interrupt", Thread: p.thread, Target: p.id})
	return result.Bool(), err
}

func (p *Pending) finish(result Result, err error) {
	p.result, p.err = result, err
	close(p.done)
}

// call sends a request and waits for its answer.
func (a *Agent) call(ctx context.Context, req *request) (Result, error) {
	return a.send(req, nil).Wait(ctx)
}

// send gives the request an id and writes it. It waits for no answer; a failure to send is the Pending's.
func (a *Agent) send(req *request, onEvent func(Event)) *Pending {
	p := &Pending{agent: a, id: a.lastID.Add(1), thread: req.Thread, onEvent: onEvent, done: make(chan struct{})}
	req.ID = p.id
	text, err := json.Marshal(req)
	if err != nil {
		p.finish(Result{}, fmt.Errorf("javaagent: encode the request: %w", err))
		return p
	}
	// Registered before it is written, so that no answer can come for an unknown id.
	if err := a.register(p); err != nil {
		p.finish(Result{}, err)
		return p
	}
	if err := a.write(text); err != nil && a.take(p.id) != nil {
		p.finish(Result{}, fmt.Errorf("%w: write a request: %w", ErrEnded, err))
	}
	return p
}

func (a *Agent) write(text []byte) error {
	a.writeMu.Lock()
	defer a.writeMu.Unlock()
	_, err := a.stdin.Write(append(text, '\n'))
	return err
}

func (a *Agent) register(p *Pending) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pending == nil {
		return a.ended
	}
	a.pending[p.id] = p
	return nil
}

// take removes and returns a pending operation, so that one side alone finishes it; nil when the other one does.
func (a *Agent) take(id int64) *Pending {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.pending[id]
	delete(a.pending, id)
	return p
}

func (a *Agent) lookup(id int64) *Pending {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pending[id]
}

// read is the agent's only goroutine. It ends with the process's stdout, reaps the process and fails what is pending.
func (a *Agent) read(ready chan<- about) {
	defer close(a.done)
	readErr := a.readLines(ready)
	close(ready)
	if readErr != nil {
		// What comes next can no longer be trusted to be the protocol.
		_ = a.cmd.Process.Kill()
	}
	exit := a.cmd.Wait()
	ended := fmt.Errorf("%w: %w\n%s", ErrEnded, errors.Join(readErr, orClosed(exit)), a.stderr.String())

	a.mu.Lock()
	pending := a.pending
	a.pending, a.ended, a.exit = nil, ended, errors.Join(readErr, exit)
	a.mu.Unlock()
	for _, p := range pending {
		p.finish(Result{}, ended)
	}
}

func orClosed(exit error) error {
	if exit == nil {
		return errors.New("exit status 0")
	}
	return exit
}

// readLines returns nil at the end of stdout.
func (a *Agent) readLines(ready chan<- about) error {
	for {
		text, err := a.stdout.ReadBytes('\n')
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("read from the agent: %w", err)
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return fmt.Errorf("the agent wrote %q, which is no line of its protocol: %w", text, err)
		}
		a.accept(&l, ready)
	}
}

func (a *Agent) accept(l *line, ready chan<- about) {
	switch l.Event {
	case "":
		a.answered(l)
	case "ready":
		ready <- l.about
	default:
		if p := a.lookup(l.ID); p != nil && p.onEvent != nil {
			p.onEvent(Event{Kind: l.Event, Thread: l.Thread, Section: l.Section, At: time.UnixMicro(l.AtUS)})
		}
	}
}

func (a *Agent) answered(l *line) {
	p := a.take(l.ID)
	if p == nil {
		return
	}
	result := Result{
		Value:   l.Value,
		Start:   time.UnixMicro(l.StartUS),
		End:     time.UnixMicro(l.EndUS),
		Elapsed: time.Duration(l.ElapsedUS) * time.Microsecond,
	}
	if l.OK {
		p.finish(result, nil)
		return
	}
	p.finish(result, cmp.Or(l.Error, &JavaError{Code: CodeOther, Message: "the agent gave no reason"}))
}
