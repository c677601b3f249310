package redlatch_test

import (
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/redistest"
)

// An address beside a connection of the caller's would be without effect: WithRedis says that Servers must be unset or External.
func TestAddressBesideABorrowedConnectionIsRefused(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	borrowed, err := rueidis.NewClient(server.ClientOption())
	require.NoError(t, err)
	t.Cleanup(borrowed.Close)
	cfg := config.Config{Servers: config.Single("redis://elsewhere.example.org")}
	require.ErrorContains(t, refused(t, cfg, redlatch.WithRedis(borrowed)), "Servers")
}

// What is amiss is that there is no connection, and not what a server answers.
func TestExternalServersNeedAConnection(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, refused(t, config.Config{Servers: config.External()}), "WithRedis")
}
