package demo

import (
	"bufio"
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sample is a second in the life of three workers; the second one is dead at its end, and the third one waits.
func sample(t *testing.T) *Board {
	t.Helper()
	return shown(t, []string{"go-1", "go-2", "java-1"},
		Event{At: 0, Worker: "go-1", Kind: Waiting, Section: 1}, Event{At: 0, Worker: "go-1", Kind: Acquired, Section: 1},
		Event{At: 100 * ms, Worker: "go-2", Kind: Waiting, Section: 1}, Event{At: 200 * ms, Worker: "java-1", Kind: Waiting, Section: 1},
		Event{At: 300 * ms, Worker: "go-1", Kind: Released, Section: 1}, Event{At: 300 * ms, Worker: "java-1", Kind: Acquired, Section: 1},
		Event{At: 500 * ms, Worker: "java-1", Kind: Released, Section: 1}, Event{At: 500 * ms, Worker: "go-2", Kind: Acquired, Section: 1},
		Event{At: 600 * ms, Worker: "java-1", Kind: Waiting, Section: 2},
		Event{At: 700 * ms, Worker: "go-2", Kind: Crashed, Section: 1, Took: 500 * ms},
	)
}

var sampleInfo = Info{
	Lock: "order:1001", Kind: "plain", Server: "embedded miniredis",
	Workers: []string{"go-1", "go-2", "java-1"}, For: 2 * time.Second, Lease: time.Second,
}

func TestTimelineShowsOneHolderInEachColumn(t *testing.T) {
	s := NewScreen(new(bytes.Buffer), nil, Style{Unicode: true})
	s.info, s.board = sampleInfo, sample(t)
	// 20 columns of 100 ms
	lines := s.render(time.Second, 2+8+20+26+1, 24)
	require.Equal(t, []string{
		"",
		"  order:1001  plain lock on embedded miniredis  1.0 of 2 s",
		"",
		"  go-1    ███                   rests             1 done",
		"  go-2     ····██▒▒▒            crashed  200 ms   0 done",
		"  java-1    ·██ ····            waits    400 ms   1 done",
		"",
		"  order:1001 go-2 is dead and unlocks nothing: its key expires in 200 ms, 1 waiting",
		"  2 sections, 0 overlaps",
		"  █ holds  · waits  ▒ crashed, and its key still there",
	}, lines)
	for column := range 20 {
		holders := 0
		for _, row := range lines[3:6] {
			if cell := []rune(row)[10+column]; cell == '█' || cell == '▒' {
				holders++
			}
		}
		require.LessOrEqual(t, holders, 1, "column %d", column)
	}
}

func TestTimelineShowsReadersTogetherAndAWriterAlone(t *testing.T) {
	workers := []string{"go-1", "go-2", "java-1"}
	s := NewScreen(new(bytes.Buffer), nil, Style{Unicode: true})
	s.info = sampleInfo
	s.info.Kind, s.info.Readers = "read-write", true
	s.board = shown(t, workers,
		Event{At: 0, Worker: "go-1", Kind: Waiting, Mode: Reads}, Event{At: 0, Worker: "go-1", Kind: Acquired, Mode: Reads},
		Event{At: 100 * ms, Worker: "java-1", Kind: Waiting, Mode: Reads}, Event{At: 100 * ms, Worker: "java-1", Kind: Acquired, Mode: Reads},
		Event{At: 200 * ms, Worker: "go-2", Kind: Waiting, Mode: Writes},
		Event{At: 300 * ms, Worker: "go-1", Kind: Released, Mode: Reads}, Event{At: 400 * ms, Worker: "java-1", Kind: Released, Mode: Reads},
		Event{At: 400 * ms, Worker: "go-2", Kind: Acquired, Mode: Writes}, Event{At: 700 * ms, Worker: "go-2", Kind: Released, Mode: Writes},
		Event{At: 700 * ms, Worker: "go-1", Kind: Waiting, Mode: Reads}, Event{At: 700 * ms, Worker: "go-1", Kind: Acquired, Mode: Reads},
		Event{At: 800 * ms, Worker: "java-1", Kind: Waiting, Mode: Reads}, Event{At: 800 * ms, Worker: "java-1", Kind: Acquired, Mode: Reads},
		Event{At: 850 * ms, Worker: "go-2", Kind: Waiting, Mode: Writes},
	)
	lines := s.render(time.Second, 2+8+20+26+1, 24)
	require.Equal(t, []string{
		"  go-1    ▄▄▄    ▄▄▄            reads    300 ms   1 done",
		"  go-2      ··███ ··            waits    150 ms   1 done",
		"  java-1   ▄▄▄    ▄▄            reads    200 ms   1 done",
		"",
		"  order:1001 read by go-1, java-1, 1 waiting",
		"  3 sections, 2 of them read, 0 overlaps",
		"  █ writes  ▄ reads  · waits  ▒ crashed, and its key still there",
	}, lines[3:])
	require.Contains(t, s.render(500*ms, 80, 24)[4], "writes", "the writer's word while it is inside")
	require.Zero(t, s.board.verdict().Overlaps)
	require.Equal(t, 2, s.board.verdict().Together)
}

func TestReadersAndWritersAreToldApartInWordsAndInJSON(t *testing.T) {
	var text, objects bytes.Buffer
	o := brief(t)
	o.Kind, o.For = readWrite(t), time.Second
	v, err := Run(t.Context(), o, NewLines(&text))
	require.NoError(t, err)
	require.True(t, v.OK(), "%v", v.Problems)
	for _, pattern := range []string{
		`waits     to read, section 1`, `waits     to write, section \d+`, `reads     section \d+, waited`, `writes    section \d+, waited`,
		`(?m)^OK      \d+ sections \(\d+ wrote, \d+ read, up to [234] at once\) by 4 workers, counter \d+, overlaps 0$`, `go-1 \d+ \(\d+ read\)`,
	} {
		require.Regexp(t, pattern, text.String())
	}

	v, err = Run(t.Context(), o, NewJSON(&objects))
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(objects.String()), "\n")
	require.Contains(t, objects.String(), `"event":"acquired","worker":"go-1","section":1,"mode":"read"`)
	var verdict jsonVerdict
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &verdict))
	require.True(t, verdict.OK)
	require.Equal(t, v.Reads, verdict.Reads)
	require.Equal(t, v.Together, verdict.Together)
	require.Equal(t, verdict.Counter, verdict.Sections-verdict.Reads)
	var read int64
	for _, w := range verdict.Workers {
		read += w.Reads
	}
	require.Equal(t, verdict.Reads, read)
}

