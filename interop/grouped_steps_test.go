package interop

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// groupStep is one call of one of two owners on a group of values.
type groupStep struct {
	who    int
	op     string
	values []string
	lease  time.Duration
}

const (
	groupTry    = "try"
	groupLower  = "unlock, and stay held"
	groupUnlock = "unlock"
	groupForce  = "force"
	groupLocked = "locked"
	groupExpire = "expire" // waits until the values are free by themselves
)

// groupProgram goes through all that the scripts tell apart. Leases are far from each other, so that one that was set shows, and each call
// has one, since a lock object of Redisson's remembers its last.
var groupProgram = []groupStep{
	{0, groupTry, []string{"a", "b"}, time.Minute},
	{1, groupTry, []string{"b", "c"}, time.Minute},
	{1, groupTry, []string{"c", "d"}, 5 * time.Minute},
	{0, groupTry, []string{"a", "b"}, 2 * time.Minute},  // lengthens the lease
	{0, groupTry, []string{"a", "b"}, 10 * time.Second}, // does not shorten it
	{0, groupLower, []string{"a", "b"}, 0},
	{1, groupUnlock, []string{"a", "b"}, 0}, // is not the owner
	{0, groupLocked, []string{"x", "d"}, 0},
	{0, groupLocked, []string{"x", "y"}, 0},
	{0, groupLower, []string{"a", "b"}, 0},
	{0, groupUnlock, []string{"a", "b"}, 0}, // frees it; the hash stays
	{0, groupUnlock, []string{"a", "b"}, 0}, // once too often
	{0, groupTry, []string{"b"}, 300 * time.Millisecond},
	{1, groupExpire, []string{"b"}, 0},
	{1, groupTry, []string{"b"}, time.Minute}, // overtakes what the other has left
	{0, groupUnlock, []string{"b"}, 0},        // too late
	{0, groupForce, []string{"b"}, 0},
	{1, groupUnlock, []string{"b"}, 0}, // was forced
	{0, groupTry, []string{"a", "e"}, time.Minute},
	{1, groupForce, []string{"e"}, 0}, // takes one of two away
	{0, groupUnlock, []string{"a", "e"}, 0},
	{1, groupUnlock, []string{"c", "d"}, 0}, // the last values take the hash with them
	{1, groupUnlock, []string{"c", "d"}, 0},
}

// groupTrace is what one step shows.
type groupTrace struct {
	answer string
	told   []string // messages
	fields map[string]string
	ends   map[string]time.Duration // of the fields that are times
	ttl    time.Duration
}

// groupDifferences are those on purpose: each makes the traces of both languages equal where they are meant to differ.
var groupDifferences = []struct {
	what, why string
	level     func(st groupStep, t *groupTrace)
}{
	{
		"Redlatch publishes a 1 before the 0",
		"all values share a channel, and a JVM wakes a single waiter for a 0, who may wait for another value",
		func(_ groupStep, t *groupTrace) {
			t.told = slices.DeleteFunc(t.told, func(message string) bool { return strings.HasSuffix(message, " 1") })
		},
	},
	{
		"Redisson publishes when a release only lowers the count, and Redlatch does not",
		"nothing became free, so that a waiter is woken in vain",
		func(st groupStep, t *groupTrace) {
			if st.op == groupLower {
				t.told = nil
			}
		},
	},
	{
		"Redlatch clears away what an earlier owner has left beside a value",
		"a hash in steady use would collect it for ever, and Redisson would count on from it if that owner came back",
		func(_ groupStep, t *groupTrace) {
			for field := range t.fields {
				if value, of, more := strings.Cut(field, ":"); more && !strings.HasPrefix(of, t.fields[value]+":") {
					delete(t.fields, field)
					delete(t.ends, field)
				}
			}
			if len(t.fields) == 0 { // what was left alone kept the hash
				t.ttl = 0
			}
		},
	},
	{
		"a release in vain publishes in Redisson when the hash is gone, in Redlatch when it frees what was left of the group",
		"who waits for what ended by itself wakes by itself, and what a release frees somebody may wait for",
		func(_ groupStep, t *groupTrace) {
			if t.answer == errNotHeld.Error() {
				t.told = nil
			}
		},
	},
}

