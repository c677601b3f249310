package pubsub_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/pubsub"
)

// timed runs a test under synctest's clock, on a Hub with a fake server.
func timed(t *testing.T, o pubsub.Options, test func(t *testing.T, h *pubsub.Hub, f *fake)) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		o.Connect = f.connect
		h := pubsub.New(o)
		defer h.Close()
		test(t, h, f)
	})
}

// joined is a confirmed member.
func joined(t *testing.T, h *pubsub.Hub, name string) *pubsub.Subscription {
	t.Helper()
	s := h.Join(name)
	synctest.Wait()
	require.True(t, s.Confirmed())
	return s
}

func TestTheLingerIsAsLongAsAskedAndATenthMoreAtMost(t *testing.T) {
	timed(t, pubsub.Options{Linger: 500 * time.Millisecond}, func(t *testing.T, h *pubsub.Hub, f *fake) {
		s := joined(t, h, "news")
		s.Leave()
		require.False(t, s.Confirmed())
		time.Sleep(499 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, []string{"SUBSCRIBE news"}, f.commands())
		require.Equal(t, 1, h.Stats().Channels)

		time.Sleep(51 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, []string{"UNSUBSCRIBE news"}, f.commands())
		require.Equal(t, pubsub.Stats{Connected: true}, h.Stats())
	})
}

func TestWithoutLingerTheLastLeaveUnsubscribesAtOnce(t *testing.T) {
	timed(t, pubsub.Options{Linger: -time.Second}, func(t *testing.T, h *pubsub.Hub, f *fake) {
		joined(t, h, "news").Leave()
		synctest.Wait()
		require.Equal(t, []string{"SUBSCRIBE news", "UNSUBSCRIBE news"}, f.commands())
	})
}

func TestAJoinDuringTheLingerKeepsTheSubscription(t *testing.T) {
	timed(t, pubsub.Options{Linger: time.Second}, func(t *testing.T, h *pubsub.Hub, f *fake) {
		for range 10 {
			s := joined(t, h, "news")
			time.Sleep(900 * time.Millisecond)
			s.Leave()
			time.Sleep(900 * time.Millisecond) // longer than the linger together, each shorter
		}
		require.Equal(t, []string{"SUBSCRIBE news"}, f.commands())
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, []string{"UNSUBSCRIBE news"}, f.commands(), "the last Leave counts")
	})
}

func TestTheEndsOfManyLingersShareABatch(t *testing.T) {
	timed(t, pubsub.Options{Linger: time.Second}, func(t *testing.T, h *pubsub.Hub, f *fake) {
		var members []*pubsub.Subscription
		for i := range 90 {
			members = append(members, joined(t, h, strconv.Itoa(i)))
		}
		f.commands()
		for _, s := range members {
			s.Leave()
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second - 90*time.Millisecond)
		synctest.Wait()
		require.Empty(t, f.commands(), "none lingers for less than asked")
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		require.Len(t, f.commands(), 90)
	})
}

func TestTheChannelJoinedWhileItsUnsubscribeIsOnItsWayIsNotConfirmedByTheOldSubscription(t *testing.T) {
	timed(t, pubsub.Options{}, func(t *testing.T, h *pubsub.Hub, f *fake) {
		hold := make(chan struct{})
		s := joined(t, h, "news")
		f.onSend = func(cmd string) {
			if cmd == "UNSUBSCRIBE" {
				<-hold
			}
		}
		s.Leave()
		synctest.Wait()
		again := h.Join("news")
		require.False(t, again.Confirmed(), "that subscription is being undone")
		close(hold)
		synctest.Wait()
		require.True(t, again.Confirmed())
		require.False(t, quiet(again))
		require.Equal(t, []string{"SUBSCRIBE news", "UNSUBSCRIBE news", "SUBSCRIBE news"}, f.commands())
	})
}

func TestALeaveWhileTheSubscribeIsOnItsWayIsUndone(t *testing.T) {
	timed(t, pubsub.Options{}, func(t *testing.T, h *pubsub.Hub, f *fake) {
		hold := make(chan struct{})
		f.onSend = func(string) { <-hold }
		s := h.Join("news")
		synctest.Wait()
		s.Leave()
		close(hold)
		synctest.Wait()
		require.Equal(t, []string{"SUBSCRIBE news", "UNSUBSCRIBE news"}, f.commands())
		require.Equal(t, pubsub.Stats{Connected: true}, h.Stats())
	})
}

func TestALeaveBeforeAnythingWasSentLeavesNothingToDo(t *testing.T) {
	timed(t, pubsub.Options{}, func(t *testing.T, h *pubsub.Hub, f *fake) {
		hold := make(chan struct{})
		f.onDial = func() { <-hold }
		s := h.Join("news")
		synctest.Wait()
		s.Leave()
		require.Equal(t, pubsub.Stats{}, h.Stats())
		close(hold)
		synctest.Wait()
		require.Empty(t, f.commands())
		require.Equal(t, pubsub.Stats{Connected: true}, h.Stats())
	})
}

