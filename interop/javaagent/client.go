package javaagent

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Client is a RedissonClient in the JVM. It is safe for concurrent use.
type Client struct {
	agent *Agent
	name  string
	id    string
}

// OpenOption is an optional setting of Open.
type OpenOption func(*request)

// NamePrefix gives the client a name mapper that puts prefix before every name.
func NamePrefix(prefix string) OpenOption { return func(r *request) { r.Prefix = prefix } }

// Open makes a RedissonClient from the text of a redisson.yaml, under a name that no other open client of the agent
// has, and returns when it is connected. The error is a *JavaError when Redisson refuses the text or cannot connect.
func (a *Agent) Open(ctx context.Context, name, yaml string, opts ...OpenOption) (*Client, error) {
	req := &request{Op: "open", Client: name, YAML: yaml}
	for _, opt := range opts {
		opt(req)
	}
	result, err := a.call(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("javaagent: open the Redisson client %q: %w", name, err)
	}
	var opened struct {
		ClientID string `json:"clientId"`
	}
	if err := result.decode(&opened); err != nil {
		return nil, err
	}
	return &Client{agent: a, name: name, id: opened.ClientID}, nil
}

// ID is the client's id: the UUID before the colon in the owner fields of what it locks (wire-protocol.md §1).
func (c *Client) ID() string { return c.id }

// Name is the name that the client was opened under.
func (c *Client) Name() string { return c.name }

// Agent is the JVM that the client is in.
func (c *Client) Agent() *Agent { return c.agent }

// Close shuts the RedissonClient down. Locks that it holds are renewed no more and stay in Redis until they expire; what
// waits for a lock ends with an error of the JVM's choosing, or stays pending until the agent's end.
func (c *Client) Close(ctx context.Context) error {
	_, err := c.agent.call(ctx, &request{Op: "close", Client: c.name})
	return err
}

// Thread is the JVM's thread of that name, acting for this client. The thread is made at its first use and is the same
// one for all clients of the agent.
func (c *Client) Thread(name string) *Thread { return &Thread{client: c, name: name} }

// Thread is a client and a Java thread: an owner of locks. It is safe for concurrent use; its operations run in the order
// in which they were given.
//
// Every method that takes a ctx returns when the JVM has ended the operation or when ctx is done; in the latter case
// the operation goes on in the JVM. What the JVM threw is a *JavaError.
type Thread struct {
	client *Client
	name   string
}

// ID is the Java thread's id, the number after the colon in owner fields. It is answered at once, also while the
// thread is blocked.
func (t *Thread) ID(ctx context.Context) (int64, error) {
	result, err := t.client.agent.call(ctx, &request{Op: "thread", Thread: t.name})
	if err != nil {
		return 0, err
	}
	var id int64
	return id, result.decode(&id)
}

