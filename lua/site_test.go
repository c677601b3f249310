package lua_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/internal/redistest/redisproc"
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
	server := miniredis.RunT(t)
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

// site is one lock on one server, with what has been heard on its channel.
type site struct {
	conn    rueidis.Client
	publish string
	lock    string
	latch   string
	channel string
	begun   time.Time // before anything was written: no TTL can have fallen by more than the time since
	heard   chan string
}

// lastWords is published by a test to learn that it has heard everything which was published before.
const lastWords = "that is all"

func newSite(t *testing.T, conn rueidis.Client, publish, lock string) *site {
	t.Helper()
	s := &site{
		conn: conn, publish: publish, lock: lock,
		latch: "redisson_unlock_latch:{" + lock + "}:1", channel: "redisson_lock__channel:{" + lock + "}",
		begun: time.Now(), heard: make(chan string, 64),
	}
	s.listen(t)
	return s
}

// listen returns when the server has confirmed the subscription.
func (s *site) listen(t *testing.T) {
	t.Helper()
	subscribe := s.conn.B().Subscribe().Channel(s.channel).Build()
	if s.publish == "SPUBLISH" {
		subscribe = s.conn.B().Ssubscribe().Channel(s.channel).Build()
	}
	confirmed := make(chan struct{}, 8)
	ctx, cancel := context.WithCancel(rueidis.WithOnSubscriptionHook(t.Context(), func(rueidis.PubSubSubscription) {
		confirmed <- struct{}{}
	}))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.conn.Receive(ctx, subscribe, func(m rueidis.PubSubMessage) { s.heard <- m.Message })
	}()
	t.Cleanup(func() { cancel(); <-done })
	select {
	case <-confirmed:
	case <-done:
		t.Fatal("the subscription ended before it was confirmed")
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

// messages are those that the calls have published so far.
func (s *site) messages(t *testing.T) []string {
	t.Helper()
	s.do(t, s.publish, s.channel, lastWords)
	var all []string
	for {
		select {
		case m := <-s.heard:
			if m == lastWords {
				return all
			}
			all = append(all, m)
		case <-t.Context().Done():
			t.Fatal("the test ended before its last message arrived")
		}
	}
}

// forever is the TTL of a key that has none.
const forever = -time.Millisecond

// state is what Redis holds of a lock. The zero state is no key at all.
type state struct {
	fields map[string]string // of the hash
	text   string            // when the lock's key is a string instead
	list   []string          // when it is a list
	ttl    time.Duration     // as it was last set; forever for none
	latch  time.Duration     // the latch's TTL as it was last set; 0 when there must be no latch
}

// set brings the state about.
func (s *site) set(t *testing.T, given state) {
	t.Helper()
	for field, value := range given.fields {
		s.do(t, "HSET", s.lock, field, value)
	}
	if given.text != "" {
		s.do(t, "SET", s.lock, given.text)
	}
	for _, element := range given.list {
		s.do(t, "RPUSH", s.lock, element)
	}
	if given.ttl > 0 {
		s.do(t, "PEXPIRE", s.lock, millis(given.ttl))
	}
}

// requireState compares everything that Redis holds of the lock, further keys included.
func (s *site) requireState(t *testing.T, want state) {
	t.Helper()
	keys := map[string]string{}
	if kind := want.kind(); kind != "none" {
		keys[s.lock] = kind
	}
	if want.latch != 0 {
		keys[s.latch] = "string"
	}
	require.Equal(t, keys, s.keys(t), "keys and their types")

	switch want.kind() {
	case "hash":
		fields, err := s.do(t, "HGETALL", s.lock).AsStrMap()
		require.NoError(t, err)
		require.Equal(t, want.fields, fields)
	case "string":
		text, err := s.do(t, "GET", s.lock).ToString()
		require.NoError(t, err)
		require.Equal(t, want.text, text)
	case "list":
		list, err := s.do(t, "LRANGE", s.lock, "0", "-1").AsStrSlice()
		require.NoError(t, err)
		require.Equal(t, want.list, list)
	default:
		require.Zero(t, want.ttl, "a key that is absent has no TTL: mistake of the table")
	}
	if want.kind() != "none" {
		s.requireTTL(t, want.ttl, s.pttl(t, s.lock))
	}
	if want.latch != 0 {
		s.requireTTL(t, want.latch, s.pttl(t, s.latch))
	}
}

func (w state) kind() string {
	switch {
	case w.fields != nil:
		return "hash"
	case w.text != "":
		return "string"
	case w.list != nil:
		return "list"
	}
	return "none"
}

// keys are those that bear the lock's name.
func (s *site) keys(t *testing.T) map[string]string {
	t.Helper()
	names, err := s.do(t, "KEYS", "*"+s.lock+"*").AsStrSlice()
	require.NoError(t, err)
	found := map[string]string{}
	for _, name := range names {
		if found[name], err = s.do(t, "TYPE", name).ToString(); err != nil {
			t.Fatal(err)
		}
	}
	return found
}

func (s *site) pttl(t *testing.T, key string) time.Duration {
	t.Helper()
	ms, err := s.do(t, "PTTL", key).AsInt64()
	require.NoError(t, err)
	return time.Duration(ms) * time.Millisecond
}

// requireTTL allows for the time that has passed since the site was set up, and for rounding.
func (s *site) requireTTL(t *testing.T, want, got time.Duration) {
	t.Helper()
	if want == forever {
		require.Equal(t, forever, got, "TTL")
		return
	}
	require.LessOrEqual(t, got, want, "TTL")
	require.GreaterOrEqual(t, got, want-time.Since(s.begun)-2*time.Millisecond, "TTL")
}

// What miniredis learns to do one day must not stay untested.
func TestMiniredisCannot(t *testing.T) {
	conn := startMini(t)
	for capability, cannot := range miniCannot {
		_, err := conn.Do(t.Context(), conn.B().Arbitrary(cannot.probe...).Build()).ToMessage()
		require.Error(t, err, "%s: it is said that %s", capability, cannot.reason)
	}
}
