package pubsub_test

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/pubsub"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds waits for what is certain to come; it is long because the machine may be busy, and no test waits it out.
const patience = 20 * time.Second

// rig is a server, however it speaks, with what a test needs of it.
type rig struct {
	connect func(context.Context) (rueidis.DedicatedClient, func(), error)
	sharded bool
	publish func(t testing.TB, channel, message string)
	// channels are those that the server has subscribers for.
	channels func(t testing.TB) []string
}

// hub makes a Hub on the server, closed with the test.
func (b rig) hub(t testing.TB, linger time.Duration) *pubsub.Hub {
	return newHub(t, pubsub.Options{Connect: b.connect, Sharded: b.sharded, Linger: linger})
}

func newHub(t testing.TB, o pubsub.Options) *pubsub.Hub {
	h := pubsub.New(o)
	t.Cleanup(h.Close)
	return h
}

// dedicate is Connect as the engine has it.
func dedicate(client rueidis.Client) func(context.Context) (rueidis.DedicatedClient, func(), error) {
	return func(context.Context) (rueidis.DedicatedClient, func(), error) {
		c, release := client.Dedicate()
		return c, release, nil
	}
}

// onRedis is a real server, spoken to with RESP3.
func onRedis(t testing.TB, sharded bool, opts ...redistest.Option) (rig, *redistest.Server) {
	server := redistest.Start(t, opts...)
	return rigOf(t, server, sharded, server.ClientOption()), server
}

func rigOf(t testing.TB, server *redistest.Server, sharded bool, o rueidis.ClientOption) rig {
	b := rig{connect: dedicate(client(t, o)), sharded: sharded, channels: server.Channels}
	command := "PUBLISH"
	if sharded {
		command = "SPUBLISH"
	}
	b.publish = func(t testing.TB, channel, message string) { server.Do(t, command, channel, message) }
	return b
}

func client(t testing.TB, o rueidis.ClientOption) rueidis.Client {
	c, err := rueidis.NewClient(o)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// onMiniredis is miniredis, which speaks RESP2 and knows no sharded channels.
func onMiniredis(t testing.TB) rig {
	mini := miniredis.RunT(t)
	c := client(t, rueidis.ClientOption{
		InitAddress: []string{mini.Addr()}, DisableCache: true, ForceSingleClient: true, AlwaysRESP2: true,
		ClientSetInfo: rueidis.DisableClientSetInfo,
	})
	return rig{
		connect:  dedicate(c),
		publish:  func(_ testing.TB, channel, message string) { mini.Publish(channel, message) },
		channels: func(testing.TB) []string { return mini.PubSubChannels("") },
	}
}

// everywhere runs a test on each kind of connection that a Hub can have.
func everywhere(t *testing.T, test func(t *testing.T, b rig)) {
	t.Run("redis", func(t *testing.T) {
		b, _ := onRedis(t, false)
		test(t, b)
	})
	t.Run("sharded", func(t *testing.T) {
		b, _ := onRedis(t, true)
		test(t, b)
	})
	t.Run("RESP2", func(t *testing.T) {
		server := redistest.Start(t)
		o := server.ClientOption()
		o.AlwaysRESP2 = true
		test(t, rigOf(t, server, false, o))
	})
	t.Run("miniredis", func(t *testing.T) { test(t, onMiniredis(t)) })
}

// awaitWake takes one wake-up.
func awaitWake(t testing.TB, s *pubsub.Subscription) {
	t.Helper()
	select {
	case <-s.Wake():
	case <-time.After(patience):
		require.FailNow(t, "no wake-up came")
	}
}

// awaitConfirmed takes wake-ups until the subscription is confirmed, as a waiter does.
func awaitConfirmed(t testing.TB, s *pubsub.Subscription) {
	t.Helper()
	await(t, s, s.Confirmed)
}

// await takes wake-ups until the condition holds.
func await(t testing.TB, s *pubsub.Subscription, condition func() bool) {
	t.Helper()
	for !condition() {
		require.NoError(t, s.Err())
		awaitWake(t, s)
	}
}

// awaitRefused takes wake-ups until the subscription has an error.
func awaitRefused(t testing.TB, s *pubsub.Subscription) error {
	t.Helper()
	for s.Err() == nil {
		awaitWake(t, s)
	}
	return s.Err()
}

// settled empties the latch: the confirmation of a subscription wakes, and a test that counts must not count it.
func settled(t testing.TB, s *pubsub.Subscription) {
	t.Helper()
	awaitConfirmed(t, s)
	select {
	case <-s.Wake():
	default:
	}
}

// quiet says that no wake-up is latched.
func quiet(s *pubsub.Subscription) bool {
	select {
	case <-s.Wake():
		return false
	default:
		return true
	}
}

// eventually awaits what only the server can show.
func eventually(t testing.TB, condition func() bool, msg string) {
	t.Helper()
	require.Eventually(t, condition, patience, 5*time.Millisecond, msg)
}