func TestAnUnreachableServerIsTriedWithGrowingPausesWhileSomebodyWaits(t *testing.T) {
	timed(t, pubsub.Options{}, func(t *testing.T, h *pubsub.Hub, f *fake) {
		f.setRefuse(errors.New("connection refused"))
		s := h.Join("news")
		time.Sleep(time.Minute)
		synctest.Wait()
		tried := f.count()
		require.Greater(t, tried, 60/4, "pauses of 3 s at most")
		require.Less(t, tried, 80, "pauses of 1 s at least, but for the first")
		require.NoError(t, s.Err(), "trouble with the connection is not the member's error")

		f.setRefuse(nil)
		time.Sleep(4 * time.Second)
		require.True(t, s.Confirmed())

		s.Leave()
		f.current().end(errCut)
		synctest.Wait()
		tried = f.count()
		time.Sleep(time.Hour)
		require.Equal(t, tried, f.count(), "nobody waits")
	})
}

func TestNamesThatCameAndWentDuringAnOutageLeaveNothing(t *testing.T) {
	timed(t, pubsub.Options{Linger: time.Second}, func(t *testing.T, h *pubsub.Hub, f *fake) {
		f.setRefuse(errors.New("connection refused"))
		for i := range 1000 {
			s := h.Join(fmt.Sprint("name:", i))
			time.Sleep(10 * time.Millisecond)
			s.Leave()
		}
		require.Equal(t, pubsub.Stats{}, h.Stats())
		require.Less(t, f.count(), 20, "a Join must not shorten the pause")
	})
}

func TestAScheduleThatEndsStartsOver(t *testing.T) {
	o := pubsub.Options{Retry: func() backoff.BackOff {
		return backoff.WithMaxRetries(backoff.NewConstantBackOff(100*time.Millisecond), 2)
	}}
	timed(t, o, func(t *testing.T, h *pubsub.Hub, f *fake) {
		f.setRefuse(errors.New("connection refused"))
		h.Join("news")
		time.Sleep(2*(100+100+2000)*time.Millisecond - 50*time.Millisecond)
		synctest.Wait()
		require.Equal(t, 6, f.count())
	})
}

func TestAShortLivedConnectionDoesNotMakeTheHubSpin(t *testing.T) {
	timed(t, pubsub.Options{}, func(t *testing.T, h *pubsub.Hub, f *fake) {
		s := h.Join("news")
		for end := time.Now().Add(time.Minute); time.Now().Before(end); {
			synctest.Wait()
			if s.Confirmed() {
				f.current().end(errCut)
			}
			time.Sleep(time.Millisecond)
		}
		require.Less(t, f.count(), 80)
	})
}

func TestAConnectionThatLastedBeginsWithShortPauses(t *testing.T) {
	timed(t, pubsub.Options{}, func(t *testing.T, h *pubsub.Hub, f *fake) {
		s := joined(t, h, "news")
		for range 20 {
			time.Sleep(10 * time.Second)
			f.current().end(errCut)
			synctest.Wait()
			require.False(t, s.Confirmed())
			time.Sleep(75 * time.Millisecond)
			synctest.Wait()
			require.True(t, s.Confirmed())
		}
		require.Equal(t, uint64(20), h.Stats().Reconnects)
	})
}

// A server that drops the channel as soon as it has confirmed it is asked again ever more slowly.
func TestAChannelThatTheServerKeepsDroppingDoesNotMakeTheHubSpin(t *testing.T) {
	timed(t, pubsub.Options{}, func(t *testing.T, h *pubsub.Hub, f *fake) {
		s, other := joined(t, h, "news"), joined(t, h, "other")
		f.commands()
		for end := time.Now().Add(time.Minute); time.Now().Before(end); {
			if s.Confirmed() {
				quiet(s)
				f.current().hooks.OnSubscription(rueidis.PubSubSubscription{Kind: "unsubscribe", Channel: "news"})
				require.False(t, s.Confirmed())
				require.False(t, quiet(s), "a cut wakes")
			}
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		require.Less(t, len(f.commands()), 80)
		require.True(t, other.Confirmed())
		require.Zero(t, h.Stats().Reconnects)
	})
}

func TestAnotherConnectionsPushConfirmsNothing(t *testing.T) {
	timed(t, pubsub.Options{}, func(t *testing.T, h *pubsub.Hub, f *fake) {
		s := joined(t, h, "news")
		old := f.current()
		hold := make(chan struct{})
		f.onSend = func(string) { <-hold }
		old.end(errCut)
		time.Sleep(time.Second)
		synctest.Wait()
		old.hooks.OnSubscription(rueidis.PubSubSubscription{Kind: "subscribe", Channel: "news"})
		require.False(t, s.Confirmed(), "the new connection has not confirmed it")
		close(hold)
		synctest.Wait()
		require.True(t, s.Confirmed())
		old.hooks.OnSubscription(rueidis.PubSubSubscription{Kind: "unsubscribe", Channel: "news"})
		require.True(t, s.Confirmed(), "the new connection still has it")
	})
}

func TestEveryConnectionIsClosed(t *testing.T) {
	timed(t, pubsub.Options{}, func(t *testing.T, h *pubsub.Hub, f *fake) {
		joined(t, h, "news")
		f.current().end(errCut)
		time.Sleep(time.Second)
		synctest.Wait()
		h.Close()
		require.Len(t, f.conns, 2)
		for _, c := range f.conns {
			require.True(t, c.closed)
		}
	})
}
