package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRoundIsTheTimeInWhichRenewalsWentOn(t *testing.T) {
	t.Parallel()
	began := time.Now()
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	r := &rounds{size: 100}
	r.start(1000, at(0))
	r.counted(1000, at(20)) // nothing was renewed
	r.counted(1060, at(40))
	require.Empty(t, r.whole)
	r.counted(1060, at(5000))
	r.counted(1110, at(5030)) // 110 renewals in 20 + 30 ms: a round, and 10 of the next
	require.Equal(t, []time.Duration{50 * time.Millisecond}, r.whole)
	r.counted(1200, at(5070)) // 100 more in 40 ms
	require.Equal(t, []time.Duration{50 * time.Millisecond, 40 * time.Millisecond}, r.whole)
	require.Equal(t, 50*time.Millisecond, r.longest())
	require.Equal(t, 40*time.Millisecond, r.median())
}

func TestUnfinishedRoundIsNoRound(t *testing.T) {
	t.Parallel()
	r := &rounds{size: 100}
	began := time.Now()
	r.start(0, began)
	r.counted(99, began.Add(time.Second))
	require.Empty(t, r.whole)
}

func TestFlagsMakeARunShorter(t *testing.T) {
	t.Parallel()
	p, err := parse([]string{"-holds", "500", "-seconds", "20", "-runs", "2ms"})
	require.NoError(t, err)
	require.Equal(t, plan{
		holds: 500, length: 20 * time.Second, watchdog: 30 * time.Second, runs: []string{"2ms"}, sides: []string{"redlatch", "redisson"},
	}, p)
}

func TestWorstViewCountsAMissingLockAsOneWithNothingLeft(t *testing.T) {
	t.Parallel()
	got := view{present: 10, smallest: time.Second}.and(view{present: 3})
	require.Equal(t, view{present: 13}, got)
}
