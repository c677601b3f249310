package config_test

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/config"
)

const single = "singleServerConfig:\n  address: redis://h:1\n"

func read(t *testing.T, text string) (config.Config, []string) {
	cfg, warnings, err := config.ReadRedissonYAML(strings.NewReader(text))
	require.NoError(t, err, "%s", text)
	return cfg, lines(warnings)
}

// lines are the warnings as text, nil if there are none.
func lines(warnings []config.Warning) []string {
	var texts []string
	for _, w := range warnings {
		texts = append(texts, w.String())
	}
	return texts
}

// refuse reads what must not be accepted and returns the texts of all faults.
func refuse(t *testing.T, text string) []string {
	cfg, _, err := config.ReadRedissonYAML(strings.NewReader(text))
	require.Error(t, err, "%s", text)
	require.Equal(t, config.Servers{}, cfg.Servers, "no half-made Config comes with an error")
	var texts []string
	for _, fault := range faults(t, err) {
		texts = append(texts, fault.Error())
	}
	return texts
}

func load(t *testing.T, name string) (config.Config, []string) {
	cfg, warnings, err := config.LoadRedissonYAML("testdata/" + name)
	require.NoError(t, err)
	return cfg, lines(warnings)
}

func TestAFileOfRedisson316(t *testing.T) {
	cfg, warnings := load(t, "single-3.16.yaml")
	require.Equal(t, "single rediss://redis.internal:6380", cfg.Servers.String())
	require.NotNil(t, cfg.TLS)
	require.True(t, cfg.TLS.InsecureSkipVerify)
	require.NotNil(t, cfg.TLS.VerifyConnection, "with a trust store, Redisson's NONE still looks at who signed")
	cfg.TLS = nil
	require.Equal(t, config.Config{
		Servers: cfg.Servers, Username: "orders", Password: "correct horse: #1", Database: 2, ClientName: "order-service",
		DNSMonitoringInterval: 5 * time.Second,
		LockWatchdogTimeout:   20 * time.Second, Timeout: 2 * time.Second, ConnectTimeout: 5 * time.Second,
		RetryAttempts: 3, RetryDelay: config.Delay{Min: 1500 * time.Millisecond, Max: 1500 * time.Millisecond},
	}, cfg)
	require.Equal(t, []string{
		"line 22: singleServerConfig.sslTruststore: is a Java key store: load its certificates as PEM into Config.TLS.RootCAs",
	}, warnings)
}

func TestAFileOfRedisson47(t *testing.T) {
	cfg, warnings := load(t, "single-4.7.yaml")
	require.Equal(t, config.Config{
		Servers: cfg.Servers, Username: "app", Password: "s3cret-billing", ClientName: "billing",
		LockWatchdogTimeout: 45 * time.Second, LockWatchdogBatchSize: 250, FairLockWaitTimeout: 2 * time.Minute,
		CheckLockSyncedSlaves: config.SyncedSlavesOff, SlavesSyncTimeout: 500 * time.Millisecond,
		RetryAttempts: 5, RetryDelay: config.Delay{Min: 500 * time.Millisecond, Max: 4 * time.Second},
	}, cfg)
	require.Equal(t, "single valkey://10.0.0.5:6379", cfg.Servers.String())
	require.Equal(t, []string{
		"line 15: nameMapper: the Java class com.acme.redis.PrefixMapper cannot be used from Go: set Config.NameMapper to a function " +
			"that gives the same names, or Go and Java do not see each other's locks",
	}, warnings)
	_, err := cfg.WithDefaults()
	require.NoError(t, err)
}

func TestAClustersFileWithVariables(t *testing.T) {
	t.Setenv("REDIS_NODES", `["redis://10.1.0.1:6379", "redis://10.1.0.2:6379"]`)
	t.Setenv("REDIS_PASSWORD", "hunter2")
	cfg, warnings := load(t, "cluster-kubernetes.yaml")
	require.Empty(t, warnings)
	require.Equal(t, "cluster redis://10.1.0.1:6379 redis://10.1.0.2:6379", cfg.Servers.String())
	require.Equal(t, "hunter2", cfg.Password)
	require.Equal(t, 2*time.Second, cfg.ScanInterval)
	require.Equal(t, config.ShardedSubscriptionOff, cfg.ShardedSubscriptionMode)
	require.Equal(t, "redis.example.com:30002", cfg.NATMapper("10.1.0.2:6379"))
	require.Equal(t, "10.1.0.3:6379", cfg.NATMapper("10.1.0.3:6379"))
}

