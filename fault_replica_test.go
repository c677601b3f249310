package redlatch_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/locktest/probe"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/rlock"
)

// pair is a master with replicas and a client that knows of them.
type pair struct {
	*rig
	servers *redistest.Replicated
	logs    *logBook
}

func syncWithin(d time.Duration) func(*config.Config) {
	return func(c *config.Config) { c.SlavesSyncTimeout = d }
}

func synced(s config.SyncedSlaves) func(*config.Config) {
	return func(c *config.Config) { c.CheckLockSyncedSlaves = s }
}

func newPair(t *testing.T, replicas int, changes ...func(*config.Config)) *pair {
	t.Helper()
	p := &pair{rig: &rig{T: t}, servers: redistest.StartReplicated(t, replicas), logs: &logBook{}}
	p.server = p.servers.Master().Server
	p.client = p.open(changes...)
	p.other = p.open(synced(config.SyncedSlavesOff))
	return p
}

func (p *pair) open(changes ...func(*config.Config)) *redlatch.Client {
	p.Helper()
	cfg := config.Config{Servers: config.Replicated(p.servers.Addresses()...), SlavesSyncTimeout: 2 * time.Second}
	return probe.Client(p, cfg, changes, p.logs.option())
}

func (p *pair) freezeReplicas(n int) {
	p.Helper()
	for _, replica := range p.servers.Replicas()[:n] {
		replica.Freeze(p)
		p.Cleanup(func() { replica.Thaw(p) })
	}
}

// logBook keeps what is logged.
type logBook struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

// option has a client log into the book.
func (b *logBook) option() redlatch.Option {
	return redlatch.WithLogger(slog.New(slog.NewTextHandler(b, nil)))
}

func (b *logBook) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(line)
}

func (b *logBook) count(words string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.text.String(), words)
}

// HA-01: nobody but the master has the lock, so a failover would give it to somebody else. The caller is told and the lock is free.
func TestLockThatNoReplicaAcknowledgesIsGivenBack(t *testing.T) {
	t.Parallel()
	p := newPair(t, 1)
	p.freezeReplicas(1)
	for _, take := range []func() (*redlatch.Hold, error){
		func() (*redlatch.Hold, error) { return p.lock().TryLock(t.Context()) },
		func() (*redlatch.Hold, error) { return p.lock().Lock(t.Context(), redlatch.WithWait(probe.Patience)) },
	} {
		_, err := take()
		require.ErrorIs(t, err, redlatch.ErrNotReplicated)
		require.ErrorContains(t, err, "0 of 1 replicas")
		require.Empty(t, p.locks(), "the lock stays behind")
	}
	p.release(p.take(t.Context(), p.theirs())) // at once: it is no matter of a TTL
}

// The replica is made the master while it is waited for: so the old one has no replicas any more by the time that its WAIT ends. That is no
// reason to go without: the new master does not know of the lock.
func TestLockIsGivenBackWhenItsReplicaBecomesTheMasterMeanwhile(t *testing.T) {
	t.Parallel()
	servers := redistest.StartReplicated(t, 1)
	r := newRigOfMaster(t, servers, func(c *config.Config) { c.Timeout, c.SlavesSyncTimeout = probe.Patience, commandTimeout() })
	promoted := make(chan struct{})
	wait := r.relay.Next(redistest.Sends("WAIT"), redistest.HoldRequest(promoted))
	call := r.starts(t.Context(), r.lock(), redlatch.WithWait(probe.Patience))
	wait.AwaitRequest(t)
	servers.Replicas()[0].Do(t, "REPLICAOF", "NO", "ONE")
	r.until(func() bool {
		return strings.Contains(r.server.Do(t, "INFO", "replication").Text(), "connected_slaves:0")
	}, "the master to notice")
	close(promoted)
	require.ErrorIs(t, call.Ends(), redlatch.ErrNotReplicated)
	require.Empty(t, r.locks(), "the lock stays behind")
}

// HA-07: a server that stops being a master ends the WAITs on it, and takes no more. Who waits for the lock goes on waiting, and has it once.
func TestWaitThatTheServersDemotionEndsIsMadeAgain(t *testing.T) {
	t.Parallel()
	for name, words := range map[string]string{
		"During": "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
		"Before": "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is configured to be writable " +
			"(which is not the default) writes to replicas are just local and are not propagated.",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReplicatedRig(t)
			demoted := r.relay.Next(redistest.Sends("WAIT"), redistest.AnswerError(words))
			again := r.relay.Next(redistest.Sends("WAIT"), redistest.Pass())
			hold := r.take(t.Context(), r.lock())
			demoted.AwaitRequest(t)
			again.AwaitReply(t)
			r.holdsAlone(hold, 1)
			r.release(hold)
			r.nothingLeft()
		})
	}
}

