package demo

import (
	"context"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/rlock"
)

// watcher keeps what it is shown and can react to it.
type watcher struct {
	info    Info
	events  []Event
	verdict *Verdict
	react   func(Event)
}

func (w *watcher) Begin(i Info, _ *Board) { w.info = i }

func (w *watcher) Event(e Event) {
	w.events = append(w.events, e)
	if w.react != nil {
		w.react(e)
	}
}

func (w *watcher) End(v Verdict) { w.verdict = &v }

func (w *watcher) saw(kind EventKind) (n int) {
	for _, e := range w.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// brief is a demo that is over soon.
func brief(t *testing.T) Options {
	t.Helper()
	kind, err := KindNamed("plain")
	require.NoError(t, err)
	return Options{
		Kind: kind, Name: "order:1001", Workers: 4,
		// A section that is stopped for longer than the lease by a busy machine is one that the lock can't protect.
		For: 2 * time.Second, Hold: 5 * time.Millisecond, Lease: 500 * time.Millisecond,
	}
}

// requireExclusion is what must hold after any demo of a lock that works.
func requireExclusion(t *testing.T, v Verdict) {
	t.Helper()
	require.Empty(t, v.Problems)
	require.True(t, v.OK())
	require.Zero(t, v.Overlaps)
	require.Equal(t, v.Sections-v.Reads, v.Counter)
	require.Positive(t, v.Sections)
}

func TestLockOfEachKindExcludesOnTheEmbeddedServer(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			o := brief(t)
			o.Kind = kind
			var w watcher
			v, err := Run(t.Context(), o, &w)
			require.NoError(t, err)
			requireExclusion(t, v)
			require.Equal(t, v, *w.verdict)
			require.Equal(t, []string{"go-1", "go-2", "go-3", "go-4"}, w.info.Workers)
			require.Equal(t, "embedded miniredis", w.info.Server)
			require.Equal(t, kind.Name, w.info.Kind)
			require.Positive(t, v.HandOffs)
			require.LessOrEqual(t, v.P50, v.P99)
			require.Equal(t, 4, w.saw(Left))
			require.EqualValues(t, v.Sections, w.saw(Released))
			require.Nil(t, v.Crash)
			if kind.Reader == nil {
				require.Zero(t, v.Reads)
				return
			}
			require.Positive(t, v.Reads)
			require.Positive(t, v.Counter, "writers came in, too")
			require.Greater(t, v.Together, 1, "readers were inside together")
		})
	}
}

func TestLockOfACrashedWorkerGoesOnWhenItsLeaseIsOver(t *testing.T) {
	o := brief(t)
	o.Crash = true
	var w watcher
	v, err := Run(t.Context(), o, &w)
	require.NoError(t, err)
	requireExclusion(t, v)
	require.NotNil(t, v.Crash)
	require.NotEmpty(t, v.Crash.Next)
	require.GreaterOrEqual(t, v.Crash.After, v.Crash.Lease, "somebody had the lock before the dead worker's lease was over")
	require.Positive(t, v.Crash.Lease)
	require.Equal(t, 1, w.saw(Crashed))
	require.Equal(t, 1, w.saw(Restarted))
}

func TestReadersAndWritersWaitForTheLeaseOfACrashedWriter(t *testing.T) {
	o := brief(t)
	o.Crash, o.Kind = true, readWrite(t)
	var w watcher
	v, err := Run(t.Context(), o, &w)
	require.NoError(t, err)
	requireExclusion(t, v)
	require.NotNil(t, v.Crash)
	require.NotEmpty(t, v.Crash.Next)
	require.GreaterOrEqual(t, v.Crash.After, v.Crash.Lease, "somebody had the lock before the dead writer's lease was over")
}

func TestLockExcludesOnARealServerAndLeavesNothingBehind(t *testing.T) {
	server := redistest.Start(t)
	o := brief(t)
	o.Servers.Servers = config.Single(server.URL())
	v, err := Run(t.Context(), o, new(watcher))
	require.NoError(t, err)
	requireExclusion(t, v)
	require.Empty(t, server.Do(t, "KEYS", "*").Texts())
}

