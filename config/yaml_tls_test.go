package config_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// authority signs one certificate for a host.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	certificate, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return authority{certificate, key}
}

func (a authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

func (a authority) sign(t *testing.T, host string) tls.Certificate {
	template := &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{host}}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, a.key.Public(), a.key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.key}
}

// shake does one handshake with a server of this certificate and returns what the client makes of it.
func shake(t *testing.T, client *tls.Config, certificate tls.Certificate) error {
	near, far := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = far.Close() }()
		_ = tls.Server(far, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}).HandshakeContext(t.Context())
	}()
	err := tls.Client(near, client).HandshakeContext(t.Context())
	_ = near.Close()
	<-done
	return err
}

func TestCAOnlyChecksWhoSignedButNotForWhichHost(t *testing.T) {
	cfg, _ := read(t, "singleServerConfig:\n  address: rediss://redis.example:1\nsslVerificationMode: CA_ONLY\n")
	ours, foreign := newAuthority(t), newAuthority(t)
	cfg.TLS.RootCAs = ours.pool()
	cfg, err := cfg.WithDefaults()
	require.NoError(t, err)
	require.NoError(t, shake(t, cfg.TLS, ours.sign(t, "elsewhere.example")))
	require.ErrorContains(t, shake(t, cfg.TLS, foreign.sign(t, "redis.example")), "unknown authority")
}

func TestStrictChecksTheHostToo(t *testing.T) {
	cfg, _ := read(t, "singleServerConfig:\n  address: rediss://redis.example:1\n")
	ours := newAuthority(t)
	cfg.TLS.RootCAs = ours.pool()
	cfg.TLS.ServerName = "redis.example"
	require.NoError(t, shake(t, cfg.TLS, ours.sign(t, "redis.example")))
	require.ErrorContains(t, shake(t, cfg.TLS, ours.sign(t, "elsewhere.example")), "not redis.example")
}
