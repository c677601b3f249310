package config

import (
	"fmt"
	"math"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// text returns a value's text and whether there is one. A variable that is not set is a fault here, where it would be used.
func (r *yamlReader) text(v yamlValue) (string, bool) {
	text, ok := scalar(v)
	if !ok {
		r.fault(v, "a mapping or a list", "one value")
		return "", false
	}
	for _, m := range variable.FindAllStringSubmatch(text, -1) {
		if r.unset[m[1]] {
			r.fault(v, "${"+m[1]+"}, which is not set", "a variable of the environment that is set, or ${"+m[1]+":-default}")
			return "", false
		}
	}
	return text, !v.empty()
}

// words reads a text into a field. An empty one says nothing.
func words(field string, of func(*Config) *string) func(*yamlReader, yamlValue) {
	return func(r *yamlReader, v yamlValue) {
		text, given := r.text(v)
		if !given || text == "" {
			return
		}
		r.note(field, v)
		*of(&r.cfg) = text
	}
}

// note remembers where a field comes from. The top level is read after the section and wins, as in Redisson 4.
func (r *yamlReader) note(field string, v yamlValue) {
	if before, twice := r.origin[field]; twice {
		r.warn(v, fmt.Sprintf("counts, and not %s, as in Redisson 4", before))
	}
	r.origin[field] = v
}

// whole reads a whole number in the notations of YAML 1.1, which Redisson reads: 5_000, 0x10, and 010 for eight.
func (r *yamlReader) whole(v yamlValue, unit string, low, high int64) (int64, bool) {
	text, _ := r.text(v)
	if text == "" {
		if _, ok := scalar(v); ok && v.empty() {
			r.fault(v, "empty", fmt.Sprintf("a whole number%s from %d to %d, or no such line", unit, low, high))
		}
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(text), 0, 64)
	if err != nil || n < low || n > high {
		r.fault(v, strconv.Quote(clip(text)), fmt.Sprintf("a whole number%s from %d to %d", unit, low, high))
		return 0, false
	}
	return n, true
}

func numbers(field string, low, high int64, set func(*Config, int)) func(*yamlReader, yamlValue) {
	return func(r *yamlReader, v yamlValue) {
		if n, ok := r.whole(v, "", low, high); ok {
			r.note(field, v)
			set(&r.cfg, int(n))
		}
	}
}

const maxMillis = math.MaxInt64 / int64(time.Millisecond)

// times reads milliseconds. Zero would mean the default, so it is refused here; the rest of the range is for validation.
func times(field string, of func(*Config) *time.Duration) func(*yamlReader, yamlValue) {
	return func(r *yamlReader, v yamlValue) {
		if n, ok := r.whole(v, " of milliseconds", 1, maxMillis); ok {
			r.note(field, v)
			*of(&r.cfg) = time.Duration(n) * time.Millisecond
		}
	}
}

// truth reads true or false in the words of YAML 1.1, which Redisson reads.
func (r *yamlReader) truth(v yamlValue) (value, ok bool) {
	text, given := r.text(v)
	switch strings.ToLower(text) {
	case "true", "yes", "on":
		return true, true
	case "false", "no", "off":
		return false, true
	}
	if given || v.empty() {
		r.fault(v, strconv.Quote(clip(text)), "true or false")
	}
	return false, false
}

// javaOnly warns of a class that Go cannot run, unless it is the one that does nothing.
func javaOnly(harmless, instead string) func(*yamlReader, yamlValue) {
	return func(r *yamlReader, v yamlValue) {
		if !v.is(harmless) && (v.class != "" || !v.empty()) {
			r.warnClass(v, instead)
		}
	}
}

func (r *yamlReader) warnClass(v yamlValue, instead string) {
	class := "a Java class"
	if v.class != "" {
		class = "the Java class " + v.class
	}
	r.warn(v, class+" cannot be used from Go: "+instead)
}

func (r *yamlReader) readAddress(v yamlValue) {
	if !v.empty() {
		r.addresses = append(r.addresses, v)
	}
}

func (r *yamlReader) readMasterAddress(v yamlValue) {
	if !v.empty() {
		r.addresses, r.master = append([]yamlValue{v}, r.addresses...), true
	}
}

func (r *yamlReader) readAddresses(v yamlValue) {
	items, ok := r.items(v)
	if !ok && !v.empty() {
		r.noList = true
		r.fault(v, "no list", `a list of addresses, each on a line of its own after "- "`)
		return
	}
	for _, item := range items {
		r.readAddress(item)
	}
}

func (r *yamlReader) readCheckLockSyncedSlaves(v yamlValue) {
	if check, ok := r.truth(v); ok {
		r.note("CheckLockSyncedSlaves", v)
		r.cfg.CheckLockSyncedSlaves = SyncedSlavesAny
		if !check {
			r.cfg.CheckLockSyncedSlaves = SyncedSlavesOff
		}
	}
}

func (r *yamlReader) readShardedSubscriptionMode(v yamlValue) {
	text, given := r.text(v)
	if given && r.cfg.ShardedSubscriptionMode.UnmarshalText([]byte(text)) != nil {
		r.fault(v, strconv.Quote(clip(text)), "AUTO, ON or OFF")
	}
}

// readDNSMonitoringInterval: -1 turns it off. Zero would mean the default; that is said, and no error, for Redisson takes it.
func (r *yamlReader) readDNSMonitoringInterval(v yamlValue) {
	n, ok := r.whole(v, " of milliseconds", -1, maxMillis)
	switch {
	case !ok:
		return
	case n == 0:
		r.warn(v, "0 is not taken over, and the default stands; set -1 to have names looked up no more than once")
		return
	case n == -1:
		r.cfg.DNSMonitoringInterval = NoDNSMonitoring
	default:
		r.cfg.DNSMonitoringInterval = time.Duration(n) * time.Millisecond
	}
	r.note("DNSMonitoringInterval", v)
}

// readRetryInterval reads the constant pause of Redisson 3, where 0 means none.
func (r *yamlReader) readRetryInterval(v yamlValue) {
	if n, ok := r.whole(v, " of milliseconds", 0, maxMillis); ok {
		r.origin["RetryDelay"] = v
		r.retryInterval = max(time.Duration(n)*time.Millisecond, time.Millisecond)
	}
}

// readRetryDelay reads one of the four delays of Redisson 4, all of which become an equal jitter.
func (r *yamlReader) readRetryDelay(v yamlValue) {
	low, high := "baseDelay", "maxDelay"
	switch {
	case v.is("EqualJitterDelay"), v.is("FullJitterDelay"):
	case v.is("DecorrelatedJitterDelay"):
		low = "minDelay"
	case v.is("ConstantDelay"):
		low, high = "delay", "delay"
	case v.class == "" && v.empty():
		return
	default:
		r.warnClass(v, "set Config.RetryDelay; until then it is the default")
		return
	}
	parts := map[string]time.Duration{}
	for _, entry := range r.entries(v) {
		text, given := r.text(entry)
		d, ok := isoDuration(text)
		if given && !ok {
			r.fault(entry, strconv.Quote(clip(text)), "a duration of ISO 8601 such as PT1.5S")
			return
		}
		parts[entry.name] = d
	}
	if len(parts) == 0 {
		return // Redisson's own default for each
	}
	if parts[low] == 0 || parts[high] == 0 {
		r.fault(v, "without "+low+" or "+high, low+" and "+high+" above zero, such as PT1S")
		return
	}
	r.origin["RetryDelay"] = v
	r.cfg.RetryDelay = Delay{Min: parts[low], Max: parts[high]}
}

var isoForm = regexp.MustCompile(`^(?i)P(?:(\d{1,5})D)?(?:T(?:(\d{1,7})H)?(?:(\d{1,9})M)?(?:(\d{1,9}(?:\.\d{1,9})?)S)?)?$`)

// isoDuration reads what java.time.Duration prints, as far as it is not negative.
func isoDuration(text string) (time.Duration, bool) {
	m := isoForm.FindStringSubmatch(text)
	if m == nil || len(text) < len("P1D") {
		return 0, false
	}
	var sum float64
	for i, unit := range []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second} {
		if m[i+1] != "" {
			n, err := strconv.ParseFloat(m[i+1], 64)
			if err != nil {
				return 0, false
			}
			sum += n * float64(unit)
		}
	}
	return time.Duration(math.Round(sum)), sum < float64(MaxLease)
}