// A replica that is only just being filled can't acknowledge anything yet.
func TestReplicaIsNotWaitedForBeforeItFollows(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t, redistest.WithConfig("repl-diskless-sync", "yes"), redistest.WithConfig("repl-diskless-sync-delay", "3600"))
	replica := redistest.Start(t)
	r := &rig{T: t, server: master}
	host, port, err := net.SplitHostPort(master.Addr())
	require.NoError(t, err)
	replica.Do(t, "REPLICAOF", host, port)
	r.until(func() bool {
		return strings.Contains(master.Do(t, "INFO", "replication").Text(), "state=wait_bgsave")
	}, "the replica to ask for the data")
	r.client = probe.Open(t, master.URL(), func(c *config.Config) { c.Servers = config.MasterSlave(master.URL(), replica.URL()) })
	master.ResetStats(t)
	r.release(r.take(t.Context(), r.lock()))
	require.Zero(t, master.CommandStats(t)["wait"])
}

// Connecting has ConnectTimeout, also for what replicas must acknowledge. The time for an answer begins after it.
func TestServerThatIsSlowToReachCanBeLockedOn(t *testing.T) {
	t.Parallel()
	const answer, acknowledgement = 400 * time.Millisecond, 200 * time.Millisecond
	servers := redistest.StartReplicated(t, 1)
	r := &rig{T: t, server: servers.Master().Server}
	address, trusted := slowToReach(t, r.server.Addr(), answer+acknowledgement+300*time.Millisecond)
	r.client = probe.Open(t, "rediss://"+address, func(c *config.Config) {
		c.Servers = config.MasterSlave("rediss://" + address)
		c.TLS, c.Timeout, c.SlavesSyncTimeout = trusted, answer, acknowledgement
		c.RetryAttempts, c.RetryDelay = 100, config.Delay{Min: 50 * time.Millisecond, Max: 100 * time.Millisecond}
	})
	hold := r.take(t.Context(), r.lock())
	r.holdsAlone(hold, 1)
	r.release(hold)
}

// slowToReach is an address before a server, and what to trust there. The handshake of each connection to it begins after a delay.
func slowToReach(t *testing.T, server string, delay time.Duration) (address string, trusted *tls.Config) {
	t.Helper()
	web := httptest.NewTLSServer(nil) // for its certificate
	web.Close()
	own := &tls.Config{Certificates: web.TLS.Certificates, MinVersion: tls.VersionTLS12}
	trusted = &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	trusted.RootCAs.AddCert(web.Certificate())
	var lines sync.WaitGroup
	t.Cleanup(lines.Wait)
	return listenWith(t, func(from net.Conn) {
		lines.Go(func() {
			time.Sleep(delay)
			client := tls.Server(from, own)
			to, err := net.Dial("tcp", server)
			if err != nil {
				_ = from.Close()
				return
			}
			lines.Go(func() {
				_, _ = io.Copy(to, client)
				_ = to.Close()
			})
			_, _ = io.Copy(client, to)
			_ = from.Close()
		})
	}), trusted
}

// Some but not all replicas are enough by default, and none are needed where there are none (wire-protocol.md §12).
func TestOneReplicaOfSeveralIsEnough(t *testing.T) {
	t.Parallel()
	p := newPair(t, 2)
	p.freezeReplicas(1)
	p.release(p.take(t.Context(), p.lock()))
}

func TestMasterWithoutReplicasNeedsNone(t *testing.T) {
	t.Parallel()
	p := newPair(t, 0)
	p.server.ResetStats(t)
	p.release(p.take(t.Context(), p.lock()))
	require.Zero(t, p.server.CommandStats(t)["wait"], "WAIT with no replicas is a round trip for nothing")
}

func TestAtLeastSoManyReplicasMustAcknowledge(t *testing.T) {
	t.Parallel()
	p := newPair(t, 2, synced(config.SyncedSlavesAtLeast(2)))
	p.release(p.take(t.Context(), p.lock()))
	p.freezeReplicas(1)
	_, err := p.lock().TryLock(t.Context())
	require.ErrorIs(t, err, redlatch.ErrNotReplicated)
	require.ErrorContains(t, err, "1 of 2 replicas")
	require.Empty(t, p.locks())
	one := rlock.New(p.open(synced(config.SyncedSlavesAtLeast(1))), lockName)
	p.release(p.take(t.Context(), one))
}

func TestAtLeastSoManyReplicasFailsWhereThereAreFewer(t *testing.T) {
	t.Parallel()
	p := newPair(t, 0, synced(config.SyncedSlavesAtLeast(1)))
	_, err := p.lock().TryLock(t.Context())
	require.ErrorIs(t, err, redlatch.ErrNotReplicated)
	require.Empty(t, p.locks())
}

