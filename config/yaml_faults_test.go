package config_test

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/config"
)

func TestAWrongValueIsAnErrorWithKeyLineValueAndWhatIsAllowed(t *testing.T) {
	cluster := "clusterServersConfig:\n  nodeAddresses: ['redis://h:1']\n"
	for text, want := range map[string]string{
		single + "  timeout: 5.5\n":                                                        `config: singleServerConfig.timeout (line 3) is "5.5"; allowed is a whole number of milliseconds from 1 to 9223372036854`,
		single + "  timeout: soon\n":                                                       `singleServerConfig.timeout (line 3) is "soon"`,
		single + "  timeout: 0\n":                                                          `singleServerConfig.timeout (line 3) is "0"`,
		single + "  timeout: -1\n":                                                         `singleServerConfig.timeout (line 3) is "-1"`,
		single + "  timeout:\n":                                                            `singleServerConfig.timeout (line 3) is empty`,
		single + "  timeout: [1]\n":                                                        `singleServerConfig.timeout (line 3) is a mapping or a list; allowed is one value`,
		single + "  timeout: 90000000\n":                                                   "singleServerConfig.timeout (line 3) is 25h0m0s; allowed is 1ms to 24h0m0s",
		single + "lockWatchdogTimeout: 99999999999999999999\n":                             `lockWatchdogTimeout (line 3) is "99999999999999999999"`,
		single + "lockWatchdogTimeout: 50\n":                                               "config: lockWatchdogTimeout (line 3) is 50ms; allowed is 100ms to 876000h0m0s",
		single + "lockWatchdogBatchSize: 20000\n":                                          "config: lockWatchdogBatchSize (line 3) is 20000; allowed is 1 to 10000",
		single + "  dnsMonitoringInterval: -2\n":                                           `dnsMonitoringInterval (line 3) is "-2"; allowed is a whole number of milliseconds from -1`,
		single + "  retryAttempts: -1\n":                                                   `retryAttempts (line 3) is "-1"; allowed is a whole number from 0 to 2147483647`,
		single + "  retryInterval: 7200000\n":                                              "singleServerConfig.retryInterval (line 3) is 2h0m0s..2h0m0s; allowed is 1ms <= Min <= Max <= 1h0m0s",
		single + "  database: -1\n":                                                        `database (line 3) is "-1"; allowed is a whole number from 0 to 2147483647`,
		single + "  clientName: a b\n":                                                     `singleServerConfig.clientName (line 3) is "a b"; allowed is printable ASCII`,
		single + "checkLockSyncedSlaves: 1\n":                                              `checkLockSyncedSlaves (line 3) is "1"; allowed is true or false`,
		single + "checkLockSyncedSlaves:\n":                                                `checkLockSyncedSlaves (line 3) is ""; allowed is true or false`,
		single + "sslVerificationMode: SOME\n":                                             `sslVerificationMode (line 3) is "SOME"; allowed is STRICT, CA_ONLY or NONE`,
		single + "sslProtocols: [SSLv3]\n":                                                 `sslProtocols (line 3) is "SSLv3"; allowed is TLSv1, TLSv1.1, TLSv1.2 or TLSv1.3`,
		single + "sslProtocols: TLSv1.2\n":                                                 "sslProtocols (line 3) is no list",
		cluster + "  shardedSubscriptionMode: yes\n":                                       `shardedSubscriptionMode (line 3) is "yes"; allowed is AUTO, ON or OFF`,
		cluster + "  scanInterval: 5\n":                                                    "clusterServersConfig.scanInterval (line 3) is 5ms; allowed is 100ms to 1h0m0s",
		cluster + "  database: 2\n":                                                        "clusterServersConfig.database (line 3) is 2; allowed is 0, for a cluster has only database 0",
		"clusterServersConfig:\n  nodeAddresses: redis://h:1\n":                            "clusterServersConfig.nodeAddresses (line 2) is no list",
		"clusterServersConfig:\n  nodeAddresses: []\n":                                     "clusterServersConfig (line 1) is without nodeAddresses",
		"clusterServersConfig:\n  nodeAddresses: [{a: b}]\n":                               "nodeAddresses (line 2) is a mapping or a list",
		"clusterServersConfig:\n  nodeAddresses:\n  - a:1\n  - b:x\n":                      `nodeAddresses (line 4) is an address with the port "x"`,
		"clusterServersConfig:\n  nodeAddresses:\n  - a:1\n  - a:1\n":                      `nodeAddresses (line 4) is "a:1", which stands there twice`,
		"singleServerConfig: {timeout: 1}\n":                                               "singleServerConfig (line 1) is without address",
		"singleServerConfig: text\n":                                                       "singleServerConfig (line 1) is without address",
		"sentinelServersConfig: {sentinelAddresses: ['a:1']}\n":                            "sentinelServersConfig (line 1) is without masterName",
		"sentinelServersConfig: {masterName: m}\n":                                         "sentinelServersConfig (line 1) is without sentinelAddresses",
		"masterSlaveServersConfig: {slaveAddresses: []}\n":                                 "masterSlaveServersConfig (line 1) is without masterAddress",
		"masterSlaveServersConfig: {slaveAddresses: ['redis://b:1']}\n":                    "masterSlaveServersConfig (line 1) is without masterAddress",
		"masterSlaveServersConfig:\n  masterAddress:\n  slaveAddresses: ['redis://b:1']\n": "masterSlaveServersConfig (line 1) is without masterAddress",
		cluster + "  natMap: {'a:1': b}\n":                                                 "natMap (line 3) is a table with something else on line 3; allowed is host:port",
		cluster + "  natMapper: !<a.HostNatMapper> {hostsMap: {a: b/c}}\n":                 "natMapper.hostsMap (line 3) is a table with something else",
	} {
		got := refuse(t, text)
		require.Len(t, got, 1, "%s", text)
		require.Contains(t, got[0], want, "%s", text)
		require.NotContains(t, got[0], "means the default", "in a file, a zero does not")
	}
}

