package redistest

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// Mini is a miniredis in this process, for tests that need many servers or a clock that they can move. Its keys expire as
// time passes, as those of a real server do.
//
// It speaks RESP2 alone and knows no sharded pub/sub, no INFO commandstats and no CLIENT KILL; what hangs on these needs
// Start.
type Mini struct {
	Endpoint
	// Redis is the server itself, for what only miniredis can do.
	Redis *miniredis.Miniredis
}

// NewMini runs a miniredis for the length of the test.
func NewMini(t testing.TB) *Mini {
	t.Helper()
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		t.Fatalf("redistest: start miniredis: %v", err)
	}
	t.Cleanup(m.Close)
	// By itself miniredis counts TTLs down only when it is told to.
	m.ClockTTL(true)
	return &Mini{Endpoint: Endpoint{addr: m.Addr(), resp2: true}, Redis: m}
}

// Advance lets d pass at once, for the TTLs; TIME goes on as before.
func (m *Mini) Advance(d time.Duration) { m.Redis.FastForward(d) }
