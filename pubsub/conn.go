package pubsub

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/rueidis"
)

// dialer is Options.Connect.
type dialer = func(context.Context) (rueidis.DedicatedClient, func(), error)

// conn is a dedicated connection with the link's hooks on it. Its methods send one command for each channel, so that the
// refusal of one is not the refusal of all, and all of them at once.
type conn struct {
	client  rueidis.DedicatedClient
	release func()
	closed  <-chan error // at most one error, then closed: the hooks will not be called any more
	sharded bool
}

// dial opens a connection for l and sets the hooks. On failure nothing is left open. It is the caller's to call close.
func dial(ctx context.Context, l *link) (*conn, error) {
	client, release, err := l.dialer(ctx)
	if err != nil {
		return nil, err
	}
	c := &conn{client: client, release: release, sharded: l.sharded}
	// The hooks are there before the first command: no push is missed. With RESP2, rueidis opens the second connection
	// that it keeps for subscriptions here, and the hooks are on that one.
	c.closed = client.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) { l.message(m.Channel) },
		OnSubscription: func(s rueidis.PubSubSubscription) {
			switch s.Kind {
			case "subscribe", "ssubscribe":
				l.subscribed(c, s.Channel)
			case "unsubscribe", "sunsubscribe":
				l.unsubscribed(c, s.Channel)
			}
		},
	})
	// A pool hands out a connection that could not be made as one that is dead.
	select {
	case err := <-c.closed:
		c.close()
		return nil, closedBecause(err)
	default:
		return c, nil
	}
}

// subscribe returns the server's refusal of each channel, nil for none. An error is the connection's: nothing is then
// known of any of them.
func (c *conn) subscribe(ctx context.Context, batch []*channel) ([]error, error) {
	return c.each(ctx, batch, c.subscribing)
}

// unsubscribe is like subscribe.
func (c *conn) unsubscribe(ctx context.Context, batch []*channel) ([]error, error) {
	return c.each(ctx, batch, c.unsubscribing)
}

// probe asks for the server's health with PING. Where the user may not PING, a SUBSCRIBE of a channel that the connection
// has anyway tells at least whether the server is BUSY (and MISCONF cannot matter then, since it is PING that it fails).
// refusal is what the server said, err what befell the connection.
func (c *conn) probe(ctx context.Context, subscribed string) (refusal, err error) {
	err = c.client.Do(ctx, c.client.B().Ping().Build()).Error()
	if code(err) == "NOPERM" {
		err = c.client.Do(ctx, c.subscribing(subscribed)).Error()
	}
	if err == nil || code(err) != "" {
		return err, nil
	}
	return nil, because(ctx, err)
}

// close closes the connection, and only then gives it back, so that a pool drops it. Giving back an open one would leave
// its subscriptions in place with RESP2, and wait without bound for a silent server otherwise.
func (c *conn) close() {
	c.client.Close()
	if c.release != nil {
		c.release()
	}
}

// each sends one command for each channel in one go and collects the answers.
func (c *conn) each(ctx context.Context, batch []*channel, command func(string) rueidis.Completed) ([]error, error) {
	commands := make([]rueidis.Completed, len(batch))
	for i, ch := range batch {
		commands[i] = command(ch.name)
	}
	answers := make([]error, len(batch))
	for i, r := range c.client.DoMulti(ctx, commands...) {
		if err := r.NonRedisError(); err != nil {
			return nil, because(ctx, err)
		}
		answers[i] = r.Error()
	}
	return answers, nil
}

func (c *conn) subscribing(name string) rueidis.Completed {
	if c.sharded {
		return c.client.B().Ssubscribe().Channel(name).Build()
	}
	return c.client.B().Subscribe().Channel(name).Build()
}

func (c *conn) unsubscribing(name string) rueidis.Completed {
	if c.sharded {
		return c.client.B().Sunsubscribe().Channel(name).Build()
	}
	return c.client.B().Unsubscribe().Channel(name).Build()
}

// because puts the reason why ctx ended in the place of the bare "context canceled" that rueidis returns.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return fmt.Errorf("pubsub: %w", err)
}

// closedBecause is why a connection ended; rueidis does not always say.
func closedBecause(err error) error {
	if err == nil {
		return errors.New("pubsub: the connection was closed")
	}
	return fmt.Errorf("pubsub: the connection was closed: %w", err)
}
