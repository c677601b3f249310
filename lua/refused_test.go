package lua_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/lua"
)

// RL-19: a key of another type is not a lock: the server's words come back, and the key stays as it was.
func TestWrongTypeIsRefusedAndUntouched(t *testing.T) {
	elsewise := map[string]any{
		"renew": []bool{false}, "read renew": []bool{false}, "grouped renew": []bool{false},
		"fair leave": false, // it reads the queue alone
	}
	var rows []row
	for _, e := range everyEffect() {
		reply, other := elsewise[e.name]
		if !other {
			reply = refused("WRONGTYPE")
		}
		for kind, given := range map[string]state{
			"a string": {text: own, ttl: short},
			"a list":   {list: []string{own, "1"}, ttl: forever},
		} {
			after := given
			if e.name == "settle" {
				after = given.latched() // the request must be barred all the same
			}
			rows = append(rows, row{promise: e.name + " of " + kind, given: given, steps: []step{{e.ask, reply}}, after: after})
		}
	}
	runRows(t, rows)
}

// The same for the keys beside the lock's own: whichever has another type, nothing has been changed when it shows.
func TestWrongTypeBesideTheLockIsRefusedBeforeAnythingChanges(t *testing.T) {
	server := redistest.Start(t)
	conn := server.Client(t)
	spoil := map[string][]string{
		"queue": {"SET", "a string"}, "timeouts": {"SET", "a string"}, "token": {"RPUSH", "a list"},
	}
	tried := 0
	for i, e := range everyEffect() {
		s := newSite(t, conn, "PUBLISH", "lock-"+strconv.Itoa(i)+"-")
		r := e.ask(s)
		for k, p := range r.script.Keys {
			wrong, besides := spoil[p.Name]
			if !besides {
				continue
			}
			tried++
			t.Run(p.Name+" of "+e.name, func(t *testing.T) {
				server.Do(t, "FLUSHALL")
				s.set(t, e.given)
				s.do(t, "DEL", r.keys[k])
				s.do(t, wrong[0], r.keys[k], wrong[1])
				before := server.Snapshot(t)
				value, err := r.run(t.Context(), conn)
				s.requireReply(t, 1, refused("WRONGTYPE"), value, err)
				requireSame(t, before, server.Snapshot(t))
				require.Empty(t, s.messages(t))
			})
		}
	}
	require.Positive(t, tried)
}

// requireSame allows TTLs to have fallen by the time between the snapshots.
func requireSame(t *testing.T, before, after redistest.Snapshot) {
	t.Helper()
	require.Len(t, after.Entries, len(before.Entries))
	for i, entry := range after.Entries {
		fell := before.Entries[i].TTL - entry.TTL
		require.GreaterOrEqual(t, fell, time.Duration(0), "TTL of %s", entry.Key)
		require.LessOrEqual(t, fell, after.At.Sub(before.At)+5*time.Second, "TTL of %s", entry.Key)
		entry.TTL = before.Entries[i].TTL
		require.Equal(t, before.Entries[i], entry)
	}
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
		for _, e := range everyEffect() {
			if !e.frees {
				continue
			}
			t.Run(publish+" by "+e.name, func(t *testing.T) {
				s := newSite(t, all, publish, "lock "+publish+" "+e.name+".")
				s.set(t, e.given)
				requireFreedUntold(t, mute, s, e.ask(s), "channel")
				require.Equal(t, leftByOther(t, all, publish, e), s.leftKeys(t))

				again, err := e.ask(s).run(t.Context(), mute)
				require.NoError(t, err)
				require.Equal(t, unheld, again)
			})
		}
	}
}

func requireFreedUntold(t *testing.T, conn lua.Conn, s *site, r request, words string) {
	t.Helper()
	value, err := r.run(t.Context(), conn)
	require.NoError(t, err)
	left, ok := value.(lua.Release)
	require.True(t, ok)
	require.True(t, left.Held)
	require.True(t, left.Freed)
	require.Contains(t, left.Untold, words, "the server's words")
	require.Empty(t, s.messages(t))
}

