package redistest

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ClusterOption changes what cluster StartCluster runs. Each Option is one, and goes to every node.
type ClusterOption interface{ setCluster(o *clusterOptions) }

// SentinelOption changes what StartSentinel runs. Each Option is one, and goes to the data nodes alone.
type SentinelOption interface{ setSentinel(o *sentinelOptions) }

type clusterOptions struct {
	Options
	masters     int
	replicas    int // of each master
	nodeTimeout time.Duration
	proxies     bool
}

type sentinelOptions struct {
	Options
	replicas  int
	downAfter time.Duration
	password  string // of the sentinels
}

type (
	clusterOption  func(o *clusterOptions)
	sentinelOption func(o *sentinelOptions)
	replicasOption int
)

func (f Option) setCluster(o *clusterOptions)           { f(&o.Options) }
func (f Option) setSentinel(o *sentinelOptions)         { f(&o.Options) }
func (f clusterOption) setCluster(o *clusterOptions)    { f(o) }
func (f sentinelOption) setSentinel(o *sentinelOptions) { f(o) }
func (n replicasOption) setCluster(o *clusterOptions)   { o.replicas = int(n) }
func (n replicasOption) setSentinel(o *sentinelOptions) { o.replicas = int(n) }

// WithMasters sets how many masters a cluster has in place of 3; 1 is the least. A failover needs the votes of a majority of
// them.
func WithMasters(n int) ClusterOption {
	return clusterOption(func(o *clusterOptions) { o.masters = n })
}

// WithReplicas sets how many replicas each master has: in a cluster in place of 1, below sentinels in place of 2.
func WithReplicas(n int) interface {
	ClusterOption
	SentinelOption
} {
	return replicasOption(n)
}

// WithNodeTimeout sets after how much silence the nodes of a cluster think that one of them is down, in place of 2 s. They
// mend their links among each other at the same pace: with minutes they can take as long to agree.
func WithNodeTimeout(d time.Duration) ClusterOption {
	return clusterOption(func(o *clusterOptions) { o.nodeTimeout = d })
}

// WithProxies puts a Proxy before every node of a cluster and has the nodes announce the proxies, so that clients come
// through them; see Node.SetLatency.
func WithProxies() ClusterOption { return clusterOption(func(o *clusterOptions) { o.proxies = true }) }

// WithDownAfter sets after how much silence a sentinel thinks that a server is down, in place of 2 s.
func WithDownAfter(d time.Duration) SentinelOption {
	return sentinelOption(func(o *sentinelOptions) { o.downAfter = d })
}

// WithSentinelPassword requires the password of the clients of sentinels, also of the sentinels among themselves. Neither it
// nor that of WithPassword may hold white space or quotes, since sentinels write both down as they stand.
func WithSentinelPassword(password string) SentinelOption {
	return sentinelOption(func(o *sentinelOptions) { o.password = password })
}

func newClusterOptions(opts []ClusterOption) (*clusterOptions, error) {
	o := &clusterOptions{masters: 3, replicas: 1, nodeTimeout: defaultPatience}
	for _, opt := range opts {
		opt.setCluster(o)
	}
	if o.masters < 1 || o.replicas < 0 || o.nodeTimeout <= 0 {
		return nil, fmt.Errorf("redistest: no cluster has %d masters with %d replicas each and a node timeout of %v", o.masters, o.replicas, o.nodeTimeout)
	}
	return o, o.checkOptions()
}

func newSentinelOptions(opts []SentinelOption) (*sentinelOptions, error) {
	o := &sentinelOptions{replicas: 2, downAfter: defaultPatience}
	for _, opt := range opts {
		opt.setSentinel(o)
	}
	if o.replicas < 0 || o.downAfter <= 0 {
		return nil, fmt.Errorf("redistest: no sentinels watch %d replicas with a down-after of %v", o.replicas, o.downAfter)
	}
	if strings.ContainsAny(o.Password+o.password, " \t\"'") {
		return nil, errors.New("redistest: sentinels need passwords without white space and quotes")
	}
	return o, o.checkOptions()
}
