package multilock_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/fairlock"
	"github.com/redlatch/redlatch/internal/locktest/probe"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/multilock"
	"github.com/redlatch/redlatch/rlock"
	"github.com/redlatch/redlatch/rwlock"
)

func TestAllMembersAreHeldByOneOwnerAndReleasedTogether(t *testing.T) {
	t.Parallel()
	one, two := redistest.Start(t), redistest.Start(t)
	here, there := probe.Open(t, one.URL()), probe.Open(t, two.URL())
	l := multilock.New(rlock.New(here, "a"), fairlock.New(there, "b"), rwlock.New(there, "c").Write())
	require.Equal(t, "a, b, c", l.Name())

	hold := probe.Take(t, l)
	require.Equal(t, here.ID(), hold.Owner().ClientID(), "the owner is that of the first member")
	require.Zero(t, hold.Token())
	number := strconv.FormatInt(hold.Owner().ThreadID(), 10)
	require.Equal(t, "1", one.Do(t, "HGET", "a", here.ID()+":"+number).Text())
	require.Equal(t, "1", two.Do(t, "HGET", "b", there.ID()+":"+number).Text())
	require.Equal(t, "1", two.Do(t, "HGET", "c", there.ID()+":"+number+":write").Text())
	require.NoError(t, hold.Err())
	require.NoError(t, hold.Context().Err())

	probe.Release(t, hold)
	nothingLeft(t, one, two)
	require.ErrorIs(t, hold.Unlock(background), redlatch.ErrNotHeld)
}

func TestMembersAreTriedInTheOrderGiven(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := probe.Open(t, server.URL())
	a, b, c := rlock.New(client, "a"), rlock.New(client, "b"), rlock.New(client, "c")
	probe.Release(t, probe.Take(t, multilock.New(a, b, c))) // the server knows all scripts now
	rival := probe.Take(t, c)

	seen := server.Monitor(t)
	hold, err := multilock.New(b, a, c, rlock.New(client, "d")).TryLock(background)
	require.ErrorIs(t, err, redlatch.ErrNotAcquired)
	require.ErrorContains(t, err, "member 3")
	require.Nil(t, hold)
	var keys []string
	for _, command := range seen.Commands(t) {
		if command.Name() == "EVALSHA" {
			keys = append(keys, command.Args[3])
		}
	}
	require.Equal(t, []string{"b", "a", "c"}, keys[:3])
	require.ElementsMatch(t, []string{"b", "a"}, keys[3:], "what was taken is given back; nobody asks for the fourth")
	probe.Release(t, rival)
	nothingLeft(t, server)
}

// ML-01
func TestOfTenContendersAtOnceExactlyOneSucceeds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var wins atomic.Int32
	var work sync.WaitGroup
	ready := make(chan struct{})
	for range 10 {
		c := probe.Open(t, server.URL())
		l := multilock.New(rlock.New(c, "a"), rlock.New(c, "b"), rlock.New(c, "c"))
		work.Go(func() {
			<-ready
			began := time.Now()
			_, err := l.TryLock(background, redlatch.WithLease(10*time.Second))
			if err == nil {
				wins.Add(1)
			} else if !isNotAcquired(err) {
				t.Errorf("one of ten contenders: %v", err)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("an attempt without a wait limit took %v", took)
			}
		})
	}
	close(ready)
	work.Wait()
	require.EqualValues(t, 1, wins.Load())
	for _, key := range []string{"a", "b", "c"} {
		hasLease(t, server, key, 10*time.Second)
	}
}

// ML-02: the lease is not touched by how many rounds it took.
func TestLeaseIsTheOneAskedForAfterManyRounds(t *testing.T) {
	t.Parallel()
	server, seen := redistest.Start(t), make(probe.Events, 1000)
	client := probe.Observed(t, server.URL(), seen)
	rival := probe.Take(t, rlock.New(probe.Open(t, server.URL()), "b"))
	l := multilock.New(rlock.New(client, "a"), rlock.New(client, "b")).Paced(brisk)
	waiter := probe.Start(t, background, l, redlatch.WithLease(10*time.Second))
	for range 4 {
		seen.Await(t, redlatch.EventNotAcquired, "b")
	}
	probe.Release(t, rival)
	hold := waiter.Succeeds()
	hasLease(t, server, "a", 10*time.Second)
	hasLease(t, server, "b", 10*time.Second)
	left := time.Until(hold.ValidUntil())
	require.LessOrEqual(t, left, 10*time.Second)
	require.Greater(t, left, 6*time.Second)
	probe.Release(t, hold)
	nothingLeft(t, server)
}

