package linear

import (
	"fmt"
	"time"
)

// Act is what a call is about.
type Act uint8

// The acts.
const (
	Acquire Act = iota // take the lock, or enter it once more
	Release            // leave it once
	Force              // free it whoever holds it
	Locked             // ask whether anybody holds it
	Token              // read a fenced lock's last token without acquiring
)

var acts = [...]string{"acquire", "release", "release by force", "is it held", "last token"}

// Side is a side of a read/write lock; locks of other kinds have one side.
type Side uint8

// The sides.
const (
	Whole Side = iota
	Read
	Write
)

var sides = [...]string{"", " read", " write"}

// MaxOwners bounds the owners of a history: they are numbered from 0 to MaxOwners-1.
const MaxOwners = 32

// Call is one call of one owner. Calls of one owner follow each other.
type Call struct {
	Act   Act
	Side  Side
	Owner int
	Wait  time.Duration // of Acquire; 0 is a single attempt
}

// Answer is how a call ended.
type Answer struct {
	// OK is: acquired; released, false for "not held"; freed by force; held.
	OK    bool
	Token int64 // that came with an acquisition, or was read
}

// describe puts a call and its answer in words.
func describe(c Call, a Answer) string {
	text := fmt.Sprintf("owner %d: %s%s", c.Owner, acts[c.Act], sides[c.Side])
	if c.Wait > 0 {
		text += fmt.Sprintf(", waiting %v", c.Wait)
	}
	if c.Act != Token {
		text += fmt.Sprintf(": %t", a.OK)
	}
	if a.Token != 0 {
		text += fmt.Sprintf(", token %d", a.Token)
	}
	return text
}
