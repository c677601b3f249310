package config

import (
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
)

// Mode is the kind of topology that a Servers describes.
type Mode int

const (
	// ModeNone is that of the zero Servers, which says nothing and is refused by validation.
	ModeNone Mode = iota
	// ModeSingle is one server at one address.
	ModeSingle
	// ModeExternal is whatever a connected client that the caller brings along knows.
	ModeExternal
	// ModeCluster is a Redis Cluster, of which some nodes are named.
	ModeCluster
	// ModeSentinel is a master that sentinels watch over and name.
	ModeSentinel
	// ModeMasterSlave is one master and its replicas, whose roles never change.
	ModeMasterSlave
	// ModeReplicated is one master and its replicas, whose roles change without a sentinel, as a hosting service does it.
	ModeReplicated
)

var modeNames = [...]string{"none", "single", "external", "cluster", "sentinel", "master-slave", "replicated"}

// String returns "none", "single", "external", "cluster", "sentinel", "master-slave" or "replicated".
func (m Mode) String() string {
	if m < 0 || int(m) >= len(modeNames) {
		return "Mode(" + strconv.Itoa(int(m)) + ")"
	}
	return modeNames[m]
}

// discovers reports whether servers are found out and named to each other by host and port after the start.
func (m Mode) discovers() bool { return m == ModeCluster || m == ModeSentinel || m == ModeReplicated }

// Servers says where Redis is and how its servers belong together. It is made by the function that is named like the topology: Single,
// Cluster, Sentinel, MasterSlave, Replicated or External; the zero Servers is refused by Config.WithDefaults. A Servers never changes
// and may be copied and shared. It may hold a password from an address, which no method and no verb of fmt shows.
type Servers struct {
	// A pointer, because fmt does not follow one inside a struct: the password stays out even of a %+v that meets a Servers in an
	// unexported field, where fmt calls no String method.
	t *topology
}

type topology struct {
	mode       Mode
	masterName string
	addresses  []Address
	said       endpoint      // what the addresses say together; its Address is the first that demands or forbids TLS
	faults     []*FieldError // what was wrong with the addresses, kept for validation
}

// Single describes one server by its address:
//
//	redis://host:port/db       valkey:// is the same
//	rediss://host:port/db      with TLS; valkeys:// is the same
//	redis+uds:///path          a Unix socket; valkey+uds:// is the same
//	host:port                  TLS if Config.TLS is set
//
// With a scheme the port may be left out (6379), and user:password@ may stand before the host, special characters percent-encoded;
// :password@ alone is Redis's default user. An IPv6 address stands in brackets. A fault in the address is reported by
// Config.WithDefaults, without ever repeating what may be a password. Redisson's singleServerConfig.address demands
// scheme and port and takes the database from its own setting only.
func Single(address string) Servers { return describe(ModeSingle, "", address) }

// Cluster describes a Redis Cluster by some of its nodes, in the forms of Single but for Unix sockets; any one that answers tells of all
// others. All nodes take the same log-in, so it needs to stand in one address only, and must not differ between two; TLS is for all
// or for none. A cluster has only database 0. Redisson: clusterServersConfig.nodeAddresses.
func Cluster(addresses ...string) Servers { return describe(ModeCluster, "", addresses...) }

// Sentinel describes a master by the name that its sentinels know it by, and by the addresses of sentinels, in the forms of Single but
// for Unix sockets; the port may be left out here too (26379). Each address belongs to a sentinel, so a log-in that stands in it is the
// sentinels' (Config.SentinelUsername, SentinelPassword), and there is no database in it: set Config.Database. Addresses that demand TLS
// demand it of the servers too. Redisson: sentinelServersConfig.masterName and sentinelAddresses.
func Sentinel(masterName string, addresses ...string) Servers {
	return describe(ModeSentinel, masterName, addresses...)
}

// MasterSlave describes a master and its replicas, in the forms of Single; the roles stay as they are said here, so that a failover ends
// the service until the client is opened with other addresses, or the master's name leads to the new one
// (Config.DNSMonitoringInterval). Locks live on the master; the replicas are those that Config.CheckLockSyncedSlaves speaks of and may
// be left out. Log-in and TLS are as with Cluster.
// Redisson: masterSlaveServersConfig.masterAddress and slaveAddresses.
func MasterSlave(master string, slaves ...string) Servers {
	return describe(ModeMasterSlave, "", append([]string{master}, slaves...)...)
}

