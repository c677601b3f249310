package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/redistest/redisproc"
)

const (
	// masterName is the name under which sentinels know the master.
	masterName = "mymaster"
	// sentinelCount is how many sentinels there are; two of them are the majority that a failover needs.
	sentinelCount = 3
)

// Sentinel is a master with replicas and the three sentinels that watch them. It is safe for concurrent use.
type Sentinel struct {
	data      *Replicated // which server is master is for the sentinels to say
	sentinels group
}

// StartSentinel runs a master, its replicas (2 by default) and three sentinels with a quorum of 2 for the length of the test,
// and returns when each sentinel knows all the others and every replica.
func StartSentinel(t testing.TB, opts ...SentinelOption) *Sentinel {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), launchTimeout)
	defer cancel()
	s, err := LaunchSentinel(ctx, opts...)
	if err != nil {
		t.Fatalf("redistest: start sentinels: %v", err)
	}
	s.data.nodes.endWith(t)
	s.sentinels.endWith(t)
	return s
}

// LaunchSentinel is StartSentinel without a test. ctx bounds the start; the servers end with Close. On failure nothing is left
// behind.
func LaunchSentinel(ctx context.Context, opts ...SentinelOption) (*Sentinel, error) {
	o, err := newSentinelOptions(opts)
	if err != nil {
		return nil, err
	}
	data, err := LaunchReplicated(ctx, o.replicas, o.Options)
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(data.Master().Addr())
	if err != nil {
		return nil, errors.Join(err, data.Close())
	}
	sentinels, err := launchGroup(ctx, sentinelCount, func(int) Options { return o.sentinel(port) })
	if err != nil {
		return nil, errors.Join(err, data.Close())
	}
	s := &Sentinel{data: data, sentinels: sentinels}
	if err := s.form(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// sentinel is the options of a sentinel that watches the master at the port.
func (o *sentinelOptions) sentinel(port string) Options {
	out := Options{Version: o.Version, Password: o.password}
	out.process = redisproc.Options{Args: []string{"--sentinel"}, ReadyLine: "Sentinel ID is "}
	set := func(words ...string) {
		out.Config = append(out.Config, redisproc.Directive{Key: "sentinel", Value: strings.Join(words, " ")})
	}
	set("monitor", masterName, "127.0.0.1", port, "2")
	set("announce-ip", "127.0.0.1")
	set("down-after-milliseconds", masterName, strconv.FormatInt(o.downAfter.Milliseconds(), 10))
	// A second failover is not tried before twice this time has passed.
	set("failover-timeout", masterName, "3000")
	set("parallel-syncs", masterName, "8")
	if o.Password != "" {
		set("auth-pass", masterName, o.Password)
	}
	if o.password != "" {
		set("sentinel-pass", o.password)
	}
	return out
}

func (s *Sentinel) form(ctx context.Context) error {
	for _, n := range s.sentinels {
		n.tune = n.hurry
		if err := n.hurry(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	return await(ctx, "the sentinels to know all servers", s.amiss)
}

// hurry has a sentinel look, ask and tell more often than the default of seconds, and be careful for seconds instead of half
// a minute after it was frozen. Sentinels before 7.0 cannot be hurried.
func (n *Node) hurry() error {
	pace := []string{"SENTINEL", "DEBUG"}
	for name, d := range map[string]time.Duration{
		"INFO-PERIOD": 500 * time.Millisecond, "PING-PERIOD": 200 * time.Millisecond, "ASK-PERIOD": 200 * time.Millisecond,
		"PUBLISH-PERIOD": 300 * time.Millisecond, "TILT-PERIOD": 2 * time.Second, "MIN-LINK-RECONNECT-PERIOD": 2 * time.Second,
	} {
		pace = append(pace, name, strconv.FormatInt(d.Milliseconds(), 10))
	}
	_, err := n.TryDo(pace...)
	if reply := ReplyError(""); errors.As(err, &reply) && strings.Contains(string(reply), "Unknown subcommand") {
		return nil
	}
	return err
}

// HasSentinel says whether the server program of the version can be a sentinel. All four that redisproc can fetch can: Redis
// 6.2.5, 7.0.15 and 8.2.3 and Valkey 9.1.2. ctx bounds the search for the program, with its possible download.
func HasSentinel(ctx context.Context, version redisproc.Version) (bool, error) {
	program, err := redisproc.Binary(ctx, version)
	if err != nil {
		return false, err
	}
	// A sentinel refuses to start without a configuration file and says so; what is no sentinel does not know the word.
	out, err := exec.CommandContext(ctx, program, "--sentinel", "--port", "0").CombinedOutput()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		return false, fmt.Errorf("redistest: run %s: %w", program, err)
	}
	return strings.Contains(string(out), "Sentinel needs config file"), nil
}

// Close ends all servers and waits for their end. It is idempotent.
func (s *Sentinel) Close() error { return errors.Join(s.sentinels.close(), s.data.Close()) }

// MasterName is the name under which the sentinels know the master.
func (s *Sentinel) MasterName() string { return masterName }

// Addresses are the URLs of the sentinels, redis://host:port.
func (s *Sentinel) Addresses() []string { return s.sentinels.urls() }

// Servers is how a client is told of the sentinels and their master.
func (s *Sentinel) Servers() config.Servers { return config.Sentinel(masterName, s.Addresses()...) }

// Sentinels are the three sentinels.
func (s *Sentinel) Sentinels() []*Node { return s.sentinels }

// Nodes are the servers that hold data, the first master first.
func (s *Sentinel) Nodes() []*Node { return s.data.Nodes() }

// Master is the master on which all living sentinels agree. It fails the test after a minute without.
func (s *Sentinel) Master(t testing.TB) *Node {
	t.Helper()
	var master *Node
	settle(t, "the sentinels to agree", func() (err error) {
		master, err = s.seenBy(s.sentinels.living())
		return err
	})
	return master
}

// MasterOf is Master, which has every key.
func (s *Sentinel) MasterOf(t testing.TB, _ string) *Node {
	t.Helper()
	return s.Master(t)
}

// Replicas are the servers that hold data and are not Master, whether or not they live.
func (s *Sentinel) Replicas(t testing.TB) []*Node {
	t.Helper()
	return s.data.nodes.but(s.Master(t))
}

// FailOver has a sentinel replace the master and returns the new one, when all living sentinels agree on it and all living
// replicas follow it. Sentinels before 7.0 take 20 s more to see that the replicas do; WaitOK waits for that.
func (s *Sentinel) FailOver(t testing.TB) *Node {
	t.Helper()
	from := s.Master(t)
	leader := s.sentinels.living()[:1]
	// Asked again and again, since a sentinel can refuse and can give up. While it is at it, it refuses.
	settle(t, "a sentinel to replace the master", func() error {
		if master, err := s.seenBy(leader); err != nil || master != from {
			return err
		}
		if _, err := leader[0].TryDo("SENTINEL", "FAILOVER", masterName); err != nil {
			return err
		}
		return errors.New("it has begun")
	})
	to := s.AwaitHeir(t, from)
	settle(t, "the replicas to follow", func() error { return replicating(to, s.data.nodes.but(to).living()) })
	return to
}

// AwaitHeir returns the master when all living sentinels agree on one that is not this one, and it knows itself. The
// others may not have followed yet, see WaitOK. It fails the test after a minute.
func (s *Sentinel) AwaitHeir(t testing.TB, not *Node) *Node {
	t.Helper()
	var master *Node
	settle(t, "another master than "+not.Addr(), func() (err error) {
		if master, err = s.seenBy(s.sentinels.living()); err != nil {
			return err
		}
		if master == not {
			return errors.New("it is the master still")
		}
		return replicating(master, nil)
	})
	return master
}

// WaitOK returns when all living sentinels agree on a living master, know each other and every living replica, and these
// follow the master. It fails the test after a minute.
func (s *Sentinel) WaitOK(t testing.TB) {
	t.Helper()
	settle(t, "the sentinels to know all servers", s.amiss)
}

// seenBy is the master in the eyes of the sentinels, an error where they differ.
func (s *Sentinel) seenBy(sentinels group) (*Node, error) {
	var master *Node
	for _, n := range sentinels {
		reply, err := n.TryDo("SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterName)
		if err != nil {
			return nil, err
		}
		addr := strings.Join(reply.Texts(), ":")
		found := s.data.nodes.announcing(addr)
		if found == nil || master != nil && found != master {
			return nil, fmt.Errorf("for %s the master is %s", n.Addr(), addr)
		}
		master = found
	}
	if master == nil {
		return nil, errors.New("no sentinel lives")
	}
	return master, nil
}

// amiss says what WaitOK still waits for.
func (s *Sentinel) amiss() error {
	master, err := s.seenBy(s.sentinels.living())
	if err != nil {
		return err
	}
	if err := replicating(master, s.data.nodes.but(master).living()); err != nil {
		return err
	}
	for _, n := range s.sentinels.living() {
		if err := n.with(func(c *Conn) error { return s.knowsAll(c, n, master) }); err != nil {
			return fmt.Errorf("%s: %w", n.Addr(), err)
		}
	}
	return nil
}

// knowsAll says whom a sentinel does not yet know as it should.
func (s *Sentinel) knowsAll(c *Conn, sentinel, master *Node) error {
	reply, err := c.Do("SENTINEL", "MASTER", masterName)
	if err != nil {
		return err
	}
	if flags := reply.Map()["flags"]; flags != "master" {
		return fmt.Errorf("the master is seen as %s", flags)
	}
	for subcommand, wanted := range map[string]group{"REPLICAS": s.data.nodes.but(master), "SENTINELS": s.sentinels.but(sentinel)} {
		reply, err := c.Do("SENTINEL", subcommand, masterName)
		if err != nil {
			return err
		}
		seen := make(map[string]map[string]string)
		for _, entry := range reply.List() {
			fields := entry.Map()
			seen[net.JoinHostPort(fields["ip"], fields["port"])] = fields
		}
		for _, n := range wanted {
			if err := seenWell(n, seen[n.announced], master); err != nil {
				return err
			}
		}
	}
	return nil
}

// seenWell says what is wrong with how a sentinel sees a replica or another sentinel; a dead one must only be known.
func seenWell(n *Node, fields map[string]string, master *Node) error {
	flags := fields["flags"]
	isDown := strings.Contains(flags, "s_down") || strings.Contains(flags, "disconnected")
	switch {
	case fields == nil:
		return fmt.Errorf("%s is not known", n.Addr())
	case !n.living() || strings.HasPrefix(flags, "sentinel") && !isDown:
		return nil
	case flags != "slave" || fields["master-link-status"] != "ok" || "127.0.0.1:"+fields["master-port"] != master.announced:
		return fmt.Errorf("%s is seen as %s of %s, link %s", n.Addr(), flags, fields["master-port"], fields["master-link-status"])
	}
	return nil
}
