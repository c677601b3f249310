package locktest

import (
	"context"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
)

var queryPromises = []promise{
	{"QueriesTellTheTruthAtOnce", queried, (*stage).queries}, // RL-17
	{"QueriesOfAFreeLockAreZero", queried, (*stage).queriesFree},
	{"QueriesSeeOtherProcesses", queried, (*stage).queriesElsewhere},
	{"QueriesReportWhatIsWrong", queried, (*stage).queriesFail},
}

func (s *stage) queries() {
	p := s.process()
	h := s.handle(p)
	hold := s.take(context.Background(), h, redlatch.WithLease(time.Minute))
	locked, err := h.IsLocked(context.Background())
	s.NoError(err)
	s.True(locked)
	s.hasCount(p, hold.Owner(), 1)
	s.hasCount(p, p.Client().NewOwner(), 0)
	s.ttlBetween(h, 50*time.Second, time.Minute)

	view, err := h.Inspect(context.Background())
	s.NoError(err)
	s.NotEmpty(view.Kind)
	s.Equal(lockName, view.Name)
	s.Equal(s.wiring.Key(lockName), view.Key)
	s.Len(view.Holders, 1)
	s.Equal(hold.Owner(), view.Holders[0].Owner)
	s.Equal(1, view.Holders[0].Count)
	s.Contains(view.Holders[0].Field, hold.Owner().String())
	s.Equal(hold.Token(), view.Token)
	s.Greater(view.TTL, 50*time.Second)
	s.LessOrEqual(view.TTL, time.Minute)
	s.release(hold)
}

func (s *stage) queriesFree() {
	p := s.process()
	h := s.handle(p)
	s.Equal(lockName, h.Name())
	locked, err := h.IsLocked(context.Background())
	s.NoError(err)
	s.False(locked)
	s.hasCount(p, p.Client().NewOwner(), 0)
	ttl, err := h.RemainingTTL(context.Background())
	s.NoError(err)
	s.Zero(ttl)
	view, err := h.Inspect(context.Background())
	s.NoError(err)
	s.Empty(view.Holders)
	s.Zero(view.TTL)
}

func (s *stage) queriesElsewhere() {
	here, there := s.process(), s.process()
	hold := s.take(redlatch.WithThreadID(context.Background(), 7), s.lock(here))
	s.Equal(here.Client().ID(), hold.Owner().ClientID())
	s.hasCount(there, hold.Owner(), 1)
	view, err := s.handle(there).Inspect(context.Background())
	s.NoError(err)
	s.Equal(hold.Owner(), view.Holders[0].Owner)
	s.release(hold)
}

func (s *stage) queriesFail() {
	dead, cancel := context.WithCancelCause(context.Background())
	cancel(errGivenUp)
	p := s.process()
	s.eachQuery(dead, s.handle(p), errGivenUp)
	closed := s.process()
	closed.Close()
	s.eachQuery(context.Background(), s.handle(closed), redlatch.ErrClosed)
	s.site.Do(s.t, "SET", s.wiring.Key(lockName), "no lock")
	s.eachQuery(context.Background(), s.handle(p), redlatch.ErrWrongType)
	nameless, ok := s.wiring.New(p, "").(Handle)
	s.True(ok)
	s.eachQuery(context.Background(), nameless, redlatch.ErrBadName)
}

// eachQuery says that no query of a lock answers, for a reason.
func (s *stage) eachQuery(ctx context.Context, h Handle, why error) {
	s.t.Helper()
	_, err := h.IsLocked(ctx)
	s.ErrorIs(err, why)
	_, err = h.HoldCount(ctx, redlatch.Owner{})
	s.ErrorIs(err, why)
	_, err = h.RemainingTTL(ctx)
	s.ErrorIs(err, why)
	_, err = h.Inspect(ctx)
	s.ErrorIs(err, why)
	_, err = h.ForceUnlock(ctx)
	s.ErrorIs(err, why)
	var typed *redlatch.Error
	s.ErrorAs(err, &typed)
	s.Equal(h.Name(), typed.Name)
}

// prefixed puts the locks of a process behind a prefix.
func prefixed(prefix string) func(*config.Config) {
	return func(c *config.Config) { c.NameMapper = func(name string) string { return prefix + name } }
}
