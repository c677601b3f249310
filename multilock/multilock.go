package multilock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/engine"
)

// Lock is several locks that are taken as one. It is immutable, safe for concurrent use, and needs no closing.
type Lock struct {
	name    string
	members []redlatch.Locker
	need    int           // how many of them must be held
	pace    time.Duration // a member's part of a round
	invalid error         // what is wrong with the members, told by every call
}

var _ redlatch.Locker = (*Lock)(nil)

// New makes a lock of which all members must be held: the counterpart of Redisson's getMultiLock. They are tried in the order given. No
// members at all, one that is nil, and the same lock of the same client twice, also within a member that is a multi-lock, are errors of
// each call.
func New(members ...redlatch.Locker) *Lock { return newLock(members, len(members)) }

// NewRed makes a lock of which a majority of members must be held, n/2+1 of n: the counterpart of RedissonRedLock. The members should be
// locks of one name on servers that fail independently of each other, each with a client of its own whose config.Config.Timeout is
// short: it is what one server that does not answer costs. Wrong members are errors as for New.
func NewRed(members ...redlatch.Locker) *Lock { return newLock(members, len(members)/2+1) }

func newLock(members []redlatch.Locker, need int) *Lock {
	members = slices.Clone(members)
	return &Lock{name: joinNames(members), members: members, need: need, pace: roundPerMember, invalid: check(members)}
}

// joinNames gives each name once, in order.
func joinNames(members []redlatch.Locker) string {
	var names []string
	for _, m := range members {
		if redlatch.IdentityOf(m) != nil && !slices.Contains(names, m.Name()) {
			names = append(names, m.Name())
		}
	}
	return strings.Join(names, ", ")
}

// check says everything that is wrong with the members.
func check(members []redlatch.Locker) error {
	if len(members) == 0 {
		return errors.New("a multi-lock without members locks nothing; pass the locks that it is to be made of")
	}
	var faults []error
	seen := make(map[any]int) // by identity: the place of the member, from 1
	for i, m := range members {
		if nested, ok := m.(*Lock); ok && nested != nil && nested.invalid != nil {
			faults = append(faults, fmt.Errorf("member %d: %w", i+1, nested.invalid))
			continue
		}
		for _, id := range identities(m) {
			first, twice := seen[id]
			switch {
			case id == nil:
				faults = append(faults, fmt.Errorf("member %d is nil; pass what a New of a lock's package has returned", i+1))
			case twice:
				faults = append(faults, fmt.Errorf("member %d (%q) is the same lock as member %d, or has it in common, "+
					"and would be counted twice; pass each lock once", i+1, m.Name(), first))
			default:
				seen[id] = i + 1
			}
		}
	}
	return errors.Join(faults...)
}

// identities are those of the locks that a member is made of in the end.
func identities(m redlatch.Locker) (all []any) {
	nested, ok := m.(*Lock)
	if !ok || nested == nil {
		return []any{redlatch.IdentityOf(m)}
	}
	for _, inner := range nested.members {
		all = append(all, identities(inner)...)
	}
	return all
}

// Name is the names of the members, each once and in order, joined by ", ".
func (l *Lock) Name() string { return l.name }

// Lock waits until the members are held, all of them or a majority; see redlatch.Locker, whose promises it keeps: after an error no
// member is held. How it waits is told by the package's documentation. ctx is looked at between requests to the servers, and what was
// taken is given back before Lock returns, for which servers have 3 s beyond a command timeout.
//
// Errors are those of redlatch.Locker, and of the members: ErrNotAcquired when somebody else holds a member, of NewRed so many that
// no majority is left.
func (l *Lock) Lock(ctx context.Context, opts ...redlatch.AcquireOption) (*redlatch.Hold, error) {
	return l.acquire(ctx, "lock", engine.NoLimit, opts)
}

// TryLock asks each member once, or with WithWait waits that long; all else is as in Lock.
func (l *Lock) TryLock(ctx context.Context, opts ...redlatch.AcquireOption) (*redlatch.Hold, error) {
	return l.acquire(ctx, "try lock", 0, opts)
}

func (l *Lock) acquire(ctx context.Context, op string, wait time.Duration, opts []redlatch.AcquireOption) (*redlatch.Hold, error) {
	caller, req, err := redlatch.ResolveOptions(ctx, wait, opts)
	if err = errors.Join(l.invalid, err); err != nil {
		return nil, l.wrap(op, err)
	}
	a := &acquisition{lock: l, req: req, caller: caller}
	if req.Wait > 0 {
		a.until = time.Now().Add(req.Wait)
	}
	h, err := a.run()
	if err != nil {
		return nil, l.wrap(op, err)
	}
	return redlatch.NewHold(l.name, h), nil
}

// owned is a member that can tell who holds it; all kinds of this module can.
type owned interface {
	IsHeldBy(ctx context.Context, o redlatch.Owner) (bool, error)
}

var _ owned = (*Lock)(nil)

// IsHeldBy tells whether an owner holds the lock: all members, or a majority of them. As in redlatch.WithOwner the owner stands, in each
// member's client, for the owner of that client with the same number. Members are asked at the same time and as long as the answer
// is open; ctx governs the wait between requests.
func (l *Lock) IsHeldBy(ctx context.Context, o redlatch.Owner) (bool, error) {
	const op = "is held by"
	if l.invalid != nil {
		return false, l.wrap(op, l.invalid)
	}
	ctx, decided := context.WithCancel(ctx)
	defer decided()
	type answer struct {
		held bool
		err  error
	}
	answers := make(chan answer, len(l.members))
	for i, m := range l.members {
		go func() {
			held, err := isHeldBy(ctx, m, o)
			answers <- answer{held, atMember(i, err)}
		}()
	}
	held, free := 0, 0
	var failed []error
	for range l.members { // all of them, so that no question outlives the call
		a := <-answers
		switch {
		case a.err != nil:
			failed = append(failed, a.err)
		case a.held:
			held++
		default:
			free++
		}
		if held >= l.need || free > l.spare() {
			decided()
		}
	}
	if held < l.need && free <= l.spare() {
		return false, l.wrap(op, join(failed))
	}
	return held >= l.need, nil
}

func isHeldBy(ctx context.Context, m redlatch.Locker, o redlatch.Owner) (bool, error) {
	member, ok := m.(owned)
	if !ok {
		return false, fmt.Errorf("a %T can't tell who holds it; it has no method IsHeldBy", m)
	}
	return member.IsHeldBy(ctx, o)
}

// spare is how many members the lock can do without.
func (l *Lock) spare() int { return len(l.members) - l.need }

func (l *Lock) wrap(op string, err error) error {
	return &redlatch.Error{Op: op, Name: l.name, Err: err}
}