func groupsStepAlike(t *testing.T, on *topology) {
	f := newGroupFleet(t, on, 30*time.Second)
	c, j := f.goClient(t), f.javaClient(t)
	casts := []struct {
		language string
		owners   [2]groupOwner
	}{
		{"Java", [2]groupOwner{f.groupInJava(t, j), f.groupInJava(t, j)}}, // the standard
		{"Go", [2]groupOwner{f.groupInGo(c), f.groupInGo(c)}},
		{"Go and Java", [2]groupOwner{f.groupInGo(c), f.groupInJava(t, j)}},
		{"Java and Go", [2]groupOwner{f.groupInJava(t, j), f.groupInGo(c)}},
	}
	standard := f.playGroups(t, casts[0].owners)
	for _, cast := range casts[1:] {
		for i, got := range f.playGroups(t, cast.owners) {
			where := fmt.Sprintf("%s differs from Java at step %d, %v", cast.language, i+1, groupProgram[i])
			require.Equal(t, standard[i].answer, got.answer, where)
			require.Equal(t, slices.Concat(standard[i].told), slices.Concat(got.told), where)
			require.Equal(t, standard[i].fields, got.fields, where)
			const patience = 6 * time.Second // for the time between the step and the look at it
			for field, end := range standard[i].ends {
				require.InDelta(t, end, got.ends[field], float64(patience), "%s: %s", where, field)
			}
			require.InDelta(t, standard[i].ttl, got.ttl, float64(patience), "%s: TTL", where)
		}
	}
	t.Logf("interop-note: %d steps in each of %d casts, alike but for %d differences on purpose",
		len(groupProgram), len(casts), len(groupDifferences))
}

func (f *fleet) playGroups(t *testing.T, owners [2]groupOwner) (traces []groupTrace) {
	t.Helper()
	f.flush(t)
	heard := f.listen(t, name, channelsOf(name)...)
	parties := [2]map[string]party{{}, {}} // a party remembers its holds
	for _, st := range groupProgram {
		values := strings.Join(st.values, " ")
		who := parties[st.who][values]
		if who == nil {
			who = owners[st.who](st.values...)
			parties[st.who][values] = who
		}
		tr := groupTrace{answer: playGroup(t, st, who)}
		f.look(t, &tr, owners)
		for _, m := range heard.Messages(t) {
			tr.told = append(tr.told, m.Channel+" "+m.Payload)
		}
		heard.Reset(t)
		for _, difference := range groupDifferences {
			difference.level(st, &tr)
		}
		traces = append(traces, tr)
	}
	return traces
}

func playGroup(t *testing.T, st groupStep, who party) string {
	t.Helper()
	var yes bool
	var err error
	switch st.op {
	case groupTry:
		yes, err = who.tryLock(bounded(t), 0, st.lease)
	case groupUnlock, groupLower:
		err = who.unlock(bounded(t))
	case groupForce:
		yes, err = who.forceUnlock(bounded(t))
	case groupLocked:
		yes, err = who.isLocked(bounded(t))
	case groupExpire:
		require.Eventually(t, func() bool {
			locked, err := who.isLocked(bounded(t))
			return err == nil && !locked
		}, 15*time.Second, 10*time.Millisecond)
	}
	if err != nil {
		require.ErrorIs(t, err, errNotHeld)
		return errNotHeld.Error()
	}
	return strconv.FormatBool(yes)
}

// look reads the hash, with the owners by their number.
func (f *fleet) look(t *testing.T, tr *groupTrace, owners [2]groupOwner) {
	t.Helper()
	rename := func(text string) string {
		for i, of := range owners { // Go's owners bear a mark of 22 characters, which tells the group
			owner := regexp.MustCompile(regexp.QuoteMeta(of("any").field()) + "(:[A-Za-z0-9+/]{22})?")
			text = owner.ReplaceAllString(text, "<owner "+strconv.Itoa(i)+">")
		}
		return text
	}
	snap := f.server.Snapshot(t)
	entry, _ := snap.Get(name)
	tr.ttl, tr.fields, tr.ends = entry.TTL, map[string]string{}, map[string]time.Duration{}
	for _, item := range entry.Items {
		field := rename(item.Name)
		if !strings.HasSuffix(field, ":expire_time") {
			tr.fields[field] = rename(item.Value)
			continue
		}
		ms, err := strconv.ParseInt(item.Value, 10, 64)
		require.NoError(t, err)
		tr.fields[field], tr.ends[field] = "", time.UnixMilli(ms).Sub(snap.At)
	}
	for _, key := range snap.Keys() {
		require.True(t, key == name || ignoredKey(key), "a further key: %s", key)
	}
}
