package config_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redlatch/redlatch/config"
)

const local = "redis://127.0.0.1:6379"

func TestZeroValueMeansRedissonsDefaults(t *testing.T) {
	got, err := config.Config{Servers: config.Single(local)}.WithDefaults()
	require.NoError(t, err)
	require.Equal(t, config.Config{
		Servers:                 config.Single(local),
		DNSMonitoringInterval:   5 * time.Second,
		LockWatchdogTimeout:     30 * time.Second,
		LockWatchdogBatchSize:   100,
		FairLockWaitTimeout:     5 * time.Minute,
		CheckLockSyncedSlaves:   config.SyncedSlavesAny,
		SlavesSyncTimeout:       time.Second,
		ShardedSubscriptionMode: config.ShardedSubscriptionAuto,
		Timeout:                 3 * time.Second,
		ConnectTimeout:          10 * time.Second,
		RetryAttempts:           4,
		RetryDelay:              config.Delay{Min: time.Second, Max: 2 * time.Second},
		SubscriptionLinger:      10 * time.Second,
		FallbackPoll:            10 * time.Second,
		HandOffLimit:            16,
		HandOffWindow:           50 * time.Millisecond,
		DriftMargin:             0.01,
	}, got)
}

func TestWithDefaultsLeavesTheOriginalAlone(t *testing.T) {
	own := &tls.Config{ServerName: "redis.example"}
	given := config.Config{Servers: config.Single("rediss://user:word@127.0.0.1:6379/3"), TLS: own}
	got, err := given.WithDefaults()
	require.NoError(t, err)
	require.Zero(t, given.LockWatchdogTimeout)
	require.Empty(t, given.Password)
	require.NotSame(t, own, got.TLS, "later changes of the caller's TLS must not reach the client")
	require.Equal(t, "redis.example", got.TLS.ServerName)
}

