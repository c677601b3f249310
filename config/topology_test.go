package config_test

import (
	"crypto/tls"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/config"
)

func TestEachTopologyKeepsItsAddressesInOrder(t *testing.T) {
	for _, c := range []struct {
		servers config.Servers
		mode    config.Mode
		master  string
		addrs   []string
		text    string
	}{
		{
			config.Cluster("redis://a:7000", "redis://b"), config.ModeCluster, "",
			[]string{"a:7000", "b:6379"},
			"cluster redis://a:7000 redis://b:6379",
		},
		{
			config.Sentinel("orders", "redis://a", "b:1"), config.ModeSentinel, "orders",
			[]string{"a:26379", "b:1"},
			`sentinel "orders" redis://a:26379 b:1`,
		},
		{
			config.MasterSlave("redis://z:1", "redis://a:1", "redis+uds:///s"), config.ModeMasterSlave, "",
			[]string{"z:1", "a:1", "/s"},
			"master-slave redis://z:1 redis://a:1 redis+uds:///s",
		},
		{config.MasterSlave("redis://z:1"), config.ModeMasterSlave, "", []string{"z:1"}, "master-slave redis://z:1"},
		{config.Replicated("b:1", "a:1"), config.ModeReplicated, "", []string{"b:1", "a:1"}, "replicated b:1 a:1"},
	} {
		_, err := config.Config{Servers: c.servers}.WithDefaults()
		require.NoError(t, err, c.text)
		var addrs []string
		for _, a := range c.servers.Addresses() {
			addrs = append(addrs, a.Addr)
		}
		require.Equal(t, c.mode, c.servers.Mode())
		require.Equal(t, c.master, c.servers.MasterName())
		require.Equal(t, c.addrs, addrs)
		require.Equal(t, c.text, c.servers.String())
	}
	require.Empty(t, config.Servers{}.MasterName())
}

func TestAFaultyTopologyIsReportedByValidation(t *testing.T) {
	for _, c := range []struct {
		servers config.Servers
		want    string
	}{
		{config.Cluster(), "Servers is without an address; allowed is at least one address: redis://host:port/db"},
		{config.Sentinel("orders"), "Servers is without an address"},
		{config.Sentinel("", "a:1"), "Servers is without the name of a master; allowed is the name that the sentinels know"},
		{config.MasterSlave(""), "Servers is an empty address"},
		{config.Replicated(), "Servers is without an address"},
		{config.Cluster("a:1", "b:1", ""), "Servers is an empty address (address 3 of 3)"},
		{config.Cluster("a:1", "redis://b:99999"), `the port "99999" (address 2 of 2); allowed is a port from 1 to 65535`},
		{config.Cluster("redis://a", "A:6379"), `Servers is "A:6379" (address 2 of 2), which stands there twice; allowed is each server once`},
		{config.MasterSlave("a:1", "b:1", "a:1"), `"a:1" (address 3 of 3), which stands there twice`},
		{config.Cluster("redis://:hunter2@a", "redis://:hunter3@b"), "an address with another password than the one before (address 2 of 2)"},
		{config.Replicated("redis://u:hunter2@a", "b:1", "redis://v:hunter2@c"), "another user than the one before (address 3 of 3)"},
		{config.MasterSlave("redis://a/1", "redis://b/2"), "an address with another database than the one before"},
		{config.Cluster("redis://a", "rediss://b"), "an address with TLS and one without (address 2 of 2); allowed is TLS for all"},
		{config.Cluster("b:1", "valkeys://a", "valkey://c"), "an address with TLS and one without (address 3 of 3)"},
		{config.Cluster("redis+uds:///s"), "a Unix socket; allowed is host and port with a cluster topology"},
		{config.Sentinel("m", "a:1", "redis+uds:///s"), "a Unix socket (address 2 of 2); allowed is host and port with a sentinel topology"},
		{config.Replicated("redis+uds:///s"), "a Unix socket; allowed is host and port with a replicated topology"},
		{config.Sentinel("m", "redis://a/3"), "the address of a sentinel with a database; allowed is no database there"},
	} {
		_, err := config.Config{Servers: c.servers}.WithDefaults()
		requireFault(t, err, "Servers")
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "hunter")
		require.Contains(t, c.servers.String(), "(faulty address)")
	}
}

