package topology

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/lua"
)

// logBook keeps what is logged.
type logBook struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (b *logBook) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(line)
}

// committing is a topology of a master, whose line the test listens to.
func committing(t *testing.T, master *redistest.Server, change func(*config.Config)) (top *Topology, line *redistest.Relay, logs *logBook) {
	t.Helper()
	for _, s := range lua.Catalog() {
		master.Do(t, "SCRIPT", "LOAD", s.Source)
	}
	line, logs = redistest.NewRelay(t, master), &logBook{}
	cfg := config.Config{Servers: config.MasterSlave(line.URL()), SlavesSyncTimeout: 2 * time.Second}
	change(&cfg)
	cfg, err := cfg.WithDefaults()
	require.NoError(t, err)
	top, err = Open(t.Context(), cfg, Options{Log: slog.New(slog.NewTextHandler(logs, nil))})
	require.NoError(t, err)
	t.Cleanup(top.Close)
	return top, line, logs
}

func asIs(*config.Config) {}

// grant takes a lock.
func (t *Topology) grant(ctx context.Context, name string) error {
	_, err := Commit(ctx, t, lua.Acquire(name, "latch:"+name, "owner", time.Minute, false))
	return err
}

// two are a master and its replica.
func two(t *testing.T) (master, replica *redistest.Server) {
	t.Helper()
	servers := redistest.StartReplicated(t, 1)
	return servers.Master().Server, servers.Replicas()[0].Server
}

// leave makes a replica one no more, and waits until the master knows.
func leave(t *testing.T, master, replica *redistest.Server) {
	t.Helper()
	replica.Do(t, "REPLICAOF", "NO", "ONE")
	require.Eventually(t, func() bool {
		return readRole(master.Do(t, "INFO", "replication").Text()).replicas == 0
	}, 20*time.Second, 5*time.Millisecond)
}

// HA-04: that a master has no replicas is believed for a while, by a clock that nobody can set.
func TestMasterHasNoReplicasForAWhileOnly(t *testing.T) {
	top, _, _ := committing(t, redistest.Start(t), asIs)
	began := time.Now()
	require.NoError(t, top.grant(t.Context(), "one"))
	until := top.Masters()[0].commits.aloneUntil.Load()
	require.NotNil(t, until)
	require.WithinRange(t, *until, began.Add(recount), time.Now().Add(recount))
	require.Contains(t, until.String(), " m=", "a reading of the monotonic clock")
}

// Behind a new connection there can be another server, or the same with other replicas.
func TestReplicasAreCountedAnewOnANewConnection(t *testing.T) {
	master, replica := two(t)
	top, line, _ := committing(t, master, asIs)
	require.NoError(t, top.grant(t.Context(), "one"))
	leave(t, master, replica)
	line.Cut()
	for err := top.grant(t.Context(), "two"); err != nil; err = top.grant(t.Context(), "two") { // until the broken connection is known to be
		require.NotErrorIs(t, err, ErrNotReplicated)
	}
}

// Who refuses WAIT or INFO is asked for it once, the log is told once, and then locks are taken as if there were no replicas to wait for: over the
// connection that all share.
func TestServerThatRefusesToWaitIsAskedOverTheSharedConnection(t *testing.T) {
	for _, refused := range []string{"WAIT", "INFO"} {
		t.Run(refused, func(t *testing.T) {
			master, _ := two(t)
			top, line, logs := committing(t, master, asIs)
			asked := make(chan []string, 100)
			line.OnRequest(func(cmd []string) redistest.Action {
				if !redistest.Sends(refused)(cmd) {
					return redistest.Pass()
				}
				asked <- cmd
				return redistest.AnswerError("NOPERM this user has no permissions to run the '" + strings.ToLower(refused) + "' command")
			})
			monitor := master.Monitor(t)
			_, err := Run(t.Context(), top, lua.Inspect("shared"))
			require.NoError(t, err)
			for _, name := range []string{"zero", "one", "two", "three"} {
				require.NoError(t, top.grant(t.Context(), name))
			}
			over := func(name string) string {
				commands := monitor.Commands(t)
				sends := redistest.SendsScript(name)
				return commands[slices.IndexFunc(commands, func(c redistest.Command) bool { return sends(c.Args) })].Client
			}
			require.NotEqual(t, over("shared"), over("zero"), "it is not known yet")
			for _, name := range []string{"one", "two", "three"} {
				require.Equal(t, over("shared"), over(name))
			}
			require.Len(t, asked, 1)
			require.Equal(t, 1, strings.Count(logs.text.String(), "refuses "+refused))
		})
	}
}

// Who demands a number can't do without, however often the server refuses to tell.
func TestServerThatRefusesToWaitGrantsNothingToWhoDemandsReplicas(t *testing.T) {
	top, line, logs := committing(t, redistest.Start(t), func(c *config.Config) { c.CheckLockSyncedSlaves = config.SyncedSlavesAtLeast(1) })
	line.OnRequest(func(cmd []string) redistest.Action {
		if redistest.Sends("WAIT")(cmd) {
			return redistest.AnswerError("ERR unknown command 'WAIT'")
		}
		return redistest.Pass()
	})
	for _, name := range []string{"one", "two", "three"} {
		require.ErrorIs(t, top.grant(t.Context(), name), ErrNotReplicated)
	}
	require.Equal(t, 1, strings.Count(logs.text.String(), "refuses WAIT"))
}
