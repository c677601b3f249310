package javaagent_test

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/interop/javaagent"
)

// RL-25
func TestHammeredLockLosesNoUpdate(t *testing.T) {
	client := open(t)
	locks := map[string]javaagent.Lock{
		"plain":  javaagent.Plain(key(t, "plain")),
		"fair":   javaagent.Fair(key(t, "fair")),
		"write":  javaagent.Write(key(t, "write")),
		"fenced": javaagent.Fenced(key(t, "fenced")),
		"spin":   javaagent.Spin(key(t, "spin")),
	}
	for name, lock := range locks {
		t.Run(name, func(t *testing.T) {
			result, err := client.Hammer(bounded(t), javaagent.Contention{
				Lock: lock, Threads: 4, Sections: 25, CounterKey: key(t, "counter"),
			})
			require.NoError(t, err)
			require.Equal(t, int64(100), result.Sections)
			require.Zero(t, result.Overlaps)
			require.Equal(t, int64(1), result.MaxInside)
			require.Positive(t, result.Elapsed)
			require.Equal(t, "100", server.Do(t, "GET", key(t, "counter")).Text())
			require.Equal(t, "0", server.Do(t, "GET", key(t, "counter:inside")).Text())
		})
	}
}

// The proof has to be able to fail: a read lock lets everybody in.
func TestHammerSeesOverlapsWhereNothingExcludes(t *testing.T) {
	result, err := open(t).Hammer(bounded(t), javaagent.Contention{
		Lock: javaagent.Read(key(t, "lock")), Threads: 4, Sections: 5, CounterKey: key(t, "counter"), Hold: 20 * time.Millisecond,
	})
	require.NoError(t, err)
	require.Equal(t, int64(20), result.Sections)
	require.Positive(t, result.Overlaps)
	require.Greater(t, result.MaxInside, int64(1))
	counter, err := strconv.Atoi(server.Do(t, "GET", key(t, "counter")).Text())
	require.NoError(t, err)
	require.Less(t, counter, 20)
}

// readersAndWriters hammers at two locks, whose sections must exclude each other but for readers among themselves.
func readersAndWriters(t *testing.T, read, write javaagent.Lock) (readers, writers javaagent.ContentionResult) {
	t.Helper()
	ctx, client := bounded(t), open(t)
	reading, writing := key(t, "readers"), key(t, "writers")
	var errs [2]error
	var both sync.WaitGroup
	both.Go(func() {
		readers, errs[0] = client.Hammer(ctx, javaagent.Contention{
			Lock: read, Threads: 4, Sections: 10, CounterKey: key(t, "counter"), InsideKey: reading, BesideKey: writing, Shared: true,
			Hold: 20 * time.Millisecond,
		})
	})
	both.Go(func() {
		writers, errs[1] = client.Hammer(ctx, javaagent.Contention{
			Lock: write, Threads: 2, Sections: 10, CounterKey: key(t, "counter"), InsideKey: writing, BesideKey: reading,
			Hold: 20 * time.Millisecond,
		})
	})
	both.Wait()
	require.NoError(t, errs[0])
	require.NoError(t, errs[1])
	return readers, writers
}

func TestHammerLetsReadersShareAndWritersNot(t *testing.T) {
	readers, writers := readersAndWriters(t, javaagent.Read(key(t, "lock")), javaagent.Write(key(t, "lock")))
	require.Zero(t, readers.Overlaps)
	require.Zero(t, writers.Overlaps)
	require.Equal(t, int64(40), readers.Sections)
	require.Greater(t, readers.MaxInside, int64(1), "readers were inside together")
	require.Equal(t, int64(1), writers.MaxInside)
	require.Equal(t, "20", server.Do(t, "GET", key(t, "counter")).Text(), "only writers count")
}

// Two names are two locks, so a reader finds a writer beside it, and the other way round.
func TestHammerSeesAReaderBesideAWriter(t *testing.T) {
	for tries := 0; ; tries++ { // one side can be done before the other has begun
		readers, writers := readersAndWriters(t, javaagent.Read(key(t, "one")), javaagent.Write(key(t, "other")))
		require.Equal(t, int64(1), writers.MaxInside, "writers exclude each other still")
		if readers.Overlaps > 0 && writers.Overlaps > 0 {
			break
		}
		require.Less(t, tries, 10, "neither saw the other")
	}
}

func TestHammerReportsAThreadsError(t *testing.T) {
	server.Do(t, "SET", key(t, "lock"), "no hash")
	result, err := open(t).Hammer(bounded(t), javaagent.Contention{
		Lock: javaagent.Plain(key(t, "lock")), Threads: 2, Sections: 5, CounterKey: key(t, "counter"),
	})
	require.Equal(t, javaagent.CodeRedis, javaagent.CodeOf(err), "%v", err)
	require.Equal(t, int64(2), result.Errors)
	require.Zero(t, result.Sections)
}

func TestContendTellsWhoHoldsAndStops(t *testing.T) {
	ctx, client := bounded(t), open(t)
	var (
		mu     sync.Mutex
		events []javaagent.Event
		once   sync.Once
		enough = make(chan struct{})
	)
	running := client.Contend(javaagent.Contention{
		Lock: javaagent.Plain(key(t, "lock")), Threads: 3, CounterKey: key(t, "counter"),
		Hold: 5 * time.Millisecond, Pause: time.Millisecond,
	}, func(e javaagent.Event) {
		mu.Lock()
		defer mu.Unlock()
		if events = append(events, e); e.Section == 3 {
			once.Do(func() { close(enough) })
		}
	})
	select {
	case <-enough:
	case <-ctx.Done():
		require.Fail(t, "no thread came to its third section")
	}
	require.NoError(t, running.Stop(ctx))
	result, err := running.Wait(ctx)
	require.NoError(t, err)
	require.Zero(t, result.Overlaps)
	require.NoError(t, running.Stop(ctx), "stopping what has ended is no error")

	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, strconv.FormatInt(result.Sections, 10), server.Do(t, "GET", key(t, "counter")).Text())
	requireNoOverlap(t, events, result.Sections)
}

// requireNoOverlap holds the spans from acquired to released against each other.
func requireNoOverlap(t *testing.T, events []javaagent.Event, sections int64) {
	t.Helper()
	type span struct{ from, to time.Time }
	var spans []span
	entered := make(map[int]time.Time)
	for _, e := range events {
		switch e.Kind {
		case "waiting":
		case "acquired":
			entered[e.Thread] = e.At
		case "released":
			spans = append(spans, span{entered[e.Thread], e.At})
		default:
			require.Fail(t, "unknown event", e.Kind)
		}
	}
	require.Len(t, spans, int(sections))
	for i, a := range spans {
		for _, b := range spans[:i] {
			require.True(t, a.from.After(b.to) || b.from.After(a.to), "held from %v to %v and from %v to %v", a.from, a.to, b.from, b.to)
		}
	}
}
