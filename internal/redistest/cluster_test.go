package redistest_test

import (
	"context"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
)

// TestCluster keeps one cluster for all; each test leaves it as WaitOK wants it.
func TestCluster(t *testing.T) {
	c := redistest.StartCluster(t)
	t.Run("IsReadyWhenItHasStarted", func(t *testing.T) { clusterIsReady(t, c) })
	t.Run("SlotIsTheOneOfTheServer", func(t *testing.T) {
		for _, key := range []string{"", "k", "{tag}:k", "a{b}c", "{}k", "ключ"} {
			require.Equal(t, c.Nodes()[0].Do(t, "CLUSTER", "KEYSLOT", key).Int(), int64(c.Slot(key)), key)
		}
	})
	t.Run("FailOverKeepsWhatWasWritten", func(t *testing.T) { failOverKeepsData(t, c) })
	t.Run("FrozenMasterIsReplacedAndComesBackAsReplica", func(t *testing.T) { frozenMasterIsReplaced(t, c) })
	t.Run("KilledMasterIsReplacedAndComesBackAsReplica", func(t *testing.T) { killedMasterIsReplaced(t, c) })
	t.Run("DeadMasterIsReplacedAtOnceWhenToldTo", func(t *testing.T) { deadMasterFailsOver(t, c) })
	t.Run("MovedSlotIsNeverOutOfService", func(t *testing.T) { movedSlotServes(t, c) })
	t.Run("MoveCanBeLookedAtBetweenItsStages", func(t *testing.T) { moveHasStages(t, c) })
}

func clusterIsReady(t *testing.T, c *redistest.Cluster) {
	require.Len(t, c.Nodes(), 6)
	require.Len(t, c.Addresses(), 6)
	require.Equal(t, "redis://"+c.Nodes()[0].Addr(), c.Addresses()[0])
	require.Equal(t, c.Nodes()[:3], c.Masters(t))
	epochs := make(map[string]bool)
	for i, master := range c.Masters(t) {
		require.Equal(t, []*redistest.Node{c.Nodes()[3+i]}, c.ReplicasOf(t, master))
		info := master.Do(t, "CLUSTER", "INFO").Text()
		require.Contains(t, info, "cluster_state:ok")
		_, rest, _ := strings.Cut(info, "cluster_my_epoch:")
		epoch, _, _ := strings.Cut(rest, "\r")
		epochs[epoch] = true
	}
	require.Len(t, epochs, 3, "no two masters have one epoch")
	for _, key := range []string{"a", "b", "c", "d"} {
		conn := c.MasterOf(t, key).Dial(t)
		_, err := conn.Do("SET", key, "v")
		require.NoError(t, err)
		replicas, err := conn.Do("WAIT", "1", "10000")
		require.NoError(t, err)
		require.Equal(t, int64(1), replicas.Int())
	}
}

func failOverKeepsData(t *testing.T, c *redistest.Cluster) {
	old := c.MasterOf(t, "k")
	old.Do(t, "SET", "k", "v")
	replica := c.ReplicasOf(t, old)[0]
	require.Same(t, replica, c.FailOver(t, old))
	require.Same(t, replica, c.MasterOf(t, "k"))
	require.Equal(t, []*redistest.Node{old}, c.ReplicasOf(t, replica))
	require.Equal(t, "v", replica.Do(t, "GET", "k").Text())
	for _, n := range c.Nodes() {
		_, err := n.TryDo("SET", "k", "w")
		if n == replica {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, "MOVED "+strconv.Itoa(int(c.Slot("k")))+" "+replica.Announced())
		}
	}
}

func frozenMasterIsReplaced(t *testing.T, c *redistest.Cluster) {
	old := c.MasterOf(t, "k")
	old.Freeze(t)
	successor := c.AwaitHeir(t, old)
	require.NotSame(t, old, successor)
	require.Same(t, successor, c.MasterOf(t, "k"))
	require.NotContains(t, c.Masters(t), old)
	require.Empty(t, c.ReplicasOf(t, successor))
	old.Thaw(t)
	c.WaitOK(t)
	require.Equal(t, []*redistest.Node{old}, c.ReplicasOf(t, successor))
}

func killedMasterIsReplaced(t *testing.T, c *redistest.Cluster) {
	old := c.MasterOf(t, "k")
	conn := old.Dial(t) // which the end of the process cuts
	_, err := conn.Do("SET", "k", "kept")
	require.NoError(t, err)
	replicas, err := conn.Do("WAIT", "1", "10000") // or it could die with the only copy
	require.NoError(t, err)
	require.Equal(t, int64(1), replicas.Int())
	old.Kill(t)
	successor := c.AwaitHeir(t, old)
	require.Equal(t, "kept", successor.Do(t, "GET", "k").Text())
	old.Restart(t)
	c.WaitOK(t)
	require.Equal(t, []*redistest.Node{old}, c.ReplicasOf(t, successor))
	require.Contains(t, old.Do(t, "INFO", "replication").Text(), "role:slave")
}

