package demo

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/redistest/redisproc"
)

// server is the Redis that the demo plays on, its own or one that was named.
type server struct {
	cfg   config.Config
	about string // in words
	data  rueidis.Client
	stop  func()
}

// openServer connects to the server that the options name, or starts one: miniredis in this process, or for a JVM a real
// redis-server, since Redisson needs more than miniredis has.
func openServer(ctx context.Context, o *Options) (*server, error) {
	s := &server{cfg: o.Servers, stop: func() {}}
	var err error
	switch {
	case s.cfg.Servers.Mode() != config.ModeNone:
		s.about = "Redis at " + s.cfg.Servers.Addresses()[0].String()
		err = s.probe(ctx)
	case o.Java:
		err = s.launch(ctx)
	default:
		err = s.embed()
	}
	if err != nil {
		return nil, err
	}
	if s.data, err = dial(s.cfg); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *server) close() {
	s.data.Close()
	s.stop()
}

// probe makes sure that locks can work on a server that is not the demo's own, with errors that say what to do.
func (s *server) probe(ctx context.Context) error {
	client, err := redlatch.Open(ctx, s.cfg)
	if err != nil {
		return err
	}
	return client.Close()
}

func (s *server) embed() error {
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		return fmt.Errorf("start the embedded server: %w", err)
	}
	m.ClockTTL(true) // by itself it counts TTLs down only when it is told to
	s.cfg.Servers, s.stop, s.about = config.Single("redis://"+m.Addr()), m.Close, "embedded miniredis"
	return nil
}

func (s *server) launch(ctx context.Context) error {
	p, err := redisproc.Launch(ctx, redisproc.Options{})
	if err != nil {
		return fmt.Errorf("start a redis-server for the demo (--redis URL uses one that runs already): %w", err)
	}
	s.cfg.Servers = config.Single("redis://" + p.Addr())
	s.stop = func() { _ = p.Close() } // the error is about the temporary folder only
	s.about = "own redis-server on port " + strconv.Itoa(p.Port())
	return nil
}

// dial opens the connection for what the lock protects.
func dial(cfg config.Config) (rueidis.Client, error) {
	cfg, err := cfg.WithDefaults()
	if err != nil {
		return nil, err
	}
	addresses := cfg.Servers.Addresses()
	if len(addresses) == 0 {
		return nil, errors.New("the demo needs the address of a server")
	}
	where := addresses[0]
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:       []string{where.Addr},
		Username:          cfg.Username,
		Password:          cfg.Password,
		SelectDB:          cfg.Database,
		TLSConfig:         cfg.TLS,
		Dialer:            net.Dialer{Timeout: cfg.ConnectTimeout},
		ConnWriteTimeout:  cfg.Timeout,
		ForceSingleClient: true,
		DisableCache:      true,
		DisableRetry:      true, // an increment that is sent twice would look like a second worker
		PipelineMultiplex: -1,
		DialCtxFn:         dialer(where.Network),
	})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", where, err)
	}
	return client, nil
}

// dialer is needed because rueidis by itself takes every address for TCP.
func dialer(network string) func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	return func(ctx context.Context, addr string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
		if t != nil {
			return (&tls.Dialer{NetDialer: d, Config: t}).DialContext(ctx, network, addr)
		}
		return d.DialContext(ctx, network, addr)
	}
}
