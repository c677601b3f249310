//go:build downloads

package redistest_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/internal/redistest/redisproc"
)

// TestEveryVersionIsWatchedAlike runs what hangs on the server's own words on each release that can be had.
func TestEveryVersionIsWatchedAlike(t *testing.T) {
	for _, version := range []redisproc.Version{redisproc.Redis6, redisproc.Redis7, redisproc.Redis8, redisproc.Valkey9} {
		t.Run(string(version), func(t *testing.T) {
			s := redistest.Start(t, redistest.WithVersion(version), redistest.WithPassword("pw"))
			rec, mon := s.Record(t), s.Monitor(t)
			mon.Reset(t)
			s.ResetStats(t)
			require.Empty(t, s.CommandStats(t))
			c := s.Client(t)
			require.NoError(t, c.Do(t.Context(), c.B().Hset().Key("h").FieldValue().FieldValue("f", "1").Build()).Error())
			require.Equal(t, int64(1), s.CommandStats(t)["hset"])
			require.Contains(t, fmt.Sprint(mon.Commands(t)), `["HSET" "h" "f" "1"]`)
			s.Do(t, "PUBLISH", "lock", "0")
			require.Equal(t, []redistest.Message{{Channel: "lock", Payload: "0"}}, rec.Messages(t))
			require.Equal(t, "hash \"h\" stays\n    \"f\" = \"1\"\n", s.Snapshot(t).Content())

			d := s.Dial(t)
			_, err := d.Do("SUBSCRIBE", "lock")
			require.NoError(t, err)
			require.Equal(t, []string{"lock"}, s.Channels(t))
			require.Equal(t, 1, s.KillPubSub(t))
			require.Equal(t, 1, s.KillAllClients(t))
			s.Stop(t)
			s.Cont(t)
			s.Restart(t)
			require.Empty(t, s.Snapshot(t).Entries)

			r := redistest.NewRelay(t, s)
			trap := r.Next(redistest.Sends("INCR"), redistest.LoseReply())
			w := dialWire(t, r.Addr())
			w.send("AUTH pw", "INCR n")
			require.Equal(t, "+OK", w.line())
			w.ended()
			require.Equal(t, int64(1), trap.AwaitReply(t).Int())
		})
	}
}

// TestEveryVersionFormsEveryTopology takes a minute and a half: the sentinels of 6.2 cannot be hurried.
func TestEveryVersionFormsEveryTopology(t *testing.T) {
	for _, version := range []redisproc.Version{redisproc.Redis6, redisproc.Redis7, redisproc.Redis8, redisproc.Valkey9} {
		t.Run(string(version), func(t *testing.T) {
			c := redistest.StartCluster(t, redistest.WithVersion(version), redistest.WithPassword("pw"), redistest.WithProxies())
			require.NotSame(t, c.MasterOf(t, "k"), c.FailOver(t, c.MasterOf(t, "k")))
			movedSlotServes(t, c)
			moveHasStages(t, c)
			frozenMasterIsReplaced(t, c)
			killedMasterIsReplaced(t, c)

			can, err := redistest.HasSentinel(t.Context(), version)
			require.NoError(t, err)
			require.True(t, can)
			s := redistest.StartSentinel(t, redistest.WithVersion(version), redistest.WithPassword("pw"), redistest.WithSentinelPassword("pw2"))
			old := s.FailOver(t)
			old.Kill(t)
			require.NotSame(t, old, s.AwaitHeir(t, old))
			old.Restart(t)
			s.WaitOK(t)

			r := redistest.StartReplicated(t, 2, redistest.WithVersion(version), redistest.WithPassword("pw"))
			r.Promote(t, r.Replicas()[1])
			require.Same(t, r.Nodes()[2], r.Master())
		})
	}
}
