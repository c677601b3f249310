package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// Warning is what a redisson.yaml says that a client of locks written in Go cannot do, or cannot understand.
type Warning struct {
	// Key is the key with its section before it, such as "singleServerConfig.nameMapper"; empty when it is not safe to show.
	Key string
	// Line is where the key stands, counted from 1, with every variable replaced by its value; 0 for a variable itself.
	Line int
	// Text says what is left undone and what to set in Go instead. It never shows a password.
	Text string
}

// String returns "line 3: singleServerConfig.nameMapper: " and the text; without the line for a variable.
func (w Warning) String() string {
	if w.Line == 0 {
		return w.Key + ": " + w.Text
	}
	return strings.TrimSuffix(fmt.Sprintf("line %d: %s", w.Line, w.Key), " ") + ": " + w.Text
}

// maxYAML is in bytes and far beyond any configuration. The parser takes time with the square of what it is given, so that a wrong path,
// such as that of a log, would keep it busy for minutes.
const maxYAML = 64 << 10

// LoadRedissonYAML is ReadRedissonYAML for a file.
func LoadRedissonYAML(path string) (Config, []Warning, error) {
	file, err := os.Open(path)
	if err != nil {
		return Config{}, nil, fmt.Errorf("config: %w", err)
	}
	defer file.Close()
	cfg, warnings, err := ReadRedissonYAML(file)
	if err != nil {
		return Config{}, warnings, fmt.Errorf("read %s: %w", path, err)
	}
	return cfg, warnings, nil
}

// ReadRedissonYAML makes a Config from the redisson.yaml of a Java service, in the words of any Redisson from 3.16 to 4.7: one of
// singleServerConfig, clusterServersConfig, sentinelServersConfig, masterSlaveServersConfig and replicatedServersConfig, and the keys of
// the top level. What the file does not say is left at zero, as in a Config that is written in Go, so Redisson's defaults hold.
// Fields may be changed before the client is opened.
//
// ${NAME} and ${NAME:-default} stand for variables of the environment, in all places and before the YAML is read, as in Redisson; so a
// value with ": " or " #" in it has to stand in quotes. Redisson leaves a variable that is not set as it is; here it is an error
// where the text would be used. A Java service can set a variable as a system property too (-DNAME=…), which comes first there and which
// nobody sees here: a name with a dot in it, for which a default is taken, gives a Warning.
//
// A key that only tunes the machinery of Redisson (threads, pools, codecs) is passed over in silence. A key that would matter but
// cannot be followed, as it names a Java class or a Java key store, gives a Warning that says what to set in Go instead; and so does an
// unknown key, with the name that may have been meant. A wrong value, an address that cannot be understood, and none or two
// servers' sections are errors: each a *FieldError whose Field is the key with its line, all joined. The warnings come with an error too.
//
// As in Redisson 4.7: user and password come from the address, else from the top level, else from the section; a path after an address
// names no database; TLS depends on the scheme of the address alone. retryInterval and the other delays than
// EqualJitterDelay become a RetryDelay from half to the whole of theirs. To sentinels without a log-in of their own that demand one, that of
// the servers is sent.
func ReadRedissonYAML(in io.Reader) (Config, []Warning, error) {
	text, err := io.ReadAll(io.LimitReader(in, maxYAML+1))
	if err != nil {
		return Config{}, nil, fmt.Errorf("config: read YAML: %w", err)
	}
	r := yamlReader{origin: map[string]yamlValue{}}
	r.read(string(text))
	slices.SortStableFunc(r.warnings, func(a, b Warning) int { return cmp.Compare(a.Line, b.Line) })
	if err := errors.Join(r.faults...); err != nil {
		return Config{}, r.warnings, err
	}
	return r.cfg, r.warnings, nil
}

// yamlReader collects what the keys say. Some of it can be settled only when all is known: which of several places wins, and whether
// there is TLS at all.
type yamlReader struct {
	yamlTree

	cfg      Config
	origin   map[string]yamlValue // where a field of cfg comes from
	warnings []Warning
	faults   faults

	masterName    yamlValue
	addresses     []yamlValue   // the master's first
	master        bool          // it is among them
	noList        bool          // where a list of addresses should be
	retryInterval time.Duration // 0 if there is none
	tls           yamlTLS
}

// yamlSections are the keys of the top level that say where the servers are.
var yamlSections = map[string]struct {
	place place
	mode  Mode
	// addresses is the key without which the section says nothing.
	addresses string
}{
	"singleServerConfig":       {inSingle, ModeSingle, "address"},
	"clusterServersConfig":     {inCluster, ModeCluster, "nodeAddresses"},
	"sentinelServersConfig":    {inSentinel, ModeSentinel, "sentinelAddresses"},
	"masterSlaveServersConfig": {inMasterSlave, ModeMasterSlave, "masterAddress"},
	"replicatedServersConfig":  {inReplicated, ModeReplicated, "nodeAddresses"},
}

const oneSection = "exactly one of singleServerConfig, clusterServersConfig, sentinelServersConfig, masterSlaveServersConfig " +
	"and replicatedServersConfig"

