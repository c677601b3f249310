package topology

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/redistest"
)

// The sentinels are believed when they name the master that is known already. It is not asked for its role, or a frozen one would delay
// each look, and so the day on which they name another one.
func TestSentinelsAreBelievedWithoutAskingTheMasterThatIsKnown(t *testing.T) {
	sentinel := redistest.StartSentinel(t, redistest.WithReplicas(0), redistest.WithDownAfter(time.Hour))
	cfg, err := config.Config{
		Servers: config.Sentinel(sentinel.MasterName(), sentinel.Addresses()...), ScanInterval: time.Hour,
	}.WithDefaults()
	require.NoError(t, err)
	top, err := Open(t.Context(), cfg, Options{Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(top.Close)
	master := sentinel.Nodes()[0]
	master.Freeze(t)
	t.Cleanup(func() { master.Thaw(t) })
	d, err := top.askSentinels(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{master.Addr()}, d.masters)
}

// A cluster's redirects call the nodes by IP address, also where they are dialled by name (with TLS, for the sake of their certificates).
// They lead to the nodes that there are, and not to further ones.
func TestRedirectsByAddressLeadToTheNodesThatAreDialledByName(t *testing.T) {
	server := redistest.Start(t,
		redistest.WithConfig("cluster-enabled", "yes"),
		redistest.WithConfig("cluster-announce-ip", "127.0.0.1"),
		redistest.WithConfig("cluster-announce-hostname", "redis.example"))
	server.Do(t, "CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	_, port, err := net.SplitHostPort(server.Addr())
	require.NoError(t, err)
	for _, c := range []struct {
		name        string
		mapper      func(string) string
		byName, own string
	}{
		{"AsTold", nil, "redis.example:" + port, "redis.example:7"},
		{"Mapped", func(address string) string { return "mapped." + address }, "mapped.redis.example:" + port, "redis.example:7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			top := bare(t, config.Config{Servers: config.Cluster("rediss://redis.example:" + port), NATMapper: c.mapper})
			top.discover = top.askCluster
			n := top.adopt("redis.example:"+port, func(context.Context) (rueidis.Client, error) { return server.Client(t), nil })
			d, err := top.askCluster(t.Context())
			require.NoError(t, err)
			require.Equal(t, []string{c.byName}, d.masters)
			require.Equal(t, c.byName, top.told(n, server.Addr()))
			require.Equal(t, c.own, top.told(n, ":7"), "without a host it is the one that answered")
			require.Equal(t, top.mapped("10.0.0.9:7"), top.told(n, "10.0.0.9:7"), "a node that no layout has told of yet")
		})
	}
}
