package topology

import (
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
