package config_test

import (
	"crypto/tls"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/config"
)

func TestSingleReadsEveryFormOfAddress(t *testing.T) {
	for _, c := range []struct {
		address, network, addr, text string
		user, password               string
		database                     int
		tls                          bool
	}{
		{address: "redis://127.0.0.1:6379", addr: "127.0.0.1:6379", text: "redis://127.0.0.1:6379"},
		{address: "redis://redis.example", addr: "redis.example:6379", text: "redis://redis.example:6379"},
		{address: "redis://h:1/", addr: "h:1", text: "redis://h:1"},
		{address: "REDIS://h:65535/0", addr: "h:65535", text: "redis://h:65535"},
		{address: "redis://h:1/15", addr: "h:1", text: "redis://h:1", database: 15},
		{address: "valkey://h:1", addr: "h:1", text: "valkey://h:1"},
		{address: "rediss://h:1", addr: "h:1", text: "rediss://h:1", tls: true},
		{address: "valkeys://h:1/2", addr: "h:1", text: "valkeys://h:1", tls: true, database: 2},
		{address: "redis://[::1]:7000", addr: "[::1]:7000", text: "redis://[::1]:7000"},
		{address: "redis://[::1]", addr: "[::1]:6379", text: "redis://[::1]:6379"},
		{address: "redis://user:word@h:1", addr: "h:1", text: "redis://h:1", user: "user", password: "word"},
		{address: "redis://:word@h:1/3", addr: "h:1", text: "redis://h:1", password: "word", database: 3},
		{address: "redis://u:p%40%2F%23%3A@h:1", addr: "h:1", text: "redis://h:1", user: "u", password: "p@/#:"},
		{address: "redis://:@h:1", addr: "h:1", text: "redis://h:1"},
		{address: "redis+uds:///run/redis.sock", network: "unix", addr: "/run/redis.sock", text: "redis+uds:///run/redis.sock"},
		{address: "valkey+uds:///a%20b", network: "unix", addr: "/a b", text: "valkey+uds:///a%20b"},
		{address: "redis+uds:///a%40b", network: "unix", addr: "/a@b", text: "redis+uds:///a%40b"},
		{address: "redis+uds://:word@/s", network: "unix", addr: "/s", text: "redis+uds:///s", password: "word"},
		{address: "localhost:6379", addr: "localhost:6379", text: "localhost:6379"},
		{address: "[::1]:6379", addr: "[::1]:6379", text: "[::1]:6379"},
		{address: "redis:6379", addr: "redis:6379", text: "redis:6379"},
	} {
		if c.network == "" {
			c.network = "tcp"
		}
		servers := config.Single(c.address)
		got, err := config.Config{Servers: servers}.WithDefaults()
		require.NoError(t, err, c.address)
		require.Equal(t, config.ModeSingle, servers.Mode())
		require.Equal(t, "single "+c.text, servers.String())
		require.Len(t, servers.Addresses(), 1)
		require.Equal(t, c.network, servers.Addresses()[0].Network)
		require.Equal(t, c.addr, servers.Addresses()[0].Addr)
		require.Equal(t, c.user, got.Username)
		require.Equal(t, c.password, got.Password)
		require.Equal(t, c.database, got.Database)
		require.Equal(t, c.tls, got.TLS != nil)
	}
}

