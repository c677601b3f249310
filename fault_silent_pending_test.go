//go:build pending

package redlatch_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/locktest"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/rlock"
)

// A connection of which an answer did not come in time is taken for broken, as config.Config.Timeout says, also when
// several calls share it: the next command goes over a new one.
func TestSilentConnectionIsGivenUpAfterTheCommandTimeout(t *testing.T) {
	t.Parallel()
	r := newRig(t, noRetry)
	// Calls at the same time make the connection a pipeline, whose reader is not the caller.
	var calls []*result
	for i := range 50 {
		name := "warm" + string(rune('a'+i%10))
		calls = append(calls, start(func() (*redlatch.Hold, error) {
			return nil, redlatch.Do(context.Background(), rlock.New(r.client, name), func(context.Context) error { return nil })
		}))
	}
	for _, c := range calls {
		require.NoError(t, r.ends(c))
	}
	trap := r.relay.Next(runs("acquire", lockName), redistest.SwallowRequest())
	began := time.Now()
	_, err := r.lock().TryLock(context.Background())
	require.Error(t, err)
	trap.AwaitRequest(t)
	r.until(func() bool {
		_, err := r.lock().IsLocked(context.Background())
		return err == nil
	}, "the client does not connect anew")
	require.Less(t, time.Since(began), 3*commandTimeout()+locktest.Span(500*time.Millisecond))
	r.nothingLeft()
}
