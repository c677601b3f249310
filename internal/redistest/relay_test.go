package redistest_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
)

// wire is a client that sends bytes as it likes and reads lines, so that the tests decide what shares a segment.
type wire struct {
	t testing.TB
	net.Conn
	r *bufio.Reader
}

func dialWire(t testing.TB, addr string) *wire {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	return &wire{t: t, Conn: conn, r: bufio.NewReader(conn)}
}

func (w *wire) send(commands ...string) {
	w.t.Helper()
	var b strings.Builder
	for _, command := range commands {
		args := strings.Fields(command)
		fmt.Fprintf(&b, "*%d\r\n", len(args))
		for _, arg := range args {
			fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
		}
	}
	_, err := io.WriteString(w.Conn, b.String())
	require.NoError(w.t, err)
}

func (w *wire) line() string {
	w.t.Helper()
	line, err := w.r.ReadString('\n')
	require.NoError(w.t, err)
	return strings.TrimSpace(line)
}

func (w *wire) lines(n int) []string {
	w.t.Helper()
	var out []string
	for range n {
		out = append(out, w.line())
	}
	return out
}

// hello reads the whole answer, whose last value is the empty list of modules.
func (w *wire) hello(command string) {
	w.t.Helper()
	w.send(command)
	for w.line() != "*0" {
	}
}

// silent checks that nothing arrives although the connection is open.
func (w *wire) silent() {
	w.t.Helper()
	require.NoError(w.t, w.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err := w.r.ReadByte()
	require.ErrorIs(w.t, err, os.ErrDeadlineExceeded)
	require.NoError(w.t, w.SetReadDeadline(time.Now().Add(20*time.Second)))
}

// ended checks that the connection has been closed from the other side, and brings nothing more.
func (w *wire) ended() {
	w.t.Helper()
	_, err := w.r.ReadByte()
	require.Error(w.t, err)
	require.NotErrorIs(w.t, err, os.ErrDeadlineExceeded, "the connection is still open")
}

func relayed(t *testing.T) (*redistest.Server, *redistest.Relay, *wire) {
	t.Helper()
	s := redistest.Start(t)
	r := redistest.NewRelay(t, s)
	return s, r, dialWire(t, r.Addr())
}

func TestRelayPassesEverythingUnchanged(t *testing.T) {
	s, r, w := relayed(t)
	w.send("SET k v", "GET k", "RPUSH l a b", "LRANGE l 0 -1", "GET none", "HGET k f")
	require.Equal(t, []string{
		"+OK", "$1", "v", ":2", "*2", "$1", "a", "$1", "b", "$-1",
		"-WRONGTYPE Operation against a key holding the wrong kind of value",
	}, w.lines(11))
	_, err := io.WriteString(w, "PING inline\r\n\r\nPING\r\n")
	require.NoError(t, err)
	require.Equal(t, []string{"$6", "inline", "+PONG"}, w.lines(3))

	big := strings.Repeat("x", 3<<20)
	s.Do(t, "SET", "big", big)
	for _, resp2 := range []bool{true, false} {
		c := relayClient(t, r, resp2)
		got, err := c.Do(context.Background(), c.B().Get().Key("big").Build()).ToString()
		require.NoError(t, err)
		require.Len(t, got, len(big))
		require.NoError(t, c.Do(context.Background(), c.B().Hset().Key("h").FieldValue().FieldValue("a", "1").Build()).Error())
		m, err := c.Do(context.Background(), c.B().Hgetall().Key("h").Build()).AsStrMap()
		require.NoError(t, err)
		require.Equal(t, map[string]string{"a": "1"}, m)
	}
}

func relayClient(t testing.TB, r *redistest.Relay, resp2 bool) rueidis.Client {
	t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{r.Addr()}, ForceSingleClient: true, DisableCache: true, AlwaysRESP2: resp2, DisableRetry: true,
	})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func TestRelayShowsEveryPipelinedCommandInOrder(t *testing.T) {
	_, r, w := relayed(t)
	var seen [][]string
	r.OnRequest(func(cmd []string) redistest.Action {
		seen = append(seen, cmd)
		return redistest.Pass()
	})
	w.send("SET a 1", "INCR a", "INCR a", "GET a")
	require.Equal(t, []string{"+OK", ":2", ":3", "$1", "3"}, w.lines(5))
	r.OnRequest(nil)
	require.Equal(t, [][]string{{"SET", "a", "1"}, {"INCR", "a"}, {"INCR", "a"}, {"GET", "a"}}, seen)
}

