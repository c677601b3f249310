package multilock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/locktest/probe"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/multilock"
	"github.com/redlatch/redlatch/rlock"
	"github.com/redlatch/redlatch/rwlock"
)

// wrapped is a Locker of somebody else's making.
type wrapped struct{ redlatch.Locker }

// list is one that can't be compared.
type list []redlatch.Locker

func (l list) Name() string { return l[0].Name() }

func (l list) Lock(ctx context.Context, opts ...redlatch.AcquireOption) (*redlatch.Hold, error) {
	return l[0].Lock(ctx, opts...)
}

func (l list) TryLock(ctx context.Context, opts ...redlatch.AcquireOption) (*redlatch.Hold, error) {
	return l[0].TryLock(ctx, opts...)
}

// refuses says that each call fails with all the words, and sends nothing.
func refuses(t *testing.T, server *redistest.Server, l *multilock.Lock, words []string, opts ...redlatch.AcquireOption) {
	t.Helper()
	server.ResetStats(t)
	for _, acquire := range []func(context.Context, ...redlatch.AcquireOption) (*redlatch.Hold, error){l.Lock, l.TryLock} {
		hold, err := acquire(background, opts...)
		require.Nil(t, hold)
		var typed *redlatch.Error
		require.ErrorAs(t, err, &typed)
		require.Equal(t, l.Name(), typed.Name)
		for _, word := range words {
			require.ErrorContains(t, err, word)
		}
	}
	require.Empty(t, server.CommandStats(t))
}

func TestWrongMembersAreErrorsOfEachCall(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, other := probe.Open(t, server.URL()), probe.Open(t, server.URL())
	a, b := rlock.New(client, "a"), rlock.New(client, "b")
	var noLock *rlock.Lock
	var noMulti *multilock.Lock
	for _, wrong := range []struct {
		members []redlatch.Locker
		words   []string
	}{
		{nil, []string{"without members"}},
		{[]redlatch.Locker{a, nil, noLock, noMulti, &rlock.Lock{}}, []string{
			"member 2 is nil", "member 3 is nil", "member 4 is nil", "member 5 is nil",
		}},
		{[]redlatch.Locker{a, b, a}, []string{`member 3 ("a") is the same lock as member 1`}},
		{[]redlatch.Locker{a, rlock.New(client, "a", rlock.NonReentrant())}, []string{"same lock as member 1"}},
		{[]redlatch.Locker{multilock.New(a, b), multilock.NewRed(b, rlock.New(client, "c"))}, []string{"member 2", "in common"}},
		{[]redlatch.Locker{a, multilock.New(), multilock.New(b, nil)}, []string{"member 2: a multi-lock without members", "member 3: member 2 is nil"}},
		{[]redlatch.Locker{wrapped{a}, wrapped{a}}, []string{"same lock"}},
	} {
		for _, l := range []*multilock.Lock{multilock.New(wrong.members...), multilock.NewRed(wrong.members...)} {
			refuses(t, server, l, wrong.words)
			_, err := l.IsHeldBy(background, client.NewOwner())
			require.ErrorContains(t, err, wrong.words[0])
		}
	}
	for _, right := range [][]redlatch.Locker{
		{a},
		{a, b},
		{a, wrapped{b}},
		{list{a}, list{b}},
		{rwlock.New(client, "x").Read(), rwlock.New(client, "y").Write(), rwlock.New(other, "x").Read()},
	} {
		probe.Release(t, probe.Take(t, multilock.New(right...)))
		probe.Release(t, probe.Take(t, multilock.NewRed(right...)))
	}
	nothingLeft(t, server)
}

func TestWrongOptionsAreToldAllAtOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := probe.Open(t, server.URL())
	refuses(t, server, multilock.New(rlock.New(client, "a"), nil), []string{"WithLease", "WithWait", "member 2 is nil"},
		redlatch.WithLease(0), redlatch.WithWait(-1))
	refuses(t, server, multilock.New(rlock.New(client, "a")), []string{"WithLease", "WithMaxHold"},
		redlatch.WithLease(time.Second), redlatch.WithMaxHold(time.Second))
	hold := probe.Take(t, multilock.New(rlock.New(client, "a")))
	require.ErrorContains(t, hold.Extend(background, 0), "lease")
	probe.Release(t, hold)
}

func TestMembersAreThoseThatWereGiven(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := probe.Open(t, server.URL())
	members := []redlatch.Locker{rlock.New(client, "a"), rlock.New(client, "b")}
	l := multilock.New(members...)
	members[0] = nil
	probe.Release(t, probe.Take(t, l))
}

func TestMemberThatCannotTellItsHolderIsNamed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := probe.Open(t, server.URL())
	l := multilock.New(rlock.New(client, "a"), wrapped{rlock.New(client, "b")})
	hold := probe.Take(t, l)
	_, err := l.IsHeldBy(background, hold.Owner())
	require.ErrorContains(t, err, "member 2")
	require.ErrorContains(t, err, "IsHeldBy")
	probe.Release(t, hold)
	held, err := l.IsHeldBy(background, hold.Owner())
	require.NoError(t, err, "the first member alone can tell that it is not held")
	require.False(t, held)
}
