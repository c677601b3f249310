package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/topology"
	"github.com/redlatch/redlatch/lua"
	"github.com/redlatch/redlatch/pubsub"
)

// The conditions that a caller can act on. The root package documents and exports them.
var (
	ErrNotAcquired   = errors.New("lock not acquired")
	ErrNotHeld       = errors.New("lock not held")
	ErrLost          = errors.New("lock lost")
	ErrClosed        = errors.New("client closed")
	ErrNotReplicated = topology.ErrNotReplicated
	ErrReentry       = errors.New("lock can't be entered again")
	ErrWrongType     = errors.New("key is no lock of this kind")
	ErrBadName       = config.ErrName
)

// requestError is what the server or the network said to one request. Only such an error can be over at the next try.
type requestError struct{ err error }

func (e *requestError) Error() string { return e.err.Error() }
func (e *requestError) Unwrap() error { return e.err }

// describe gives an error of a request the sentinel that callers test for, and says what to do.
func describe(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, rueidis.ErrClosing), errors.Is(err, pubsub.ErrClosed):
		return ErrClosed
	case serverSays(err, "WRONGTYPE") && strings.Contains(err.Error(), lua.OtherKind):
		return fmt.Errorf("%w: %w; "+otherKind, ErrWrongType, err)
	case serverSays(err, "WRONGTYPE"):
		return fmt.Errorf("%w: the key exists and holds something else, see TYPE: %w", ErrWrongType, err)
	case serverSays(err, lua.GroupReentry):
		return fmt.Errorf("%w: %w", ErrReentry, err) // the lock says of what
	case serverSays(err, "CROSSSLOT"):
		return fmt.Errorf("%w: its keys lie in different slots of the cluster: %w", ErrBadName, err)
	case forbidden(err):
		return fmt.Errorf("the server's ACL refuses it; grant the lock's key, the keys redisson_* and the channels &redisson_*: %w", err)
	default:
		return err
	}
}

// otherKind is what to do about a name that a lock of another kind has.
const otherKind = "a name is one kind's: wait until it is released for good, or use another name"

// serverSays tells whether one of the codes stands in the server's reply: at its begin, or, in the reply of a script, where a
// command's reply begins within it. Servers before 7.0 put that into the middle of the message.
func serverSays(err error, codes ...string) bool {
	var reply *rueidis.RedisError
	if !errors.As(err, &reply) {
		return false
	}
	text := " " + strings.NewReplacer(": ", " ", ":-", " ", " -", " ").Replace(reply.Error()) + " "
	for _, code := range codes {
		if strings.Contains(text, " "+code+" ") {
			return true
		}
	}
	return false
}

// forbidden tells of an ACL's refusal, which carries its code only outside of scripts.
func forbidden(err error) bool {
	return serverSays(err, "NOPERM") || isReply(err) && strings.Contains(err.Error(), "no permissions")
}

func isReply(err error) bool {
	var reply *rueidis.RedisError
	return errors.As(err, &reply)
}

// notNow are replies of a server that ran nothing and may run it later: it starts, is busy, fails over, or was the wrong one.
var notNow = []string{
	"LOADING", "BUSY", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK", "NOREPLICAS", "MISCONF",
}

// ranNothing tells whether a failed request surely had no effect on the server. Everything else is in doubt and must be
// settled: an answer that did not come says nothing, and a script that fails half-way has done its first half.
func ranNothing(err error) bool {
	return notConnected(err) || serverSays(err, notNow...) || serverSays(err, "OOM", "NOAUTH", "WRONGTYPE", "CROSSSLOT", lua.GroupReentry)
}

// notConnected: no connection could be made, or nobody is known to connect to, so that nothing was sent.
func notConnected(err error) bool {
	var op *net.OpError
	var failed *topology.NotSentError
	return errors.As(err, &op) && op.Op == "dial" || errors.As(err, &failed) || errors.Is(err, topology.ErrNoMaster)
}

// passing tells whether a failure may be over at the next try. A refusal (wrong type, no permission, wrong password) stays and is
// reported at once.
func passing(err error) bool {
	var request *requestError
	if !errors.As(err, &request) || errors.Is(err, rueidis.ErrClosing) {
		return false
	}
	return !isReply(err) || serverSays(err, notNow...)
}

// stale tells whether a connection broke that had worked: the next try makes a new one and needs no pause.
func stale(err error) bool {
	return passing(err) && !isReply(err) && !notConnected(err) && !isTimeout(err)
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// EndOf gives the end of a context as an error that both names it and carries its cause.
func EndOf(ctx context.Context) error { return topology.EndOf(ctx) }
