package redistest

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// ownName is the client name of connections that only watch, so that killing the clients of a server spares them.
const ownName = "redistest-watcher"

// fencePrefix begins the channels and messages of this package itself, which no recorder shows.
const fencePrefix = "redistest:fence:"

// fences numbers the fences of this process.
var fences atomic.Int64

func newFence() string { return fencePrefix + strconv.FormatInt(fences.Add(1), 10) }

// Message is one published message.
type Message struct{ Channel, Payload string }

// Recorder collects published messages in the order in which the server delivered them. It is safe for concurrent use.
type Recorder struct {
	endpoint *Endpoint
	messages *feed[Message] // fences included, as messages on channels that begin with fencePrefix
	stop     func()
}

// Record subscribes to the patterns, as PSUBSCRIBE takes them, with none to "*", and collects until the test ends. When
// it returns the server has confirmed the subscription. A message that matches two patterns is recorded twice.
func (e *Endpoint) Record(t testing.TB, patterns ...string) *Recorder {
	t.Helper()
	if len(patterns) == 0 {
		patterns = []string{"*"}
	}
	return e.record(t, "PSUBSCRIBE", patterns)
}

// RecordSharded is Record for messages sent with SPUBLISH; it takes channel names, since shard channels have no patterns.
func (e *Endpoint) RecordSharded(t testing.TB, channels ...string) *Recorder {
	t.Helper()
	return e.record(t, "SSUBSCRIBE", channels)
}

func (e *Endpoint) record(t testing.TB, command string, names []string) *Recorder {
	t.Helper()
	c, err := e.dialWatcher()
	if err != nil {
		t.Fatalf("redistest: record messages: %v", err)
	}
	if err := subscribe(c, command, names); err != nil {
		_ = c.Close()
		t.Fatalf("redistest: record messages of %v: %v", names, err)
	}
	r := &Recorder{endpoint: e, messages: newFeed[Message]()}
	joined := make(chan struct{})
	go func() {
		defer close(joined)
		r.messages.end(r.read(c))
	}()
	r.stop = func() {
		_ = c.Close()
		<-joined
	}
	t.Cleanup(r.stop)
	return r
}

// Stop ends the recording before the test does, for a test that makes many. What has come until then stays.
func (r *Recorder) Stop() { r.stop() }

// subscribe subscribes to the names and to every fence, and waits for the confirmations.
func subscribe(c *Conn, command string, names []string) error {
	if err := c.conn.SetDeadline(time.Now().Add(ioTimeout)); err != nil {
		return err
	}
	confirmations := len(names)
	if err := c.send(append([]string{command}, names...)...); err != nil {
		return err
	}
	if command != "PSUBSCRIBE" || !covers(names) {
		if err := c.send("PSUBSCRIBE", fencePrefix+"*"); err != nil {
			return err
		}
		confirmations++
	}
	for range confirmations {
		if _, err := c.receive(command); err != nil {
			return err
		}
	}
	return c.unbounded()
}

// covers says whether the patterns bring the fences too, which would then arrive twice.
func covers(patterns []string) bool {
	for _, p := range patterns {
		if p == "*" {
			return true
		}
	}
	return false
}

func (r *Recorder) read(c *Conn) error {
	for {
		reply, err := c.receive("a subscription")
		if err != nil {
			return err
		}
		parts := reply.f.texts()
		switch {
		case len(parts) == 4 && parts[0] == "pmessage":
			r.messages.add(Message{Channel: parts[2], Payload: parts[3]})
		case len(parts) == 3 && parts[0] == "smessage":
			r.messages.add(Message{Channel: parts[1], Payload: parts[2]})
		}
	}
}

// Messages are all messages that the server had published when it was called: it publishes a fence of its own and waits
// until that has arrived.
func (r *Recorder) Messages(t testing.TB) []Message {
	t.Helper()
	return withoutFences(r.fenced(t))
}

// fenced returns everything up to a new fence.
func (r *Recorder) fenced(t testing.TB) []Message {
	t.Helper()
	fence := newFence()
	r.endpoint.Do(t, "PUBLISH", fence, "")
	seen := 0
	items, err := r.messages.await(func(items []Message) bool {
		for seen = range items {
			if items[seen].Channel == fence {
				return true
			}
		}
		return false
	})
	if err != nil {
		t.Fatalf("redistest: await the fence behind the messages %v: %v", withoutFences(items), err)
	}
	return items[:seen+1]
}

// Wait waits until at least n messages have come, and returns all that have. It fails the test after 20 s.
func (r *Recorder) Wait(t testing.TB, n int) []Message {
	t.Helper()
	items, err := r.messages.await(func(items []Message) bool { return len(withoutFences(items)) >= n })
	if err != nil {
		t.Fatalf("redistest: await %d messages, have %v: %v", n, withoutFences(items), err)
	}
	return withoutFences(items)
}

// Reset forgets all messages that had been published when it was called.
func (r *Recorder) Reset(t testing.TB) {
	t.Helper()
	r.messages.cut(len(r.fenced(t)))
}

func withoutFences(items []Message) []Message {
	var out []Message
	for _, m := range items {
		if !strings.HasPrefix(m.Channel, fencePrefix) {
			out = append(out, m)
		}
	}
	return out
}

// dialWatcher opens a connection under ownName.
func (e *Endpoint) dialWatcher() (*Conn, error) {
	c, err := e.dial()
	if err != nil {
		return nil, err
	}
	if _, err := c.Do("CLIENT", "SETNAME", ownName); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("name the connection: %w", err)
	}
	return c, nil
}
