package engine

import (
	"context"
	"fmt"

	"github.com/redlatch/redlatch/lua"
)

// State reads a lock at one moment. A key of another type is ErrWrongType. Reading is repeated where that can help, until ctx ends.
func (e *Engine) State(ctx context.Context, l *Lock) (lua.State, error) {
	if l.invalid != nil {
		return lua.State{}, l.invalid
	}
	if ctx.Err() != nil {
		return lua.State{}, endOf(ctx)
	}
	if err := e.begin(); err != nil {
		return lua.State{}, err
	}
	defer e.finish()
	for try := 0; ; try++ {
		s, err := call(e, l.Kind.Inspect(l.Key))
		if err == nil {
			if s.Type != "hash" && s.Type != "none" {
				err = fmt.Errorf("%w: the key %q holds a %s", ErrWrongType, l.Key, s.Type)
			}
			return s, err
		}
		if !e.pause(ctx, err, try) {
			return lua.State{}, describe(err)
		}
	}
}
