package locktest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/redistest"
)

// ensemble is a topology of several servers. Who is master in it does not change.
type ensemble struct {
	servers  config.Servers
	masters  []*redistest.Node
	replicas []*redistest.Node
	masterOf func(t testing.TB, key string) *redistest.Node
	// upkeep are the commands by which its servers keep together and clients find out who is who. They go on without any lock.
	upkeep []string
	close  func() error
}

func (e *ensemble) nodes() []*redistest.Node { return slices.Concat(e.masters, e.replicas) }

func (e *ensemble) site() *Site {
	return &Site{
		Servers:       []config.Servers{e.servers},
		Keys:          e.keys,
		Channels:      e.channels,
		Do:            func(t testing.TB, args ...string) { e.masterOf(t, args[1]).Do(t, args...) },
		Commands:      e.commands,
		ResetCommands: e.resetCommands,
	}
}

// keys are those of all nodes, each once: a replica has its master's.
func (e *ensemble) keys(t testing.TB) []string {
	t.Helper()
	var all []string
	for _, n := range e.nodes() {
		all = append(all, n.Do(t, "KEYS", "*").Texts()...)
	}
	return distinct(all)
}

func (e *ensemble) channels(t testing.TB) []string {
	t.Helper()
	var all []string
	for _, n := range e.nodes() {
		all = append(all, n.Channels(t)...)
	}
	return distinct(slices.DeleteFunc(all, ofSentinels))
}

// ofSentinels tells of the channel on which sentinels find each other.
func ofSentinels(channel string) bool { return channel == "__sentinel__:hello" }

func distinct(all []string) []string {
	slices.Sort(all)
	return slices.Compact(all)
}

// toClients are the commands of lock clients that replication never passes on, so that a replica has them from a client alone.
var toClients = []string{"eval", "evalsha", "subscribe", "ssubscribe", "wait"}

// commands counts what clients sent to all nodes, without the upkeep. Sharded messages count as messages.
func (e *ensemble) commands(t testing.TB) map[string]int64 {
	t.Helper()
	all := make(map[string]int64)
	for _, n := range e.masters {
		for name, count := range n.CommandStats(t) {
			if !slices.Contains(e.upkeep, name) {
				all[unsharded(name)] += count
			}
		}
	}
	for _, n := range e.replicas {
		stats := n.CommandStats(t)
		for _, name := range toClients {
			if stats[name] > 0 {
				all[unsharded(name)] += stats[name]
			}
		}
	}
	return all
}

func unsharded(name string) string {
	switch name {
	case "spublish":
		return "publish"
	case "ssubscribe":
		return "subscribe"
	case "sunsubscribe":
		return "unsubscribe"
	default:
		return name
	}
}

func (e *ensemble) resetCommands(t testing.TB) {
	t.Helper()
	for _, n := range e.nodes() {
		n.ResetStats(t)
	}
}

// reset makes the ensemble as good as new, scripts included. It is an error when somebody listens to a channel still, after
// all clients are closed, or a key can't be got rid of.
func (e *ensemble) reset() error {
	for _, n := range e.nodes() {
		if err := eventually(func() error { return isDeaf(n) }); err != nil {
			return err
		}
	}
	for _, n := range e.masters {
		if _, err := n.TryDo("FLUSHALL"); err != nil {
			return err
		}
	}
	for _, n := range e.nodes() {
		if _, err := n.TryDo("SCRIPT", "FLUSH"); err != nil {
			return err
		}
		if err := eventually(func() error { return isEmpty(n) }); err != nil {
			return err
		}
	}
	return nil
}

func isDeaf(n *redistest.Node) error {
	for _, list := range []string{"CHANNELS", "SHARDCHANNELS"} {
		reply, err := n.TryDo("PUBSUB", list)
		if refused := redistest.ReplyError(""); errors.As(err, &refused) {
			continue // servers before 7.0 have no shard channels
		}
		if err != nil {
			return err
		}
		if left := slices.DeleteFunc(reply.Texts(), ofSentinels); len(left) > 0 {
			return fmt.Errorf("somebody listens to %q at %s", left, n.Addr())
		}
	}
	return nil
}

func isEmpty(n *redistest.Node) error {
	reply, err := n.TryDo("KEYS", "*")
	if err != nil {
		return err
	}
	if left := reply.Texts(); len(left) > 0 {
		return fmt.Errorf("%s has the keys %q", n.Addr(), left)
	}
	return nil
}

// eventually asks until there is nothing amiss, and says what is when that takes too long.
func eventually(amiss func() error) error {
	for deadline := time.Now().Add(patience); ; <-time.After(time.Millisecond) {
		if err := amiss(); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

func (e *ensemble) logs() string {
	var all strings.Builder
	for _, n := range e.nodes() {
		fmt.Fprintf(&all, "%s:\n%s\n", n.Addr(), n.Log())
	}
	return all.String()
}
