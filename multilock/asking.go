package multilock

import (
	"context"
	"sync"
	"sync/atomic"
)

// asking is the context in which one member is taken. While that goes on it ends with the caller's context, or when the member is not wanted any
// more. Once the member is held it ends with nothing: the hold's context, which descends from it, then ends by the member's own
// loss or release alone, and so tells of it also when the caller's has ended long before.
type asking struct {
	context.Context // the caller's values, and an end of its own
	cancel          context.CancelCauseFunc
	caller          context.Context

	settled atomic.Bool // it is decided whether the member is held or given up

	// The caller's end is watched from when somebody asks for it, which is when it is waited for. stop ends the watching; it belongs to who
	// passes watch.
	watch sync.Once
	stop  func() bool
}

func newAsking(caller context.Context) *asking {
	k := &asking{caller: caller}
	k.Context, k.cancel = context.WithCancelCause(context.WithoutCancel(caller))
	return k
}

// Done is closed when the member is not wanted any more.
func (k *asking) Done() <-chan struct{} {
	k.watch.Do(func() {
		k.stop = context.AfterFunc(k.caller, func() { k.giveUp(context.Cause(k.caller)) })
	})
	return k.Context.Done()
}

// giveUp ends the asking, unless it is settled.
func (k *asking) giveUp(cause error) {
	if k.settled.CompareAndSwap(false, true) {
		k.cancel(cause)
	}
}

// settle ends the watching of the caller; false when the member was given up before.
func (k *asking) settle() (kept bool) {
	kept = k.settled.CompareAndSwap(false, true)
	k.watch.Do(func() { k.stop = func() bool { return false } })
	k.stop()
	return kept
}
