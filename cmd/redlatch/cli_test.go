//go:build unix

package main

import (
	"crypto/sha1" //nolint:gosec // EVALSHA names a script by its SHA-1; nothing is protected by it.
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/demo"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/lua"
)

func TestWrongArgumentsSayWhatToDo(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for line, want := range map[string]string{
		"nonsense":                                  `unknown command "nonsense"`,
		"--nonsense":                                "unknown flag: --nonsense; see redlatch --help",
		"run":                                       "needs the name of a lock and a command",
		"run job ls":                                `put "--" between the lock's name and the command`,
		"run a b -- ls":                             `one name before "--", not 2`,
		"run job --":                                `no command after "--"`,
		"run -- ls":                                 `one name before "--", not 0`,
		"run --wait -2s job -- ls":                  "--wait is -2s",
		"run --lease -1s job -- ls":                 "--lease is -1s; allowed is 100ms to",
		"run --max-hold 1ms job -- ls":              "--max-hold is 1ms; allowed is 100ms to",
		"run --grace -1s job -- ls":                 "--grace is -1s",
		"run --lease 1us job -- ls":                 "--lease is 1µs; allowed is 100ms to",
		"run --lease 9s --max-hold 9s j -- ls":      "use one of them",
		"run --grace 11s job -- ls":                 "--grace is 11s; allowed is up to a third of the lease of 30s",
		"run --watchdog-timeout 1ms j -- ls":        "--watchdog-timeout is 1ms; allowed is",
		"run --redis nowhere job -- ls":             `--redis is "nowhere"`,
		"run --username me job -- ls":               "--username is set without a password",
		"run --password-file /none j -- ls":         "--password-file can't be read",
		"run --password-file " + empty + " j -- ls": "which is empty",
		"run --tls-ca /none job -- ls":              "--tls-ca can't be read",
		"run --tls-ca " + empty + " job -- ls":      "holds no certificate",
		"run --redis a:1,b:2 j -- ls":               "--redis names 2 servers; add --cluster, or --sentinel NAME",
		"run --redis a:1 --redis b:2 j -- ls":       "--redis names 2 servers",
		"run --redis redis://:1,2@h j -- ls":        "--redis has a comma within an address; write %2C",
		"run --cluster --redis nowhere j -- ls":     `--redis is "nowhere"`,
		"run --cluster --database 1 j -- ls":        "the database of --redis or --database is 1; allowed is 0",
		"run --cluster --sentinel m j -- ls":        "[cluster sentinel]",
		"run --sentinel m --redis h:1/2 j -- ls":    "--redis is",
		"run --config a --redis h:1 j -- ls":        "[config redis]",
		"run --config a --sentinel m j -- ls":       "[config sentinel]",
		"run --config a --username me j -- ls":      "[config username]",
		"run --config /none j -- ls":                "--config: config: open /none",
		"run --config " + empty + " j -- ls":        "--config: read " + empty + ": config: the YAML is without a section",
		"demo --sentinel m":                         "name it with --redis",
		"demo --cluster":                            "name it with --redis",
		"demo --database 3":                         "name it with --redis",
		"demo extra":                                `takes no arguments, but got "extra"`,
		"demo --kind fast":                          "the kinds are: plain",
		"demo --workers 99":                         "99 workers; allowed are 1 to 64",
		"demo --for 1h":                             "a demo of 1h0m0s; allowed are",
		"demo --for x":                              "invalid argument",
		"demo --plain --json":                       "[json plain]",
		"demo --username me":                        "name it with --redis",
		"demo --redis nowhere":                      `--redis is "nowhere"`,
		"scripts --source nothing":                  "the scripts are: acquire, ",
		"scripts x":                                 "takes no arguments",
		"version x":                                 "takes no arguments",
	} {
		code, stdout, stderr := here(t, strings.Fields(line)...)
		require.Equal(t, exitUsage, code, line)
		require.Empty(t, stdout, line)
		require.Contains(t, stderr, want, line)
		require.True(t, strings.HasPrefix(stderr, "redlatch: "), line)
		require.Equal(t, 1, strings.Count(stderr, "\n"), "one line: %s", line)
		require.NotContains(t, stderr, "2@h", "no part of a password")
	}
}

func TestHelpDocumentsTheExitCodes(t *testing.T) {
	for _, args := range [][]string{{"help"}, {"--help"}, {}, {"help", "run"}} {
		code, stdout, _ := here(t, args...)
		require.Equal(t, 0, code)
		for _, line := range []string{"Exit codes:", "\n  64 ", "\n  69 ", "\n  75 ", "\n  76 ", "\n  126 ", "\n  127 ", "\n  128+n "} {
			require.Contains(t, stdout, line)
		}
	}
}