func TestASentinelsFile(t *testing.T) {
	cfg, warnings := load(t, "sentinel.yaml")
	require.Equal(t, []string{"line 1: x-defaults: is unknown and passed over"}, warnings)
	require.Equal(t, `sentinel "mymaster" redis://sentinel-0:26379 redis://sentinel-1:26379 redis://sentinel-2:26379`, cfg.Servers.String())
	require.Equal(t, config.Config{
		Servers: cfg.Servers, Password: "s3cret-data", SentinelUsername: "watcher", SentinelPassword: "s3cret-watch", Database: 7,
		ScanInterval: 500 * time.Millisecond, SlavesSyncTimeout: 2 * time.Second,
		Timeout: 2500 * time.Millisecond, ConnectTimeout: 3 * time.Second, RetryAttempts: config.NoRetry,
	}, cfg)
}

func TestAMasterSlaveFile(t *testing.T) {
	cfg, _ := read(t, "masterSlaveServersConfig:\n  slaveAddresses: !!set {'redis://b:1', 'redis://c:1'}\n  masterAddress: redis://z:1\n")
	require.Equal(t, "master-slave redis://z:1 redis://b:1 redis://c:1", cfg.Servers.String(), "the master is first, wherever it stands")

	cfg, warnings := load(t, "master-slave.yaml")
	require.Empty(t, warnings)
	require.Equal(t, "master-slave redis://10.0.0.1:6379 redis://10.0.0.2:6379 redis://10.0.0.3:6379", cfg.Servers.String())
	require.Equal(t, config.Delay{Min: 250 * time.Millisecond, Max: 250 * time.Millisecond}, cfg.RetryDelay)
	cfg, err := cfg.WithDefaults()
	require.NoError(t, err)
	require.Equal(t, "s3cret", cfg.Password)
	require.Equal(t, 1, cfg.Database)
}

func TestAReplicatedFile(t *testing.T) {
	cfg, warnings := load(t, "replicated.yaml")
	require.Empty(t, warnings)
	require.Equal(t, config.ModeReplicated, cfg.Servers.Mode())
	require.Len(t, cfg.Servers.Addresses(), 2)
	require.Equal(t, 2*time.Second, cfg.ScanInterval)
	require.Equal(t, 10*time.Second, cfg.LockWatchdogTimeout)
	require.Equal(t, uint16(tls.VersionTLS12), cfg.TLS.MinVersion)
	require.Equal(t, uint16(tls.VersionTLS13), cfg.TLS.MaxVersion)
	require.True(t, cfg.TLS.InsecureSkipVerify)
	require.NotNil(t, cfg.TLS.VerifyConnection)
}