// leftByOther are the keys that the same call leaves where it is not refused.
func leftByOther(t *testing.T, conn rueidis.Client, publish string, e effect) map[string]string {
	t.Helper()
	s := newSite(t, conn, publish, "other "+publish+" "+e.name+".")
	s.set(t, e.given)
	value, err := e.ask(s).run(t.Context(), conn)
	s.requireReply(t, 1, freed, value, err)
	require.NotEmpty(t, s.messages(t))
	return s.leftKeys(t)
}

// leftKeys are the site's keys without the name of its lock.
func (s *site) leftKeys(t *testing.T) map[string]string {
	t.Helper()
	left := map[string]string{}
	for key, kind := range s.keys(t) {
		left[strings.ReplaceAll(key, s.lock, "")] = kind
	}
	return left
}

// A publish command that the server does not have (SPUBLISH before 7.0) is one more way to be refused.
func TestUnknownPublishCommandLeavesNoDoubtThatTheLockIsFree(t *testing.T) {
	forEachSetting(t, func(t *testing.T, conn rueidis.Client, in setting) {
		for _, e := range everyEffect() {
			if !e.frees {
				continue
			}
			t.Run(e.name, func(t *testing.T) {
				s := newSite(t, conn, in.publish, "lock "+e.name+".")
				s.set(t, e.given)
				old := *s
				old.publish = "PUBLISHMORE"
				requireFreedUntold(t, conn, s, e.ask(&old), "nknown")
				require.Equal(t, leftByOther(t, conn, in.publish, e), s.leftKeys(t))
			})
		}
	})
}

// Who frees nothing but invites a waiter to ask does not fail for that.
func TestForbiddenChannelDoesNotMatterToAMereInvitation(t *testing.T) {
	server := redistest.Start(t, redistest.WithUser("mute on >secret ~* resetchannels +@all"))
	mute, all := user(t, server, "mute"), server.Client(t)
	queue := nobody.waiting(waiter{own, 60 * time.Second}, waiter{next, 150 * time.Second})
	for name, c := range map[string]struct {
		given state
		step  step
	}{
		"leave of a free lock":            {queue, step{leave(own), true}},
		"fair release of a lock gone":     {queue, step{fairRelease(foreign, 0), unheld}},
		"read release of a lock gone":     {nobody, step{readRelease(own, 0), unheld}},
		"write release of a lock gone":    {nobody, step{writeRelease(own, 0), unheld}},
		"forced release of a lock gone":   {nobody, step{forceRelease, notFreed}},
		"forced release of a queue alone": {queue, step{fairForceRelease, notFreed}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, all, "PUBLISH", name)
			s.set(t, c.given)
			value, err := c.step.ask(s).run(t.Context(), mute)
			s.requireReply(t, 1, c.step.reply, value, err)
			require.Empty(t, s.messages(t))
		})
	}
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

// permit makes the user "some" one who may do everything, with these keys and channels alone.
func permit(t *testing.T, server *redistest.Server, keys, channels []string) rueidis.Client {
	t.Helper()
	rule := []string{"ACL", "SETUSER", "some", "reset", "on", ">secret", "+@all", "resetchannels"}
	for _, key := range keys {
		rule = append(rule, "~"+key)
	}
	for _, channel := range channels {
		rule = append(rule, "&"+channel)
	}
	server.Do(t, rule...)
	return user(t, server, "some")
}

// holdKeys are patterns for the keys of the read holds alone, without the keys that these are formed from.
func (s *site) holdKeys() []string { return []string{s.marker(own) + ":*", s.marker(foreign) + ":*"} }

