package redlatch_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A claim whose test has been renamed or removed is a claim that nobody proves.
func TestDocsNameTestsThatExist(t *testing.T) {
	t.Parallel()
	named := regexp.MustCompile("`(Test\\w+)(?:/…/(\\w+))?`")
	tests, promises := declared(t)
	docs, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	found := 0
	for _, doc := range docs {
		text, err := os.ReadFile(doc)
		require.NoError(t, err)
		for _, match := range named.FindAllStringSubmatch(string(text), -1) {
			found++
			require.True(t, tests[match[1]], "%s names %s, which is no test", doc, match[1])
			if match[2] != "" {
				require.True(t, promises[match[2]], "%s names %s, which is no promise of internal/locktest", doc, match[2])
			}
		}
	}
	require.Greater(t, found, 50, "the guarantees name their tests")
}

// declared are the tests of this module, and the promises of internal/locktest, which are subtests.
func declared(t *testing.T) (tests, promises map[string]bool) {
	t.Helper()
	tests, promises = make(map[string]bool), make(map[string]bool)
	test, promise := regexp.MustCompile(`(?m)^func (Test\w+)\(`), regexp.MustCompile(`(?m)^\t\{"(\w+)", `)
	module := os.DirFS(".")
	require.NoError(t, fs.WalkDir(module, ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := fs.ReadFile(module, path)
		if err != nil {
			return err
		}
		if strings.HasSuffix(path, "_test.go") {
			for _, match := range test.FindAllStringSubmatch(string(text), -1) {
				tests[match[1]] = true
			}
		}
		if strings.HasPrefix(path, "internal/locktest/") {
			for _, match := range promise.FindAllStringSubmatch(string(text), -1) {
				promises[match[1]] = true
			}
		}
		return nil
	}))
	return tests, promises
}
