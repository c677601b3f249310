package redistest

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"
)

// putProxy puts a proxy before the node, under whose address clients and replicas come to it from now on. The cluster bus
// stays where it is.
func (n *Node) putProxy(ctx context.Context) error {
	proxy, err := launchProxy(n.Addr())
	if err != nil {
		return fmt.Errorf("redistest: start the proxy of a node: %w", err)
	}
	n.proxy, n.announced = proxy, proxy.Addr()
	_, port, err := net.SplitHostPort(n.announced)
	if err != nil {
		return fmt.Errorf("redistest: read the proxy's address: %w", err)
	}
	bus, err := n.busPort()
	if err != nil {
		return err
	}
	if err := n.keep("CONFIG", "SET", "cluster-announce-port", port); err != nil {
		return err
	}
	if err := n.keep("CONFIG", "SET", "cluster-announce-bus-port", bus); err != nil {
		return err
	}
	// Servers before 7.0 tell others at once and themselves at their next start.
	return n.backend.Restart(ctx)
}

// Proxy is the line to the node, for what SetLatency, Cut and Restore do not offer. It panics without WithProxies.
//
// The line carries clients and the replicas of the node, which also reach it under its announced address: they see its
// latency, and a cut ends replication from it. The cluster bus does not, so that no cut of a line causes a failover.
func (n *Node) Proxy() *Proxy {
	if n.proxy == nil {
		panic("redistest: no proxy is before " + n.Addr() + "; start the cluster with WithProxies")
	}
	return n.proxy
}

// SetLatency makes each round trip to the node take d longer, in whole milliseconds; all of d lies on the way back. 0 ends
// it. It panics without WithProxies.
func (n *Node) SetLatency(d time.Duration) { n.Proxy().AddLatency(d) }

// Cut closes all connections that lead to the node and refuses new ones until Restore; the node lives on. It panics without
// WithProxies.
func (n *Node) Cut() { n.Proxy().Down() }

// Restore ends Cut and all else that was done to the line, latency included. It panics without WithProxies.
func (n *Node) Restore(t testing.TB) {
	t.Helper()
	n.Proxy().Restore()
	n.Proxy().Up(t)
}
