package locktest

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/redistest"
)

// Cluster is a Redis Cluster of three masters with a replica each. Messages go by sharded channels where the server has them.
var Cluster = Topology{Name: "cluster", Start: clusters.lend, Counts: true, Replicates: true, Lent: !full}

// Sentinel is a master with a replica, and the three sentinels that name it.
var Sentinel = Topology{Name: "sentinel", Start: sentinels.lend, Counts: true, Replicates: true, Lent: !full}

// MasterSlave is a master with a replica, told by the config which of them is which.
var MasterSlave = Topology{Name: "master-slave", Start: masterSlaves.lend, Counts: true, Replicates: true, Lent: !full}

// Replicated is a master with a replica, which are asked for their roles.
var Replicated = Topology{Name: "replicated", Start: replicated.lend, Counts: true, Replicates: true, Lent: !full}

var (
	clusters     = newPool(launchCluster)
	sentinels    = newPool(launchSentinel)
	masterSlaves = newPool(launchMasterSlave)
	replicated   = newPool(launchReplicated)
)

// never is after how long servers would take a silent one for dead. A machine that is busy makes them silent for seconds, and no promise
// is about failovers.
const never = time.Hour

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func launchCluster(ctx context.Context) (*ensemble, error) {
	const masters = 3
	c, err := redistest.LaunchCluster(ctx, redistest.WithMasters(masters), redistest.WithReplicas(1))
	if err != nil {
		return nil, err
	}
	for _, n := range c.Nodes() {
		// From the start it would make the nodes slow to meet.
		if _, err := n.TryDo("CONFIG", "SET", "cluster-node-timeout", millis(never)); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return &ensemble{
		servers: c.Servers(), masters: c.Nodes()[:masters], replicas: c.Nodes()[masters:],
		masterOf: c.MasterOf, close: c.Close,
		upkeep: []string{"replconf", "cluster|nodes"},
	}, nil
}

func launchSentinel(ctx context.Context) (*ensemble, error) {
	s, err := redistest.LaunchSentinel(ctx, redistest.WithReplicas(1), redistest.WithDownAfter(never))
	if err != nil {
		return nil, err
	}
	if err := calm(s.Sentinels()); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return replicating(s.Servers(), s.Nodes(), s.Close, "replconf", "info"), nil
}

// calm has sentinels ask and tell nothing any more, so that commands can be counted. Servers before 7.0 don't let themselves
// be calmed: promises that count messages can fail there.
func calm(sentinels []*redistest.Node) error {
	for _, n := range sentinels {
		words := []string{"SENTINEL", "DEBUG"}
		for _, period := range []string{"INFO-PERIOD", "PING-PERIOD", "ASK-PERIOD", "PUBLISH-PERIOD"} {
			words = append(words, period, millis(never))
		}
		_, err := n.TryDo(words...)
		if refused := redistest.ReplyError(""); err != nil && !errors.As(err, &refused) {
			return err
		}
	}
	return nil
}

func launchMasterSlave(ctx context.Context) (*ensemble, error) {
	r, err := redistest.LaunchReplicated(ctx, 1, redistest.Options{})
	if err != nil {
		return nil, err
	}
	return replicating(config.MasterSlave(r.Addresses()[0], r.Addresses()[1:]...), r.Nodes(), r.Close, "replconf"), nil
}

func launchReplicated(ctx context.Context) (*ensemble, error) {
	r, err := redistest.LaunchReplicated(ctx, 1, redistest.Options{})
	if err != nil {
		return nil, err
	}
	return replicating(config.Replicated(r.Addresses()...), r.Nodes(), r.Close, "replconf", "info"), nil
}

// replicating is an ensemble whose first node is the master.
func replicating(servers config.Servers, nodes []*redistest.Node, end func() error, upkeep ...string) *ensemble {
	return &ensemble{
		servers: servers, masters: nodes[:1], replicas: nodes[1:], upkeep: upkeep, close: end,
		masterOf: func(testing.TB, string) *redistest.Node { return nodes[0] },
	}
}