func TestAFaultyAddressIsReportedByValidation(t *testing.T) {
	for address, want := range map[string]string{
		"":                          "Servers is an empty address; allowed is redis://host:port/db",
		"127.0.0.1":                 `Servers is "127.0.0.1", which is neither a URL nor host:port`,
		"127.0.0.1:":                `Servers is "127.0.0.1:", which is neither`,
		":6379":                     "Servers is an address without a host",
		"h:0":                       `Servers is an address with the port "0"; allowed is a port from 1 to 65535`,
		"h:65536":                   `the port "65536"`,
		"h:1/2":                     `"h:1/2", which is neither a URL nor host:port`,
		"redis:/h:1":                `"redis:/h:1", which is neither`,
		"u:p@h:1":                   "(not shown, it may hold a password), which is neither",
		"http://h:1":                `Servers is an address of the scheme "http"; allowed is redis://`,
		"://h:1":                    "Servers is an address that is no URL",
		"redis://":                  "Servers is an address without a host",
		"redis://h:":                `an address with the port ""`,
		"redis://h:99999":           `an address with the port "99999"`,
		"redis://h:port":            "Servers is an address that is no URL",
		"redis://::1:6379":          "an IPv6 address without brackets; allowed is one host",
		"redis://a b:1":             "Servers is an address that is no URL",
		"redis://h:1/x":             `Servers is an address with the database "x"; allowed is a number from 0 to 2147483647`,
		"redis://h:1/-1":            `the database "-1"`,
		"redis://h:1/+1":            `the database "+1"`,
		"redis://h:1/2147483648":    `the database "2147483648"`,
		"redis://h:1/0/1":           `the database "0/1"`,
		"redis://h:1?db=3":          `Servers is an address with "?" or "#"`,
		"redis://h:1?":              `Servers is an address with "?" or "#"`,
		"redis://h:1#":              `Servers is an address with "?" or "#"`,
		"redis+uds://run/s":         "Servers is a Unix socket without an absolute path; allowed is three slashes",
		"redis+uds://:@/word@/s":    `Servers is a Unix socket with an "@" in its path; allowed is "%40"`,
		"redis+uds:/run://":         "Servers is an address that is no URL",
		"redis+uds:///":             "Servers is a Unix socket without an absolute path",
		"redis://u:p/word@h:1":      "Servers is an address that is no URL",
		"redis://u:1/word@h:1":      "the database (not shown, it may hold a password)",
		"redis://u:p#word@h:1":      "special characters in user and password percent-encoded",
		"redis://u:%zz@h:1":         "Servers is an address that is no URL",
		"redis://127.0.0.1:6379\n":  "Servers is an address that is no URL",
		"redis://h:1,redis://h2:12": "Servers is an address with more than one host",
	} {
		servers := config.Single(address)
		_, err := config.Config{Servers: servers}.WithDefaults()
		require.Error(t, err, "%q", address)
		requireFault(t, err, "Servers")
		require.ErrorContains(t, err, want, "%q", address)
		require.Equal(t, "single (faulty address)", servers.String())
		require.Empty(t, servers.Addresses())
	}
}

func TestAddressAndFieldsMustNotContradict(t *testing.T) {
	const base = "redis://u:hunter2@h:1/3"
	for _, c := range []struct {
		cfg   config.Config
		fault string
	}{
		{config.Config{Servers: config.Single(base), Username: "other"}, "Username"},
		{config.Config{Servers: config.Single(base), Password: "hunter3"}, "Password"},
		{config.Config{Servers: config.Single(base), Database: 4}, "Database"},
		{config.Config{Servers: config.Single("redis://h:1/0"), Database: 4}, "Database"},
		{config.Config{Servers: config.Single(base), TLS: &tls.Config{MinVersion: tls.VersionTLS13}}, "TLS"},
		{config.Config{Servers: config.Single("redis+uds:///s"), TLS: &tls.Config{MinVersion: tls.VersionTLS13}}, "TLS"},
		{config.Config{Servers: config.Single(base), Username: "u", Password: "hunter2", Database: 3}, ""},
		{config.Config{Servers: config.Single("redis://h:1"), Username: "u", Password: "w", Database: 3}, ""},
		{config.Config{Servers: config.Single("redis://u@h:1"), Password: "w"}, ""},
		{config.Config{Servers: config.Single("redis://:w@h:1"), Username: "u"}, ""},
		{config.Config{Servers: config.Single("rediss://h:1"), TLS: &tls.Config{MinVersion: tls.VersionTLS13}}, ""},
		{config.Config{Servers: config.Single("h:1"), TLS: &tls.Config{MinVersion: tls.VersionTLS13}}, ""},
	} {
		_, err := c.cfg.WithDefaults()
		if c.fault == "" {
			require.NoError(t, err)
			continue
		}
		requireFault(t, err, c.fault)
		require.NotContains(t, err.Error(), "hunter")
	}
}

// In redis-cli's reading "redis://word@host" is a password, in ours and most others' a user: refused, and not shown.
func TestAUserNeedsAPassword(t *testing.T) {
	for _, cfg := range []config.Config{
		{Servers: config.Single(local), Username: "hunter2"},
		{Servers: config.Single("redis://hunter2@h:1")},
		{Servers: config.Single("redis://hunter2:@h:1")},
	} {
		_, err := cfg.WithDefaults()
		requireFault(t, err, "Username")
		require.NotContains(t, err.Error(), "hunter2")
	}
	_, err := config.Config{Servers: config.Single(local), Password: "word"}.WithDefaults()
	require.NoError(t, err)
}