// Owner is the owner field of what this thread locks: "<client id>:<thread id>".
func (t *Thread) Owner(ctx context.Context) (string, error) {
	id, err := t.ID(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s:%d", t.client.id, id), nil
}

// Asleep says whether the thread sleeps as the waiter of a lock: it has subscribed, has tried again, and now waits for a message, the end
// of a TTL, or that of its wait. It is answered at once. A spin lock's waiter is never asleep.
func (t *Thread) Asleep(ctx context.Context) (bool, error) {
	result, err := t.client.agent.call(ctx, &request{Op: "asleep", Thread: t.name})
	return result.Bool(), err
}

// Interrupt interrupts what the thread is at; false, and nothing done, when it is idle.
func (t *Thread) Interrupt(ctx context.Context) (bool, error) {
	result, err := t.client.agent.call(ctx, &request{Op: "interrupt", Thread: t.name})
	return result.Bool(), err
}

// Go gives the thread an operation and does not wait for it.
func (t *Thread) Go(op Op) *Pending {
	return t.client.agent.send(&request{
		Op: op.Name, Client: t.client.name, Thread: t.name, Lock: &op.Lock,
		WaitMs: milliseconds(op.Wait), LeaseMs: milliseconds(op.Lease), ThreadID: op.ThreadID, Fresh: op.Fresh,
	}, nil)
}

// Do gives the thread an operation and waits for its end.
func (t *Thread) Do(ctx context.Context, op Op) (Result, error) { return t.Go(op).Wait(ctx) }

// run is Do for operations without a value.
func (t *Thread) run(ctx context.Context, name string, lock Lock, args []Arg) error {
	_, err := t.Do(ctx, NewOp(name, lock, args...))
	return err
}

// ask is Do for operations with a boolean value.
func (t *Thread) ask(ctx context.Context, name string, lock Lock, args []Arg) (bool, error) {
	result, err := t.Do(ctx, NewOp(name, lock, args...))
	return result.Bool(), err
}

// number is Do for operations whose value is a number or null.
func (t *Thread) number(ctx context.Context, name string, lock Lock, args []Arg) (n int64, there bool, err error) {
	result, err := t.Do(ctx, NewOp(name, lock, args...))
	if err != nil || result.IsNull() {
		return 0, false, err
	}
	err = result.decode(&n)
	return n, err == nil, err
}

// Lock is lock(), or with Lease lock(lease). An interrupt does not end it.
func (t *Thread) Lock(ctx context.Context, lock Lock, args ...Arg) error {
	return t.run(ctx, OpLock, lock, args)
}

// LockInterruptibly is lockInterruptibly(), or with Lease lockInterruptibly(lease).
func (t *Thread) LockInterruptibly(ctx context.Context, lock Lock, args ...Arg) error {
	return t.run(ctx, OpLockInterruptibly, lock, args)
}

// TryLock is tryLock(), with Wait tryLock(wait), with Lease tryLock(wait or 0, lease).
func (t *Thread) TryLock(ctx context.Context, lock Lock, args ...Arg) (bool, error) {
	return t.ask(ctx, OpTryLock, lock, args)
}

// Unlock is unlock(); CodeIllegalMonitorState when the thread does not hold the lock.
func (t *Thread) Unlock(ctx context.Context, lock Lock, args ...Arg) error {
	return t.run(ctx, OpUnlock, lock, args)
}

// ForceUnlock is forceUnlock(): whether there was a lock to free.
func (t *Thread) ForceUnlock(ctx context.Context, lock Lock) (bool, error) {
	return t.ask(ctx, OpForceUnlock, lock, nil)
}

// IsLocked is isLocked(): whether anybody holds it.
func (t *Thread) IsLocked(ctx context.Context, lock Lock) (bool, error) {
	return t.ask(ctx, OpIsLocked, lock, nil)
}

// IsHeldByCurrentThread is isHeldByCurrentThread(), for this thread.
func (t *Thread) IsHeldByCurrentThread(ctx context.Context, lock Lock) (bool, error) {
	return t.ask(ctx, OpIsHeldByCurrentThread, lock, nil)
}

// IsHeldByThread is isHeldByThread(threadID).
func (t *Thread) IsHeldByThread(ctx context.Context, lock Lock, threadID int64) (bool, error) {
	return t.ask(ctx, OpIsHeldByThread, lock, []Arg{ThreadID(threadID)})
}

// HoldCount is getHoldCount(): how often this thread holds the lock.
func (t *Thread) HoldCount(ctx context.Context, lock Lock) (int, error) {
	n, _, err := t.number(ctx, OpGetHoldCount, lock, nil)
	return int(n), err
}

// RemainTimeToLive is remainTimeToLive(): milliseconds, -1 for a key without a TTL, -2 for no key.
func (t *Thread) RemainTimeToLive(ctx context.Context, lock Lock) (int64, error) {
	n, _, err := t.number(ctx, OpRemainTimeToLive, lock, nil)
	return n, err
}

// LockAsync is lockAsync(threadID), or with Lease lockAsync(lease, threadID); the thread blocks until it is done.
func (t *Thread) LockAsync(ctx context.Context, lock Lock, threadID int64, args ...Arg) error {
	return t.run(ctx, OpLockAsync, lock, slices.Concat(args, []Arg{ThreadID(threadID)}))
}

// TryLockAsync is tryLockAsync(threadID), or with Wait or Lease tryLockAsync(wait or 0, lease or -1, threadID).
func (t *Thread) TryLockAsync(ctx context.Context, lock Lock, threadID int64, args ...Arg) (bool, error) {
	return t.ask(ctx, OpTryLockAsync, lock, slices.Concat(args, []Arg{ThreadID(threadID)}))
}

// UnlockAsync is unlockAsync(threadID).
func (t *Thread) UnlockAsync(ctx context.Context, lock Lock, threadID int64, args ...Arg) error {
	return t.run(ctx, OpUnlockAsync, lock, slices.Concat(args, []Arg{ThreadID(threadID)}))
}

// LockAndGetToken is a fenced lock's lockAndGetToken(), or with Lease lockAndGetToken(lease).
func (t *Thread) LockAndGetToken(ctx context.Context, lock Lock, args ...Arg) (int64, error) {
	token, _, err := t.number(ctx, OpLockAndGetToken, lock, args)
	return token, err
}

// TryLockAndGetToken is a fenced lock's tryLockAndGetToken; taken is false when it returned null. Without Wait and Lease
// Redisson does not try once, as its name says, but waits without limit.
func (t *Thread) TryLockAndGetToken(ctx context.Context, lock Lock, args ...Arg) (token int64, taken bool, err error) {
	return t.number(ctx, OpTryLockAndGetToken, lock, args)
}

// Token is a fenced lock's getToken(): the last token, 0 when none was ever given.
func (t *Thread) Token(ctx context.Context, lock Lock) (int64, error) {
	token, _, err := t.number(ctx, OpGetToken, lock, nil)
	return token, err
}

// Delete is delete(): whether there was something to delete. It is not a release: a fenced lock's tokens go as well.
func (t *Thread) Delete(ctx context.Context, lock Lock) (bool, error) {
	return t.ask(ctx, OpDelete, lock, nil)
}

// Expire is expire(ttl): whether there was a key to set it on.
func (t *Thread) Expire(ctx context.Context, lock Lock, ttl time.Duration) (bool, error) {
	return t.ask(ctx, OpExpire, lock, []Arg{Lease(ttl)})
}