// A JVM and Go workers: the only test that starts Java here, the rest of that is in interop.
func TestJavaContends(t *testing.T) {
	for _, name := range []string{"plain", "read-write"} {
		t.Run(name, func(t *testing.T) {
			o := brief(t)
			var err error
			o.Kind, err = KindNamed(name)
			require.NoError(t, err)
			o.Workers, o.Java, o.For, o.Hold = 1, true, 4*time.Second, 20*time.Millisecond
			o.Lease = o.For // nobody crashes, and a JVM that starts up stops for a while now and then
			var w watcher
			v, err := Run(t.Context(), o, &w)
			require.NoError(t, err)
			requireExclusion(t, v)
			require.Contains(t, w.info.Java, "Redisson ")
			require.Contains(t, w.info.Server, "redis-server")
			require.Equal(t, "java-1", v.Workers[1].Worker)
			require.Positive(t, v.Workers[0].Sections)
			java := v.Workers[1]
			require.Positive(t, java.Sections)
			if o.Kind.Reader != nil {
				require.Positive(t, java.Reads)
				require.Greater(t, java.Sections, java.Reads, "and it wrote")
			}
		})
	}
}

// noLock gives everybody a lock of its own, so that it excludes nobody.
type noLock struct {
	client *redlatch.Client
	number *atomic.Int64
}

func (l noLock) Name() string { return "no lock" }

func (l noLock) Lock(ctx context.Context, opts ...redlatch.AcquireOption) (*redlatch.Hold, error) {
	return rlock.New(l.client, "no-lock-"+strconv.FormatInt(l.number.Add(1), 10)).Lock(ctx, opts...)
}

func (l noLock) TryLock(ctx context.Context, opts ...redlatch.AcquireOption) (*redlatch.Hold, error) {
	return l.Lock(ctx, opts...)
}

func TestLockThatDoesNotExcludeIsFoundOut(t *testing.T) {
	o := brief(t)
	var number atomic.Int64
	o.Kind.New = func(c *redlatch.Client, _ string) redlatch.Locker { return noLock{c, &number} }
	var w watcher
	v, err := Run(t.Context(), o, &w)
	require.NoError(t, err)
	require.False(t, v.OK())
	require.Positive(t, v.Overlaps)
	require.Less(t, v.Counter, v.Sections, "updates are lost")
	require.Len(t, v.Problems, 2, "one for the overlaps, one for the counter")
	require.Positive(t, w.saw(Company))
}

func readWrite(t *testing.T) Kind {
	t.Helper()
	kind, err := KindNamed("read-write")
	require.NoError(t, err)
	return kind
}

// Each half of a read/write lock can fail by itself.
func TestReadWriteLockThatDoesNotExcludeIsFoundOut(t *testing.T) {
	var number atomic.Int64
	none := func(c *redlatch.Client, _ string) redlatch.Locker { return noLock{c, &number} }
	for name, broken := range map[string]func(*Kind){
		"reader beside a writer": func(k *Kind) { k.Reader = none },
		"two writers":            func(k *Kind) { k.New = none },
		"nobody excluded":        func(k *Kind) { k.New, k.Reader = none, none },
		"readers alone exclude":  func(k *Kind) { k.New, k.Reader = k.Reader, k.New },
	} {
		t.Run(name, func(t *testing.T) {
			o := brief(t)
			o.Kind, o.For = readWrite(t), time.Second
			broken(&o.Kind)
			var w watcher
			v, err := Run(t.Context(), o, &w)
			require.NoError(t, err)
			require.False(t, v.OK())
			require.Positive(t, v.Overlaps)
			require.Contains(t, v.Problems[0], "found somebody else inside")
			require.Positive(t, w.saw(Company))
			if name == "reader beside a writer" {
				require.Equal(t, v.Sections-v.Reads, v.Counter, "no update is lost, so the gauges alone tell")
			}
		})
	}
}