func TestAllFaultsOfAFileAreReportedAtOnce(t *testing.T) {
	require.Len(t, refuse(t, "singleServerConfig:\n  address: h\n  timeout: x\n  scanInterval: y\nlockWatchdogTimeout: 5\nfairLockWaitTimeout: z\n"), 4)
}

func TestExactlyOneSectionIsNeeded(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "config: the YAML is without a section that says where the servers are; allowed is exactly one of singleServerConfig",
		"# nothing":                       "without a section",
		"threads: 1":                      "without a section",
		"singleServerConfig:\nthreads: 1": "without a section",
		"redisson:\n  " + single:          "without a section",
		single + "clusterServersConfig: {nodeAddresses: ['redis://h:1']}": "one with singleServerConfig (line 1) and clusterServersConfig (line 3)",
		"- a":                        "no mapping of keys to values",
		"abc":                        "no mapping of keys to values",
		single + "---\nthreads: 1\n": "with more than one document",
	} {
		require.Contains(t, refuse(t, text)[0], want, "%s", text)
	}
	_, warnings := read(t, single+"clusterServersConfig: null\n")
	require.Empty(t, warnings, "a section without anything in it is none")
}

// All keys that Redisson's setters had in 3.16.8 and have in 4.7.0, read off the classes; releases between the two have no others.
func TestEveryKeyOfRedissonIsKnown(t *testing.T) {
	top := "addressResolverGroupFactory checkLockSyncedSlaves cleanUpKeysAmount codec commandMapper connectionListener credentialsResolver " +
		"eventLoopGroup executor fairLockWaitTimeout keepPubSubOrder lazyInitialization lockWatchdogBatchSize lockWatchdogTimeout " +
		"maxCleanUpDelay minCleanUpDelay nameMapper nettyExecutor nettyHook nettyThreads password protocol referenceEnabled " +
		"reliableTopicWatchdogTimeout slavesSyncTimeout sslCiphers sslKeyManagerFactory sslKeystore sslKeystorePassword sslKeystoreType " +
		"sslProtocols sslProvider sslTrustManagerFactory sslTruststore sslTruststorePassword sslVerificationMode tcpKeepAlive " +
		"tcpKeepAliveCount tcpKeepAliveIdle tcpKeepAliveInterval tcpNoDelay tcpUserTimeout threads transportMode useScriptCache " +
		"useThreadClassLoader username valkeyCapabilities"
	base := "clientName commandMapper connectTimeout credentialsResolver idleConnectionTimeout keepAlive nameMapper password " +
		"pingConnectionInterval reconnectionDelay retryAttempts retryDelay retryInterval sslCiphers sslEnableEndpointIdentification " +
		"sslKeyManagerFactory sslKeystore sslKeystorePassword sslKeystoreType sslProtocols sslProvider sslTrustManagerFactory " +
		"sslTruststore sslTruststorePassword sslVerificationMode subscriptionTimeout subscriptionsPerConnection tcpKeepAliveCount " +
		"tcpKeepAliveIdle tcpKeepAliveInterval tcpNoDelay tcpUserTimeout timeout username database dnsMonitoringInterval " +
		"dnsMonitoringTimes subscriptionConnectionMinimumIdleSize subscriptionConnectionPoolSize "
	replicas := base + "failedSlaveCheckInterval failedSlaveNodeDetector failedSlaveReconnectionInterval fallbackLoadingToMaster loadBalancer " +
		"masterConnectionMinimumIdleSize masterConnectionPoolSize readMode slaveConnectionMinimumIdleSize slaveConnectionPoolSize " +
		"subscriptionMode "
	for section, names := range map[string]string{
		"":                          top,
		"singleServerConfig:":       base + "address connectionMinimumIdleSize connectionPoolSize",
		"clusterServersConfig:":     replicas + "checkMasterLinkStatus checkSlotsCoverage natMap natMapper nodeAddresses scanInterval shardedSubscriptionMode",
		"sentinelServersConfig:":    replicas + "checkSentinelsList checkSlaveStatusWithSyncing masterName natMap natMapper scanInterval sentinelAddresses sentinelPassword sentinelUsername sentinelsDiscovery",
		"masterSlaveServersConfig:": replicas + "masterAddress slaveAddresses",
		"replicatedServersConfig:":  replicas + "monitorIPChanges natMapper nodeAddresses scanInterval",
	} {
		for name := range strings.FieldsSeq(names) {
			text := section + "\n  " + name + ": null\n"
			if section == "" {
				text = single + name + ": null\n"
			}
			_, warnings, _ := config.ReadRedissonYAML(strings.NewReader(text))
			for _, w := range warnings {
				require.NotContains(t, w.Key, name, "%s in %s", w, section)
			}
		}
	}
}

