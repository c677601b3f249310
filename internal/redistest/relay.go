package redistest

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/redistest/redisproc"
)

// Relay stands between clients and a server and understands what passes: every command on every connection is shown to
// the test before it goes on, and the test says what becomes of it and of its reply. It is safe for concurrent use.
//
// It speaks RESP2 and RESP3, pipelined or not, and pairs each reply with its command. It does not understand MONITOR,
// CLIENT REPLY and TLS. A connection that it accepts while the server is unreachable is closed at once.
type Relay struct {
	target string
	addr   string

	hookMu    sync.Mutex                // held during hooks, so that they need no lock of their own
	onRequest func(cmd []string) Action // guarded by hookMu
	traps     []*Trap                   // guarded by hookMu: not yet sprung
	onMessage atomic.Pointer[func(Message) bool]

	gateMu sync.RWMutex  // held for reading during each write to a client
	gate   chan struct{} // guarded by gateMu: while replies are paused, what ends the pause; else nil

	mu       sync.Mutex   // guards the rest
	listener net.Listener // nil while down
	conns    map[*relayConn]struct{}
	serving  sync.WaitGroup // the accept loop and one count for each connection
}

// NewRelay starts a relay to a server (a *Server or a *Mini) for the length of the test. Without hooks it passes
// everything on unchanged.
func NewRelay(t testing.TB, server interface{ Addr() string }) *Relay {
	t.Helper()
	return startRelay(t, server, (*Relay).listenSomewhere)
}

// NewRelayAt is NewRelay at an address of the test's choice. That of the server itself on 127.0.0.2 and 127.0.0.3 makes two
// between which a name in the DNS can move.
func NewRelayAt(t testing.TB, addr string, server interface{ Addr() string }) *Relay {
	t.Helper()
	return startRelay(t, server, func(r *Relay) error {
		r.addr = addr
		return r.listen()
	})
}

func startRelay(t testing.TB, server interface{ Addr() string }, listen func(r *Relay) error) *Relay {
	t.Helper()
	if s, isServer := server.(*Server); isServer && s.tls != nil {
		t.Fatal("redistest: a relay cannot read TLS; start the server without WithTLS")
	}
	r := &Relay{target: server.Addr(), conns: make(map[*relayConn]struct{})}
	if err := listen(r); err != nil {
		t.Fatalf("redistest: start a relay: %v", err)
	}
	t.Cleanup(r.Down)
	return r
}

// listenSomewhere takes a port that stays this relay's own over Down and Up.
func (r *Relay) listenSomewhere() error {
	var err error
	for range 20 {
		var port int
		if port, err = redisproc.FreePort(); err != nil {
			return err
		}
		r.addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		if err = r.listen(); err == nil {
			return nil
		}
	}
	return err
}

func (r *Relay) listen() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.listener != nil {
		return nil
	}
	l, err := net.Listen("tcp", r.addr)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", r.addr, err)
	}
	r.listener = l
	r.serving.Add(1)
	go r.accept(l)
	return nil
}

// Addr is the relay's own address, host:port, to be given to clients in place of the server's.
func (r *Relay) Addr() string { return r.addr }

// URL is redis:// and Addr.
func (r *Relay) URL() string { return "redis://" + r.addr }

// OnRequest sets what is asked about each command that no Trap takes; nil passes everything. Calls of the hook are one at a
// time, over all connections, in the order of arrival on each. It must not block and must not call the relay: to wait, it
// returns HoldRequest or HoldReply. A command that the relay has read before is not asked about again.
func (r *Relay) OnRequest(hook func(cmd []string) Action) {
	r.hookMu.Lock()
	defer r.hookMu.Unlock()
	r.onRequest = hook
}

// OnMessage sets what is asked about each published message on its way to a subscriber: false loses it. nil passes
// everything. It may block, which delays whatever else this connection has to bring, and may be called for several
// connections at once.
func (r *Relay) OnMessage(pass func(Message) bool) {
	if pass == nil {
		r.onMessage.Store(nil)
		return
	}
	r.onMessage.Store(&pass)
}

