package lua_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/lua"
)

// request is a typed call without its type, so that calls of every type can stand in one table.
type request struct {
	script *lua.Script
	keys   []string
	args   []string
	run    func(context.Context, lua.Conn) (any, error)
}

func untyped[T any](call lua.Call[T]) request {
	return request{call.Script, call.Keys, call.Args, func(ctx context.Context, conn lua.Conn) (any, error) {
		value, err := lua.Run(ctx, conn, call)
		return value, err
	}}
}

// sent is what stands for each heading in the calls of typedCalls. Of a variadic heading the first one is written so,
// and the others begin so.
var sent = map[string]string{
	"lock": "the-lock", "latch": "the-latch", "channel": "the-channel", "more": "more-keys",
	"queue": "the-queue", "timeouts": "the-timeouts", "token": "the-token", "marker": "the-marker", "name": "the-name",
	"owner": "the-owner", "writer": "the-writer", "from": "one-owner", "to": "other-owner",
	"strict": "1",
	"lease":  "30000", "bar": "60000", "wait": "90000", "count": "7", "last": "41", "publish": "SPUBLISH",
	"stand": "1", "fence": "1", "add": "1", "mode": "read", "message": "0",
	"data": "the-data", "newest": "the-newest", "fencing": "41", "keep": "120000", "write": "SET", "expire": "45000", "part": "the-part",
}

// typedCall is a function of the package that builds a Call, and what it builds from the values in sent.
type typedCall struct {
	function string
	request  request
}

// typedCalls has at least one row for each of those functions.
func typedCalls() []typedCall {
	return slices.Concat(plainCalls(), fairCalls(), fencedCalls(), readWriteCalls(), groupedCalls(), gateCalls())
}

const sentLease, sentBar, sentWait = 30 * time.Second, time.Minute, 90 * time.Second

var sentDeparture = lua.Departure{Owner: sent["owner"], Count: 7, Lease: sentLease, Publish: sent["publish"], Strict: true}

func plainCalls() []typedCall {
	lock, latch, channel, owner, publish := sent["lock"], sent["latch"], sent["channel"], sent["owner"], sent["publish"]
	locks, owners := []string{lock, lock + "2", lock + "3"}, []string{owner, owner + "2", owner + "3"}
	return []typedCall{
		{"Acquire", untyped(lua.Acquire(lock, latch, owner, sentLease, true))},
		{"Reenter", untyped(lua.Reenter(lock, latch, owner, sentLease, 7, true))},
		{"ReleaseTo", untyped(lua.ReleaseTo(lock, channel, latch, sentDeparture))},
		{"Settle", untyped(lua.Settle(lock, latch, owner, sentBar))},
		{"ForceRelease", untyped(lua.ForceRelease(lock, channel, publish, true))},
		{"Renew", untyped(lua.Renew(locks[:1], owners[:1], sentLease, true))},
		{"Renew", untyped(lua.Renew(locks, owners, sentLease, true))},
		{"HandOver", untyped(lua.HandOver(lock, latch, sent["from"], sent["to"], sentLease, true))},
		{"Inspect", untyped(lua.Inspect(lock, sent["more"]))},
		{"Inspect", untyped(lua.Inspect(lock, sent["more"], sent["more"]+"2"))},
		{"Probe", untyped(lua.Probe())},
	}
}

func fairCalls() []typedCall {
	keys := lua.FairKeys{Lock: sent["lock"], Queue: sent["queue"], Timeouts: sent["timeouts"], Channel: sent["channel"]}
	latch, owner, publish := sent["latch"], sent["owner"], sent["publish"]
	return []typedCall{
		{"FairAcquire", untyped(lua.FairAcquire(keys, latch, owner, sentLease, sentWait, true, true))},
		{"FairRelease", untyped(lua.FairRelease(keys, latch, sentDeparture))},
		{"FairLeave", untyped(lua.FairLeave(keys, owner, sentWait, publish))},
		{"FairForceRelease", untyped(lua.FairForceRelease(keys, publish, true))},
	}
}

