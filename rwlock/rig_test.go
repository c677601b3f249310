package rwlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/locktest"
	"github.com/redlatch/redlatch/internal/locktest/probe"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/rwlock"
)

const (
	name    = "order:1001"
	channel = "redisson_rwlock:{order:1001}"
)

var background = context.Background()

// lively is a watchdog timeout for tests that wait for renewals.
func lively() time.Duration { return locktest.Span(900 * time.Millisecond) }

func watchful(c *config.Config) { c.LockWatchdogTimeout = lively() }

func sideOf(l *rwlock.Lock, side string) *rwlock.Side {
	if side == "read" {
		return l.Read()
	}
	return l.Write()
}

// field is what the lock's hash has under a name; "" for nothing.
func field(t *testing.T, s *redistest.Server, of string) string {
	t.Helper()
	return s.Do(t, "HGET", name, of).Text()
}

// marker is the key of an owner's only read hold.
func marker(h *redlatch.Hold) string {
	return "{" + name + "}:" + h.Owner().String() + ":rwlock_timeout:1"
}

// renewals waits for so long that a lock which is not renewed would have ended, and for renewals all the time.
func renewals(t *testing.T, seen probe.Events) {
	t.Helper()
	timer := time.NewTimer(probe.Patience)
	defer timer.Stop()
	for began := time.Now(); time.Since(began) < lively()*3/2; {
		select {
		case v := <-seen:
			require.NotEqual(t, redlatch.EventLost, v.Kind)
		case <-timer.C:
			require.FailNow(t, "no renewal")
		}
	}
}
