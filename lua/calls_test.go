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
	"lock": "the-lock", "latch": "the-latch", "channel": "the-channel",
	"owner": "the-owner", "from": "one-owner", "to": "other-owner",
	"lease": "30000", "bar": "60000", "count": "7", "publish": "SPUBLISH",
}

// typedCalls has at least one row for each function of the package that builds a Call.
func typedCalls() []struct {
	function string
	request  request
} {
	const lease, bar = 30 * time.Second, time.Minute
	lock, latch, channel, owner, publish := sent["lock"], sent["latch"], sent["channel"], sent["owner"], sent["publish"]
	departure := lua.Departure{Owner: owner, Count: 7, Lease: lease, Publish: publish}
	return []struct {
		function string
		request  request
	}{
		{"Acquire", untyped(lua.Acquire(lock, latch, owner, lease))},
		{"Reenter", untyped(lua.Reenter(lock, latch, owner, lease, 7))},
		{"ReleaseTo", untyped(lua.ReleaseTo(lock, channel, latch, departure))},
		{"Settle", untyped(lua.Settle(lock, latch, owner, bar))},
		{"ForceRelease", untyped(lua.ForceRelease(lock, channel, publish))},
		{"Renew", untyped(lua.Renew([]string{lock}, []string{owner}, lease))},
		{"Renew", untyped(lua.Renew([]string{lock, lock + "2", lock + "3"}, []string{owner, owner + "2", owner + "3"}, lease))},
		{"HandOver", untyped(lua.HandOver(lock, latch, sent["from"], sent["to"], lease))},
		{"Inspect", untyped(lua.Inspect(lock))},
		{"Probe", untyped(lua.Probe())},
	}
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

// A lease that rounds to nothing would delete the lock in the same breath in which the reply says that it was taken.
func TestLeaseIsAtLeastAMillisecond(t *testing.T) {
	for _, lease := range []time.Duration{-time.Second, 0, time.Microsecond, time.Millisecond} {
		for _, r := range []request{
			untyped(lua.Acquire("lock", "latch", "owner", lease)),
			untyped(lua.Reenter("lock", "latch", "owner", lease, 2)),
			untyped(lua.ReleaseTo("lock", "channel", "latch", lua.Departure{Owner: "owner", Count: 1, Lease: lease})),
			untyped(lua.Renew([]string{"lock"}, []string{"owner"}, lease)),
			untyped(lua.HandOver("lock", "latch", "from", "to", lease)),
		} {
			at := slices.IndexFunc(r.script.Args, func(p lua.Param) bool { return p.Name == "lease" })
			require.Equal(t, "1", r.args[at], "%s with a lease of %v", r.script.Name, lease)
		}
	}
}