func fencedCalls() []typedCall {
	lock, token, latch, owner := sent["lock"], sent["token"], sent["latch"], sent["owner"]
	return []typedCall{
		{"FencedAcquire", untyped(lua.FencedAcquire(lock, token, latch, owner, sentLease, true))},
		{"FencedReenter", untyped(lua.FencedReenter(lock, token, latch, owner, sentLease, 7, true, true))},
		{"FencedForget", untyped(lua.FencedForget(lock, token, 41))},
		{"FencedHandOver", untyped(lua.FencedHandOver(lock, token, latch, sent["from"], sent["to"], sentLease, true))},
	}
}

func readWriteCalls() []typedCall {
	lock, latch, channel, publish := sent["lock"], sent["latch"], sent["channel"], sent["publish"]
	owner, writer, marker := sent["owner"], sent["writer"], sent["marker"]
	writing := sentDeparture
	writing.Owner = writer
	// A renewal's owners and markers take turns under one heading.
	locks, owners, markers := []string{lock, lock + "2"}, []string{owner, owner + "2"}, []string{owner + ":a", owner + ":b"}
	return []typedCall{
		{"ReadAcquire", untyped(lua.ReadAcquire(lock, marker, latch, owner, writer, sentLease, true))},
		{"ReadReenter", untyped(lua.ReadReenter(lock, marker, latch, owner, sentLease, 7, true))},
		{"ReadRelease", untyped(lua.ReadRelease(lock, channel, sent["name"], latch, sentDeparture))},
		{"ReadRenew", untyped(lua.ReadRenew(locks, owners, markers, sentLease, true))},
		{"WriteAcquire", untyped(lua.WriteAcquire(lock, latch, writer, sentLease, true))},
		{"WriteReenter", untyped(lua.WriteReenter(lock, latch, writer, sentLease, 7, true))},
		{"WriteRelease", untyped(lua.WriteRelease(lock, channel, latch, writing))},
		{"RWForceRelease", untyped(lua.RWForceRelease(lock, channel, publish, sent["mode"], sent["message"], true))},
	}
}

func gateCalls() []typedCall {
	const keep, expire = 2 * time.Minute, 45 * time.Second
	write := lua.WriteString(sent["part"], expire)
	return []typedCall{{"FenceSet", untyped(lua.FenceSet(sent["data"], sent["newest"], 41, keep, write))}}
}

func TestCallSendsWhatTheHeaderNames(t *testing.T) {
	for _, row := range typedCalls() {
		t.Run(row.function, func(t *testing.T) {
			requireAsNamed(t, row.request.script.Keys, row.request.keys)
			requireAsNamed(t, row.request.script.Args, row.request.args)
		})
	}
}

func requireAsNamed(t *testing.T, params []lua.Param, values []string) {
	t.Helper()
	if len(params) == 0 || !params[len(params)-1].Variadic {
		require.Len(t, values, len(params), "the header names %d: %v", len(params), params)
	}
	require.GreaterOrEqual(t, len(values), len(params), "the header names %d: %v", len(params), params)
	for i, value := range values {
		p := params[min(i, len(params)-1)]
		require.Contains(t, sent, p.Name, "the test does not know what is sent for this heading")
		if i < len(params) {
			require.Equal(t, sent[p.Name], value, "number %d is %s", i+1, p.Name)
		} else {
			require.True(t, strings.HasPrefix(value, sent[p.Name]), "number %d is a further %s: %s", i+1, p.Name, value)
		}
	}
}

// A script that nobody calls is one that reviewers allow in vain; a call without a script is not listed for them.
func TestEveryScriptHasItsCallAndEveryCallItsRow(t *testing.T) {
	var called, listed []string
	for _, row := range typedCalls() {
		called = append(called, row.request.script.Name)
	}
	for _, script := range lua.Catalog() {
		listed = append(listed, script.Name)
	}
	slices.Sort(called)
	require.Equal(t, listed, slices.Compact(called))

	var rows []string
	for _, row := range typedCalls() {
		rows = append(rows, row.function)
	}
	slices.Sort(rows)
	require.Equal(t, callBuilders(t), slices.Compact(rows))
}

