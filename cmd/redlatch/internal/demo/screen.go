package demo

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// framePause is how often the screen is drawn.
const framePause = 50 * time.Millisecond

// Screen shows the demo as a live timeline: a row for each worker, a column for each moment. Every column is what was true at one
// instant, so that of a lock that excludes no column ever has two holders, but for holders that all only read.
type Screen struct {
	out   io.Writer
	size  func() (width, height int)
	style Style

	info    Info
	board   *Board
	drawn   int // lines of the last frame
	stop    chan struct{}
	drawing sync.WaitGroup
}

// Style says what the terminal can show.
type Style struct {
	Colour  bool
	Unicode bool
}

// NewScreen makes a viewer for a terminal. size is asked before each frame; where it can't tell, it returns 0.
func NewScreen(out io.Writer, size func() (width, height int), style Style) *Screen {
	return &Screen{out: out, size: size, style: style, stop: make(chan struct{})}
}

var _ Viewer = (*Screen)(nil)

// Terminal control: the cursor is hidden while the rows move, and lines that are too long after the window has become
// narrower are cut off, since a wrapped one would spoil the count of lines to go back.
const (
	enterLive = "\x1b[?25l\x1b[?7l"
	leaveLive = "\x1b[?7h\x1b[?25h"
	clearLine = "\x1b[K"
)

// Begin starts drawing.
func (s *Screen) Begin(i Info, b *Board) {
	s.info, s.board = i, b
	_, _ = io.WriteString(s.out, enterLive)
	s.drawing.Go(s.draw)
}

// Event does nothing: the next frame shows it.
func (s *Screen) Event(Event) {}

// End draws the last frame and the verdict below it.
func (s *Screen) End(v Verdict) {
	s.close(v.Took)
	fmt.Fprintln(s.out)
	for i, line := range verdictLines(v) {
		colour := plainText
		if i == 0 {
			colour = map[bool]string{true: boldGreen, false: boldRed}[v.OK()]
		}
		fmt.Fprintln(s.out, "  "+s.paint(colour, line))
	}
}

// Close gives the terminal back when there was no verdict to End with. It is idempotent, and needed after End no more.
func (s *Screen) Close() {
	if s.board != nil {
		s.close(s.board.Now())
	}
}

func (s *Screen) close(now time.Duration) {
	select {
	case <-s.stop:
		return
	default:
	}
	close(s.stop)
	s.drawing.Wait()
	s.frame(now)
	_, _ = io.WriteString(s.out, leaveLive)
}

func (s *Screen) draw() {
	tick := time.NewTicker(framePause)
	defer tick.Stop()
	for {
		s.frame(s.board.Now())
		select {
		case <-tick.C:
		case <-s.stop:
			return
		}
	}
}

// frame goes back to the first line of the last frame and writes all anew, in one write.
func (s *Screen) frame(now time.Duration) {
	width, height := s.size()
	lines := s.render(now, width, height)
	var b strings.Builder
	if s.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\r", s.drawn)
	}
	for _, line := range lines {
		b.WriteString(line + clearLine + "\n")
	}
	if s.drawn > len(lines) {
		b.WriteString("\x1b[J")
	}
	s.drawn = len(lines)
	_, _ = io.WriteString(s.out, b.String())
}

const (
	marginWidth = 2
	nameWidth   = 8
	statusWidth = 26
	minCells    = 16
	aroundRows  = 12 // lines of a frame and of the verdict that are no rows
	// longestCell keeps short sections visible: what does not fit the width at that scale scrolls.
	longestCell = 100 * time.Millisecond
)

// render makes the lines of a frame.
func (s *Screen) render(now time.Duration, width, height int) []string {
	if width <= 0 {
		width = 80
	}
	if height <= 0 {
		height = 24
	}
	// The last column stays free: a cursor that stands in it would take its character away when the rest of the line is cleared.
	cells := max(width-1-marginWidth-nameWidth-statusWidth, minCells)
	cell := min(s.info.For/time.Duration(cells), longestCell)
	from := max(0, now-cell*time.Duration(cells))

	s.board.mu.Lock()
	defer s.board.mu.Unlock()
	lines := []string{"", "  " + s.title(now), ""}
	shown := s.board.rows
	if most := max(height-aroundRows, 3); len(shown) > most {
		shown = shown[:most]
	}
	for _, r := range shown {
		lines = append(lines, "  "+s.paint(s.colourOf(r), fmt.Sprintf("%-*s", nameWidth, r.name))+s.bar(r, from, cell, cells, now)+"  "+s.status(r, now))
	}
	if hidden := len(s.board.rows) - len(shown); hidden > 0 {
		lines = append(lines, "  "+s.paint(dim, fmt.Sprintf("… and %s that do not fit the window", plural(int64(hidden), "worker"))))
	}
	return append(lines, "", "  "+s.holderLine(now), "  "+s.scoreLine(), "  "+s.legend())
}

