package javaagent

import (
	"context"
	"fmt"
	"time"
)

// Holding is many plain locks that threads of the JVM have taken without a lease and keep until their client is closed. Close does not
// release them.
type Holding struct {
	agent *Agent
	id    int64
	// Taken is how many locks were taken, and Elapsed how long that took.
	Taken   int
	Elapsed time.Duration
	// HeapBytes is what the JVM's heap has grown by, garbage apart.
	HeapBytes int64
}

// HoldMany takes the locks "<name>:0" … "<name>:<count-1>" by so many new threads, each of which takes its share one after the other: count
// 1…10 000 000, threads 1…512. Any failure is an error, and what was taken by then is held all the same. After ctx's end the threads go
// on taking.
func (c *Client) HoldMany(ctx context.Context, name string, count, threads int) (*Holding, error) {
	lock := Plain(name)
	pending := c.agent.send(&request{
		Op: "holdMany", Client: c.name, Lock: &lock, Count: count, workload: &workload{Threads: threads},
	}, nil)
	answer, err := pending.Wait(ctx)
	if err != nil {
		return nil, err
	}
	var result struct {
		Taken      int        `json:"taken"`
		FirstError *JavaError `json:"firstError"`
		ElapsedMs  int64      `json:"elapsedMs"`
		HeapBytes  int64      `json:"heapBytes"`
	}
	if err := answer.decode(&result); err != nil {
		return nil, err
	}
	if result.FirstError != nil {
		return nil, fmt.Errorf("javaagent: %d locks of %d were taken, then: %w", result.Taken, count, result.FirstError)
	}
	return &Holding{
		agent: c.agent, id: pending.id, Taken: result.Taken,
		Elapsed: time.Duration(result.ElapsedMs) * time.Millisecond, HeapBytes: result.HeapBytes,
	}, nil
}

// Told is how many of the locks are held by threads that were interrupted since, which is how a JVM tells one that blocks. Redisson has
// no other means to tell a holder that its lock has gone, and does not use this one.
func (h *Holding) Told(ctx context.Context) (int, error) {
	answer, err := h.agent.call(ctx, &request{Op: "told", Target: h.id})
	if err != nil {
		return 0, err
	}
	var told int
	return told, answer.decode(&told)
}
