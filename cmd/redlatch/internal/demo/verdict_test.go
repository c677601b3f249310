package demo

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

func TestSpansThatMeetDoNotOverlap(t *testing.T) {
	require.Zero(t, overlaps([]span{{from: 0, to: 10}, {from: 10, to: 20}, {from: 25, to: 30}}))
}

func TestEverySpanThatBeginsInsideAnotherCounts(t *testing.T) {
	// The second and the third begin inside the first, the fourth inside none.
	require.Equal(t, 2, overlaps([]span{{from: 0, to: 100}, {from: 10, to: 20}, {from: 30, to: 40}, {from: 100, to: 110}}))
}

func TestHandOffCountsOnlyForThoseWhoWaited(t *testing.T) {
	n, p50, p99 := handOffs([]span{
		{from: 0, to: 10 * ms},
		{waiting: 5 * ms, from: 12 * ms, to: 20 * ms},                // 2 ms
		{waiting: 30 * ms, from: 31 * ms, to: 40 * ms},               // came later
		{waiting: 35 * ms, from: 43 * ms, to: 50 * ms},               // 3 ms
		{waiting: 45 * ms, from: 51 * ms, to: 900 * ms},              // 1 ms
		{waiting: 45 * ms, from: 904 * ms, to: 999 * ms},             // 4 ms
		{waiting: 950 * ms, from: 1000 * ms, crashed: true, to: 2e9}, // 1 ms
		{waiting: 950 * ms, from: 3e9, to: 4e9},                      // after a crash
	})
	require.Equal(t, 5, n)
	require.Equal(t, 2*ms, p50)
	require.Equal(t, 4*ms, p99)
}

func TestReadersMayMeetAndWritersMayNot(t *testing.T) {
	read := func(from, to time.Duration) span { return span{from: from, to: to, reading: true} }
	require.Zero(t, overlaps([]span{read(0, 10), read(5, 20), {from: 20, to: 30}, read(30, 40), read(31, 35)}))
	require.Equal(t, 1, overlaps([]span{read(0, 30), read(5, 10), {from: 20, to: 40}}), "a writer beside the reader that is left")
	require.Equal(t, 2, overlaps([]span{{from: 0, to: 30}, read(5, 10), read(20, 40)}), "two readers beside a writer")
	require.Equal(t, 1, overlaps([]span{{from: 0, to: 10}, {from: 9, to: 20}, read(20, 30)}), "two writers")
	require.Equal(t, 1, overlaps([]span{{from: 0, to: 30}, read(30, 60), {from: 40, to: 50}, read(50, 70)}))
}

func TestMostReadersAtOnceAreCounted(t *testing.T) {
	read := func(from, to time.Duration) span { return span{from: from, to: to, reading: true} }
	require.Equal(t, 2, together([]span{read(0, 10), read(5, 20), read(10, 30), {from: 30, to: 40}, {from: 31, to: 32}}))
	require.Zero(t, together([]span{{from: 0, to: 10}, {from: 5, to: 10}}))
}

func TestHandOffOfReadersIsFromTheLastWriter(t *testing.T) {
	n, p50, p99 := handOffs([]span{
		{from: 0, to: 10 * ms},
		{waiting: 5 * ms, from: 11 * ms, to: 40 * ms, reading: true},  // 1 ms
		{waiting: 5 * ms, from: 13 * ms, to: 20 * ms, reading: true},  // 3 ms
		{waiting: 20 * ms, from: 21 * ms, to: 30 * ms, reading: true}, // came later, nobody was in its way
		{waiting: 15 * ms, from: 42 * ms, to: 50 * ms},                // 2 ms after the last reader
	})
	require.Equal(t, 3, n)
	require.Equal(t, 2*ms, p50)
	require.Equal(t, 3*ms, p99)
}

// shown is a board on which the given events have happened.
func shown(t *testing.T, workers []string, events ...Event) *Board {
	t.Helper()
	b := newBoard(workers, false, new(watcher))
	for _, e := range events {
		b.tell(e)
	}
	return b
}

func TestLockGivenAwayBeforeTheDeadHoldersLeaseIsOverCounts(t *testing.T) {
	b := shown(t, []string{"a", "b"},
		Event{At: 0, Worker: "a", Kind: Waiting}, Event{At: 1 * ms, Worker: "a", Kind: Acquired},
		Event{At: 2 * ms, Worker: "b", Kind: Waiting},
		Event{At: 5 * ms, Worker: "a", Kind: Crashed, Took: 100 * ms},
		Event{At: 50 * ms, Worker: "b", Kind: Acquired}, Event{At: 60 * ms, Worker: "b", Kind: Released},
	)
	v := b.verdict()
	require.Equal(t, 1, v.Overlaps)
	require.Equal(t, Crash{Worker: "a", At: 5 * ms, Lease: 100 * ms, Next: "b", After: 45 * ms}, *v.Crash)
}

func TestVerdictNamesEveryProblem(t *testing.T) {
	v := Verdict{Sections: 10, Counter: 9, Overlaps: 1, Crash: &Crash{Worker: "a", At: 0}, Took: 3 * time.Second}
	require.Equal(t, []string{
		"1 section found somebody else inside: the lock did not exclude",
		"the counter is 9 after 10 sections: updates were lost",
		"nobody got the lock after a had crashed, although its lease was over",
	}, v.problems(time.Second))
	v = Verdict{Sections: 10, Reads: 8, Counter: 1, Took: time.Second}
	require.Equal(t, []string{"the counter is 1 after 2 writing sections: updates were lost"}, v.problems(time.Second))
	v = Verdict{}
	require.Equal(t, []string{"no worker got the lock; does somebody else hold it?"}, v.problems(time.Second))
}