// Each field at the first value inside and the first outside of its range, at both ends.
func TestRangeOfEachField(t *testing.T) {
	ms := time.Millisecond
	for _, c := range []struct {
		field     string
		set       func(c *config.Config, v int64)
		good, bad []int64
	}{
		{"Database", func(c *config.Config, v int64) { c.Database = int(v) }, []int64{1, math.MaxInt32}, []int64{-1, math.MaxInt32 + 1}},
		{
			"LockWatchdogTimeout", func(c *config.Config, v int64) { c.LockWatchdogTimeout = time.Duration(v) },
			[]int64{int64(100 * ms), int64(config.MaxLease)},
			[]int64{-1, 1, int64(100*ms) - 1, int64(config.MaxLease) + 1, math.MaxInt64},
		},
		{
			"LockWatchdogBatchSize", func(c *config.Config, v int64) { c.LockWatchdogBatchSize = int(v) },
			[]int64{1, 10_000},
			[]int64{-1, 10_001},
		},
		{
			"FairLockWaitTimeout", func(c *config.Config, v int64) { c.FairLockWaitTimeout = time.Duration(v) },
			[]int64{int64(100 * ms), int64(config.MaxLease)},
			[]int64{-1, 1, int64(100*ms) - 1, int64(config.MaxLease) + 1},
		},
		{
			"SlavesSyncTimeout", func(c *config.Config, v int64) { c.SlavesSyncTimeout = time.Duration(v) },
			[]int64{int64(ms), int64(time.Hour)},
			[]int64{-1, int64(ms) - 1, int64(time.Hour) + 1},
		},
		{
			"CheckLockSyncedSlaves", func(c *config.Config, v int64) { c.CheckLockSyncedSlaves = config.SyncedSlaves(v) },
			[]int64{0, -1},
			[]int64{-2, 1001, int64(config.SyncedSlavesAtLeast(0)), int64(config.SyncedSlavesAtLeast(-1))},
		},
		{
			"ShardedSubscriptionMode", func(c *config.Config, v int64) { c.ShardedSubscriptionMode = config.ShardedSubscriptionMode(v) },
			[]int64{0, 1, 2},
			[]int64{-1, 3},
		},
		{
			"Timeout", func(c *config.Config, v int64) { c.Timeout = time.Duration(v) },
			[]int64{int64(ms), int64(24 * time.Hour)},
			[]int64{-1, 3, int64(24*time.Hour) + 1},
		},
		{
			"ConnectTimeout", func(c *config.Config, v int64) { c.ConnectTimeout = time.Duration(v) },
			[]int64{int64(ms), int64(24 * time.Hour)},
			[]int64{-1, 10, int64(24*time.Hour) + 1},
		},
		{
			// RL-11: millions are unusual but no error.
			"RetryAttempts", func(c *config.Config, v int64) { c.RetryAttempts = int(v) },
			[]int64{config.NoRetry, 1, 5_000_000, math.MaxInt32},
			[]int64{-2, math.MaxInt32 + 1},
		},
		{
			"RetryDelay", func(c *config.Config, v int64) {
				c.RetryDelay = config.Delay{Min: time.Duration(v), Max: time.Duration(v)}
			},
			[]int64{int64(ms), int64(time.Hour)},
			[]int64{-1, 1, int64(ms) - 1, int64(time.Hour) + 1},
		},
		{
			"RetryDelay", func(c *config.Config, v int64) { c.RetryDelay = config.Delay{Min: time.Second, Max: time.Duration(v)} },
			[]int64{int64(time.Second), int64(time.Hour)},
			[]int64{-1, 0, int64(time.Second) - 1},
		},
		{
			"SubscriptionLinger", func(c *config.Config, v int64) { c.SubscriptionLinger = time.Duration(v) },
			[]int64{int64(config.NoLinger), int64(ms), int64(24 * time.Hour)},
			[]int64{-2, 1, int64(24*time.Hour) + 1},
		},
		{
			"FallbackPoll", func(c *config.Config, v int64) { c.FallbackPoll = time.Duration(v) },
			[]int64{int64(10 * ms), int64(time.Hour)},
			[]int64{-1, int64(10*ms) - 1, int64(time.Hour) + 1},
		},
		{
			"HandOffLimit", func(c *config.Config, v int64) { c.HandOffLimit = int(v) },
			[]int64{config.NoHandOff, 1, 10_000},
			[]int64{-2, 10_001},
		},
		{
			"HandOffWindow", func(c *config.Config, v int64) { c.HandOffWindow = time.Duration(v) },
			[]int64{int64(ms), int64(time.Minute)},
			[]int64{-1, int64(ms) - 1, int64(time.Minute) + 1},
		},
	} {
		for _, v := range c.good {
			cfg := config.Config{Servers: config.Single(local)}
			c.set(&cfg, v)
			_, err := cfg.WithDefaults()
			require.NoError(t, err, "%s %d", c.field, v)
		}
		for _, v := range c.bad {
			cfg := config.Config{Servers: config.Single(local)}
			c.set(&cfg, v)
			got, err := cfg.WithDefaults()
			requireFault(t, err, c.field)
			require.Zero(t, got.Timeout, "no half-made Config comes with an error")
		}
	}
}

func TestDriftMarginIsAFractionBelowOneHalf(t *testing.T) {
	for _, v := range []float64{-0.01, 0.5, 1, math.NaN(), math.Inf(1), math.Inf(-1)} {
		_, err := config.Config{Servers: config.Single(local), DriftMargin: v}.WithDefaults()
		requireFault(t, err, "DriftMargin")
	}
	for _, v := range []float64{1e-9, 0.4999} {
		got, err := config.Config{Servers: config.Single(local), DriftMargin: v}.WithDefaults()
		require.NoError(t, err)
		require.Equal(t, v, got.DriftMargin)
	}
}

