package redistest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/testcontainers/testcontainers-go"
	tcredis "github.com/testcontainers/testcontainers-go/modules/redis"

	"github.com/redlatch/redlatch/internal/redistest/redisproc"
)

// errContainer is the answer to what needs the server's process.
var errContainer = errors.New("a server in a container cannot do this; run the test with " + EnvServers + "=process")

// container is a Redis that Docker runs. It serves everything that goes over the wire; the faults that need the process
// are refused.
type container struct {
	ctr  *tcredis.RedisContainer
	addr string
}

var _ backend = (*container)(nil)

// launchContainer starts the official image of the version.
func (o *Options) launchContainer(ctx context.Context) (backend, *tls.Config, error) {
	conf, err := o.containerConfig()
	if err != nil {
		return nil, nil, err
	}
	defer os.Remove(conf) // it is copied into the container before Run returns
	customizers := []testcontainers.ContainerCustomizer{tcredis.WithConfigFile(conf)}
	if o.TLS {
		customizers = append(customizers, tcredis.WithTLS())
	}
	ctr, err := tcredis.Run(ctx, containerImage(o.Version), customizers...)
	if err == nil {
		var addr string
		if addr, err = ctr.PortEndpoint(ctx, "6379/tcp", ""); err == nil {
			return &container{ctr: ctr, addr: addr}, ctr.TLSConfig(), nil
		}
	}
	err = fmt.Errorf("redistest: start a Redis container (%s=container needs Docker): %w", EnvServers, err)
	if ctr != nil {
		err = errors.Join(err, testcontainers.TerminateContainer(ctr))
	}
	return nil, nil, err
}

// containerImage is the Docker image of a version: "valkey-9.1.2" is valkey/valkey:9.1.2, "7.0.15" is redis:7.0.15.
func containerImage(version redisproc.Version) string {
	if version == redisproc.Default {
		version = redisproc.Version(os.Getenv(redisproc.EnvVersion))
	}
	if version == redisproc.Default {
		version = redisproc.Redis7
	}
	if number, isValkey := strings.CutPrefix(string(version), "valkey-"); isValkey {
		return "docker.io/valkey/valkey:" + number
	}
	return "docker.io/redis:" + string(version)
}

// containerConfig writes the redis.conf of the options to a temporary file. Inside its own network the server must accept
// the host, which protected mode would refuse.
func (o *Options) containerConfig() (path string, err error) {
	f, err := os.CreateTemp("", "redistest-*.conf")
	if err != nil {
		return "", fmt.Errorf("redistest: make the container's redis.conf: %w", err)
	}
	lines := []redisproc.Directive{{Key: "protected-mode", Value: "no"}, {Key: "save", Value: `""`}, {Key: "appendonly", Value: "no"}}
	for _, d := range append(lines, o.directives()...) {
		fmt.Fprintf(f, "%s %s\n", d.Key, d.Value) // an error of any of these writes is also one of Close
	}
	if err := f.Close(); err != nil {
		return "", fmt.Errorf("redistest: write the container's redis.conf: %w", err)
	}
	return f.Name(), nil
}

func (c *container) Addr() string { return c.addr }

// PID is 0: the process is not one of this machine.
func (c *container) PID() int { return 0 }

func (c *container) Log() string {
	ctx, cancel := context.WithTimeout(context.Background(), ioTimeout)
	defer cancel()
	logs, err := c.ctr.Logs(ctx)
	if err != nil {
		return fmt.Sprintf("(no output: %v)", err)
	}
	defer logs.Close()
	text, err := io.ReadAll(logs)
	if err != nil {
		return fmt.Sprintf("%s\n(cut short: %v)", text, err)
	}
	return string(text)
}

func (c *container) Stop() error                   { return errContainer }
func (c *container) Cont() error                   { return errContainer }
func (c *container) Kill() error                   { return errContainer }
func (c *container) Restart(context.Context) error { return errContainer }

// Close removes the container. It is idempotent.
func (c *container) Close() error {
	if err := testcontainers.TerminateContainer(c.ctr); err != nil {
		return fmt.Errorf("redistest: remove the Redis container: %w", err)
	}
	return nil
}