// Each key that has an effect, with a value other than the default.
func TestEachKeyReachesItsField(t *testing.T) {
	cluster := "clusterServersConfig:\n  nodeAddresses: ['redis://h:1']\n"
	sentinel := "sentinelServersConfig:\n  masterName: m\n  sentinelAddresses: ['redis://h:1']\n"
	for text, want := range map[string]config.Config{
		single + "  username: u\n  password: w\n":                   {Username: "u", Password: "w"},
		single + "username: u\npassword: w\n":                       {Username: "u", Password: "w"},
		single + "  password: 0123\n":                               {Password: "0123"},
		single + "  password: yes\n":                                {Password: "yes"},
		single + "  password: 1.50\n":                               {Password: "1.50"},
		single + "  password: ~\n":                                  {},
		single + "  password: ''\n":                                 {},
		single + "  password: |-\n    a: b\n":                       {Password: "a: b"},
		single + "  clientName: c\n":                                {ClientName: "c"},
		single + "  database: 3\n":                                  {Database: 3},
		single + "  timeout: 1\n":                                   {Timeout: time.Millisecond},
		single + "  timeout: '1'\n":                                 {Timeout: time.Millisecond},
		single + "  timeout: 0x10\n":                                {Timeout: 16 * time.Millisecond},
		single + "  connectTimeout: 2\n":                            {ConnectTimeout: 2 * time.Millisecond},
		single + "  retryAttempts: 9\n":                             {RetryAttempts: 9},
		single + "  retryInterval: 0\n":                             {RetryDelay: config.Delay{Min: time.Millisecond, Max: time.Millisecond}},
		single + "lockWatchdogTimeout: 2000\n":                      {LockWatchdogTimeout: 2 * time.Second},
		single + "lockWatchdogBatchSize: 7\n":                       {LockWatchdogBatchSize: 7},
		single + "fairLockWaitTimeout: 2000\n":                      {FairLockWaitTimeout: 2 * time.Second},
		single + "slavesSyncTimeout: 2000\n":                        {SlavesSyncTimeout: 2 * time.Second},
		single + "checkLockSyncedSlaves: no\n":                      {CheckLockSyncedSlaves: config.SyncedSlavesOff},
		single + "checkLockSyncedSlaves: TRUE\n":                    {},
		cluster + "  shardedSubscriptionMode: ON\n":                 {ShardedSubscriptionMode: config.ShardedSubscriptionOn},
		cluster + "  shardedSubscriptionMode: 'off'\n":              {ShardedSubscriptionMode: config.ShardedSubscriptionOff},
		cluster + "  scanInterval: 200\n":                           {ScanInterval: 200 * time.Millisecond},
		sentinel + "  sentinelUsername: s\n  sentinelPassword: w\n": {SentinelUsername: "s", SentinelPassword: "w"},
		single + "  dnsMonitoringInterval: 200\n":                   {DNSMonitoringInterval: 200 * time.Millisecond},
		single + "  dnsMonitoringInterval: -1\n":                    {DNSMonitoringInterval: config.NoDNSMonitoring},
		cluster + "  dnsMonitoringInterval: -1\n":                   {DNSMonitoringInterval: config.NoDNSMonitoring},
		sentinel + "  scanInterval: 200\n":                          {ScanInterval: 200 * time.Millisecond},
		// No TLS without its scheme, whatever else is set.
		single + "sslVerificationMode: NONE\nsslTruststore: file:/t.jks\n": {},
	} {
		got, warnings := read(t, text)
		require.Empty(t, warnings)
		want.Servers = got.Servers
		require.Equal(t, want, got, "%s", text)
	}
}

func TestRetryDelayOfEachClass(t *testing.T) {
	for text, want := range map[string]config.Delay{
		"!<org.redisson.config.EqualJitterDelay> {baseDelay: PT1S, maxDelay: PT1M}":          {Min: time.Second, Max: time.Minute},
		"!<org.redisson.config.FullJitterDelay> {baseDelay: PT0.25S, maxDelay: PT1S}":        {Min: 250 * time.Millisecond, Max: time.Second},
		"!<org.redisson.config.DecorrelatedJitterDelay> {minDelay: PT1S, maxDelay: PT1M30S}": {Min: time.Second, Max: 90 * time.Second},
		"!<org.redisson.config.ConstantDelay> {delay: PT1.5S}":                               {Min: 1500 * time.Millisecond, Max: 1500 * time.Millisecond},
		"!org.redisson.config.ConstantDelay {delay: pt1s}":                                   {Min: time.Second, Max: time.Second},
		"!!org.redisson.config.ConstantDelay {delay: PT1S}":                                  {Min: time.Second, Max: time.Second},
		"!<org.redisson.config.EqualJitterDelay> {}":                                         {},
		"null": {},
	} {
		got, warnings := read(t, single+"  retryDelay: "+text+"\n")
		require.Empty(t, warnings)
		require.Equal(t, want, got.RetryDelay, text)
	}
	got, _ := read(t, single+"  retryInterval: 7\n  retryDelay: !<a.ConstantDelay> {delay: PT1S}\n")
	require.Equal(t, time.Second, got.RetryDelay.Min, "the newer key wins")

	for _, text := range []string{
		"!<a.ConstantDelay> {delay: 1500}", "!<a.ConstantDelay> {delay: PT}", "!<a.ConstantDelay> {delay: P}", "!<a.ConstantDelay> {delay: -PT1S}",
		"!<a.ConstantDelay> {delay: P1DT}", "!<a.ConstantDelay> {delay: P99999D}", "!<a.EqualJitterDelay> {baseDelay: PT1S}",
		"!<a.ConstantDelay> {delay: PT0S}", "!<a.EqualJitterDelay> {baseDelay: PT2S, maxDelay: PT1S}", "!<a.ConstantDelay> {delay: PT2H}",
	} {
		require.Len(t, refuse(t, single+"  retryDelay: "+text+"\n"), 1, text)
	}
}