func TestLoseReplyExecutesTheCommandAndNothingBehindIt(t *testing.T) {
	s, r, w := relayed(t)
	trap := r.Next(redistest.Sends("incr", "lock"), redistest.LoseReply())
	w.send("SET before 1", "INCR lock", "SET behind 1")
	require.Equal(t, "+OK", w.line())
	w.ended()
	require.Equal(t, int64(1), trap.AwaitReply(t).Int())
	require.Equal(t, []string{"INCR", "lock"}, trap.AwaitRequest(t))
	require.Equal(t, []string{"before", "lock"}, s.Snapshot(t).Keys())

	again := dialWire(t, r.Addr())
	again.send("INCR lock")
	require.Equal(t, ":2", again.line())
}

func TestCutRequestNeverReachesTheServer(t *testing.T) {
	s, r, w := relayed(t)
	r.Next(redistest.Sends("INCR"), redistest.CutRequest())
	w.send("SET before 1", "INCR lock", "SET behind 1")
	require.Equal(t, "+OK", w.line())
	w.ended()
	require.Equal(t, []string{"before"}, s.Snapshot(t).Keys())
}

func TestSwallowRequestLeavesAnOpenSilentConnection(t *testing.T) {
	s, r, w := relayed(t)
	r.Next(redistest.Sends("INCR"), redistest.SwallowRequest())
	w.send("SET before 1", "INCR lock", "SET behind 1")
	require.Equal(t, "+OK", w.line())
	w.silent()
	require.Equal(t, []string{"before"}, s.Snapshot(t).Keys())
	require.NoError(t, w.Close())
	require.Eventually(t, func() bool { return r.Conns() == 0 }, 10*time.Second, time.Millisecond)
}

func TestHoldReplyExecutesAtOnceAndAnswersLate(t *testing.T) {
	s, r, w := relayed(t)
	release := make(chan struct{})
	trap := r.Next(redistest.Sends("INCR"), redistest.HoldReply(release))
	w.send("SET before 1", "INCR lock", "SET behind 1")
	require.Equal(t, "+OK", w.line())
	trap.AwaitReply(t)
	w.silent()
	require.Contains(t, s.Snapshot(t).Keys(), "lock")
	close(release)
	require.Equal(t, []string{":1", "+OK"}, w.lines(2))
}

func TestHoldRequestArrivesAlsoAfterItsClientHasGone(t *testing.T) {
	s, r, w := relayed(t)
	release := make(chan struct{})
	trap := r.Next(redistest.Sends("INCR"), redistest.HoldRequest(release))
	w.send("INCR lock")
	trap.AwaitRequest(t)
	require.NoError(t, w.Close())
	require.Empty(t, s.Snapshot(t).Keys())
	close(release)
	require.Equal(t, int64(1), trap.AwaitReply(t).Int())
	require.Equal(t, []string{"lock"}, s.Snapshot(t).Keys())
	require.Eventually(t, func() bool { return r.Conns() == 0 }, 10*time.Second, time.Millisecond)
}

func TestCutForgetsWhatWasHeld(t *testing.T) {
	s, r, w := relayed(t)
	never := make(chan struct{})
	request := r.Next(redistest.Sends("INCR"), redistest.HoldRequest(never))
	w.send("INCR lock")
	request.AwaitRequest(t)
	other := dialWire(t, r.Addr())
	reply := r.Next(redistest.Sends("PING"), redistest.HoldReply(never))
	other.send("PING")
	reply.AwaitReply(t)

	require.Equal(t, 2, r.Cut())
	w.ended()
	other.ended()
	close(never)
	require.Empty(t, s.Snapshot(t).Keys())
	require.Zero(t, r.Conns())
	dialWire(t, r.Addr()).send("PING")
}

func TestAnswerErrorStandsInItsPlaceAmongTheReplies(t *testing.T) {
	s, r, w := relayed(t)
	r.Next(redistest.Sends("INCR"), redistest.AnswerError("LOADING Redis is loading"))
	w.send("SET a 1", "INCR a", "GET a")
	require.Equal(t, []string{"+OK", "-LOADING Redis is loading", "$1", "1"}, w.lines(4))
	r.Next(redistest.Sends("INCR"), redistest.AnswerError("READONLY no"))
	w.send("INCR a")
	require.Equal(t, "-READONLY no", w.line())
	require.Equal(t, "1", s.Do(t, "GET", "a").Text())
}