func TestAnErrorNamesFieldValueAndAllowedRange(t *testing.T) {
	for _, c := range []struct {
		cfg  config.Config
		want string
	}{
		{
			config.Config{LockWatchdogTimeout: 50 * time.Millisecond},
			"config: LockWatchdogTimeout is 50ms; allowed is 100ms to 876000h0m0s (0 means the default of 30s)",
		},
		{config.Config{HandOffLimit: -5}, "config: HandOffLimit is -5; allowed is 1 to 10000, or NoHandOff (0 means the default of 16)"},
		{
			config.Config{RetryDelay: config.Delay{Max: time.Second}},
			"config: RetryDelay is 0s..1s; allowed is 1ms <= Min <= Max <= 1h0m0s (both 0 means the default of 1s..2s)",
		},
		{config.Config{ClientName: "my app"}, `config: ClientName is "my app"; allowed is printable ASCII without spaces, or empty`},
		{config.Config{DriftMargin: 0.5}, "config: DriftMargin is 0.5; allowed is above 0 and below 0.5 (0 means the default of 0.01)"},
		{config.Config{ShardedSubscriptionMode: 9}, "config: ShardedSubscriptionMode is ShardedSubscriptionMode(9); allowed is AUTO, ON or OFF"},
		{
			config.Config{CheckLockSyncedSlaves: config.SyncedSlavesAtLeast(0)},
			"config: CheckLockSyncedSlaves is at least a number below 1; allowed is SyncedSlavesAny, SyncedSlavesOff, " +
				"or SyncedSlavesAtLeast with 1 to 1000",
		},
	} {
		c.cfg.Servers = config.Single(local)
		_, err := c.cfg.WithDefaults()
		require.EqualError(t, err, c.want)
	}
}

func TestAllFaultsAreReportedAtOnce(t *testing.T) {
	_, err := config.Config{Timeout: -1, HandOffWindow: time.Hour, Username: "user", ClientName: "a\nb"}.WithDefaults()
	fields := make([]string, 0, 5)
	for _, fault := range faults(t, err) {
		fields = append(fields, fault.Field)
	}
	require.ElementsMatch(t, []string{"Servers", "Timeout", "HandOffWindow", "Username", "ClientName"}, fields)
}

func TestTimesOnTheWireAreWholeMilliseconds(t *testing.T) {
	part := 999 * time.Microsecond
	got, err := config.Config{
		Servers:             config.Single(local),
		LockWatchdogTimeout: time.Second + part,
		FairLockWaitTimeout: time.Minute + part,
		SlavesSyncTimeout:   time.Millisecond + part,
	}.WithDefaults()
	require.NoError(t, err)
	require.Equal(t, time.Second, got.LockWatchdogTimeout)
	require.Equal(t, time.Minute, got.FairLockWaitTimeout)
	require.Equal(t, time.Millisecond, got.SlavesSyncTimeout)
}

func TestReplicasCannotBeDemandedOfASingleServer(t *testing.T) {
	cfg := config.Config{Servers: config.Single(local), CheckLockSyncedSlaves: config.SyncedSlavesAtLeast(2)}
	_, err := cfg.WithDefaults()
	requireFault(t, err, "CheckLockSyncedSlaves")
	require.ErrorContains(t, err, "at least 2")

	cfg.Servers = config.External()
	_, err = cfg.WithDefaults()
	require.NoError(t, err)
}

func TestClientNameFollowsTheRuleOfClientSetname(t *testing.T) {
	for name, good := range map[string]bool{
		"": true, "orders-1": true, "!~": true, "a b": false, "a\nb": false, "a\tb": false, "é": false, "a\x7f": false, "\xff": false,
	} {
		_, err := config.Config{Servers: config.Single(local), ClientName: name}.WithDefaults()
		if good {
			require.NoError(t, err, "%q", name)
		} else {
			requireFault(t, err, "ClientName")
		}
	}
}

