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
	"github.com/redlatch/redlatch/lua"
)

// The sentinels are believed when they name the master that is known already. It is not asked for its role, or a frozen one would delay
// each look, and so the day on which they name another one.
func TestSentinelsAreBelievedWithoutAskingTheMasterThatIsKnown(t *testing.T) {
	sentinel := redistest.StartSentinel(t, redistest.WithReplicas(0), redistest.WithDownAfter(time.Hour))
	cfg, err := config.Config{
		Servers: sentinel.Servers(), ScanInterval: time.Hour,
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

// A redirect that calls a node otherwise than it is dialled takes the request to it, on the connection that there is, also after the node has
// taken another name.
func TestRequestFollowsARedirectToTheNodeThatIsDialledByAnotherName(t *testing.T) {
	cluster := redistest.StartCluster(t, redistest.WithMasters(1), redistest.WithReplicas(0))
	server := cluster.Nodes()[0]
	line := redistest.NewRelay(t, server)
	_, port, err := net.SplitHostPort(server.Addr())
	require.NoError(t, err)
	mapped := func(address string) string { return "mapped." + address }
	top := bare(t, config.Config{Servers: config.Cluster("rediss://mapped.a.example:" + port), NATMapper: mapped})
	top.discover, top.changed = top.askCluster, func(func(string) bool) {}
	client := server.ClientOption()
	client.InitAddress, client.ForceSingleClient = []string{line.Addr()}, true
	for _, name := range []string{"a.example", "b.example"} {
		top.adopt(mapped(name+":"+port), func(context.Context) (rueidis.Client, error) { return rueidis.NewClient(client) })
	}
	for _, name := range []string{"a.example", "b.example", "a.example"} {
		server.Do(t, "CONFIG", "SET", "cluster-announce-hostname", name)
		_, err := top.refresh(t.Context())
		require.NoError(t, err)
		require.Equal(t, mapped(name+":"+port), top.Master("lock").address)
		for _, redirect := range []string{"MOVED 0 ", "ASK 0 "} {
			sent := line.Next(redistest.SendsScript(), redistest.AnswerError(redirect+server.Addr()))
			_, err = Run(t.Context(), top, lua.Inspect("lock"))
			require.NoError(t, err)
			sent.AwaitRequest(t)
		}
		require.Len(t, top.nodes, 2, "there are no others")
	}
	// Without a name it is what the mapper says of its address, as any other server.
	server.Do(t, "CONFIG", "SET", "cluster-announce-hostname", "")
	top.adopt(mapped(server.Addr()), func(context.Context) (rueidis.Client, error) { return rueidis.NewClient(client) })
	_, err = top.refresh(t.Context())
	require.NoError(t, err)
	require.Equal(t, mapped(server.Addr()), top.Master("lock").address)
	require.Equal(t, mapped(server.Addr()), top.told(top.Master("lock"), server.Addr()))
}
