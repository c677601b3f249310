package redistest_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
)

func proxied(t *testing.T) (*redistest.Server, *redistest.Proxy, *wire) {
	t.Helper()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s)
	w := dialWire(t, p.Addr())
	w.send("PING")
	require.Equal(t, "+PONG", w.line())
	return s, p, w
}

// awaitValue waits until the server holds the value.
func awaitValue(t *testing.T, s *redistest.Server, key, value string) {
	t.Helper()
	require.Eventually(t, func() bool {
		got, err := s.TryDo("GET", key)
		return err == nil && got.Text() == value
	}, 10*time.Second, time.Millisecond)
}

func TestLatencyDelaysEveryReply(t *testing.T) {
	_, p, w := proxied(t)
	for _, d := range []time.Duration{50 * time.Millisecond, 120 * time.Millisecond} {
		p.AddLatency(d)
		for range 3 {
			start := time.Now()
			w.send("PING")
			require.Equal(t, "+PONG", w.line())
			require.GreaterOrEqual(t, time.Since(start), d-5*time.Millisecond)
		}
	}
	p.AddLatency(time.Hour)
	p.AddLatency(0)
	w.send("PING")
	require.Equal(t, "+PONG", w.line())
}

func TestSlowLineTakesItsTime(t *testing.T) {
	s, p, w := proxied(t)
	s.Do(t, "SET", "k", strings.Repeat("x", 30_000))
	p.Slow(100)
	start := time.Now()
	w.send("GET k")
	require.Equal(t, "$30000", w.line())
	require.Len(t, w.line(), 30_000)
	require.GreaterOrEqual(t, time.Since(start), 200*time.Millisecond)
}

func TestCutRepliesExecutesAndNeverAnswers(t *testing.T) {
	s, p, w := proxied(t)
	p.CutReplies()
	w.send("INCR n")
	awaitValue(t, s, "n", "1")
	w.silent()
	late := dialWire(t, p.Addr())
	late.send("INCR n")
	awaitValue(t, s, "n", "2")
	late.silent()
	p.Restore()
	w.ended()
	again := dialWire(t, p.Addr())
	again.send("INCR n")
	require.Equal(t, ":3", again.line())
}

func TestCutRequestsReachNoServer(t *testing.T) {
	s, p, w := proxied(t)
	p.CutRequests()
	w.send("INCR n")
	w.silent()
	require.Empty(t, s.Snapshot(t).Keys())
	p.Restore()
	w.ended()
	require.Empty(t, s.Snapshot(t).Keys())
}

func TestHeldRepliesComeInOrderWhenReleased(t *testing.T) {
	s, p, w := proxied(t)
	for range 3 {
		s.FlushAll(t)
		p.HoldReplies()
		w.send("INCR n")
		awaitValue(t, s, "n", "1")
		p.AddLatency(time.Millisecond) // a change of the line behind it must lose nothing
		w.send("INCR n")
		awaitValue(t, s, "n", "2")
		w.silent()
		p.ReleaseReplies()
		require.Equal(t, []string{":1", ":2"}, w.lines(2))
		p.AddLatency(0)
	}
}

func TestDownProxyRefusesAndUpServesAtTheSameAddress(t *testing.T) {
	_, p, w := proxied(t)
	p.HoldReplies()
	w.send("PING", "PING")
	p.Down()
	p.Down()
	w.ended()
	_, err := net.Dial("tcp", p.Addr())
	require.Error(t, err)
	p.Up(t)
	p.Up(t)
	p.Restore()
	again := dialWire(t, p.Addr())
	again.send("PING")
	require.Equal(t, "+PONG", again.line())
}

func TestProxyEndsWithItsTestWhateverIsInForce(t *testing.T) {
	for name, effect := range map[string]func(*redistest.Proxy){
		"latency":  func(p *redistest.Proxy) { p.AddLatency(time.Hour) },
		"held":     func(p *redistest.Proxy) { p.HoldReplies() },
		"replies":  func(p *redistest.Proxy) { p.CutReplies() },
		"requests": func(p *redistest.Proxy) { p.CutRequests() },
	} {
		t.Run(name, func(t *testing.T) {
			_, p, w := proxied(t)
			effect(p)
			w.send("PING", "PING")
			w.silent()
		})
	}
}
