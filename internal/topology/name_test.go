package topology

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/config"
)

func TestOnlyNamesAreLookedUpAgain(t *testing.T) {
	for address, want := range map[string]string{
		"redis://redis.example:6379": "redis.example",
		"localhost:6379":             "localhost",
		"redis://127.0.0.1:6379":     "",
		"redis://[::1]:6379":         "",
		"redis+uds:///run/redis":     "",
		"redis+uds:///run/redis:1":   "",
	} {
		top := &Topology{cfg: config.Config{Servers: config.Single(address)}}
		require.Equal(t, want, top.hostName(), address)
	}
}

func TestNameThatCannotBeFoundHasNoHosts(t *testing.T) {
	cfg, err := config.Config{Servers: config.Single("redis://unknown.invalid:6379")}.WithDefaults()
	require.NoError(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.Empty(t, (&Topology{cfg: cfg, life: ended}).hostsOf("unknown.invalid"))
	require.NotEmpty(t, (&Topology{cfg: cfg, life: t.Context()}).hostsOf("localhost"))
}
