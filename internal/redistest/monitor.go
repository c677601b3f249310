package redistest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Command is one command as MONITOR shows it.
type Command struct {
	// Client is the address that sent it; "lua" for a command that a script called.
	Client string
	DB     int
	Args   []string
}

// Name is the command's name in upper case.
func (c Command) Name() string { return strings.ToUpper(c.Args[0]) }

// FromScript says that a script called it.
func (c Command) FromScript() bool { return c.Client == "lua" }

func (c Command) String() string { return fmt.Sprintf("[%d %s] %q", c.DB, c.Client, c.Args) }

// Monitor collects every command that a server executes, in order, from all clients, this package's own included. A
// command is shown before it runs and also when it fails; AUTH and some administrative commands are hidden by the server.
type Monitor struct {
	server   *Server
	commands *feed[Command]
	conn     *Conn
	joined   chan struct{}
}

// Monitor starts to collect; it has started when the call returns, and ends with Stop or with the test.
func (s *Server) Monitor(t testing.TB) *Monitor {
	t.Helper()
	c, err := s.dialWatcher()
	if err != nil {
		t.Fatalf("redistest: monitor the server: %v", err)
	}
	if _, err := c.Do("MONITOR"); err != nil {
		_ = c.Close()
		t.Fatalf("redistest: monitor the server: %v", err)
	}
	m := &Monitor{server: s, commands: newFeed[Command](), conn: c, joined: make(chan struct{})}
	go func() {
		defer close(m.joined)
		m.commands.end(m.read())
	}()
	t.Cleanup(m.Stop)
	return m
}

// Stop ends the collecting and waits for its end; what was collected stays readable through Collected. It is idempotent.
func (m *Monitor) Stop() {
	// An error means that it is closed already.
	_ = m.conn.Close()
	<-m.joined
}

func (m *Monitor) read() error {
	if err := m.conn.unbounded(); err != nil {
		return err
	}
	for {
		reply, err := m.conn.receive("MONITOR")
		if err != nil {
			return err
		}
		command, err := parseMonitored(reply.Text())
		if err != nil {
			return err
		}
		m.commands.add(command)
	}
}

// Commands are all commands that the server had executed when it was called: it sends a fence of its own and waits until
// that is shown.
func (m *Monitor) Commands(t testing.TB) []Command {
	t.Helper()
	return withoutFenceCommands(m.fenced(t))
}

// Collected is what has been seen so far, without a fence.
func (m *Monitor) Collected() []Command {
	m.commands.mu.Lock()
	defer m.commands.mu.Unlock()
	return withoutFenceCommands(m.commands.items)
}

// Reset forgets all commands that had been executed when it was called.
func (m *Monitor) Reset(t testing.TB) {
	t.Helper()
	m.commands.cut(len(m.fenced(t)))
}

// Await waits until a command that fits has been executed since Monitor or Reset, and returns the first such.
func (m *Monitor) Await(t testing.TB, fits func(Command) bool) Command {
	t.Helper()
	items, err := m.commands.await(func(items []Command) bool {
		return slices.ContainsFunc(withoutFenceCommands(items), fits)
	})
	if err != nil {
		t.Fatalf("redistest: await a command among %v: %v", withoutFenceCommands(items), err)
	}
	items = withoutFenceCommands(items)
	return items[slices.IndexFunc(items, fits)]
}

func (m *Monitor) fenced(t testing.TB) []Command {
	t.Helper()
	fence := newFence()
	m.server.Do(t, "PING", fence)
	isFence := func(c Command) bool { return len(c.Args) == 2 && c.Args[1] == fence }
	items, err := m.commands.await(func(items []Command) bool { return slices.ContainsFunc(items, isFence) })
	if err != nil {
		t.Fatalf("redistest: await the fence behind the commands %v: %v", withoutFenceCommands(items), err)
	}
	return items[:slices.IndexFunc(items, isFence)+1]
}

// withoutFenceCommands leaves out the fences of monitors and of recorders.
func withoutFenceCommands(items []Command) []Command {
	var out []Command
	for _, c := range items {
		if len(c.Args) < 2 || !strings.HasPrefix(c.Args[1], fencePrefix) {
			out = append(out, c)
		}
	}
	return out
}

// parseMonitored reads a line such as
//
//	1700000000.123456 [0 127.0.0.1:4711] "set" "k" "a \"quoted\" \x00 byte"
func parseMonitored(line string) (Command, error) {
	malformed := func() (Command, error) {
		return Command{}, fmt.Errorf("redistest: MONITOR sent the line %q, which cannot be read", line)
	}
	_, rest, ok := strings.Cut(line, " [")
	if !ok {
		return malformed()
	}
	origin, rest, ok := strings.Cut(rest, "] ")
	if !ok {
		return malformed()
	}
	db, client, _ := strings.Cut(origin, " ")
	c := Command{Client: client}
	var err error
	if c.DB, err = strconv.Atoi(db); err != nil {
		return malformed()
	}
	for rest != "" {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return malformed()
		}
		// The server's escapes (\" \\ \n \r \t \a \b \xhh) are all Go's too.
		arg, err := strconv.Unquote(quoted)
		if err != nil {
			return malformed()
		}
		c.Args = append(c.Args, arg)
		rest = strings.TrimPrefix(rest[len(quoted):], " ")
	}
	if len(c.Args) == 0 {
		return malformed()
	}
	return c, nil
}
