package lua_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/internal/redistest/redisproc"
	"github.com/redlatch/redlatch/lua"
)

// capability is what a server must be able to do for a test.
type capability string

const (
	sharding capability = "SPUBLISH"
	acl      capability = "ACL"
	info     capability = "INFO commandstats"
)

// miniCannot lists what is not tested against miniredis, and why. TestMiniredisCannot holds it against miniredis.
var miniCannot = map[capability]struct {
	reason string
	probe  []string // a command that miniredis refuses for this reason
}{
	sharding: {"it has no sharded channels", []string{"SPUBLISH", "channel", "0"}},
	acl:      {"it has one user, who may do everything", []string{"ACL", "LIST"}},
	info:     {"it does not count what it was asked", []string{"INFO", "commandstats"}},
}

// setting is a server and a way to publish on which the same tables are run.
type setting struct {
	name    string
	publish string
	start   func(*testing.T) rueidis.Client
}

// publishCommands are those of the server under test. Only a release that was chosen by name may lack one.
func publishCommands() []string {
	if redisproc.Version(os.Getenv(redisproc.EnvVersion)) == redisproc.Redis6 {
		return []string{"PUBLISH"}
	}
	return []string{"PUBLISH", "SPUBLISH"}
}

// settings are all of them: each table runs on each.
func settings() []setting {
	all := []setting{{"miniredis", "PUBLISH", startMini}}
	for _, publish := range publishCommands() {
		all = append(all, setting{"redis with " + publish, publish, startRedis})
	}
	return all
}

func startRedis(t *testing.T) rueidis.Client { return redistest.Start(t).Client(t) }

func startMini(t *testing.T) rueidis.Client {
	t.Helper()
	return connect(t, miniredis.RunT(t))
}

func connect(t *testing.T, server *miniredis.Miniredis) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{server.Addr()}, AlwaysRESP2: true, DisableCache: true, ForceSingleClient: true,
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

// forEachSetting starts each server and runs the test on it.
func forEachSetting(t *testing.T, test func(*testing.T, rueidis.Client, setting)) {
	for _, s := range settings() {
		t.Run(s.name, func(t *testing.T) { test(t, s.start(t), s) })
	}
}

// site is one lock on one server, with what has been heard on its channels.
type site struct {
	conn    rueidis.Client
	publish string
	lock    string
	latch   string
	channel string // of the kinds that have one for all waiters; a fair waiter's own one begins so
	rw      string // channel of a read/write lock
	fair    lua.FairKeys
	token   string
	begun   time.Time // before anything was written: no TTL can have fallen by more than the time since
	epoch   int64     // the same on the server's clock, in milliseconds since the epoch
	lenient bool      // scripts do not look for a lock of another kind
	heard   chan rueidis.PubSubMessage
}

// lastWords is published by a test to learn that it has heard everything which was published before.
const lastWords = "that is all"

func newSite(t *testing.T, conn rueidis.Client, publish, lock string) *site {
	t.Helper()
	s := &site{
		conn: conn, publish: publish, lock: lock,
		latch:   config.Prefixed(config.UnlockLatchPrefix, lock) + ":1",
		channel: config.Prefixed(config.ChannelPrefix, lock),
		rw:      config.Prefixed(config.RWChannelPrefix, lock),
		token:   config.Prefixed(config.TokenPrefix, lock),
		begun:   time.Now(), heard: make(chan rueidis.PubSubMessage, 64),
	}
	s.fair = lua.FairKeys{
		Lock: lock, Queue: config.Prefixed(config.QueuePrefix, lock),
		Timeouts: config.Prefixed(config.TimeoutPrefix, lock), Channel: s.channel,
	}
	s.epoch = s.serverTime(t)
	s.listen(t)
	return s
}

// marker is what the keys of an owner's read holds begin with.
func (s *site) marker(owner string) string {
	return config.Suffixed(s.lock, owner+":"+config.ReadTimeoutSuffix)
}

// markers is what the keys of all read holds begin with.
func (s *site) markers() string { return strings.TrimSuffix(config.Suffixed(s.lock, ""), ":") }

func (s *site) serverTime(t *testing.T) int64 {
	t.Helper()
	parts, err := s.do(t, "TIME").AsIntSlice()
	require.NoError(t, err)
	return parts[0]*1000 + parts[1]/1000
}

// listen returns when the server has confirmed the subscription. With PUBLISH it hears every channel there is; shard
// channels have no patterns, so that those of the owners in the tables are named.
func (s *site) listen(t *testing.T) {
	t.Helper()
	subscribe, confirmations := s.conn.B().Psubscribe().Pattern("*").Build(), 1
	if s.publish == "SPUBLISH" {
		channels := []string{s.channel, s.rw}
		for _, owner := range []string{own, next, third, foreign} {
			channels = append(channels, s.channel+":"+owner)
		}
		subscribe, confirmations = s.conn.B().Ssubscribe().Channel(channels...).Build(), len(channels)
	}
	confirmed := make(chan struct{}, confirmations)
	ctx, cancel := context.WithCancel(rueidis.WithOnSubscriptionHook(t.Context(), func(rueidis.PubSubSubscription) {
		select {
		case confirmed <- struct{}{}:
		default: // a later site confirms the same pattern on this connection
		}
	}))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.conn.Receive(ctx, subscribe, func(m rueidis.PubSubMessage) {
			if !strings.Contains(m.Channel, s.lock) {
				return // of another site on the same server
			}
			select {
			case s.heard <- m:
			case <-ctx.Done():
			}
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
	for range confirmations {
		select {
		case <-confirmed:
		case <-done:
			t.Fatal("the subscription ended before it was confirmed")
		}
	}
}

// do sends a command of the test itself.
func (s *site) do(t *testing.T, args ...string) rueidis.RedisResult {
	t.Helper()
	result := s.conn.Do(t.Context(), s.conn.B().Arbitrary(args...).Build())
	if err := result.Error(); err != nil && !rueidis.IsRedisNil(err) {
		t.Fatalf("%v: %v", args, err)
	}
	return result
}

// messages are those that the calls have published so far, each as said writes it.
func (s *site) messages(t *testing.T) []string {
	t.Helper()
	s.do(t, s.publish, s.channel, lastWords)
	var all []string
	for {
		select {
		case m := <-s.heard:
			if m.Channel == s.channel && m.Message == lastWords {
				return all
			}
			all = append(all, s.said(m))
		case <-t.Context().Done():
			t.Fatal("the test ended before its last message arrived")
		}
	}
}

// said is the message alone on the lock's channel; else what tells the channel stands before it, see toWaiter and onRW.
func (s *site) said(m rueidis.PubSubMessage) string {
	if m.Channel == s.rw {
		return onRW(m.Message)
	}
	if rest, ok := strings.CutPrefix(m.Channel, s.channel); ok {
		return strings.TrimPrefix(rest+" "+m.Message, " ")
	}
	return m.Channel + " " + m.Message
}

// toWaiter is the message 0 on the channel of a fair lock's waiter, onRW a message on the channel of a read/write lock.
func toWaiter(owner string) string { return ":" + owner + " 0" }

func onRW(message string) string { return "rw " + message }

// What miniredis learns to do one day must not stay untested.
func TestMiniredisCannot(t *testing.T) {
	conn := startMini(t)
	for capability, cannot := range miniCannot {
		_, err := conn.Do(t.Context(), conn.B().Arbitrary(cannot.probe...).Build()).ToMessage()
		require.Error(t, err, "%s: it is said that %s", capability, cannot.reason)
	}
}
