package topology

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"time"
)

// lookTwice is after how long a name that leads elsewhere is looked up again, so that one odd answer moves nobody.
const lookTwice = time.Second

// hostName is the name behind which the server with the fixed address stands; empty for a number or a socket.
func (t *Topology) hostName() string {
	at := t.cfg.Servers.Addresses()[0]
	host, _, err := net.SplitHostPort(at.Addr)
	if err != nil || at.Network == "unix" {
		return ""
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return ""
	}
	return host
}

// watchName is a goroutine that looks up the name of the server with the fixed address. When it has lost all the hosts that it had when the
// server was connected to, twice in a row, and a server answers at those that it has now, that one takes the place of the old one,
// which may go on: Redisson's clients go there as well (dnsMonitoringInterval, Redisson 4.7.0), and who stayed would hold locks that exclude
// nobody any more.
func (t *Topology) watchName(name string) {
	timer := time.NewTimer(t.cfg.DNSMonitoringInterval)
	defer timer.Stop()
	server, known := t.Master(""), t.hostsOf(name)
	elsewhere, warned := false, false
	for {
		select {
		case <-t.life.Done():
			return
		case <-timer.C:
		}
		next := t.cfg.DNSMonitoringInterval
		now := t.hostsOf(name)
		if at := t.Master(""); at != server || len(known) == 0 { // connected to anew meanwhile
			server, known, elsewhere = at, now, false
		}
		switch {
		case len(now) == 0: // the service of names is down, say: that leads nowhere
		case slices.ContainsFunc(now, func(a netip.Addr) bool { return slices.Contains(known, a) }):
			elsewhere, warned = false, false
		case !elsewhere:
			next, elsewhere = min(next, lookTwice), true
		default:
			elsewhere = false
			heir, err := t.reach(server.address)
			if err != nil {
				if !warned && t.life.Err() == nil {
					t.log.Warn("a server's name leads elsewhere now, where none answers; the old one is used on", "server", server.address, "error", err)
				}
				warned = true
				break
			}
			select {
			case t.moved <- move{server, heir}:
				server, known, warned = heir, now, false
			case <-t.life.Done():
				heir.close()
				return
			}
		}
		timer.Reset(next)
	}
}

// hostsOf looks a name up; none when it can't be found.
func (t *Topology) hostsOf(name string) []netip.Addr {
	ctx, cancel := context.WithTimeout(t.life, t.cfg.ConnectTimeout)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	if err != nil {
		return nil
	}
	for i, a := range found {
		found[i] = a.Unmap()
	}
	return found
}

// reach connects to an address anew, and fails where no server answers that lets this client in.
func (t *Topology) reach(address string) (*Node, error) {
	n := t.dialled(address, dataRole)
	ctx, cancel := context.WithTimeout(t.life, t.cfg.ConnectTimeout)
	defer cancel()
	if _, err := t.ask(ctx, n, "PING"); err != nil && !refusesCommand(err) {
		n.close()
		return nil, err
	}
	return n, nil
}
