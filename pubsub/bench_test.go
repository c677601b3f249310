package pubsub_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/pubsub"
)

// BenchmarkWake is a PUBLISH and the wake-up that it causes, over the loopback.
func BenchmarkWake(b *testing.B) {
	on, server := onRedis(b, false)
	s := on.hub(b, time.Minute).Join("news")
	settled(b, s)
	publish := publisher(b, server, false)
	for b.Loop() {
		publish("news")
		<-s.Wake()
	}
}

// BenchmarkPublish is the same without the wake-up, to compare with.
func BenchmarkPublish(b *testing.B) {
	_, server := onRedis(b, false)
	publish := publisher(b, server, false)
	for b.Loop() {
		publish("news")
	}
}

// BenchmarkJoinLeave is a waiter of a hot lock: the subscription is there, or lingers.
func BenchmarkJoinLeave(b *testing.B) {
	for _, others := range []int{0, 1, 1000} {
		b.Run(fmt.Sprint("others=", others), func(b *testing.B) {
			on, server := onRedis(b, false)
			h := on.hub(b, time.Second)
			awaitConfirmed(b, h.Join("else"))
			for range others {
				h.Join("news")
			}
			b.ReportAllocs()
			for b.Loop() {
				h.Join("news").Leave()
			}
			b.StopTimer()
			require.LessOrEqual(b, server.CommandStats(b)["subscribe"], int64(2))
		})
	}
}

// BenchmarkSubscribe is the confirmation of channels that nobody has yet.
func BenchmarkSubscribe(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			on, _ := onRedis(b, false)
			h := on.hub(b, 0)
			members := make([]*pubsub.Subscription, n)
			round := 0
			for b.Loop() {
				round++
				for i := range members {
					members[i] = h.Join(fmt.Sprint("name:", round, ":", i))
				}
				for _, s := range members {
					awaitConfirmed(b, s)
					s.Leave()
				}
			}
		})
	}
}
