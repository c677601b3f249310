package redistest

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"github.com/redlatch/redlatch/internal/redistest/redisproc"
)

// Proxy is a line to a server whose quality the test sets: slow, thin, deaf in one direction, down. It is toxiproxy, in this
// process; it knows nothing of commands and works for TLS too. Where it matters which command is hit, use a Relay.
//
// A call returns when its effect holds for open connections; bytes that had passed the proxy's last stage before may still
// arrive. Its methods are for one goroutine at a time.
type Proxy struct {
	addr  string
	proxy *toxiproxy.Proxy
	api   *toxiproxy.ApiServer
	to    string
	toxic map[string]bool // the names of the effects in force
}

// The effects, by the names under which toxiproxy keeps them.
const (
	latencyEffect     = "latency"
	bandwidthEffect   = "bandwidth"
	holdRepliesEffect = "hold-replies"
	cutRepliesEffect  = "cut-replies"
	cutRequestsEffect = "cut-requests"
)

// NewProxy starts a proxy to a server (a *Server or a *Mini) for the length of the test.
func NewProxy(t testing.TB, server interface{ Addr() string }) *Proxy {
	t.Helper()
	p, err := launchProxy(server.Addr())
	if err != nil {
		t.Fatalf("redistest: start a proxy: %v", err)
	}
	t.Cleanup(p.close)
	return p
}

// launchProxy is NewProxy without a test.
func launchProxy(to string) (*Proxy, error) {
	p := &Proxy{
		api:   toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()),
		to:    to,
		toxic: make(map[string]bool),
	}
	return p, p.startSomewhere()
}

// close is idempotent.
func (p *Proxy) close() {
	p.Restore() // wakes what is asleep in an effect, which would otherwise outlast the test
	p.proxy.Stop()
}

// startSomewhere takes a port that no outgoing connection can be given while the proxy is down.
func (p *Proxy) startSomewhere() error {
	var err error
	for range 20 {
		var port int
		if port, err = redisproc.FreePort(); err != nil {
			return err
		}
		p.addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		p.proxy = toxiproxy.NewProxy(p.api, "redistest", p.addr, p.to)
		if err = p.proxy.Start(); err == nil {
			return nil
		}
	}
	return err
}

// Addr is the proxy's own address, 127.0.0.1:port, to be given to clients in place of the server's.
func (p *Proxy) Addr() string { return p.addr }

// URL is redis:// and Addr.
func (p *Proxy) URL() string { return "redis://" + p.addr }

// AddLatency delays everything that the server sends by d, in whole milliseconds, in place of an earlier latency. 0 ends it.
func (p *Proxy) AddLatency(d time.Duration) {
	p.end(latencyEffect)
	if d > 0 {
		p.begin(latencyEffect, "latency", "downstream", fmt.Sprintf(`{"latency": %d}`, d.Milliseconds()))
	}
}

// Slow lets no more than so many kilobytes a second through from the server, in place of an earlier limit. 0 ends it.
func (p *Proxy) Slow(kilobytes int) {
	p.end(bandwidthEffect)
	if kilobytes > 0 {
		p.begin(bandwidthEffect, "bandwidth", "downstream", fmt.Sprintf(`{"rate": %d}`, kilobytes))
	}
}

// CutReplies lets requests through and loses everything that the server sends: commands are executed and their answers
// never come. Connections stay open until Restore, which closes those that have lost something.
func (p *Proxy) CutReplies() {
	p.begin(cutRepliesEffect, "timeout", "downstream", `{"timeout": 0}`)
}

// CutRequests loses everything that clients send. Connections stay open until Restore, which closes them.
func (p *Proxy) CutRequests() {
	p.begin(cutRequestsEffect, "timeout", "upstream", `{"timeout": 0}`)
}

// HoldReplies keeps back everything that the server sends, until ReleaseReplies or Restore, which deliver it. If the
// server closes the connection meanwhile, what was kept of it is lost.
func (p *Proxy) HoldReplies() {
	p.begin(holdRepliesEffect, holdToxicType, "downstream", `{}`)
}

// ReleaseReplies ends HoldReplies.
func (p *Proxy) ReleaseReplies() { p.end(holdRepliesEffect) }

// Restore ends every effect but Down.
func (p *Proxy) Restore() {
	for name := range p.toxic {
		p.end(name)
	}
}

// Down closes all connections and refuses new ones until Up. It is idempotent.
func (p *Proxy) Down() { p.proxy.Stop() }

// Up accepts connections again, at the same address. It is idempotent.
func (p *Proxy) Up(t testing.TB) {
	t.Helper()
	if p.proxy.Enabled {
		return
	}
	if err := p.proxy.Start(); err != nil {
		t.Fatalf("redistest: bring the proxy up: %v", err)
	}
}

// begin puts an effect in force, unless it is already. Toxiproxy can only refuse what this file writes wrongly, hence the
// panic.
func (p *Proxy) begin(name, kind, direction, attributes string) {
	if p.toxic[name] {
		return
	}
	description := fmt.Sprintf(`{"name": %q, "type": %q, "stream": %q, "attributes": %s}`, name, kind, direction, attributes)
	if _, err := p.proxy.Toxics.AddToxicJson(strings.NewReader(description)); err != nil {
		panic(fmt.Sprintf("redistest: toxiproxy refuses %s: %v", description, err))
	}
	p.toxic[name] = true
}

func (p *Proxy) end(name string) {
	if !p.toxic[name] {
		return
	}
	delete(p.toxic, name)
	if err := p.proxy.Toxics.RemoveToxic(context.Background(), name); err != nil {
		panic(fmt.Sprintf("redistest: toxiproxy does not know its toxic %s: %v", name, err))
	}
}
