package javaagent_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/interop/javaagent"
)

func TestEveryKindLocksAndUnlocks(t *testing.T) {
	client := open(t)
	other := openAs(t, "other", javaagent.YAMLSingle(server.Addr()))
	spin := javaagent.Spin(key(t, "constant-spin"))
	spin.BackOff = &javaagent.BackOff{Type: "constant", InitialMs: 5}
	locks := map[string]javaagent.Lock{
		"plain":              javaagent.Plain(key(t, "plain")),
		"fair":               javaagent.Fair(key(t, "fair")),
		"read":               javaagent.Read(key(t, "rw-read")),
		"write":              javaagent.Write(key(t, "rw-write")),
		"fenced":             javaagent.Fenced(key(t, "fenced")),
		"spin":               javaagent.Spin(key(t, "spin")),
		"spin with back-off": spin,
		"nonreentrant":       javaagent.NonReentrant(key(t, "nonreentrant")),
		"nonreentrant-fair":  javaagent.NonReentrantFair(key(t, "nonreentrant-fair")),
		"grouped":            javaagent.Grouped(key(t, "grouped"), "a", "b"),
		"multi":              javaagent.Multi(javaagent.Plain(key(t, "m1")), javaagent.Fair(key(t, "m2"))),
		"red": javaagent.Red(javaagent.Plain(key(t, "r1")), javaagent.Plain(key(t, "r2")),
			javaagent.Plain(key(t, "r3")).Of(other)),
	}
	for name, lock := range locks {
		t.Run(name, func(t *testing.T) {
			ctx := bounded(t)
			owner := thread(t, client, "owner")
			require.NoError(t, owner.Lock(ctx, lock))
			held, err := owner.IsHeldByCurrentThread(ctx, lock)
			require.NoError(t, err)
			require.True(t, held)

			// Readers let each other in; every other kind keeps a second thread out.
			taken, err := thread(t, client, "stranger").TryLock(ctx, lock)
			require.NoError(t, err)
			require.Equal(t, lock.Kind == javaagent.KindRead, taken)

			require.NoError(t, owner.Unlock(ctx, lock))
			held, err = owner.IsHeldByCurrentThread(ctx, lock)
			require.NoError(t, err)
			require.False(t, held)
		})
	}
}

// RL-01
func TestHoldCountFollowsReentryAndRelease(t *testing.T) {
	ctx, client, lock := bounded(t), open(t), javaagent.Plain(key(t, "lock"))
	owner := thread(t, client, "owner")
	counts := []struct {
		do    func() error
		count int
	}{
		{func() error { return owner.Lock(ctx, lock) }, 1},
		{func() error { return owner.Lock(ctx, lock) }, 2},
		{func() error { return owner.Unlock(ctx, lock) }, 1},
		{func() error { return owner.Unlock(ctx, lock) }, 0},
	}
	for _, step := range counts {
		require.NoError(t, step.do())
		count, err := owner.HoldCount(ctx, lock)
		require.NoError(t, err)
		require.Equal(t, step.count, count)
	}
	locked, err := owner.IsLocked(ctx, lock)
	require.NoError(t, err)
	require.False(t, locked)
}

func TestAsleepIsWhoWaitsForALock(t *testing.T) {
	ctx, client, lock := bounded(t), open(t), javaagent.Plain(key(t, "lock"))
	owner, waiter := thread(t, client, "owner"), thread(t, client, "waiter")
	require.NoError(t, owner.Lock(ctx, lock))
	for _, idle := range []*javaagent.Thread{owner, waiter} {
		asleep, err := idle.Asleep(ctx)
		require.NoError(t, err)
		require.False(t, asleep, "it waits for nothing but an order")
	}
	acquired := waiter.Go(javaagent.NewOp(javaagent.OpLock, lock))
	require.Eventually(t, func() bool {
		asleep, err := waiter.Asleep(ctx)
		return err == nil && asleep
	}, 10*time.Second, time.Millisecond)
	require.NoError(t, owner.Unlock(ctx, lock))
	_, err := acquired.Wait(ctx)
	require.NoError(t, err)
	asleep, err := waiter.Asleep(ctx)
	require.NoError(t, err)
	require.False(t, asleep)
	require.NoError(t, waiter.Unlock(ctx, lock))
}

