package config_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redlatch/redlatch/config"
)

func TestShardedSubscriptionModeReadsRedissonsWords(t *testing.T) {
	for text, want := range map[string]config.ShardedSubscriptionMode{
		"AUTO": config.ShardedSubscriptionAuto, "ON": config.ShardedSubscriptionOn, "OFF": config.ShardedSubscriptionOff,
		"auto": config.ShardedSubscriptionAuto, "On": config.ShardedSubscriptionOn,
	} {
		var got config.ShardedSubscriptionMode
		require.NoError(t, got.UnmarshalText([]byte(text)))
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "YES", "true", " ON"} {
		got := config.ShardedSubscriptionOff
		require.ErrorContains(t, got.UnmarshalText([]byte(text)), "allowed is AUTO, ON or OFF")
		require.Equal(t, config.ShardedSubscriptionOff, got, "a refused text changes nothing")
	}
}

func TestShardedSubscriptionModeSurvivesJSON(t *testing.T) {
	for _, mode := range []config.ShardedSubscriptionMode{0, 1, 2} {
		text, err := json.Marshal(mode)
		require.NoError(t, err)
		require.JSONEq(t, `"`+mode.String()+`"`, string(text))
		var back config.ShardedSubscriptionMode
		require.NoError(t, json.Unmarshal(text, &back))
		require.Equal(t, mode, back)
	}
	_, err := config.ShardedSubscriptionMode(3).MarshalText()
	require.ErrorContains(t, err, "ShardedSubscriptionMode(3)")
}

func TestSyncedSlavesSaysWhatItDemands(t *testing.T) {
	for _, c := range []struct {
		mode  config.SyncedSlaves
		text  string
		count int
	}{
		{config.SyncedSlavesAny, "any", 0},
		{config.SyncedSlavesOff, "off", 0},
		{config.SyncedSlavesAtLeast(1), "at least 1", 1},
		{config.SyncedSlavesAtLeast(3), "at least 3", 3},
		{config.SyncedSlavesAtLeast(0), "at least a number below 1", 0},
		{config.SyncedSlavesAtLeast(-1), "at least a number below 1", 0},
	} {
		require.Equal(t, c.text, c.mode.String())
		require.Equal(t, c.count, c.mode.Count())
	}
}

func TestDelayDoublesFromMinToMaxWithinHalfAndWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		least := rapid.Int64Range(1, int64(time.Hour)).Draw(t, "min")
		most := rapid.Int64Range(least, math.MaxInt64).Draw(t, "max")
		retry := rapid.IntRange(-2, 100).Draw(t, "retry")
		whole := float64(least) * math.Pow(2, float64(max(retry, 0)))
		bound := most
		if whole < float64(most) {
			bound = int64(whole)
		}
		got := config.Delay{Min: time.Duration(least), Max: time.Duration(most)}.Next(retry)
		require.GreaterOrEqual(t, got, time.Duration(bound/2))
		require.LessOrEqual(t, got, time.Duration(bound))
	})
}

func TestDelayOfRedissonsDefault(t *testing.T) {
	d := config.Delay{Min: time.Second, Max: 2 * time.Second}
	for range 100 {
		require.InDelta(t, 750*time.Millisecond, d.Next(0), float64(250*time.Millisecond))
		require.InDelta(t, 1500*time.Millisecond, d.Next(1), float64(500*time.Millisecond))
		require.InDelta(t, 1500*time.Millisecond, d.Next(math.MaxInt), float64(500*time.Millisecond))
	}
	require.Zero(t, config.Delay{}.Next(3))
}
