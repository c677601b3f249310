package redlatch_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/locktest"
	"github.com/redlatch/redlatch/internal/locktest/probe"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/rlock"
)

// names are the host names that the tests make up.
var names nameServer

// nameServer answers questions for made-up names, and passes on all others. It is safe for concurrent use.
type nameServer struct {
	mu    sync.Mutex
	hosts map[string][]netip.Addr // guarded by mu; by the name as it is on the wire: one answer after the other, and again
	asked map[string]int          // guarded by mu: how often for the address
}

func (s *nameServer) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(_ context.Context, _, address string) (net.Conn, error) {
		near, far := net.Pipe()
		go s.serve(far, address)
		return near, nil
	}}
}

func onWire(name string) string {
	var b strings.Builder
	for label := range strings.SplitSeq(name, ".") {
		b.WriteByte(byte(len(label))) //nolint:gosec // a label has at most 63 bytes
		b.WriteString(label)
	}
	return b.String() + "\x00"
}

// points makes a name lead to a host, to several by turns, or to none.
func (s *nameServer) points(name string, hosts ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hosts == nil {
		s.hosts, s.asked = make(map[string][]netip.Addr), make(map[string]int)
	}
	var answers []netip.Addr
	for _, host := range hosts {
		answers = append(answers, netip.MustParseAddr(host))
	}
	s.hosts[onWire(name)] = answers
}

func (s *nameServer) timesAsked(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[onWire(name)]
}

// serve answers the questions of one connection: each stands behind its length, as over TCP.
func (s *nameServer) serve(conn net.Conn, elsewhere string) {
	defer conn.Close()
	for {
		var size uint16
		if binary.Read(conn, binary.BigEndian, &size) != nil {
			return
		}
		question := make([]byte, size)
		if _, err := io.ReadFull(conn, question); err != nil {
			return
		}
		answer := s.answer(question)
		if answer == nil {
			answer = askElsewhere(question, elsewhere)
		}
		length := binary.BigEndian.AppendUint16(nil, uint16(len(answer))) //nolint:gosec // UDP carries no more
		if _, err := conn.Write(append(length, answer...)); err != nil {
			return
		}
	}
}

// answer gives the addresses of a made-up name (RFC 1035, 4.1): one of IPv4, and none of IPv6. It is nil for other names.
func (s *nameServer) answer(question []byte) []byte {
	const header, kindAndClass, kindA = 12, 4, 1
	name, rest, _ := bytes.Cut(question[header:], []byte{0})
	s.mu.Lock()
	defer s.mu.Unlock()
	hosts, known := s.hosts[string(name)+"\x00"]
	if !known {
		return nil
	}
	answers := byte(0)
	var record []byte
	turn := s.asked[string(name)+"\x00"]
	if binary.BigEndian.Uint16(rest) == kindA {
		s.asked[string(name)+"\x00"]++
	}
	if binary.BigEndian.Uint16(rest) == kindA && len(hosts) > 0 {
		host := hosts[turn%len(hosts)]
		answers = 1
		record = append([]byte{0xc0, header, 0, kindA, 0, 1, 0, 0, 0, 0, 0, 4}, host.AsSlice()...)
	}
	answer := append([]byte{question[0], question[1], 0x81, 0x80, 0, 1, 0, answers, 0, 0, 0, 0}, name...)
	answer = append(append(answer, 0), rest[:kindAndClass]...)
	return append(answer, record...)
}

