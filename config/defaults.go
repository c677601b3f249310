package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"
)

// FieldError says what is wrong with one field of a Config. Config.WithDefaults and ReadRedissonYAML join one for each fault; errors.As
// finds the first.
type FieldError struct {
	// Field is the name of the field; of what ReadRedissonYAML finds, the key with its line.
	Field string
	// Value is what stands in it, in words fit for a log: never a password.
	Value string
	// Allowed is what may stand there.
	Allowed string
}

func (e *FieldError) Error() string {
	return "config: " + e.Field + " is " + e.Value + "; allowed is " + e.Allowed
}

// WithDefaults returns a copy in which every zero field has its documented default, and what the addresses say about user, password and
// database stands in the fields of that name. TLS is a clone, and set if and only if connections are to be encrypted. The values
// NoRetry, NoLinger, NoDNSMonitoring and NoHandOff stay as they are, so that a second WithDefaults changes nothing.
//
// All faults are reported at once, each a *FieldError, joined; the Config returned is then the zero one.
func (c Config) WithDefaults() (Config, error) {
	var f faults
	c.applyServers(&f)
	c.applyLocks(&f)
	c.applyCommands(&f)
	c.applyWaiting(&f)
	if err := errors.Join(f...); err != nil {
		return Config{}, err
	}
	return c, nil
}

func (c *Config) applyServers(f *faults) {
	switch c.Servers.Mode() {
	case ModeNone:
		f.add("Servers", "empty", `a description of the servers such as config.Single("redis://127.0.0.1:6379")`)
	case ModeExternal:
		c.checkExternal(f)
	default:
		for _, fault := range c.Servers.t.faults {
			*f = append(*f, fault)
		}
		c.mergeAddresses(f, c.Servers.t.said)
		c.applyTopology(f)
	}
	if c.Username != "" && c.Password == "" {
		f.add("Username", "set without a password", "a user with a password in Password or in the address, or a password alone")
	}
	if c.SentinelUsername != "" && c.SentinelPassword == "" {
		f.add("SentinelUsername", "set without a password", "a user with a password in SentinelPassword or in the address, or a password alone")
	}
	if c.Database < 0 || c.Database > math.MaxInt32 {
		f.add("Database", strconv.Itoa(c.Database), "0 to 2147483647")
	}
	if strings.ContainsFunc(c.ClientName, func(r rune) bool { return r < '!' || r > '~' }) {
		f.add("ClientName", strconv.Quote(clip(c.ClientName)), "printable ASCII without spaces, or empty")
	}
	c.TLS = c.TLS.Clone()
}

// applyTopology checks and completes what depends on the kind of topology.
func (c *Config) applyTopology(f *faults) {
	mode := c.Servers.Mode()
	if mode == ModeSingle && c.CheckLockSyncedSlaves.Count() > 0 {
		f.add("CheckLockSyncedSlaves", c.CheckLockSyncedSlaves.String(),
			"SyncedSlavesAny or SyncedSlavesOff with Single, whose one server has no replicas that are known")
	}
	if mode == ModeCluster && c.Database != 0 {
		f.add("Database", strconv.Itoa(c.Database), "0, for a cluster has only database 0")
	}
	if mode != ModeSentinel {
		const none = "nothing without Sentinel: there is no sentinel to log in to"
		if c.SentinelUsername != "" {
			f.add("SentinelUsername", "set", none)
		}
		if c.SentinelPassword != "" {
			f.add("SentinelPassword", "set", none)
		}
	}
	scan, dns := time.Duration(0), time.Duration(0)
	switch mode {
	case ModeSingle, ModeMasterSlave:
		dns = DefaultDNSMonitoringInterval
	case ModeCluster:
		scan = DefaultClusterScanInterval
	case ModeSentinel, ModeReplicated:
		scan = DefaultScanInterval
	}
	if scan != 0 || c.ScanInterval != 0 {
		f.time("ScanInterval", &c.ScanInterval, scan, 100*time.Millisecond, time.Hour, 0, "")
	}
	if dns != 0 || c.DNSMonitoringInterval != 0 {
		f.time("DNSMonitoringInterval", &c.DNSMonitoringInterval, dns, time.Millisecond, 24*time.Hour, NoDNSMonitoring, "NoDNSMonitoring")
	}
}

