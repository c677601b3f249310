package lua_test

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// forever is the TTL of a key that has none.
const forever = -time.Millisecond

// state is what Redis holds of a lock. The zero state is no key at all.
type state struct {
	fields map[string]string // of the hash
	text   string            // when the lock's key is a string instead
	list   []string          // when it is a list
	ttl    time.Duration     // as it was last set; forever for none
	latch  time.Duration     // the latch's TTL as it was last set; 0 when there must be no latch

	queue  []string                 // fair: who waits
	deaths map[string]time.Duration // fair: when each waiter counts as dead, from when the site was set up
	token  string                   // fenced: the counter, which has no TTL
	marks  map[string]time.Duration // read: TTL as it was last set of each hold, see mark
}

// mark names the i-th read hold of an owner.
func mark(owner string, i int) string { return owner + ":rwlock_timeout:" + strconv.Itoa(i) }

// holds is a lock with a fresh lease.
func holds(owner string, count int) state {
	return state{fields: map[string]string{owner: strconv.Itoa(count)}, ttl: lease}
}

// latched is the state with the latch of a request that was settled.
func (w state) latched() state {
	w.latch = bar
	return w
}

// lasting is the state with another TTL of the lock.
func (w state) lasting(ttl time.Duration) state {
	w.ttl = ttl
	return w
}

// waiting is the state with a queue of waiters.
func (w state) waiting(queue ...waiter) state {
	w.queue, w.deaths = nil, nil
	for _, q := range queue {
		w.queue = append(w.queue, q.owner)
		if q.death == never {
			continue
		}
		if w.deaths == nil {
			w.deaths = map[string]time.Duration{}
		}
		w.deaths[q.owner] = q.death
	}
	return w
}

// waiter is one in the queue of a fair lock.
type waiter struct {
	owner string
	death time.Duration
}

// never is the death of a waiter that has no score.
const never = time.Duration(1<<63 - 1)

// fencedBy is the state with that counter.
func (w state) fencedBy(token string) state {
	w.token = token
	return w
}

// set brings the state about.
func (s *site) set(t *testing.T, given state) {
	t.Helper()
	for field, value := range given.fields {
		s.do(t, "HSET", s.lock, field, value)
	}
	if given.text != "" {
		s.do(t, "SET", s.lock, given.text)
	}
	for _, element := range given.list {
		s.do(t, "RPUSH", s.lock, element)
	}
	if given.ttl > 0 {
		s.do(t, "PEXPIRE", s.lock, millis(given.ttl))
	}
	for _, owner := range given.queue {
		s.do(t, "RPUSH", s.fair.Queue, owner)
	}
	for owner, death := range given.deaths {
		s.do(t, "ZADD", s.fair.Timeouts, strconv.FormatInt(s.epoch+death.Milliseconds(), 10), owner)
	}
	if given.token != "" {
		s.do(t, "SET", s.token, given.token)
	}
	for hold, ttl := range given.marks {
		s.do(t, "SET", s.markers()+":"+hold, "1", "PX", millis(ttl))
	}
}

// requireState compares everything that Redis holds of the lock, further keys included.
func (s *site) requireState(t *testing.T, want state) {
	t.Helper()
	require.Equal(t, s.keysOf(want), s.keys(t), "keys and their types")
	switch want.kind() {
	case "hash":
		fields, err := s.do(t, "HGETALL", s.lock).AsStrMap()
		require.NoError(t, err)
		require.Equal(t, want.fields, fields)
	case "string":
		require.Equal(t, want.text, s.text(t, s.lock))
	case "list":
		require.Equal(t, want.list, s.list(t, s.lock))
	default:
		require.Zero(t, want.ttl, "a key that is absent has no TTL: mistake of the table")
	}
	if want.kind() != "none" {
		s.requireTTL(t, want.ttl, s.pttl(t, s.lock))
	}
	if want.latch != 0 {
		s.requireTTL(t, want.latch, s.pttl(t, s.latch))
	}
	s.requireWaiters(t, want)
	if want.token != "" {
		require.Equal(t, want.token, s.text(t, s.token), "token")
		require.Equal(t, forever, s.pttl(t, s.token), "a token's counter never expires")
	}
	for hold, ttl := range want.marks {
		require.Equal(t, "1", s.text(t, s.markers()+":"+hold), hold)
		s.requireTTL(t, ttl, s.pttl(t, s.markers()+":"+hold))
	}
}