func TestAnUnknownKeyIsPassedOverWithTheNameThatWasMeant(t *testing.T) {
	for text, want := range map[string]string{
		single + "lockWatchDogTimeout: 5\n":     "line 3: lockWatchDogTimeout: is unknown and passed over; did you mean lockWatchdogTimeout?",
		single + "lock-watchdog-timeout: 5\n":   "line 3: lock-watchdog-timeout: is unknown and passed over; did you mean lockWatchdogTimeout?",
		single + "watchdogTimeout: 5\n":         "did you mean lockWatchdogTimeout?",
		single + "  pasword: hunter2\n":         "line 3: singleServerConfig.pasword: is unknown and passed over; did you mean password?",
		single + "  conectTimeout: 1\n":         "did you mean connectTimeout?",
		single + "  lockWatchdogTimeout: 1\n":   "line 3: singleServerConfig.lockWatchdogTimeout: has no meaning here and is passed over; its place is the top level",
		single + "timeout: 1\n":                 "its place is clusterServersConfig, masterSlaveServersConfig, replicatedServersConfig, sentinelServersConfig, singleServerConfig",
		single + "  singleServerConfig: 1\n":    "its place is the top level",
		single + "zzz: 1\n":                     "line 3: zzz: is unknown and passed over",
		single + "  timeout: 1\n  timeout: 2\n": "line 4: singleServerConfig.timeout: stands there twice; this one counts, not that of line 3",
	} {
		_, warnings := read(t, text)
		require.Len(t, warnings, 1, "%s", text)
		require.True(t, strings.HasSuffix(warnings[0], want), "%s\n%s", warnings[0], want)
	}
}