// checkExternal refuses what would be silently without effect on a client that is already connected.
func (c *Config) checkExternal(f *faults) {
	for _, field := range []struct {
		name string
		set  bool
	}{
		{"Username", c.Username != ""},
		{"Password", c.Password != ""},
		{"SentinelUsername", c.SentinelUsername != ""},
		{"SentinelPassword", c.SentinelPassword != ""},
		{"Database", c.Database != 0},
		{"NATMapper", c.NATMapper != nil},
		{"ScanInterval", c.ScanInterval != 0},
		{"DNSMonitoringInterval", c.DNSMonitoringInterval != 0},
		{"ClientName", c.ClientName != ""},
		{"TLS", c.TLS != nil},
	} {
		if field.set {
			f.add(field.name, "set", "nothing with External, whose client is connected already: set it there")
		}
	}
}

// mergeAddresses takes over what the addresses say, unless a field says something else. A sentinel's address says how to log in there.
func (c *Config) mergeAddresses(f *faults, e endpoint) {
	const alike = "one of the two, or the same in both"
	field, username, password := "", &c.Username, &c.Password
	if c.Servers.Mode() == ModeSentinel {
		field, username, password = "Sentinel", &c.SentinelUsername, &c.SentinelPassword
	}
	if !merge(username, e.username) {
		f.add(field+"Username", "another than in the address", alike)
	}
	if !merge(password, e.password) {
		f.add(field+"Password", "another than in the address", alike)
	}
	if named := e.database != noDatabase; named && c.Database != 0 && c.Database != e.database {
		f.add("Database", fmt.Sprintf("%d but %d in the address", c.Database, e.database), alike)
	} else if named {
		c.Database = e.database
	}
	switch demanded, forbidden := e.tls(); {
	case demanded && c.TLS == nil:
		c.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	case forbidden && c.TLS != nil:
		f.add("TLS", "set, but the address is "+e.String(), "nil, or an address of rediss:// or valkeys://")
	}
}

// merge sets a field to what the address says and reports false if both say something different.
func merge(field *string, address string) bool {
	if *field == "" {
		*field = address
	}
	return address == "" || *field == address
}

func (c *Config) applyLocks(f *faults) {
	f.wireTime("LockWatchdogTimeout", &c.LockWatchdogTimeout, DefaultLockWatchdogTimeout, 100*time.Millisecond, MaxLease)
	f.count("LockWatchdogBatchSize", &c.LockWatchdogBatchSize, DefaultLockWatchdogBatchSize, 10_000, 0, "")
	f.wireTime("FairLockWaitTimeout", &c.FairLockWaitTimeout, DefaultFairLockWaitTimeout, 100*time.Millisecond, MaxLease)
	f.wireTime("SlavesSyncTimeout", &c.SlavesSyncTimeout, DefaultSlavesSyncTimeout, time.Millisecond, time.Hour)
	if !c.CheckLockSyncedSlaves.valid() {
		f.add("CheckLockSyncedSlaves", c.CheckLockSyncedSlaves.String(),
			"SyncedSlavesAny, SyncedSlavesOff, or SyncedSlavesAtLeast with 1 to "+strconv.Itoa(maxSyncedSlaves))
	}
	if !c.ShardedSubscriptionMode.valid() {
		f.add("ShardedSubscriptionMode", c.ShardedSubscriptionMode.String(), "AUTO, ON or OFF")
	}
	if c.PlainAndSharded && c.ShardedSubscriptionMode == ShardedSubscriptionOff {
		f.add("PlainAndSharded", "set together with ShardedSubscriptionOff", "one of the two: PlainAndSharded needs sharded messages")
	}
	if c.DriftMargin == 0 {
		c.DriftMargin = DefaultDriftMargin
	}
	if !validDrift(c.DriftMargin) {
		f.add("DriftMargin", strconv.FormatFloat(c.DriftMargin, 'g', -1, 64), "above 0 and below 0.5 (0 means the default of 0.01)")
	}
}

func (c *Config) applyCommands(f *faults) {
	f.time("Timeout", &c.Timeout, DefaultTimeout, time.Millisecond, 24*time.Hour, 0, "")
	f.time("ConnectTimeout", &c.ConnectTimeout, DefaultConnectTimeout, time.Millisecond, 24*time.Hour, 0, "")
	f.count("RetryAttempts", &c.RetryAttempts, DefaultRetryAttempts, math.MaxInt32, NoRetry, "NoRetry")
	if c.RetryDelay == (Delay{}) {
		c.RetryDelay = Delay{DefaultRetryDelayMin, DefaultRetryDelayMax}
	}
	if d := c.RetryDelay; d.Min < time.Millisecond || d.Max < d.Min || d.Max > time.Hour {
		f.add("RetryDelay", d.String(), "1ms <= Min <= Max <= 1h0m0s (both 0 means the default of 1s..2s)")
	}
}