func askElsewhere(question []byte, address string) []byte {
	conn, err := net.DialTimeout("udp", address, 5*time.Second)
	if err != nil {
		return nil
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	answer := make([]byte, 1<<16)
	if _, err := conn.Write(question); err != nil {
		return nil
	}
	n, _ := conn.Read(answer)
	return answer[:n]
}

// moving is a name that leads to one of two ways to a server.
type moving struct {
	name     string
	port     string
	from, to *redistest.Relay
}

func newMoving(t *testing.T, old, young *redistest.Server) *moving {
	t.Helper()
	_, port, err := net.SplitHostPort(old.Addr())
	require.NoError(t, err)
	m := &moving{
		name: "redis-" + port + ".redlatch.test",
		port: port,
		from: redistest.NewRelayAt(t, net.JoinHostPort("127.0.0.2", port), old),
		to:   redistest.NewRelayAt(t, net.JoinHostPort("127.0.0.3", port), young),
	}
	names.points(m.name, "127.0.0.2")
	return m
}

func (m *moving) addr() string { return net.JoinHostPort(m.name, m.port) }
func (m *moving) move()        { names.points(m.name, "127.0.0.3") }

// looksUp waits until the name was asked for so many times more. Who asks again and again has asked before.
func (r *rig) looksUp(m *moving, times int) {
	r.Helper()
	due := names.timesAsked(m.name) + times
	r.until(func() bool { return names.timesAsked(m.name) >= due }, "the name is not looked up again")
}

// onFixedAddresses runs a test in each mode in which the address is fixed.
func onFixedAddresses(t *testing.T, test func(t *testing.T, describe func(address string) config.Servers)) {
	t.Helper()
	for mode, describe := range map[string]func(address string) config.Servers{
		"Single":      config.Single,
		"MasterSlave": func(address string) config.Servers { return config.MasterSlave(address) },
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			test(t, describe)
		})
	}
}

// listens fits a subscription to the lock's channel.
func listens(cmd []string) bool {
	return redistest.Sends("SUBSCRIBE", lockChannel)(cmd) || redistest.Sends("SSUBSCRIBE", lockChannel)(cmd)
}

// persistent makes a client that finds out soon that a line is dead, and does not give up.
func persistent(c *config.Config) {
	hasty(c)
	probe.Deaf(c)
	c.RetryAttempts, c.LockWatchdogTimeout = 1000, 4*lively()
	c.DNSMonitoringInterval = config.NoDNSMonitoring // who asks for the name is about to connect
}

// WK-20: a server's name moves while many ask for locks and some sleep. Each call ends, and what sleeps is woken at the new address.
func TestNameThatMovesKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	for end, leave := range map[string]func(from *redistest.Relay){
		"Refusing": (*redistest.Relay).Down,
		"Silent": func(from *redistest.Relay) {
			from.OnMessage(func(redistest.Message) bool { return false })
			from.OnRequest(func([]string) redistest.Action { return redistest.SwallowRequest() })
		},
	} {
		t.Run("Single"+end, func(t *testing.T) {
			t.Parallel()
			r := &rig{T: t, server: redistest.Start(t)}
			m := newMoving(t, r.server, r.server)
			r.client, r.other = probe.Open(t, "redis://"+m.addr(), persistent), probe.Open(t, r.server.URL())
			r.outlivesMove(m, leave)
			r.nothingLeft()
		})
		t.Run("Cluster"+end, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, redistest.StartCluster(t, redistest.WithReplicas(0)))
			m := newMoving(t, f.master().Server, f.master().Server)
			f.client = f.open(nil, persistent, func(c *config.Config) {
				c.NATMapper = func(address string) string {
					if strings.HasSuffix(address, ":"+m.port) {
						return m.addr()
					}
					return address
				}
			})
			f.outlivesMove(m, leave)
			f.until(func() bool { return len(f.leftovers()) == 0 }, "a lock stays behind")
		})
	}
}