// callBuilders are the functions of the package's source whose result is a Call.
func callBuilders(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	var names []string
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), entry.Name(), nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Name.IsExported() && buildsCall(f) {
				names = append(names, f.Name.Name)
			}
		}
	}
	slices.Sort(names)
	return names
}

func buildsCall(f *ast.FuncDecl) bool {
	if f.Type.Results == nil {
		return false
	}
	return slices.ContainsFunc(f.Type.Results.List, func(result *ast.Field) bool {
		generic, ok := result.Type.(*ast.IndexExpr)
		if !ok {
			return false
		}
		name, ok := generic.X.(*ast.Ident)
		return ok && name.Name == "Call"
	})
}

// RL-11: a bar that rounds to nothing would be refused by the server as an invalid expire time.
func TestBarIsAtLeastAMillisecond(t *testing.T) {
	for _, bar := range []time.Duration{-time.Second, 0, time.Microsecond, time.Millisecond} {
		require.Equal(t, "1", lua.Settle("lock", "latch", "owner", bar).Args[1], "bar %v", bar)
	}
}

// A waiter that counts as alive for no time would be dead before it is asked.
func TestWaitIsAtLeastAMillisecond(t *testing.T) {
	for _, wait := range []time.Duration{-time.Second, 0, time.Microsecond, time.Millisecond} {
		require.Equal(t, "1", lua.FairAcquire(lua.FairKeys{}, "latch", "owner", time.Hour, wait, true, true).Args[2], "wait %v", wait)
		require.Equal(t, "1", lua.FairLeave(lua.FairKeys{}, "owner", wait, "PUBLISH").Args[1], "wait %v", wait)
	}
}

// A token that is to be kept, or data that is to last, for less than a millisecond must not be kept or last for ever.
func TestNoTimeAtAllIsForEverAndTheLeastTimeIsNot(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0", time.Microsecond: "1", -time.Second: "1", time.Minute: "60000"} {
		call := lua.FenceSet("data", "newest", 1, d, lua.WriteString("value", d))
		require.Equal(t, []string{"1", want, "SET", want, "value"}, call.Args, "%v", d)
	}
}

// A lease that rounds to nothing would delete the lock in the same breath in which the reply says that it was taken.
func TestLeaseIsAtLeastAMillisecond(t *testing.T) {
	keys, one := lua.FairKeys{Lock: "lock"}, []string{"one"}
	for _, lease := range []time.Duration{-time.Second, 0, time.Microsecond, time.Millisecond} {
		d := lua.Departure{Owner: "owner", Count: 1, Lease: lease}
		for _, r := range []request{
			untyped(lua.Acquire("lock", "latch", "owner", lease, true)),
			untyped(lua.Reenter("lock", "latch", "owner", lease, 2, true)),
			untyped(lua.ReleaseTo("lock", "channel", "latch", d)),
			untyped(lua.Renew(one, one, lease, true)),
			untyped(lua.HandOver("lock", "latch", "from", "to", lease, true)),
			untyped(lua.FairAcquire(keys, "latch", "owner", lease, time.Hour, true, true)),
			untyped(lua.FairRelease(keys, "latch", d)),
			untyped(lua.FencedAcquire("lock", "token", "latch", "owner", lease, true)),
			untyped(lua.FencedReenter("lock", "token", "latch", "owner", lease, 2, true, true)),
			untyped(lua.FencedHandOver("lock", "token", "latch", "from", "to", lease, true)),
			untyped(lua.ReadAcquire("lock", "marker", "latch", "owner", "writer", lease, true)),
			untyped(lua.ReadReenter("lock", "marker", "latch", "owner", lease, 2, true)),
			untyped(lua.ReadRenew(one, one, one, lease, true)),
			untyped(lua.WriteAcquire("lock", "latch", "writer", lease, true)),
			untyped(lua.WriteReenter("lock", "latch", "writer", lease, 2, true)),
			untyped(lua.WriteRelease("lock", "channel", "latch", d)),
		} {
			at := slices.IndexFunc(r.script.Args, func(p lua.Param) bool { return p.Name == "lease" })
			require.Equal(t, "1", r.args[at], "%s with a lease of %v", r.script.Name, lease)
		}
	}
}
