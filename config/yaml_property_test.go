package config_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/config"
)

// A Java service may have been started with -Dredis.host=…, and would lock on another server then.
func TestDefaultOfASystemPropertyIsWorthAWarning(t *testing.T) {
	const text = `singleServerConfig: {address: "redis://${redis.host:-localhost}:${REDIS_PORT:-6379}"}`
	cfg, warnings, err := config.ReadRedissonYAML(strings.NewReader(text))
	require.NoError(t, err)
	require.Equal(t, "single redis://localhost:6379", cfg.Servers.String())
	require.Len(t, warnings, 1)
	require.Equal(t, "${redis.host}: has its default here; if the Java service is started with -Dredis.host, set a variable of that name "+
		"in the environment, too", warnings[0].String())
}