func TestWhoEntersSeesWhomItMustNotMeet(t *testing.T) {
	server := redistest.Start(t)
	data, err := dial(t.Context(), config.Config{Servers: config.Single(server.URL())})
	require.NoError(t, err)
	defer data.Close()
	for _, c := range []struct {
		inside []Mode
		enters Mode
		sees   string
	}{
		{nil, Reads, ""},
		{nil, Writes, ""},
		{nil, "", ""},
		{[]Mode{Reads, Reads}, Reads, ""},
		{[]Mode{Reads, Reads}, Writes, "2 readers inside"},
		{[]Mode{Writes}, Reads, "1 writer inside"},
		{[]Mode{Writes}, Writes, "2 are inside"},
		{[]Mode{""}, "", "2 are inside"},
	} {
		w := &worker{stage: &stage{data: data, keys: newKeys()}}
		var company string
		for _, mode := range append(c.inside, c.enters) {
			own, beside := w.keys.gauges(mode)
			company, err = w.enter(mode, own, beside)
			require.NoError(t, err)
		}
		require.Equal(t, c.sees, company, "%q enters beside %q", c.enters, c.inside)
	}
}

func TestReaderNoticesACounterThatMoves(t *testing.T) {
	cfg := config.Config{Servers: config.Single(redistest.Start(t).URL())}
	client, err := redlatch.Open(t.Context(), cfg)
	require.NoError(t, err)
	defer client.Close()
	hold, err := rlock.New(client, "order:1001").Lock(t.Context())
	require.NoError(t, err)
	data, err := dial(t.Context(), cfg)
	require.NoError(t, err)
	defer data.Close()
	reader := &worker{name: "go-1", stage: &stage{data: data, keys: newKeys(), board: newBoard([]string{"go-1"}, false, new(watcher))}}

	require.NoError(t, reader.write(7))
	require.NoError(t, reader.compare(hold, 7, true))
	require.Zero(t, reader.board.company)
	require.NoError(t, reader.compare(hold, 6, false))
	require.Zero(t, reader.board.company, "the company was told on entry, and counts once")
	require.NoError(t, reader.compare(hold, 6, true))
	require.Equal(t, 1, reader.board.company)
	require.Equal(t, Share{Sections: 4, Reads: 3}, reader.done)

	require.NoError(t, hold.Unlock(t.Context()))
	require.NoError(t, reader.compare(hold, 6, true))
	require.Equal(t, 1, reader.board.company, "who has no lock any more can't blame it")
}

func TestEndOfTheContextEndsTheDemoWithAVerdict(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := brief(t)
	o.For = time.Minute
	w := watcher{react: func(e Event) {
		if e.Kind == Released {
			cancel()
		}
	}}
	v, err := Run(ctx, o, &w)
	require.NoError(t, err)
	requireExclusion(t, v)
	require.Less(t, v.Took, 30*time.Second)
}

func TestServerThatDiesIsAnErrorAndNoVerdict(t *testing.T) {
	server := redistest.Start(t)
	o := brief(t)
	o.Servers.Servers = config.Single(server.URL())
	killed := false
	w := watcher{react: func(e Event) {
		if e.Kind == Released && !killed {
			killed = true
			server.Kill(t)
		}
	}}
	_, err := Run(t.Context(), o, &w)
	require.ErrorContains(t, err, "read the counter")
	require.Nil(t, w.verdict)
}

func TestServerThatIsNotThereIsAnError(t *testing.T) {
	o := brief(t)
	o.Servers.Servers = config.Single("redis://127.0.0.1:1")
	_, err := Run(t.Context(), o, new(watcher))
	require.ErrorContains(t, err, "127.0.0.1:1")
}

func TestOptionsOutOfRangeAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"no kind of lock":      func(o *Options) { o.Kind = Kind{} },
		"name is empty":        func(o *Options) { o.Name = "" },
		"0 workers":            func(o *Options) { o.Workers = 0 },
		"65 workers":           func(o *Options) { o.Workers = 65 },
		"a demo of 1ms":        func(o *Options) { o.For = time.Millisecond },
		"sections of 0s":       func(o *Options) { o.Hold = 0 },
		"sections of 3s":       func(o *Options) { o.Hold = 3 * time.Second },
		"a lease of 1ms":       func(o *Options) { o.Lease = time.Millisecond },
		"too long to see":      func(o *Options) { o.Lease, o.Crash = time.Second, true },
		"counterpart in Java":  func(o *Options) { o.Java, o.Kind.Java = true, nil },
		"allowed are 1 to 64":  func(o *Options) { o.Workers = -1 },
		"length of the demo, ": func(o *Options) { o.Lease = time.Hour },
	} {
		o := brief(t)
		change(&o)
		_, err := Run(t.Context(), o, new(watcher))
		require.ErrorContains(t, err, name)
	}
	_, err := KindNamed("fast")
	require.ErrorContains(t, err, `"fast"`)
	require.ErrorContains(t, err, "the kinds are: plain")
}