func TestAllFaultsOfATopologyAreReportedAtOnce(t *testing.T) {
	_, err := config.Config{Servers: config.Sentinel("", "", "redis+uds:///s"), ScanInterval: 1}.WithDefaults()
	require.Len(t, faults(t, err), 4)
}

func TestALogInInOneAddressIsThatOfAll(t *testing.T) {
	got, err := config.Config{Servers: config.Cluster("a:1", "redis://u:w@b", "redis://u:w@c", "redis://d")}.WithDefaults()
	require.NoError(t, err)
	require.Equal(t, "u", got.Username)
	require.Equal(t, "w", got.Password)

	got, err = config.Config{Servers: config.MasterSlave("a:1", "redis://b/3")}.WithDefaults()
	require.NoError(t, err)
	require.Equal(t, 3, got.Database)

	_, err = config.Config{Servers: config.Cluster("a:1", "redis://:hunter2@b"), Password: "hunter3"}.WithDefaults()
	requireFault(t, err, "Password")
	require.NotContains(t, err.Error(), "hunter")
}

func TestTLSOfOneAddressIsThatOfBareOnes(t *testing.T) {
	got, err := config.Config{Servers: config.Cluster("a:1", "rediss://b", "c:1")}.WithDefaults()
	require.NoError(t, err)
	require.NotNil(t, got.TLS)

	_, err = config.Config{Servers: config.Cluster("a:1", "redis://b"), TLS: &tls.Config{MinVersion: tls.VersionTLS13}}.WithDefaults()
	requireFault(t, err, "TLS")
}

func TestASentinelsAddressCarriesTheSentinelsLogIn(t *testing.T) {
	got, err := config.Config{Servers: config.Sentinel("m", "redis://watch:word@a"), Password: "other", Database: 3}.WithDefaults()
	require.NoError(t, err)
	require.Equal(t, "watch", got.SentinelUsername)
	require.Equal(t, "word", got.SentinelPassword)
	require.Empty(t, got.Username)
	require.Equal(t, "other", got.Password)

	for field, cfg := range map[string]config.Config{
		"SentinelUsername": {Servers: config.Sentinel("m", "redis://u:w@a"), SentinelUsername: "v"},
		"SentinelPassword": {Servers: config.Sentinel("m", "redis://:hunter2@a"), SentinelPassword: "hunter3"},
	} {
		_, err := cfg.WithDefaults()
		requireFault(t, err, field)
		require.NotContains(t, err.Error(), "hunter")
	}
}

func TestASentinelsUserNeedsAPassword(t *testing.T) {
	_, err := config.Config{Servers: config.Sentinel("m", "a:1"), SentinelUsername: "hunter2"}.WithDefaults()
	requireFault(t, err, "SentinelUsername")
	require.NotContains(t, err.Error(), "hunter2")
}

