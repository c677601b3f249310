package redistest

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"strconv"

	"github.com/redlatch/redlatch/internal/redistest/redisproc"
)

// EnvServers chooses what Start and Launch run: "process" (the default) or "container".
const EnvServers = "REDLATCH_TEST_SERVERS"

// Options says what server Launch runs. The zero value is a plain one of the default version.
type Options struct {
	// Dir is the server's folder; it must exist. Empty means a temporary one.
	Dir string
	// Version is the release to run; the default is redisproc's.
	Version redisproc.Version
	// Password is required of the default user where it is not empty.
	Password string
	// Users are ACL rules as the user directive of redis.conf takes them: "alice on >secret ~* &* +@all".
	Users []string
	// TLS makes the server speak TLS alone, with a certificate made for it.
	TLS bool
	// Config holds further lines of redis.conf.
	Config []redisproc.Directive

	process redisproc.Options // what else a node of a topology asks of its process; the fields above come over it
}

// Option changes what server Start runs.
type Option func(*Options)

// WithPassword requires the password of the default user.
func WithPassword(password string) Option { return func(o *Options) { o.Password = password } }

// WithUser adds a user: "alice on >secret ~app:* &* +@all".
func WithUser(rule string) Option {
	return func(o *Options) { o.Users = append(o.Users, rule) }
}

// WithConfig adds a line of redis.conf, the value as redis.conf writes it.
func WithConfig(key, value string) Option {
	return func(o *Options) { o.Config = append(o.Config, redisproc.Directive{Key: key, Value: value}) }
}

// WithVersion asks for a release by name; see redisproc.Version.
func WithVersion(version redisproc.Version) Option { return func(o *Options) { o.Version = version } }

// WithTLS makes the server speak TLS alone, with a certificate from an authority made for this test. Server.TLS is what
// clients need.
func WithTLS() Option { return func(o *Options) { o.TLS = true } }

// directives are the configuration lines that the options stand for.
func (o *Options) directives() []redisproc.Directive {
	var out []redisproc.Directive
	if o.Password != "" {
		out = append(out, redisproc.Directive{Key: "requirepass", Value: strconv.Quote(o.Password)})
	}
	for _, user := range o.Users {
		out = append(out, redisproc.Directive{Key: "user", Value: user})
	}
	return append(out, o.Config...)
}

// launch runs the server that the environment chooses. The *tls.Config is what clients need, nil for plain TCP.
func (o *Options) launch(ctx context.Context) (backend, *tls.Config, error) {
	switch provider := os.Getenv(EnvServers); provider {
	case "", "process":
		return o.launchProcess(ctx)
	case "container":
		return o.launchContainer(ctx)
	default:
		return nil, nil, fmt.Errorf("redistest: %s=%q must be \"process\" or \"container\"", EnvServers, provider)
	}
}

func (o *Options) launchProcess(ctx context.Context) (backend, *tls.Config, error) {
	opts := o.process
	opts.Version, opts.Dir, opts.Config = o.Version, o.Dir, o.directives()
	var clients *tls.Config
	if o.TLS {
		var err error
		if opts.TLS, clients, err = makeKeyPair(); err != nil {
			return nil, nil, err
		}
	}
	p, err := redisproc.Launch(ctx, opts)
	if err != nil {
		return nil, nil, err
	}
	return p, clients, nil
}