func TestTrustIsTheLeaseLessTheMargin(t *testing.T) {
	ms := time.Millisecond
	for _, c := range []struct {
		drift       float64
		lease, want time.Duration
	}{
		{0.01, 30 * time.Second, 29_698 * ms},
		{0, 30 * time.Second, 29_698 * ms},  // not yet defaulted
		{-1, 30 * time.Second, 29_698 * ms}, // would be refused
		{math.NaN(), 30 * time.Second, 29_698 * ms},
		{0.1, 10 * time.Second, 8_998 * ms},
		{1e-9, 10 * time.Second, 9_998*ms - 10*time.Nanosecond},
		{0.01, 10 * ms, 7_900 * time.Microsecond},
		{0.01, 4 * ms, 2 * ms},
		{0.01, 2 * ms, ms},
		{0.01, 1, 0},
		{0.49, 100 * ms, 50 * ms},
		{0.01, 0, 0},
		{0.01, -time.Second, 0},
	} {
		require.Equal(t, c.want, config.Config{DriftMargin: c.drift}.Trust(c.lease), "drift %v lease %v", c.drift, c.lease)
	}
}

func TestTrustStaysBetweenHalfAndTheWholeLease(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := config.Config{DriftMargin: rapid.Float64().Draw(t, "drift")}
		a := rapid.Int64Min(1).Draw(t, "lease")
		b := rapid.Int64Range(a, math.MaxInt64).Draw(t, "longer lease")
		trust := c.Trust(time.Duration(a))
		require.GreaterOrEqual(t, trust, time.Duration(a)/2)
		require.Less(t, trust, time.Duration(a))
		if b <= int64(config.MaxLease) {
			require.LessOrEqual(t, trust, c.Trust(time.Duration(b)), "a longer lease is never trusted for less")
		}
	})
}

func TestRetriesReadsNoRetryAsZero(t *testing.T) {
	got, err := config.Config{Servers: config.Single(local), RetryAttempts: config.NoRetry}.WithDefaults()
	require.NoError(t, err)
	require.Zero(t, got.Retries())
	require.Equal(t, 7, config.Config{RetryAttempts: 7}.Retries())
}

func TestWithDefaultsIsIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawConfig(t)
		once, err := cfg.WithDefaults()
		require.NoError(t, err)
		twice, err := once.WithDefaults()
		require.NoError(t, err)
		require.Equal(t, once.TLS == nil, twice.TLS == nil)
		once.TLS, twice.TLS = nil, nil
		require.Equal(t, once, twice)
	})
}

func TestThePasswordIsShownNowhere(t *testing.T) {
	const secret = "hunter2hunter2"
	own := config.Config{Servers: config.Single(local), Username: "app", Password: secret, SentinelPassword: secret}
	inURL := config.Config{Servers: config.Single("redis://app:" + secret + "@127.0.0.1:6379")}
	merged, err := inURL.WithDefaults()
	require.NoError(t, err)
	require.Equal(t, secret, merged.Password)
	sentinels := config.Config{Servers: config.Sentinel("m", local, "redis://app:"+secret+"@127.0.0.2")}
	guarded, err := sentinels.WithDefaults()
	require.NoError(t, err)
	require.Equal(t, secret, guarded.SentinelPassword)
	for _, cfg := range []config.Config{own, inURL, merged, sentinels, guarded} {
		var log strings.Builder
		slog.New(slog.NewJSONHandler(&log, nil)).Info("open", "config", cfg, "servers", cfg.Servers)
		hidden := struct{ s config.Servers }{cfg.Servers}
		for _, text := range []string{
			log.String(), cfg.String(), fmt.Sprint(cfg), fmt.Sprintf("%+v", cfg), fmt.Sprintf("%#v", cfg), fmt.Sprintf("%s %q", cfg, cfg),
			fmt.Sprintf("%v %+v", cfg.Servers, &cfg), fmt.Sprintf("%#v", cfg.Servers), fmt.Sprintf("%+v %#v", hidden, hidden),
		} {
			require.NotContains(t, text, secret)
		}
		require.Contains(t, cfg.String(), "redis://127.0.0.1:6379")
	}
	require.Contains(t, own.String(), " password=[redacted]")
	require.Contains(t, own.String(), " sentinelPassword=[redacted]")
	require.Contains(t, own.String(), "lockWatchdogTimeout=0s")
}

