package redistest

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// NoTTL is the TTL of a key that does not expire.
const NoTTL time.Duration = -1

// Snapshot is the whole keyspace of database 0 as data, ordered by key.
type Snapshot struct {
	// At is the server's own clock just before the first key was read, to make absolute times in values relative.
	At      time.Time
	Entries []Entry
}

// Entry is one key.
type Entry struct {
	Key  string
	Type string        // as TYPE names it: string, hash, list, zset or set
	TTL  time.Duration // NoTTL, or at least 0, in whole milliseconds
	// Items are the value: one with an empty Name for a string; fields with their values, by field, for a hash; members
	// with their scores, by rank, for a zset; elements with an empty Name, from the head, for a list; names alone, sorted, for a set.
	Items []Item
}

// Item is one part of a value.
type Item struct{ Name, Value string }

// Snapshot reads the keyspace, key by key: a picture of one moment only while nobody writes. A key that vanishes
// meanwhile is left out. A type that no lock uses (a stream, a module's type) fails the test.
func (e *Endpoint) Snapshot(t testing.TB) Snapshot {
	t.Helper()
	c, err := e.dial()
	if err != nil {
		t.Fatalf("redistest: take a snapshot: %v", err)
	}
	defer c.Close()
	snap, err := takeSnapshot(c)
	if err != nil {
		t.Fatalf("redistest: take a snapshot: %v", err)
	}
	return snap
}

func takeSnapshot(c *Conn) (Snapshot, error) {
	now, err := c.Do("TIME")
	if err != nil {
		return Snapshot{}, err
	}
	parts := now.List()
	snap := Snapshot{At: time.Unix(parts[0].Int(), parts[1].Int()*int64(time.Microsecond))}
	keys, err := scanKeys(c)
	if err != nil {
		return Snapshot{}, err
	}
	for _, key := range keys {
		entry, there, err := readEntry(c, key)
		if err != nil {
			return Snapshot{}, err
		}
		if there {
			snap.Entries = append(snap.Entries, entry)
		}
	}
	return snap, nil
}

// scanKeys returns every key once, sorted; SCAN may name a key twice.
func scanKeys(c *Conn) ([]string, error) {
	var keys []string
	for cursor := "0"; ; {
		reply, err := c.Do("SCAN", cursor, "COUNT", "1000")
		if err != nil {
			return nil, err
		}
		parts := reply.List()
		keys = append(keys, parts[1].Texts()...)
		if cursor = parts[0].Text(); cursor == "0" {
			slices.Sort(keys)
			return slices.Compact(keys), nil
		}
	}
}

// readCommands is how each type is read; %s stands for the key.
var readCommands = map[string][]string{
	"string": {"GET", "%s"},
	"hash":   {"HGETALL", "%s"},
	"list":   {"LRANGE", "%s", "0", "-1"},
	"zset":   {"ZRANGE", "%s", "0", "-1", "WITHSCORES"},
	"set":    {"SMEMBERS", "%s"},
}

// readEntry reads one key in a transaction, so that its parts belong together.
func readEntry(c *Conn, key string) (e Entry, there bool, err error) {
	kind, err := c.Do("TYPE", key)
	if err != nil {
		return Entry{}, false, err
	}
	if kind.Text() == "none" {
		return Entry{}, false, nil
	}
	read, known := readCommands[kind.Text()]
	if !known {
		return Entry{}, false, fmt.Errorf("the key %q is a %s, which a snapshot cannot show", key, kind.Text())
	}
	read = slices.Clone(read)
	read[1] = key
	for _, command := range [][]string{{"MULTI"}, read, {"PTTL", key}} {
		if _, err := c.Do(command...); err != nil {
			return Entry{}, false, err
		}
	}
	reply, err := c.Do("EXEC")
	if err != nil {
		return Entry{}, false, fmt.Errorf("read the %s %q: %w", kind.Text(), key, err)
	}
	value, ttl := reply.List()[0], reply.List()[1].Int()
	if ttl == -2 {
		return Entry{}, false, nil
	}
	e = Entry{Key: key, Type: kind.Text(), TTL: NoTTL, Items: itemsOf(kind.Text(), value)}
	if ttl >= 0 {
		e.TTL = time.Duration(ttl) * time.Millisecond
	}
	return e, true, nil
}

func itemsOf(kind string, value Reply) []Item {
	if kind == "string" {
		return []Item{{Value: value.Text()}}
	}
	texts := value.Texts()
	var items []Item
	switch kind {
	case "hash", "zset":
		for i := 0; i+1 < len(texts); i += 2 {
			items = append(items, Item{Name: texts[i], Value: texts[i+1]})
		}
	case "set":
		for _, text := range texts {
			items = append(items, Item{Name: text})
		}
	default:
		for _, text := range texts {
			items = append(items, Item{Value: text})
		}
	}
	return ordered(kind, items)
}

