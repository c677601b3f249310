package config

import (
	"log/slog"
	"net"
	"net/url"
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
)

// String returns "none", "single" or "external".
func (m Mode) String() string {
	switch m {
	case ModeNone:
		return "none"
	case ModeSingle:
		return "single"
	case ModeExternal:
		return "external"
	default:
		return "Mode(" + strconv.Itoa(int(m)) + ")"
	}
}

// Servers says where Redis is and how its servers belong together. It is made by Single or External; the zero Servers is refused by
// Config.WithDefaults. A Servers never changes and may be copied and shared. It may hold a password from its address, which no
// method and no verb of fmt shows.
type Servers struct {
	// A pointer, because fmt does not follow one inside a struct: the password stays out even of a %+v that meets a Servers in an
	// unexported field, where fmt calls no String method.
	t *topology
}

type topology struct {
	mode      Mode
	endpoints []endpoint
	fault     *FieldError // what was wrong with the address, kept for validation
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
func Single(address string) Servers {
	t := &topology{mode: ModeSingle}
	e, fault := parseAddress(address)
	if fault != nil {
		t.fault = fault
	} else {
		t.endpoints = []endpoint{e}
	}
	return Servers{t}
}

// External says that the servers are those of a connected client which the caller brings along. Username, Password, Database,
// ClientName and TLS belong to that client then and must not be set.
func External() Servers { return Servers{&topology{mode: ModeExternal}} }

// Mode returns the kind of topology, ModeNone for the zero Servers.
func (s Servers) Mode() Mode {
	if s.t == nil {
		return ModeNone
	}
	return s.t.mode
}

// Addresses returns the addresses to dial, in the order given; empty for the zero Servers, for External, and after a fault in an address.
func (s Servers) Addresses() []Address {
	if s.t == nil {
		return nil
	}
	addresses := make([]Address, len(s.t.endpoints))
	for i, e := range s.t.endpoints {
		addresses[i] = e.Address
	}
	return addresses
}

// String returns the mode and the addresses without user and password: "single redis://127.0.0.1:6379".
func (s Servers) String() string {
	words := []string{s.Mode().String()}
	for _, a := range s.Addresses() {
		words = append(words, a.String())
	}
	if s.t != nil && s.t.fault != nil {
		words = append(words, "(faulty address)")
	}
	return strings.Join(words, " ")
}

// GoString returns what String does, so that %#v shows no more.
func (s Servers) GoString() string { return s.String() }

// LogValue returns what String does.
func (s Servers) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Address is where one server listens, in the words of net.Dial.
type Address struct {
	// Network is "tcp" or "unix".
	Network string
	// Addr is host:port, with brackets around an IPv6 address, or the path of the socket.
	Addr string

	scheme string
}

// String returns the address as Single takes it, without user, password and database.
func (a Address) String() string {
	if a.scheme == "" {
		return a.Addr
	}
	if a.Network == "unix" {
		return strings.ReplaceAll((&url.URL{Scheme: a.scheme, Path: a.Addr}).String(), "@", "%40")
	}
	return (&url.URL{Scheme: a.scheme, Host: a.Addr}).String()
}

// endpoint is all that one address says.
type endpoint struct {
	Address
	username, password string
	database           int // noDatabase if the address names none
}

const noDatabase = -1

// tls reports whether the scheme demands TLS, or forbids it; neither for a bare host:port.
func (e endpoint) tls() (demanded, forbidden bool) {
	demanded = slices.Contains(tlsSchemes, e.scheme)
	return demanded, e.scheme != "" && !demanded
}

var (
	plainSchemes = []string{"redis", "valkey"}
	tlsSchemes   = []string{"rediss", "valkeys"}
	udsSchemes   = []string{"redis+uds", "valkey+uds"}
)

const (
	defaultPort    = "6379"
	addressForms   = "redis://host:port/db, rediss://…, valkey://…, valkeys://…, redis+uds:///path or host:port"
	encodingAdvice = addressForms + ", with special characters in user and password percent-encoded, or these in Username and Password"
)

// parseAddress reads one address. None of its errors carries net/url's own, since those quote the address.
func parseAddress(raw string) (endpoint, *FieldError) {
	if raw == "" {
		return endpoint{}, addressFault("an empty address", addressForms)
	}
	scheme, _, hasScheme := strings.Cut(raw, "://")
	if !hasScheme {
		return parseBare(raw)
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil, !strings.EqualFold(scheme, u.Scheme):
		return endpoint{}, addressFault("an address that is no URL", encodingAdvice)
	case slices.Contains(udsSchemes, u.Scheme):
	case !slices.Contains(plainSchemes, u.Scheme) && !slices.Contains(tlsSchemes, u.Scheme):
		return endpoint{}, addressFault("an address of the scheme "+shown(raw, scheme), addressForms)
	}
	if u.RawQuery != "" || u.ForceQuery || strings.Contains(raw, "#") {
		return endpoint{}, addressFault(`an address with "?" or "#"`, encodingAdvice)
	}
	e := endpoint{database: noDatabase, Address: Address{scheme: u.Scheme}}
	if u.User != nil {
		e.username = u.User.Username()
		e.password, _ = u.User.Password()
	}
	var fault *FieldError
	if slices.Contains(udsSchemes, u.Scheme) {
		fault = e.setSocket(raw, u)
	} else if fault = e.setHostPort(raw, u.Hostname(), portOf(u)); fault == nil {
		fault = e.setDatabase(raw, u.Path)
	}
	return e, fault
}

// portOf returns the port of a URL: 6379 if it has none, but "" if it has a colon and nothing after it, which is a slip.
func portOf(u *url.URL) string {
	if u.Port() == "" && !strings.HasSuffix(u.Host, ":") {
		return defaultPort
	}
	return u.Port()
}

// parseBare reads host:port. It insists on the port, for without one any misspelt word would be a host.
func parseBare(raw string) (endpoint, *FieldError) {
	e := endpoint{database: noDatabase}
	host, port, err := net.SplitHostPort(raw)
	if err != nil || port == "" || strings.ContainsFunc(raw, notInHost) {
		return e, addressFault(shown(raw, raw)+", which is neither a URL nor host:port", encodingAdvice)
	}
	fault := e.setHostPort(raw, host, port)
	return e, fault
}

// notInHost reports what url.Parse would refuse in a host, or read as the end of it.
func notInHost(r rune) bool {
	return r <= ' ' || r == 0x7f || strings.ContainsRune(`/@?#\"<>^{|}`+"`", r)
}

func (e *endpoint) setHostPort(raw, host, port string) *FieldError {
	switch {
	case host == "":
		return addressFault("an address without a host", addressForms)
	case strings.Contains(host, ":") && !strings.Contains(raw, "["):
		return addressFault("an address with more than one host, or an IPv6 address without brackets", "one host: redis://[::1]:6379")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return addressFault("an address with the port "+shown(raw, port), "a port from 1 to 65535")
	}
	e.Network, e.Addr = "tcp", net.JoinHostPort(host, port)
	return nil
}

func (e *endpoint) setDatabase(raw, path string) *FieldError {
	db := strings.TrimPrefix(path, "/")
	if db == "" {
		return nil
	}
	n, err := strconv.ParseUint(db, 10, 31)
	if err != nil {
		return addressFault("an address with the database "+shown(raw, db), "a number from 0 to 2147483647 after the slash, or no slash")
	}
	e.database = int(n)
	return nil
}

func (e *endpoint) setSocket(raw string, u *url.URL) *FieldError {
	if u.Host != "" || len(u.Path) < 2 {
		return addressFault("a Unix socket without an absolute path", "three slashes and the path: redis+uds:///run/redis.sock")
	}
	// An "@" in the path is more likely the end of a password that has an unencoded "/" in it, which must not become a path to show.
	if _, after, _ := strings.Cut(raw, "://"); strings.Contains(after[strings.Index(after, "/"):], "@") {
		return addressFault(`a Unix socket with an "@" in its path`, `"%40" for an "@" in the path, or "%2F" for a "/" in the password`)
	}
	e.Network, e.Addr = "unix", u.Path
	return nil
}

func addressFault(value, allowed string) *FieldError {
	return &FieldError{Field: "Servers", Value: value, Allowed: allowed}
}

// shown quotes a piece of an address for an error, unless the address has a character that comes with a password, be it in its
// place or unencoded and taken for something else: then no piece of it is safe to show.
func shown(address, piece string) string {
	if strings.ContainsAny(address, "@?#") {
		return "(not shown, it may hold a password)"
	}
	return strconv.Quote(clip(piece))
}
