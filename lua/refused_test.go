package lua_test

import (
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/lua"
)

// RL-19: a key of another type is not a lock: the server's words come back, and the key stays as it was.
func TestWrongTypeIsRefusedAndUntouched(t *testing.T) {
	const wrongType = refused("WRONGTYPE")
	calls := []struct {
		name    string
		ask     func(*site) request
		reply   any
		latched bool
	}{
		{name: "acquire", ask: acquire(own), reply: wrongType},
		{name: "re-enter", ask: reenter(own, 2), reply: wrongType},
		{name: "release", ask: release(own, 0), reply: wrongType},
		{name: "release to a lower count", ask: release(own, 1), reply: wrongType},
		{name: "force-release", ask: forceRelease, reply: wrongType},
		{name: "hand-over", ask: handOver(own, next), reply: wrongType},
		// The request must be barred all the same.
		{name: "settle", ask: settle(own), reply: wrongType, latched: true},
		{name: "renew", ask: renew(own), reply: []bool{false}},
	}
	var rows []row
	for _, call := range calls {
		for kind, given := range map[string]state{
			"a string":          {text: "not a lock", ttl: forever},
			"a string with TTL": {text: own, ttl: short},
			"a list":            {list: []string{own, "1"}, ttl: forever},
		} {
			after := given
			if call.latched {
				after = given.latched()
			}
			rows = append(rows, row{
				promise: call.name + " of " + kind, given: given, steps: []step{{call.ask, call.reply}}, after: after,
			})
		}
	}
	runRows(t, rows)
}

