package topology

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/config"
)

// at is a node that is called by the address that it is dialled by.
func at(address string, epoch uint64, slots ...slotRange) clusterNode {
	return clusterNode{address: address, redirect: address, epoch: epoch, slots: slots}
}

func TestClusterNodesAreRead(t *testing.T) {
	reply := strings.Join([]string{
		"aa 127.0.0.1:7001@17001,host-a myself,master - 0 0 5 connected 0-5460 5462 [5463->-bb] [93-<-bb]",
		"bb 127.0.0.1:7002@17002 master - 0 1 7 connected 5461 5463-16383",
		"cc 127.0.0.1:7003@17003 slave aa 0 1 5 connected",
		"dd ::1:7004@17004 master,fail - 1 1 9 disconnected",
		"ee :0@0 master,noaddr - 1 1 9 disconnected 1-2",
		"ff 127.0.0.1:7006@17006 handshake - 0 0 0 connected",
	}, "\n") + "\n"
	nodes, err := readClusterNodes(reply, "127.0.0.1:7001", false)
	require.NoError(t, err)
	require.Equal(t, []clusterNode{
		at("127.0.0.1:7001", 5, slotRange{0, 5460}, slotRange{5462, 5462}),
		at("127.0.0.1:7002", 7, slotRange{5461, 5461}, slotRange{5463, 16383}),
		at("127.0.0.1:7003", 5),
		at("[::1]:7004", 9),
	}, nodes)
}

// A server that was never told its address does not know it: it is where it was asked.
func TestServerWithoutAnAddressIsTheOneThatWasAsked(t *testing.T) {
	nodes, err := readClusterNodes("aa :7001@17001 myself,master - 0 0 1 connected 0-16383\n", "redis.example:7001", true)
	require.NoError(t, err)
	require.Equal(t, clusterNode{
		address: "redis.example:7001", unnamed: true, epoch: 1, slots: []slotRange{{0, 16383}},
	}, nodes[0])
}

func TestNamesStandForAddressesWhereTheyAreAskedFor(t *testing.T) {
	for byName, address := range map[bool]string{true: "host-a:7001", false: "127.0.0.1:7001"} {
		nodes, err := readClusterNodes("aa 127.0.0.1:7001@17001,host-a,shard-id=cc master - 0 0 1 connected 0-16383\n", "127.0.0.1:1", byName)
		require.NoError(t, err)
		require.Equal(t, address, nodes[0].address)
		require.Equal(t, "127.0.0.1:7001", nodes[0].redirect, "MOVED calls it by its IP address all the same")
	}
}

func TestBadClusterNodesAreAnError(t *testing.T) {
	for _, reply := range []string{
		"aa 127.0.0.1:7001@17001 master - 0 0",
		"aa 127.0.0.1 master - 0 0 1 connected 0-5",
		"aa 127.0.0.1:7001@17001 master - 0 0 x connected 0-5",
		"aa 127.0.0.1:7001@17001 master - 0 0 1 connected 5-4",
		"aa 127.0.0.1:7001@17001 master - 0 0 1 connected 0-16384",
		"aa 127.0.0.1:7001@17001 master - 0 0 1 connected x",
	} {
		_, err := readClusterNodes(reply, "127.0.0.1:1", true)
		require.ErrorContains(t, err, "CLUSTER NODES", reply)
	}
}

func FuzzClusterNodes(f *testing.F) {
	f.Add("aa 127.0.0.1:7001@17001,host-a myself,master - 0 0 5 connected 0-5460 5462 [5463->-bb]")
	f.Fuzz(func(t *testing.T, reply string) {
		nodes, err := readClusterNodes(reply, "127.0.0.1:1", true)
		if err != nil {
			return
		}
		var c claims
		c.add(nodes)
		d := c.draft()
		require.Len(t, d.slots, config.Slots)
		for _, index := range d.slots {
			require.LessOrEqual(t, int(index), len(d.masters))
		}
	})
}

// After a failover, or the move of a slot, some nodes know it and some do not yet: the higher epoch is the newer truth.
func TestOfTwoClaimsTheOneWithTheHigherEpochCounts(t *testing.T) {
	stale := []clusterNode{at("a:1", 1, slotRange{0, 9}), at("b:1", 2, slotRange{10, 16383})}
	fresh := []clusterNode{at("a:1", 1, slotRange{0, 4}), at("b:1", 3, slotRange{5, 16383}), at("c:1", 3)}
	for _, views := range [][][]clusterNode{{stale, fresh}, {fresh, stale}} {
		var c claims
		for _, view := range views {
			c.add(view)
		}
		d := c.draft()
		require.Equal(t, []string{"a:1", "b:1"}, d.masters)
		require.ElementsMatch(t, []string{"a:1", "b:1", "c:1"}, d.all)
		require.Equal(t, []uint16{1, 2, 2, 2}, []uint16{d.slots[4], d.slots[5], d.slots[9], d.slots[10]})
	}
}

func TestSlotThatNobodyServesHasNoMaster(t *testing.T) {
	var c claims
	c.add([]clusterNode{at("a:1", 1, slotRange{0, 99})})
	d := c.draft()
	l := &layout{masters: []*Node{{address: "a:1"}}, slots: d.slots}
	require.Equal(t, "a:1", l.master(99).address)
	require.Nil(t, l.master(100))
	require.Nil(t, (&layout{}).master(0))
}

func TestRoleIsRead(t *testing.T) {
	require.Equal(t, serverRole{master: true, replicas: 2},
		readRole("# Replication\r\nrole:master\r\nconnected_slaves:3\r\nslave0:ip=127.0.0.1,port=1,state=online,offset=1,lag=0\r\n"+
			"slave1:ip=127.0.0.1,port=2,state=wait_bgsave,offset=0,lag=0\r\nslave2:ip=127.0.0.1,port=3,state=online,offset=1,lag=0\r\n"))
	require.Equal(t, serverRole{}, readRole("role:slave\r\nmaster_host:127.0.0.1\r\n"))
}
