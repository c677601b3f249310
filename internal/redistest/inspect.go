package redistest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// CommandStats is how often each command ran since ResetStats (or the start), by its lower-case name as INFO commandstats
// gives it, subcommands as "config|get". What a script calls counts beside the EVALSHA itself; so does what the test
// sent through Do. The calls that this package needs to look are left out.
func (s *Server) CommandStats(t testing.TB) map[string]int64 {
	t.Helper()
	s.statsMu.Lock()
	defer s.statsMu.Unlock()
	stats := make(map[string]int64)
	for line := range strings.Lines(s.Do(t, "INFO", "commandstats").Text()) {
		name, rest, isStat := strings.Cut(strings.TrimSpace(line), ":calls=")
		if !isStat {
			continue
		}
		calls, _, _ := strings.Cut(rest, ",")
		n, err := strconv.ParseInt(calls, 10, 64)
		if err != nil {
			t.Fatalf("redistest: read INFO commandstats: the line %q has no count", line)
		}
		stats[strings.TrimPrefix(name, "cmdstat_")] = n
	}
	if s.password != "" {
		s.looks["auth"]++ // came before the INFO
	}
	for name, n := range s.looks {
		if stats[name] -= n; stats[name] <= 0 {
			delete(stats, name)
		}
	}
	s.looks["info"]++ // INFO shows itself only from the next time on
	return stats
}

// ResetStats sets all counts of CommandStats to zero.
func (s *Server) ResetStats(t testing.TB) {
	t.Helper()
	s.statsMu.Lock()
	defer s.statsMu.Unlock()
	s.Do(t, "CONFIG", "RESETSTAT")
	clear(s.looks)
	s.looks["config|resetstat"]++ // counted when it is done, that is, after the reset
	s.looks["config"]++           // the name before 7.0
}

// ClientInfo is one line of CLIENT LIST.
type ClientInfo struct {
	ID   int64
	Addr string // the client's end
	Name string
	// Fields are all fields of the line, by name: "cmd", "sub", "psub", "ssub", "flags", "resp", …
	Fields map[string]string
}

// Clients are the server's connections in order of age: of a kind as CLIENT LIST TYPE takes it ("normal", "pubsub",
// "replica"), or with "" of all. Those of this package are left out.
func (s *Server) Clients(t testing.TB, kind string) []ClientInfo {
	t.Helper()
	c, err := s.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	clients, err := listClients(c, kind)
	if err != nil {
		t.Fatalf("redistest: list the clients: %v", err)
	}
	return clients
}

func listClients(c *Conn, kind string) ([]ClientInfo, error) {
	self, err := c.Do("CLIENT", "ID")
	if err != nil {
		return nil, err
	}
	list := []string{"CLIENT", "LIST"}
	if kind != "" {
		list = append(list, "TYPE", kind)
	}
	reply, err := c.Do(list...)
	if err != nil {
		return nil, err
	}
	var clients []ClientInfo
	for line := range strings.Lines(reply.Text()) {
		info, err := parseClient(line)
		if err != nil {
			return nil, err
		}
		if info.ID != self.Int() && info.Name != ownName {
			clients = append(clients, info)
		}
	}
	return clients, nil
}

func parseClient(line string) (ClientInfo, error) {
	info := ClientInfo{Fields: make(map[string]string)}
	for field := range strings.FieldsSeq(line) {
		name, value, _ := strings.Cut(field, "=")
		info.Fields[name] = value
	}
	id, err := strconv.ParseInt(info.Fields["id"], 10, 64)
	if err != nil {
		return ClientInfo{}, fmt.Errorf("redistest: the line %q of CLIENT LIST has no id", line)
	}
	info.ID, info.Addr, info.Name = id, info.Fields["addr"], info.Fields["name"]
	return info, nil
}

// KillPubSub cuts every connection that is subscribed to something, recorders excepted, and returns how many it cut.
func (s *Server) KillPubSub(t testing.TB) int {
	t.Helper()
	return s.killClients(t, "pubsub")
}

// KillAllClients cuts every connection but those of recorders and monitors, and returns how many it cut.
func (s *Server) KillAllClients(t testing.TB) int {
	t.Helper()
	return s.killClients(t, "")
}

func (s *Server) killClients(t testing.TB, kind string) int {
	t.Helper()
	c, err := s.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	clients, err := listClients(c, kind)
	if err != nil {
		t.Fatalf("redistest: list the clients: %v", err)
	}
	killed := 0
	for _, client := range clients {
		reply, err := c.Do("CLIENT", "KILL", "ID", strconv.FormatInt(client.ID, 10))
		if err != nil {
			t.Fatalf("redistest: kill the client %s: %v", client.Addr, err)
		}
		killed += int(reply.Int()) // 0 when it has gone by itself meanwhile
	}
	return killed
}