// user is a client of the server that logs in as the user of that name.
func user(t *testing.T, server *redistest.Server, name string) rueidis.Client {
	t.Helper()
	option := server.ClientOption()
	option.Username, option.Password = name, "secret"
	client, err := rueidis.NewClient(option)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

// NM-05: with the keys allowed and the channel forbidden, the lock is free and its waiters are not told. The caller
// learns both, since the same release sent again would find nothing.
func TestForbiddenChannelLeavesNoDoubtThatTheLockIsFree(t *testing.T) {
	server := redistest.Start(t, redistest.WithUser("mute on >secret ~* resetchannels +@all"))
	mute, all := user(t, server, "mute"), server.Client(t)
	for _, publish := range publishCommands() {
		for name, ask := range map[string]func(*site) request{"release": release(own, 0), "force-release": forceRelease} {
			t.Run(publish+" by "+name, func(t *testing.T) {
				s := newSite(t, all, publish, name+publish)
				s.set(t, hadTwice)
				value, err := ask(s).run(t.Context(), mute)
				require.NoError(t, err)
				left, ok := value.(lua.Release)
				require.True(t, ok)
				require.True(t, left.Held)
				require.True(t, left.Freed)
				require.Contains(t, left.Untold, "channel", "the server's words")
				s.requireState(t, nobody)
				require.Empty(t, s.messages(t))

				again, err := release(own, 0)(s).run(t.Context(), mute)
				require.NoError(t, err)
				require.Equal(t, unheld, again)
			})
		}
	}
}

// A publish command that the server does not have (SPUBLISH before 7.0) is one more way to be refused.
func TestUnknownPublishCommandLeavesNoDoubtThatTheLockIsFree(t *testing.T) {
	forEachSetting(t, func(t *testing.T, conn rueidis.Client, in setting) {
		for name, ask := range map[string]func(*site) request{"release": release(own, 0), "force-release": forceRelease} {
			s := newSite(t, conn, in.publish, name)
			s.set(t, hadOnce)
			old := *s
			old.publish = "PUBLISHMORE"
			value, err := ask(&old).run(t.Context(), conn)
			require.NoError(t, err, name)
			left, ok := value.(lua.Release)
			require.True(t, ok)
			require.True(t, left.Held && left.Freed, name)
			require.Contains(t, left.Untold, "nknown", name)
			s.requireState(t, nobody)
			require.Empty(t, s.messages(t))
		}
	})
}

// A release that publishes nothing asks for no channel.
func TestForbiddenChannelDoesNotMatterWhileTheLockIsHeld(t *testing.T) {
	server := redistest.Start(t, redistest.WithUser("mute on >secret ~* resetchannels +@all"))
	mute, all := user(t, server, "mute"), server.Client(t)
	s := newSite(t, all, "PUBLISH", "held")
	for i, step := range []step{
		{acquire(own), taken},
		{reenter(own, 2), taken},
		{release(own, 1), remains},
		{renew(own), []bool{true}},
		{settle(own), 1},
	} {
		value, err := step.ask(s).run(t.Context(), mute)
		s.requireReply(t, i+1, step.reply, value, err)
	}
	s.requireState(t, holds(own, 1).latched())
	require.Empty(t, s.messages(t))
}

// NM-04: whichever of its keys is forbidden, the call is refused before it has changed anything.
func TestForbiddenKeyIsRefusedAndNothingChanges(t *testing.T) {
	server := redistest.Start(t,
		redistest.WithUser("nolock on >secret ~redisson_* &* +@all"),
		redistest.WithUser("nolatch on >secret ~lock-* ~redisson_lock__channel* &* +@all"),
		redistest.WithUser("nochannelkey on >secret ~lock-* ~redisson_unlock_latch* &* +@all"))
	all := server.Client(t)
	calls := map[string]func(*site) request{
		"acquire": acquire(own), "reenter": reenter(own, 2), "release": release(own, 0), "release to 1": release(own, 1),
		"settle": settle(own), "force-release": forceRelease, "renew": renew(own), "hand-over": handOver(own, next),
		"inspect": inspect,
	}
	refuses := map[string][]string{
		"nolock":       {"acquire", "reenter", "release", "release to 1", "settle", "force-release", "renew", "hand-over", "inspect"},
		"nolatch":      {"acquire", "reenter", "release", "release to 1", "settle", "hand-over"},
		"nochannelkey": {"release", "release to 1", "force-release"},
	}
	for name, refusedCalls := range refuses {
		conn := user(t, server, name)
		for _, call := range refusedCalls {
			t.Run(call+" by "+name, func(t *testing.T) {
				s := newSite(t, all, "PUBLISH", "lock-"+name+"-"+call)
				s.set(t, hadTwice)
				value, err := calls[call](s).run(t.Context(), conn)
				s.requireReply(t, 1, refused("NOPERM"), value, err)
				s.requireState(t, hadTwice)
				require.Empty(t, s.messages(t))
			})
		}
	}
}

// One forbidden name in a batch is an error of the whole batch, and must not pass for a batch of lost locks.
func TestRenewOfAForbiddenKeyIsAnErrorAndNotALoss(t *testing.T) {
	server := redistest.Start(t, redistest.WithUser("partly on >secret ~lock-allowed* &* +@all"))
	s := newSite(t, server.Client(t), "PUBLISH", "lock-allowed")
	s.set(t, hadOnce)
	_, err := lua.Run(t.Context(), user(t, server, "partly"),
		lua.Renew([]string{s.lock, "lock-forbidden"}, []string{own, own}, 2*old))
	require.ErrorContains(t, err, "NOPERM")
	s.requireState(t, hadOnce)
}

// What the user may not run is no proof that the lock is lost: telling the holder so would end work that is safe.
func TestRenewWithoutPermissionIsAnErrorAndNotALoss(t *testing.T) {
	server := redistest.Start(t, redistest.WithUser("partly on >secret ~* &* +@all -hexists"))
	s := newSite(t, server.Client(t), "PUBLISH", "lock")
	s.set(t, hadOnce)
	value, err := renew(own)(s).run(t.Context(), user(t, server, "partly"))
	s.requireReply(t, 1, refused("run"), value, err)
	s.requireState(t, hadOnce)
}
