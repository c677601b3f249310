package lua

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

var fenceSet = named("fence_set")

// FenceWrite is what FenceSet does to the data of a token that is let through: one of WriteString, WriteHash, Delete, LetThrough.
type FenceWrite struct {
	command string
	expire  time.Duration
	parts   []string
}

// WriteString sets the data to a string; expire is its TTL, 1 ms at least, or 0 for none.
func WriteString(value string, expire time.Duration) FenceWrite {
	return FenceWrite{"SET", expire, []string{value}}
}

// WriteHash sets fields of a hash and leaves its others and its TTL alone.
func WriteHash(fields map[string]string) FenceWrite {
	w := FenceWrite{command: "HSET"}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		w.parts = append(w.parts, field, fields[field])
	}
	return w
}

// Delete removes the data; what is known of tokens stays.
func Delete() FenceWrite { return FenceWrite{command: "DEL"} }

// LetThrough writes nothing.
func LetThrough() FenceWrite { return FenceWrite{command: "NONE"} }

// FenceSet writes data unless newest holds a token beyond the given one, and returns 0; else the newest token. newest, in the
// slot of data, is forgotten when nobody was let through for the time keep, 1 ms at least, or 0 for never.
func FenceSet(data, newest string, token int64, keep time.Duration, w FenceWrite) Call[int64] {
	args := append([]string{strconv.FormatInt(token, 10), millisOrZero(keep), w.command, millisOrZero(w.expire)}, w.parts...)
	return Call[int64]{fenceSet, []string{data, newest}, args, readNewest}
}

func millisOrZero(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	return millis(d)
}

func readNewest(m rueidis.RedisMessage) (int64, error) {
	if m.IsNil() {
		return 0, nil
	}
	text, err := m.ToString()
	if err != nil {
		return 0, err
	}
	newest, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("fence: the newest token is not a number of 64 bits: %w", err)
	}
	return newest, nil
}
