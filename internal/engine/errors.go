package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/rueidis"
)

// The conditions that a caller can act on. The root package documents and exports them.
var (
	ErrNotAcquired   = errors.New("lock not acquired")
	ErrNotHeld       = errors.New("lock not held")
	ErrLost          = errors.New("lock lost")
	ErrClosed        = errors.New("client closed")
	ErrNotReplicated = errors.New("lock not replicated")
	ErrReentry       = errors.New("lock can't be entered again")
	ErrWrongType     = errors.New("key is no lock of this kind")
	ErrBadName       = errors.New("bad lock name")
)

// errGone is how the server says that a hold is lost.
var errGone = fmt.Errorf("%w: the server has no such holder any more (expired, deleted, or released by force)", ErrLost)

// describe gives an error of the server or the network the sentinel that callers test for.
func describe(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, rueidis.ErrClosing):
		return ErrClosed
	case serverSays(err, "WRONGTYPE"):
		return fmt.Errorf("%w: the key exists and holds something else, see TYPE: %w", ErrWrongType, err)
	case serverSays(err, "CROSSSLOT"):
		return fmt.Errorf("%w: its keys lie in different slots of the cluster: %w", ErrBadName, err)
	case serverSays(err, "NOPERM"):
		return fmt.Errorf("the server's ACL refuses it; grant the lock's key, the keys redisson_* and the channels &redisson_*: %w", err)
	default:
		return err
	}
}

// serverSays tells whether the server's reply contains a code. Servers before 7.0 put the code of a command inside a script
// into the middle of the message.
func serverSays(err error, codes ...string) bool {
	reply, ok := rueidis.IsRedisErr(err)
	if !ok {
		return false
	}
	for _, code := range codes {
		if strings.Contains(reply.Error(), code) {
			return true
		}
	}
	return false
}

// ranNothing tells whether a failed request surely had no effect on the server. Everything else is in doubt and must be
// settled: an answer that did not come says nothing, and a script that fails half-way has done its first half.
func ranNothing(err error) bool {
	if notConnected(err) {
		return true
	}
	return serverSays(err, "LOADING", "BUSY", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK",
		"NOREPLICAS", "OOM", "NOAUTH", "WRONGTYPE", "CROSSSLOT", "MISCONF")
}

// notConnected: no connection could be made, so that nothing was sent.
func notConnected(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// passing tells whether a failure may be over at the next try: the server is starting, busy or failing over, or the
// network broke. A refusal (wrong type, no permission, wrong password) stays and is reported at once.
func passing(err error) bool {
	if errors.Is(err, rueidis.ErrClosing) || errors.Is(err, ErrClosed) {
		return false
	}
	if _, ok := rueidis.IsRedisErr(err); ok {
		return serverSays(err, "LOADING", "BUSY", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK", "NOREPLICAS")
	}
	return true
}

// stale tells whether a connection broke that had worked: the next try makes a new one and needs no pause.
func stale(err error) bool {
	_, reply := rueidis.IsRedisErr(err)
	return !reply && !notConnected(err) && !errors.Is(err, context.DeadlineExceeded) && !isTimeout(err)
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// ended gives the end of a context as an error that both names it and carries its cause.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || errors.Is(cause, err) {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}