func TestScriptsAreListedWithTheirSHA1(t *testing.T) {
	code, table, _ := here(t, "scripts")
	require.Equal(t, 0, code)
	code, text, _ := here(t, "scripts", "--json")
	require.Equal(t, 0, code)
	var list []scriptJSON
	require.NoError(t, json.Unmarshal([]byte(text), &list))
	require.Len(t, list, len(lua.Catalog()))
	for _, s := range list {
		require.Contains(t, table, s.Name)
		require.Contains(t, table, s.SHA1)
		require.NotEmpty(t, s.Purpose)
		require.NotEmpty(t, s.Replies)
		code, source, _ := here(t, "scripts", "--source", s.Name)
		require.Equal(t, 0, code)
		sum := sha1.Sum([]byte(source)) //nolint:gosec // see the import
		require.Equal(t, s.SHA1, hex.EncodeToString(sum[:]), "byte for byte")
	}
}

func TestVersionSaysWhatTheProgramWasBuiltFrom(t *testing.T) {
	b := buildOf(&debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}, {Key: "vcs.modified", Value: "true"},
	}})
	var text strings.Builder
	require.NoError(t, printVersion(&text, b, false))
	require.Contains(t, text.String(), "redlatch v1.2.3 (revision abc of 2026-01-02T03:04:05Z, with changes), go1.")
	require.Equal(t, "unknown", buildOf(nil).Version)

	code, stdout, _ := here(t, "version", "--json")
	require.Equal(t, 0, code)
	var read build
	require.NoError(t, json.Unmarshal([]byte(stdout), &read))
	require.NotEmpty(t, read.Version)
	require.NotEmpty(t, read.Platform)
}

func TestDemoEndsWithAVerdictAndItsExitCode(t *testing.T) {
	code, stdout, stderr := here(t, "demo", "--for", "1s", "--hold", "5ms", "--lease", "300ms")
	require.Equal(t, 0, code, stderr)
	require.Contains(t, stdout, "\nOK      ")
	require.Contains(t, stdout, "overlaps 0")
	require.Empty(t, stderr)

	code, stdout, _ = here(t, "demo", "--for", "1s", "--hold", "5ms", "--lease", "300ms", "--workers", "2", "--crash=false", "--json")
	require.Equal(t, 0, code)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	require.Contains(t, lines[len(lines)-1], `"event":"verdict","ok":true`)

	code, stdout, stderr = here(t, "demo", "--for", "1s", "--hold", "5ms", "--lease", "300ms", "--kind", "read-write")
	require.Equal(t, 0, code, stderr)
	require.Regexp(t, `(?m)^OK      \d+ sections \(\d+ wrote, \d+ read, up to \d at once\) by 4 workers, counter \d+, overlaps 0$`, stdout)
}

func TestDemoWithoutAServerIsUnavailable(t *testing.T) {
	code, _, stderr := here(t, "demo", "--redis", "redis://127.0.0.1:1")
	require.Equal(t, exitUnavailable, code)
	require.Contains(t, stderr, "127.0.0.1:1")
}

// Maven would be looked for next; without Java there is nothing to run what it builds.
func TestDemoWithJavaSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("JAVA_HOME", "")
	code, _, stderr := here(t, "demo", "--java", "--redis", redistest.NewMini(t).URL())
	require.Equal(t, exitUnavailable, code)
	require.Contains(t, stderr, "no java to run the Java agent with")
	require.Contains(t, stderr, "install a JDK 17 or newer and Maven")
}

func TestDemoUsesAnotherLockOnASharedServer(t *testing.T) {
	var f demoFlags
	f.kind, f.options.For, f.options.Hold = "plain", demo.MinFor, demo.MinHold
	require.NoError(t, f.complete(stdio{}))
	require.Equal(t, demoLock, f.options.Name)
	f.options.Name, f.redis = "", []string{"redis://127.0.0.1:6379"}
	require.NoError(t, f.complete(stdio{}))
	require.Equal(t, demoLockShared, f.options.Name)
}

func TestStyleFollowsTheEnvironment(t *testing.T) {
	style := func(env ...string) demo.Style {
		return styleOf(func(name string) string {
			for _, setting := range env {
				if value, found := strings.CutPrefix(setting, name+"="); found {
					return value
				}
			}
			return ""
		})
	}
	require.Equal(t, demo.Style{Colour: true, Unicode: true}, style())
	require.Equal(t, demo.Style{Colour: false, Unicode: true}, style("NO_COLOR=1", "LANG=de_DE.UTF-8"))
	require.Equal(t, demo.Style{Colour: true, Unicode: false}, style("LANG=C"))
	require.Equal(t, demo.Style{Colour: true, Unicode: true}, style("LANG=C", "LC_ALL=C.utf8"))
}

func TestErrorsAreOneLineUnlessABuildToolWroteThem(t *testing.T) {
	require.Equal(t, "redlatch: a; b; c", message(exit(1, errors.Join(errors.New("redlatch: a"), errors.New("b"), errors.New("c")))))
	require.Equal(t, "redlatch: it failed\n1\n2\n3\n4", message(exit(1, errors.New("javaagent: it failed\n1\n2\n3\n4"))))
	require.Empty(t, message(&exitError{code: 3}))
}