// HA-05: without the check nothing is sent for it.
func TestWithoutTheCheckNoReplicaIsWaitedFor(t *testing.T) {
	t.Parallel()
	p := newPair(t, 1)
	p.freezeReplicas(1)
	p.server.ResetStats(t)
	p.release(p.take(t.Context(), p.theirs()))
	require.Zero(t, p.server.CommandStats(t)["wait"])
}

// WAIT covers whatever was written before it, so those who come while one is on its way share the next one.
func TestConcurrentAcquisitionsShareOneWait(t *testing.T) {
	t.Parallel()
	const callers = 50
	p := newPair(t, 1, syncWithin(5*time.Second))
	p.release(p.take(t.Context(), p.lock())) // the replicas are counted
	p.freezeReplicas(1)
	p.server.ResetStats(t)
	calls := []*probe.Call{p.starts(t.Context(), p.lock())}
	p.until(func() bool { return p.server.CommandStats(t)["evalsha"] == 1 }, "the first acquisition")
	for i := range callers {
		calls = append(calls, p.starts(t.Context(), rlock.New(p.client, lockName+strings.Repeat("'", i+1))))
	}
	p.servers.Replicas()[0].Thaw(t)
	var holds []*redlatch.Hold
	for _, c := range calls {
		holds = append(holds, c.Succeeds())
	}
	require.Less(t, p.server.CommandStats(t)["wait"], int64(callers/2))
	for _, h := range holds {
		p.release(h)
	}
}

// HA-13: after SCRIPT FLUSH the script is sent in full, in a step with a WAIT of its own, and counts once.
func TestForgottenScriptIsSentInFullBeforeTheReplicasAreWaitedFor(t *testing.T) {
	t.Parallel()
	p := newPair(t, 1)
	p.release(p.take(t.Context(), p.lock()))
	p.server.Do(t, "SCRIPT", "FLUSH")
	p.server.ResetStats(t)
	hold := p.take(t.Context(), p.lock())
	p.holdsAlone(hold, 1)
	stats := p.server.CommandStats(t)
	require.EqualValues(t, 1, stats["eval"])
	require.GreaterOrEqual(t, stats["wait"], int64(1))
	p.release(hold)
}

// WD-22: a renewal that no replica acknowledges has moved the TTL on the master.
func TestRenewalWithoutAcknowledgementCounts(t *testing.T) {
	t.Parallel()
	seen := make(probe.Events, 64)
	p := newPair(t, 1)
	cfg := config.Config{Servers: config.Replicated(p.servers.Addresses()...), LockWatchdogTimeout: lively()}
	client, err := redlatch.Open(t.Context(), cfg, redlatch.WithObserver(seen))
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	hold := p.take(t.Context(), rlock.New(client, lockName))
	p.freezeReplicas(1)
	for began := time.Now(); time.Since(began) < lively(); {
		seen.Await(p, redlatch.EventRenewed)
	}
	p.holdsAlone(hold, 1)
	p.release(hold)
}

// HA-02: an entry that no replica has is taken back, however often it is tried; what was held before stays held.
func TestEntryThatNoReplicaAcknowledgesIsTakenBack(t *testing.T) {
	t.Parallel()
	p := newPair(t, 1)
	p.server.Do(t, "CONFIG", "SET", "repl-timeout", "3600") // so that the master does not give the replica up
	hold := p.take(t.Context(), p.lock())
	p.freezeReplicas(1)
	for range 2 {
		_, err := p.lock().Lock(hold.Context())
		require.ErrorIs(t, err, redlatch.ErrNotReplicated)
		p.holdsAlone(hold, 1)
	}
	p.release(hold)
	require.Empty(t, p.locks())
}

// A hand-off is an acquisition like any other.
func TestHandOffThatNoReplicaAcknowledgesIsTakenBack(t *testing.T) {
	t.Parallel()
	p := newPair(t, 1, func(c *config.Config) { c.HandOffWindow = time.Minute })
	hold := p.take(t.Context(), p.lock())
	waiter := p.starts(t.Context(), p.lock())
	p.until(func() bool { return p.server.Listeners(t, lockChannel) == 1 }, "the waiter's subscription")
	p.freezeReplicas(1)
	p.release(hold)
	require.ErrorIs(t, waiter.Ends(), redlatch.ErrNotReplicated)
	require.Empty(t, p.locks())
}

