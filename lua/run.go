package lua

import (
	"context"

	"github.com/redis/rueidis"
)

// Call is one request to the server: a script, what it is sent, and how its reply is read.
type Call[T any] struct {
	Script *Script
	Keys   []string
	Args   []string
	decode func(rueidis.RedisMessage) (T, error)
}

// Result is the outcome of one Call.
type Result[T any] struct {
	Value T
	Err   error
}

// Conn is where calls go: a rueidis client, one node of it, or a connection kept for oneself.
type Conn interface {
	B() rueidis.Builder
	Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult
	DoMulti(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult
}

// Run sends the call by its SHA-1 and, where the server does not know the script (a restart, a failover, SCRIPT FLUSH),
// in full. A server that answers NOSCRIPT has run nothing, so that the call takes effect once at most.
//
// ctx governs the wait for the reply only: a call whose ctx ends may still take effect.
func Run[T any](ctx context.Context, conn Conn, call Call[T]) (T, error) {
	result := conn.Do(ctx, call.BySHA1(conn.B()))
	if IsNoScript(result.Error()) {
		result = conn.Do(ctx, call.InFull(conn.B()))
	}
	return call.Read(result)
}

// RunAsking is Run on the node that a slot is just moving to, which serves such a request only right after ASKING, on the same
// connection.
func RunAsking[T any](ctx context.Context, conn Conn, call Call[T]) (T, error) {
	result := conn.DoMulti(ctx, conn.B().Asking().Build(), call.BySHA1(conn.B()))[1]
	if IsNoScript(result.Error()) {
		result = conn.DoMulti(ctx, conn.B().Asking().Build(), call.InFull(conn.B()))[1]
	}
	return call.Read(result)
}

// RunAll sends the calls in one pipeline, and those which the server did not know in a second one. Results stand in the
// order of the calls; each has its own error.
func RunAll[T any](ctx context.Context, conn Conn, calls []Call[T]) []Result[T] {
	if len(calls) == 0 {
		return nil
	}
	commands := make([]rueidis.Completed, len(calls))
	for i, call := range calls {
		commands[i] = call.BySHA1(conn.B())
	}
	replies := conn.DoMulti(ctx, commands...)

	var unknown []int
	var inFull []rueidis.Completed
	for i, reply := range replies {
		if IsNoScript(reply.Error()) {
			unknown = append(unknown, i)
			inFull = append(inFull, calls[i].InFull(conn.B()))
		}
	}
	if len(unknown) > 0 {
		for i, reply := range conn.DoMulti(ctx, inFull...) {
			replies[unknown[i]] = reply
		}
	}

	results := make([]Result[T], len(calls))
	for i, call := range calls {
		results[i].Value, results[i].Err = call.Read(replies[i])
	}
	return results
}

// BySHA1 is the command that runs a script which the server knows.
func (c Call[T]) BySHA1(b rueidis.Builder) rueidis.Completed {
	return b.Evalsha().Sha1(c.Script.SHA1).Numkeys(int64(len(c.Keys))).Key(c.Keys...).Arg(c.Args...).Build()
}

// InFull is the command that brings the script along.
func (c Call[T]) InFull(b rueidis.Builder) rueidis.Completed {
	return b.Eval().Script(c.Script.Source).Numkeys(int64(len(c.Keys))).Key(c.Keys...).Arg(c.Args...).Build()
}

// Read reads the reply to either.
func (c Call[T]) Read(result rueidis.RedisResult) (T, error) {
	message, err := result.ToMessage()
	if err != nil && !rueidis.IsRedisNil(err) {
		var none T
		return none, err
	}
	return c.decode(message)
}

// IsNoScript tells whether a server did not know a script, and so has run nothing.
func IsNoScript(err error) bool {
	reply, ok := rueidis.IsRedisErr(err)
	return ok && reply.IsNoScript()
}
