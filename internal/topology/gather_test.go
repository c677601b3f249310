package topology

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// answers says what the nodes of a gather say, and after which time.
type answers map[string]struct {
	after time.Duration
	err   error
}

func (a answers) ask(ctx context.Context, n *Node) (string, error) {
	answer := a[n.address]
	select {
	case <-time.After(answer.after):
		return n.address, answer.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func named(addresses ...string) []*Node {
	var nodes []*Node
	for _, a := range addresses {
		nodes = append(nodes, &Node{address: a})
	}
	return nodes
}

var errDown = errors.New("down")

func TestFrozenServerKeepsNobodyFromTheOthersAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := answers{"frozen": {after: time.Hour}, "first": {after: time.Millisecond}, "second": {after: 100 * time.Millisecond}}
		began := time.Now()
		got, err := gather(t.Context(), named("frozen", "first", "second"), nil, a.ask, always)
		require.NoError(t, err)
		require.Equal(t, []string{"first", "second"}, got)
		require.Equal(t, time.Millisecond+askGrace, time.Since(began))
	})
}

func TestOthersAreAskedAtOnceWhenTheFirstAllFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := answers{"a": {err: errDown}, "b": {err: errDown}, "c": {after: time.Millisecond}}
		began := time.Now()
		got, err := gather(t.Context(), named("a", "b"), named("c"), a.ask, always)
		require.NoError(t, err)
		require.Equal(t, []string{"c"}, got)
		require.Equal(t, time.Millisecond, time.Since(began))
	})
}

func TestOthersAreAskedSoonWhenTheFirstAreSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := answers{"frozen": {after: time.Hour}, "other": {}}
		began := time.Now()
		got, err := gather(t.Context(), named("frozen"), named("other"), a.ask, always)
		require.NoError(t, err)
		require.Equal(t, []string{"other"}, got)
		require.Equal(t, askMore+askGrace, time.Since(began))
	})
}

func TestOthersAreNotAskedWhenTheFirstAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := answers{"a": {}, "other": {}}
		got, err := gather(t.Context(), named("a"), named("other"), a.ask, always)
		require.NoError(t, err)
		require.Equal(t, []string{"a"}, got)
	})
}

func TestEachFailureIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := errors.New("not here")
		_, err := gather(t.Context(), named("a"), named("b"), answers{"a": {err: errDown}, "b": {err: other}}.ask, always)
		require.ErrorIs(t, err, errDown)
		require.ErrorIs(t, err, other)
	})
}

func TestEndOfTheContextEndsTheAsking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := gather(ctx, named("frozen"), nil, answers{"frozen": {after: time.Hour}}.ask, always)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// A replica's answer says nothing about who is the master, however soon it comes.
func TestAnswersThatDecideNothingEndNoWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := answers{"replica": {}, "master": {after: 2 * time.Second}}
		got, err := gather(t.Context(), named("replica", "master"), nil, a.ask, func(s string) bool { return s == "master" })
		require.NoError(t, err)
		require.Equal(t, []string{"replica", "master"}, got)
	})
}
