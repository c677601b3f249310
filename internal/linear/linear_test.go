package linear_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/linear"
)

// moment is a call with its answer, from one tick to another.
type moment struct {
	began, ended int
	call         linear.Call
	answer       linear.Answer
}

// after are moments one after the other.
func after(list ...moment) []moment {
	for i := range list {
		list[i].began, list[i].ended = 10*i, 10*i+5
	}
	return list
}

// during gives a moment its time.
func during(began, ended int, m moment) moment {
	m.began, m.ended = began, ended
	return m
}

// call is a call to a side of the lock, answered with yes or no.
func call(act linear.Act, side linear.Side, owner int, ok bool) moment {
	return moment{call: linear.Call{Act: act, Side: side, Owner: owner}, answer: linear.Answer{OK: ok}}
}

func take(owner int, ok bool) moment { return call(linear.Acquire, linear.Whole, owner, ok) }
func free(owner int, ok bool) moment { return call(linear.Release, linear.Whole, owner, ok) }
func force(ok bool) moment           { return call(linear.Force, linear.Whole, 9, ok) }
func held(ok bool) moment            { return call(linear.Locked, linear.Whole, 9, ok) }

func wait(m moment) moment {
	m.call.Wait = time.Second
	return m
}

func numbered(m moment, token int64) moment {
	m.answer.Token = token
	return m
}

func last(token int64) moment { return numbered(call(linear.Token, linear.Whole, 9, false), token) }

func reads(owner int, ok bool) moment  { return call(linear.Acquire, linear.Read, owner, ok) }
func unread(owner int, ok bool) moment { return call(linear.Release, linear.Read, owner, ok) }
func writes(owner int, ok bool) moment { return call(linear.Acquire, linear.Write, owner, ok) }
func unwrite(owner int, ok bool) moment {
	return call(linear.Release, linear.Write, owner, ok)
}

func check(t *testing.T, m linear.Model, moments []moment) error {
	t.Helper()
	var h linear.History
	at := func(tick int) time.Time {
		return time.Unix(1_700_000_000, 0).Add(time.Duration(tick) * time.Millisecond)
	}
	for _, m := range moments {
		h.Add(m.call, m.answer, at(m.began), at(m.ended))
	}
	require.Equal(t, len(moments), h.Len())
	return h.Check(m, time.Minute)
}

func TestHistoriesThatALockCanProduceAreAccepted(t *testing.T) {
	for name, c := range map[string]struct {
		model   linear.Model
		moments []moment
	}{
		"nothing":        {linear.Plain, nil},
		"one at a time":  {linear.Plain, after(take(1, true), take(2, false), free(1, true), take(2, true), free(2, true))},
		"re-entry":       {linear.Plain, after(take(1, true), take(1, true), free(1, true), take(2, false), free(1, true), take(2, true))},
		"not held":       {linear.Plain, after(free(1, false), take(1, true), free(2, false), free(1, true), free(1, false))},
		"by force":       {linear.Plain, after(force(false), take(1, true), force(true), take(2, true), free(1, false), free(2, true))},
		"questions":      {linear.Plain, after(held(false), take(1, true), held(true), free(1, true), held(false))},
		"a wait is over": {linear.Plain, after(wait(take(1, false)), take(1, true))},
		"the answer to a release comes after the next acquisition": {linear.Plain, []moment{
			during(0, 5, take(1, true)), during(10, 30, free(1, true)), during(12, 20, take(2, true)),
		}},
		"a refused attempt began before the lock was free": {linear.Plain, []moment{
			during(0, 5, take(1, true)), during(8, 40, take(2, false)), during(10, 20, free(1, true)),
		}},
		"tokens grow": {linear.Fenced, after(last(0), numbered(take(1, true), 1), numbered(take(1, true), 2), take(2, false), last(2),
			free(1, true), free(1, true), numbered(take(2, true), 7), last(7))},
		"a token is left out, and read": {linear.Fenced, after(numbered(take(1, true), 1), last(2), last(2), free(1, true),
			numbered(take(2, true), 3))},
		"readers together": {linear.ReadWrite, after(reads(1, true), reads(2, true), writes(3, false), unread(1, true), writes(3, false),
			unread(2, true), writes(3, true), reads(1, false), unwrite(3, true))},
		"downgrade": {linear.ReadWrite, after(writes(1, true), reads(1, true), reads(2, false), unwrite(1, true), reads(2, true),
			writes(1, false), unread(1, true), unread(2, true), writes(2, true))},
		"a writer reads and writes on": {linear.ReadWrite, after(writes(1, true), reads(1, true), unread(1, true), writes(1, true),
			unwrite(1, true), reads(2, false), unwrite(1, true), reads(2, true))},
		"one side by force": {linear.ReadWrite, after(reads(1, true), call(linear.Force, linear.Write, 9, false),
			call(linear.Force, linear.Read, 9, true), writes(2, true), reads(2, true), call(linear.Force, linear.Read, 9, false),
			call(linear.Force, linear.Write, 9, true), unread(2, false), reads(1, true))},
		"questions about a side": {linear.ReadWrite, after(writes(1, true), call(linear.Locked, linear.Read, 9, false),
			reads(1, true), call(linear.Locked, linear.Read, 9, true), call(linear.Locked, linear.Write, 9, true),
			unwrite(1, true), call(linear.Locked, linear.Write, 9, false))},
	} {
		t.Run(name, func(t *testing.T) { require.NoError(t, check(t, c.model, c.moments)) })
	}
}

func TestHistoriesThatNoLockCanProduceAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		model   linear.Model
		moments []moment
	}{
		"two holders":                            {linear.Plain, after(take(1, true), take(2, true))},
		"released once of two":                   {linear.Plain, after(take(1, true), take(1, true), free(1, true), take(2, true))},
		"refused though free":                    {linear.Plain, after(take(1, true), free(1, true), take(2, false))},
		"refused its own lock":                   {linear.Plain, after(take(1, true), take(1, false))},
		"a stranger released":                    {linear.Plain, after(take(1, true), free(2, true))},
		"released twice":                         {linear.Plain, after(take(1, true), free(1, true), free(1, true))},
		"not held though held":                   {linear.Plain, after(take(1, true), free(1, false))},
		"held by nobody":                         {linear.Plain, after(held(true))},
		"freed nothing by force":                 {linear.Plain, after(force(true))},
		"held on after force":                    {linear.Plain, after(take(1, true), force(true), free(1, true))},
		"a token twice":                          {linear.Fenced, after(numbered(take(1, true), 3), free(1, true), numbered(take(2, true), 3))},
		"a re-entry with the old token":          {linear.Fenced, after(numbered(take(1, true), 3), numbered(take(1, true), 3))},
		"a token that was read before":           {linear.Fenced, after(last(4), numbered(take(1, true), 4))},
		"a token read that was outgrown":         {linear.Fenced, after(numbered(take(1, true), 3), last(2))},
		"a fenced lock held twice":               {linear.Fenced, after(numbered(take(1, true), 3), numbered(take(2, true), 4))},
		"a reader beside a writer":               {linear.ReadWrite, after(writes(1, true), reads(2, true))},
		"a writer beside a reader":               {linear.ReadWrite, after(reads(1, true), writes(2, true))},
		"two writers":                            {linear.ReadWrite, after(writes(1, true), writes(2, true))},
		"an upgrade":                             {linear.ReadWrite, after(reads(1, true), writes(1, true))},
		"a downgrade that lets a writer in":      {linear.ReadWrite, after(writes(1, true), reads(1, true), unwrite(1, true), writes(2, true))},
		"a reader refused by readers":            {linear.ReadWrite, after(reads(1, true), reads(2, false))},
		"a plain call to a read/write lock":      {linear.ReadWrite, after(take(1, true))},
		"a token of a lock that is not fenced":   {linear.Plain, after(last(0))},
		"a token of a lock with sides":           {linear.ReadWrite, after(call(linear.Token, linear.Read, 1, false))},
		"a reader that left twice":               {linear.ReadWrite, after(reads(1, true), unread(1, true), unread(1, true))},
		"read holds that outlive their writer's": {linear.ReadWrite, after(writes(1, true), reads(1, true), call(linear.Force, linear.Write, 9, true), unread(1, true))},
		"overlapping holds though the calls overlap too": {linear.Plain, []moment{
			during(0, 20, take(1, true)), during(0, 20, take(2, true)), during(30, 40, free(1, true)),
		}},
	} {
		t.Run(name, func(t *testing.T) { require.ErrorIs(t, check(t, c.model, c.moments), linear.ErrImpossible) })
	}
}

func TestDeadEndIsShown(t *testing.T) {
	err := check(t, linear.Plain, after(take(1, true), wait(take(3, false)), take(2, true), free(1, true)))
	require.ErrorIs(t, err, linear.ErrImpossible)
	require.EqualError(t, err, `no order of the calls explains their answers:
1 of 3 calls can be put in order, the last of them
      0.000 …     5.001 ms  owner 1: acquire: true
then: owner 1 holds it, 1 deep; none of these can come next
     20.000 …    25.001 ms  owner 2: acquire: true
`)
}

func TestUnusableHistoriesAreNotJudged(t *testing.T) {
	require.ErrorIs(t, check(t, linear.Plain, []moment{during(10, 5, take(1, true))}), linear.ErrUnusable)
	require.ErrorIs(t, check(t, linear.Plain, after(take(linear.MaxOwners, true))), linear.ErrUnusable)
	require.ErrorIs(t, check(t, linear.Plain, after(take(-1, true))), linear.ErrUnusable)
}

// A history of a lock that works, with calls that overlap, is judged in no time, and each answer turned round in it is found.
func TestLongHistoriesAreJudged(t *testing.T) {
	const owners, calls = 12, 600
	rng := rand.New(rand.NewPCG(1, 2))
	var moments []moment
	holder, depth := 0, 0
	for i := range calls {
		// Each takes effect at the tick 10i, and is under way for up to six calls before and after.
		owner := i % owners
		m := take(owner, depth == 0 || holder == owner)
		if depth > 0 && holder == owner && rng.IntN(2) == 0 {
			m = free(owner, true)
			depth--
		} else if m.answer.OK {
			holder, depth = owner, depth+1
		}
		moments = append(moments, during(10*i-rng.IntN(59), 10*i+rng.IntN(59), m))
	}
	began := time.Now()
	require.NoError(t, check(t, linear.Plain, moments))
	require.Less(t, time.Since(began), 20*time.Second)

	i := len(moments) / 2
	for moments[i].call.Act != linear.Release {
		i++
	}
	moments[i].answer.OK = false
	require.ErrorIs(t, check(t, linear.Plain, moments), linear.ErrImpossible)
}