func TestOnlySentinelHasASentinelsLogIn(t *testing.T) {
	for _, servers := range []config.Servers{config.Single(local), config.Cluster(local), config.MasterSlave(local), config.Replicated(local)} {
		_, err := config.Config{Servers: servers, SentinelUsername: "u", SentinelPassword: "hunter2"}.WithDefaults()
		requireFault(t, err, "SentinelUsername")
		requireFault(t, err, "SentinelPassword")
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func TestAClusterHasOnlyDatabase0(t *testing.T) {
	for _, cfg := range []config.Config{
		{Servers: config.Cluster(local), Database: 3},
		{Servers: config.Cluster("redis://a/3")},
	} {
		_, err := cfg.WithDefaults()
		require.EqualError(t, err, "config: Database is 3; allowed is 0, for a cluster has only database 0")
	}
	_, err := config.Config{Servers: config.Cluster("redis://a/0")}.WithDefaults()
	require.NoError(t, err)
}

func TestScanIntervalIsThatOfRedissonForEachTopology(t *testing.T) {
	for _, c := range []struct {
		servers config.Servers
		want    time.Duration
	}{
		{config.Cluster(local), 5 * time.Second},
		{config.Sentinel("m", local), time.Second},
		{config.Replicated(local), time.Second},
		{config.MasterSlave(local), 0},
		{config.Single(local), 0},
	} {
		got, err := config.Config{Servers: c.servers}.WithDefaults()
		require.NoError(t, err)
		require.Equal(t, c.want, got.ScanInterval)
		for _, v := range []time.Duration{100 * time.Millisecond, time.Hour} {
			got, err = config.Config{Servers: c.servers, ScanInterval: v}.WithDefaults()
			require.NoError(t, err)
			require.Equal(t, v, got.ScanInterval)
		}
		for _, v := range []time.Duration{-1, 1, 100*time.Millisecond - 1, time.Hour + 1, math.MaxInt64} {
			_, err = config.Config{Servers: c.servers, ScanInterval: v}.WithDefaults()
			requireFault(t, err, "ScanInterval")
		}
	}
	_, err := config.Config{Servers: config.Cluster(local), ScanInterval: 1}.WithDefaults()
	require.EqualError(t, err, "config: ScanInterval is 1ns; allowed is 100ms to 1h0m0s (0 means the default of 5s)")
}

func TestNamesOfFixedAddressesAreMonitoredAsByRedisson(t *testing.T) {
	for _, c := range []struct {
		servers config.Servers
		want    time.Duration
	}{
		{config.Cluster(local), 0},
		{config.Sentinel("m", local), 0},
		{config.Replicated(local), 0},
		{config.MasterSlave(local), 5 * time.Second},
		{config.Single(local), 5 * time.Second},
	} {
		got, err := config.Config{Servers: c.servers}.WithDefaults()
		require.NoError(t, err)
		require.Equal(t, c.want, got.DNSMonitoringInterval)
		for _, v := range []time.Duration{config.NoDNSMonitoring, time.Millisecond, 24 * time.Hour} {
			got, err = config.Config{Servers: c.servers, DNSMonitoringInterval: v}.WithDefaults()
			require.NoError(t, err)
			require.Equal(t, v, got.DNSMonitoringInterval)
		}
		for _, v := range []time.Duration{-2, 1, time.Millisecond - 1, 24*time.Hour + 1, math.MaxInt64} {
			_, err = config.Config{Servers: c.servers, DNSMonitoringInterval: v}.WithDefaults()
			requireFault(t, err, "DNSMonitoringInterval")
		}
	}
}

func TestReplicasCanBeDemandedOfEveryTopologyThatHasThem(t *testing.T) {
	for _, servers := range []config.Servers{
		config.Cluster(local), config.Sentinel("m", local), config.MasterSlave(local), config.Replicated(local),
	} {
		_, err := config.Config{Servers: servers, CheckLockSyncedSlaves: config.SyncedSlavesAtLeast(1)}.WithDefaults()
		require.NoError(t, err)
	}
}

func TestPlainAndShardedNeedsShardedMessages(t *testing.T) {
	for mode, good := range map[config.ShardedSubscriptionMode]bool{
		config.ShardedSubscriptionAuto: true, config.ShardedSubscriptionOn: true, config.ShardedSubscriptionOff: false,
	} {
		got, err := config.Config{Servers: config.Cluster(local), PlainAndSharded: true, ShardedSubscriptionMode: mode}.WithDefaults()
		if good {
			require.NoError(t, err)
			require.True(t, got.PlainAndSharded)
			continue
		}
		requireFault(t, err, "PlainAndSharded")
	}
}

func TestSettingsWithoutARangeStayAsGiven(t *testing.T) {
	given := config.Config{Servers: config.Cluster(local), SkipKindCheck: true, NATMapper: func(string) string { return "b:1" }}
	got, err := given.WithDefaults()
	require.NoError(t, err)
	require.True(t, got.SkipKindCheck)
	require.Equal(t, "b:1", got.NATMapper("a:1"))
	require.Contains(t, got.String(), "natMapper=true")
	require.Contains(t, got.String(), "skipKindCheck=true")
}
