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
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Options are what servers are started with.
type Options struct {
	// TLS: they speak nothing else, Cluster bus and replication included.
	TLS bool
	// ACL: the one user that URLs name may do what guardd needs (Commands on
	// keys "gd:*"), and who names no user may do nothing.
	ACL bool
	// Args are given to redis-server as they are ("--maxmemory", "1mb").
	Args []string

	certs   *certs
	cluster bool
}

// Commands is all that guardd's user needs to be allowed in Redis's ACL.
const Commands = "+eval +evalsha +script|load +mget +set +pexpire +pttl +time +info +ping +hello"

// ClusterCommands is what it needs in a Cluster beside.
const ClusterCommands = "+cluster|slots +asking"

const (
	user, password           = "guardd", "pass-of-guardd"
	operator, operatorsWords = "operator", "pass-of-operator"
)

func (o *Options) prepare(t testing.TB) {
	t.Helper()
	if o.TLS && o.certs == nil {
		o.certs = makeCerts(t)
	}
}

// config is the lines of redis.conf beyond the plain.
func (o *Options) config() string {
	var b strings.Builder
	if o.ACL {
		allowed := Commands
		if o.cluster {
			allowed += " " + ClusterCommands
		}
		fmt.Fprintf(&b, "user default off\nuser %s on >%s ~gd:* -@all %s\n", user, password, allowed)
		fmt.Fprintf(&b, "user %s on >%s ~* &* +@all\n", operator, operatorsWords)
	}
	if o.TLS {
		fmt.Fprintf(&b, "tls-cert-file %s\ntls-key-file %s\ntls-ca-cert-file %s\ntls-auth-clients no\ntls-replication yes\ntls-cluster yes\n",
			o.certs.cert, o.certs.key, o.certs.ca)
	}
	return b.String()
}

// url is the address in the form of guardd's --redis flag.
func (o *Options) url(addr string, more url.Values) string {
	u := url.URL{Scheme: "redis", Host: addr, RawQuery: more.Encode()}
	if o.TLS {
		u.Scheme = "rediss"
	}
	if o.ACL {
		u.User = url.UserPassword(user, password)
	}
	return u.String()
}

// operator is who tests look and tamper as.
func (o *Options) operator() (user, password string) {
	if !o.ACL {
		return "", ""
	}
	return operator, operatorsWords
}

func (o *Options) tls() *tls.Config {
	if !o.TLS {
		return nil
	}
	return &tls.Config{RootCAs: o.certs.pool, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
}

// certs are files for one test: an authority, and a certificate of it for
// loopback.
type certs struct {
	ca, cert, key string
	pool          *x509.CertPool
}

func makeCerts(t testing.TB) *certs {
	t.Helper()
	dir := t.TempDir()
	c := &certs{filepath.Join(dir, "ca.pem"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), x509.NewCertPool()}
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
		c.ca: {Type: "CERTIFICATE", Bytes: ca.Raw}, c.cert: {Type: "CERTIFICATE", Bytes: cert.Raw}, c.key: {Type: "PRIVATE KEY", Bytes: der},
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
	as.SerialNumber, as.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: fmt.Sprintf("redistest, authority: %t", as.IsCA)}
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
