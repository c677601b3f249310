package gate

import (
	"errors"
	"fmt"
)

var (
	// ErrStale tells that a greater token has been admitted for the resource: the writer's lock has passed to somebody else. Nothing was
	// written. Trying again can't help; the work has to be given up, or begun anew under a new acquisition. It comes in a *StaleError.
	ErrStale = errors.New("the fencing token is stale")
	// ErrNoToken tells that the number is no fencing token. Most often it is the 0 of a hold whose lock is not fenced.
	ErrNoToken = errors.New("no fencing token")
)

// StaleError says which token was refused, and why.
type StaleError struct {
	// Resource is as the gate knows it: the name given to Memory, the table and key of a row, the key in Redis.
	Resource string
	// Token is the one that was refused.
	Token int64
	// Newest is the greatest token that was known at that moment; it may have grown since.
	Newest int64
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("gate: token %d is refused for %q: %v, %d has been admitted", e.Token, e.Resource, ErrStale, e.Newest)
}

// Unwrap returns ErrStale.
func (e *StaleError) Unwrap() error { return ErrStale }

// CheckToken returns an error that wraps ErrNoToken unless the number can be a token, that is, 1 or more.
func CheckToken(token int64) error {
	if token >= 1 {
		return nil
	}
	return fmt.Errorf("gate: %w: %d, and tokens are 1 or more; take it from a hold of a fencedlock, since those of other kinds have 0", ErrNoToken, token)
}
