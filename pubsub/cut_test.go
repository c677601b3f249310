package pubsub_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/pubsub"
)

// manyJoined is n confirmed members of as many channels, with empty latches.
func manyJoined(t *testing.T, h *pubsub.Hub, n int) []*pubsub.Subscription {
	members := make([]*pubsub.Subscription, n)
	for i := range members {
		members[i] = h.Join(fmt.Sprint("name:", i))
	}
	for _, s := range members {
		settled(t, s)
	}
	return members
}

func TestACutWakesAllMembersAndEverythingIsSubscribedAgain(t *testing.T) {
	for _, resp2 := range []bool{false, true} {
		t.Run(fmt.Sprint("RESP2=", resp2), func(t *testing.T) {
			server := redistest.Start(t)
			o := server.ClientOption()
			o.AlwaysRESP2 = resp2
			b := rigOf(t, server, false, o)
			h := b.hub(t, time.Minute)
			members := manyJoined(t, h, 3000)
			lingering := h.Join("lingering")
			awaitConfirmed(t, lingering)
			lingering.Leave()

			require.Equal(t, 1, server.KillPubSub(t))
			for _, s := range members {
				awaitWake(t, s)
			}
			for _, s := range members {
				awaitConfirmed(t, s)
			}
			require.Equal(t, pubsub.Stats{Channels: 3000, Members: 3000, Confirmed: 3000, Connected: true, Reconnects: 1},
				h.Stats())
			require.Len(t, server.Channels(t), 3000, "what only lingered is not subscribed again")
			settled(t, members[7])
			b.publish(t, "name:7", "0")
			awaitWake(t, members[7])
			require.Len(t, server.Clients(t, "pubsub"), 1)
		})
	}
}

// Confirmed after a cut is the new subscription, never the memory of the old.
func TestTheConfirmationAfterACutWakesAgain(t *testing.T) {
	b, server := onRedis(t, true)
	h := b.hub(t, 0)
	s := h.Join("news")
	settled(t, s)
	for i := uint64(1); i <= 5; i++ {
		server.KillPubSub(t)
		awaitWake(t, s)
		await(t, s, func() bool { return h.Stats().Reconnects == i && s.Confirmed() })
	}
}

func TestARestartedServerIsSubscribedAgain(t *testing.T) {
	b, server := onRedis(t, false)
	h := b.hub(t, 0)
	members := manyJoined(t, h, 100)
	server.Kill(t)
	for _, s := range members {
		awaitWake(t, s)
		require.False(t, s.Confirmed())
		require.NoError(t, s.Err())
	}
	late := h.Join("late")
	require.False(t, late.Confirmed())
	require.False(t, h.Stats().Connected)
	members[0].Leave()

	server.Restart(t)
	for _, s := range append(members[1:], late) {
		awaitConfirmed(t, s)
	}
	require.Len(t, server.Channels(t), 100)
}

// counting counts the calls of Connect.
func counting(b *rig, n *atomic.Int64) {
	connect := b.connect
	b.connect = func(ctx context.Context) (rueidis.DedicatedClient, func(), error) {
		n.Add(1)
		return connect(ctx)
	}
}

func TestAServerThatIsDownIsLeftAloneWhenNobodyWaits(t *testing.T) {
	b, server := onRedis(t, false)
	var dials atomic.Int64
	counting(&b, &dials)
	h := b.hub(t, 0)
	s := h.Join("news")
	awaitConfirmed(t, s)
	s.Leave()
	eventually(t, func() bool { return h.Stats().Channels == 0 }, "not undone")
	server.Kill(t)
	eventually(t, func() bool { return !h.Stats().Connected }, "the cut was not noticed")
	require.Equal(t, int64(1), dials.Load())

	server.Restart(t)
	awaitConfirmed(t, h.Join("news"))
	require.Equal(t, int64(2), dials.Load())
}

// A frozen server accepts connections and answers nothing.
func TestAFrozenServerDoesNotHoldUpClose(t *testing.T) {
	for _, resp2 := range []bool{false, true} {
		for name, before := range map[string]func(t *testing.T, b rig, server *redistest.Server, h *pubsub.Hub){
			"before the first connection": func(t *testing.T, _ rig, server *redistest.Server, h *pubsub.Hub) {
				server.Stop(t)
				h.Join("news")
			},
			"while it is asked": func(t *testing.T, _ rig, server *redistest.Server, h *pubsub.Hub) {
				awaitConfirmed(t, h.Join("news"))
				server.Stop(t)
				h.Join("other")
			},
			"while it is told to forget": func(t *testing.T, _ rig, server *redistest.Server, h *pubsub.Hub) {
				s := h.Join("news")
				awaitConfirmed(t, s)
				server.Stop(t)
				s.Leave()
			},
			"while idle": func(t *testing.T, _ rig, server *redistest.Server, h *pubsub.Hub) {
				awaitConfirmed(t, h.Join("news"))
				server.Stop(t)
			},
		} {
			t.Run(fmt.Sprintf("%s RESP2=%v", name, resp2), func(t *testing.T) {
				server := redistest.Start(t)
				o := server.ClientOption()
				o.AlwaysRESP2 = resp2
				b := rigOf(t, server, false, o)
				h := pubsub.New(pubsub.Options{Connect: b.connect})
				before(t, b, server, h)
				start := time.Now()
				h.Close()
				require.Less(t, time.Since(start), 2*time.Second)
				server.Cont(t)
			})
		}
	}
}