// A server, a proxy or an ACL that refuses WAIT or INFO: the log says so once, and locks work without.
func TestRefusedWaitIsToldOnceAndLocksWork(t *testing.T) {
	t.Parallel()
	for command, words := range map[string]string{"wait": "refuses WAIT", "info": "refuses INFO"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, 1)
			p.server.Do(t, "ACL", "SETUSER", "app", "on", ">word", "allcommands", "allkeys", "allchannels", "-"+command)
			as := func(c *config.Config) {
				c.Servers = config.MasterSlave(p.server.URL(), p.servers.Replicas()[0].URL())
				c.Username, c.Password = "app", "word"
			}
			lock := rlock.New(p.open(as), lockName)
			for range 3 {
				p.release(p.take(t.Context(), lock))
			}
			require.Equal(t, 1, p.logs.count(words))
			if command == "wait" {
				_, err := rlock.New(p.open(as, synced(config.SyncedSlavesAtLeast(1))), lockName).TryLock(t.Context())
				require.ErrorIs(t, err, redlatch.ErrNotReplicated, "who demands a number can't do without")
				require.Empty(t, p.locks())
			}
		})
	}
}

// HA-07, HA-11: the master becomes a replica of the one that was its own, and refuses to write. The lock is taken there, and once.
func TestLocksFollowTheMasterOfReplicatedServers(t *testing.T) {
	t.Parallel()
	p := newPair(t, 1, func(c *config.Config) { c.ScanInterval = time.Hour }) // the refusal alone tells that the master is another one
	p.release(p.take(t.Context(), p.lock()))
	promoted := p.servers.Replicas()[0]
	p.servers.Promote(t, promoted)
	p.server = promoted.Server
	hold := p.take(context.Background(), p.lock())
	p.holdsAlone(hold, 1)
	p.release(hold)
}

// The replicas are near and the master is not: what they say of themselves does not tell who it is.
func TestMasterThatAnswersLaterThanItsReplicasIsFoundAndFollowed(t *testing.T) {
	t.Parallel()
	servers := redistest.StartReplicated(t, 2)
	heir := servers.Replicas()[0]
	var addresses []string
	for _, n := range servers.Nodes() {
		if n == servers.Master() || n == heir {
			far := redistest.NewProxy(t, n.Server)
			far.AddLatency(400 * time.Millisecond)
			addresses = append(addresses, far.URL())
		} else {
			addresses = append(addresses, n.URL())
		}
	}
	p := &pair{rig: &rig{T: t, server: servers.Master().Server}, servers: servers, logs: &logBook{}}
	p.client = p.open(func(c *config.Config) { c.Servers, c.ScanInterval = config.Replicated(addresses...), time.Hour })
	p.release(p.take(t.Context(), p.lock()))
	servers.Promote(t, heir)
	p.server = heir.Server
	hold := p.take(t.Context(), p.lock())
	p.holdsAlone(hold, 1)
	p.release(hold)
}

// HA-04: a replica that has left is not waited for, and one that has come back is. One acquisition can fail: that is how it is found out.
func TestReplicaThatLeavesAndReturnsIsCountedAnew(t *testing.T) {
	t.Parallel()
	p := newPair(t, 1)
	p.release(p.take(t.Context(), p.lock()))
	replica := p.servers.Replicas()[0]
	replica.Kill(t)
	p.until(func() bool {
		return strings.Contains(p.server.Do(t, "INFO", "replication").Text(), "connected_slaves:0")
	}, "the master to notice")
	hold, err := p.lock().TryLock(t.Context())
	if err == nil {
		p.release(hold)
	} else {
		require.ErrorIs(t, err, redlatch.ErrNotReplicated)
	}
	p.server.ResetStats(t)
	p.release(p.take(t.Context(), p.lock()))
	require.Zero(t, p.server.CommandStats(t)["wait"], "there is nobody to wait for")
	replica.Restart(t)
	p.servers.WaitOK(t)
	p.until(func() bool {
		p.release(p.take(t.Context(), p.lock()))
		return p.server.CommandStats(t)["wait"] > 0
	}, "the replica is waited for again")
}

// HA-08: what the server writes to its disk is no matter of locks.
func TestServerWithAnAppendOnlyFileIsNotWaitedForToWriteIt(t *testing.T) {
	t.Parallel()
	for _, setting := range [][]string{{"appendonly", "no"}, {"appendonly", "yes", "appendfsync", "no"}, {"appendonly", "yes", "appendfsync", "always"}} {
		t.Run(strings.Join(setting, " "), func(t *testing.T) {
			t.Parallel()
			servers := redistest.StartReplicated(t, 1)
			servers.Master().Do(t, append([]string{"CONFIG", "SET"}, setting...)...)
			r := newRigOfMaster(t, servers)
			var asked []string // not by the server's statistics, which leave out what it does not know
			r.relay.OnRequest(func(cmd []string) redistest.Action {
				asked = append(asked, strings.ToUpper(cmd[0]))
				return redistest.Pass()
			})
			r.release(r.take(t.Context(), r.lock()))
			r.relay.OnRequest(nil)
			require.Contains(t, asked, "WAIT")
			require.NotContains(t, asked, "WAITAOF")
		})
	}
}
