package redistest

import (
	"context"
	"crypto/tls"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// Endpoint is an address at which a Redis answers, and what can be asked of it over the wire. Server and Mini have it in
// common, so that a test which keeps to it runs on both. It is safe for concurrent use.
type Endpoint struct {
	addr     string
	password string
	tls      *tls.Config // what clients need; nil for plain TCP
	resp2    bool        // the server speaks RESP2 alone
}

// Addr is host:port; for a process 127.0.0.1:port. It stays the same over Restart.
func (e *Endpoint) Addr() string { return e.addr }

// URL is redis://127.0.0.1:port or rediss://…, with the password if the server has one.
func (e *Endpoint) URL() string {
	u := url.URL{Scheme: "redis", Host: e.addr}
	if e.tls != nil {
		u.Scheme = "rediss"
	}
	if e.password != "" {
		u.User = url.UserPassword("", e.password)
	}
	return u.String()
}

// Password is the default user's password, "" for none.
func (e *Endpoint) Password() string { return e.password }

// TLS is what a client needs to trust the server; nil when it speaks plain TCP. Each call returns a copy.
func (e *Endpoint) TLS() *tls.Config { return e.tls.Clone() }

// ClientOption is what a rueidis client needs to reach the server, with as few connections as it can do with.
func (e *Endpoint) ClientOption() rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress:       []string{e.addr},
		Password:          e.password,
		TLSConfig:         e.TLS(),
		DisableCache:      true,
		AlwaysRESP2:       e.resp2,
		ForceSingleClient: true,
		PipelineMultiplex: -1, // one connection
		ClientSetInfo:     rueidis.DisableClientSetInfo,
	}
}

// Client is a rueidis client for assertions, closed with the test.
func (e *Endpoint) Client(t testing.TB) rueidis.Client {
	t.Helper()
	c, err := rueidis.NewClient(e.ClientOption())
	if err != nil {
		t.Fatalf("redistest: open a client of %s: %v", e.addr, err)
	}
	t.Cleanup(c.Close)
	return c
}

// Dial opens a bare connection, closed with the test.
func (e *Endpoint) Dial(t testing.TB) *Conn {
	t.Helper()
	c, err := e.dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (e *Endpoint) dial() (*Conn, error) {
	return dial(context.Background(), e.addr, e.tls, e.password)
}

// Do sends one command over a connection of its own and fails the test on an error reply.
func (e *Endpoint) Do(t testing.TB, args ...string) Reply {
	t.Helper()
	reply, err := e.TryDo(args...)
	if err != nil {
		t.Fatalf("redistest: %v: %v", args, err)
	}
	return reply
}

// TryDo is Do for a command that may fail; an error reply is a ReplyError.
func (e *Endpoint) TryDo(args ...string) (Reply, error) {
	c, err := e.dial()
	if err != nil {
		return Reply{}, err
	}
	defer c.Close()
	return c.Do(args...)
}

// FlushAll empties every database.
func (e *Endpoint) FlushAll(t testing.TB) {
	t.Helper()
	e.Do(t, "FLUSHALL")
}

// Channels are all channels and shard channels that somebody is subscribed to by name, sorted.
func (e *Endpoint) Channels(t testing.TB) []string {
	t.Helper()
	channels := e.Do(t, "PUBSUB", "CHANNELS").Texts()
	// Servers before 7.0 have no shard channels and answer with an error.
	if sharded, err := e.TryDo("PUBSUB", "SHARDCHANNELS"); err == nil {
		channels = append(channels, sharded.Texts()...)
	}
	slices.Sort(channels)
	return slices.Compact(channels)
}

// Listeners is how many connections are subscribed to a channel, or to the shard channel of that name.
func (e *Endpoint) Listeners(t testing.TB, channel string) int {
	t.Helper()
	n := e.Do(t, "PUBSUB", "NUMSUB", channel).List()[1].Int()
	if sharded, err := e.TryDo("PUBSUB", "SHARDNUMSUB", channel); err == nil {
		n += sharded.List()[1].Int()
	}
	return int(n)
}

// TTL is the time that a key has left; negative when it has no end or is not there.
func (e *Endpoint) TTL(t testing.TB, key string) time.Duration {
	t.Helper()
	return time.Duration(e.Do(t, "PTTL", key).Int()) * time.Millisecond
}