// Next lays a trap for the next command that fits, on whatever connection: it gets the action, once. Traps come before
// OnRequest and are tried in the order in which they were laid.
func (r *Relay) Next(fits func(cmd []string) bool, action Action) *Trap {
	trap := &Trap{fits: fits, action: action, requested: make(chan struct{}), answered: make(chan struct{})}
	r.hookMu.Lock()
	defer r.hookMu.Unlock()
	r.traps = append(r.traps, trap)
	return trap
}

// decide asks the traps and the hook what becomes of a command.
func (r *Relay) decide(cmd []string) (Action, *Trap) {
	r.hookMu.Lock()
	defer r.hookMu.Unlock()
	for i, trap := range r.traps {
		if trap.fits(cmd) {
			r.traps = slices.Delete(r.traps, i, i+1)
			trap.cmd = cmd
			close(trap.requested)
			return trap.action, trap
		}
	}
	if r.onRequest != nil {
		return r.onRequest(cmd), nil
	}
	return Pass(), nil
}

// PauseReplies keeps back everything that the server sends, on all connections, open and new, until resume is called;
// requests go through. When it returns no client receives another byte. Resume is idempotent.
func (r *Relay) PauseReplies() (resume func()) {
	r.gateMu.Lock()
	defer r.gateMu.Unlock()
	gate := make(chan struct{})
	if before := r.gate; before != nil {
		gate = before // one pause is all that there is: the first resume ends it
	}
	r.gate = gate
	return func() {
		r.gateMu.Lock()
		defer r.gateMu.Unlock()
		if r.gate == gate {
			close(gate)
			r.gate = nil
		}
	}
}

// Conns is how many connections are open.
func (r *Relay) Conns() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.conns)
}

// Cut closes all open connections, on both sides, and returns how many there were. When it returns nothing of what was
// held or in flight in the relay can reach server or client any more. New connections are accepted.
func (r *Relay) Cut() int {
	r.mu.Lock()
	cut := make([]*relayConn, 0, len(r.conns))
	for c := range r.conns {
		cut = append(cut, c)
	}
	r.mu.Unlock()
	for _, c := range cut {
		c.tearDown()
	}
	for _, c := range cut {
		<-c.finished
	}
	return len(cut)
}

// Down is Cut, and refuses new connections until Up. It is idempotent.
func (r *Relay) Down() {
	r.mu.Lock()
	l := r.listener
	r.listener = nil
	r.mu.Unlock()
	if l != nil {
		// An error would mean that it is closed already, which only Down does.
		_ = l.Close()
	}
	r.Cut()
	r.serving.Wait()
}

// Up accepts connections again, at the same address.
func (r *Relay) Up(t testing.TB) {
	t.Helper()
	if err := r.listen(); err != nil {
		t.Fatalf("redistest: bring the relay up: %v", err)
	}
}

// accept serves one listener until it is closed.
func (r *Relay) accept(l net.Listener) {
	defer r.serving.Done()
	for {
		client, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(time.Millisecond) // out of descriptors: the only cure is that others close theirs
			continue
		}
		server, err := dialTCP(r.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		r.adopt(l, client, server)
	}
}

func dialTCP(addr string) (*net.TCPConn, error) {
	conn, err := net.DialTimeout("tcp", addr, ioTimeout)
	if err != nil {
		return nil, err
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%s is reached by a %T, not by TCP", addr, conn), conn.Close())
	}
	return tcp, nil
}

// adopt starts a connection, unless the relay went down while it was being made.
func (r *Relay) adopt(l net.Listener, client net.Conn, server *net.TCPConn) {
	c := newRelayConn(r, client, server)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.listener != l {
		c.tearDown()
		return
	}
	r.conns[c] = struct{}{}
	r.serving.Add(1)
	go func() {
		defer r.serving.Done()
		c.run()
		r.mu.Lock()
		delete(r.conns, c)
		r.mu.Unlock()
		close(c.finished)
	}()
}
