package daemon

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
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Certs are files for one test: an authority, and a certificate of it for
// loopback, for servers and clients.
type Certs struct {
	CA, Cert, Key string // PEM
	pool          *x509.CertPool
}

// Client is what a client that trusts the authority uses to reach loopback.
func (c *Certs) Client() *tls.Config {
	return &tls.Config{RootCAs: c.pool, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
}

// MakeCerts makes them in a folder that ends with the test.
func MakeCerts(t testing.TB) *Certs {
	t.Helper()
	dir := t.TempDir()
	c := &Certs{filepath.Join(dir, "ca.pem"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), x509.NewCertPool()}
	caKey, ca := sign(t, nil, nil, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	key, cert := sign(t, ca, caKey, &x509.Certificate{
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
	})
	c.pool.AddCert(ca)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		c.CA: {Type: "CERTIFICATE", Bytes: ca.Raw}, c.Cert: {Type: "CERTIFICATE", Bytes: cert.Raw}, c.Key: {Type: "PRIVATE KEY", Bytes: der},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// sign makes a key and its certificate; by itself when parent is nil.
func sign(t testing.TB, parent *x509.Certificate, by *ecdsa.PrivateKey, as *x509.Certificate) (*ecdsa.PrivateKey, *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	// The names differ, or OpenSSL takes the certificate for its own authority.
	as.SerialNumber, as.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: fmt.Sprintf("daemon, authority: %t", as.IsCA)}
	as.NotBefore, as.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	if parent == nil {
		parent, by = as, key
	}
	der, err := x509.CreateCertificate(rand.Reader, as, parent, &key.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return key, cert
}