func (c *Config) applyWaiting(f *faults) {
	f.time("SubscriptionLinger", &c.SubscriptionLinger, DefaultSubscriptionLinger, time.Millisecond, 24*time.Hour, NoLinger, "NoLinger")
	f.time("FallbackPoll", &c.FallbackPoll, DefaultFallbackPoll, 10*time.Millisecond, time.Hour, 0, "")
	f.count("HandOffLimit", &c.HandOffLimit, DefaultHandOffLimit, 10_000, NoHandOff, "NoHandOff")
	f.time("HandOffWindow", &c.HandOffWindow, DefaultHandOffWindow, time.Millisecond, time.Minute, 0, "")
}

// faults collects what is wrong.
type faults []error

func (f *faults) add(field, value, allowed string) {
	*f = append(*f, &FieldError{Field: field, Value: value, Allowed: allowed})
}

// time applies a default and checks a range; off is the value that turns the thing off, 0 if there is none.
func (f *faults) time(field string, v *time.Duration, byDefault, low, high, off time.Duration, offName string) {
	if *v == 0 {
		*v = byDefault
	}
	if (*v < low || *v > high) && (off == 0 || *v != off) {
		f.add(field, v.String(), bounds(low, high, byDefault, offName))
	}
}

// wireTime is time for what is sent to Redis in whole milliseconds: what the client reckons with must not be more than what it sends.
func (f *faults) wireTime(field string, v *time.Duration, byDefault, low, high time.Duration) {
	f.time(field, v, byDefault, low, high, 0, "")
	*v = v.Truncate(time.Millisecond)
}

// count is time for numbers, which all begin at 1.
func (f *faults) count(field string, v *int, byDefault, high, off int, offName string) {
	if *v == 0 {
		*v = byDefault
	}
	if (*v < 1 || *v > high) && (off == 0 || *v != off) {
		f.add(field, strconv.Itoa(*v), bounds(1, high, byDefault, offName))
	}
}

func bounds[T any](low, high, byDefault T, offName string) string {
	text := fmt.Sprintf("%v to %v", low, high)
	if offName != "" {
		text += ", or " + offName
	}
	return fmt.Sprintf("%s (0 means the default of %v)", text, byDefault)
}

// LogValue returns all settings under their names in a redisson.yaml, passwords as [redacted].
func (c Config) LogValue() slog.Value { return slog.GroupValue(c.settings()...) }

// String returns what LogValue does, on one line.
func (c Config) String() string {
	var words []string
	for _, a := range c.settings() {
		words = append(words, a.String())
	}
	return "config{" + strings.Join(words, " ") + "}"
}

// GoString returns what String does, so that %#v shows no more.
func (c Config) GoString() string { return c.String() }

func (c Config) settings() []slog.Attr {
	return []slog.Attr{
		slog.String("servers", c.Servers.String()),
		slog.String("username", c.Username),
		slog.String("password", redacted(c.Password)),
		slog.String("sentinelUsername", c.SentinelUsername),
		slog.String("sentinelPassword", redacted(c.SentinelPassword)),
		slog.Int("database", c.Database),
		slog.String("clientName", c.ClientName),
		slog.Bool("tls", c.TLS != nil),
		slog.Bool("natMapper", c.NATMapper != nil),
		slog.Duration("scanInterval", c.ScanInterval),
		slog.Duration("dnsMonitoringInterval", c.DNSMonitoringInterval),
		slog.Bool("nameMapper", c.NameMapper != nil),
		slog.Duration("lockWatchdogTimeout", c.LockWatchdogTimeout),
		slog.Int("lockWatchdogBatchSize", c.LockWatchdogBatchSize),
		slog.Duration("fairLockWaitTimeout", c.FairLockWaitTimeout),
		slog.String("checkLockSyncedSlaves", c.CheckLockSyncedSlaves.String()),
		slog.Duration("slavesSyncTimeout", c.SlavesSyncTimeout),
		slog.String("shardedSubscriptionMode", c.ShardedSubscriptionMode.String()),
		slog.Duration("timeout", c.Timeout),
		slog.Duration("connectTimeout", c.ConnectTimeout),
		slog.Int("retryAttempts", c.RetryAttempts),
		slog.String("retryDelay", c.RetryDelay.String()),
		slog.Bool("plainAndSharded", c.PlainAndSharded),
		slog.Duration("subscriptionLinger", c.SubscriptionLinger),
		slog.Duration("fallbackPoll", c.FallbackPoll),
		slog.Int("handOffLimit", c.HandOffLimit),
		slog.Duration("handOffWindow", c.HandOffWindow),
		slog.Float64("driftMargin", c.DriftMargin),
		slog.Bool("skipKindCheck", c.SkipKindCheck),
	}
}

func redacted(secret string) string {
	if secret == "" {
		return ""
	}
	return "[redacted]"
}