func TestTheTopLevelWinsOverTheSection(t *testing.T) {
	cfg, warnings := read(t, "password: outer2\n"+single+"  password: inner2\n  username: u\n")
	require.Equal(t, "outer2", cfg.Password)
	require.Equal(t, "u", cfg.Username)
	require.Equal(t, []string{"line 1: password: counts, and not singleServerConfig.password (line 4), as in Redisson 4"}, warnings)
}

func TestAnAddressIsReadAsRedissonReadsIt(t *testing.T) {
	at := func(address string) string { return "singleServerConfig:\n  address: " + address + "\n" }
	cfg, warnings := read(t, at("redis://h:1/3")+"  database: 2\n")
	require.Equal(t, 2, cfg.Database)
	require.Equal(t, []string{
		"line 2: singleServerConfig.address: the /3 after the address has no effect, as in Redisson; the key database says which database it is",
	}, warnings)
	cfg, err := cfg.WithDefaults()
	require.NoError(t, err)
	require.Equal(t, 2, cfg.Database)

	cfg, warnings = read(t, at("redis://hunter2@h:1"))
	require.Empty(t, warnings)
	cfg, err = cfg.WithDefaults()
	require.NoError(t, err)
	require.Equal(t, "hunter2", cfg.Password)
	require.Empty(t, cfg.Username)

	cfg, warnings = read(t, at("redis://u:hunter2@h:1")+"  password: hunter3\n  username: v\n")
	require.Len(t, warnings, 2)
	require.NotContains(t, strings.Join(warnings, ""), "hunter")
	cfg, err = cfg.WithDefaults()
	require.NoError(t, err)
	require.Equal(t, "u hunter2", cfg.Username+" "+cfg.Password)

	for address, want := range map[string]string{
		"redis://h:1": "redis://h:1", "rediss://h:1": "rediss://h:1", "valkey://h:1": "valkey://h:1", "valkeys://h:1": "valkeys://h:1",
		"redis+uds:///run/s": "redis+uds:///run/s", "'redis://[::1]:7'": "redis://[::1]:7",
	} {
		cfg, _ = read(t, at(address))
		require.Equal(t, "single "+want, cfg.Servers.String())
		require.Equal(t, strings.HasPrefix(want, "rediss") || strings.HasPrefix(want, "valkeys"), cfg.TLS != nil)
	}
}

func TestASentinelsAddressInAFileCarriesTheSentinelsLogIn(t *testing.T) {
	cfg, warnings := read(t, "sentinelServersConfig:\n  masterName: m\n  sentinelAddresses: ['redis://:watch@h:1']\n  password: data\n")
	require.Empty(t, warnings)
	cfg, err := cfg.WithDefaults()
	require.NoError(t, err)
	require.Equal(t, "watch data", cfg.SentinelPassword+" "+cfg.Password)
}

func TestTablesOfAddressesAreFollowed(t *testing.T) {
	cluster := "clusterServersConfig:\n  nodeAddresses: ['redis://h:1']\n"
	for text, want := range map[string][2]string{
		"natMap: {'a:1': 'b:2'}": {"a:1", "b:2"},
		"natMapper: !<org.redisson.api.HostPortNatMapper> {hostsPortMap: {'a:1': 'b:2'}}": {"a:1", "b:2"},
		"natMapper: !<x.HostPortNatMapper> {hostsPortMap: {'[::1]:1': 'b:2'}}":            {"[::1]:1", "b:2"},
		"natMapper: !<x.HostNatMapper> {hostsMap: {a: b}}":                                {"a:9", "b:9"},
		"natMapper: !<x.HostNatMapper> {hostsMap: {c: b}}":                                {"a:9", "a:9"},
	} {
		cfg, warnings := read(t, cluster+"  "+text+"\n")
		require.Empty(t, warnings)
		require.Equal(t, want[1], cfg.NATMapper(want[0]), text)
	}
	cfg, _ := read(t, cluster+"  natMapper: !<x.HostNatMapper> {}\n")
	require.Nil(t, cfg.NATMapper)
}

