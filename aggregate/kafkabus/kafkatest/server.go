package kafkatest

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/guardd/guardd/keys/keystest/daemon"
)

// Options are what a server is started with.
type Options struct {
	// Secure: it speaks TLS to users (User, Password) and nothing else.
	Secure bool
	// Fake: it is kfake even where servers are real ones, for a test that has it
	// answer what a real one cannot be made to.
	Fake bool
}

// The one user of a secure server, by every mechanism.
const (
	User     = "guardd"
	Password = "pass-of-guardd"
)

// Server is a broker that is its own controller.
type Server struct {
	broker
	o     Options
	port  int
	certs *daemon.Certs
}

// broker is one of the two kinds.
type broker interface {
	// Start starts it, again with what it had stored.
	Start() error
	// Kill ends it at once. Clients see their connections break and new ones
	// refused.
	Kill()
	// Pause freezes it: connections stay open, nothing is answered. Resume lets
	// it go on.
	Pause()
	Resume()
	// Alive says why it has ended, if it has.
	Alive() error
}

// Start runs a server and waits until it answers. It ends with the test.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	var certs *daemon.Certs
	if o.Secure {
		certs = daemon.MakeCerts(t)
	}
	s, err := start(t.TempDir(), o, certs)
	if err != nil {
		t.Fatalf("no Kafka starts: %v", err)
	}
	t.Cleanup(s.Kill)
	return s
}

// Shared is a server for all tests of a package: a real one takes seconds to
// start, most of what a test of it takes.
type Shared struct {
	dir string
	s   *Server
}

// Server starts the server when it is first asked for. What a test froze goes on
// when it ends, and what it killed is started again for the next one.
func (h *Shared) Server(t testing.TB) *Server {
	t.Helper()
	var err error
	switch {
	case h.s == nil:
		if h.dir, err = os.MkdirTemp("", "kafkatest"); err == nil {
			h.s, err = start(h.dir, Options{}, nil)
		}
	case h.s.Alive() != nil:
		err = h.s.Restart()
	}
	if err != nil {
		t.Fatalf("no Kafka starts: %v", err)
	}
	t.Cleanup(h.s.Resume)
	return h.s
}

// Close ends it.
func (h *Shared) Close() error {
	if h.s != nil {
		h.s.Kill()
	}
	return os.RemoveAll(h.dir)
}

func start(dir string, o Options, certs *daemon.Certs) (s *Server, err error) {
	s = &Server{o: o, certs: certs}
	// Between finding a free port and binding it somebody else may take it.
	for range 5 {
		if s.port, err = daemon.FreePort(); err != nil {
			return nil, err
		}
		if Real() && !o.Fake {
			s.broker, err = newProcess(s, dir)
		} else {
			s.broker = &fake{s: s, dir: dir}
		}
		if err == nil {
			err = s.Restart()
		}
		if err == nil {
			return s, nil
		}
	}
	return nil, err
}

// Real tells whether servers are real ones.
func Real() bool { return jars() != "" }

func jars() string { return os.Getenv("GUARDD_TEST_KAFKA_JARS") }

// Restart starts a killed server again and waits until it answers.
func (s *Server) Restart() error {
	if err := s.Start(); err != nil {
		return err
	}
	for range 3000 {
		if err := s.Alive(); err != nil {
			return err
		}
		// The client would sit out its back-off where nobody listens yet.
		if c, err := net.Dial("tcp", s.Addr()); err == nil {
			c.Close()
			_, err := s.Version()
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	s.Kill()
	return errors.New("the broker does not listen after five minutes")
}

// Addr is host:port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// TLS is what a client of a secure server trusts; nil for others.
func (s *Server) TLS() *tls.Config {
	if !s.o.Secure {
		return nil
	}
	return s.certs.Client()
}

// CA is the file with the certificate authority of a secure server.
func (s *Server) CA() string { return s.certs.CA }
