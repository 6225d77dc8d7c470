package redistest

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/guardd/guardd/keys/keystest/daemon"
)

// Server is one redis-server process. Its methods are to be called from the
// test's goroutine.
type Server struct {
	t     testing.TB
	o     Options
	bin   string
	dir   string
	port  int
	extra []string // lines of its configuration
	args  []string
	ready string // the line of its log that says that it answers
	cmd   *exec.Cmd
	done  chan error // receives once, when the process has ended

	once   sync.Once
	client *redis.Client
}

// Start runs a server and waits until it answers. Further arguments are given
// to redis-server as they are ("--maxmemory", "1mb").
//
// Where redis-server is not installed the test is skipped, loudly; with CI=true
// or GUARDD_REQUIRE_REDIS=1 it fails, so that a run without Redis cannot pass
// for a run with it.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return StartWith(t, Options{Args: args})
}

// StartWith is Start with options.
func StartWith(t testing.TB, o Options) *Server {
	t.Helper()
	o.prepare(t)
	return start(t, o, "Ready to accept connections", nil)
}

// start runs a server on a free port, with the lines that extra says for it in
// its configuration.
func start(t testing.TB, o Options, ready string, extra func(port int) []string, args ...string) *Server {
	t.Helper()
	s := &Server{t: t, o: o, bin: binary(t), dir: t.TempDir(), ready: ready, args: append(args, o.Args...)}
	t.Cleanup(func() {
		if s.client != nil {
			s.client.Close()
		}
		s.Stop()
	})
	// Between finding a free port and binding it somebody else may take it.
	var err error
	for range 5 {
		if s.port, err = daemon.FreePort(); err != nil {
			break
		}
		if extra != nil {
			s.extra = extra(s.port)
		}
		if err = s.run(); err == nil {
			return s
		}
	}
	t.Fatalf("redis-server does not start: %v", err)
	return nil
}

func binary(t testing.TB) string {
	t.Helper()
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		const missing = "redis-server is not installed (Debian: apt-get install redis-server; macOS: brew install redis)"
		if os.Getenv("CI") == "true" || os.Getenv("GUARDD_REQUIRE_REDIS") == "1" {
			t.Fatal(missing)
		}
		t.Skip("NOT TESTED OVER REDIS: " + missing)
	}
	return bin
}

// Addr is host:port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// URL is the server's address in the form of guardd's --redis flag.
func (s *Server) URL() string { return s.o.url(s.Addr(), nil) }

// Dir is where the server keeps its files.
func (s *Server) Dir() string { return s.dir }

// CA is the file with the certificate authority of a server with TLS.
func (s *Server) CA() string { return s.o.certs.CA }

// TLS is what a client of a server with TLS trusts; nil without.
func (s *Server) TLS() *tls.Config { return s.o.tls() }

// Client is a plain client, of a user who may do everything, for looking at and
// tampering with what a test left there; its time-outs are the library's. It is
// closed when the test ends.
func (s *Server) Client() *redis.Client {
	s.once.Do(func() {
		name, words := s.o.operator()
		s.client = redis.NewClient(&redis.Options{Addr: s.Addr(), Username: name, Password: words, TLSConfig: s.o.tls()})
	})
	return s.client
}

// PID is the process id of the running server.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Stop kills the server, paused or not, and waits until it is gone. Clients
// see their connections break and new ones refused.
func (s *Server) Stop() {
	if s.cmd == nil {
		return
	}
	s.cmd.Process.Kill()
	<-s.done
	s.cmd = nil
}

// Pause freezes the server: connections stay open, nothing is answered.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume lets a paused server go on; it then works off what was sent meanwhile.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

// Restart stops the server and starts it again on the same port, empty. What a
// Cluster's node or a Sentinel knows of the others it still knows.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	if err := s.exec(filepath.Join(s.dir, "redis.conf")); err != nil {
		s.t.Fatalf("redis-server does not start again: %v", err)
	}
}

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if s.cmd == nil {
		s.t.Fatal("redis-server is not running")
	}
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatalf("redis-server: %v: %v", sig, err)
	}
}

// configure writes the configuration. A server writes into it too (Sentinel),
// so it is made once: what it has learnt outlives a restart.
func (s *Server) configure() (string, error) {
	file, port := filepath.Join(s.dir, "redis.conf"), "port"
	if s.o.TLS {
		port = "port 0\ntls-port"
	}
	lines := append([]string{"bind 127.0.0.1", fmt.Sprint(port, " ", s.port), `save ""`, "appendonly no",
		"dir " + s.dir, "loglevel notice", `logfile ""`}, s.extra...)
	return file, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"+s.o.config()), 0o600)
}

// run starts the process and returns when its log says that it is ready, which
// is after it has bound its port.
func (s *Server) run() error {
	file, err := s.configure()
	if err != nil {
		return err
	}
	return s.exec(file)
}

func (s *Server) exec(file string) error {
	cmd := exec.Command(s.bin, append([]string{file}, s.args...)...)
	cmd.SysProcAttr = daemon.DieWithParent()
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	ready, done := make(chan error, 1), make(chan error, 1)
	go func() {
		// The log is read to its end, or the server would block on a full pipe.
		var tail []string
		started := false
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if strings.Contains(lines.Text(), s.ready) && !started {
				started = true
				ready <- nil
			}
			if !started {
				tail = append(tail, lines.Text())
			}
		}
		err := cmd.Wait()
		if !started {
			ready <- fmt.Errorf("%w\n%s", errors.Join(errors.New("ended before it was ready"), err), strings.Join(tail, "\n"))
		}
		done <- err
	}()
	if err := <-ready; err != nil {
		<-done
		return err
	}
	s.cmd, s.done = cmd, done
	return nil
}

// RestartLoading has the server save what it holds and starts it again, so slow
// to read it back (10 ms a key) that it says LOADING meanwhile.
func (s *Server) RestartLoading() {
	s.t.Helper()
	if err := s.Client().Save(context.Background()).Err(); err != nil {
		s.t.Fatal(err)
	}
	s.Stop()
	s.ready = "Loading RDB"
	s.args = append(s.args, "--key-load-delay", "10000", "--loading-process-events-interval-bytes", "1024")
	if err := s.exec(filepath.Join(s.dir, "redis.conf")); err != nil {
		s.t.Fatalf("redis-server does not start again: %v", err)
	}
}
