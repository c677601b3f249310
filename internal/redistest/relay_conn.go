package redistest

import (
	"bufio"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// relayConn is one client's connection through a relay. Three goroutines serve it: requests reads from the client and
// writes to the server, replies reads from the server, deliver writes to the client. run owns them.
type relayConn struct {
	relay    *Relay
	client   net.Conn
	server   *net.TCPConn
	finished chan struct{} // closed by the relay when nothing of the connection is left

	over       chan struct{} // closed by tearDown
	endOnce    sync.Once
	clientGone chan struct{} // closed by requests when the client has sent its last

	mu         sync.Mutex    // guards the rest
	pending    []*exchange   // sent, or to be answered in its turn, and not yet answered; oldest first
	out        []delivery    // to be given to the client
	subscribed bool          // a subscribing command has passed: on RESP2, arrays can then be messages
	resp3      bool          // HELLO 3 has been answered: only pushes can then be messages
	wake       chan struct{} // capacity 1: out has grown; merging is safe since deliver empties out each time
}

// exchange is a command whose reply is awaited.
type exchange struct {
	action Action
	trap   *Trap
	// confirms and want are for subscribing commands, which are answered with one confirmation for each channel.
	confirms string
	want     int
	hello    bool // HELLO, whose reply tells the protocol
}

// delivery is one thing that deliver does, in its turn.
type delivery struct {
	raw   []byte
	until <-chan struct{} // wait for it first, where not nil
	cut   bool            // close the connection instead
}

func newRelayConn(r *Relay, client net.Conn, server *net.TCPConn) *relayConn {
	return &relayConn{
		relay: r, client: client, server: server,
		finished: make(chan struct{}), over: make(chan struct{}), clientGone: make(chan struct{}),
		wake: make(chan struct{}, 1),
	}
}

// run serves the connection until both sides are closed.
func (c *relayConn) run() {
	var wg sync.WaitGroup
	wg.Go(c.requests)
	wg.Go(c.replies)
	wg.Go(c.deliver)
	wg.Wait()
	c.tearDown()
}

// tearDown closes both sides at once; the goroutines end by that. It is idempotent and does not wait.
func (c *relayConn) tearDown() {
	c.endOnce.Do(func() {
		close(c.over)
		_ = c.client.Close()
		_ = c.server.Close()
	})
}

// requests brings commands to the server until the client closes. What had been sent by then still reaches the server, as
// it would without a relay, so the server's side is only half closed and its replies are read to the end.
func (c *relayConn) requests() {
	defer func() {
		close(c.clientGone)
		_ = c.client.Close()
		_ = c.server.CloseWrite()
	}()
	r := bufio.NewReader(c.client)
	deaf := false // what the client sends from now on is lost
	for {
		cmd, raw, err := readCommand(r)
		if err != nil {
			return
		}
		if len(cmd) == 0 || deaf {
			continue
		}
		action, trap := c.relay.decide(cmd)
		if !c.request(cmd, raw, action, trap) {
			deaf = true
		}
	}
}

// request carries out the part of an action that concerns the command; false says that nothing behind it goes on.
func (c *relayConn) request(cmd []string, raw []byte, action Action, trap *Trap) (goOn bool) {
	switch action.kind {
	case swallowKind:
		return false
	case cutRequestKind:
		c.enqueue(&exchange{action: action})
		return false
	case answerKind:
		c.enqueue(&exchange{action: action})
		return true
	case holdRequestKind:
		select {
		case <-action.until:
		case <-c.over:
			return false
		}
	}
	c.enqueue(newExchange(cmd, action, trap))
	if _, err := c.server.Write(raw); err != nil {
		return false // replies sees the same broken connection and ends the client's side
	}
	return action.kind != loseReplyKind
}

func newExchange(cmd []string, action Action, trap *Trap) *exchange {
	e := &exchange{action: action, trap: trap, hello: strings.EqualFold(cmd[0], "HELLO")}
	if name := strings.ToLower(cmd[0]); isSubscribing(name) {
		e.confirms, e.want = name, max(1, len(cmd)-1)
	}
	return e
}

// enqueue registers a command before it is sent, so that its reply cannot come first.
func (c *relayConn) enqueue(e *exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending = append(c.pending, e)
	c.subscribed = c.subscribed || e.confirms != ""
	c.answerOwnLocked()
}

// answerOwnLocked gives out, at the head of the queue, what the relay itself answers.
func (c *relayConn) answerOwnLocked() {
	for len(c.pending) > 0 {
		switch action := c.pending[0].action; action.kind {
		case answerKind:
			c.giveLocked(delivery{raw: []byte(action.answer)})
		case cutRequestKind:
			c.giveLocked(delivery{cut: true})
		default:
			return
		}
		c.pending = c.pending[1:]
	}
}

func (c *relayConn) giveLocked(d delivery) {
	c.out = append(c.out, d)
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// replies reads from the server until it closes, and then closes the client's side behind the last reply.
func (c *relayConn) replies() {
	r := bufio.NewReader(c.server)
	for {
		f, err := readFrame(r)
		if err != nil {
			c.mu.Lock()
			c.giveLocked(delivery{cut: true})
			c.mu.Unlock()
			return
		}
		c.reply(f)
	}
}

func (c *relayConn) reply(f frame) {
	if kind := c.pushKind(f); kind != "" {
		if m, isMessage := messageOf(f); isMessage {
			if pass := c.relay.onMessage.Load(); pass != nil && !(*pass)(m) {
				return
			}
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.pushLocked(kind, f)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) == 0 {
		c.giveLocked(delivery{raw: f.raw}) // unasked, such as the refusal of one client too many
		return
	}
	c.answerLocked(c.pending[0], f)
	c.pending = c.pending[1:]
	c.answerOwnLocked()
}

// pushLocked passes on what the server sends outside the order of replies; a confirmation also counts as the reply to the
// command that asked for it.
func (c *relayConn) pushLocked(kind string, f frame) {
	if len(c.pending) == 0 || c.pending[0].confirms != kind {
		c.giveLocked(delivery{raw: f.raw})
		return
	}
	e := c.pending[0]
	c.answerLocked(e, f)
	e.trap, e.action = nil, confirmed(e.action)
	e.want--
	if e.want == 0 {
		c.pending = c.pending[1:]
		c.answerOwnLocked()
	}
}

// confirmed is what applies to the further confirmations of a command: they stand behind the first one, which has been held.
func confirmed(a Action) Action {
	if a.kind == holdReplyKind {
		return Pass()
	}
	return a
}

// answerLocked carries out the part of an action that concerns the reply.
func (c *relayConn) answerLocked(e *exchange, f frame) {
	if e.hello && f.kind != kindError {
		c.resp3 = f.kind == kindMap
	}
	if e.trap != nil {
		e.trap.reply = Reply{f}
		close(e.trap.answered)
	}
	switch e.action.kind {
	case loseReplyKind:
		c.giveLocked(delivery{cut: true})
	case holdReplyKind:
		c.giveLocked(delivery{raw: f.raw, until: e.action.until})
	default:
		c.giveLocked(delivery{raw: f.raw})
	}
}

// deliver writes to the client, in order, until a cut or until the client has gone.
func (c *relayConn) deliver() {
	for {
		select {
		case <-c.wake:
		case <-c.clientGone:
			return
		case <-c.over:
			return
		}
		c.mu.Lock()
		out := c.out
		c.out = nil
		c.mu.Unlock()
		for _, d := range out {
			if !c.give(d) {
				return
			}
		}
	}
}

// give does one delivery; false ends deliver.
func (c *relayConn) give(d delivery) bool {
	if d.until != nil && !c.wait(d.until) {
		return false
	}
	for {
		c.relay.gateMu.RLock()
		gate := c.relay.gate
		if gate == nil {
			break // keep the read lock: a pause waits until this write is done
		}
		c.relay.gateMu.RUnlock()
		if !c.wait(gate) {
			return false
		}
	}
	defer c.relay.gateMu.RUnlock()
	if d.cut {
		c.tearDown()
		return false
	}
	// A client that does not read must not keep a pause waiting for ever.
	_ = c.client.SetWriteDeadline(time.Now().Add(ioTimeout))
	if _, err := c.client.Write(d.raw); err != nil {
		_ = c.client.Close() // requests sees it and ends the server's side in good order
		return false
	}
	return true
}

// wait returns false when the connection ends first.
func (c *relayConn) wait(until <-chan struct{}) bool {
	select {
	case <-until:
		return true
	case <-c.clientGone:
		return false
	case <-c.over:
		return false
	}
}

// subscribing are the commands that are answered with confirmations, one for each channel. On RESP3 these are pushes, outside
// the order of replies; on RESP2 they and messages look like any other array.
var subscribing = []string{"subscribe", "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe", "sunsubscribe"}

func isSubscribing(name string) bool { return slices.Contains(subscribing, name) }

// pushKind is the first word of a push, or of what would be one on RESP3; "" for a reply.
func (c *relayConn) pushKind(f frame) string {
	if len(f.items) == 0 {
		return ""
	}
	kind := f.items[0].text
	if f.kind == kindPush {
		return kind
	}
	c.mu.Lock()
	asArrays := c.subscribed && !c.resp3
	c.mu.Unlock()
	if _, isMessage := messageOf(f); asArrays && f.kind == kindArray && (isMessage || isSubscribing(kind)) {
		return kind
	}
	return ""
}

func messageOf(f frame) (Message, bool) {
	texts := f.texts()
	switch {
	case len(texts) == 3 && (texts[0] == "message" || texts[0] == "smessage"):
		return Message{Channel: texts[1], Payload: texts[2]}, true
	case len(texts) == 4 && texts[0] == "pmessage":
		return Message{Channel: texts[2], Payload: texts[3]}, true
	default:
		return Message{}, false
	}
}

// readCommand reads one command, as an array or inline; an empty one is nothing that a server answers.
func readCommand(r *bufio.Reader) (cmd []string, raw []byte, err error) {
	first, err := r.Peek(1)
	if err != nil {
		return nil, nil, err
	}
	if first[0] == kindArray {
		f, err := readFrame(r)
		return f.texts(), f.raw, err
	}
	line, err := readLine(r)
	return strings.Fields(string(line)), line, err
}
