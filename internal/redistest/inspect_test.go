package redistest_test

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
)

func TestCommandStatsCountsTheTestsCommandsAndNotItsOwn(t *testing.T) {
	for name, opts := range map[string][]redistest.Option{
		"open":     nil,
		"password": {redistest.WithPassword("s3cret word")},
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t, opts...)
			c := s.Dial(t)
			for range 2 {
				s.ResetStats(t)
				require.Empty(t, s.CommandStats(t))
				_, err := c.Do("EVAL", "return redis.call('SET', KEYS[1], '1')", "1", "k")
				require.NoError(t, err)
				for range 3 {
					require.Equal(t, map[string]int64{"eval": 1, "set": 1}, s.CommandStats(t))
				}
			}
		})
	}
}

func TestMonitorShowsEveryCommandInOrder(t *testing.T) {
	s := redistest.Start(t)
	mon := s.Monitor(t)
	rec := s.Record(t)
	mon.Reset(t)
	c := s.Dial(t)
	_, err := c.Do("SET", "k", "a \"quoted\"\\ \x00\xff\r\n byte")
	require.NoError(t, err)
	_, err = c.Do("EVAL", "return redis.call('GET', KEYS[1])", "1", "k")
	require.NoError(t, err)
	require.Empty(t, rec.Messages(t))

	commands := mon.Commands(t)
	require.Len(t, commands, 3)
	require.Equal(t, []string{"SET", "k", "a \"quoted\"\\ \x00\xff\r\n byte"}, commands[0].Args)
	require.Equal(t, "EVAL", commands[1].Name())
	require.False(t, commands[1].FromScript())
	require.Equal(t, "GET", commands[2].Name())
	require.True(t, commands[2].FromScript())
	require.Equal(t, commands[1], mon.Await(t, func(c redistest.Command) bool { return c.Name() == "EVAL" }))

	mon.Stop()
	require.Equal(t, commands, mon.Collected())
}

func TestChannelsListsSubscriptionsOfBothKinds(t *testing.T) {
	s := redistest.Start(t)
	s.Record(t)
	require.Empty(t, s.Channels(t))
	c := s.Dial(t)
	for _, command := range []string{"SUBSCRIBE", "SSUBSCRIBE"} {
		_, err := c.Do(command, "lock:"+command)
		require.NoError(t, err)
	}
	require.Equal(t, []string{"lock:SSUBSCRIBE", "lock:SUBSCRIBE"}, s.Channels(t))
}

func TestKillPubSubCutsSubscribersAlone(t *testing.T) {
	s := redistest.Start(t)
	rec := s.Record(t)
	subscriber, other := s.Dial(t), s.Dial(t)
	_, err := subscriber.Do("SUBSCRIBE", "lock")
	require.NoError(t, err)
	_, err = other.Do("PING")
	require.NoError(t, err)
	require.Len(t, s.Clients(t, ""), 2)
	require.Len(t, s.Clients(t, "pubsub"), 1)
	require.Equal(t, "1", s.Clients(t, "pubsub")[0].Fields["sub"])

	require.Equal(t, 1, s.KillPubSub(t))
	_, err = subscriber.Do("PING")
	require.ErrorIs(t, err, io.EOF)
	_, err = other.Do("PING")
	require.NoError(t, err)

	require.Equal(t, 1, s.KillAllClients(t))
	_, err = other.Do("PING")
	require.Error(t, err)
	s.Do(t, "PUBLISH", "lock", "0")
	require.Len(t, rec.Messages(t), 1)
}

func TestErrorReplyKeepsTheServersWords(t *testing.T) {
	s := redistest.Start(t)
	s.Do(t, "SET", "k", "v")
	_, err := s.TryDo("HGET", "k", "f")
	var reply redistest.ReplyError
	require.ErrorAs(t, err, &reply)
	require.Contains(t, reply.Error(), "WRONGTYPE")
}

func TestClientOfAProtectedServerNeedsNoMore(t *testing.T) {
	for name, opts := range map[string][]redistest.Option{
		"password": {redistest.WithPassword("s3cret word")},
		"tls":      {redistest.WithTLS(), redistest.WithPassword("x")},
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t, opts...)
			c := s.Client(t)
			require.NoError(t, c.Do(context.Background(), c.B().Set().Key("k").Value("v").Build()).Error())
			require.Equal(t, "v", s.Do(t, "GET", "k").Text())
			require.Len(t, s.Clients(t, ""), 1)
		})
	}
}