// NM-04: whichever of its keys is forbidden, the call is refused before it has changed anything.
func TestForbiddenKeyIsRefusedAndNothingChanges(t *testing.T) {
	server := redistest.Start(t)
	all := server.Client(t)
	calls := append(everyEffect(),
		effect{name: "inspect", given: hadOnce, ask: inspect},
		effect{name: "inspect with more", given: hadOnce, ask: func(s *site) request {
			return untyped(lua.Inspect(s.lock, s.fair.Queue, s.token))
		}})
	for i, e := range calls {
		s := newSite(t, all, "PUBLISH", "lock-"+strconv.Itoa(i)+"-")
		s.set(t, e.given)
		r := e.ask(s)
		for k, key := range r.keys {
			t.Run(e.name+" without key "+strconv.Itoa(k+1), func(t *testing.T) {
				rest := append(slices.Delete(slices.Clone(r.keys), k, k+1), s.holdKeys()...)
				value, err := r.run(t.Context(), permit(t, server, rest, []string{"*"}))
				s.requireReply(t, 1, refused("NOPERM"), value, err)
				s.requireState(t, e.given)
				require.Empty(t, s.messages(t), key)
			})
		}
	}
}

// What a user must be allowed is what the headers name, and what is formed from it: the waiters' channels of a fair
// lock, and the read holds.
func TestKeysAndChannelsOfTheHeaderAreAllThatACallNeeds(t *testing.T) {
	server := redistest.Start(t)
	all := server.Client(t)
	for _, publish := range publishCommands() {
		for i, e := range everyEffect() {
			t.Run(e.name+" by "+publish, func(t *testing.T) {
				s := newSite(t, all, publish, "lock-"+publish+strconv.Itoa(i)+"-")
				s.set(t, e.given)
				r := e.ask(s)
				keys := append(slices.Clone(r.keys), s.holdKeys()...)
				value, err := r.run(t.Context(), permit(t, server, keys, []string{s.channel, s.channel + ":*", s.rw}))
				require.NoError(t, err)
				if e.frees {
					require.Equal(t, freed, value)
				}
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
		lua.Renew([]string{s.lock, "lock-forbidden"}, []string{own, own}, 2*old, true))
	require.ErrorContains(t, err, "NOPERM")
	s.requireState(t, hadOnce)
}

// What the user may not run is no proof that the lock is lost: telling the holder so would end work that is safe.
func TestRenewWithoutPermissionIsAnErrorAndNotALoss(t *testing.T) {
	server := redistest.Start(t, redistest.WithUser("partly on >secret ~* &* +@all -hmget"))
	s := newSite(t, server.Client(t), "PUBLISH", "lock")
	s.set(t, hadOnce)
	value, err := renew(own)(s).run(t.Context(), user(t, server, "partly"))
	s.requireReply(t, 1, refused("run"), value, err)
	s.requireState(t, hadOnce)
}

// The same for read holds, whose keys a user may be forbidden apart from the locks.
func TestReadRenewThatIsRefusedIsAnErrorAndNotALoss(t *testing.T) {
	due := reads(own, 1).marked(readHold(own, 1, short))
	for name, rule := range map[string]string{
		"a forbidden lock":    "~lock* ~{lock}:* &* +@all",
		"forbidden holds":     "~lock* ~forbidden* &* +@all",
		"a forbidden command": "~* &* +@all -hmget",
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t, redistest.WithUser("partly on >secret "+rule))
			s := newSite(t, server.Client(t), "PUBLISH", "lock")
			s.set(t, due)
			renewed, err := lua.Run(t.Context(), user(t, server, "partly"), lua.ReadRenew(
				[]string{"forbidden", s.lock}, []string{own, own}, []string{"{forbidden}:" + own, s.marker(own)}, 2*old, !s.lenient))
			require.Error(t, err)
			require.False(t, rueidis.IsRedisNil(err), "the server's words, not an empty reply")
			require.Nil(t, renewed)
			s.requireState(t, due)
		})
	}
}
