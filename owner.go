package redlatch

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/redlatch/redlatch/internal/engine"
)

// Owner is who holds a lock: a client, and a number within it that plays the part of Redisson's thread id. Owners are values and
// can be compared with ==. The zero Owner owns nothing.
type Owner struct {
	client string
	thread int64
}

// String is the owner as it stands in Redis: "<client id>:<thread id>" (wire-protocol.md §1).
func (o Owner) String() string { return engine.Owner{Client: o.client, Thread: o.thread}.String() }

// ThreadID is the number within the client.
func (o Owner) ThreadID() int64 { return o.thread }

// ClientID is the id of the client; empty for an owner that WithThreadID made and no client has used yet.
func (o Owner) ClientID() string { return o.client }

// parseOwner reads a field of a lock's hash, that of a writer too; false when it is no owner.
func parseOwner(field string) (Owner, bool) {
	client, number, ok := strings.Cut(strings.TrimSuffix(field, ":write"), ":")
	thread, err := strconv.ParseInt(number, 10, 64)
	return Owner{client, thread}, ok && err == nil
}

type ownerKey struct{}

// identity is what a context says about the owner; the zero identity asks for a fresh one.
type identity struct {
	owner Owner
	given bool
	err   error
}

// WithOwner makes calls that get ctx act for that owner: they enter again what it holds. Make one with Client.NewOwner, or take it
// from a Hold. Used with another client than it came from, it stands for an owner of that client with the same number; no
// other owner there can have it.
func WithOwner(ctx context.Context, o Owner) context.Context {
	id := identity{owner: o, given: true}
	if o == (Owner{}) {
		id.err = errors.New("the context carries an empty Owner; make one with Client.NewOwner")
	}
	return context.WithValue(ctx, ownerKey{}, id)
}

// WithThreadID makes calls that get ctx act for the owner with that number, as Redisson's methods with a threadId parameter do. The
// caller answers for its uniqueness within the client: two tasks with one number enter each other's locks. Numbers from 1<<62 up to
// 1<<62 + 1<<40 are those of fresh owners, and are refused when the lock is taken.
func WithThreadID(ctx context.Context, thread int64) context.Context {
	id := identity{owner: Owner{thread: thread}, given: true, err: engine.CheckThread(thread)}
	return context.WithValue(ctx, ownerKey{}, id)
}

// WithoutOwner makes calls that get ctx act for a fresh owner each, even below a hold's context.
func WithoutOwner(ctx context.Context) context.Context {
	return context.WithValue(ctx, ownerKey{}, identity{})
}

// ownerOf finds the owner that a call on a client acts for.
func (c *Client) ownerOf(ctx context.Context) (Owner, error) {
	id, _ := ctx.Value(ownerKey{}).(identity)
	if !id.given {
		return c.NewOwner(), nil
	}
	return Owner{c.ID(), id.owner.thread}, id.err
}
