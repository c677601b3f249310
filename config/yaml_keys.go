package config

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// place is where in a redisson.yaml a key may stand.
type place uint8

const (
	atTop place = 1 << iota
	inSingle
	inCluster
	inSentinel
	inMasterSlave
	inReplicated

	withReplicas = inCluster | inSentinel | inMasterSlave | inReplicated
	inAny        = inSingle | withReplicas
	anywhere     = atTop | inAny // since Redisson 4 at the top, before that in the section, where it still works
)

// String returns the places in words: "the top level, clusterServersConfig".
func (p place) String() string {
	var words []string
	if p&atTop != 0 {
		words = append(words, "the top level")
	}
	for name, section := range yamlSections {
		if p&section.place != 0 {
			words = append(words, name)
		}
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

// yamlKey is a key that some Redisson from 3.16.8 to 4.7.0 knows.
type yamlKey struct {
	where place
	read  func(*yamlReader, yamlValue) // nil: without meaning for a client of locks
}

// yamlKeys are all of them: what has an effect here, and what has none.
var yamlKeys = joinKeys(meaningfulKeys, ignoredKeys)

var meaningfulKeys = map[string]yamlKey{
	"address":           {inSingle, (*yamlReader).readAddress},
	"masterAddress":     {inMasterSlave, (*yamlReader).readMasterAddress},
	"slaveAddresses":    {inMasterSlave, (*yamlReader).readAddresses},
	"nodeAddresses":     {inCluster | inReplicated, (*yamlReader).readAddresses},
	"sentinelAddresses": {inSentinel, (*yamlReader).readAddresses},
	"masterName":        {inSentinel, func(r *yamlReader, v yamlValue) { r.masterName = v }},

	"username":            {anywhere, words("Username", func(c *Config) *string { return &c.Username })},
	"password":            {anywhere, words("Password", func(c *Config) *string { return &c.Password })},
	"sentinelUsername":    {inSentinel, words("SentinelUsername", func(c *Config) *string { return &c.SentinelUsername })},
	"sentinelPassword":    {inSentinel, words("SentinelPassword", func(c *Config) *string { return &c.SentinelPassword })},
	"credentialsResolver": {anywhere, javaOnly("DefaultCredentialsResolver", "set Config.Username and Config.Password to what it resolves to")},
	"clientName":          {inAny, words("ClientName", func(c *Config) *string { return &c.ClientName })},
	"database":            {inAny, numbers("Database", 0, math.MaxInt32, func(c *Config, n int) { c.Database = n })},

	"scanInterval":          {inCluster | inSentinel | inReplicated, times("ScanInterval", func(c *Config) *time.Duration { return &c.ScanInterval })},
	"dnsMonitoringInterval": {inAny, (*yamlReader).readDNSMonitoringInterval},
	"natMapper":             {inCluster | inSentinel | inReplicated, (*yamlReader).readNATMapper},
	"natMap":                {inCluster | inSentinel, (*yamlReader).readNATMap},

	"nameMapper": {anywhere, javaOnly("DefaultNameMapper",
		"set Config.NameMapper to a function that gives the same names, or Go and Java do not see each other's locks")},
	"commandMapper": {anywhere, javaOnly("DefaultCommandMapper",
		"commands that are renamed on the server cannot be used from Go: EVAL, EVALSHA, PUBLISH and the others must be there by their names")},

	"lockWatchdogTimeout":   {atTop, times("LockWatchdogTimeout", func(c *Config) *time.Duration { return &c.LockWatchdogTimeout })},
	"lockWatchdogBatchSize": {atTop, numbers("LockWatchdogBatchSize", 1, math.MaxInt32, func(c *Config, n int) { c.LockWatchdogBatchSize = n })},
	"fairLockWaitTimeout":   {atTop, times("FairLockWaitTimeout", func(c *Config) *time.Duration { return &c.FairLockWaitTimeout })},
	"slavesSyncTimeout":     {atTop, times("SlavesSyncTimeout", func(c *Config) *time.Duration { return &c.SlavesSyncTimeout })},
	"checkLockSyncedSlaves": {atTop, (*yamlReader).readCheckLockSyncedSlaves},

	"shardedSubscriptionMode": {inCluster, (*yamlReader).readShardedSubscriptionMode},

	"timeout":        {inAny, times("Timeout", func(c *Config) *time.Duration { return &c.Timeout })},
	"connectTimeout": {inAny, times("ConnectTimeout", func(c *Config) *time.Duration { return &c.ConnectTimeout })},
	"retryAttempts": {inAny, numbers("RetryAttempts", 0, math.MaxInt32, func(c *Config, n int) {
		if c.RetryAttempts = n; n == 0 {
			c.RetryAttempts = NoRetry
		}
	})},
	"retryDelay":    {inAny, (*yamlReader).readRetryDelay},
	"retryInterval": {inAny, (*yamlReader).readRetryInterval},

	"sslVerificationMode":             {anywhere, (*yamlReader).readVerificationMode},
	"sslEnableEndpointIdentification": {inAny, (*yamlReader).readEndpointIdentification},
	"sslProtocols":                    {anywhere, (*yamlReader).readProtocols},
	"sslTruststore":                   {anywhere, tlsOnly("is a Java key store: load its certificates as PEM into Config.TLS.RootCAs")},
	"sslKeystore":                     {anywhere, tlsOnly("is a Java key store: set Config.TLS.Certificates, for instance by tls.LoadX509KeyPair")},
	"sslTrustManagerFactory":          {anywhere, tlsOnly("is a Java class: set Config.TLS.RootCAs or Config.TLS.VerifyConnection")},
	"sslKeyManagerFactory":            {anywhere, tlsOnly("is a Java class: set Config.TLS.Certificates")},
	"sslCiphers":                      {anywhere, tlsOnly("is not taken over: set Config.TLS.CipherSuites")},
}

// ignoredGroup is keys that have no meaning for a client of locks. Their values are not looked at.
type ignoredGroup struct {
	where place
	names string
}

var ignoredKeys = []ignoredGroup{
	// Threads and event loops of the JVM.
	{
		atTop,
		"threads nettyThreads executor nettyExecutor eventLoopGroup transportMode nettyHook useThreadClassLoader connectionListener",
	},
	// Values and objects other than locks.
	{atTop, "codec referenceEnabled reliableTopicWatchdogTimeout minCleanUpDelay maxCleanUpDelay cleanUpKeysAmount"},
	// How scripts and messages travel, which looks the same to the other side.
	{
		atTop,
		"useScriptCache keepPubSubOrder lazyInitialization protocol valkeyCapabilities",
	},
	// Looking up names of hosts, which the system does here, and believing an answer, which takes two of them here.
	{atTop, "addressResolverGroupFactory"},
	{inAny, "dnsMonitoringTimes"},
	// Options of sockets, where Go has defaults of its own.
	{anywhere, "tcpNoDelay tcpKeepAliveCount tcpKeepAliveIdle tcpKeepAliveInterval tcpUserTimeout"},
	// The same, at the top only.
	{atTop, "tcpKeepAlive"},
	// Details of a key store or of TLS that go with a JVM.
	{anywhere, "sslProvider sslKeystoreType sslKeystorePassword sslTruststorePassword"},
	// Pools of connections; here one connection carries all requests and another all messages.
	{
		inAny,
		"idleConnectionTimeout pingConnectionInterval keepAlive reconnectionDelay subscriptionTimeout subscriptionsPerConnection " +
			"subscriptionConnectionMinimumIdleSize subscriptionConnectionPoolSize",
	},
	// The same, with one server.
	{inSingle, "connectionMinimumIdleSize connectionPoolSize"},
	// Reading from replicas, and pools for them; locks are on masters only.
	{
		withReplicas,
		"readMode subscriptionMode loadBalancer fallbackLoadingToMaster failedSlaveCheckInterval failedSlaveNodeDetector " +
			"failedSlaveReconnectionInterval masterConnectionMinimumIdleSize masterConnectionPoolSize slaveConnectionMinimumIdleSize " +
			"slaveConnectionPoolSize",
	},
	// What Redisson checks as it finds out about servers.
	{inCluster, "checkSlotsCoverage checkMasterLinkStatus"},
	// The same.
	{inSentinel, "checkSentinelsList checkSlaveStatusWithSyncing sentinelsDiscovery"},
	// The same.
	{inReplicated, "monitorIPChanges"},
	// Names from before 3.16 that files still carry along; they had no effect any more.
	{
		anywhere,
		"pingTimeout reconnectionTimeout failedAttempts dnsMonitoring redissonReferenceEnabled useLinuxNativeEpoll decodeInExecutor",
	},
}

func joinKeys(meaningful map[string]yamlKey, ignored []ignoredGroup) map[string]yamlKey {
	all := maps.Clone(meaningful)
	for _, group := range ignored {
		for name := range strings.FieldsSeq(group.names) {
			all[name] = yamlKey{where: group.where}
		}
	}
	for name := range yamlSections {
		all[name] = yamlKey{where: atTop}
	}
	return all
}

// nearestKey returns the known key that a name was most likely meant for: one that may stand here and differs in case and hyphens only, or
// in less than a third of its letters; "" if there is none.
func nearestKey(here place, name string) string {
	name = plainName(name)
	best, least := "", len(name)/3+1
	for known, key := range yamlKeys {
		if key.where&here == 0 || len(known) > 2*len(name) || len(name) > 2*len(known) {
			continue
		}
		if d := distance(name, plainName(known)); d < least || d == least && best != "" && known < best {
			best, least = known, d
		}
	}
	return best
}

func plainName(name string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(name))
}

// distance is the number of bytes to insert, leave out or change to make one word of the other.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
