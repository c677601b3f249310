package config

import (
	"errors"
	"fmt"
	"strings"
)

// ErrName is wrapped by every error about a lock's name.
var ErrName = errors.New("bad lock name")

// MaxNameLength is the longest name that a lock may have in Redis, in bytes. Redis itself takes keys up to 512 MB, but a lock's name
// travels in every script call, several times over in companion keys, and as the name of a channel that the server keeps for each
// subscriber; 64 KiB is far beyond any name that was meant as one.
const MaxNameLength = 64 << 10

// Prefixes and the suffix of the companion keys and channels of a lock, to be used with Prefixed and Suffixed (wire-protocol.md §1).
const (
	ChannelPrefix     = "redisson_lock__channel"
	RWChannelPrefix   = "redisson_rwlock"
	QueuePrefix       = "redisson_lock_queue"
	TimeoutPrefix     = "redisson_lock_timeout"
	TokenPrefix       = "redisson_lock_token"
	UnlockLatchPrefix = "redisson_unlock_latch"
	ReadTimeoutSuffix = "rwlock_timeout"
)

// MapName returns the name that a lock of the given name has in Redis: checked, and turned by the NameMapper if there is one. Names are
// bytes: they need not be UTF-8 and go to Redis unchanged. An empty name, an empty answer of the mapper and one longer
// than MaxNameLength are errors that wrap ErrName. A mapper that panics is not caught.
func (c Config) MapName(name string) (string, error) {
	if name == "" {
		return "", fmt.Errorf("%w: the name is empty; allowed is 1 to %d bytes", ErrName, MaxNameLength)
	}
	mapped := name
	if c.NameMapper != nil {
		mapped = c.NameMapper(name)
	}
	if mapped == "" {
		return "", fmt.Errorf("%w: NameMapper turned %q into an empty name; allowed is 1 to %d bytes", ErrName, clip(name), MaxNameLength)
	}
	if len(mapped) > MaxNameLength {
		return "", fmt.Errorf("%w: %q has %d bytes in Redis; allowed is 1 to %d bytes", ErrName, clip(mapped), len(mapped), MaxNameLength)
	}
	return mapped, nil
}

// Prefixed returns the companion key or channel P(prefix, name) of wire-protocol.md §1: prefix:{name}, and prefix:name when the name
// has a "{" anywhere. In a cluster it is in the slot of name if SlotSafe(name) says so.
func Prefixed(prefix, name string) string {
	if strings.Contains(name, "{") {
		return prefix + ":" + name
	}
	return prefix + ":{" + name + "}"
}

// Suffixed returns the companion key S(name, suffix) of wire-protocol.md §1: {name}:suffix, and name:suffix when the name has a "{"
// anywhere. In a cluster it is in the slot of name if SlotSafe(name) says so.
func Suffixed(name, suffix string) string {
	if strings.Contains(name, "{") {
		return name + ":" + suffix
	}
	return "{" + name + "}:" + suffix
}

// Slots is the number of hash slots of a cluster.
const Slots = 16384

// Slot returns the cluster slot of a key or shard channel, 0 … Slots−1: CRC16 (XMODEM) of its hash tag, modulo Slots.
func Slot(key string) uint16 {
	var crc uint16
	for _, b := range []byte(hashTag(key)) {
		crc = crc<<8 ^ crc16[byte(crc>>8)^b]
	}
	return crc % Slots
}

// hashTag returns what a cluster hashes of a key: the bytes between the first "{" and the first "}" after it, or the whole key when
// one of them is missing or nothing is between them.
func hashTag(key string) string {
	_, after, opened := strings.Cut(key, "{")
	tag, _, closed := strings.Cut(after, "}")
	if !opened || !closed || tag == "" {
		return key
	}
	return tag
}

// crc16 is the table of the polynomial x¹⁶+x¹²+x⁵+1, most significant bit first.
var crc16 = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()

// SlotSafe reports whether all companion keys of a lock are in the slot of its name: nil if so, else an error that wraps ErrName and
// names the reason and a key that would be in another slot. With such a name a cluster grants the lock, whose script has one key,
// and refuses the release, whose script has several, so that the lock stays until its lease ends. On a single server
// the name works. The name is the mapped one, for that is what Redis sees.
func SlotSafe(name string) error {
	if name == "" {
		return fmt.Errorf("%w: the name is empty", ErrName)
	}
	reason := slotFault(name)
	if reason == "" {
		return nil
	}
	home := Slot(name)
	for _, key := range companions(name) {
		if slot := Slot(key); slot != home {
			return fmt.Errorf("%w: %q cannot be used in a cluster: %s, so %q is in slot %d but the lock itself in slot %d; "+
				`use a name without braces, or with one "{tag}" before any other brace`,
				ErrName, clip(name), reason, clip(key), slot, home)
		}
	}
	return nil
}

// slotFault says which rule of braces a name breaks, "" for none. A name without braces becomes the tag of its companions, and a name
// with a tag keeps it in all of them; anything else is hashed in one way alone and in another within a companion.
func slotFault(name string) string {
	open, shut := strings.IndexByte(name, '{'), strings.IndexByte(name, '}')
	switch {
	case open < 0 && shut < 0, hashTag(name) != name:
		return ""
	case open < 0:
		return `its "}" ends the tag that is put around it too early`
	case strings.Contains(name[open:], "}"):
		return `its first "{" is followed by "}" at once, which is no tag, and no other tag counts`
	default:
		return `its "{" has no "}" after it`
	}
}

// companions returns one companion of each kind that a lock of any kind can have. Of a name that breaks the rule all of them
// could be in its slot by chance: with a "}" alone they share one tag, so that the name then works in fact; otherwise each is hashed
// as a whole and all seven would have to fall together, which is one in 10²⁹.
func companions(name string) []string {
	const owner = "00000000-0000-0000-0000-000000000000:1"
	return []string{
		Prefixed(ChannelPrefix, name),
		Prefixed(RWChannelPrefix, name),
		Prefixed(QueuePrefix, name),
		Prefixed(TimeoutPrefix, name),
		Prefixed(TokenPrefix, name),
		Prefixed(UnlockLatchPrefix, name) + ":0",
		Suffixed(name, owner+":"+ReadTimeoutSuffix) + ":1",
	}
}

// clip cuts a text that goes into an error to a readable length.
func clip(s string) string {
	const limit = 96
	if len(s) <= limit {
		return s
	}
	return s[:limit] + "…"
}