func TestOwnerIsTheOwnerFieldAndStaysTheSame(t *testing.T) {
	ctx, client, lock := bounded(t), open(t), javaagent.Plain(key(t, "lock"))
	owner := thread(t, client, "owner")
	before, err := owner.Owner(ctx)
	require.NoError(t, err)
	require.NoError(t, owner.Lock(ctx, lock, javaagent.Lease(20*time.Second)))

	require.Equal(t, map[string]string{before: "1"}, server.Do(t, "HGETALL", lock.Name).Map())
	ttl := server.Do(t, "PTTL", lock.Name).Int()
	require.InDelta(t, 20_000, ttl, 5_000)
	remaining, err := owner.RemainTimeToLive(ctx, lock)
	require.NoError(t, err)
	require.InDelta(t, ttl, remaining, 5_000)
	after, err := owner.Owner(ctx)
	require.NoError(t, err)
	require.Equal(t, before, after)
	require.NoError(t, owner.Unlock(ctx, lock))
}

// RL-22
func TestAsyncOperationsActForTheGivenThreadID(t *testing.T) {
	ctx, client, lock := bounded(t), open(t), javaagent.Plain(key(t, "lock"))
	one, two := thread(t, client, "one"), thread(t, client, "two")
	require.NoError(t, one.LockAsync(ctx, lock, 4711, javaagent.Lease(20*time.Second)))
	require.Equal(t, map[string]string{client.ID() + ":4711": "1"}, server.Do(t, "HGETALL", lock.Name).Map())

	held, err := two.IsHeldByThread(ctx, lock, 4711)
	require.NoError(t, err)
	require.True(t, held)
	taken, err := two.TryLockAsync(ctx, lock, 4712)
	require.NoError(t, err)
	require.False(t, taken)
	taken, err = two.TryLockAsync(ctx, lock, 4711, javaagent.Wait(time.Second), javaagent.Lease(20*time.Second))
	require.NoError(t, err)
	require.True(t, taken)

	require.NoError(t, two.UnlockAsync(ctx, lock, 4711))
	require.NoError(t, one.UnlockAsync(ctx, lock, 4711))
	require.Equal(t, javaagent.CodeIllegalMonitorState, javaagent.CodeOf(one.UnlockAsync(ctx, lock, 4711)))
}

func TestOperationsOfDifferentThreadsOverlap(t *testing.T) {
	ctx, client, lock := bounded(t), open(t), javaagent.Plain(key(t, "lock"))
	holder := thread(t, client, "holder")
	require.NoError(t, holder.Lock(ctx, lock))
	// Whoever of the two is first leaves the lock to the other one by the end of its lease.
	brief := javaagent.Lease(50 * time.Millisecond)
	waiters := []*javaagent.Pending{
		thread(t, client, "first").Go(javaagent.NewOp(javaagent.OpLock, lock, brief)),
		thread(t, client, "second").Go(javaagent.NewOp(javaagent.OpTryLock, lock, javaagent.Wait(30*time.Second), brief)),
	}
	awaitSubscribed(t, lock.Name)
	for _, waiter := range waiters {
		select {
		case <-waiter.Done():
			require.Fail(t, "a waiter got a lock that is held")
		default:
		}
	}

	released, err := holder.Do(ctx, javaagent.NewOp(javaagent.OpUnlock, lock))
	require.NoError(t, err)
	for _, waiter := range waiters {
		result, err := waiter.Wait(ctx)
		require.NoError(t, err)
		require.True(t, result.End.After(released.Start), "the lock was granted at %v and released from %v on", result.End, released.Start)
		require.Greater(t, result.Elapsed, time.Duration(0))
		require.WithinRange(t, result.End, released.Start.Add(-time.Minute), time.Now().Add(time.Second))
	}
}

func TestInterruptEndsThatWaitAlone(t *testing.T) {
	client, lock := open(t), javaagent.Plain(key(t, "lock"))
	require.NoError(t, thread(t, client, "holder").Lock(bounded(t), lock))
	waiter := thread(t, client, "waiter")
	waits := map[string]javaagent.Op{
		"lockInterruptibly": javaagent.NewOp(javaagent.OpLockInterruptibly, lock),
		"tryLock":           javaagent.NewOp(javaagent.OpTryLock, lock, javaagent.Wait(time.Minute)),
		"lockAsync":         javaagent.NewOp(javaagent.OpLockAsync, lock, javaagent.ThreadID(7)),
	}
	for name, op := range waits {
		t.Run(name, func(t *testing.T) {
			ctx := bounded(t)
			running := waiter.Go(op)
			queued := waiter.Go(javaagent.NewOp(javaagent.OpLockInterruptibly, lock))
			awaitSubscribed(t, lock.Name)
			for _, pending := range []*javaagent.Pending{queued, running} {
				reached, err := pending.Interrupt(ctx)
				require.NoError(t, err)
				require.True(t, reached)
			}
			for _, pending := range []*javaagent.Pending{running, queued} {
				_, err := pending.Wait(ctx)
				require.Equal(t, javaagent.CodeInterrupted, javaagent.CodeOf(err), "%v", err)
			}
			reached, err := running.Interrupt(ctx)
			require.NoError(t, err)
			require.False(t, reached, "what has ended cannot be interrupted")
			// The answer comes a moment before the thread is idle.
			require.Eventually(t, func() bool {
				reached, err = waiter.Interrupt(ctx)
				return err == nil && !reached
			}, 10*time.Second, time.Millisecond, "an idle thread has nothing to interrupt")

			// The thread itself is as good as new.
			_, err = waiter.IsLocked(ctx, lock)
			require.NoError(t, err)
		})
	}
}

