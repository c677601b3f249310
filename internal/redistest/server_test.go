package redistest_test

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/internal/redistest/redisproc"
)

func TestStartGivesAServerThatAnswers(t *testing.T) {
	s := redistest.Start(t)
	require.Equal(t, "PONG", s.Do(t, "PING").Text())
	require.Equal(t, "redis://"+s.Addr(), s.URL())
	require.NotZero(t, s.PID())
	require.Contains(t, s.Log(), "Ready to accept connections")
	c := s.Client(t)
	require.NoError(t, c.Do(context.Background(), c.B().Set().Key("k").Value("v").Build()).Error())
	require.Equal(t, "v", s.Do(t, "GET", "k").Text())
	require.Len(t, s.Clients(t, ""), 1, "a client for assertions has one connection, and Do leaves none")
	s.FlushAll(t)
	require.True(t, s.Do(t, "GET", "k").IsNil())
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

func TestLaunchNeedsNoTest(t *testing.T) {
	s, err := redistest.Launch(context.Background(), redistest.Options{})
	require.NoError(t, err)
	require.Equal(t, "PONG", s.Do(t, "PING").Text())
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	_, err = s.TryDo("PING")
	require.Error(t, err)
}

func TestRestartedServerServesAtTheSameAddress(t *testing.T) {
	s := redistest.Start(t)
	s.Do(t, "SET", "k", "v")
	s.Kill(t)
	require.Zero(t, s.PID())
	_, err := s.TryDo("PING")
	require.Error(t, err)
	s.Restart(t)
	require.True(t, s.Do(t, "GET", "k").IsNil())
	s.Stop(t)
	s.Restart(t)
	require.Equal(t, "PONG", s.Do(t, "PING").Text())
	s.Stop(t)
	s.Cont(t)
	require.Equal(t, "PONG", s.Do(t, "PING").Text())
}

func TestOptionsReachTheServer(t *testing.T) {
	s := redistest.Start(t,
		redistest.WithPassword(`a "quoted" word`),
		redistest.WithUser("alice on >secret ~app:* resetchannels &app:* +@all"),
		redistest.WithConfig("maxclients", "77"),
		redistest.WithVersion(redisproc.Redis7))
	require.Equal(t, map[string]string{"maxclients": "77"}, s.Do(t, "CONFIG", "GET", "maxclients").Map())
	require.Equal(t, `a "quoted" word`, s.Password())
	require.Contains(t, s.Do(t, "INFO", "server").Text(), "redis_version:7.0.15")

	c := s.Dial(t)
	_, err := c.Do("AUTH", "alice", "secret")
	require.NoError(t, err)
	_, err = c.Do("SET", "app:1", "v")
	require.NoError(t, err)
	_, err = c.Do("SET", "other", "v")
	require.ErrorContains(t, err, "NOPERM")
}

func TestTLSServerIsTrustedThroughItsOwnAuthorityAlone(t *testing.T) {
	s, other := redistest.Start(t, redistest.WithTLS()), redistest.Start(t, redistest.WithTLS())
	require.Equal(t, "rediss://"+s.Addr(), s.URL())
	require.Equal(t, "PONG", s.Do(t, "PING").Text())
	c, err := net.Dial("tcp", s.Addr())
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.NotNil(t, s.TLS())
	require.False(t, s.TLS().RootCAs.Equal(other.TLS().RootCAs))
}

// spyTB is a test that is only looked at: Fatalf ends the goroutine that runs it, as it does in a real one.
type spyTB struct {
	testing.TB
	said     strings.Builder
	failed   bool
	skipped  bool
	cleanups []func()
}

func (s *spyTB) Helper()          {}
func (s *spyTB) Failed() bool     { return s.failed }
func (s *spyTB) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }
func (s *spyTB) Skip(...any)      { s.skipped = true; runtime.Goexit() }
func (s *spyTB) Skipf(string, ...any) {
	s.skipped = true
	runtime.Goexit()
}
func (s *spyTB) Fatal(args ...any)                 { s.Fatalf("%s", fmt.Sprint(args...)) }
func (s *spyTB) Logf(format string, args ...any)   { fmt.Fprintf(&s.said, format+"\n", args...) }
func (s *spyTB) Errorf(format string, args ...any) { s.failed = true; s.Logf(format, args...) }
func (s *spyTB) Fatalf(format string, args ...any) {
	s.Errorf(format, args...)
	runtime.Goexit()
}

// spyOn runs f as a test of its own to its end, clean-up included.
func spyOn(t *testing.T, f func(t testing.TB)) *spyTB {
	t.Helper()
	spy := &spyTB{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for len(spy.cleanups) > 0 {
				last := len(spy.cleanups) - 1
				f := spy.cleanups[last]
				spy.cleanups = spy.cleanups[:last]
				f()
			}
		}()
		f(spy)
	}()
	<-done
	return spy
}

func TestMissingServerFailsTheTestAndSaysWhatToDo(t *testing.T) {
	t.Setenv(redisproc.EnvServer, "/no/such/server")
	spy := spyOn(t, func(t testing.TB) { redistest.Start(t) })
	require.True(t, spy.failed)
	require.False(t, spy.skipped)
	require.Contains(t, spy.said.String(), `REDLATCH_REDIS_SERVER="/no/such/server" must name a server program`)
}

func TestUnknownProviderFailsTheTest(t *testing.T) {
	t.Setenv(redistest.EnvServers, "vm")
	spy := spyOn(t, func(t testing.TB) { redistest.Start(t) })
	require.True(t, spy.failed)
	require.Contains(t, spy.said.String(), `REDLATCH_TEST_SERVERS="vm" must be "process" or "container"`)
}

func TestFailedTestShowsTheServersOutput(t *testing.T) {
	spy := spyOn(t, func(t testing.TB) {
		redistest.Start(t)
		t.Errorf("something else went wrong")
	})
	require.Contains(t, spy.said.String(), "Ready to accept connections")
	spy = spyOn(t, func(t testing.TB) { redistest.Start(t) })
	require.Empty(t, spy.said.String())
}

func TestErrorReplyFailsTheTestInTheServersWords(t *testing.T) {
	s := redistest.Start(t)
	s.Do(t, "SET", "k", "v")
	spy := spyOn(t, func(t testing.TB) { s.Do(t, "HGET", "k", "f") })
	require.Contains(t, spy.said.String(), "WRONGTYPE")
	spy = spyOn(t, func(t testing.TB) {
		s.Do(t, "XADD", "stream", "*", "f", "v")
		s.Snapshot(t)
	})
	require.Contains(t, spy.said.String(), `the key "stream" is a stream, which a snapshot cannot show`)
}

func TestRelayRefusesWhatItCannotRead(t *testing.T) {
	s := redistest.Start(t, redistest.WithTLS())
	spy := spyOn(t, func(t testing.TB) { redistest.NewRelay(t, s) })
	require.Contains(t, spy.said.String(), "a relay cannot read TLS")
}
