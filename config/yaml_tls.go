package config

import (
	"crypto/tls"
	"crypto/x509"
	"strconv"
	"strings"
)

// yamlTLS is what the ssl keys say. It counts only if the scheme of an address demands TLS.
type yamlTLS struct {
	verification string // one of the words below, or "" for the default
	versions     []uint16
	warnings     []Warning
	ownRoots     bool // in a Java key store
}

// tlsOnly warns if there is TLS at all.
func tlsOnly(text string) func(*yamlReader, yamlValue) {
	return func(r *yamlReader, v yamlValue) {
		if v.class == "" && v.empty() {
			return
		}
		r.tls.warnings = append(r.tls.warnings, Warning{Key: v.key, Line: v.line, Text: text})
		r.tls.ownRoots = r.tls.ownRoots || v.name == "sslTruststore"
	}
}

const (
	verifyNothing = "NONE"
	verifyCA      = "CA_ONLY"
	verifyAll     = "STRICT"
)

func (r *yamlReader) readVerificationMode(v yamlValue) {
	text, given := r.text(v)
	switch mode := strings.ToUpper(text); {
	case mode == verifyNothing, mode == verifyCA, mode == verifyAll:
		r.tls.verification = mode
	case given:
		r.fault(v, strconv.Quote(clip(text)), "STRICT, CA_ONLY or NONE")
	}
}

// readEndpointIdentification reads the former name: false is NONE, as Redisson 4 takes it.
func (r *yamlReader) readEndpointIdentification(v yamlValue) {
	if check, ok := r.truth(v); ok && !check {
		r.tls.verification = verifyNothing
	}
}

var tlsVersions = map[string]uint16{
	"TLSv1": tls.VersionTLS10, "TLSv1.1": tls.VersionTLS11, "TLSv1.2": tls.VersionTLS12, "TLSv1.3": tls.VersionTLS13,
}

func (r *yamlReader) readProtocols(v yamlValue) {
	items, ok := r.items(v)
	if !ok && !v.empty() {
		r.fault(v, "no list", "a list of TLSv1.2 and TLSv1.3")
		return
	}
	r.tls.versions = nil
	for _, item := range items {
		text, _ := r.text(item)
		version, known := tlsVersions[text]
		if !known {
			r.fault(item, strconv.Quote(clip(text)), "TLSv1, TLSv1.1, TLSv1.2 or TLSv1.3")
			return
		}
		r.tls.versions = append(r.tls.versions, version)
	}
}

// settleTLS makes the settings of TLS. NONE trusts any server, but with a trust store it means CA_ONLY in Redisson, and so here.
func (r *yamlReader) settleTLS() {
	r.warnings = append(r.warnings, r.tls.warnings...)
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if v := r.tls.versions; len(v) > 0 {
		t.MinVersion, t.MaxVersion = v[0], v[0]
		for _, version := range v {
			t.MinVersion, t.MaxVersion = min(t.MinVersion, version), max(t.MaxVersion, version)
		}
	}
	switch mode := r.tls.verification; {
	case mode == verifyNothing && !r.tls.ownRoots:
		t.InsecureSkipVerify = true
	case mode == verifyNothing, mode == verifyCA:
		verifyChainOnly(t)
	}
	r.cfg.TLS = t
}

// verifyChainOnly checks who signed the certificate, but not for which host. It looks at RootCAs as it is when a connection is made, so
// that the pool may be set after the YAML was read.
func verifyChainOnly(t *tls.Config) {
	t.InsecureSkipVerify = true
	t.VerifyConnection = func(state tls.ConnectionState) error {
		options := x509.VerifyOptions{Roots: t.RootCAs, Intermediates: x509.NewCertPool()}
		for _, certificate := range state.PeerCertificates[1:] {
			options.Intermediates.AddCert(certificate)
		}
		_, err := state.PeerCertificates[0].Verify(options)
		return err
	}
}