// readNATMapper follows the two mappers that are nothing but a table.
func (r *yamlReader) readNATMapper(v yamlValue) {
	switch {
	case v.is("HostPortNatMapper"), v.is("HostNatMapper"):
		for _, entry := range r.entries(v) {
			r.mapAddresses(entry, v.is("HostNatMapper"))
		}
	case v.is("DefaultNatMapper"), v.class == "" && v.empty():
	default:
		r.warnClass(v, "set Config.NATMapper to a function that gives the same addresses")
	}
}

// readNATMap follows what natMapper was before.
func (r *yamlReader) readNATMap(v yamlValue) { r.mapAddresses(v, false) }

func (r *yamlReader) mapAddresses(v yamlValue, hostsOnly bool) {
	form := "host:port for each host:port"
	if hostsOnly {
		form = "a host for each host"
	}
	table := map[string]string{}
	for _, entry := range r.entries(v) {
		to, given := r.text(entry)
		if !given || !isHost(entry.name, hostsOnly) || !isHost(to, hostsOnly) {
			r.fault(v, "a table with something else on line "+strconv.Itoa(entry.line), form)
			return
		}
		table[entry.name] = to
	}
	if len(table) == 0 {
		return
	}
	r.note("NATMapper", v)
	r.cfg.NATMapper = func(address string) string {
		if to, known := table[address]; known {
			return to
		}
		host, port, err := net.SplitHostPort(address)
		if to, known := table[host]; known && err == nil {
			return net.JoinHostPort(to, port)
		}
		return address
	}
}

func isHost(text string, alone bool) bool {
	if alone {
		return text != "" && !strings.ContainsFunc(text, notInHost)
	}
	host, port, err := net.SplitHostPort(text)
	n, numberErr := strconv.ParseUint(port, 10, 16)
	return err == nil && numberErr == nil && n > 0 && isHost(host, true)
}