func TestTimelineFitsTheWindow(t *testing.T) {
	b := sample(t)
	for _, width := range []int{0, 60, 80, 200} {
		for _, height := range []int{0, 14, 50} {
			s := NewScreen(new(bytes.Buffer), nil, Style{})
			s.info, s.board = sampleInfo, b
			lines := s.render(time.Second, width, height)
			if height > 0 {
				require.Less(t, len(lines), height)
			}
			if width == 0 {
				width = 80
			}
			for _, row := range lines[3:6] {
				require.Less(t, len(row), width, "%q", row)
			}
		}
	}
}

func TestTimelineScrollsWhenItIsLong(t *testing.T) {
	s := NewScreen(new(bytes.Buffer), nil, Style{})
	s.info, s.board = sampleInfo, sample(t)
	s.info.For = time.Minute
	row := s.render(10*time.Second, 80, 24)[3]
	require.NotContains(t, row, "#", "what was 10 s ago has left the window")
}

func TestColoursTellLanguagesApart(t *testing.T) {
	s := NewScreen(new(bytes.Buffer), nil, Style{Colour: true, Unicode: true})
	s.info, s.board = sampleInfo, sample(t)
	text := strings.Join(s.render(time.Second, 80, 24), "\n")
	require.Contains(t, text, "\x1b[36mgo-1")
	require.Contains(t, text, "\x1b[33mjava-1")
	require.Contains(t, text, "\x1b[31m▒")
}

