package config

import (
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

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

// sameAs reports whether both lead to one listener as far as their text tells: names of hosts do not differ by case.
func (a Address) sameAs(b Address) bool {
	return a.Network == b.Network && strings.EqualFold(a.Addr, b.Addr)
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
	sentinelPort   = "26379"
	addressForms   = "redis://host:port/db, rediss://…, valkey://…, valkeys://…, redis+uds:///path or host:port"
	encodingAdvice = addressForms + ", with special characters in user and password percent-encoded, or these in Username and Password"
)

// parseAddress reads one address, whose port may be left out after a scheme. None of its errors carries net/url's own, since those quote the address.
func parseAddress(raw, port string) (endpoint, *FieldError) {
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
	} else if fault = e.setHostPort(raw, u.Hostname(), portOf(u, port)); fault == nil {
		fault = e.setDatabase(raw, u.Path)
	}
	return e, fault
}

// portOf returns the port of a URL: the default if it has none, but "" if it has a colon and nothing after it, which is a slip.
func portOf(u *url.URL, byDefault string) string {
	if u.Port() == "" && !strings.HasSuffix(u.Host, ":") {
		return byDefault
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
	_, after, _ := strings.Cut(raw, "://")
	if _, path, _ := strings.Cut(after, "/"); strings.Contains(path, "@") {
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
