package locktest

import (
	"testing"

	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/redistest"
)

// RedisServer is one redis-server.
var RedisServer = Topology{
	Name: "redis-server",
	Start: func(t testing.TB) *Site {
		t.Helper()
		server := redistest.Start(t)
		site := single(&server.Endpoint)
		site.Commands, site.ResetCommands = server.CommandStats, server.ResetStats
		return site
	},
	Counts: true,
}

// Miniredis is one miniredis, which speaks RESP2 alone.
var Miniredis = Topology{
	Name: "miniredis",
	Start: func(t testing.TB) *Site {
		t.Helper()
		return single(&redistest.NewMini(t).Endpoint)
	},
	OwnClock: true,
	Slow:     true, // it makes a Lua interpreter for each script
}

func single(e *redistest.Endpoint) *Site {
	return &Site{
		Servers:  []config.Servers{config.Single(e.URL())},
		Keys:     func(t testing.TB) []string { return e.Snapshot(t).Keys() },
		Channels: e.Channels,
		Do:       func(t testing.TB, args ...string) { e.Do(t, args...) },
	}
}