func TestScreenGivesTheTerminalBack(t *testing.T) {
	var out bytes.Buffer
	screen := NewScreen(&out, func() (int, int) { return 100, 30 }, Style{Colour: true, Unicode: true})
	o := brief(t)
	o.For = MinFor
	v, err := Run(t.Context(), o, screen)
	require.NoError(t, err)
	screen.Close()
	require.True(t, v.OK())
	text := out.String()
	require.True(t, strings.HasPrefix(text, enterLive))
	require.Equal(t, 1, strings.Count(text, leaveLive))
	_, after, _ := strings.Cut(text, leaveLive)
	require.Contains(t, after, "overlaps 0")
	require.Greater(t, strings.Count(text, "\x1b[11A"), 3, "frames are drawn over each other")
}

func TestScreenThatWasNeverBegunIsClosedQuietly(t *testing.T) {
	var out bytes.Buffer
	NewScreen(&out, nil, Style{}).Close()
	require.Empty(t, out.String())
}

func TestLinesTellEveryEvent(t *testing.T) {
	var out bytes.Buffer
	o := brief(t)
	o.Crash = true
	v, err := Run(t.Context(), o, NewLines(&out))
	require.NoError(t, err)
	require.True(t, v.OK(), "%v", v.Problems)
	text := out.String()
	require.NotContains(t, text, "\x1b", "no control characters")
	require.Contains(t, text, `4 workers contend for the plain lock "order:1001" for 2s, on embedded miniredis`)
	for _, pattern := range []string{
		`(?m)^ +0\.\d{3} s  go-\d    holds     section 1, waited `,
		`releases  section \d+, held `, `crashes   and holds the lock`, `restarts  as a new client`, `(?m)ends$`,
		`(?m)^OK      \d+ sections by 4 workers, counter \d+, overlaps 0$`, `hand-off .* p50 .*, p99 `, `crashed with the lock; its key expired, and go-\d had`,
	} {
		require.Regexp(t, pattern, text)
	}
}

func TestVerdictInWordsSaysWhatFailed(t *testing.T) {
	lines := strings.Join(verdictLines(Verdict{Problems: []string{"the lock did not exclude"}, Sections: 3, Counter: 2, Overlaps: 1, Lost: 1}), "\n")
	require.Contains(t, lines, "FAILED  3 sections by 0 workers, counter 2, overlaps 1\n        the lock did not exclude")
	require.Contains(t, lines, "1 lock lost before the section's end")
}

func TestJSONIsOneObjectForEachLine(t *testing.T) {
	var out bytes.Buffer
	o := brief(t)
	o.Crash = true
	v, err := Run(t.Context(), o, NewJSON(&out))
	require.NoError(t, err)
	var lines []map[string]any
	for scan := bufio.NewScanner(&out); scan.Scan(); {
		var line map[string]any
		require.NoError(t, json.Unmarshal(scan.Bytes(), &line), "%s", scan.Text())
		lines = append(lines, line)
	}
	require.Equal(t, "start", lines[0]["event"])
	require.Equal(t, "order:1001", lines[0]["lock"])
	last := lines[len(lines)-1]
	require.Equal(t, "verdict", last["event"])
	require.Equal(t, v.OK(), last["ok"])
	require.InDelta(t, v.Sections, last["sections"], 0)
	require.InDelta(t, v.Counter, last["counter"], 0)
	require.Equal(t, []any{}, last["problems"])
	require.Len(t, last["workers"], 4)
	kinds := map[any]int{}
	for _, line := range lines[1 : len(lines)-1] {
		kinds[line["event"]]++
		require.Contains(t, line, "atMs")
		require.Contains(t, line, "worker")
	}
	require.EqualValues(t, v.Sections, kinds["released"])
	require.Equal(t, 1, kinds["crashed"])
}

func TestDurationsAreShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-1: "0 ms", 1234 * time.Microsecond: "1.23 ms", 31 * ms: "31 ms", 999 * ms: "999 ms", 1500 * ms: "1.50 s",
	} {
		require.Equal(t, want, short(d))
	}
}
