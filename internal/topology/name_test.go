package topology

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/config"
)

func addrs(texts ...string) (list []netip.Addr) {
	for _, text := range texts {
		list = append(list, netip.MustParseAddr(text))
	}
	return list
}

// A connection leads elsewhere when its host is none of those that the name has, whatever their order and number.
func TestConnectionsStrayFromANameOnlyWhenItLosesTheirHost(t *testing.T) {
	var h hosts
	require.False(t, h.strayed(addrs("10.0.0.1")), "there is no connection")
	leave := h.join(&net.TCPAddr{IP: net.ParseIP("10.0.0.1"), Port: 6379})
	again := h.join(&net.TCPAddr{IP: net.ParseIP("10.0.0.1"), Port: 6379})
	require.False(t, h.strayed(addrs("10.0.0.1")))
	require.False(t, h.strayed(addrs("10.0.0.2", "10.0.0.1")))
	require.True(t, h.strayed(addrs("10.0.0.2")))

	young := h.join(&net.TCPAddr{IP: net.ParseIP("10.0.0.2"), Port: 6379})
	require.True(t, h.strayed(addrs("10.0.0.2")), "some of the connections are still elsewhere")
	require.False(t, h.strayed(addrs("10.0.0.1", "10.0.0.2")))
	leave()
	require.True(t, h.strayed(addrs("10.0.0.2")))
	again()
	require.False(t, h.strayed(addrs("10.0.0.2")))
	young()

	local := h.join(&net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0", Port: 6379})
	require.False(t, h.strayed([]netip.Addr{plainAddr(netip.MustParseAddr("fe80::1%eth0"))}))
	local()
	h.join(&net.UnixAddr{Name: "/run/redis.sock", Net: "unix"})()
	require.Empty(t, h.counts)
}

func TestOnlyNamesAreLookedUpAgain(t *testing.T) {
	for address, want := range map[string]string{
		"redis://redis.example:6379": "redis.example",
		"localhost:6379":             "localhost",
		"redis://127.0.0.1:6379":     "",
		"redis://[::1]:6379":         "",
		"redis+uds:///run/redis":     "",
	} {
		top := &Topology{cfg: config.Config{Servers: config.Single(address)}}
		require.Equal(t, want, top.hostName(), address)
	}
}

// While names can't be looked up, connections stay where they are.
func TestNameThatCannotBeFoundLeadsNowhereElse(t *testing.T) {
	cfg, err := config.Config{Servers: config.Single("redis://unknown.invalid:6379")}.WithDefaults()
	require.NoError(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	top, n := &Topology{cfg: cfg, life: ended}, &Node{}
	leave := n.hosts.join(&net.TCPAddr{IP: net.ParseIP("10.0.0.1"), Port: 6379})
	defer leave()
	require.False(t, top.leadsElsewhere("unknown.invalid", n))
}
