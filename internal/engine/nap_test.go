package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/config"
)

func TestWaiterSleepsNoLongerThanTheLockCanLast(t *testing.T) {
	t.Parallel()
	const poll = time.Hour
	e := &Engine{cfg: config.Config{FallbackPoll: poll}}
	require.Equal(t, 701*time.Millisecond, e.napFor(700*time.Millisecond))
	require.Equal(t, time.Millisecond, e.napFor(0))
	require.Equal(t, time.Millisecond, e.napFor(-2*time.Millisecond), "a lock that has just gone")
	require.GreaterOrEqual(t, e.napFor(-time.Millisecond), poll*4/5, "a lock without a TTL")
	require.LessOrEqual(t, e.napFor(-time.Millisecond), poll*6/5)
	require.LessOrEqual(t, e.napFor(2*poll), poll*6/5)
}
