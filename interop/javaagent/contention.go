package javaagent

import (
	"context"
	"fmt"
	"time"
)

// Contention is work that proves exclusion: threads of the JVM that take a lock and, inside, increment a counter in
// Redis by a GET and a later SET, while they stand in a second key that counts who is inside. Whatever process does the
// same with the same keys joins in; when the lock fails, the counter misses sections and somebody sees company. Sections under a
// read lock are Shared: they find out if the counter changes while they read.
type Contention struct {
	Lock       Lock
	Threads    int           // 1…512; 0 is 1
	Sections   int           // of each thread; 0 is 1 for Hammer, and until Stop for Contend
	CounterKey string        // a decimal number
	InsideKey  string        // incremented on entry, decremented on leaving; "" is CounterKey + ":inside"
	BesideKey  string        // the InsideKey of those who must stay outside meanwhile, such as writers for a reader; "" is nobody
	Shared     bool          // the sections only read the counter, and may have company of their own sort
	Lease      time.Duration // 0 is none: the watchdog renews
	Hold       time.Duration // sleep between GET and SET, up to 10 min
	Pause      time.Duration // sleep after each section, up to 10 min
}

// ContentionResult is what the threads have done and seen, all together.
type ContentionResult struct {
	Sections   int64         // that were finished, release included
	Overlaps   int64         // sections that found somebody inside who should not be: 0 if the lock excludes
	MaxInside  int64         // the most that were inside at once
	Errors     int64         // threads that ended with an error
	FirstError *JavaError    // the first of them; nil for none
	Elapsed    time.Duration // from the start of the first thread to the end of the last
}

// Event is a step of one thread of a contention.
type Event struct {
	Kind    string // "waiting", "acquired" or "released"
	Thread  int    // 1…Threads
	Section int64  // 1…
	// At is the JVM's clock: for "waiting" before the attempt, for "acquired" after the grant, for "released" before the
	// release was sent. So the spans between the latter two never overlap when the lock excludes.
	At time.Time
}

// Hammer runs the contention to its end. Threads that ended with an error make it an error too; the result is filled all
// the same. After ctx's end the threads go on until they are done.
func (c *Client) Hammer(ctx context.Context, work Contention) (ContentionResult, error) {
	running := &Contending{pending: c.agent.send(c.contention("hammer", &work), nil)}
	return running.Wait(ctx)
}

// Contend starts the contention and tells what its threads do. onEvent is called in the order of the events by the
// goroutine that reads from the JVM, so it must return soon and must not wait for anything of this agent.
func (c *Client) Contend(work Contention, onEvent func(Event)) *Contending {
	return &Contending{pending: c.agent.send(c.contention("contend", &work), onEvent)}
}

func (c *Client) contention(op string, work *Contention) *request {
	req := &request{Op: op, Client: c.name, Lock: &work.Lock, workload: &workload{
		Threads: work.Threads, Sections: work.Sections, CounterKey: work.CounterKey, InsideKey: work.InsideKey,
		BesideKey: work.BesideKey, Shared: work.Shared,
		HoldMs: *milliseconds(&work.Hold), PauseMs: *milliseconds(&work.Pause),
	}}
	if work.Lease != 0 {
		req.LeaseMs = milliseconds(&work.Lease)
	}
	return req
}

// Contending is a contention that runs, or has ended.
type Contending struct{ pending *Pending }

// Done is closed when all threads have ended.
func (c *Contending) Done() <-chan struct{} { return c.pending.Done() }

// Stop tells the threads to end: one that is inside finishes its section, one that waits gives up. It does not wait for
// that; Wait does. Stopping what has ended is no error.
func (c *Contending) Stop(ctx context.Context) error {
	_, err := c.pending.agent.call(ctx, &request{Op: "stop", Target: c.pending.id})
	return err
}

// Wait waits for the end of all threads; see Hammer for the error.
func (c *Contending) Wait(ctx context.Context) (ContentionResult, error) {
	answer, err := c.pending.Wait(ctx)
	if err != nil {
		return ContentionResult{}, err
	}
	var told struct {
		Sections   int64      `json:"sections"`
		Overlaps   int64      `json:"overlaps"`
		MaxInside  int64      `json:"maxInside"`
		Errors     int64      `json:"errors"`
		FirstError *JavaError `json:"firstError"`
		ElapsedMs  int64      `json:"elapsedMs"`
	}
	if err := answer.decode(&told); err != nil {
		return ContentionResult{}, err
	}
	result := ContentionResult{
		Sections: told.Sections, Overlaps: told.Overlaps, MaxInside: told.MaxInside, Errors: told.Errors,
		FirstError: told.FirstError, Elapsed: time.Duration(told.ElapsedMs) * time.Millisecond,
	}
	if told.FirstError != nil {
		return result, fmt.Errorf("javaagent: %d threads of the contention ended with an error, the first: %w", told.Errors, told.FirstError)
	}
	return result, nil
}