func (s *site) requireWaiters(t *testing.T, want state) {
	t.Helper()
	if want.queue != nil {
		require.Equal(t, want.queue, s.list(t, s.fair.Queue), "queue")
		require.Equal(t, forever, s.pttl(t, s.fair.Queue), "the queue has no TTL")
	}
	if want.deaths == nil {
		return
	}
	require.Equal(t, forever, s.pttl(t, s.fair.Timeouts), "the timeouts have no TTL")
	members, err := s.do(t, "ZRANGE", s.fair.Timeouts, "0", "-1").AsStrSlice()
	require.NoError(t, err)
	require.ElementsMatch(t, slices.Collect(maps.Keys(want.deaths)), members, "who has a time of death")
	passed := time.Since(s.begun)
	for owner, death := range want.deaths {
		text, err := s.do(t, "ZSCORE", s.fair.Timeouts, owner).ToString()
		require.NoError(t, err)
		score, err := strconv.ParseInt(text, 10, 64)
		require.NoError(t, err, "Java reads the score as a whole number")
		got := time.Duration(score-s.epoch) * time.Millisecond
		// What was counted from the TTL of the lock or from now began up to passed later.
		require.GreaterOrEqual(t, got, death-2*time.Millisecond, "death of %s", owner)
		require.LessOrEqual(t, got, death+passed+2*time.Millisecond, "death of %s", owner)
	}
}

// keysOf are the keys of a state, and their types.
func (s *site) keysOf(want state) map[string]string {
	keys := map[string]string{}
	if kind := want.kind(); kind != "none" {
		keys[s.lock] = kind
	}
	if want.latch != 0 {
		keys[s.latch] = "string"
	}
	if want.queue != nil {
		keys[s.fair.Queue] = "list"
	}
	if want.deaths != nil {
		keys[s.fair.Timeouts] = "zset"
	}
	if want.token != "" {
		keys[s.token] = "string"
	}
	for hold := range want.marks {
		keys[s.markers()+":"+hold] = "string"
	}
	return keys
}

func (w state) kind() string {
	switch {
	case w.fields != nil:
		return "hash"
	case w.text != "":
		return "string"
	case w.list != nil:
		return "list"
	}
	return "none"
}

// keys are those that bear the lock's name.
func (s *site) keys(t *testing.T) map[string]string {
	t.Helper()
	names, err := s.do(t, "KEYS", "*").AsStrSlice()
	require.NoError(t, err)
	found := map[string]string{}
	for _, name := range names {
		if !strings.Contains(name, s.lock) {
			continue
		}
		found[name], err = s.do(t, "TYPE", name).ToString()
		require.NoError(t, err)
	}
	return found
}

func (s *site) text(t *testing.T, key string) string {
	t.Helper()
	text, err := s.do(t, "GET", key).ToString()
	require.NoError(t, err)
	return text
}

func (s *site) list(t *testing.T, key string) []string {
	t.Helper()
	list, err := s.do(t, "LRANGE", key, "0", "-1").AsStrSlice()
	require.NoError(t, err)
	return list
}

func (s *site) pttl(t *testing.T, key string) time.Duration {
	t.Helper()
	ms, err := s.do(t, "PTTL", key).AsInt64()
	require.NoError(t, err)
	return time.Duration(ms) * time.Millisecond
}

// requireTTL allows for the time that has passed since the site was set up, and for rounding.
func (s *site) requireTTL(t *testing.T, want, got time.Duration) {
	t.Helper()
	if want == forever {
		require.Equal(t, forever, got, "TTL")
		return
	}
	require.LessOrEqual(t, got, want, "TTL")
	require.GreaterOrEqual(t, got, want-time.Since(s.begun)-2*time.Millisecond, "TTL")
}
