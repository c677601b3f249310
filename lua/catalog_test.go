package lua_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/lua"
)

// heading is the form of a line of a header. It is written down a second time here, apart from the catalog's own reader,
// so that neither can go wrong alone.
var heading = regexp.MustCompile(`^-- (KEYS|ARGV|reply)(?:\[(\d+)(\.\.)?\])? +(\S+) +(\S.*)$`)

// headerOf is the leading comment of a script.
func headerOf(source string) []string {
	lines := strings.Split(source, "\n")
	end := slices.IndexFunc(lines, func(line string) bool { return !strings.HasPrefix(line, "--") })
	return lines[:end]
}

func TestCatalogListsEveryScriptFileOnceInOrder(t *testing.T) {
	paths, err := filepath.Glob("*.lua")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	slices.Sort(paths)

	var listed []string
	for _, script := range lua.Catalog() {
		listed = append(listed, script.Name+".lua")
		file, err := os.ReadFile(script.Name + ".lua")
		require.NoError(t, err)
		require.Equal(t, string(file), script.Source, "the text that is sent is the file, byte for byte")
	}
	require.Equal(t, paths, listed)
}

func TestCatalogNamesAScriptAsTheServerDoes(t *testing.T) {
	server := redistest.Start(t)
	for _, script := range lua.Catalog() {
		require.Equal(t, server.Do(t, "SCRIPT", "LOAD", script.Source).Text(), script.SHA1, script.Name)
	}
}

func TestHeaderTellsPurposeAndReplies(t *testing.T) {
	for _, script := range lua.Catalog() {
		t.Run(script.Name, func(t *testing.T) {
			require.Regexp(t, `^[A-Z].*\.$`, script.Purpose, "the purpose is a sentence")
			require.NotContains(t, script.Purpose, "KEYS")
			require.NotEmpty(t, script.Replies)
			for _, p := range slices.Concat(script.Keys, script.Args, script.Replies) {
				require.NotEmpty(t, p.Name)
				require.NotEmpty(t, p.Meaning)
			}
			seen := map[string]bool{}
			for _, reply := range script.Replies {
				require.False(t, seen[reply.Name], "reply %s is described twice", reply.Name)
				seen[reply.Name] = true
			}
		})
	}
}

// A line that looks like a heading and is not read as one would take a key out of the contract without a word.
func TestHeaderIsReadWhole(t *testing.T) {
	for _, script := range lua.Catalog() {
		t.Run(script.Name, func(t *testing.T) {
			found := map[string][]lua.Param{}
			for _, line := range headerOf(script.Source) {
				if !regexp.MustCompile(`^--\s*(KEYS|ARGV|reply)\b`).MatchString(line) {
					continue
				}
				m := heading.FindStringSubmatch(line)
				require.NotNil(t, m, "not of the form of a heading: %s", line)
				kind := m[1]
				if kind != "reply" {
					require.Equal(t, strconv.Itoa(len(found[kind])+1), m[2], "numbered in order and without a gap: %s", line)
				}
				found[kind] = append(found[kind], lua.Param{Name: m[4], Meaning: m[5], Variadic: m[3] != ""})
			}
			require.Equal(t, found["KEYS"], script.Keys)
			require.Equal(t, found["ARGV"], script.Args)
			require.Equal(t, found["reply"], script.Replies)
		})
	}
}

func TestOnlyTheLastKeyOrArgumentIsVariadic(t *testing.T) {
	for _, script := range lua.Catalog() {
		for _, list := range [][]lua.Param{script.Keys, script.Args} {
			for i, p := range list {
				require.False(t, p.Variadic && i != len(list)-1, "%s: %s", script.Name, p.Name)
			}
		}
		for _, reply := range script.Replies {
			require.False(t, reply.Variadic, "%s: reply %s", script.Name, reply.Name)
		}
	}
}

// Each key and argument of the header is read, and nothing beyond it: what is read in another way than by a number
// (KEYS[i], #ARGV, ipairs) needs a variadic heading.
func TestScriptReadsWhatItsHeaderNames(t *testing.T) {
	mention := regexp.MustCompile(`\b(KEYS|ARGV)\b(?:\[(\d+)\])?`)
	for _, script := range lua.Catalog() {
		t.Run(script.Name, func(t *testing.T) {
			declared := map[string][]lua.Param{"KEYS": script.Keys, "ARGV": script.Args}
			read := map[string]map[int]bool{"KEYS": {}, "ARGV": {}}
			for _, line := range strings.Split(script.Source, "\n") {
				code, _, _ := strings.Cut(line, "--")
				for _, m := range mention.FindAllStringSubmatch(code, -1) {
					params := declared[m[1]]
					if m[2] == "" {
						require.True(t, len(params) > 0 && params[len(params)-1].Variadic, "no variadic heading for: %s", line)
						read[m[1]][len(params)] = true
						continue
					}
					n, err := strconv.Atoi(m[2])
					require.NoError(t, err)
					require.True(t, n >= 1 && n <= len(params), "beyond the header: %s", line)
					read[m[1]][n] = true
				}
			}
			for kind, params := range declared {
				require.Len(t, read[kind], len(params), "%s: headings and what is read differ", kind)
			}
		})
	}
}

func TestCatalogIsACopyThatCallersMayChange(t *testing.T) {
	want := lua.Catalog()
	spoiled := lua.Catalog()
	for i := range spoiled {
		spoiled[i].Name, spoiled[i].SHA1, spoiled[i].Source = "spoiled", "spoiled", "spoiled"
		for _, list := range [][]lua.Param{spoiled[i].Keys, spoiled[i].Args, spoiled[i].Replies} {
			for j := range list {
				list[j] = lua.Param{Name: "spoiled"}
			}
		}
	}
	require.Equal(t, want, lua.Catalog())
	for _, script := range lua.Catalog() {
		for _, p := range slices.Concat(script.Keys, script.Args, script.Replies) {
			require.NotEqual(t, "spoiled", p.Name, "the parameters of %s are shared with callers", script.Name)
		}
	}
}
