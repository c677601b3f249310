package engine

import (
	"context"
	"fmt"

	"github.com/redlatch/redlatch/lua"
)

// State reads a lock at one moment. A key of another type, or a lock of another kind, is ErrWrongType. Reading is repeated where that can help, until ctx ends.
func (e *Engine) State(ctx context.Context, l *Lock) (lua.State, error) {
	if err := e.admit(ctx, l); err != nil {
		return lua.State{}, err
	}
	defer e.finish()
	for failed := e.noFailures(); ; failed.add() {
		s, err := call(e, l.Kind.Inspect(l.Key))
		if err == nil {
			return s, e.checkKind(l, s)
		}
		if !e.pause(ctx, err, &failed) {
			return lua.State{}, describe(err)
		}
	}
}

func (e *Engine) checkKind(l *Lock, s lua.State) error {
	if s.Type != "hash" && s.Type != "none" {
		return fmt.Errorf("%w: the key %q holds a %s", ErrWrongType, l.Key, s.Type)
	}
	if other := l.Kind.Other(s); other != "" && e.strict() {
		return fmt.Errorf("%w: the hash %q is %s; "+otherKind, ErrWrongType, l.Key, other)
	}
	return nil
}
