package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/lua"
)

// pingInterval is how often a connection without traffic is tried. One that does not answer within the command timeout is given up:
// only then do requests go to a new one, and is it known that messages do not arrive. So it must be soon for the watchdog. rueidis lets
// an interval pass in which something arrived, so that a connection which fell silent is tried within two.
func pingInterval(cfg config.Config) time.Duration {
	return min(2500*time.Millisecond, max(cfg.LockWatchdogTimeout/12, 50*time.Millisecond))
}

// connect makes the connection that all requests share. ctx bounds the opening, together with ConnectTimeout.
func connect(ctx context.Context, cfg config.Config) (rueidis.Client, error) {
	var addresses []string
	network := "tcp"
	for _, a := range cfg.Servers.Addresses() {
		network = a.Network
		addresses = append(addresses, a.Addr)
	}
	dialer := &dialer{network: network, opening: ctx}
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:       addresses,
		Username:          cfg.Username,
		Password:          cfg.Password,
		ClientName:        cfg.ClientName,
		SelectDB:          cfg.Database,
		TLSConfig:         cfg.TLS,
		ForceSingleClient: true,
		DisableCache:      true, // no key is read twice from here
		DisableRetry:      true, // an acquire that is sent again behind our back would be counted twice
		PipelineMultiplex: -1,   // one connection: requests of one lock arrive in the order of their sending
		Dialer:            net.Dialer{Timeout: cfg.ConnectTimeout, KeepAlive: pingInterval(cfg)},
		ConnWriteTimeout:  cfg.Timeout,
		DialCtxFn:         dialer.dial,
	})
	dialer.opened()
	if err != nil {
		if client != nil {
			client.Close()
		}
		if ctx.Err() != nil {
			err = endOf(ctx)
		}
		return nil, fmt.Errorf("connect to %s: %w", strings.Join(addresses, ", "), explain(err))
	}
	return client, nil
}

// dialer makes the connections. Those of the opening end with its context, also while they shake hands; later ones belong to no
// call.
type dialer struct {
	network string

	mu      sync.Mutex
	opening context.Context // guarded by mu, like the rest; nil when the client is open
	stops   []func() bool
}

func (d *dialer) dial(ctx context.Context, address string, nd *net.Dialer, t *tls.Config) (net.Conn, error) {
	d.mu.Lock()
	opening := d.opening
	d.mu.Unlock()
	if opening != nil {
		ctx = opening
	}
	conn, err := d.connect(ctx, address, nd, t)
	if err == nil && opening != nil {
		d.mu.Lock()
		d.stops = append(d.stops, context.AfterFunc(opening, func() { _ = conn.Close() }))
		d.mu.Unlock()
	}
	return conn, err
}

func (d *dialer) connect(ctx context.Context, address string, nd *net.Dialer, t *tls.Config) (net.Conn, error) {
	if t != nil {
		return (&tls.Dialer{NetDialer: nd, Config: t}).DialContext(ctx, d.network, address)
	}
	return nd.DialContext(ctx, d.network, address)
}

// opened lets the connections outlive the opening.
func (d *dialer) opened() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, stop := range d.stops {
		stop()
	}
	d.opening, d.stops = nil, nil
}

// explain adds what to do to what a server or the network said while connecting.
func explain(err error) error {
	switch {
	case serverSays(err, "WRONGPASS", "NOAUTH", "ERR invalid password"):
		return fmt.Errorf("the server refused user and password; check Username and Password: %w", err)
	case forbidden(err):
		return fmt.Errorf("the user's ACL does not allow to connect and run scripts; see docs/operations for the ACL: %w", err)
	case serverSays(err, "DB index is out of range"):
		return fmt.Errorf("the server has no such database; check Database: %w", err)
	case errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		return fmt.Errorf("no answer in time; is this a Redis server, with TLS as configured?: %w", err)
	case notConnected(err):
		return err
	}
	if !isReply(err) && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("the answer is not that of a Redis server (or TLS is on at one side only): %w", err)
	}
	return err
}

// check makes sure that locks can work here at all, before anybody relies on it.
func (e *Engine) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Timeout)
	defer cancel()
	if _, err := lua.Run(ctx, e.conn, lua.Probe()); err != nil {
		return fmt.Errorf("run a first script (locks need EVAL and EVALSHA): %w", explain(err))
	}
	return nil
}

// dedicate opens the connection for messages.
func (e *Engine) dedicate(context.Context) (rueidis.DedicatedClient, func(), error) {
	client, release := e.conn.Dedicate()
	return client, release, nil
}

// latches makes the names of requests: 32 hexadecimal digits as Redisson has, unique to the client and the request.
type latches struct {
	prefix string
	last   atomic.Uint64
}

func newLatchPrefix(clientID string) string { return strings.ReplaceAll(clientID, "-", "")[:16] }

func (l *latches) next() string {
	var digits [16]byte
	const hexDigits = "0123456789abcdef"
	for n, i := l.last.Add(1), 15; i >= 0; n, i = n>>4, i-1 {
		digits[i] = hexDigits[n&15]
	}
	return l.prefix + string(digits[:])
}