func TestTrapTakesOneCommandAmongManyConnections(t *testing.T) {
	s, r, _ := relayed(t)
	trap := r.Next(redistest.SendsScript("order:1"), redistest.LoseReply())
	var wg sync.WaitGroup
	var mu sync.Mutex
	failed := 0
	for range 8 {
		c := relayClient(t, r, false)
		wg.Go(func() {
			err := c.Do(context.Background(), c.B().Eval().Script("return redis.call('INCR', KEYS[1])").Numkeys(1).Key("order:1").Build()).Error()
			if err != nil {
				mu.Lock()
				failed++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	trap.AwaitReply(t)
	require.Equal(t, 1, failed)
	require.Equal(t, int64(8), s.Do(t, "GET", "order:1").Int())
}

func TestPausedRepliesComeInOrderWhenResumed(t *testing.T) {
	s, r, w := relayed(t)
	w.send("PING")
	require.Equal(t, "+PONG", w.line())
	resume := r.PauseReplies()
	w.send("INCR n", "INCR n")
	require.Eventually(t, func() bool {
		got, err := s.TryDo("GET", "n")
		return err == nil && got.Text() == "2"
	}, 10*time.Second, time.Millisecond)
	w.silent()
	late := dialWire(t, r.Addr())
	late.send("PING")
	late.silent()
	resume()
	resume()
	require.Equal(t, []string{":1", ":2"}, w.lines(2))
	require.Equal(t, "+PONG", late.line())
}

func TestDownRefusesAndUpServesAtTheSameAddress(t *testing.T) {
	_, r, w := relayed(t)
	r.Down()
	r.Down()
	w.ended()
	_, err := net.Dial("tcp", r.Addr())
	require.Error(t, err)
	r.Up(t)
	again := dialWire(t, r.Addr())
	again.send("PING")
	require.Equal(t, "+PONG", again.line())
}

func TestServersEndIsTheClientsEnd(t *testing.T) {
	s, r, w := relayed(t)
	w.send("PING")
	require.Equal(t, "+PONG", w.line())
	s.Kill(t)
	w.ended()
	dialWire(t, r.Addr()).ended()
	s.Restart(t)
	again := dialWire(t, r.Addr())
	again.send("PING")
	require.Equal(t, "+PONG", again.line())
}

func TestOneMessageCanBeLost(t *testing.T) {
	for _, resp2 := range []bool{true, false} {
		t.Run(fmt.Sprintf("resp2=%v", resp2), func(t *testing.T) {
			s, r, _ := relayed(t)
			c := relayClient(t, r, resp2)
			got := make(chan string, 10)
			d, release := c.Dedicate()
			t.Cleanup(release)
			d.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) { got <- m.Message }})
			require.NoError(t, d.Do(context.Background(), d.B().Subscribe().Channel("a", "b").Build()).Error())

			lost := make(chan redistest.Message, 1)
			r.OnMessage(func(m redistest.Message) bool {
				if m.Payload == "1" {
					lost <- m
					return false
				}
				return true
			})
			for i := range 3 {
				s.Do(t, "PUBLISH", "a", strconv.Itoa(i))
			}
			require.Equal(t, "0", <-got)
			require.Equal(t, "2", <-got)
			require.Equal(t, redistest.Message{Channel: "a", Payload: "1"}, <-lost)
			r.OnMessage(nil)
			s.Do(t, "PUBLISH", "b", "1")
			require.Equal(t, "1", <-got)
		})
	}
}

func TestSubscriptionsKeepRepliesInStep(t *testing.T) {
	for _, hello := range []string{"HELLO 2", "HELLO 3"} {
		t.Run(hello, func(t *testing.T) {
			s, r, w := relayed(t)
			hung := make(chan struct{})
			w.hello(hello)

			confirmed := r.Next(redistest.Sends("SUBSCRIBE"), redistest.HoldReply(hung))
			w.send("SUBSCRIBE a b")
			require.Equal(t, "subscribe", confirmed.AwaitReply(t).List()[0].Text())
			require.Equal(t, []string{"a", "b"}, s.Channels(t))
			w.silent()
			close(hung)
			first := w.lines(6)
			require.Equal(t, "a", first[4])
			require.Equal(t, "b", w.lines(6)[4])

			w.send("UNSUBSCRIBE")
			w.lines(12)
			pong := r.Next(redistest.Sends("PING"), redistest.Pass())
			w.send("PING")
			require.Equal(t, "PONG", pong.AwaitReply(t).Text())
			require.Equal(t, "+PONG", w.line())
		})
	}
}

func TestRefusedSubscriptionTakesItsOwnTurn(t *testing.T) {
	s := redistest.Start(t, redistest.WithUser("bob on >pw ~* +@all resetchannels"))
	r := redistest.NewRelay(t, s)
	w := dialWire(t, r.Addr())
	w.hello("HELLO 3 AUTH bob pw")
	trap := r.Next(redistest.Sends("GET"), redistest.LoseReply())
	w.send("SUBSCRIBE a", "PING", "GET k")
	require.Contains(t, w.line(), "-NOPERM")
	require.Equal(t, "+PONG", w.line())
	w.ended()
	require.True(t, trap.AwaitReply(t).IsNil())
}