// drawConfig draws a Config that is valid.
func drawConfig(t *rapid.T) config.Config {
	span := func(name string, low, high, off time.Duration) time.Duration {
		some := []*rapid.Generator[time.Duration]{rapid.Just(time.Duration(0)), rapid.Map(rapid.Int64Range(int64(low), int64(high)), toDuration)}
		if off != 0 {
			some = append(some, rapid.Just(off))
		}
		return rapid.OneOf(some...).Draw(t, name)
	}
	cfg := config.Config{
		Servers: rapid.SampledFrom([]config.Servers{
			config.Single(local), config.Single("host:1"), config.Single("valkeys://h/2"), config.Single("rediss://u:p@h:7"),
			config.Single("redis+uds:///run/s"), config.Single("redis://:p@[::1]/0"), config.Single("redis://h/2147483647"),
			config.Cluster("a:1", "rediss://:p@b"), config.Sentinel("m", "redis://u:p@a", "b:1"), config.MasterSlave("a:1", "redis://b/3"),
			config.Replicated("valkeys://a", "b:1"),
		}).Draw(t, "servers"),
		ScanInterval:            span("scan", 100*time.Millisecond, time.Hour, 0),
		DNSMonitoringInterval:   span("dns", time.Millisecond, 24*time.Hour, config.NoDNSMonitoring),
		LockWatchdogTimeout:     span("watchdog", 100*time.Millisecond, config.MaxLease, 0),
		LockWatchdogBatchSize:   rapid.IntRange(0, 10_000).Draw(t, "batch"),
		FairLockWaitTimeout:     span("fair", 100*time.Millisecond, config.MaxLease, 0),
		CheckLockSyncedSlaves:   rapid.SampledFrom([]config.SyncedSlaves{config.SyncedSlavesAny, config.SyncedSlavesOff}).Draw(t, "synced"),
		SlavesSyncTimeout:       span("sync", time.Millisecond, time.Hour, 0),
		ShardedSubscriptionMode: config.ShardedSubscriptionMode(rapid.IntRange(0, 2).Draw(t, "sharded")),
		Timeout:                 span("timeout", time.Millisecond, 24*time.Hour, 0),
		ConnectTimeout:          span("connect", time.Millisecond, 24*time.Hour, 0),
		RetryAttempts:           rapid.IntRange(config.NoRetry, math.MaxInt32).Draw(t, "attempts"),
		SubscriptionLinger:      span("linger", time.Millisecond, 24*time.Hour, config.NoLinger),
		FallbackPoll:            span("poll", 10*time.Millisecond, time.Hour, 0),
		HandOffLimit:            rapid.IntRange(config.NoHandOff, 10_000).Draw(t, "handoff"),
		HandOffWindow:           span("window", time.Millisecond, time.Minute, 0),
		DriftMargin:             rapid.Float64Range(0, 0.499).Draw(t, "drift"),
	}
	if rapid.Bool().Draw(t, "delay") {
		cfg.RetryDelay = config.Delay{Min: 3 * time.Millisecond, Max: time.Second}
	}
	return cfg
}

func toDuration(n int64) time.Duration { return time.Duration(n) }

// faults takes a joined error apart.
func faults(t require.TestingT, err error) []*config.FieldError {
	joined, ok := err.(interface{ Unwrap() []error })
	require.True(t, ok, "%v is no joined error", err)
	var all []*config.FieldError
	for _, one := range joined.Unwrap() {
		fault, ok := errors.AsType[*config.FieldError](one)
		require.True(t, ok, "%v is no FieldError", one)
		all = append(all, fault)
	}
	return all
}

func requireFault(t require.TestingT, err error, field string) {
	for _, fault := range faults(t, err) {
		if fault.Field == field {
			require.NotEmpty(t, fault.Value)
			require.NotEmpty(t, fault.Allowed)
			return
		}
	}
	require.Failf(t, "fault not reported", "%s is not among: %v", field, err)
}
