package interop

import (
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/internal/redistest/redisproc"
	"github.com/redlatch/redlatch/interop/javaagent"
)

// site is some servers that act as one Redis.
type site struct {
	servers  config.Servers
	yaml     func(topLevel ...string) string // the redisson.yaml that leads there
	masters  []*redistest.Server
	masterOf func(key string) *redistest.Server
	close    func() error

	sharded    bool // its messages go by SPUBLISH
	replicates bool
}

func (s *site) flush(t testing.TB) {
	t.Helper()
	for _, m := range s.masters {
		m.FlushAll(t)
	}
}

// topology is a way in which servers act as one Redis, on which topics run.
type topology struct {
	name   string
	launch func(ctx context.Context) (*site, error)

	mu   sync.Mutex
	idle []*site // guarded by mu: launched, and lent to no test
}

// One redis-server starts in no time, so each topic has one of its own. The others take seconds and are lent to one test after another.
var (
	alone     = &topology{name: "single"}
	cluster   = &topology{name: "cluster", launch: launchCluster}
	sentinels = &topology{name: "sentinel", launch: launchSentinel}
)

// never is after how long servers would take a silent one for dead. No topic is about failovers, and a busy machine is silent for seconds.
const never = time.Hour

func launchCluster(ctx context.Context) (*site, error) {
	const masters = 3
	c, err := redistest.LaunchCluster(ctx, redistest.WithMasters(masters), redistest.WithReplicas(1))
	if err != nil {
		return nil, err
	}
	s := &site{
		servers:    c.Servers(),
		yaml:       func(topLevel ...string) string { return javaagent.YAMLCluster(c.Addresses(), topLevel...) },
		close:      c.Close,
		replicates: true,
	}
	for i, n := range c.Nodes() {
		if i < masters {
			s.masters = append(s.masters, n.Server)
		}
		// From the start it would make the nodes slow to meet.
		if _, err := n.TryDo("CONFIG", "SET", "cluster-node-timeout", "3600000"); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	// The slots are dealt out in the order of the masters, and stay there.
	s.masterOf = func(key string) *redistest.Server {
		for i := range masters {
			if int(config.Slot(key)) < (i+1)*config.Slots/masters {
				return s.masters[i]
			}
		}
		panic("no such slot")
	}
	_, err = s.masters[0].TryDo("PUBSUB", "SHARDNUMSUB")
	s.sharded = err == nil && javaKnowsSharded()
	return s, nil
}

func launchSentinel(ctx context.Context) (*site, error) {
	s, err := redistest.LaunchSentinel(ctx, redistest.WithReplicas(1), redistest.WithDownAfter(never))
	if err != nil {
		return nil, err
	}
	master := s.Nodes()[0].Server
	return &site{
		servers: s.Servers(),
		yaml: func(topLevel ...string) string {
			return javaagent.YAMLSentinel(s.MasterName(), s.Addresses(), topLevel...)
		},
		masters:    []*redistest.Server{master},
		masterOf:   func(string) *redistest.Server { return master },
		close:      s.Close,
		replicates: true,
	}, nil
}

func siteOf(server *redistest.Server) *site {
	return &site{
		servers:  config.Single(server.URL()),
		yaml:     func(topLevel ...string) string { return javaagent.YAMLSingle(server.Addr(), topLevel...) },
		masters:  []*redistest.Server{server},
		masterOf: func(string) *redistest.Server { return server },
	}
}

// lend gives a site to a test, for its length. It is empty.
func (on *topology) lend(t *testing.T) *site {
	t.Helper()
	if on == alone {
		return siteOf(redistest.Start(t))
	}
	s := on.take()
	if s == nil && on == sentinels {
		able, err := redistest.HasSentinel(t.Context(), redisproc.Default)
		require.NoError(t, err)
		require.True(t, able, "the server program cannot be a sentinel: install another, or name one that can by %s", redisproc.EnvVersion)
	}
	if s == nil {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		var err error
		s, err = on.launch(ctx)
		require.NoError(t, err)
	}
	t.Cleanup(func() {
		if t.Failed() { // somebody may still be at it
			assert.NoError(t, s.close())
			return
		}
		s.flush(t)
		on.mu.Lock()
		on.idle = append(on.idle, s)
		on.mu.Unlock()
	})
	return s
}

func (on *topology) take() *site {
	on.mu.Lock()
	defer on.mu.Unlock()
	last := len(on.idle) - 1
	if last < 0 {
		return nil
	}
	s := on.idle[last]
	on.idle = on.idle[:last]
	return s
}

// end closes what is not on loan, which is everything when all tests have ended.
func (on *topology) end() error {
	var errs []error
	for s := on.take(); s != nil; s = on.take() {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}

// chooses says which topics run on which topologies.
//
// REDLATCH_TOPOLOGY names the one to run on, in place of all. REDLATCH_TOPICS is a regular expression of the topics to run, whatever the
// topology; without it all run on one redis-server, and on the others with the build tag crowd all and else these.
func (on *topology) chooses(topic string) bool {
	if only := os.Getenv("REDLATCH_TOPICS"); only != "" {
		return regexp.MustCompile(only).MatchString(topic)
	}
	return on == alone || everything || brief.MatchString(topic)
}

var brief = regexp.MustCompile(`^((plain|fair|write|read in .*|fenced): (exclusion|a waiter is woken by the message|force-unlock wakes the waiter)|` +
	`(plain|fair|read in Go.*): the watchdog keeps the other out|` +
	`all kinds: random programs leave the same state)$`)

// onEach runs tests on each topology: those of one redis-server directly below t, for their names, the others below the topology's name.
func onEach(t *testing.T, test func(t *testing.T, on *topology)) {
	for _, on := range []*topology{alone, cluster, sentinels} {
		if only := os.Getenv("REDLATCH_TOPOLOGY"); only != "" && only != on.name {
			continue
		}
		below(t, on.name, func(t *testing.T) { test(t, on) })
	}
}

// below runs a test below a topology's name, which that of one redis-server does not have.
func below(t *testing.T, topology string, test func(t *testing.T)) {
	if topology == alone.name {
		test(t)
	} else {
		t.Run(topology, test)
	}
}

// run runs a topic if it is chosen.
func (on *topology) run(t *testing.T, topic string, test func(t *testing.T)) {
	if on.chooses(topic) {
		t.Run(topic, test)
	}
}

// listener collects what is published: on one server all of it, on a cluster with sharded messages those of given channels, and what was
// not sharded.
type listener struct {
	plain, sharded *redistest.Recorder
	others         func(m redistest.Message) bool // messages that are none of ours
}

// listen hears the channels of the lock, which are told for a cluster alone: shard channels cannot be heard by patterns.
func (f *fleet) listen(t *testing.T, lockName string, channels ...string) listener {
	t.Helper()
	server := f.masterOf(lockName)
	l := listener{plain: server.Record(t, "*"), others: func(m redistest.Message) bool {
		// On a cluster what is published at one node comes to the others some time later.
		return m.Channel == "__sentinel__:hello" || len(f.masters) > 1 && !slices.Contains(channels, m.Channel)
	}}
	if f.sharded {
		l.sharded = server.RecordSharded(t, channels...)
	}
	return l
}

// channelsOf are the channels on which the locks of the kinds with that name can be announced, those of owners included.
func channelsOf(lockName string, owners ...string) []string {
	channels := []string{config.Prefixed("redisson_rwlock", lockName), config.Prefixed("redisson_lock__channel", lockName)}
	for _, owner := range owners {
		channels = append(channels, config.Prefixed("redisson_lock__channel", lockName)+":"+owner)
	}
	return channels
}

// Messages are those since the last Reset. One that should have been sharded and was not is marked.
func (l listener) Messages(t *testing.T) []redistest.Message {
	t.Helper()
	plain := slices.DeleteFunc(l.plain.Messages(t), l.others)
	if l.sharded == nil {
		return plain
	}
	for i := range plain {
		plain[i].Channel = "not sharded: " + plain[i].Channel
	}
	return append(l.sharded.Messages(t), plain...)
}

func (l listener) Reset(t *testing.T) {
	t.Helper()
	l.plain.Reset(t)
	if l.sharded != nil {
		l.sharded.Reset(t)
	}
}

func (l listener) stop() {
	l.plain.Stop()
	if l.sharded != nil {
		l.sharded.Stop()
	}
}

// programs is how many random ones run where no number is given.
func (on *topology) programs() string {
	if on == alone || everything {
		return "300"
	}
	return "60"
}
