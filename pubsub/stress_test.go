package pubsub_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/pubsub"
)

func hostPort(t testing.TB, addr string) (host, port string) {
	host, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	return host, port
}

// publisher is a bare connection: one round trip for a message, and how many got it.
func publisher(t testing.TB, server *redistest.Server, sharded bool) func(channel string) int64 {
	c := server.Dial(t)
	command := "PUBLISH"
	if sharded {
		command = "SPUBLISH"
	}
	return func(channel string) int64 {
		reply, err := c.Do(command, channel, "0")
		require.NoError(t, err)
		return reply.Int()
	}
}

// WK-01, the promise that waiting stands on: what is published right after Confirmed is never missed. Workers join and
// leave the same few names, with every linger, so that a subscription is met in each of its states.
func TestAMessageRightAfterConfirmedIsNeverMissed(t *testing.T) {
	for _, c := range []struct {
		name    string
		linger  time.Duration
		sharded bool
		resp2   bool
	}{
		{name: "no linger"},
		{name: "no linger, sharded", sharded: true},
		{name: "no linger, RESP2", resp2: true},
		{name: "short linger", linger: time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := redistest.Start(t)
			o := server.ClientOption()
			o.AlwaysRESP2 = c.resp2
			h := rigOf(t, server, c.sharded, o).hub(t, c.linger)
			var workers sync.WaitGroup
			for range 8 {
				publish := publisher(t, server, c.sharded)
				workers.Go(func() {
					for range 400 {
						name := fmt.Sprint("name:", rand.IntN(6))
						s := h.Join(name)
						awaitConfirmed(t, s)
						quiet(s) // what came before does not count
						if !s.Confirmed() {
							t.Error("confirmed, and then not, without a cut")
						}
						if publish(name) == 0 {
							t.Error("Confirmed, but the server has no such subscription")
						}
						awaitWake(t, s)
						s.Leave()
					}
				})
			}
			workers.Wait()
			eventually(t, func() bool { return h.Stats() == pubsub.Stats{Connected: true} }, "the table is not empty")
			eventually(t, func() bool { return len(server.Channels(t)) == 0 }, "the server still has channels")
		})
	}
}

// The same under cuts: who is Confirmed when a message is published is woken, by the message or by the cut that lost it.
func TestACutAndAMessageTogetherAlwaysWake(t *testing.T) {
	b, server := onRedis(t, false)
	h := newHub(t, pubsub.Options{Connect: b.connect, Linger: time.Millisecond, Retry: soon})
	var workers sync.WaitGroup
	var stop atomic.Bool
	for range 8 {
		publish := publisher(t, server, false)
		workers.Go(func() {
			for !stop.Load() {
				name := fmt.Sprint("name:", rand.IntN(6))
				s := h.Join(name)
				awaitConfirmed(t, s)
				quiet(s)
				if s.Confirmed() {
					publish(name)
					awaitWake(t, s)
				}
				s.Leave()
			}
		})
	}
	for range 50 {
		eventually(t, func() bool { return server.KillPubSub(t) > 0 }, "nothing to cut")
	}
	stop.Store(true)
	workers.Wait()
	eventually(t, func() bool { return len(server.Channels(t)) == 0 }, "the server still has channels")
}

// soon is Options.Retry for tests that cut often.
func soon() backoff.BackOff { return backoff.NewConstantBackOff(time.Millisecond) }

// Random sequences of joins, leaves, cuts and pauses against a model: at the end of each the server has exactly what is
// joined, and every member is confirmed.
func TestTheServerFollowsWhateverIsJoined(t *testing.T) {
	b, server := onRedis(t, false)
	rapid.Check(t, func(r *rapid.T) {
		linger := rapid.SampledFrom([]time.Duration{0, 0, time.Millisecond}).Draw(r, "linger")
		h := pubsub.New(pubsub.Options{Connect: b.connect, Linger: linger, Retry: soon})
		defer h.Close()
		members := map[int][]*pubsub.Subscription{}
		for range rapid.IntRange(1, 60).Draw(r, "steps") {
			name := rapid.IntRange(0, 3).Draw(r, "name")
			switch action := rapid.IntRange(0, 9).Draw(r, "action"); {
			case action < 5:
				members[name] = append(members[name], h.Join(fmt.Sprint("name:", name)))
			case action < 8:
				if n := len(members[name]); n > 0 {
					members[name][n-1].Leave()
					members[name] = members[name][:n-1]
				}
			case action < 9:
				for _, s := range members[name] {
					awaitConfirmed(t, s)
				}
			default:
				server.KillPubSub(t)
			}
		}
		var want []string
		count := 0
		for name := range 4 {
			for _, s := range members[name] {
				awaitConfirmed(t, s)
				count++
			}
			if len(members[name]) > 0 {
				want = append(want, fmt.Sprint("name:", name))
			}
		}
		eventually(t, func() bool { return h.Stats().Channels == len(want) }, "the table has more than what is joined")
		require.Equal(r, count, h.Stats().Members)
		for name, all := range members {
			for _, s := range all {
				awaitConfirmed(t, s) // a late cut
				require.NoError(r, s.Err(), name)
			}
		}
		eventually(t, func() bool { return fmt.Sprint(server.Channels(t)) == fmt.Sprint(want) }, "the server has something else")
	})
}

// Whatever goes on, Close ends it: no goroutine is left (goleak), and every member knows.
func TestCloseWorksAtEveryMoment(t *testing.T) {
	b, server := onRedis(t, false)
	for i := range 150 {
		h := pubsub.New(pubsub.Options{Connect: b.connect, Linger: time.Duration(i%3) * time.Millisecond})
		var workers sync.WaitGroup
		for range 4 {
			workers.Go(func() {
				for {
					s := h.Join(fmt.Sprint("name:", rand.IntN(50)))
					if rand.IntN(2) == 0 {
						for s.Err() == nil && !s.Confirmed() {
							<-s.Wake()
						}
					}
					err := s.Err()
					s.Leave()
					if err != nil {
						if !errors.Is(err, pubsub.ErrClosed) {
							t.Error(err)
						}
						return
					}
				}
			})
		}
		if i%5 == 0 {
			server.KillPubSub(t)
		}
		time.Sleep(time.Duration(i) * 20 * time.Microsecond) // the moment
		workers.Go(h.Close)
		h.Close()
		workers.Wait()
		require.Equal(t, 0, h.Stats().Channels+h.Stats().Members+h.Stats().Confirmed)
	}
	eventually(t, func() bool { return len(server.Clients(t, "pubsub")) == 0 }, "a connection is still open")
}

// An attempt to connect that ends after Close: what it brings is closed.
func TestAConnectionThatComesAfterCloseIsClosed(t *testing.T) {
	b, server := onRedis(t, false)
	dialling, goOn, released := make(chan struct{}), make(chan struct{}), make(chan struct{})
	h := pubsub.New(pubsub.Options{Connect: func(ctx context.Context) (rueidis.DedicatedClient, func(), error) {
		c, release, err := b.connect(ctx)
		close(dialling)
		<-goOn
		require.ErrorIs(t, ctx.Err(), context.Canceled)
		return c, func() { release(); close(released) }, err
	}})
	h.Join("news")
	<-dialling
	start := time.Now()
	h.Close()
	require.Less(t, time.Since(start), 2*time.Second)
	close(goOn)
	<-released
	eventually(t, func() bool { return len(server.Clients(t, "")) == 1 }, "the connection is still open")
}
