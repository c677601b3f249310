package lua_test

import (
	"context"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
)

// relayed is a site, and a client whose commands pass a relay on their way to the same server.
func relayed(t *testing.T) (*redistest.Server, *redistest.Relay, *site, rueidis.Client) {
	t.Helper()
	server := redistest.Start(t)
	relay := redistest.NewRelay(t, server)
	option := server.ClientOption()
	option.InitAddress = []string{relay.Addr()}
	far, err := rueidis.NewClient(option)
	require.NoError(t, err)
	t.Cleanup(far.Close)
	return server, relay, newSite(t, server.Client(t), "PUBLISH", "lock"), far
}

// RL-13, RL-14: the request is still under way when its caller gives up and settles it; it reaches the server afterwards.
func TestRequestThatArrivesAfterItWasSettledChangesNothing(t *testing.T) {
	for _, call := range latchedEffects() {
		t.Run(call.name, func(t *testing.T) {
			_, relay, s, far := relayed(t)
			s.set(t, call.given)
			arrive := make(chan struct{})
			// Known to the server, so that what was held up is not answered NOSCRIPT in the end.
			s.do(t, "SCRIPT", "LOAD", call.ask(s).script.Source)
			trap := relay.Next(redistest.SendsScript(s.lock), redistest.HoldRequest(arrive))

			ctx, giveUp := context.WithCancel(t.Context())
			failed := make(chan error, 1)
			go func() {
				_, err := call.ask(s).run(ctx, far)
				failed <- err
			}()
			trap.AwaitRequest(t)
			giveUp()
			require.ErrorIs(t, <-failed, context.Canceled)
			count, err := settle(call.owner)(s).run(t.Context(), s.conn)
			require.NoError(t, err)
			require.Equal(t, call.count, count)

			close(arrive)
			require.NotContains(t, trap.AwaitReply(t).String(), "NOSCRIPT", "the script has run")
			s.requireState(t, call.given.latched())
			require.Empty(t, s.messages(t))
		})
	}
}

// RL-08, RL-13: a request whose reply is lost has run once, is not sent again by any layer below, and can be settled.
func TestRequestWhoseReplyIsLostRunsOnce(t *testing.T) {
	for _, call := range latchedEffects() {
		t.Run(call.name, func(t *testing.T) {
			server, relay, s, far := relayed(t)
			s.set(t, call.given)
			s.do(t, "SCRIPT", "LOAD", call.ask(s).script.Source)
			trap := relay.Next(redistest.SendsScript(s.lock), redistest.LoseReply())
			server.ResetStats(t)

			_, err := call.ask(s).run(t.Context(), far)
			require.Error(t, err)
			_, fromServer := rueidis.IsRedisErr(err)
			require.False(t, fromServer, "a broken connection is not the server's refusal: %v", err)
			trap.AwaitReply(t)
			count, err := settle(call.owner)(s).run(t.Context(), s.conn)
			require.NoError(t, err)
			require.NotEqual(t, call.count, count, "it took effect")

			stats := server.CommandStats(t)
			require.EqualValues(t, 2, stats["evalsha"], "the request and its settling")
			require.EqualValues(t, 1, stats["eval"], "the settling, which was not known")
			// The same request, should it come by a second way after all.
			held := s.keys(t)
			_, err = call.ask(s).run(t.Context(), s.conn)
			require.NoError(t, err)
			require.Equal(t, held, s.keys(t))
			most := 1
			if call.rewake {
				most = 2
			}
			require.LessOrEqual(t, len(s.messages(t)), most)
		})
	}
}

// A server that says it can't answer now has run nothing, but whether to ask again is for the engine to say.
func TestRefusalIsNotAnsweredByASecondSending(t *testing.T) {
	for _, refusal := range []string{
		"LOADING Redis is loading the dataset in memory", "BUSY Redis is busy running a script", "MASTERDOWN Link is down",
		"READONLY You can't write against a read only replica", "CLUSTERDOWN The cluster is down",
	} {
		_, relay, s, far := relayed(t)
		sent := make(chan struct{}, 16)
		relay.OnRequest(func(cmd []string) redistest.Action {
			if !redistest.SendsScript(s.lock)(cmd) {
				return redistest.Pass()
			}
			sent <- struct{}{}
			return redistest.AnswerError(refusal)
		})
		_, err := acquire(own)(s).run(t.Context(), far)
		require.ErrorContains(t, err, refusal[:8])
		require.Len(t, sent, 1, refusal)
		s.requireState(t, nobody)
	}
}
