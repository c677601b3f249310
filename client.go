package redlatch

import (
	"context"
	"errors"
	"log/slog"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/engine"
)

// Client holds the connections to Redis, renews what is held, and wakes who waits. One client serves a whole process; it is safe for
// concurrent use.
type Client struct {
	engine *engine.Engine
}

type options struct {
	engine.Options
	err error
}

// Option is an extra of Open.
type Option func(*options)

// WithLogger sets where the client reports what no call can return, such as a failed renewal. Without it nothing is logged.
func WithLogger(l *slog.Logger) Option { return func(o *options) { o.Log = l } }

// WithObserver sets who is told of each acquisition, release, loss and renewal; nil is nobody.
func WithObserver(v Observer) Option {
	return func(o *options) {
		if v != nil {
			o.Observe = func(e engine.Event) { v.Observe(newEvent(e)) }
		}
	}
}

// WithRedis makes the client use a connection that the caller has made and closes; it is not closed by Close or Shutdown. The
// config's Servers must be unset or config.External. The connection should have rueidis' DisableRetry on and one connection per
// node (PipelineMultiplex -1), or the requests of one lock can overtake each other.
func WithRedis(r rueidis.Client) Option {
	return func(o *options) {
		o.Redis = r
		if r == nil {
			o.err = errors.New("WithRedis: the rueidis client is nil")
		}
	}
}

// Open connects to Redis and makes sure that locks can work there: address, password and permission to run scripts. It fails at once with
// what is wrong; nothing is left behind then. ctx governs the opening only, together with config.Config.ConnectTimeout.
//
// The client must be ended by Close or Shutdown.
func Open(ctx context.Context, cfg config.Config, opts ...Option) (*Client, error) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	if o.err != nil {
		return nil, wrap("open", cfg.Servers.String(), o.err)
	}
	switch mode := cfg.Servers.Mode(); {
	case o.Redis != nil && mode == config.ModeNone:
		cfg.Servers = config.External()
	case o.Redis != nil && mode != config.ModeExternal:
		return nil, wrap("open", cfg.Servers.String(), errors.New("WithRedis brings its own connection; leave Servers unset"))
	case o.Redis == nil && mode == config.ModeExternal:
		return nil, wrap("open", cfg.Servers.String(), errors.New("external Servers need a connection; pass it by WithRedis"))
	}
	e, err := engine.Open(ctx, cfg, o.Options)
	if err != nil {
		return nil, wrap("open", cfg.Servers.String(), err)
	}
	return &Client{e}, nil
}

// ID is the random UUID that stands in the owner fields of this client's locks (wire-protocol.md §1).
func (c *Client) ID() string {
	if c == nil {
		return ""
	}
	return c.engine.ID()
}

// NewOwner makes an owner that nobody else in this process is.
func (c *Client) NewOwner() Owner { return Owner{c.ID(), engine.NewThread()} }

// Shutdown lets the work come to its end: it admits no new acquisitions (they and those that wait get ErrClosed; an owner that
// holds a lock may still enter it again), waits for the holds to be released, and closes. ctx bounds the waiting: when it ends, the
// client is closed as by Close, and the error tells how many holds were left.
func (c *Client) Shutdown(ctx context.Context) error {
	return wrap("shut down", c.ID(), c.engine.Shutdown(ctx))
}

// Close ends the client at once. Waiting calls return ErrClosed, holds end with ErrClosed as their cause, and their keys are left to
// expire, for nobody can tell whether their work has stopped. What a call is just being granted is given back, and waiters leave the
// queues that they stand in; for that there is one command timeout. Close blocks until the client's goroutines have ended, always
// returns nil, and can be called again. An Observer must not call it.
func (c *Client) Close() error {
	c.engine.Close()
	return nil
}
