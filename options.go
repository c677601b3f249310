package redlatch

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/redlatch/redlatch/internal/engine"
)

// ResolveOptions is for the lock kinds of this module only: its result can't be named elsewhere. It reads the options of one
// acquisition, wait being the limit that holds without WithWait, and decides who acquires: the owner that ctx carries, or else a fresh
// one, which the returned context carries. So a lock made of several acts for one owner in all of them. What is wrong is told in one
// error.
func ResolveOptions(ctx context.Context, wait time.Duration, opts []AcquireOption) (context.Context, engine.Request, error) {
	var nobody *Client // a number will do: in each client it stands for the owner of that client with the same number
	return nobody.resolve(ctx, wait, opts)
}

// resolve is ResolveOptions for an acquisition by an owner of this client.
func (c *Client) resolve(ctx context.Context, wait time.Duration, opts []AcquireOption) (context.Context, engine.Request, error) {
	o := acquireOptions{Request: engine.Request{Wait: wait}}
	for _, opt := range opts {
		opt(&o)
	}
	if o.Lease > 0 && o.MaxHold > 0 {
		o.refuse(errors.New("WithMaxHold bounds the watchdog and WithLease has none; use one of them"))
	}
	owner, err := c.ownerOf(ctx)
	if err != nil {
		o.refuse(err)
	}
	if err := errors.Join(o.errs...); err != nil {
		return nil, engine.Request{}, err
	}
	o.Owner = engine.Owner{Client: owner.client, Thread: owner.thread}
	return context.WithValue(ctx, ownerKey{}, identity{owner: owner, given: true}), o.Request, nil
}

// handled is what the kinds' lock types have from the Handle that they embed.
type handled interface{ handle() *Handle }

func (h *Handle) handle() *Handle { return h }

// lockID is what two handles of one lock have in common.
type lockID struct {
	client    *Client
	kind, key string
}

// IdentityOf is for the lock kinds of this module that are made of other locks. It gives a value that is equal (==) for Lockers which
// are the same lock of the same client, and different for all others; nil when l is no lock at all, such as a nil pointer.
func IdentityOf(l Locker) any {
	v := reflect.ValueOf(l)
	switch {
	case !v.IsValid(), v.Kind() == reflect.Pointer && v.IsNil():
		return nil
	case !v.Comparable():
		return new(byte) // like no other
	}
	made, ok := l.(handled)
	if !ok {
		return l
	}
	h := made.handle()
	if h == nil {
		return nil
	}
	if h.client == nil || h.lock.Key == "" {
		return h // its calls will say what is wrong with it
	}
	return lockID{h.client, engine.Identity(h.lock.Kind), h.lock.Key}
}
