package javaagent_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHoldingKeepsAllLocksThatItTook(t *testing.T) {
	const locks = 50
	client := open(t, "lockWatchdogTimeout: 900")
	holding, err := client.HoldMany(bounded(t), key(t, "lock"), locks, 4)
	require.NoError(t, err)
	require.Equal(t, locks, holding.Taken)
	renewed := func() bool { return server.CommandStats(t)["pexpire"] > 3*locks } // once when taken, then by the watchdog
	require.Eventually(t, renewed, 10*time.Second, 5*time.Millisecond)
	for i := range locks {
		require.Equal(t, int64(1), server.Do(t, "EXISTS", key(t, "lock")+":"+strconv.Itoa(i)).Int())
	}
	told, err := holding.Told(bounded(t))
	require.NoError(t, err)
	require.Zero(t, told)
}

// What the benchmark holds against Redisson.
func TestNobodyTellsAHoldingThatItsLocksHaveGone(t *testing.T) {
	client := open(t, "lockWatchdogTimeout: 900")
	holding, err := client.HoldMany(bounded(t), key(t, "lock"), 10, 2)
	require.NoError(t, err)
	server.FlushAll(t)
	server.ResetStats(t)
	// The watchdog looks in vain at least once, and then has nothing left to look at.
	require.Eventually(t, func() bool { return server.CommandStats(t)["hexists"] >= 10 }, 10*time.Second, 5*time.Millisecond)
	told, err := holding.Told(bounded(t))
	require.NoError(t, err)
	require.Zero(t, told)
}

func TestHoldingFailsWithTheReasonWhereALockCannotBeTaken(t *testing.T) {
	client := open(t)
	server.Do(t, "SET", key(t, "lock")+":3", "no lock")
	_, err := client.HoldMany(bounded(t), key(t, "lock"), 5, 1)
	require.ErrorContains(t, err, "3 locks of 5 were taken")
	require.ErrorContains(t, err, "WRONGTYPE")
}