func (r *rig) outlivesMove(m *moving, leave func(from *redistest.Relay)) {
	const sleepers, callers, locks = 5, 24, 4
	before, after := m.from.Next(listens, redistest.Pass()), m.to.Next(listens, redistest.Pass())
	var served atomic.Int32 // acquisitions at the new address
	m.to.OnRequest(func(cmd []string) redistest.Action {
		if runs("acquire")(cmd) {
			served.Add(1)
		}
		return redistest.Pass()
	})
	hold := r.take(context.Background(), r.theirs())
	var asleep []*probe.Call
	for range sleepers {
		asleep = append(asleep, probe.Go(r, func() error {
			hold, err := r.lock().Lock(context.Background())
			if err != nil {
				return err
			}
			return hold.Unlock(context.Background())
		}))
	}
	before.AwaitReply(r)

	stop, taken := make(chan struct{}), new(atomic.Int32)
	var busy []*probe.Call
	for i := range callers {
		lock := rlock.New(r.client, fmt.Sprintf("{%s}:%d", lockName, i%locks))
		wait := time.Duration(i%3) * locktest.Span(100*time.Millisecond)
		busy = append(busy, probe.Go(r, func() error {
			for {
				select {
				case <-stop:
					return nil
				default:
				}
				hold, err := lock.TryLock(context.Background(), redlatch.WithWait(wait))
				if err != nil {
					assert.Nil(r, hold)
					continue
				}
				taken.Add(1)
				_ = hold.Unlock(context.Background()) // fails while there is no server
			}
		}))
	}
	r.until(func() bool { return taken.Load() > callers }, "the locks are not taken")
	leave(m.from)
	r.looksUp(m, 1)
	m.move()
	r.until(func() bool { return served.Load() > callers }, "the new address is not asked for locks")
	close(stop)
	for _, call := range busy {
		require.NoError(r, call.Ends())
	}
	after.AwaitReply(r)
	r.release(hold)
	for _, call := range asleep {
		require.NoError(r, call.Ends())
	}
	r.release(r.take(context.Background(), r.lock()))
}

// WK-20: the servers behind the name change places, and the old address goes on, as a replica, which refuses to write.
func TestNameThatLeavesADemotedMasterIsFollowed(t *testing.T) {
	t.Parallel()
	onFixedAddresses(t, func(t *testing.T, describe func(address string) config.Servers) {
		servers := redistest.StartReplicated(t, 1)
		heir := servers.Replicas()[0]
		r := &rig{T: t, server: heir.Server}
		m := newMoving(t, servers.Master().Server, heir.Server)
		r.client = probe.Open(t, "redis://"+m.addr(), func(c *config.Config) {
			c.Servers, c.RetryDelay = describe("redis://"+m.addr()), config.Delay{Min: 5 * time.Millisecond, Max: 20 * time.Millisecond}
			c.DNSMonitoringInterval = config.NoDNSMonitoring
		})
		hold := r.take(t.Context(), r.lock())
		before, after := m.from.Next(listens, redistest.Pass()), m.to.Next(listens, redistest.Pass())
		waiter := r.starts(t.Context(), r.lock())
		before.AwaitReply(t)
		r.until(func() bool { return heir.Do(t, "EXISTS", lockName).Int() == 1 }, "the lock is not replicated")
		servers.Promote(t, heir)
		asked := names.timesAsked(m.name)
		call := r.starts(t.Context(), rlock.New(r.client, "order:1002"), redlatch.WithWait(probe.Patience))
		r.until(func() bool { return names.timesAsked(m.name) > asked+1 }, "the name is not asked for again")
		m.move() // later than the servers changed places, as in life, and than all the attempts that a broken server gets
		r.release(call.Succeeds())
		after.AwaitReply(t)
		r.release(hold)
		r.release(waiter.Succeeds())
		r.nothingLeft()
	})
}