// RL-02, RL-04: what the JVM does, as the steps of the interop tests must expect it.
func TestKeptLockObjectRemembersItsLease(t *testing.T) {
	ctx, client, lock := bounded(t), open(t), javaagent.Plain(key(t, "lock"))
	owner := thread(t, client, "owner")
	ttl := func() int64 { return server.Do(t, "PTTL", lock.Name).Int() }

	require.NoError(t, owner.Lock(ctx, lock, javaagent.Lease(10*time.Second)))
	require.NoError(t, owner.Lock(ctx, lock))
	require.LessOrEqual(t, ttl(), int64(10_000), "a lock without a lease takes the remembered one")
	require.NoError(t, owner.Lock(ctx, lock, javaagent.Lease(20*time.Second)))
	require.NoError(t, owner.Unlock(ctx, lock))
	require.Greater(t, ttl(), int64(10_000), "a partial release re-arms the last lease")
	require.NoError(t, owner.Unlock(ctx, lock, javaagent.Fresh()))
	require.Greater(t, ttl(), int64(20_000), "a new object knows of no lease")
	require.NoError(t, owner.Unlock(ctx, lock))
}

// FE-01, FE-02, FE-07
func TestFencedTokensGrow(t *testing.T) {
	ctx, client, lock := bounded(t), open(t), javaagent.Fenced(key(t, "lock"))
	owner, stranger := thread(t, client, "owner"), thread(t, client, "stranger")
	token, err := owner.Token(ctx, lock)
	require.NoError(t, err)
	require.Zero(t, token)

	token, err = owner.LockAndGetToken(ctx, lock)
	require.NoError(t, err)
	require.Equal(t, int64(1), token)
	token, taken, err := owner.TryLockAndGetToken(ctx, lock, javaagent.Wait(time.Second), javaagent.Lease(time.Minute))
	require.NoError(t, err)
	require.True(t, taken)
	require.Equal(t, int64(2), token, "a re-entry has a token of its own")

	_, taken, err = stranger.TryLockAndGetToken(ctx, lock, javaagent.Wait(50*time.Millisecond))
	require.NoError(t, err)
	require.False(t, taken)
	waiting := stranger.Go(javaagent.NewOp(javaagent.OpTryLockAndGetToken, lock))
	awaitSubscribed(t, lock.Name)
	require.NoError(t, owner.Unlock(ctx, lock))
	require.NoError(t, owner.Unlock(ctx, lock))
	result, err := waiting.Wait(ctx)
	require.NoError(t, err)
	require.JSONEq(t, "3", string(result.Value), "Redisson's tryLockAndGetToken() waits for the lock")

	deleted, err := owner.Delete(ctx, lock)
	require.NoError(t, err)
	require.True(t, deleted)
	token, err = owner.Token(ctx, lock)
	require.NoError(t, err)
	require.Zero(t, token, "delete takes the token with it")
}

func TestForceUnlockAndExpireReachTheKey(t *testing.T) {
	ctx, client, lock := bounded(t), open(t), javaagent.Plain(key(t, "lock"))
	owner, stranger := thread(t, client, "owner"), thread(t, client, "stranger")
	require.NoError(t, owner.Lock(ctx, lock))
	there, err := stranger.Expire(ctx, lock, 5*time.Second)
	require.NoError(t, err)
	require.True(t, there)
	require.LessOrEqual(t, server.Do(t, "PTTL", lock.Name).Int(), int64(5_000))

	freed, err := stranger.ForceUnlock(ctx, lock)
	require.NoError(t, err)
	require.True(t, freed)
	freed, err = stranger.ForceUnlock(ctx, lock)
	require.NoError(t, err)
	require.False(t, freed)
	require.Zero(t, server.Do(t, "EXISTS", lock.Name).Int())
}

// FL-22, RW-23: the mapper stands before every name.
func TestNamePrefixIsPutBeforeTheName(t *testing.T) {
	ctx, lock := bounded(t), javaagent.Plain(key(t, "lock"))
	client := openAs(t, "mapped", javaagent.YAMLSingle(server.Addr()), javaagent.NamePrefix("app:"))
	owner := thread(t, client, "owner")
	require.NoError(t, owner.Lock(ctx, lock))
	require.Equal(t, int64(1), server.Do(t, "EXISTS", "app:"+lock.Name).Int())
	require.NoError(t, owner.Unlock(ctx, lock))
}

