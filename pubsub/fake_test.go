package pubsub_test

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/redis/rueidis"
)

// fake is a server without a network, for tests that need the clock of testing/synctest: it confirms what it is asked, in
// order, through the hooks, as rueidis's read goroutine does.
type fake struct {
	mu       sync.Mutex
	sent     []string         // commands, PINGs left out
	refuse   error            // what Connect returns
	conns    []*fakeClient    // all that were opened
	attempts int              // calls of Connect
	onDial   func()           // at the beginning of Connect; may block
	onSend   func(cmd string) // before the command takes effect; may block
}

func (f *fake) connect(context.Context) (rueidis.DedicatedClient, func(), error) {
	if f.onDial != nil {
		f.onDial()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.attempts++
	if f.refuse != nil {
		return nil, nil, f.refuse
	}
	c := &fakeClient{fake: f, cut: make(chan error, 1)}
	f.conns = append(f.conns, c)
	return c, func() {}, nil
}

// current is the connection opened last.
func (f *fake) current() *fakeClient {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.conns[len(f.conns)-1]
}

// commands returns and forgets what was sent.
func (f *fake) commands() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	sent := f.sent
	f.sent = nil
	return sent
}

func (f *fake) setRefuse(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = err
}

func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.attempts
}

// fakeClient is one connection to the fake. What it does not define is not used.
type fakeClient struct {
	rueidis.DedicatedClient
	fake   *fake
	hooks  rueidis.PubSubHooks
	cut    chan error
	once   sync.Once
	closed bool
}

var errCut = errors.New("connection reset by peer")

func (c *fakeClient) B() rueidis.Builder { return rueidis.Builder{} }

func (c *fakeClient) SetPubSubHooks(hooks rueidis.PubSubHooks) <-chan error {
	c.hooks = hooks
	return c.cut
}

// end cuts the connection.
func (c *fakeClient) end(err error) {
	c.once.Do(func() {
		c.cut <- err
		close(c.cut)
	})
}

func (c *fakeClient) Close() {
	c.fake.mu.Lock()
	c.closed = true
	c.fake.mu.Unlock()
	c.end(rueidis.ErrClosing)
}

// Do answers the PING.
func (c *fakeClient) Do(context.Context, rueidis.Completed) rueidis.RedisResult {
	return rueidis.RedisResult{}
}

func (c *fakeClient) DoMulti(ctx context.Context, multi ...rueidis.Completed) []rueidis.RedisResult {
	results := make([]rueidis.RedisResult, len(multi))
	for i, cmd := range multi {
		name, channel := cmd.Commands()[0], cmd.Commands()[1]
		c.fake.mu.Lock()
		c.fake.sent = append(c.fake.sent, name+" "+channel)
		onSend := c.fake.onSend
		c.fake.mu.Unlock()
		if onSend != nil {
			onSend(name)
		}
		if err := ctx.Err(); err != nil {
			results[i] = rueidis.NewErrorResult(err)
			continue
		}
		c.hooks.OnSubscription(rueidis.PubSubSubscription{Kind: strings.ToLower(name), Channel: channel})
	}
	return results
}