func TestWhatGoCannotFollowIsSaid(t *testing.T) {
	cluster := "clusterServersConfig:\n  nodeAddresses: ['rediss://h:1']\n"
	for text, want := range map[string]string{
		cluster + "  nameMapper: !<a.B> {}\n":            "set Config.NameMapper",
		cluster + "nameMapper: a.B\n":                    "nameMapper: a Java class cannot be used from Go",
		cluster + "nameMapper: !<a.B>\n":                 "the Java class a.B cannot be used",
		cluster + "commandMapper: !<a.B> {}\n":           "commands that are renamed",
		cluster + "credentialsResolver: !<a.B> {}\n":     "set Config.Username and Config.Password",
		cluster + "  natMapper: !<a.B> {}\n":             "set Config.NATMapper",
		cluster + "  retryDelay: !<a.B> {}\n":            "set Config.RetryDelay",
		cluster + "  sslTruststore: file:/t.jks\n":       "load its certificates as PEM into Config.TLS.RootCAs",
		cluster + "sslKeystore: file:/t.jks\n":           "set Config.TLS.Certificates",
		cluster + "sslTrustManagerFactory: !<a.B> {}\n":  "set Config.TLS.RootCAs",
		cluster + "sslKeyManagerFactory: !<a.B> {}\n":    "set Config.TLS.Certificates",
		cluster + "sslCiphers: [TLS_AES_128_GCM_SHA256]": "set Config.TLS.CipherSuites",
		single + "  dnsMonitoringInterval: 0\n":          "0 is not taken over, and the default stands; set -1",
	} {
		_, warnings := read(t, text)
		require.Len(t, warnings, 1, "%s", text)
		require.Contains(t, warnings[0], "line 3: ")
		require.Contains(t, warnings[0], want)
	}
	_, warnings := read(t, cluster+"  natMapper: !<org.redisson.api.DefaultNatMapper> {}\nnameMapper: !<org.redisson.config.DefaultNameMapper> {}\n"+
		"commandMapper: !<org.redisson.config.DefaultCommandMapper> {}\ncredentialsResolver: !<org.redisson.client.DefaultCredentialsResolver> {}\n")
	require.Empty(t, warnings, "what does nothing in Java needs nothing in Go")
}

func TestAVariableThatIsNotSetIsAnErrorWhereItIsUsed(t *testing.T) {
	require.Equal(t, []string{
		"config: singleServerConfig.password (line 3) is ${REDLATCH_UNSET}, which is not set; allowed is a variable of the environment that " +
			"is set, or ${REDLATCH_UNSET:-default}",
		"config: lockWatchdogTimeout (line 4) is ${REDLATCH_UNSET}, which is not set; allowed is a variable of the environment that " +
			"is set, or ${REDLATCH_UNSET:-default}",
	}, refuse(t, single+"  password: x${REDLATCH_UNSET}\nlockWatchdogTimeout: ${REDLATCH_UNSET}\n"))
	require.Contains(t, refuse(t, "singleServerConfig: {address: ${REDLATCH_UNSET}}\n")[0], "not set are REDLATCH_UNSET")
}