// rueidis's ping finds out that nothing comes back.
func TestAFrozenServerIsACutWhenThePingFails(t *testing.T) {
	server := redistest.Start(t)
	o := server.ClientOption()
	o.ConnWriteTimeout = 300 * time.Millisecond
	o.Dialer.KeepAlive = 100 * time.Millisecond
	o.Dialer.Timeout = 300 * time.Millisecond
	h := rigOf(t, server, false, o).hub(t, 0)
	s := h.Join("news")
	settled(t, s)
	server.Stop(t)
	asked := h.Join("other")
	awaitWake(t, s)
	require.False(t, s.Confirmed())
	server.Cont(t)
	awaitConfirmed(t, s)
	awaitConfirmed(t, asked)
}

// A slot that moves away makes the server send sunsubscribe.
func TestAChannelThatTheServerDropsIsWokenAndSoughtAgain(t *testing.T) {
	b, server := onRedis(t, true, redistest.WithConfig("cluster-enabled", "yes"))
	server.Do(t, "CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	eventually(t, func() bool { return clusterIsOk(server) }, "no cluster")
	var pauses pauses
	h := newHub(t, pubsub.Options{Connect: b.connect, Sharded: true, Linger: time.Minute, Retry: pauses.schedule})
	s, other, lingering := h.Join("{a}news"), h.Join("{b}news"), h.Join("{a}lingering")
	for _, s := range []*pubsub.Subscription{s, other, lingering} {
		settled(t, s)
	}
	lingering.Leave()
	slot := server.Do(t, "CLUSTER", "KEYSLOT", "{a}").Text()

	server.Do(t, "CLUSTER", "DELSLOTS", slot)
	awaitWake(t, s)
	require.False(t, s.Confirmed())
	require.True(t, other.Confirmed())
	require.True(t, quiet(other))
	require.NoError(t, s.Err())

	// WK-11: while the slot has no master the answer is CLUSTERDOWN, which is remembered by nobody.
	late := h.Join("{a}late")
	eventually(t, func() bool { return pauses.Load() >= 5 }, "not asked again")
	require.NoError(t, late.Err())
	server.Do(t, "CLUSTER", "ADDSLOTS", slot)
	awaitConfirmed(t, s)
	awaitConfirmed(t, late)
	require.Zero(t, h.Stats().Reconnects)
	require.Equal(t, []string{"{a}late", "{a}news", "{b}news"}, server.Channels(t))
	settled(t, s)
	b.publish(t, "{a}news", "0")
	awaitWake(t, s)
}

// A refusal that passes leaves the subscription in force, and it is undone when the refusal has passed.
func TestAClusterThatIsDownKeepsWhatItDoesNotUndo(t *testing.T) {
	b, server := onRedis(t, true,
		redistest.WithConfig("cluster-enabled", "yes"), redistest.WithConfig("cluster-allow-pubsubshard-when-down", "no"))
	server.Do(t, "CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	eventually(t, func() bool { return clusterIsOk(server) }, "no cluster")
	var pauses pauses
	h := newHub(t, pubsub.Options{Connect: b.connect, Sharded: true, Retry: pauses.schedule})
	s := h.Join("{b}news")
	awaitConfirmed(t, s)
	slot := server.Do(t, "CLUSTER", "KEYSLOT", "{a}").Text()
	server.Do(t, "CLUSTER", "DELSLOTS", slot)
	eventually(t, func() bool { return !clusterIsOk(server) }, "the cluster does not mind")

	s.Leave()
	eventually(t, func() bool { return pauses.Load() >= 3 }, "not tried again")
	require.Equal(t, []string{"{b}news"}, server.Channels(t))
	require.Equal(t, 1, h.Stats().Channels)
	again := h.Join("{b}news")
	awaitConfirmed(t, again)
	again.Leave()

	server.Do(t, "CLUSTER", "ADDSLOTS", slot)
	eventually(t, func() bool { return len(server.Channels(t)) == 0 }, "not undone when the cluster was well")
	eventually(t, func() bool { return h.Stats() == pubsub.Stats{Connected: true} }, "the table is not empty")
}

func clusterIsOk(server *redistest.Server) bool {
	reply, err := server.TryDo("SPUBLISH", "{b}", "x")
	return err == nil && !reply.IsNil()
}
