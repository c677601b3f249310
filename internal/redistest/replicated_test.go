package redistest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
)

func TestPromotedReplicaIsMasterOfAllOthersAlsoOverARestart(t *testing.T) {
	r := redistest.StartReplicated(t, 2, redistest.WithPassword("a secret"))
	first, second := r.Nodes()[0], r.Nodes()[1]
	require.Same(t, first, r.Master())
	require.Equal(t, r.Nodes()[1:], r.Replicas())
	require.Equal(t, "redis://"+second.Addr(), r.Addresses()[1])
	for _, replica := range r.Replicas() {
		require.Contains(t, replica.Do(t, "INFO", "replication").Text(), "master_link_status:up", "it is ready when it has started")
	}
	first.Do(t, "SET", "k", "v")
	require.Equal(t, "v", awaitCopy(t, first, second))

	r.Promote(t, second)
	require.Same(t, second, r.Master())
	require.Equal(t, []*redistest.Node{first, r.Nodes()[2]}, r.Replicas())
	require.Equal(t, "v", second.Do(t, "GET", "k").Text())
	_, err := first.TryDo("SET", "k", "w")
	require.ErrorContains(t, err, "READONLY")

	first.Restart(t)
	r.WaitOK(t)
	require.Equal(t, "v", first.Do(t, "GET", "k").Text())
	second.Restart(t)
	r.WaitOK(t)
	require.Contains(t, second.Do(t, "INFO", "replication").Text(), "role:master")
}

// awaitCopy returns the replica's value of k when it has all that the master had.
func awaitCopy(t *testing.T, master, replica *redistest.Node) string {
	t.Helper()
	conn := master.Dial(t)
	_, err := conn.Do("SET", "other", "v")
	require.NoError(t, err)
	_, err = conn.Do("WAIT", "2", "10000")
	require.NoError(t, err)
	return replica.Do(t, "GET", "k").Text()
}

func TestDeadMasterIsASecondOneUntilItIsToldOtherwise(t *testing.T) {
	r := redistest.StartReplicated(t, 1)
	first, second := r.Nodes()[0], r.Nodes()[1]
	first.Kill(t)
	r.Promote(t, second)
	first.Restart(t)
	require.Contains(t, first.Do(t, "INFO", "replication").Text(), "role:master")
	r.Promote(t, second)
	require.Contains(t, first.Do(t, "INFO", "replication").Text(), "role:slave")
}