func deadMasterFailsOver(t *testing.T, c *redistest.Cluster) {
	old := c.MasterOf(t, "k")
	replica := c.ReplicasOf(t, old)[0]
	old.Kill(t)
	require.Same(t, replica, c.FailOver(t, old))
	require.Contains(t, replica.Log(), "Forced failover user request accepted")
	old.Restart(t)
	c.WaitOK(t)
}

// another is a master that does not own the key.
func another(t *testing.T, c *redistest.Cluster, key string) *redistest.Node {
	t.Helper()
	owner := c.MasterOf(t, key)
	for _, n := range c.Masters(t) {
		if n != owner {
			return n
		}
	}
	require.Fail(t, "there is one master alone")
	return nil
}

func movedSlotServes(t *testing.T, c *redistest.Cluster) {
	const key = "{moving}:n"
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: hosts(c.Addresses()), Password: c.Nodes()[0].Password(), DisableCache: true,
	})
	require.NoError(t, err)
	defer client.Close()
	from, to := c.MasterOf(t, key), another(t, c, key)
	for i := range 250 { // more than one batch
		from.Do(t, "SET", "{moving}:"+strconv.Itoa(i), "v")
	}

	// Bounded, since a client follows the nodes that send it to and fro for as long as it may.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	stop, counted := make(chan struct{}), make(chan int64, 1)
	end := sync.OnceValue(func() int64 {
		close(stop)
		return <-counted
	})
	defer end()
	go func() {
		var n int64
		defer func() { counted <- n }()
		for {
			select {
			case <-stop:
				return
			default:
			}
			got, err := client.Do(ctx, client.B().Incr().Key(key).Build()).AsInt64()
			n++
			if err != nil || got != n {
				t.Errorf("the increment %d gave %d, %v", n, got, err)
				return
			}
		}
	}()
	c.MoveSlot(t, c.Slot(key), to)
	n := end()
	require.Positive(t, n)
	require.Same(t, to, c.MasterOf(t, key))
	require.Equal(t, n, to.Do(t, "GET", key).Int())
	require.Equal(t, int64(251), to.Do(t, "CLUSTER", "COUNTKEYSINSLOT", strconv.Itoa(int(c.Slot(key)))).Int())
	_, err = from.TryDo("GET", key)
	require.ErrorContains(t, err, "MOVED")
	c.WaitOK(t)
}

func moveHasStages(t *testing.T, c *redistest.Cluster) {
	const here, gone = "{stages}:here", "{stages}:gone"
	slot := c.Slot(here)
	from, to := c.MasterOf(t, here), another(t, c, here)
	from.Do(t, "MSET", here, "1", gone, "2")
	c.BeginMove(t, slot, to)
	c.MoveKeys(t, slot, to, gone)

	require.Same(t, from, c.MasterOf(t, here))
	require.Equal(t, "1", from.Do(t, "GET", here).Text())
	_, err := from.TryDo("GET", gone)
	require.ErrorContains(t, err, "ASK "+strconv.Itoa(int(slot))+" "+to.Announced())
	_, err = from.TryDo("MGET", here, gone)
	require.Error(t, err)
	require.Regexp(t, "TRYAGAIN|ASK", err.Error(), "servers before 7.0 send on what only the other one can refuse")
	_, err = to.TryDo("GET", gone)
	require.ErrorContains(t, err, "MOVED")
	asking := to.Dial(t)
	_, err = asking.Do("ASKING")
	require.NoError(t, err)
	value, err := asking.Do("GET", gone)
	require.NoError(t, err)
	require.Equal(t, "2", value.Text())
	_, err = asking.Do("ASKING")
	require.NoError(t, err)
	_, err = asking.Do("MGET", here, gone)
	require.ErrorContains(t, err, "TRYAGAIN")

	spy := spyOn(t, func(t testing.TB) { c.EndMove(t, slot, to) })
	require.Contains(t, spy.said.String(), "still has 1 keys of slot "+strconv.Itoa(int(slot)))
	c.MoveKeys(t, slot, to)
	c.EndMove(t, slot, to)
	require.Equal(t, []string{"1", "2"}, to.Do(t, "MGET", here, gone).Texts())
	_, err = from.TryDo("GET", here)
	require.ErrorContains(t, err, "MOVED "+strconv.Itoa(int(slot))+" "+to.Announced())
	c.WaitOK(t)
}

// hosts are the addresses without their scheme.
func hosts(urls []string) []string {
	var out []string
	for _, u := range urls {
		out = append(out, strings.TrimPrefix(u, "redis://"))
	}
	return out
}

