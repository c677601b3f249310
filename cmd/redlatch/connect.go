package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch/config"
)

// Environment variables that stand in for flags.
const (
	envRedis    = "REDLATCH_REDIS"
	envPassword = "REDLATCH_PASSWORD"
)

// connection is the flags that say where the servers are and how to log in. There is none for a password: a command line can be
// read by everybody on the machine.
type connection struct {
	redis                            []string // addresses, each element one or several with commas between them
	cluster                          bool
	sentinel                         string // the name that sentinels know the master by
	database                         int
	username, passwordFile, ca, file string
}

// topologyFlags say what --config says in their place.
var topologyFlags = []string{"redis", "cluster", "sentinel", "database", "username", "password-file"}

func (c *connection) register(cmd *cobra.Command, redisUsage string) {
	flags := cmd.Flags()
	flags.StringArrayVar(&c.redis, "redis", nil, redisUsage+"; several with commas between them, or the flag again, with --cluster or --sentinel")
	flags.BoolVar(&c.cluster, "cluster", false, "the servers are a cluster; --redis names one node or some, which tell of the others")
	flags.StringVar(&c.sentinel, "sentinel", "", "use the master that sentinels know by this `name`; --redis names the sentinels")
	flags.IntVar(&c.database, "database", 0, "`number` of the database, where --redis does not say it")
	flags.StringVar(&c.username, "username", "", "user `name` to log in with, together with a password")
	flags.StringVar(&c.passwordFile, "password-file", "", "`file` with the password (default $"+envPassword+")")
	flags.StringVar(&c.ca, "tls-ca", "", "PEM `file` of the authorities to trust for rediss:// (default: the system's)")
	flags.StringVar(&c.file, "config", "", "`file` of a Java service's redisson.yaml that says all of this, for every topology")
	cmd.MarkFlagsMutuallyExclusive("cluster", "sentinel")
	for _, name := range topologyFlags {
		cmd.MarkFlagsMutuallyExclusive("config", name)
	}
}

// named tells whether the flags say where the servers are.
func (c *connection) named() bool { return len(c.redis) > 0 || c.file != "" }

// config is what the flags and the environment say. What of a redisson.yaml can't be followed is written to warnings.
func (c *connection) config(warnings io.Writer) (config.Config, error) {
	read := c.fromFlags
	if c.file != "" {
		read = func() (config.Config, error) { return c.fromFile(warnings) }
	}
	cfg, err := read()
	if err != nil {
		return config.Config{}, err
	}
	if err := c.trust(&cfg); err != nil {
		return config.Config{}, err
	}
	return cfg, c.checked(cfg)
}

func (c *connection) fromFile(warnings io.Writer) (config.Config, error) {
	cfg, warned, err := config.LoadRedissonYAML(c.file)
	for _, w := range warned {
		fmt.Fprintf(warnings, "redlatch: %s: %s\n", c.file, w)
	}
	if err != nil {
		return config.Config{}, usagef("--config: %w", err)
	}
	return cfg, nil
}

func (c *connection) fromFlags() (config.Config, error) {
	addresses, err := c.addresses()
	if err != nil {
		return config.Config{}, err
	}
	cfg := config.Config{Username: c.username, Database: c.database}
	switch {
	case c.sentinel != "":
		cfg.Servers = config.Sentinel(c.sentinel, addresses...)
	case c.cluster:
		cfg.Servers = config.Cluster(addresses...)
	case len(addresses) > 1:
		return config.Config{}, usagef("--redis names %d servers; add --cluster, or --sentinel NAME when they are sentinels; "+
			"--config FILE knows other topologies", len(addresses))
	default:
		cfg.Servers = config.Single(addresses[0])
	}
	cfg.Password, err = c.password()
	return cfg, err
}

// addresses takes what --redis says apart. A comma in a password would cut it in two, and show the parts; such a thing is refused unseen.
func (c *connection) addresses() ([]string, error) {
	var list []string
	for _, value := range c.redis {
		for i, address := range strings.Split(value, ",") {
			if i > 0 && strings.Contains(address, "@") && !strings.Contains(address, "://") {
				return nil, usagef("--redis has a comma within an address; write %%2C for one in a password, " +
					"and the scheme before each of several addresses")
			}
			list = append(list, strings.TrimSpace(address))
		}
	}
	return list, nil
}

// trust adds the authorities of --tls-ca. It keeps the tls.Config that is there, since what checks a certificate for a redisson.yaml looks into it.
func (c *connection) trust(cfg *config.Config) error {
	if c.ca == "" {
		return nil
	}
	pem, err := os.ReadFile(c.ca)
	if err != nil {
		return usagef("--tls-ca can't be read: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return usagef("--tls-ca is %s, which holds no certificate in PEM", c.ca)
	}
	if cfg.TLS == nil {
		cfg.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	cfg.TLS.RootCAs = roots
	return nil
}

func (c *connection) password() (string, error) {
	if c.passwordFile == "" {
		return os.Getenv(envPassword), nil
	}
	content, err := os.ReadFile(c.passwordFile)
	if err != nil {
		return "", usagef("--password-file can't be read: %w", err)
	}
	password := strings.TrimRight(string(content), "\r\n")
	if password == "" {
		return "", usagef("--password-file is %s, which is empty; write the password into it", c.passwordFile)
	}
	return password, nil
}

// flagOf names the flags behind the fields of config.Config.
var flagOf = map[string]string{
	"Servers": "--redis", "Username": "--username", "Password": "--password-file or " + envPassword, "TLS": "--tls-ca",
	"LockWatchdogTimeout": "--watchdog-timeout", "Database": "the database of --redis or --database",
	"SentinelUsername": "the user in --redis", "SentinelPassword": "the password in --redis",
}

// checked validates a configuration and speaks of flags where it is wrong. What a file says has been checked with its lines when it was read.
func (c *connection) checked(cfg config.Config) error {
	_, err := cfg.WithDefaults()
	var fault *config.FieldError
	if errors.As(err, &fault) {
		if name := flagOf[fault.Field]; name != "" {
			allowed := strings.Replace(fault.Allowed, "Username and Password", "--username and --password-file", 1)
			return usagef("%s is %s; allowed is %s", name, fault.Value, allowed)
		}
	}
	return exit(exitUsage, err)
}