// ordered puts items in an order that does not depend on how the server stores them; lists and sorted sets have theirs.
func ordered(kind string, items []Item) []Item {
	if kind == "hash" || kind == "set" {
		slices.SortFunc(items, func(a, b Item) int { return cmp.Compare(a.Name, b.Name) })
	}
	return items
}

// Map returns a copy with every key, field, member, element and value passed through rename, in order again. A test
// renames owners with it, to compare runs whose client ids differ: strings.NewReplacer(…).Replace fits. Scores and
// TTLs stay.
func (s Snapshot) Map(rename func(string) string) Snapshot {
	out := Snapshot{At: s.At}
	for _, e := range s.Entries {
		e.Key = rename(e.Key)
		items := make([]Item, len(e.Items))
		for i, item := range e.Items {
			if item.Name != "" {
				item.Name = rename(item.Name)
			}
			if e.Type != "zset" {
				item.Value = rename(item.Value)
			}
			items[i] = item
		}
		e.Items = ordered(e.Type, items)
		out.Entries = append(out.Entries, e)
	}
	slices.SortFunc(out.Entries, func(a, b Entry) int { return cmp.Compare(a.Key, b.Key) })
	return out
}

// MapScores returns a copy with the score of every sorted-set member passed through f, which is also told the key.
func (s Snapshot) MapScores(f func(key string, score float64) float64) Snapshot {
	out := Snapshot{At: s.At, Entries: slices.Clone(s.Entries)}
	for i, e := range out.Entries {
		if e.Type != "zset" {
			continue
		}
		out.Entries[i].Items = slices.Clone(e.Items)
		for j, item := range e.Items {
			score, err := strconv.ParseFloat(item.Value, 64)
			if err != nil {
				continue // a server sends nothing but numbers
			}
			out.Entries[i].Items[j].Value = strconv.FormatFloat(f(e.Key, score), 'f', -1, 64)
		}
	}
	return out
}

// Keys are the names of all keys, in order.
func (s Snapshot) Keys() []string {
	var keys []string
	for _, e := range s.Entries {
		keys = append(keys, e.Key)
	}
	return keys
}

// Get returns the entry of a key.
func (s Snapshot) Get(key string) (Entry, bool) {
	for _, e := range s.Entries {
		if e.Key == key {
			return e, true
		}
	}
	return Entry{}, false
}

// String shows everything, one key or item a line, TTLs included.
func (s Snapshot) String() string { return s.format(true) }

// Content is String without the TTLs: what require.Equal compares and shows well when two runs differ in time alone.
// Whether a key expires at all is part of it.
func (s Snapshot) Content() string { return s.format(false) }

func (s Snapshot) format(ttl bool) string {
	if len(s.Entries) == 0 {
		return "(no keys)\n"
	}
	var b strings.Builder
	for _, e := range s.Entries {
		fmt.Fprintf(&b, "%s %q", e.Type, e.Key)
		switch {
		case e.TTL == NoTTL:
			b.WriteString(" stays\n")
		case ttl:
			fmt.Fprintf(&b, " expires in %v\n", e.TTL)
		default:
			b.WriteString(" expires\n")
		}
		for i, item := range e.Items {
			b.WriteString("    " + item.format(e.Type, i) + "\n")
		}
	}
	return b.String()
}

func (i Item) format(kind string, index int) string {
	switch kind {
	case "string":
		return strconv.Quote(i.Value)
	case "list":
		return fmt.Sprintf("[%d] %q", index, i.Value)
	case "set":
		return strconv.Quote(i.Name)
	case "zset":
		return fmt.Sprintf("%q @ %s", i.Name, i.Value)
	default:
		return fmt.Sprintf("%q = %q", i.Name, i.Value)
	}
}

// Diff says how two snapshots differ, "" when they hold the same and no two TTLs of a key differ by more than tolerance.
func (s Snapshot) Diff(other Snapshot, tolerance time.Duration) string {
	if a, b := s.Content(), other.Content(); a != b {
		return fmt.Sprintf("one holds\n%sthe other\n%s", a, b)
	}
	var b strings.Builder
	for i, e := range s.Entries {
		if o := other.Entries[i]; (e.TTL - o.TTL).Abs() > tolerance {
			fmt.Fprintf(&b, "%s %q expires in %v in one and in %v in the other, more than %v apart\n", e.Type, e.Key, e.TTL, o.TTL, tolerance)
		}
	}
	return b.String()
}