// While members are waited for, those held have twice the round, so that a caller that dies then is soon forgotten.
func TestMembersHaveAShortLeaseUntilAllAreHeld(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := probe.Open(t, server.URL())
	rival := probe.Take(t, rlock.New(client, "b"))
	l := multilock.New(rlock.New(client, "a"), rlock.New(client, "b"))
	waiter := probe.Start(t, background, l, redlatch.WithLease(time.Hour), redlatch.WithWait(2*time.Second))
	waited(t, server, "b")
	hasLease(t, server, "a", 4*time.Second)
	probe.Release(t, rival)
	hold := waiter.Succeeds()
	hasLease(t, server, "a", time.Hour)
	hasLease(t, server, "b", time.Hour)
	probe.Release(t, hold)

	short := probe.Take(t, l, redlatch.WithLease(2*time.Second)) // shorter than what members are taken with
	require.LessOrEqual(t, server.TTL(t, "a"), 2*time.Second)
	require.LessOrEqual(t, server.TTL(t, "b"), 2*time.Second)
	probe.Release(t, short)
}

// ML-05
func TestCallersThatListTheMembersInOppositeOrderBothComeThrough(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	here, there := probe.Open(t, server.URL()), probe.Open(t, server.URL(), probe.Deaf)
	one := multilock.New(rlock.New(here, "a"), rlock.New(here, "b"))
	other := multilock.New(rlock.New(there, "b"), rlock.New(there, "a"))

	// The other one has b, comes back for it and for a, while the first has a and waits for b.
	owner := redlatch.WithOwner(background, there.NewOwner())
	b := probe.TakeAs(t, owner, rlock.New(there, "b"))
	first := probe.Start(t, background, one)
	waited(t, server, "b")
	probe.IsHeld(t, rlock.New(there, "a"))
	second := probe.Start(t, owner, other)
	hold := second.Succeeds()
	require.Less(t, second.Took, 9*time.Second, "one round, and a pause")
	probe.Release(t, hold, b)
	probe.Release(t, first.Succeeds())
	nothingLeft(t, server)
}

// ML-05
func TestManyCallersInAnyOrderComeThrough(t *testing.T) {
	t.Parallel()
	const callers, rounds = 4, 5
	server := redistest.Start(t)
	var inside, sections atomic.Int32
	var work sync.WaitGroup
	for i := range callers {
		c := probe.Open(t, server.URL())
		members := []redlatch.Locker{rlock.New(c, "a"), rlock.New(c, "b"), rlock.New(c, "c")}
		if i%2 == 0 {
			slices.Reverse(members)
		}
		l := multilock.New(members...).Paced(brisk)
		work.Go(func() {
			for range rounds {
				err := redlatch.Do(t.Context(), l, func(context.Context) error {
					if inside.Add(1) > 1 {
						t.Error("two are inside")
					}
					sections.Add(1)
					inside.Add(-1)
					return nil
				})
				if err != nil {
					t.Errorf("caller %d: %v", i, err)
					return
				}
			}
		})
	}
	work.Wait()
	require.EqualValues(t, callers*rounds, sections.Load())
	nothingLeft(t, server)
}

// ML-07
func TestWaitingAsksSeldomHoweverLongTheLease(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := probe.Open(t, server.URL())
	rival := probe.Take(t, rlock.New(probe.Open(t, server.URL()), "b"))
	l := multilock.New(rlock.New(client, "a"), rlock.New(client, "b"))
	probe.IsHeld(t, l)
	server.ResetStats(t)
	began := time.Now()
	_, err := l.TryLock(background, redlatch.WithWait(4*time.Second), redlatch.WithLease(30*time.Minute))
	require.ErrorIs(t, err, redlatch.ErrNotAcquired)
	require.GreaterOrEqual(t, time.Since(began), 4*time.Second, "the wait limit is all waited for")
	// A round or two: a is taken and given back, b asked before and after its channel is joined, and by the poll.
	require.LessOrEqual(t, server.CommandStats(t)["evalsha"], int64(12))
	probe.IsFree(t, rlock.New(client, "a"))
	probe.Release(t, rival)
}

func TestFirstMemberIsWaitedForWithoutHoldingAnother(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := probe.Open(t, server.URL(), probe.Deaf)
	rival := probe.Take(t, rlock.New(client, "a"))
	l := multilock.New(rlock.New(client, "a"), rlock.New(client, "b"), rlock.New(client, "c"))
	waiter := probe.Start(t, background, l)
	waited(t, server, "a")
	probe.IsFree(t, rlock.New(client, "b"), rlock.New(client, "c"))
	probe.Release(t, rival)
	probe.Release(t, waiter.Succeeds())
	nothingLeft(t, server)
}