func (s *Screen) title(now time.Duration) string {
	clock := fmt.Sprintf("%.1f of %g s", min(now, s.info.For).Seconds(), s.info.For.Seconds())
	title := fmt.Sprintf("%s  %s lock on %s  %s", s.paint(bold, s.info.Lock), s.info.Kind, s.info.Server, s.paint(dim, clock))
	if s.info.Java != "" {
		title += s.paint(dim, "  "+s.info.Java)
	}
	return title
}

// bar is a worker's row of the timeline.
func (s *Screen) bar(r *row, from, cell time.Duration, cells int, now time.Duration) string {
	var b strings.Builder
	run, last := 0, state(-1)
	flush := func() {
		if run > 0 {
			b.WriteString(s.paint(s.colourFor(r, last), strings.Repeat(s.glyph(last), run)))
		}
	}
	for i := range cells {
		t := from + cell*time.Duration(i) + cell/2
		is := ended
		if t <= now {
			is = r.at(t).state
		}
		if is != last {
			flush()
			run, last = 0, is
		}
		run++
	}
	flush()
	return b.String()
}

func (s *Screen) status(r *row, now time.Duration) string {
	is := r.at(now)
	count := fmt.Sprintf("%4d done", r.sections)
	text := fmt.Sprintf("%-7s %7s", stateWords[is.state], "")
	switch is.state {
	case waits, holds, reads:
		text = fmt.Sprintf("%-7s %7s", s.word(is.state), short(now-is.from))
	case dead:
		text = fmt.Sprintf("%-7s %7s", stateWords[is.state], short(r.stay.to-now))
	}
	return s.paint(s.colourFor(r, is.state), text) + s.paint(dim, count)
}

var stateWords = map[state]string{idle: "rests", waits: "waits", holds: "holds", reads: "reads", dead: "crashed", ended: ""}

func (s *Screen) word(is state) string {
	if is == holds && s.info.Readers {
		return "writes"
	}
	return stateWords[is]
}

// holderLine says who has the lock.
func (s *Screen) holderLine(now time.Duration) string {
	who, waiting := "free", 0
	var readers []string
	for _, r := range s.board.rows {
		switch is := r.at(now); is.state {
		case holds:
			who = "held by " + s.paint(s.colourOf(r), r.name)
		case reads:
			readers = append(readers, s.paint(s.colourOf(r), r.name))
		case dead:
			who = s.paint(red, fmt.Sprintf("%s is dead and unlocks nothing: its key expires in %s", r.name, short(r.stay.to-now)))
		case waits:
			waiting++
		}
	}
	if len(readers) > 0 {
		who = strings.TrimPrefix(who+", ", "free, ") + "read by " + strings.Join(readers, ", ")
	}
	return fmt.Sprintf("%s %s, %d waiting", s.paint(bold, s.info.Lock), who, waiting)
}

func (s *Screen) scoreLine() string {
	sections, read := 0, 0
	for _, r := range s.board.rows {
		sections += r.sections
		read += r.read
	}
	score := plural(int64(sections), "section")
	if s.info.Readers {
		score += fmt.Sprintf(", %d of them read", read)
	}
	overlaps := s.paint(green, "0 overlaps")
	if n := s.board.company; n > 0 {
		overlaps = s.paint(boldRed, plural(int64(n), "overlap"))
	}
	return score + ", " + overlaps
}

func (s *Screen) legend() string {
	parts := []string{s.glyph(holds) + " " + s.word(holds)}
	if s.info.Readers {
		parts = append(parts, s.glyph(reads)+" reads")
	}
	parts = append(parts, s.glyph(waits)+" waits", s.glyph(dead)+" crashed, and its key still there")
	return s.paint(dim, strings.Join(parts, "  "))
}

var (
	unicodeGlyphs = map[state]string{idle: " ", waits: "·", holds: "█", reads: "▄", dead: "▒", ended: " "}
	asciiGlyphs   = map[state]string{idle: " ", waits: ".", holds: "#", reads: "=", dead: "x", ended: " "}
)

func (s *Screen) glyph(is state) string {
	if s.style.Unicode {
		return unicodeGlyphs[is]
	}
	return asciiGlyphs[is]
}

// Colours, as the numbers of SGR.
const (
	plainText = ""
	bold      = "1"
	dim       = "2"
	red       = "31"
	green     = "32"
	yellow    = "33"
	cyan      = "36"
	boldRed   = "1;31"
	boldGreen = "1;32"
)

// colourOf tells the languages apart.
func (s *Screen) colourOf(r *row) string {
	if r.name == javaName {
		return yellow
	}
	return cyan
}

func (s *Screen) colourFor(r *row, is state) string {
	switch is {
	case holds, reads:
		return s.colourOf(r)
	case dead:
		return red
	default:
		return dim
	}
}

func (s *Screen) paint(colour, text string) string {
	if !s.style.Colour || colour == plainText {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}
