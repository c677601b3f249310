package config

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// Delay is a pause that grows and is spread out by chance, as Redisson's equal jitter does it. The zero Delay is the default of the
// field that it stands in.
type Delay struct {
	// Min is the base, which doubles with every re-sending; Max caps it.
	Min, Max time.Duration
}

// Next returns a pause before re-sending number retry, counted from 0: by chance something between half and the whole of Min·2^retry,
// or of Max once that is less. So the default of 1 s … 2 s gives 0.5 … 1 s first and 1 … 2 s from then on. A negative retry counts as 0.
func (d Delay) Next(retry int) time.Duration {
	whole := d.Max
	if retry = max(retry, 0); retry < 63 && d.Min <= d.Max>>retry {
		whole = d.Min << retry
	}
	if whole <= 0 {
		return 0
	}
	half := whole / 2
	return half + rand.N(whole-half+1)
}

// String returns "1s..2s".
func (d Delay) String() string { return d.Min.String() + ".." + d.Max.String() }

// ShardedSubscriptionMode says which publish and subscribe commands carry a lock's messages on a cluster. Both sides must use
// the same: SPUBLISH is not heard by SUBSCRIBE, nor PUBLISH by SSUBSCRIBE (wire-protocol.md §2).
type ShardedSubscriptionMode int

const (
	// ShardedSubscriptionAuto asks the server whether it knows sharded messages (Redis 7.0 and newer), and uses them if so.
	ShardedSubscriptionAuto ShardedSubscriptionMode = iota
	// ShardedSubscriptionOn uses SPUBLISH and SSUBSCRIBE without asking.
	ShardedSubscriptionOn
	// ShardedSubscriptionOff uses PUBLISH and SUBSCRIBE, as Redisson before 3.22 always does.
	ShardedSubscriptionOff
)

var shardedNames = [...]string{"AUTO", "ON", "OFF"}

// String returns Redisson's word: AUTO, ON or OFF; another value shows as its number.
func (m ShardedSubscriptionMode) String() string {
	if !m.valid() {
		return "ShardedSubscriptionMode(" + strconv.Itoa(int(m)) + ")"
	}
	return shardedNames[m]
}

// MarshalText returns what String does; a value that is none of the three is an error.
func (m ShardedSubscriptionMode) MarshalText() ([]byte, error) {
	if !m.valid() {
		return nil, fmt.Errorf("config: %v is none of AUTO, ON, OFF", m)
	}
	return []byte(shardedNames[m]), nil
}

// UnmarshalText reads AUTO, ON or OFF, in capitals or not; anything else, empty text included, is an error and leaves m as it was.
func (m *ShardedSubscriptionMode) UnmarshalText(text []byte) error {
	for i, name := range shardedNames {
		if strings.EqualFold(name, string(text)) {
			*m = ShardedSubscriptionMode(i)
			return nil
		}
	}
	return fmt.Errorf("config: shardedSubscriptionMode is %q; allowed is AUTO, ON or OFF", clip(string(text)))
}

func (m ShardedSubscriptionMode) valid() bool { return m >= 0 && int(m) < len(shardedNames) }

// SyncedSlaves says what replicas must acknowledge before an operation counts as done (wire-protocol.md §12). The zero value is as
// Redisson: WAIT is sent after each operation, and when replicas were there and none acknowledged, the operation fails and a lock
// just acquired is given back. Some but not all is a success.
type SyncedSlaves int

const (
	// SyncedSlavesAny is the default, spelt out: at least one of the replicas that are there, if any are.
	SyncedSlavesAny SyncedSlaves = 0
	// SyncedSlavesOff sends no WAIT at all: an acquisition costs one round trip, and a failover can lose it unnoticed. Redisson's
	// checkLockSyncedSlaves: false still waits and only ignores the answer.
	SyncedSlavesOff SyncedSlaves = -1

	maxSyncedSlaves     = 1000
	invalidSyncedSlaves = SyncedSlaves(math.MinInt)
)

// SyncedSlavesAtLeast demands n replicas, 1 … 1000, whether or not so many are connected: with fewer, every operation fails. An n out
// of range is reported when the Config is validated.
func SyncedSlavesAtLeast(n int) SyncedSlaves {
	if n < 1 {
		return invalidSyncedSlaves
	}
	return SyncedSlaves(n)
}

// Count returns the number of replicas demanded by SyncedSlavesAtLeast, and 0 for the other two.
func (s SyncedSlaves) Count() int { return max(int(s), 0) }

// String returns "any", "off" or "at least n", and for a value out of range what is wrong with it.
func (s SyncedSlaves) String() string {
	switch {
	case s == SyncedSlavesAny:
		return "any"
	case s == SyncedSlavesOff:
		return "off"
	case s < 0:
		return "at least a number below 1"
	default:
		return "at least " + strconv.Itoa(int(s))
	}
}

func (s SyncedSlaves) valid() bool { return s >= SyncedSlavesOff && s <= maxSyncedSlaves }
