package redlatch

import (
	"fmt"

	"github.com/redlatch/redlatch/internal/engine"
)

// The conditions that a caller can act on. Compare with errors.Is: they come wrapped in an *Error and with the reason.
var (
	// ErrNotAcquired: somebody else holds the lock and the wait, if any, is over. The server is well; trying again later can
	// succeed. The end of the caller's context is not this error but the context's own.
	ErrNotAcquired = engine.ErrNotAcquired
	// ErrNotHeld: this Hold was released already, by an earlier Unlock. Nothing was sent. It is also the cause of a hold's
	// context after its release.
	ErrNotHeld = engine.ErrNotHeld
	// ErrLost: the lock ended before its release. Its lease passed, its renewal failed, or the key was deleted, taken over or
	// released by force. Somebody else may hold it; what the work has written since is unprotected.
	ErrLost = engine.ErrLost
	// ErrClosed: the client was closed, or is shutting down and admits no new acquisitions.
	ErrClosed = engine.ErrClosed
	// ErrNotReplicated: the lock was taken, but too few replicas acknowledged it in time, and so it was given back
	// (wire-protocol.md §12).
	ErrNotReplicated = engine.ErrNotReplicated
	// ErrReentry: the owner that is in ctx holds the lock already and can't enter it in this way. Waiting would not help.
	ErrReentry = engine.ErrReentry
	// ErrWrongType: the key exists and is not a lock of this kind, but for example a string, or a read/write lock under the name of a plain
	// one; the error says what it is. Nothing was changed. See config.Config.SkipKindCheck.
	ErrWrongType = engine.ErrWrongType
	// ErrBadName: the name can't be used: it is empty or too long, the name mapper made it so, or its keys would lie in different slots of a
	// cluster.
	ErrBadName = engine.ErrBadName
)

// Error says which operation on which lock failed, and why: a sentinel of this package, the end of a context, or what the server or the
// network said.
type Error struct {
	Op   string // such as "lock" or "unlock"
	Name string // the lock's name, as it was given to the constructor
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("redlatch: %s %q: %v", e.Op, e.Name, e.Err) }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

func wrap(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Name: name, Err: err}
}
