package pubsub_test

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/pubsub"
)

// asUser is a Hub's rig on a server with the user "app", who has exactly the given rules.
func asUser(t *testing.T, sharded bool, rules string, adapt func(*rueidis.ClientOption)) (rig, *redistest.Server) {
	server := redistest.Start(t, redistest.WithUser("app on >secret "+rules))
	o := server.ClientOption()
	o.Username, o.Password = "app", "secret"
	if adapt != nil {
		adapt(&o)
	}
	return rigOf(t, server, sharded, o), server
}

// pauses counts how often a Hub began a pause.
type pauses struct{ atomic.Int64 }

// schedule is Options.Retry.
func (p *pauses) schedule() backoff.BackOff {
	return counted{backoff.NewConstantBackOff(10 * time.Millisecond), p}
}

type counted struct {
	backoff.BackOff
	pauses *pauses
}

func (c counted) NextBackOff() time.Duration {
	c.pauses.Add(1)
	return c.BackOff.NextBackOff()
}

// WK-10: one subscribe fails, the next one starts fresh.
func TestARefusedChannelFailsAloneAndIsTriedAfreshByTheNextJoin(t *testing.T) {
	for _, c := range []struct {
		name    string
		sharded bool
		adapt   func(*rueidis.ClientOption)
		remedy  string
	}{
		{"plain", false, nil, "grant the user the channel with the ACL rule &secret:1, and +subscribe +unsubscribe +ping"},
		{"sharded", true, nil, "grant the user the channel with the ACL rule &secret:1, and +ssubscribe +sunsubscribe +ping"},
		{"RESP2", false, func(o *rueidis.ClientOption) { o.AlwaysRESP2 = true }, "&secret:1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, server := asUser(t, c.sharded, "resetchannels &open:* +@all", c.adapt)
			h := b.hub(t, time.Minute)
			first, refused, last := h.Join("open:1"), h.Join("secret:1"), h.Join("open:2")
			second := h.Join("secret:1")
			awaitConfirmed(t, first)
			awaitConfirmed(t, last)
			err := awaitRefused(t, refused)
			require.Equal(t, err, awaitRefused(t, second))
			require.ErrorContains(t, err, "NOPERM")
			require.ErrorContains(t, err, c.remedy)
			var typed *pubsub.RefusedError
			require.ErrorAs(t, err, &typed)
			require.Equal(t, "secret:1", typed.Channel)
			var reply *rueidis.RedisError
			require.ErrorAs(t, err, &reply)
			require.Equal(t, pubsub.Stats{Channels: 2, Members: 2, Confirmed: 2, Connected: true}, h.Stats())

			require.ErrorContains(t, awaitRefused(t, h.Join("secret:1")), "NOPERM")
			server.Do(t, "ACL", "SETUSER", "app", "&secret:*")
			again := h.Join("secret:1")
			awaitConfirmed(t, again)
			require.Error(t, refused.Err(), "the old member learns nothing new")
			require.False(t, refused.Confirmed())
			refused.Leave()
			second.Leave()
			require.True(t, again.Confirmed())
			require.Equal(t, pubsub.Stats{Channels: 3, Members: 3, Confirmed: 3, Connected: true}, h.Stats())
		})
	}
}

func TestALostPermissionIsACutAndThenARefusal(t *testing.T) {
	b, server := asUser(t, false, "resetchannels &open:* &closing:* +@all", nil)
	h := b.hub(t, 0)
	open, closing := h.Join("open:1"), h.Join("closing:1")
	settled(t, open)
	settled(t, closing)
	server.Do(t, "ACL", "SETUSER", "app", "resetchannels", "&open:*")
	awaitWake(t, open)
	require.ErrorContains(t, awaitRefused(t, closing), "NOPERM")
	awaitConfirmed(t, open)
}

func TestTheServersWordsAndARemedyAreGivenForOtherRefusals(t *testing.T) {
	t.Run("a server without sharded channels", func(t *testing.T) {
		b := onMiniredis(t)
		b.sharded = true
		err := awaitRefused(t, b.hub(t, 0).Join("news"))
		require.ErrorContains(t, err, "SSUBSCRIBE news was refused: unknown command")
		require.ErrorContains(t, err, "Redis 7.0 or newer")
	})
	t.Run("the wrong node", func(t *testing.T) {
		b, server := onRedis(t, true, redistest.WithConfig("cluster-enabled", "yes"))
		other := redistest.Start(t, redistest.WithConfig("cluster-enabled", "yes"))
		host, port := hostPort(t, other.Addr())
		server.Do(t, "CLUSTER", "ADDSLOTSRANGE", "0", "8191")
		other.Do(t, "CLUSTER", "ADDSLOTSRANGE", "8192", "16383")
		server.Do(t, "CLUSTER", "MEET", host, port)
		eventually(t, func() bool {
			_, err := server.TryDo("GET", "foo") // slot 12182
			return err != nil && len(err.Error()) > 5 && err.Error()[7:12] == "MOVED"
		}, "the nodes have not met")
		err := awaitRefused(t, b.hub(t, 0).Join("foo"))
		require.ErrorContains(t, err, "MOVED 12182 "+other.Addr())
		require.ErrorContains(t, err, "master of its slot")
	})
}

