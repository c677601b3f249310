package topology

import (
	"context"
	"crypto/tls"
	"net"
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

// dial makes the connection that all requests to one server share. ConnectTimeout bounds the connecting, with TLS, and the shorter of it
// and Timeout the log-in after it. It, and all that the client makes later, end with life, also while they shake hands.
func dial(life context.Context, cfg config.Config, network, address string, as role) (rueidis.Client, error) {
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
		DialCtxFn:         dialer{network, life}.dial,
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
	if err != nil {
		if client != nil {
			client.Close()
		}
		if life.Err() != nil {
			err = EndOf(life)
		}
		return nil, err
	}
	return client, nil
}

// dialer makes the connections to one server.
type dialer struct {
	network string
	life    context.Context
}

func (d dialer) dial(ctx context.Context, address string, nd *net.Dialer, t *tls.Config) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	forget := context.AfterFunc(d.life, cancel)
	defer forget()
	conn, err := d.connect(ctx, address, nd, t)
	if err != nil {
		return nil, err
	}
	return mortalConn{conn, context.AfterFunc(d.life, func() { _ = conn.Close() })}, nil
}

func (d dialer) connect(ctx context.Context, address string, nd *net.Dialer, t *tls.Config) (net.Conn, error) {
	if t != nil {
		return (&tls.Dialer{NetDialer: nd, Config: t}).DialContext(ctx, d.network, address)
	}
	return nd.DialContext(ctx, d.network, address)
}

// mortalConn ends with its node.
type mortalConn struct {
	net.Conn
	forget func() bool
}

// Close closes the connection, and needs no end any more.
func (c mortalConn) Close() error {
	c.forget()
	return c.Conn.Close()
}