func TestVerificationOfTLS(t *testing.T) {
	const encrypted = "singleServerConfig:\n  address: rediss://h:1\n"
	for text, want := range map[string][2]bool{ // InsecureSkipVerify, VerifyConnection
		"":                               {false, false},
		"sslVerificationMode: STRICT\n":  {false, false},
		"sslVerificationMode: CA_ONLY\n": {true, true},
		"sslVerificationMode: none\n":    {true, false},
		"sslVerificationMode: NONE\nsslTruststore: file:/t.jks\n":    {true, true},
		"  sslEnableEndpointIdentification: false\n":                 {true, false},
		"  sslEnableEndpointIdentification: true\n":                  {false, false},
		"  sslVerificationMode: NONE\nsslVerificationMode: STRICT\n": {false, false},
	} {
		cfg, _ := read(t, encrypted+text)
		require.Equal(t, want, [2]bool{cfg.TLS.InsecureSkipVerify, cfg.TLS.VerifyConnection != nil}, text)
		require.Equal(t, uint16(tls.VersionTLS12), cfg.TLS.MinVersion)
	}
	cfg, _ := read(t, encrypted+"  sslProtocols: [TLSv1.2]\nsslProtocols: [TLSv1.3]\n")
	require.Equal(t, []uint16{tls.VersionTLS13, tls.VersionTLS13}, []uint16{cfg.TLS.MinVersion, cfg.TLS.MaxVersion})
}

func TestVariablesAreReplacedAsInRedisson(t *testing.T) {
	t.Setenv("REDLATCH_A", "aval")
	t.Setenv("REDLATCH_NONE", "")
	t.Setenv("REDLATCH_SELF", "x${REDLATCH_A}")
	t.Setenv("REDLATCH_KEY", "clientName")
	for text, want := range map[string]string{
		"${REDLATCH_A}":                     "aval",
		"${REDLATCH_A:-other}":              "aval",
		"${REDLATCH_UNSET:-other}":          "other",
		"${REDLATCH_UNSET:-a:-b}":           "a:-b",
		"x-${REDLATCH_A}-${REDLATCH_NO:-y}": "x-aval-y",
		"${REDLATCH_UNSET:-}":               "",
		"'${REDLATCH_NONE:-other}'":         "",
		"'${REDLATCH_SELF}'":                "x${REDLATCH_A}",
		"'${not a name}'":                   "${not a name}",
	} {
		if strings.Contains(want, " ") {
			text, want = strings.ReplaceAll(text, " ", "-"), strings.ReplaceAll(want, " ", "-")
		}
		cfg, warnings := read(t, single+"  clientName: "+text+"\n# ${REDLATCH_UNSET}\n  codec: ${REDLATCH_UNSET}\n")
		require.Equal(t, want, cfg.ClientName, text)
		require.Len(t, warnings, 1)
	}
	cfg, _ := read(t, single+"  ${REDLATCH_KEY}: b\n")
	require.Equal(t, "b", cfg.ClientName)
}

func TestATagWithoutAValueTakesNothingElseIn(t *testing.T) {
	cfg, warnings := read(t, "codec: !<a.B>\n"+single+"  reconnectionDelay: !<a.B>\n  timeout: 7\n  keepAlive: true\nnettyHook: !<a.B>\nlockWatchdogTimeout: 1000\n")
	require.Empty(t, warnings)
	require.Equal(t, 7*time.Millisecond, cfg.Timeout)
	require.Equal(t, time.Second, cfg.LockWatchdogTimeout)
}

func TestAnchorsThatContainThemselvesEnd(t *testing.T) {
	for _, text := range []string{
		"a: &x\n  <<: *x\nsingleServerConfig: *x\n", "a: &x *x\nsingleServerConfig: *x\n", "singleServerConfig: *none\n",
		"a: &x [*x]\nsingleServerConfig: {address: *x}\n",
	} {
		_, _, err := config.ReadRedissonYAML(strings.NewReader(text))
		require.Error(t, err, "%s", text)
	}
}

func TestByteOrderMarkAndWindowsLineEndsAreNoMatter(t *testing.T) {
	cfg, warnings := read(t, "\ufeffsingleServerConfig:\r\n  address: redis://h:1\r\n  timeout: 7\r\nlockWatchdogTimeout: 1000\r\n")
	require.Empty(t, warnings)
	require.Equal(t, 7*time.Millisecond, cfg.Timeout)
	require.Equal(t, time.Second, cfg.LockWatchdogTimeout)
}
