package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"

	"github.com/redlatch/redlatch/internal/redistest/redisproc"
)

// makeKeyPair makes a certificate authority and a certificate of 127.0.0.1 and localhost from it, valid for a day: the
// server's part in PEM, and the configuration of clients that trust this authority alone.
func makeKeyPair() (*redisproc.KeyPair, *tls.Config, error) {
	caKey, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	ca := template(1, "redistest authority")
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		return nil, nil, fmt.Errorf("redistest: make a certificate authority: %w", err)
	}

	key, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	leaf := template(2, "redistest server")
	leaf.KeyUsage, leaf.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	leaf.IPAddresses, leaf.DNSNames = []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	if err != nil {
		return nil, nil, fmt.Errorf("redistest: make the server's certificate: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("redistest: encode the server's key: %w", err)
	}

	pair := &redisproc.KeyPair{CA: toPEM("CERTIFICATE", caDER), Cert: toPEM("CERTIFICATE", leafDER), Key: toPEM("PRIVATE KEY", keyDER)}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pair.CA)
	return pair, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: "localhost"}, nil
}

func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("redistest: make a key: %w", err)
	}
	return key, nil
}

// template is valid from an hour ago, for machines whose clock was set back meanwhile.
func template(serial int64, name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
	}
}

func toPEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
