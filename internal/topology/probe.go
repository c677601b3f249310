package topology

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/lua"
)

// Probe runs a first script on every master and returns what became of each.
func Probe(ctx context.Context, t *Topology) []error {
	masters := t.Masters()
	results := make(chan error, len(masters))
	for _, n := range masters {
		go func() { results <- n.probe(ctx) }()
	}
	failures := make([]error, len(masters))
	for i := range failures {
		failures[i] = <-results
	}
	return failures
}

// probe runs the script that does nothing, with keys that it does not touch.
func (n *Node) probe(ctx context.Context, keys ...string) error {
	client, err := n.conn(ctx)
	if err != nil {
		return err
	}
	ask := lua.Probe()
	ask.Keys = keys
	_, err = lua.Run(ctx, client, ask)
	return err
}

// spread is how many slots are tried in order to tell a node of a cluster from a proxy before all of it.
const spread = 24

// probeSlots finds out what is behind a single address. A proxy before a cluster serves all slots, but each script must keep to one. A node
// of a cluster does not serve all, which is told at once: half of the locks would fail otherwise.
func (t *Topology) probeSlots(ctx context.Context, n *Node) error {
	if _, err := n.conn(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, t.cfg.Timeout)
	defer cancel()
	err := n.probe(ctx, probeKey(0), probeKey(1))
	if !says(err, "CROSSSLOT") {
		return nil // any other failure is told by the first script without keys
	}
	for i := range spread {
		if err := n.probe(ctx, probeKey(i)); says(err, "MOVED") {
			return fmt.Errorf("%s is a node of a cluster and serves only a part of the slots; describe the servers by config.Cluster", n.address)
		}
	}
	t.proxied = true
	t.log.Info("the server keeps its keys in the slots of a cluster; renewals are grouped by these", "server", n.address)
	return nil
}

// probeKey is a key in a slot of its own, of a name that a user of locks must be allowed to touch.
func probeKey(i int) string {
	return config.Prefixed(config.UnlockLatchPrefix, "redlatch-probe-"+strconv.Itoa(i))
}

// says tells whether a server's reply begins with these words.
func says(err error, words string) bool {
	var reply *rueidis.RedisError
	return errors.As(err, &reply) && strings.HasPrefix(reply.Error(), words)
}
