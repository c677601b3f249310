package redlatch_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/locktest"
	"github.com/redlatch/redlatch/internal/locktest/probe"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/rlock"
)

// A client that is closed while it is being granted a lock does not keep it.
func TestCloseDuringAnAcquisitionLeavesNoLock(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) { c.Timeout = probe.Patience })
	other := r.take(context.Background(), rlock.New(r.client, "order:1002"))
	late := make(chan struct{})
	trap := r.relay.Next(runs("acquire"), redistest.HoldReply(late))
	call := r.starts(context.Background(), r.lock())
	trap.AwaitReply(t)
	closed := probe.Go(t, r.client.Close)
	r.within(other.Lost(), "the closing")
	close(late)
	require.ErrorIs(t, call.Ends(), redlatch.ErrClosed)
	require.Nil(t, call.Hold)
	require.NoError(t, closed.Ends())
	locks := r.locks()
	require.Len(t, locks, 1)
	require.Equal(t, "order:1002", locks[0].Key, "only the hold that was there is left to expire")
}

// Close waits no longer than one command timeout or so for a server that does not answer, and everybody is told at once.
func TestCloseDoesNotWaitForAFrozenServer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	hold := r.take(context.Background(), rlock.New(r.client, "order:1002"))
	taken := r.take(context.Background(), r.theirs())
	waiter := r.starts(context.Background(), r.lock())
	r.listening()
	r.server.Stop(t)
	asking := r.starts(context.Background(), rlock.New(r.client, "order:1003"))
	began := time.Now()
	closed := probe.Go(t, r.client.Close)
	r.within(hold.Lost(), "the end of a hold")
	require.ErrorIs(t, hold.Err(), redlatch.ErrClosed)
	require.ErrorIs(t, waiter.Ends(), redlatch.ErrClosed)
	require.Error(t, asking.Ends())
	require.NoError(t, closed.Ends())
	// The closing of the connections for messages has a second of its own.
	require.Less(t, time.Since(began), 4*commandTimeout()+2*time.Second+locktest.Span(500*time.Millisecond))
	r.server.Cont(t)
	r.release(taken)
	// The key of the hold is left to expire, and maybe one more: what was sent to the frozen server can run when it goes on,
	// and nobody is there any more to take it back.
	left := r.locks()
	require.NotEmpty(t, left)
	require.LessOrEqual(t, len(left), 2)
	for _, l := range left {
		require.Contains(t, []string{"order:1002", "order:1003"}, l.Key)
		require.Positive(t, l.TTL)
	}
}

// Shutdown with a request in doubt waits for its settling, and not for ever.
func TestShutdownSettlesWhatIsInDoubt(t *testing.T) {
	t.Parallel()
	r := newRig(t, noRetry)
	hold := r.take(context.Background(), r.lock())
	r.relay.Down()
	require.Error(t, hold.Unlock(context.Background()))
	done := probe.Go(t, func() error { return r.client.Shutdown(context.Background()) })
	select {
	case <-done.Done:
		require.Fail(t, "the shutdown did not wait", "%v", done.Err)
	case <-time.After(commandTimeout()):
	}
	require.Len(t, r.locks(), 1)
	r.relay.Up(t)
	require.NoError(t, done.Ends())
	require.Empty(t, r.locks())
}

func TestShutdownInVainSaysWhatIsLeft(t *testing.T) {
	t.Parallel()
	r := newRig(t, noRetry)
	hold := r.take(context.Background(), r.lock())
	r.relay.Down()
	require.Error(t, hold.Unlock(context.Background()))
	ctx, cancel := context.WithTimeoutCause(context.Background(), commandTimeout(), errCustomerLeft)
	defer cancel()
	err := r.client.Shutdown(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, errCustomerLeft)
	require.ErrorContains(t, err, "1 requests in doubt")
	require.Len(t, r.locks(), 1)
}

// A connection that the caller brings along works, and stays open.
func TestBorrowedConnectionIsNotClosed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	option := server.ClientOption()
	option.DisableRetry = true
	borrowed, err := rueidis.NewClient(option)
	require.NoError(t, err)
	t.Cleanup(borrowed.Close)
	c, err := redlatch.Open(context.Background(), config.Config{}, redlatch.WithRedis(borrowed))
	require.NoError(t, err)
	hold, err := rlock.New(c, lockName).TryLock(context.Background())
	require.NoError(t, err)
	waiter := probe.Start(t, context.Background(), rlock.New(c, lockName))
	probe.Until(t, func() bool { return len(server.Channels(t)) > 0 }, "nobody listens")
	require.NoError(t, hold.Unlock(context.Background()))
	probe.Release(t, waiter.Succeeds())
	require.NoError(t, c.Close())
	require.NoError(t, borrowed.Do(context.Background(), borrowed.B().Ping().Build()).Error())
}

// An observer may use the client, and what it is told is in order, also when it is slow.
func TestObserverMayUseTheClient(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	told := make(chan redlatch.EventKind, 100)
	var observed *redlatch.Client
	opened := make(chan struct{})
	observed = probe.Observed(t, r.server.URL(), observer(func(e redlatch.Event) {
		<-opened
		if e.Name == lockName {
			_, _ = rlock.New(observed, "seen by the observer").IsLocked(context.Background())
			told <- e.Kind
		}
	}))
	l := rlock.New(observed, lockName)
	r.release(r.take(context.Background(), l))
	lost := r.take(context.Background(), l)
	_, err := l.ForceUnlock(context.Background())
	require.NoError(t, err)
	require.ErrorIs(t, lost.Err(), redlatch.ErrLost)
	close(opened)
	for _, want := range []redlatch.EventKind{
		redlatch.EventAcquired, redlatch.EventReleased, redlatch.EventAcquired, redlatch.EventLost,
	} {
		require.Equal(t, want, <-told)
	}
}

type observer func(redlatch.Event)

func (o observer) Observe(e redlatch.Event) { o(e) }