func (r *yamlReader) read(text string) {
	root, fault := r.parse(text)
	for _, name := range slices.Sorted(maps.Keys(r.properties)) {
		r.warnings = append(r.warnings, Warning{
			Key:  "${" + name + "}",
			Text: "has its default here; if the Java service is started with -D" + name + ", set a variable of that name in the environment, too",
		})
	}
	if fault != nil {
		r.faults = append(r.faults, fault)
		return
	}
	var sections, others []yamlValue
	for _, v := range r.entries(root) {
		switch _, is := yamlSections[v.key]; {
		case !is:
			others = append(others, v)
		case !v.empty():
			sections = append(sections, v)
		}
	}
	if len(sections) != 1 {
		var found []string
		for _, v := range sections {
			found = append(found, v.String())
		}
		value := "without a section that says where the servers are"
		if len(found) > 0 {
			value = "one with " + strings.Join(found, " and ")
		}
		r.faults.add("the YAML", value, oneSection)
		return
	}
	section := sections[0]
	what := yamlSections[section.key]
	r.readAll(what.place, r.entries(section))
	r.readAll(atTop, others)
	r.settleServers(section, what.mode, what.addresses)
	r.settleDelay()
	r.checkRanges()
}

// readAll reads the entries of one mapping. Of a key that stands there twice the last counts, as in Redisson.
func (r *yamlReader) readAll(here place, entries []yamlValue) {
	last := map[string]int{}
	for i, v := range entries {
		if before, twice := last[v.key]; twice {
			r.warn(v, fmt.Sprintf("stands there twice; this one counts, not that of line %d", entries[before].line))
		}
		last[v.key] = i
	}
	for i, v := range entries {
		if last[v.key] != i {
			continue
		}
		key, known := yamlKeys[v.name]
		switch {
		case !known || key.where&here == 0:
			r.warnUnknown(here, v)
		case key.read != nil:
			key.read(r, v)
		}
	}
}

// warnUnknown names an unknown key, and what may be meant. A word in a mapping written in braces may be the end of a password with a
// comma in it; such a word is not shown.
func (r *yamlReader) warnUnknown(here place, v yamlValue) {
	near := nearestKey(here, v.name)
	switch elsewhere, known := yamlKeys[v.name]; {
	case known:
		r.warn(v, "has no meaning here and is passed over; its place is "+elsewhere.where.String())
	case near != "":
		r.warn(v, "is unknown and passed over; did you mean "+near+"?")
	case v.inBraces || !plainKey.MatchString(v.name):
		r.warnings = append(r.warnings, Warning{Line: v.line, Text: "an unknown key is passed over (not shown, it may be part of a password)"})
	default:
		r.warn(v, "is unknown and passed over")
	}
}

func (r *yamlReader) warn(v yamlValue, text string) {
	r.warnings = append(r.warnings, Warning{Key: v.key, Line: v.line, Text: text})
}

func (r *yamlReader) fault(v yamlValue, value, allowed string) {
	r.faults.add(v.String(), value, allowed)
}

// settleServers puts the addresses together. It works as describe does, but knows the line of each address.
func (r *yamlReader) settleServers(section yamlValue, mode Mode, key string) {
	t := newTopology(mode)
	if mode == ModeSentinel {
		if t.masterName, _ = r.text(r.masterName); t.masterName == "" {
			r.fault(section, "without masterName", masterNameForm)
		}
	}
	if missing := len(r.addresses) == 0 || mode == ModeMasterSlave && !r.master; missing && !r.noList {
		r.fault(section, "without "+key, "the address of at least one server: redis://host:port")
	}
	for _, v := range r.addresses {
		raw, given := r.text(v)
		if !given {
			continue
		}
		e, fault := parseAddress(raw, t.port())
		if fault != nil {
			r.fault(v, fault.Value, fault.Allowed)
			continue
		}
		r.followRedisson(v, &e)
		t.add(e, "")
		for _, fault := range t.faults {
			r.fault(v, fault.Value, fault.Allowed)
		}
		t.faults = nil
	}
	r.settleLogIn(t)
	if demanded, _ := t.said.tls(); demanded {
		r.settleTLS()
	}
	r.cfg.Servers = Servers{t}
}

// followRedisson reads an address as Redisson does where Single would not: a path has no effect, and a word alone before the "@" is a
// password.
func (r *yamlReader) followRedisson(v yamlValue, e *endpoint) {
	if e.database != noDatabase {
		r.warn(v, fmt.Sprintf("the /%d after the address has no effect, as in Redisson; the key database says which database it is", e.database))
		e.database = noDatabase
	}
	if e.password == "" {
		e.username, e.password = "", e.username
	}
}

// settleLogIn drops what the keys say where the addresses say something else, for these win in Redisson.
func (r *yamlReader) settleLogIn(t *topology) {
	username, password := &r.cfg.Username, &r.cfg.Password
	if t.mode == ModeSentinel {
		username, password = &r.cfg.SentinelUsername, &r.cfg.SentinelPassword
	}
	for _, f := range []struct {
		what  string
		field *string
		said  string
	}{{"user", username, t.said.username}, {"password", password, t.said.password}} {
		if !merge(f.field, f.said) {
			*f.field = f.said
			r.warn(r.addresses[0], "the "+f.what+" in the address counts, and not that of a key of its own, as in Redisson")
		}
	}
}

func (r *yamlReader) settleDelay() {
	if r.retryInterval != 0 && r.cfg.RetryDelay == (Delay{}) {
		r.cfg.RetryDelay = Delay{Min: r.retryInterval, Max: r.retryInterval}
	}
}

// checkRanges lets validation look at what was read, and reports in the words of the file what is wrong with a field that comes from there.
// What else is missing may still be set in Go.
func (r *yamlReader) checkRanges() {
	_, err := r.cfg.WithDefaults()
	joined, _ := err.(interface{ Unwrap() []error })
	if joined == nil {
		return
	}
	for _, err := range joined.Unwrap() {
		fault, _ := errors.AsType[*FieldError](err)
		if fault == nil {
			continue
		}
		if v, known := r.origin[fault.Field]; known {
			allowed, _, _ := strings.Cut(fault.Allowed, " (")
			r.fault(v, fault.Value, allowed)
		}
	}
}