func TestClusterSendsItsClientsThroughItsProxies(t *testing.T) {
	c := redistest.StartCluster(t, redistest.WithProxies(), redistest.WithMasters(2), redistest.WithPassword("secret"),
		redistest.WithNodeTimeout(time.Second))
	require.Len(t, c.Nodes(), 4)
	owner, other := c.MasterOf(t, "k"), another(t, c, "k")
	require.NotEqual(t, owner.Addr(), owner.Announced())
	require.Contains(t, c.Addresses(), "redis://"+owner.Announced())
	_, err := other.TryDo("GET", "k")
	require.ErrorContains(t, err, "MOVED "+strconv.Itoa(int(c.Slot("k")))+" "+owner.Announced())

	w := dialWire(t, owner.Announced())
	w.send("AUTH secret")
	require.Equal(t, "+OK", w.line())
	owner.SetLatency(150 * time.Millisecond)
	start := time.Now()
	w.send("SET k v")
	require.Equal(t, "+OK", w.line())
	require.GreaterOrEqual(t, time.Since(start), 145*time.Millisecond)
	require.Equal(t, "v", owner.Do(t, "GET", "k").Text(), "Do does not go through the proxy")

	owner.Cut()
	w.ended()
	_, err = net.Dial("tcp", owner.Announced())
	require.Error(t, err)
	owner.Restore(t)
	c.WaitOK(t)

	// Moves and failovers go by the announced addresses, too, and a restarted node still has its own.
	c.MoveSlot(t, c.Slot("k"), other)
	require.Equal(t, "v", other.Do(t, "GET", "k").Text())
	successor := c.FailOver(t, other)
	require.Equal(t, "v", successor.Do(t, "GET", "k").Text())
	other.Restart(t)
	c.WaitOK(t)
	_, err = other.TryDo("SET", "k", "w")
	require.ErrorContains(t, err, "MOVED "+strconv.Itoa(int(c.Slot("k")))+" "+successor.Announced())
}

func TestClusterWithoutProxiesSaysThatItHasNone(t *testing.T) {
	c := redistest.StartCluster(t, redistest.WithMasters(1), redistest.WithReplicas(0))
	require.Equal(t, c.Nodes(), c.Masters(t))
	require.PanicsWithValue(t, "redistest: no proxy is before "+c.Nodes()[0].Addr()+"; start the cluster with WithProxies",
		func() { c.Nodes()[0].SetLatency(time.Second) })
	spy := spyOn(t, func(t testing.TB) { c.FailOver(t, c.Nodes()[0]) })
	require.Contains(t, spy.said.String(), "no replica of "+c.Nodes()[0].Addr()+" lives that could take over")
}

func TestTopologiesEndWithTheirTestInWhateverState(t *testing.T) {
	var nodes []*redistest.Node
	var urls []string
	t.Run("inner", func(t *testing.T) {
		c := redistest.StartCluster(t, redistest.WithMasters(1), redistest.WithProxies())
		nodes = append(nodes, c.Nodes()...)
		urls = append(urls, c.Addresses()...)
		c.Nodes()[0].Freeze(t)
		c.Nodes()[1].Kill(t)
		s := redistest.StartSentinel(t, redistest.WithReplicas(1))
		nodes = append(append(nodes, s.Nodes()...), s.Sentinels()...)
		s.Nodes()[0].Freeze(t)
		s.Sentinels()[0].Freeze(t)
		s.Sentinels()[1].Kill(t)
		r := redistest.StartReplicated(t, 1)
		nodes = append(nodes, r.Nodes()...)
		r.Nodes()[1].Freeze(t)
	})
	for _, n := range nodes {
		require.Zero(t, n.PID())
		urls = append(urls, n.URL())
	}
	require.Len(t, urls, 2+2+2+3+2)
	for _, addr := range hosts(urls) {
		_, err := net.Dial("tcp", addr)
		require.Error(t, err)
	}
}

func TestTopologyThatCannotBeFailsTheTest(t *testing.T) {
	for complaint, start := range map[string]func(t testing.TB){
		"a topology speaks plain TCP alone": func(t testing.TB) { redistest.StartCluster(t, redistest.WithTLS()) },
		"no cluster has 0 masters":          func(t testing.TB) { redistest.StartCluster(t, redistest.WithMasters(0)) },
		"no sentinels watch -1 replicas":    func(t testing.TB) { redistest.StartSentinel(t, redistest.WithReplicas(-1)) },
		"without white space":               func(t testing.TB) { redistest.StartSentinel(t, redistest.WithSentinelPassword("a b")) },
		"ended before it was ready": func(t testing.TB) {
			redistest.StartReplicated(t, 1, redistest.WithConfig("no-such-setting", "1"))
		},
	} {
		spy := spyOn(t, start)
		require.True(t, spy.failed)
		require.Contains(t, spy.said.String(), complaint)
	}
	t.Setenv(redistest.EnvServers, "container")
	spy := spyOn(t, func(t testing.TB) { redistest.StartCluster(t) })
	require.Contains(t, spy.said.String(), "a server in a container cannot do this")
}
