package redistest_test

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
)

func TestStartGivesAServerThatAnswers(t *testing.T) {
	s := redistest.Start(t)
	require.Equal(t, "PONG", s.Do(t, "PING").Text())
	require.Equal(t, "redis://"+s.Addr(), s.URL())
	c := s.Client(t)
	require.NoError(t, c.Do(context.Background(), c.B().Set().Key("k").Value("v").Build()).Error())
	require.Equal(t, "v", s.Do(t, "GET", "k").Text())
}

func TestServerIsGoneAfterItsTestAlsoWhenItWasStopped(t *testing.T) {
	var addr string
	t.Run("inner", func(t *testing.T) {
		s := redistest.Start(t)
		addr = s.Addr()
		s.Stop(t)
	})
	_, err := net.Dial("tcp", addr)
	require.Error(t, err)
}