// The name moves to another server while the old one goes on: who stayed would be alone there.
func TestNameThatLeavesAServingServerIsFollowed(t *testing.T) {
	t.Parallel()
	onFixedAddresses(t, func(t *testing.T, describe func(address string) config.Servers) {
		old, young := redistest.Start(t), redistest.Start(t)
		r := &rig{T: t, server: young}
		m := newMoving(t, old, young)
		follower := func(every time.Duration) *redlatch.Client {
			return probe.Open(t, "redis://"+m.addr(), probe.Deaf, probe.Watchdog(lively()), func(c *config.Config) {
				c.Servers, c.DNSMonitoringInterval = describe("redis://"+m.addr()), every
			})
		}
		r.client = follower(100 * time.Millisecond)
		stayer := r.take(t.Context(), rlock.New(follower(config.NoDNSMonitoring), "order:1003"))
		hold := r.take(t.Context(), r.lock())
		theirs := r.take(t.Context(), rlock.New(probe.Open(t, old.URL()), "order:1002"))
		before, after := m.from.Next(redistest.Sends("SUBSCRIBE", "order:1002"), redistest.Pass()), m.to.Next(redistest.Sends("SUBSCRIBE"), redistest.Pass())
		waiter := r.starts(t.Context(), rlock.New(r.client, "order:1002"))
		before.AwaitReply(t)
		r.looksUp(m, 2)
		m.move()
		next := waiter.Succeeds() // where nobody has it
		require.Equal(t, 1, int(young.Do(t, "EXISTS", "order:1002").Int()))
		r.within(hold.Lost(), "the news that the new server does not know the hold")
		require.ErrorIs(t, hold.Err(), redlatch.ErrLost)
		r.release(r.take(t.Context(), r.lock()))
		second := r.starts(t.Context(), rlock.New(r.client, "order:1002")) // listens at the new server
		after.AwaitReply(t)
		r.release(next)
		r.release(second.Succeeds())
		r.nothingLeft()

		require.NoError(t, theirs.Err())
		r.release(theirs)
		require.NoError(t, stayer.Err())
		r.release(stayer)
	})
}

// A name that leads now here, now there, to the same server, and one that can't be found for a while, are no reason to leave a connection.
func TestNameThatLeadsNowhereElseIsLeftAlone(t *testing.T) {
	t.Parallel()
	for answer, hosts := range map[string][]string{"ByTurns": {"127.0.0.2", "127.0.0.3"}, "NotFound": nil} {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			r := &rig{T: t, server: redistest.Start(t)}
			m, logs := newMoving(t, r.server, r.server), &logBook{}
			cfg := config.Config{Servers: config.Single("redis://" + m.addr()), DNSMonitoringInterval: 100 * time.Millisecond}
			r.client = probe.Client(t, cfg, nil, logs.option())
			r.looksUp(m, 2)
			connection := r.server.Clients(t, "normal")
			require.Len(t, connection, 1)
			names.points(m.name, hosts...)
			due := names.timesAsked(m.name) + 10
			r.until(func() bool {
				r.release(r.take(t.Context(), r.lock())) // would need a new connection, were the old one left
				return names.timesAsked(m.name) >= due
			}, "the name is not looked up again")
			now := r.server.Clients(t, "normal")
			require.Len(t, now, 1)
			require.Equal(t, connection[0].ID, now[0].ID)
			require.Zero(t, logs.count("name leads elsewhere"))
			r.nothingLeft()
		})
	}
}

// The name leads to where nobody answers, by a slip: the old server is used on, until one is there.
func TestNameThatLeadsToNoServerIsNotFollowed(t *testing.T) {
	t.Parallel()
	old, young := redistest.Start(t), redistest.Start(t)
	r := &rig{T: t, server: old}
	m, logs := newMoving(t, old, young), &logBook{}
	cfg := config.Config{Servers: config.Single("redis://" + m.addr()), DNSMonitoringInterval: 20 * time.Millisecond, LockWatchdogTimeout: 2 * lively()}
	r.client = probe.Client(t, cfg, nil, logs.option())
	hold := r.take(t.Context(), r.lock())
	r.looksUp(m, 2)
	m.to.Down()
	m.move()
	const warning = "where none answers"
	r.until(func() bool { return logs.count(warning) > 0 }, "nobody is told")
	r.looksUp(m, 10)
	r.release(hold)
	hold = r.take(t.Context(), r.lock())
	require.Equal(t, 1, int(old.Do(t, "EXISTS", lockName).Int()))
	require.Equal(t, 1, logs.count(warning), "it is told once")
	m.to.Up(t)
	r.until(func() bool {
		_, err := rlock.New(r.client, "order:1002").IsLocked(t.Context())
		return err == nil && m.to.Conns() > 0
	}, "the server that is there is not used")
	r.within(hold.Lost(), "the news that the new server does not know the hold")
}
