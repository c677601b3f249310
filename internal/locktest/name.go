package locktest

import (
	"context"
	"strings"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/locktest/probe"
)

var namePromises = []promise{
	{"AnyBytesAreAName", nil, (*stage).anyName},                     // NM-01, NM-07
	{"NameMapperIsAppliedOnce", nil, (*stage).mapsOnce},             // RW-23, NM-01
	{"LocksMeetByTheirMappedName", nil, (*stage).meetsByMappedName}, //
}

// anyName takes, waits for, hands on and releases locks of names that a protocol of text could stumble over.
func (s *stage) anyName() {
	here, there := s.process(), s.process(probe.Deaf)
	names := []string{
		"order:1001", "{tenant}:order:1", "a}b{c}d", "a{b", "{}x", "a}b", "a{}b{c}", "{", "}", "a b\tc", "%s%d%!",
		"Größe/ключ/鍵/🔒", "line\r\nbreak", "nul\x00byte", "\xff\xfe\x80", "*3\r\n$3\r\nDEL", `"quoted"'`, "*", "?[a-z]\\",
		strings.Repeat("long", 1000), "x",
	}
	for _, name := range names[:s.rounds(len(names))] {
		lock := s.wiring.New(there, name)
		s.Equal(s.wiring.Called(name), lock.Name())
		if s.site.Servers[0].Mode() == config.ModeCluster && config.SlotSafe(name) != nil { // NM-02
			s.refuses(context.Background(), lock, redlatch.ErrBadName, nil)
			continue
		}
		rival := s.take(context.Background(), s.wiring.Rival(here, name))
		waiter := s.queue(context.Background(), lock)
		s.release(rival)
		hold := waiter.succeeds()
		h, err := s.wiring.Rival(here, name).TryLock(context.Background())
		s.ErrorIs(err, redlatch.ErrNotAcquired)
		s.Nil(h)
		s.release(hold)
	}
	s.nothingLeft()
}

func (s *stage) mapsOnce() {
	p := s.process(prefixed("app:"))
	lock := s.lock(p)
	s.Equal(s.wiring.Called(lockName), lock.Name())
	hold := s.take(context.Background(), lock)
	if s.site.Keys != nil {
		keys := s.keys()
		s.Contains(keys, s.wiring.Key("app:"+lockName))
		for _, key := range keys {
			s.Equal(1, strings.Count(key, "app:"), key)
		}
	}
	s.release(hold)
	s.nothingLeft()
}

func (s *stage) meetsByMappedName() {
	plain, mapped := s.process(probe.Deaf), s.process(prefixed("app:"))
	hold := s.take(context.Background(), s.wiring.Rival(mapped, "order:1"))
	waiter := s.queue(context.Background(), s.wiring.New(plain, "app:order:1"))
	s.isFree(s.wiring.New(plain, "order:1"))
	s.release(hold)
	s.release(waiter.succeeds())
}