func TestRedissMeansAtLeastTLS12AndTheSystemsRoots(t *testing.T) {
	got, err := config.Config{Servers: config.Single("rediss://h:1")}.WithDefaults()
	require.NoError(t, err)
	require.Equal(t, uint16(tls.VersionTLS12), got.TLS.MinVersion)
	require.False(t, got.TLS.InsecureSkipVerify)
	require.Nil(t, got.TLS.RootCAs)
}

func TestZeroServersIsRefused(t *testing.T) {
	require.Equal(t, config.ModeNone, config.Servers{}.Mode())
	require.Empty(t, config.Servers{}.Addresses())
	require.Equal(t, "none", config.Servers{}.String())
	_, err := config.Config{}.WithDefaults()
	requireFault(t, err, "Servers")
	require.ErrorContains(t, err, `config.Single("redis://127.0.0.1:6379")`)
}

func TestExternalTakesNoSettingsOfTheConnection(t *testing.T) {
	require.Equal(t, config.ModeExternal, config.External().Mode())
	require.Equal(t, "external", config.External().String())
	require.Empty(t, config.External().Addresses())
	_, err := config.Config{Servers: config.External()}.WithDefaults()
	require.NoError(t, err)
	_, err = config.Config{
		Servers: config.External(), Username: "u", Password: "hunter2", Database: 1, ClientName: "c", TLS: &tls.Config{MinVersion: tls.VersionTLS13},
		SentinelUsername: "s", SentinelPassword: "hunter2", ScanInterval: time.Second, DNSMonitoringInterval: 1, NATMapper: func(a string) string { return a },
	}.WithDefaults()
	require.Len(t, faults(t, err), 10)
	require.NotContains(t, err.Error(), "hunter2")
}

func TestModeHasAName(t *testing.T) {
	require.Equal(t, "none single external cluster sentinel master-slave replicated Mode(7) Mode(-1)", fmt.Sprint(
		config.ModeNone, config.ModeSingle, config.ModeExternal, config.ModeCluster, config.ModeSentinel, config.ModeMasterSlave,
		config.ModeReplicated, config.Mode(7), config.Mode(-1)))
}

func TestAddressesIsACopy(t *testing.T) {
	servers := config.Single(local)
	servers.Addresses()[0].Addr = "elsewhere:1"
	require.Equal(t, "127.0.0.1:6379", servers.Addresses()[0].Addr)
}

// Whatever the address is, nothing panics, what was understood can be written and read again, and a password that was put into
// an address does not come out in any text, however it breaks the address.
func FuzzSingle(f *testing.F) {
	for _, raw := range []string{local, "redis://u:p@h:1/3", "rediss://[::1]", "redis+uds:///run/a b", "h:1", "redis://h:1?x", "", "://", "[fe80::1%25lo]:1"} {
		f.Add(raw, "", "")
	}
	for _, around := range [][2]string{{"@", ""}, {"/", ""}, {"1/", ""}, {"x@y:1/", ""}, {"#", "?"}, {"%", "zz"}, {"]", "["}, {"1/0?", "@"}, {":", ":"}} {
		f.Add("h:1", around[0], around[1])
	}
	f.Fuzz(func(t *testing.T, raw, before, after string) {
		servers := config.Single(raw)
		_, _ = config.Config{Servers: servers}.WithDefaults()
		for _, a := range servers.Addresses() {
			again := config.Single(a.String())
			require.Equal(t, []config.Address{a}, again.Addresses(), "%q gave %q", raw, a.String())
		}

		const secret = "hunter2hunter2"
		for _, address := range []string{
			"redis://user:" + before + secret + after + "@h:1/0", "redis://" + before + secret + after + "@h:1", before + secret + after + "@h:1",
			"redis+uds://:" + before + secret + after + "@/s",
		} {
			servers := config.Single(address)
			_, err := config.Config{Servers: servers, Timeout: -1}.WithDefaults()
			require.Error(t, err)
			require.NotContains(t, err.Error(), secret)
			require.NotContains(t, servers.String(), secret)
		}
	})
}
