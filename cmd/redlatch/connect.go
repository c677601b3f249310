package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/redlatch/redlatch/config"
)

// Environment variables that stand in for flags.
const (
	envRedis    = "REDLATCH_REDIS"
	envPassword = "REDLATCH_PASSWORD"
)

// connection is the flags that say where the server is and how to log in. There is none for a password: a command line can be
// read by everybody on the machine.
type connection struct {
	redis, username, passwordFile, ca string
}

func (c *connection) register(flags *pflag.FlagSet, redisUsage string) {
	flags.StringVar(&c.redis, "redis", "", redisUsage)
	flags.StringVar(&c.username, "username", "", "user `name` to log in with, together with a password")
	flags.StringVar(&c.passwordFile, "password-file", "", "`file` with the password (default $"+envPassword+")")
	flags.StringVar(&c.ca, "tls-ca", "", "PEM `file` of the authorities to trust for rediss:// (default: the system's)")
}

// config is what the flags and the environment say.
func (c *connection) config() (config.Config, error) {
	cfg := config.Config{Servers: config.Single(c.redis), Username: c.username}
	var err error
	if cfg.Password, err = c.password(); err != nil {
		return config.Config{}, err
	}
	if c.ca != "" {
		pem, err := os.ReadFile(c.ca)
		if err != nil {
			return config.Config{}, usagef("--tls-ca can't be read: %w", err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return config.Config{}, usagef("--tls-ca is %s, which holds no certificate in PEM", c.ca)
		}
		cfg.TLS = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	return cfg, checked(cfg)
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
	"LockWatchdogTimeout": "--watchdog-timeout", "Database": "the database in --redis",
}

// checked validates a configuration and speaks of flags where it is wrong.
func checked(cfg config.Config) error {
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
