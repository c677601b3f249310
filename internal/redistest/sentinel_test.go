package redistest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/internal/redistest/redisproc"
)

// TestSentinel keeps one set of servers for all; each test leaves it as WaitOK wants it.
func TestSentinel(t *testing.T) {
	s := redistest.StartSentinel(t, redistest.WithPassword("of-data"), redistest.WithSentinelPassword("of-sentinels"))
	t.Run("IsReadyWhenItHasStarted", func(t *testing.T) { sentinelIsReady(t, s) })
	t.Run("FailOverKeepsWhatWasWritten", func(t *testing.T) {
		old := s.Master(t)
		old.Do(t, "SET", "k", "v")
		master := s.FailOver(t)
		require.NotSame(t, old, master)
		require.Same(t, master, s.Master(t))
		require.Contains(t, s.Replicas(t), old)
		require.Equal(t, "v", master.Do(t, "GET", "k").Text())
		require.Contains(t, old.Do(t, "INFO", "replication").Text(), "role:slave")
		s.WaitOK(t)
	})
	t.Run("KilledMasterIsReplacedAndComesBackAsReplica", func(t *testing.T) {
		old := s.Master(t)
		old.Kill(t)
		master := s.AwaitHeir(t, old)
		require.NotSame(t, old, master)
		require.Contains(t, master.Do(t, "INFO", "replication").Text(), "role:master")
		old.Restart(t)
		s.WaitOK(t)
		require.Same(t, master, s.Master(t))
		require.Contains(t, old.Do(t, "INFO", "replication").Text(), "role:slave")
	})
	t.Run("FrozenMasterIsReplacedAlsoWithoutOneSentinel", func(t *testing.T) {
		old, frozen := s.Master(t), s.Sentinels()[0]
		frozen.Freeze(t)
		old.Freeze(t)
		master := s.AwaitHeir(t, old)
		frozen.Thaw(t)
		old.Thaw(t)
		s.WaitOK(t)
		require.Same(t, master, s.Master(t))
	})
	t.Run("RestartedSentinelRemembers", func(t *testing.T) {
		n := s.Sentinels()[1]
		id := n.Do(t, "SENTINEL", "MYID").Text()
		pace, noPace := n.TryDo("SENTINEL", "DEBUG") // which servers before 7.0 do not know
		n.Kill(t)
		n.Restart(t)
		require.Equal(t, id, n.Do(t, "SENTINEL", "MYID").Text())
		require.Len(t, n.Do(t, "SENTINEL", "SENTINELS", s.MasterName()).List(), 2)
		again, noneAgain := n.TryDo("SENTINEL", "DEBUG")
		require.Equal(t, noPace, noneAgain)
		require.Equal(t, pace, again)
		s.WaitOK(t)
	})
}

func sentinelIsReady(t *testing.T, s *redistest.Sentinel) {
	require.Len(t, s.Addresses(), 3)
	require.Len(t, s.Nodes(), 3)
	master := s.Master(t)
	require.Same(t, s.Nodes()[0], master)
	require.Equal(t, s.Nodes()[1:], s.Replicas(t))
	for i, n := range s.Sentinels() {
		require.Equal(t, "redis://"+n.Addr(), s.Addresses()[i])
		require.Contains(t, n.Do(t, "SENTINEL", "CKQUORUM", s.MasterName()).Text(), "OK 3 usable Sentinels")
		require.Equal(t, "2", n.Do(t, "SENTINEL", "MASTER", s.MasterName()).Map()["num-slaves"])
		require.Equal(t, "of-sentinels", n.Password())
	}
	conn := master.Dial(t)
	_, err := conn.Do("SET", "k", "v")
	require.NoError(t, err)
	replicas, err := conn.Do("WAIT", "2", "10000")
	require.NoError(t, err)
	require.Equal(t, int64(2), replicas.Int())
}

func TestServerProgramSaysWhetherItCanBeASentinel(t *testing.T) {
	can, err := redistest.HasSentinel(t.Context(), redisproc.Default)
	require.NoError(t, err)
	require.True(t, can)
	t.Setenv(redisproc.EnvServer, "true")
	can, err = redistest.HasSentinel(t.Context(), redisproc.Default)
	require.NoError(t, err)
	require.False(t, can)
}