func TestJavaGetsTheSameServerAndRefusesWhatItCannotReach(t *testing.T) {
	yaml, err := redissonYAML(config.Config{Servers: config.Single("rediss://me:p%22w@h:7/3")}, time.Second)
	require.NoError(t, err)
	require.JSONEq(t, `{"lockWatchdogTimeout":1000,"threads":4,"nettyThreads":4,"singleServerConfig":{"address":"rediss://h:7","database":3,
		"username":"me","password":"p\"w","connectionPoolSize":4,"connectionMinimumIdleSize":1,"subscriptionConnectionMinimumIdleSize":1}}`, yaml)
	for _, want := range []struct {
		servers config.Servers
		parts   []string
	}{
		{config.Cluster("h:1", "h:2"), []string{`"clusterServersConfig":{`, `"nodeAddresses":["redis://h:1","redis://h:2"]`, `"shardedSubscriptionMode":"AUTO"`}},
		{config.Sentinel("m", "redis://:watch@h:1"), []string{
			`"sentinelServersConfig":{`, `"masterName":"m"`, `"sentinelAddresses":["redis://h:1"]`, `"sentinelPassword":"watch"`, `"database":0`,
		}},
		{config.MasterSlave("h:1", "h:2"), []string{`"masterSlaveServersConfig":{`, `"masterAddress":"redis://h:1"`, `"slaveAddresses":["redis://h:2"]`}},
		{config.Replicated("h:1", "h:2"), []string{`"replicatedServersConfig":{`, `"nodeAddresses":["redis://h:1","redis://h:2"]`}},
	} {
		yaml, err := redissonYAML(config.Config{Servers: want.servers}, time.Second)
		require.NoError(t, err)
		for _, part := range want.parts {
			require.Contains(t, yaml, part)
		}
	}
	_, err = redissonYAML(config.Config{Servers: config.Single("redis+uds:///tmp/s")}, time.Second)
	require.ErrorContains(t, err, "can't reach")
	_, err = redissonYAML(config.Config{Servers: config.Cluster("h:1"), NATMapper: func(a string) string { return a }}, time.Second)
	require.ErrorContains(t, err, "natMapper")
}

func TestServersAreDescribedWithoutPasswords(t *testing.T) {
	for want, servers := range map[string]config.Servers{
		"Redis at redis://h:1":                              config.Single("redis://:secret@h:1"),
		"the Redis cluster of h:1 and 1 more":               config.Cluster("h:1", "h:2"),
		`the master "m" of the sentinels at redis://h:1`:    config.Sentinel("m", "redis://:secret@h:1"),
		"the replicated Redis at redis://h:1 and 2 more":    config.Replicated("redis://:secret@h:1", "h:2", "h:3"),
		"the replicated Redis at redis://h:6379 and 1 more": config.MasterSlave("redis://h", "h:2"),
	} {
		require.Equal(t, want, describe(servers))
	}
}

func TestSentinelsMayDemandThePasswordOfTheServers(t *testing.T) {
	s := redistest.StartSentinel(t, redistest.WithReplicas(0), redistest.WithPassword("s3cret"), redistest.WithSentinelPassword("s3cret"))
	o := brief(t)
	o.For = MinFor
	o.Servers = config.Config{Servers: s.Servers(), Password: "s3cret"}
	v, err := Run(t.Context(), o, new(watcher))
	require.NoError(t, err)
	require.Positive(t, v.Sections)
}

func TestNamedServersAreNotMapped(t *testing.T) {
	server := redistest.Start(t)
	dial := dialer([]config.Address{{Network: "tcp", Addr: server.Addr()}}, func(addr string) string {
		require.Equal(t, "10.0.0.1:6379", addr, "only what a server has told of is mapped")
		return server.Addr()
	})
	for _, addr := range []string{server.Addr(), "10.0.0.1:6379"} {
		conn, err := dial(t.Context(), addr, new(net.Dialer), nil)
		require.NoError(t, err)
		require.Equal(t, server.Addr(), conn.RemoteAddr().String())
		require.NoError(t, conn.Close())
	}
}
