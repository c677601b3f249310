package gate_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redlatch/redlatch/fencedlock/gate"
)

const order = "order:1001"

var errWrite = errors.New("the disk is full")

// stale says that a token was refused because of a newer one.
func stale(t require.TestingT, err error, token, newest int64) {
	var refused *gate.StaleError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, token, refused.Token)
	require.Equal(t, newest, refused.Newest)
	require.ErrorIs(t, err, gate.ErrStale)
}

// FE-08
func TestLateWriterIsRefused(t *testing.T) {
	var g gate.Memory
	require.NoError(t, g.Admit(order, 33))
	require.NoError(t, g.Admit(order, 34))
	stale(t, g.Admit(order, 33), 33, 34)
	require.NoError(t, g.Admit(order, 34), "one holder writes as often as it likes")
	require.NoError(t, g.Admit(order, 40), "tokens may leave some out")
	stale(t, g.Admit(order, 39), 39, 40)
	require.EqualValues(t, 40, g.Newest(order))
}

func TestResourcesHaveTokensOfTheirOwn(t *testing.T) {
	var g gate.Memory
	require.NoError(t, g.Admit(order, 34))
	require.NoError(t, g.Admit("order:1002", 1))
	require.Zero(t, g.Newest("order:1003"))
	require.Equal(t, 2, g.Len())
}

func TestWhatIsNoTokenIsNotAdmittedAndNotRemembered(t *testing.T) {
	var g gate.Memory
	require.ErrorIs(t, g.Admit(order, 0), gate.ErrNoToken)
	require.ErrorIs(t, g.Do(t.Context(), order, -1, unreachable(t)), gate.ErrNoToken)
	require.Zero(t, g.Len())
}

// unreachable is a write that must not run.
func unreachable(t *testing.T) func(context.Context) error {
	return func(context.Context) error {
		t.Error("a write ran that must not")
		return nil
	}
}

// Whatever the order in which tokens come, exactly those are admitted that are not below one admitted before.
func TestAdmittedTokensNeverFall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var g gate.Memory
		newest := map[string]int64{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			name := rapid.SampledFrom([]string{"a", "b", ""}).Draw(t, "resource")
			token := rapid.Int64Range(1, 6).Draw(t, "token")
			err := g.Admit(name, token)
			if token < newest[name] {
				stale(t, err, token, newest[name])
			} else {
				require.NoError(t, err)
				newest[name] = token
			}
			require.Equal(t, newest[name], g.Newest(name))
		}
	})
}

// A write that was admitted is over before a newer one begins, whoever comes first.
func TestWritesOfDoRunOneByOneAndNeverFall(t *testing.T) {
	const writers, rounds = 8, 200
	var g gate.Memory
	var written []int64 // guarded by the gate alone: the race detector watches
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range rounds {
				token := 1 + rand.Int64N(rounds)
				err := g.Do(t.Context(), order, token, func(context.Context) error {
					written = append(written, token)
					return nil
				})
				if err != nil && !errors.Is(err, gate.ErrStale) {
					t.Errorf("write with token %d: %v", token, err)
				}
			}
		})
	}
	wg.Wait()
	require.NotEmpty(t, written)
	require.IsNonDecreasing(t, written)
	require.Equal(t, written[len(written)-1], g.Newest(order))
}

func TestWriteThatWaitsIsRefusedWhenANewerOneCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate.Memory
		var got []int64
		release, results := make(chan struct{}), make(chan error, 3)
		write := func(token int64) {
			results <- g.Do(t.Context(), order, token, func(context.Context) error {
				<-release
				got = append(got, token)
				return nil
			})
		}
		go write(33)
		synctest.Wait()
		go write(33) // waits for the first
		synctest.Wait()
		go write(34) // waits too, and makes the one before it late
		synctest.Wait()
		stale(t, g.Admit(order, 33), 33, 34)
		close(release)
		require.NoError(t, <-results, "a write that runs is not stopped")
		synctest.Wait()
		require.Equal(t, []int64{33, 34}, got)
		a, b := <-results, <-results
		stale(t, errors.Join(a, b), 33, 34)
	})
}

func TestDoReturnsTheErrorOfTheWriteAndKeepsTheToken(t *testing.T) {
	var g gate.Memory
	require.Equal(t, errWrite, g.Do(t.Context(), order, 34, func(context.Context) error { return errWrite }))
	require.ErrorIs(t, g.Do(t.Context(), order, 33, unreachable(t)), gate.ErrStale)
	require.PanicsWithValue(t, "out of paper", func() {
		_ = g.Do(t.Context(), order, 35, func(context.Context) error { panic("out of paper") })
	})
	require.NoError(t, g.Do(t.Context(), order, 35, func(context.Context) error { return nil }), "a panic gives the turn")
	require.Error(t, g.Do(t.Context(), order, 35, nil))
}

func TestDoneContextBeatsAFreeTurn(t *testing.T) {
	var g gate.Memory
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errWrite)
	require.Equal(t, errWrite, g.Do(ctx, order, 33, unreachable(t)))
	require.Zero(t, g.Len())
}

func TestWaitForTheTurnEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate.Memory
		release, first, second := make(chan struct{}), make(chan error, 1), make(chan error, 1)
		go func() {
			first <- g.Do(t.Context(), order, 33, func(context.Context) error {
				<-release
				return nil
			})
		}()
		synctest.Wait()
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() { second <- g.Do(ctx, order, 34, unreachable(t)) }()
		synctest.Wait()
		cancel(errWrite)
		require.Equal(t, errWrite, <-second)
		require.EqualValues(t, 34, g.Newest(order), "a newer holder has been seen, whether it wrote or not")
		close(release)
		require.NoError(t, <-first)
	})
}

func TestFullGateRefusesTheUnknownAndServesTheKnown(t *testing.T) {
	g := gate.Memory{Limit: 2}
	require.NoError(t, g.Admit("a", 7))
	require.NoError(t, g.Admit("b", 7))
	err := g.Admit("c", 7)
	require.ErrorIs(t, err, gate.ErrFull)
	require.ErrorContains(t, err, "24h")
	require.ErrorContains(t, err, "2")
	require.NoError(t, g.Admit("a", 8))
	require.ErrorIs(t, g.Admit("a", 7), gate.ErrStale)
	require.Equal(t, 2, g.Len())

	require.True(t, g.Forget("b"))
	require.False(t, g.Forget("b"))
	require.NoError(t, g.Admit("c", 1))
	require.ErrorIs(t, g.Admit("b", 9), gate.ErrFull)
}

func TestOnlyWhatWasNotUsedForTheRetentionIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate.Memory{Limit: 2, Retention: time.Hour}
		require.NoError(t, g.Admit("a", 7))
		require.NoError(t, g.Admit("b", 7))
		time.Sleep(40 * time.Minute)
		require.ErrorIs(t, g.Admit("a", 6), gate.ErrStale) // a late writer is about: a is kept for another hour
		time.Sleep(20*time.Minute - time.Nanosecond)
		require.ErrorIs(t, g.Admit("c", 1), gate.ErrFull)
		time.Sleep(time.Nanosecond)
		require.NoError(t, g.Admit("c", 1))
		require.Zero(t, g.Newest("b"))
		require.EqualValues(t, 7, g.Newest("a"))
		require.ErrorIs(t, g.Admit("d", 1), gate.ErrFull)
	})
}

func TestNothingIsForgottenWithoutNeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate.Memory
		require.NoError(t, g.Admit("a", 7))
		time.Sleep(1000 * time.Hour)
		require.NoError(t, g.Admit("b", 7))
		require.ErrorIs(t, g.Admit("a", 6), gate.ErrStale)
	})
}

func TestKeepForeverForgetsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate.Memory{Limit: 1, Retention: gate.KeepForever}
		require.NoError(t, g.Admit("a", 7))
		time.Sleep(100_000 * time.Hour)
		err := g.Admit("b", 7)
		require.ErrorIs(t, err, gate.ErrFull)
		require.ErrorContains(t, err, "for ever")
	})
}

// Were a resource forgotten whose write runs, the next writer would not wait for it.
func TestResourceIsKnownWhileAWriteRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate.Memory{Limit: 2, Retention: time.Minute}
		result := make(chan error, 1)
		go func() {
			result <- g.Do(t.Context(), "slow", 1, func(context.Context) error {
				time.Sleep(time.Hour)
				return nil
			})
		}()
		synctest.Wait()
		require.NoError(t, g.Admit("a", 1))
		time.Sleep(30 * time.Minute)
		require.False(t, g.Forget("slow"))
		require.NoError(t, g.Admit("b", 1), "a makes room")
		require.EqualValues(t, 1, g.Newest("slow"))
		require.Zero(t, g.Newest("a"))
		require.NoError(t, <-result)
		time.Sleep(time.Minute - time.Nanosecond)
		require.NoError(t, g.Admit("c", 1), "b was last used half an hour ago")
		require.EqualValues(t, 1, g.Newest("slow"), "used until its write ended")
		require.True(t, g.Forget("slow"))
	})
}

func TestDefaultLimitHolds(t *testing.T) {
	var g gate.Memory
	for i := range gate.DefaultLimit {
		require.NoError(t, g.Admit(strconv.Itoa(i), 1))
	}
	require.ErrorIs(t, g.Admit("one more", 1), gate.ErrFull)
}

func BenchmarkAdmit(b *testing.B) {
	var g gate.Memory
	names := make([]string, 10_000)
	for i := range names {
		names[i] = "order:" + strconv.Itoa(i)
	}
	b.ReportAllocs()
	token := int64(0)
	for b.Loop() {
		token++
		if err := g.Admit(names[token%int64(len(names))], token); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMemory shows in its B/op what a resource costs, its name not counted.
func BenchmarkMemory(b *testing.B) {
	names := make([]string, 10_000)
	for i := range names {
		names[i] = "order:" + strconv.Itoa(i)
	}
	b.ReportAllocs()
	for b.Loop() {
		var g gate.Memory
		for _, name := range names {
			if err := g.Admit(name, 1); err != nil {
				b.Fatal(err)
			}
		}
	}
}
