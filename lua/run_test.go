package lua_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/lua"
)

// EVALSHA first and once where the server knows the script: the cost that the engine's budgets count on.
func TestRunOfAKnownScriptIsOneEVALSHA(t *testing.T) {
	server := redistest.Start(t)
	conn := server.Client(t)
	for _, script := range lua.Catalog() {
		server.Do(t, "SCRIPT", "LOAD", script.Source)
	}
	for i, e := range append(everyEffect(), effect{name: "inspect", ask: inspect}) {
		s := newSite(t, conn, "PUBLISH", "lock-"+strconv.Itoa(i)+"-")
		s.set(t, e.given)
		server.ResetStats(t)
		_, err := e.ask(s).run(t.Context(), conn)
		require.NoError(t, err, e.name)
		stats := server.CommandStats(t)
		require.EqualValues(t, 1, stats["evalsha"], e.name)
		require.Zero(t, stats["eval"], e.name)
	}
}

// HA-13, WD-20: a server that has lost its scripts (SCRIPT FLUSH here, a restart or failover elsewhere) costs a second
// round trip within the call, and that once.
func TestRunSendsAnUnknownScriptInFullWithinTheCall(t *testing.T) {
	server := redistest.Start(t)
	conn := server.Client(t)
	s := newSite(t, conn, "PUBLISH", "lock")
	for i, step := range []step{
		{acquire(own), taken},
		{reenter(own, 2), taken},
		{renew(own), []bool{true}},
		{settle(own), 2},
		{fresh(release(own, 1)), remains},
		{fresh(handOver(own, next)), taken},
		{fresh(release(next, 0)), freed},
		{forceRelease, notFreed},
		{inspect, lua.State{Type: "none", TTL: -2 * time.Millisecond, Fields: map[string]string{}, Queue: []string{}}},
	} {
		server.Do(t, "SCRIPT", "FLUSH")
		server.ResetStats(t)
		value, err := step.ask(s).run(t.Context(), conn)
		s.requireReply(t, i+1, step.reply, value, err)
		stats := server.CommandStats(t)
		require.EqualValues(t, 1, stats["evalsha"], "step %d", i+1)
		require.EqualValues(t, 1, stats["eval"], "step %d", i+1)
	}
	require.Equal(t, []string{"0"}, s.messages(t), "no step ran twice")
}

func TestRunAfterARestartOfTheServer(t *testing.T) {
	server := redistest.Start(t)
	conn := server.Client(t)
	call := lua.Acquire("lock", "latch", own, lease, true)
	_, err := lua.Run(t.Context(), conn, call)
	require.NoError(t, err)
	server.Restart(t)
	// The connection's end may be seen only by the next command that uses it.
	require.Eventually(t, func() bool {
		grant, err := lua.Run(t.Context(), conn, call)
		return err == nil && grant.Acquired
	}, 10*time.Second, 10*time.Millisecond)
}

func TestRunAllKeepsOrderAndSendsInFullOnlyWhatIsUnknown(t *testing.T) {
	const many = 50
	server := redistest.Start(t)
	conn := server.Client(t)
	var calls []lua.Call[lua.Grant]
	for i := range many {
		lock, latch := fmt.Sprintf("lock-%d", i), fmt.Sprintf("latch-%d", i)
		holder := foreign
		if i%3 == 0 {
			holder = own
		}
		server.Do(t, "HSET", lock, holder, "1")
		if i%2 == 0 {
			calls = append(calls, lua.Acquire(lock, latch, own, lease, true))
		} else {
			calls = append(calls, lua.HandOver(lock, latch, own, next, lease, true))
		}
	}
	server.Do(t, "SCRIPT", "LOAD", calls[0].Script.Source)
	server.ResetStats(t)

	results := lua.RunAll(t.Context(), conn, calls)

	require.Len(t, results, many)
	for i, result := range results {
		require.NoError(t, result.Err, "call %d", i)
		require.Equal(t, i%3 == 0, result.Value.Acquired, "call %d", i)
	}
	stats := server.CommandStats(t)
	require.EqualValues(t, many, stats["evalsha"])
	require.EqualValues(t, many/2, stats["eval"])
}

func TestRunAllGivesEachCallItsOwnError(t *testing.T) {
	forEachSetting(t, func(t *testing.T, conn rueidis.Client, in setting) {
		s := newSite(t, conn, in.publish, "lock")
		s.do(t, "SET", "lock-3", "not a lock")
		s.do(t, "HSET", "lock-5", foreign, "1")
		var calls []lua.Call[lua.Grant]
		for i := range 8 {
			calls = append(calls, lua.Acquire(fmt.Sprintf("lock-%d", i), s.latch, own, lease, true))
		}
		// Once with the script unknown, once with it known.
		for round := range 2 {
			for i, result := range lua.RunAll(t.Context(), conn, calls) {
				switch i {
				case 3:
					require.ErrorContains(t, result.Err, "WRONGTYPE", "round %d", round)
					require.Zero(t, result.Value)
				case 5:
					require.NoError(t, result.Err)
					require.Equal(t, lua.Grant{TTL: forever}, result.Value)
				default:
					require.NoError(t, result.Err, "round %d, call %d", round, i)
					require.Equal(t, taken, result.Value, "round %d, call %d", round, i)
				}
			}
		}
	})
}

func TestRunAllOfNothingSendsNothing(t *testing.T) {
	server := redistest.Start(t)
	conn := server.Client(t)
	server.ResetStats(t)
	require.Empty(t, lua.RunAll[bool](t.Context(), conn, nil))
	require.Zero(t, server.CommandStats(t)["evalsha"])
}

func TestEndedContextIsTheErrorOfEachCall(t *testing.T) {
	server := redistest.Start(t)
	conn := server.Client(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	call := lua.Inspect("lock")
	_, err := lua.Run(ctx, conn, call)
	require.ErrorIs(t, err, context.Canceled)
	results := lua.RunAll(ctx, conn, []lua.Call[lua.State]{call, call})
	require.Len(t, results, 2)
	for _, result := range results {
		require.ErrorIs(t, result.Err, context.Canceled)
	}
}

func TestServerThatIsGoneIsTheErrorOfEachCall(t *testing.T) {
	server := redistest.Start(t)
	conn := server.Client(t)
	server.Kill(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := lua.Run(ctx, conn, lua.Acquire("lock", "latch", own, lease, true))
	require.Error(t, err)
	call := lua.Renew([]string{"lock"}, []string{own}, lease, true)
	for _, result := range lua.RunAll(ctx, conn, []lua.Call[[]bool]{call, call, call}) {
		require.Error(t, result.Err)
		require.Nil(t, result.Value)
	}
}