func TestReleaseOfAnyMemberWakesWhoWaitsForIt(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	here, there := probe.Open(t, server.URL()), probe.Open(t, server.URL(), probe.Deaf)
	for _, name := range []string{"a", "b", "c"} {
		rival := probe.Take(t, rlock.New(here, name))
		waiter := probe.Start(t, background, multilock.New(rlock.New(there, "a"), rlock.New(there, "b"), rlock.New(there, "c")))
		waited(t, server, name)
		probe.Release(t, rival)
		probe.Release(t, waiter.Succeeds())
	}
	nothingLeft(t, server)
}

// ML-13
func TestCancelledCallerLeavesNoMemberHeld(t *testing.T) {
	t.Parallel()
	server, seen := redistest.Start(t), make(probe.Events, 1000)
	client := probe.Observed(t, server.URL(), seen)
	rival := probe.Take(t, rlock.New(probe.Open(t, server.URL()), "c"))
	l := multilock.New(rlock.New(client, "a"), rlock.New(client, "b"), rlock.New(client, "c"))
	for _, opts := range [][]redlatch.AcquireOption{nil, {redlatch.WithLease(time.Hour)}, {redlatch.WithWait(time.Hour)}} {
		ctx, cancel := context.WithCancelCause(background)
		waiter := probe.Start(t, ctx, l, opts...)
		waited(t, server, "c")
		probe.Until(t, func() bool { return server.Do(t, "EXISTS", "a", "b").Int() == 2 })
		cancel(errGivenUp)
		err := waiter.Fails()
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, errGivenUp)
		require.NotErrorIs(t, err, redlatch.ErrNotAcquired)
		require.Zero(t, server.Do(t, "EXISTS", "a", "b").Int())
		seen.Await(t, redlatch.EventReleased, "a")
	}
	probe.Release(t, rival)
	nothingLeft(t, server)
	require.NoError(t, client.Shutdown(background), "nothing is held that would keep the client")
}

func TestDeadlineEndsTheWaitAndIsNoContention(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := probe.Open(t, server.URL())
	rival := probe.Take(t, rlock.New(client, "b"))
	ctx, cancel := context.WithTimeout(background, 200*time.Millisecond)
	defer cancel()
	_, err := multilock.New(rlock.New(client, "a"), rlock.New(client, "b")).Lock(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, redlatch.ErrNotAcquired)
	probe.Release(t, rival)
	nothingLeft(t, server)
}

// A member that is broken ends the call with its words, and what was taken is given back.
func TestBrokenMemberIsAnErrorAndTheOthersAreGivenBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := probe.Open(t, server.URL())
	server.Do(t, "SET", "b", "no lock")
	l := multilock.New(rlock.New(client, "a"), rlock.New(client, "b"))
	for _, opts := range [][]redlatch.AcquireOption{nil, {redlatch.WithWait(time.Minute)}, {redlatch.WithWait(0)}} {
		began := time.Now()
		_, err := l.Lock(background, opts...)
		require.ErrorIs(t, err, redlatch.ErrWrongType)
		require.ErrorContains(t, err, "member 2")
		require.Less(t, time.Since(began), 10*time.Second, "it is not tried again")
		require.Equal(t, []string{"b"}, server.Snapshot(t).Keys())
	}
}

func TestServerThatComesBackIsWaitedFor(t *testing.T) {
	t.Parallel()
	one, two, seen := redistest.Start(t), redistest.Start(t), make(probe.Events, 1000)
	relay := redistest.NewRelay(t, two)
	here, there := probe.Open(t, one.URL()), probe.Observed(t, relay.URL(), seen)
	l := multilock.New(rlock.New(here, "a"), rlock.New(there, "b")).Paced(brisk)
	relay.Down()
	waiter := probe.Start(t, background, l)
	for range 2 {
		seen.Await(t, redlatch.EventNotAcquired, "b")
	}
	relay.Up(t)
	probe.Release(t, waiter.Succeeds())
	nothingLeft(t, one, two)
}