// A variable whose value breaks the YAML must not be shown with the place where it breaks.
func TestAPasswordThatBreaksTheYAMLIsNotShown(t *testing.T) {
	for _, secret := range []string{"hunter2: x", "hunter2\"", "hunter2\n\t- 'hunter2", "{hunter2", "'hunter2", "*hunter2: [", "&hunter2 hunter2: |x", "!hunter2 %", "%hunter2", "@hunter2"} {
		t.Setenv("REDLATCH_SECRET", secret)
		for _, text := range []string{
			single + "  password: ${REDLATCH_SECRET}\n  timeout: 1\n",
			single + "  password: \"${REDLATCH_SECRET}\"\n  timeout: 1\n",
			"singleServerConfig: {address: 'redis://h:1', password: ${REDLATCH_SECRET}, timeout: x}\n",
			"singleServerConfig: {address: 'redis://h:1', password: a,${REDLATCH_SECRET}, timeout: x}\n",
			"singleServerConfig:\n  address: redis://u:${REDLATCH_SECRET}@h:1\n  timeout: x\n",
			"%YAML ${REDLATCH_SECRET}\n---\n" + single,
		} {
			_, warnings, err := config.ReadRedissonYAML(strings.NewReader(text))
			require.NotContains(t, strings.Join(lines(warnings), "\n"), "hunter2", "%s", text)
			if err != nil {
				require.NotContains(t, err.Error(), "hunter2", "%s", text)
			}
		}
	}
}

func TestSyntaxFaultNamesThePlace(t *testing.T) {
	require.Equal(t, []string{
		"config: the YAML is not readable at line 3, column 12 (mapping value is not allowed in this context); allowed is YAML, with quotes around " +
			"a variable whose value has special characters",
	}, refuse(t, single+"  timeout: 1: 2\n"))
}

func TestAFileThatCannotBeReadIsAnError(t *testing.T) {
	_, _, err := config.LoadRedissonYAML("testdata/none.yaml")
	require.ErrorIs(t, err, os.ErrNotExist)

	_, _, err = config.ReadRedissonYAML(iotest.ErrReader(io.ErrClosedPipe))
	require.ErrorIs(t, err, io.ErrClosedPipe)

	require.Equal(t, []string{"config: the YAML is too long; allowed is up to 65536 bytes"}, refuse(t, single+strings.Repeat("#", 1<<16)))
	_, warnings := read(t, single+strings.Repeat("#", 1<<16-len(single)))
	require.Empty(t, warnings)
	require.Contains(t, refuse(t, strings.Repeat("[", 10_000))[0], "nested too deep")

	path := t.TempDir() + "/redisson.yaml"
	require.NoError(t, os.WriteFile(path, []byte("threads: 1\n"), 0o600))
	_, _, err = config.LoadRedissonYAML(path)
	require.ErrorContains(t, err, "read "+path+": config: the YAML is without a section")
	_, ok := errors.AsType[*config.FieldError](err)
	require.True(t, ok)
}

// Whatever the file is, reading it ends, what is read can be used, and a password is not shown.
func FuzzReadRedissonYAML(f *testing.F) {
	files, err := os.ReadDir("testdata")
	require.NoError(f, err)
	for _, file := range files {
		if !file.IsDir() {
			text, err := os.ReadFile("testdata/" + file.Name())
			require.NoError(f, err)
			f.Add(string(text))
		}
	}
	for _, text := range []string{
		"singleServerConfig: {address: redis://h:1}", "a: &x {<<: *x}\nb: *x", "? a\n: b", "a: !<b>\nc: d", "---\n---\na: 1", "a: |\n x\n", "%YAML 1.1\n---\na: 1",
		"singleServerConfig:\n  address: &a !<b> redis://h:1\n  clientName: *a\n  retryDelay: !<ConstantDelay> {delay: PT1S}\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		cfg, _, err := config.ReadRedissonYAML(strings.NewReader(text))
		if err == nil {
			require.NotEqual(t, config.ModeNone, cfg.Servers.Mode())
			require.NotEmpty(t, cfg.Servers.Addresses())
			require.NotEmpty(t, cfg.String())
		}

		const secret = "hunter2hunter2"
		_, warnings, err := config.ReadRedissonYAML(strings.NewReader(
			"singleServerConfig:\n  address: redis://u:" + secret + "@h:1\n  password: '" + secret + "'\n  sslTruststorePassword: " + secret + "\n" + text))
		require.NotContains(t, strings.Join(lines(warnings), "\n"), secret)
		if err != nil {
			require.NotContains(t, err.Error(), secret)
		}
	})
}
