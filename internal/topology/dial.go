package topology

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/config"
)

// pingInterval is how often a connection without traffic is tried. One that does not answer within the command timeout is given up:
// only then do requests go to a new one, and is it known that messages do not arrive. So it must be soon for the watchdog. rueidis lets
// an interval pass in which something arrived, so that a connection which fell silent is tried within two.
func pingInterval(cfg config.Config) time.Duration {
	return min(2500*time.Millisecond, max(cfg.LockWatchdogTimeout/12, 50*time.Millisecond))
}

// role is what a server is asked as, which decides who logs in.
type role int

const (
	dataRole role = iota
	sentinelRole
)

// dial makes the connection that all requests to one server share. ctx bounds the connecting, together with ConnectTimeout.
func dial(ctx context.Context, cfg config.Config, network, address string, as role) (rueidis.Client, error) {
	d := &dialer{network: network, opening: ctx}
	o := rueidis.ClientOption{
		InitAddress:       []string{address},
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
		DialCtxFn:         d.dial,
	}
	if as == sentinelRole {
		o.Username, o.Password, o.SelectDB = cfg.SentinelUsername, cfg.SentinelPassword, 0
	}
	client, err := rueidis.NewClient(o)
	if as == sentinelRole && cfg.SentinelPassword == "" && cfg.Password != "" && says(err, "NOAUTH") {
		if client != nil {
			client.Close()
		}
		o.Username, o.Password = cfg.Username, cfg.Password // as Redisson, where the sentinels have no log-in of their own
		client, err = rueidis.NewClient(o)
	}
	d.opened()
	if err != nil {
		if client != nil {
			client.Close()
		}
		if ctx.Err() != nil {
			err = endOf(ctx)
		}
		return nil, err
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
