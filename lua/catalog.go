package lua

import (
	"crypto/sha1" //nolint:gosec // EVALSHA names a script by its SHA-1; nothing is protected by it.
	"embed"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

//go:embed *.lua
var files embed.FS

// Script is one entry of the catalog: what runs on the server, and what its header says of it.
type Script struct {
	Name    string  // file name without .lua, such as "acquire"
	SHA1    string  // what EVALSHA calls it
	Purpose string  // first paragraph of the header
	Keys    []Param // KEYS in order
	Args    []Param // ARGV in order
	Replies []Param // every reply that the caller must expect
	Source  string  // the text that is sent, header included, since the server's SHA-1 is taken over it
}

// Param is a line of a script's header.
type Param struct {
	Name     string // name of the key or argument; for a reply its type or value
	Meaning  string
	Variadic bool // this one and any number of further ones
}

// Catalog lists every script that Redlatch sends, in the order of their names, for those who must review or allow-list
// them. No other script is ever sent.
func Catalog() []Script {
	list := make([]Script, len(catalog))
	for i, s := range catalog {
		list[i] = *s
		list[i].Keys, list[i].Args, list[i].Replies = slices.Clone(s.Keys), slices.Clone(s.Args), slices.Clone(s.Replies)
	}
	return list
}

var catalog = load()

func load() []*Script {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(fmt.Sprintf("lua: the embedded catalog can't be read: %v", err))
	}
	scripts := make([]*Script, 0, len(entries))
	for _, entry := range entries {
		source, err := files.ReadFile(entry.Name())
		if err != nil {
			panic(fmt.Sprintf("lua: the embedded script %s can't be read: %v", entry.Name(), err))
		}
		scripts = append(scripts, parse(strings.TrimSuffix(entry.Name(), ".lua"), string(source)))
	}
	return scripts
}

// named finds a script for the typed calls; a missing one is a fault of the build and shows at once.
func named(name string) *Script {
	for _, s := range catalog {
		if s.Name == name {
			return s
		}
	}
	panic("lua: no script " + name + " in the catalog")
}

var headerLine = regexp.MustCompile(`^-- (KEYS\[(\d+)(\.\.)?\]|ARGV\[(\d+)(\.\.)?\]|reply)\s+(\S+)\s+(.+)$`)

// parse reads the header, which is a contract: the typed calls are tested against it.
func parse(name, source string) *Script {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // see the import
	s := &Script{Name: name, SHA1: hex.EncodeToString(sum[:]), Source: source}
	purpose := true
	for line := range strings.Lines(source) {
		line = strings.TrimRight(line, "\n")
		if !strings.HasPrefix(line, "--") {
			break
		}
		if m := headerLine.FindStringSubmatch(line); m != nil {
			purpose = false
			s.add(m)
			continue
		}
		if text := strings.TrimSpace(strings.TrimPrefix(line, "--")); purpose && text != "" {
			s.Purpose = strings.TrimSpace(s.Purpose + " " + text)
		}
	}
	return s
}

func (s *Script) add(m []string) {
	p := Param{Name: m[6], Meaning: m[7], Variadic: m[3] != "" || m[5] != ""}
	switch {
	case m[2] != "":
		s.Keys = append(s.Keys, p)
	case m[4] != "":
		s.Args = append(s.Args, p)
	default:
		s.Replies = append(s.Replies, p)
	}
}
