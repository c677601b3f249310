package config_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redlatch/redlatch/config"
)

func TestMapNameAppliesTheMapperOnce(t *testing.T) {
	calls := 0
	cfg := config.Config{NameMapper: func(name string) string { calls++; return "app:" + name }}
	got, err := cfg.MapName("order:1001")
	require.NoError(t, err)
	require.Equal(t, "app:order:1001", got)
	require.Equal(t, 1, calls)
}

// NM-07
func TestNamesAreBytesAndGoThroughUnchanged(t *testing.T) {
	for _, name := range []string{"a", " ", "Bestellung:größer", "注文", "\x00\xff\xfe", "a\nb", "{t}:x", strings.Repeat("n", config.MaxNameLength)} {
		got, err := config.Config{}.MapName(name)
		require.NoError(t, err)
		require.Equal(t, name, got)
	}
}

func TestBadNamesAreRefused(t *testing.T) {
	long := strings.Repeat("n", config.MaxNameLength)
	none := func(string) string { return "" }
	prefix := func(name string) string { return "app:" + name }
	for _, c := range []struct {
		mapper     func(string) string
		name, want string
	}{
		{nil, "", "bad lock name: the name is empty; allowed is 1 to 65536 bytes"},
		{prefix, "", "bad lock name: the name is empty; allowed is 1 to 65536 bytes"},
		{none, "order:1", `bad lock name: NameMapper turned "order:1" into an empty name; allowed is 1 to 65536 bytes`},
		{nil, long + "n", "has 65537 bytes in Redis; allowed is 1 to 65536 bytes"},
		{prefix, long, "has 65540 bytes in Redis; allowed is 1 to 65536 bytes"},
	} {
		got, err := config.Config{NameMapper: c.mapper}.MapName(c.name)
		require.ErrorIs(t, err, config.ErrName)
		require.ErrorContains(t, err, c.want)
		require.Empty(t, got)
		require.Less(t, len(err.Error()), 300, "an error does not repeat a name of any length")
	}
}

func TestCompanionsFollowTheBraceRule(t *testing.T) {
	for _, c := range []struct{ name, prefixed, suffixed string }{
		{"order:1", "p:{order:1}", "{order:1}:s"},
		{"{order}:1", "p:{order}:1", "{order}:1:s"},
		{"a{b", "p:a{b", "a{b:s"},
		{"a}b", "p:{a}b}", "{a}b}:s"},
		{"{}x", "p:{}x", "{}x:s"},
		{"größe\xff", "p:{größe\xff}", "{größe\xff}:s"},
	} {
		require.Equal(t, c.prefixed, config.Prefixed("p", c.name))
		require.Equal(t, c.suffixed, config.Suffixed(c.name, "s"))
	}
	require.Equal(t, "redisson_lock__channel:{order:1}", config.Prefixed(config.ChannelPrefix, "order:1"))
}

// The first is the check value that the cluster specification gives, the next ones are what CLUSTER KEYSLOT of Redis 7.0 answers.
func TestSlotIsThatOfTheClusterSpecification(t *testing.T) {
	for key, want := range map[string]uint16{
		"123456789":            0x31C3,
		"":                     0,
		"foo":                  12182,
		"bar":                  5061,
		"hello":                866,
		"{foo}":                12182,
		"{foo}:bar":            12182,
		"x{foo}{bar}":          12182,
		"{user1000}.following": 3443,
		"user1000":             3443,
		"foo{}{bar}":           8363,
		"foo{{bar}}zap":        4015,
		"{bar":                 4015,
		"foo{bar}{zap}":        5061,
	} {
		require.Equal(t, want, config.Slot(key), "%q", key)
	}
}

// NM-01
func TestNamesWhoseKeysShareASlotAreSafe(t *testing.T) {
	for _, name := range []string{"order:1", "{t}:x", "a}b{c}d", "a{b}c}d", "{{x}", "größe", "\xff\x00", "x{a}{}"} {
		require.NoError(t, config.SlotSafe(name), "%q", name)
	}
}

// NM-02
func TestNamesThatBreakInAClusterSayWhy(t *testing.T) {
	for name, want := range map[string]string{
		"a{b":     `its "{" has no "}" after it`,
		"a}b{c":   `its "{" has no "}" after it`,
		"{}x":     `its first "{" is followed by "}" at once`,
		"a{}b{c}": `its first "{" is followed by "}" at once`,
		"a}b":     `its "}" ends the tag that is put around it too early, so "redisson_lock__channel:{a}b}" is in slot 15495 but the lock itself in slot`,
		"}x":      `its "}" ends the tag`,
		"":        "the name is empty",
	} {
		err := config.SlotSafe(name)
		require.ErrorIs(t, err, config.ErrName)
		require.ErrorContains(t, err, want, "%q", name)
	}
}

// All companions of a name with a "}" alone share the tag before it; where that tag has the slot of the name by chance, nothing breaks.
func TestANameThatWorksByChanceIsNotRefused(t *testing.T) {
	for i := range 1_000_000 {
		if name := "t}" + strconv.Itoa(i); config.Slot(name) == config.Slot("t") {
			require.NoError(t, config.SlotSafe(name))
			requireSlotSafeIsRight(t, name)
			return
		}
	}
	t.Fatal("no such name found")
}

func TestSlotSafeMeansThatEveryCompanionSharesTheSlot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[ab{}]{1,8}`).Draw(t, "name")
		requireSlotSafeIsRight(t, name)
	})
}

func FuzzSlotSafe(f *testing.F) {
	for _, name := range []string{"order:1", "{t}:x", "a}b{c}d", "a{b", "{}x", "a}b", "a{}b{c}", "}{", "\xff{\x00}", "{}}"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		require.Less(t, config.Slot(name), uint16(config.Slots))
		if name != "" {
			requireSlotSafeIsRight(t, name)
		}
	})
}

// requireSlotSafeIsRight holds SlotSafe against its definition: every companion key in the slot of the name.
func requireSlotSafeIsRight(t require.TestingT, name string) {
	const owner = "8743c9c0-0795-4907-87fd-6c719a6b4586:47"
	companions := []string{config.Suffixed(name, owner+":"+config.ReadTimeoutSuffix) + ":1"}
	for _, prefix := range []string{
		config.ChannelPrefix, config.RWChannelPrefix, config.QueuePrefix, config.TimeoutPrefix, config.TokenPrefix, config.UnlockLatchPrefix,
	} {
		companions = append(companions, config.Prefixed(prefix, name), config.Prefixed(prefix, name)+":"+owner)
	}
	apart := 0
	for _, key := range companions {
		if config.Slot(key) != config.Slot(name) {
			apart++
		}
	}
	if err := config.SlotSafe(name); err == nil {
		require.Zero(t, apart, "%q is called safe", name)
	} else {
		require.NotZero(t, apart, "%q is refused: %v", name, err)
	}
}