// Without the permission the subscription cannot be undone; it is forgotten, and a later Join still works.
func TestAUserWhoMayNotUnsubscribeCanJoinAgain(t *testing.T) {
	b, server := asUser(t, false, "&* +@all -unsubscribe", nil)
	h := b.hub(t, 0)
	for range 3 {
		s := h.Join("news")
		settled(t, s)
		b.publish(t, "news", "0")
		awaitWake(t, s)
		s.Leave()
		eventually(t, func() bool { return h.Stats() == pubsub.Stats{Connected: true} }, "not forgotten")
		require.Equal(t, []string{"news"}, server.Channels(t))
	}
}

func TestAUserWhoMayNotPingIsServed(t *testing.T) {
	b, server := asUser(t, false, "&* +@all -ping", nil)
	h := b.hub(t, 0)
	for range 3 {
		s := h.Join("news")
		awaitConfirmed(t, s)
		s.Leave()
		eventually(t, func() bool { return len(server.Channels(t)) == 0 }, "still subscribed")
	}
}

// A long script makes the server answer BUSY to nearly everything. rueidis panics when that is the answer to UNSUBSCRIBE.
func TestABusyServerIsNotToldToForgetBeforeItIsWell(t *testing.T) {
	for name, c := range map[string]struct {
		rules string
		resp2 bool
	}{
		"RESP3":        {rules: "+@all"},
		"RESP2":        {rules: "+@all", resp2: true},
		"without ping": {rules: "+@all -ping"},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t, redistest.WithConfig("lua-time-limit", "20"),
				redistest.WithUser("app on >secret ~* &* "+c.rules))
			o := server.ClientOption()
			o.Username, o.Password, o.AlwaysRESP2 = "app", "secret", c.resp2
			var pauses pauses
			h := newHub(t, pubsub.Options{Connect: rigOf(t, server, false, o).connect, Retry: pauses.schedule})
			leaving, staying := h.Join("leaving"), h.Join("staying")
			awaitConfirmed(t, leaving)
			settled(t, staying)

			script := make(chan error, 1)
			go func() {
				_, err := server.TryDo("EVAL", "while true do end", "0")
				script <- err
			}()
			eventually(t, func() bool {
				_, err := server.TryDo("PING")
				return err != nil
			}, "the server is not busy")
			leaving.Leave()
			late := h.Join("late") // refused with BUSY, which passes
			eventually(t, func() bool { return pauses.Load() >= 3 }, "not tried again")
			require.Equal(t, 3, h.Stats().Channels, "what was to be dropped is kept")
			require.True(t, h.Join("leaving").Confirmed(), "and is as good as before")
			require.NoError(t, late.Err())
			h.Join("leaving").Leave()

			server.Do(t, "SCRIPT", "KILL")
			require.Error(t, <-script)
			awaitConfirmed(t, late)
			require.True(t, staying.Confirmed())
			require.Zero(t, h.Stats().Reconnects)
		})
	}
}

// A full disk makes PING fail, which rueidis sends behind every UNSUBSCRIBE and panics about.
func TestAServerWithAFullDiskIsNotToldToForgetBeforeItIsWell(t *testing.T) {
	b, server := onRedis(t, false, redistest.WithConfig("save", "3600 1"))
	h := b.hub(t, 0)
	s := h.Join("news")
	awaitConfirmed(t, s)

	dir := server.Do(t, "CONFIG", "GET", "dir").Map()["dir"]
	obstacle := filepath.Join(dir, server.Do(t, "CONFIG", "GET", "dbfilename").Map()["dbfilename"])
	require.NoError(t, os.Mkdir(obstacle, 0o700), "a folder in the place of the dump")
	server.Do(t, "BGSAVE")
	eventually(t, func() bool {
		_, err := server.TryDo("PING")
		return err != nil
	}, "the server does not mind")

	s.Leave()
	awaitConfirmed(t, h.Join("other"))
	require.Equal(t, 2, h.Stats().Channels)
	require.Equal(t, []string{"news", "other"}, server.Channels(t))

	require.NoError(t, os.Remove(obstacle))
	server.Do(t, "BGSAVE")
	eventually(t, func() bool { return len(server.Channels(t)) == 1 }, "not undone when the disk was well")
	require.Zero(t, h.Stats().Reconnects)
}
