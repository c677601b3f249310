package gate_test

import (
	"math"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/fencedlock/gate"
)

func TestStaleErrorTellsWhoWasRefusedAndByWhat(t *testing.T) {
	err := error(&gate.StaleError{Resource: "order:1001", Token: 33, Newest: 34})
	require.ErrorIs(t, err, gate.ErrStale)
	require.NotErrorIs(t, err, gate.ErrNoToken)
	for _, word := range []string{"order:1001", "33", "34", "stale"} {
		require.ErrorContains(t, err, word)
	}
}

// The hold of a plain lock has token 0, which must not open the gate of a resource that nobody has written yet.
func TestZeroIsNoToken(t *testing.T) {
	for _, token := range []int64{0, -1, math.MinInt64} {
		err := gate.CheckToken(token)
		require.ErrorIs(t, err, gate.ErrNoToken)
		require.NotErrorIs(t, err, gate.ErrStale)
		require.ErrorContains(t, err, "fencedlock")
	}
	for _, token := range []int64{1, 1 << 53, math.MaxInt64} {
		require.NoError(t, gate.CheckToken(token))
	}
}

// Who fences rows does not compile in a Redis client, and the other way round.
func TestGatesBringInWhatTheyGuardAlone(t *testing.T) {
	const redis, sql = "github.com/redis/rueidis", "database/sql"
	for pkg, unwanted := range map[string][]string{".": {redis, sql}, "./sqlgate": {redis}, "./redisgate": {sql}} {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", pkg).Output()
		require.NoError(t, err)
		deps := strings.Fields(string(out))
		require.Contains(t, deps, "github.com/redlatch/redlatch/fencedlock/gate")
		for _, other := range unwanted {
			require.NotContains(t, deps, other, pkg)
		}
	}
}
