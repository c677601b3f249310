package multilock_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/locktest/probe"
	"github.com/redlatch/redlatch/internal/redistest"
)

// brisk is a member's part of a round in tests that wait for several rounds.
const brisk = 60 * time.Millisecond

var background = context.Background()

// answerTime is the command timeout of tests in which a server does not answer: long enough for one that does, on a machine that is
// busy with other tests.
const answerTime = 1500 * time.Millisecond

// hasty makes a client give up on a server soon.
func hasty(c *config.Config) {
	c.Timeout, c.RetryAttempts = answerTime, 1
	c.RetryDelay = config.Delay{Min: 20 * time.Millisecond, Max: 40 * time.Millisecond}
}

// waited waits until somebody listens to the channel of a plain, fenced or other lock with that channel.
func waited(t *testing.T, s *redistest.Server, lock string) {
	t.Helper()
	probe.Until(t, func() bool { return slices.Contains(s.Channels(t), "redisson_lock__channel:{"+lock+"}") })
}

// hasLease says that a key has about that much left.
func hasLease(t *testing.T, s *redistest.Server, key string, lease time.Duration) {
	t.Helper()
	left := s.TTL(t, key)
	require.LessOrEqual(t, left, lease, key)
	require.Greater(t, left, lease-lease/4-time.Second, key)
}

func nothingLeft(t *testing.T, servers ...*redistest.Server) {
	t.Helper()
	for _, s := range servers {
		require.Empty(t, probe.Locks(s.Snapshot(t).Keys()))
	}
}

// nothingStays is nothingLeft for what ends in the background.
func nothingStays(t *testing.T, servers ...*redistest.Server) {
	t.Helper()
	for _, s := range servers {
		probe.Until(t, func() bool { return len(probe.Locks(s.Snapshot(t).Keys())) == 0 })
	}
}
