package engine

import (
	"cmp"
	"context"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/lua"
)

// plain is the least that a kind of lock is.
type plain struct{ Common }

func (plain) Name() string { return "plain" }

func (plain) Acquire(t Target) lua.Call[lua.Grant] {
	return lua.Acquire(t.Key, t.Latch, t.Field, t.Lease, t.Strict)
}

func (k plain) Release(t Target, count int) lua.Call[lua.Release] {
	return lua.ReleaseTo(t.Key, k.Channel(t.Key, t.Field), t.Latch, t.Departure(count))
}

func (k plain) ForceRelease(t Target) lua.Call[lua.Release] {
	return lua.ForceRelease(t.Key, k.Channel(t.Key, ""), t.Publish, t.Strict)
}

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

func (b *logBook) linesWith(words string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var lines []string
	for line := range strings.Lines(b.text.String()) {
		if strings.Contains(line, words) {
			lines = append(lines, line)
		}
	}
	return lines
}

// open is a client that ends with the test.
func open(t *testing.T, cfg config.Config) (*Engine, *logBook) {
	t.Helper()
	logs := &logBook{}
	e, err := Open(t.Context(), cfg, Options{Log: slog.New(slog.NewTextHandler(logs, nil))})
	require.NoError(t, err)
	t.Cleanup(e.Close)
	return e, logs
}

// still is a client whose watchdog and settlers were ended: the test does what they would.
func still(t *testing.T, cfg config.Config) (*Engine, *logBook) {
	t.Helper()
	e, logs := open(t, cfg)
	e.end()
	e.workers.Wait()
	e.life, e.end = context.WithCancel(context.Background())
	return e, logs
}

// lineTo is a line to a server, which knows all scripts.
func lineTo(t *testing.T, server *redistest.Server) *redistest.Relay {
	t.Helper()
	for _, s := range lua.Catalog() {
		server.Do(t, "SCRIPT", "LOAD", s.Source)
	}
	return redistest.NewRelay(t, server)
}

// through are the nodes of a cluster, and the lines to them.
func through(t *testing.T, c *redistest.Cluster) (config.Config, map[*redistest.Node]*redistest.Relay) {
	t.Helper()
	lines, addresses := make(map[*redistest.Node]*redistest.Relay), make(map[string]string)
	for _, n := range c.Nodes() {
		lines[n] = lineTo(t, n.Server)
		addresses[n.Addr()] = lines[n].Addr()
	}
	return config.Config{
		Servers: c.Servers(), NATMapper: func(address string) string { return cmp.Or(addresses[address], address) },
	}, lines
}

// names are the names of locks.
func names(count int) []string {
	names := make([]string, count)
	for i := range names {
		names[i] = "order:" + strconv.Itoa(i)
	}
	return names
}

// owing has a new owner of a lock owe the settling of a request.
func (e *Engine) owing(name string) *tenure {
	t := e.join(NewLock(e, name, plain{}, LockOptions{}), Owner{e.id, NewThread()})
	e.owe(t, "")
	e.part(t)
	return t
}

// take takes free locks, each for a new owner.
func (e *Engine) take(t *testing.T, names ...string) (taken []*tenure) {
	t.Helper()
	for _, name := range names {
		h, err := e.Acquire(t.Context(), context.Background(), NewLock(e, name, plain{}, LockOptions{}), Request{Owner: Owner{e.id, NewThread()}})
		require.NoError(t, err)
		taken = append(taken, h.tenure)
	}
	return taken
}

const loading = "LOADING Redis is loading the dataset in memory"