// Replicated describes servers of which one is the master, in the forms of Single but for Unix sockets. Which one it is, each server is
// asked every Config.ScanInterval; all must be named, for nobody tells of others. Log-in and TLS are as with Cluster.
// Redisson: replicatedServersConfig.nodeAddresses.
func Replicated(addresses ...string) Servers { return describe(ModeReplicated, "", addresses...) }

// External says that the servers are those of a connected client which the caller brings along. What makes connections belongs to that
// client then and must not be set: Username, Password, SentinelUsername, SentinelPassword, Database, ClientName, TLS, NATMapper and
// ScanInterval.
func External() Servers { return Servers{&topology{mode: ModeExternal}} }

func describe(mode Mode, masterName string, raw ...string) Servers {
	t := newTopology(mode)
	t.masterName = masterName
	if mode == ModeSentinel && masterName == "" {
		t.fault("without the name of a master", masterNameForm)
	}
	if len(raw) == 0 {
		t.fault("without an address", "at least one address: "+addressForms)
	}
	for i, address := range raw {
		where := ""
		if len(raw) > 1 {
			where = fmt.Sprintf(" (address %d of %d)", i+1, len(raw))
		}
		e, fault := parseAddress(address, t.port())
		if fault != nil {
			t.fault(fault.Value+where, fault.Allowed)
			continue
		}
		t.add(e, where)
	}
	return Servers{t}
}

const masterNameForm = "the name that the sentinels know the master by, as in: sentinel monitor <name> …"

func newTopology(mode Mode) *topology {
	return &topology{mode: mode, said: endpoint{database: noDatabase}}
}

// port is what an address means that names none.
func (t *topology) port() string {
	if t.mode == ModeSentinel {
		return sentinelPort
	}
	return defaultPort
}

func (t *topology) fault(value, allowed string) {
	t.faults = append(t.faults, addressFault(value, allowed))
}

// add takes one more address in, or says what it does not agree with. Credentials are compared, never shown.
func (t *topology) add(e endpoint, where string) {
	const alike = "the same in each address that has one, or none and the field of Config"
	switch {
	case e.Network == "unix" && t.mode.discovers():
		t.fault("a Unix socket"+where, "host and port with a "+t.mode.String()+" topology, whose servers are told by host and port")
	case slices.ContainsFunc(t.addresses, e.sameAs):
		t.fault(strconv.Quote(e.Addr)+where+", which stands there twice", "each server once")
	case t.mode == ModeSentinel && e.database != noDatabase:
		t.fault("the address of a sentinel with a database"+where, "no database there, for sentinels have none: set Config.Database")
	}
	t.addresses = append(t.addresses, e.Address)
	if !merge(&t.said.username, e.username) {
		t.fault("an address with another user than the one before"+where, alike)
	}
	if !merge(&t.said.password, e.password) {
		t.fault("an address with another password than the one before"+where, alike)
	}
	if t.said.database == noDatabase {
		t.said.database = e.database
	}
	if e.database != noDatabase && e.database != t.said.database {
		t.fault("an address with another database than the one before"+where, alike)
	}
	before, _ := t.said.tls()
	now, _ := e.tls()
	switch {
	case t.said.scheme == "":
		t.said.Address = e.Address
	case e.scheme != "" && before != now:
		t.fault("an address with TLS and one without"+where, "TLS for all addresses or for none")
	}
}

// Mode returns the kind of topology, ModeNone for the zero Servers.
func (s Servers) Mode() Mode {
	if s.t == nil {
		return ModeNone
	}
	return s.t.mode
}

// MasterName returns the name that the sentinels know the master by; empty for all but Sentinel.
func (s Servers) MasterName() string {
	if s.t == nil {
		return ""
	}
	return s.t.masterName
}

// Addresses returns the addresses to dial, in the order given, so with MasterSlave the master's first; empty for the zero Servers and for
// External, and without those that could not be read.
func (s Servers) Addresses() []Address {
	if s.t == nil {
		return nil
	}
	return slices.Clone(s.t.addresses)
}

// String returns the mode and the addresses without user and password: "single redis://127.0.0.1:6379", and for Sentinel the name of
// the master before them.
func (s Servers) String() string {
	words := []string{s.Mode().String()}
	if name := s.MasterName(); name != "" {
		words = append(words, strconv.Quote(clip(name)))
	}
	for _, a := range s.Addresses() {
		words = append(words, a.String())
	}
	if s.t != nil && len(s.t.faults) > 0 {
		words = append(words, "(faulty address)")
	}
	return strings.Join(words, " ")
}

// GoString returns what String does, so that %#v shows no more.
func (s Servers) GoString() string { return s.String() }

// LogValue returns what String does.
func (s Servers) LogValue() slog.Value { return slog.StringValue(s.String()) }