func TestErrorsTellWhatTheJVMThrew(t *testing.T) {
	client := open(t)
	mine := thread(t, client, "owner")
	impatient := openAs(t, "impatient", "singleServerConfig:\n  address: redis://"+server.Addr()+
		"\n  timeout: 200\n  retryAttempts: 0\n  connectionMinimumIdleSize: 1\n  subscriptionConnectionMinimumIdleSize: 1\n")
	held := javaagent.Plain(key(t, "held"))
	once := javaagent.NonReentrant(key(t, "once"))
	require.NoError(t, mine.Lock(bounded(t), held))
	require.NoError(t, mine.Lock(bounded(t), once))
	server.Do(t, "SET", key(t, "string"), "x")

	cases := map[string]struct {
		op   javaagent.Op
		on   *javaagent.Thread
		want javaagent.Code
		word string
	}{
		"release of a lock that is not held": {
			javaagent.NewOp(javaagent.OpUnlock, javaagent.Plain(key(t, "free"))), mine,
			javaagent.CodeIllegalMonitorState, "not locked by current thread",
		},
		"release by the wrong owner": {
			javaagent.NewOp(javaagent.OpUnlock, held), thread(t, client, "stranger"),
			javaagent.CodeIllegalMonitorState, "not locked by current thread",
		},
		// NR-01: the JVM throws the exception that it throws for a wrong release.
		"re-entry of a non-reentrant lock": {
			javaagent.NewOp(javaagent.OpLock, once), mine,
			javaagent.CodeIllegalMonitorState, "non-reentrant",
		},
		// RL-19
		"key of another type": {
			javaagent.NewOp(javaagent.OpLock, javaagent.Plain(key(t, "string"))), mine,
			javaagent.CodeRedis, "WRONGTYPE",
		},
		"hold count of a multi-lock": {
			javaagent.NewOp(javaagent.OpGetHoldCount, javaagent.Multi(held)), mine,
			javaagent.CodeUnsupported, "",
		},
		"token of a lock that has none": {
			javaagent.NewOp(javaagent.OpGetToken, held), mine,
			javaagent.CodeUnsupported, "fenced",
		},
		"unknown operation": {
			javaagent.NewOp("borrow", held), mine,
			javaagent.CodeBadRequest, `"borrow"`,
		},
		"unknown kind": {
			javaagent.NewOp(javaagent.OpLock, javaagent.Lock{Kind: "loose", Name: "x"}), mine,
			javaagent.CodeBadRequest, `"loose"`,
		},
		"async without a thread id": {
			javaagent.NewOp(javaagent.OpLockAsync, held), mine,
			javaagent.CodeBadRequest, "threadId",
		},
		"multi-lock without members": {
			javaagent.NewOp(javaagent.OpLock, javaagent.Multi()), mine,
			javaagent.CodeBadRequest, "at least one member",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := c.on.Do(bounded(t), c.op)
			require.Equal(t, c.want, javaagent.CodeOf(err), "%v", err)
			require.ErrorContains(t, err, c.word)
		})
	}

	t.Run("a server that does not answer", func(t *testing.T) {
		server.Stop(t)
		defer server.Cont(t)
		_, err := thread(t, impatient, "owner").IsLocked(bounded(t), held)
		require.Equal(t, javaagent.CodeTimeout, javaagent.CodeOf(err), "%v", err)
	})
	t.Run("a closed client", func(t *testing.T) {
		gone, err := jvm.Open(bounded(t), t.Name(), javaagent.YAMLSingle(server.Addr()))
		require.NoError(t, err)
		require.NoError(t, gone.Close(bounded(t)))
		err = thread(t, gone, "owner").Lock(bounded(t), held)
		require.Equal(t, javaagent.CodeBadRequest, javaagent.CodeOf(err), "%v", err)
	})
	t.Run("a redisson.yaml that Redisson refuses", func(t *testing.T) {
		_, err := jvm.Open(bounded(t), t.Name(), "singleServerConfig:\n  hostAndPort: none\n")
		require.Equal(t, javaagent.CodeOther, javaagent.CodeOf(err), "%v", err)
		require.ErrorContains(t, err, "hostAndPort")
	})
	t.Run("a name that is taken", func(t *testing.T) {
		_, err := jvm.Open(bounded(t), client.Name(), javaagent.YAMLSingle(server.Addr()))
		require.Equal(t, javaagent.CodeBadRequest, javaagent.CodeOf(err), "%v", err)
	})
}
