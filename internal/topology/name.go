package topology

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// lookTwice is after how long a name that leads elsewhere is looked up again: one that leads now here, now there leads to the same servers by
// many ways, and need not be followed.
const lookTwice = time.Second

// hosts counts the connections to one server by the host that they lead to, which are several when its name moves. It is safe for concurrent use.
type hosts struct {
	mu     sync.Mutex
	counts map[netip.Addr]int // guarded by mu
}

// join takes a connection down, until leave is called.
func (h *hosts) join(remote net.Addr) (leave func()) {
	tcp, ok := remote.(*net.TCPAddr)
	if !ok {
		return func() {} // a socket
	}
	host := plainAddr(tcp.AddrPort().Addr())
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.counts == nil {
		h.counts = make(map[netip.Addr]int)
	}
	h.counts[host]++
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.counts[host]--
		if h.counts[host] == 0 {
			delete(h.counts, host)
		}
	}
}

// strayed tells whether a connection leads to none of the hosts.
func (h *hosts) strayed(from []netip.Addr) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for host := range h.counts {
		if !slices.Contains(from, host) {
			return true
		}
	}
	return false
}

// plainAddr is an address in the form in which two of them can be compared.
func plainAddr(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// hostName is the name behind which the server with the fixed address stands; empty for a number or a socket.
func (t *Topology) hostName() string {
	host, _, err := net.SplitHostPort(t.cfg.Servers.Addresses()[0].Addr)
	if err != nil {
		return ""
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return ""
	}
	return host
}

// watchName is a goroutine that looks up the name of the server with the fixed address. When that leads elsewhere, and does so again, the
// address is connected to anew, as by Redisson's clients (dnsMonitoringInterval, Redisson 4.7.0), though the old server may go on: who stayed
// with it would hold locks that exclude nobody any more.
func (t *Topology) watchName(name string) {
	timer := time.NewTimer(t.cfg.DNSMonitoringInterval)
	defer timer.Stop()
	for before := false; ; {
		select {
		case <-t.life.Done():
			return
		case <-timer.C:
		}
		next := t.cfg.DNSMonitoringInterval
		n := t.Master("")
		elsewhere := t.leadsElsewhere(name, n)
		switch {
		case elsewhere && before:
			t.giveUp(n, "its name leads elsewhere")
			before = false
		case elsewhere:
			next, before = min(next, lookTwice), true
		default:
			before = false
		}
		timer.Reset(next)
	}
}

// leadsElsewhere looks a name up. One that can't be found leads nowhere else: that happens when the service of names is down.
func (t *Topology) leadsElsewhere(name string, n *Node) bool {
	ctx, cancel := context.WithTimeout(t.life, t.cfg.ConnectTimeout)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	if err != nil || len(found) == 0 {
		return false
	}
	for i, a := range found {
		found[i] = plainAddr(a)
	}
	return n.hosts.strayed(found)
}