func TestServerThatStaysAwayEndsTheCallWithItsWords(t *testing.T) {
	t.Parallel()
	one, two := redistest.Start(t), redistest.Start(t)
	relay := redistest.NewRelay(t, two)
	l := multilock.New(rlock.New(probe.Open(t, one.URL()), "a"), rlock.New(probe.Open(t, relay.URL()), "b")).Paced(5 * brisk)
	relay.Down()
	for _, opts := range [][]redlatch.AcquireOption{nil, {redlatch.WithWait(time.Minute)}, {redlatch.WithWait(time.Second)}} {
		err := probe.Start(t, background, l, opts...).Fails()
		require.NotErrorIs(t, err, redlatch.ErrNotAcquired, "a broken server is no contention")
		require.ErrorContains(t, err, "member 2")
		require.ErrorContains(t, err, "refused")
		nothingLeft(t, one)
	}
}

// ML-04
func TestMemberWhoseAnswerWasLostIsNotLeftHeld(t *testing.T) {
	t.Parallel()
	one, two := redistest.Start(t), redistest.Start(t)
	relay := redistest.NewRelay(t, two)
	here, there := probe.Open(t, one.URL(), hasty), probe.Open(t, relay.URL(), hasty)
	l := multilock.New(rlock.New(here, "a"), rlock.New(there, "b"))
	probe.Release(t, probe.Take(t, l)) // the servers know all scripts now

	lost := relay.Next(redistest.SendsScript("b"), redistest.LoseReply())
	hold, err := l.TryLock(background)
	lost.AwaitReply(t) // so the server has granted it
	if err == nil {    // and the client has found out
		probe.Release(t, hold)
	}
	nothingStays(t, one, two)

	answer := make(chan struct{})
	held := relay.Next(redistest.SendsScript("b"), redistest.HoldReply(answer))
	_, err = l.TryLock(background)
	require.Error(t, err)
	require.NotErrorIs(t, err, redlatch.ErrNotAcquired)
	held.AwaitReply(t)
	nothingLeft(t, one)
	close(answer)
	nothingStays(t, two)
	probe.Release(t, probe.Take(t, l))
}

// The validity of the whole is what is left of the first member when the last one is held.
func TestAcquisitionWithoutValidityLeftFailsAndIsUndone(t *testing.T) {
	t.Parallel()
	one, two, seen := redistest.Start(t), redistest.Start(t), make(probe.Events, 100)
	relay := redistest.NewRelay(t, two)
	l := multilock.New(rlock.New(probe.Observed(t, one.URL(), seen), "a"), rlock.New(probe.Open(t, relay.URL()), "b"))
	probe.Release(t, probe.Take(t, l))

	late := make(chan struct{})
	relay.Next(redistest.SendsScript("b"), redistest.HoldRequest(late))
	done := make(chan error, 1)
	go func() {
		_, err := l.TryLock(background, redlatch.WithLease(1200*time.Millisecond))
		done <- err
	}()
	seen.Await(t, redlatch.EventLost, "a")
	close(late)
	err := <-done
	require.ErrorIs(t, err, redlatch.ErrNotAcquired)
	require.NotErrorIs(t, err, redlatch.ErrLost, "nobody was told that it is held")
	require.ErrorContains(t, err, "longer")
	require.Zero(t, two.Do(t, "EXISTS", "b").Int())
}

func TestLeaseThatNoAcquisitionCanKeepIsAnErrorInTheEnd(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := probe.Open(t, server.URL())
	l := multilock.New(rlock.New(client, "a"), rlock.New(client, "b"))
	hold, err := l.Lock(background, redlatch.WithLease(time.Millisecond))
	if err == nil { // a fast machine
		probe.Within(t, hold.Lost())
		require.ErrorIs(t, hold.Unlock(background), redlatch.ErrLost)
	} else {
		require.ErrorIs(t, err, redlatch.ErrNotAcquired)
	}
	nothingStays(t, server)
}

// stubborn is a member that is granted only when nobody wants it any more.
type stubborn struct{ redlatch.Locker }

func (s stubborn) Lock(ctx context.Context, opts ...redlatch.AcquireOption) (*redlatch.Hold, error) {
	<-ctx.Done()
	return s.Locker.Lock(context.WithoutCancel(ctx), opts...)
}

func TestMemberThatIsGrantedTooLateIsGivenBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := probe.Open(t, server.URL())
	ctx, cancel := context.WithCancelCause(background)
	waiter := probe.Start(t, ctx, multilock.New(rlock.New(client, "a"), stubborn{rlock.New(client, "b")}))
	probe.Until(t, func() bool { return server.Do(t, "EXISTS", "a").Int() == 1 })
	cancel(errGivenUp)
	require.ErrorIs(t, waiter.Fails(), errGivenUp)
	nothingLeft(t, server)
}
