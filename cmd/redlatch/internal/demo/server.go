package demo

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
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
		s.about = describe(s.cfg.Servers)
		err = s.probe(ctx)
	case o.Java:
		err = s.launch(ctx)
	default:
		err = s.embed()
	}
	if err != nil {
		return nil, err
	}
	if s.data, err = dial(ctx, s.cfg); err != nil {
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

// describe names the servers in words.
func describe(s config.Servers) string {
	addresses := s.Addresses()
	if len(addresses) == 0 {
		return s.String()
	}
	where := addresses[0].String()
	if more := len(addresses) - 1; more > 0 {
		where += fmt.Sprintf(" and %d more", more)
	}
	switch s.Mode() {
	case config.ModeCluster:
		return "the Redis cluster of " + where
	case config.ModeSentinel:
		return fmt.Sprintf("the master %q of the sentinels at %s", s.MasterName(), where)
	case config.ModeMasterSlave, config.ModeReplicated:
		return "the replicated Redis at " + where
	default:
		return "Redis at " + where
	}
}

// dial opens the connection for what the lock protects.
func dial(ctx context.Context, cfg config.Config) (rueidis.Client, error) {
	cfg, err := cfg.WithDefaults()
	if err != nil {
		return nil, err
	}
	addresses := cfg.Servers.Addresses()
	if len(addresses) == 0 {
		return nil, errors.New("the demo needs the address of a server")
	}
	option := rueidis.ClientOption{
		Username:          cfg.Username,
		Password:          cfg.Password,
		SelectDB:          cfg.Database,
		TLSConfig:         cfg.TLS,
		Dialer:            net.Dialer{Timeout: cfg.ConnectTimeout},
		ConnWriteTimeout:  cfg.Timeout,
		DisableCache:      true,
		DisableRetry:      true, // an increment that is sent twice would look like a second worker
		PipelineMultiplex: -1,
		DialCtxFn:         dialer(addresses, cfg.NATMapper),
	}
	switch cfg.Servers.Mode() {
	case config.ModeReplicated:
		return dialMaster(ctx, option, addresses)
	case config.ModeCluster:
	case config.ModeSentinel:
		option.Sentinel = rueidis.SentinelOption{
			MasterSet: cfg.Servers.MasterName(), Username: cfg.SentinelUsername, Password: cfg.SentinelPassword,
			TLSConfig: cfg.TLS, Dialer: option.Dialer,
		}
	default: // of a master and its slaves the master is the first
		option.ForceSingleClient, addresses = true, addresses[:1]
	}
	for _, a := range addresses {
		option.InitAddress = append(option.InitAddress, a.Addr)
	}
	client, err := rueidis.NewClient(option)
	if err != nil && option.Sentinel.MasterSet != "" && option.Sentinel.Password == "" && cfg.Password != "" {
		// As config.Config.SentinelPassword has it: sentinels that demand a password may have that of the servers.
		option.Sentinel.Username, option.Sentinel.Password = cfg.Username, cfg.Password
		client, err = rueidis.NewClient(option)
	}
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", describe(cfg.Servers), err)
	}
	return client, nil
}

// dialMaster connects to the server that says that it is the master.
func dialMaster(ctx context.Context, option rueidis.ClientOption, addresses []config.Address) (rueidis.Client, error) {
	option.ForceSingleClient = true
	var errs []error
	for _, a := range addresses {
		option.InitAddress = []string{a.Addr}
		client, err := rueidis.NewClient(option)
		if err != nil {
			errs = append(errs, fmt.Errorf("connect to %s: %w", a, err))
			continue
		}
		role, err := client.Do(ctx, client.B().Role().Build()).ToArray()
		if err == nil && len(role) > 0 {
			if is, _ := role[0].ToString(); is == "master" {
				return client, nil
			}
		}
		client.Close()
		errs = append(errs, err)
	}
	return nil, errors.Join(errors.New("none of the servers says that it is the master"), errors.Join(errs...))
}

// dialer is needed because rueidis by itself takes every address for TCP, and maps none that a server has told of.
func dialer(named []config.Address, mapped func(string) string) func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	return func(ctx context.Context, addr string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
		network := "tcp"
		if i := slices.IndexFunc(named, func(a config.Address) bool { return a.Addr == addr }); i >= 0 {
			network = named[i].Network
		} else if mapped != nil {
			addr = mapped(addr)
		}
		if t != nil {
			return (&tls.Dialer{NetDialer: d, Config: t}).DialContext(ctx, network, addr)
		}
		return d.DialContext(ctx, network, addr)
	}
}
