package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Server is one redis-server process. Its methods are to be called from the
// test's goroutine.
type Server struct {
	t    testing.TB
	bin  string
	port int
	args []string
	cmd  *exec.Cmd
	done chan error // receives once, when the process has ended

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
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		const missing = "redis-server is not installed (Debian: apt-get install redis-server; macOS: brew install redis)"
		if os.Getenv("CI") == "true" || os.Getenv("GUARDD_REQUIRE_REDIS") == "1" {
			t.Fatal(missing)
		}
		t.Skip("NOT TESTED OVER REDIS: " + missing)
	}
	s := &Server{t: t, bin: bin, args: args}
	t.Cleanup(func() {
		if s.client != nil {
			s.client.Close()
		}
		s.Stop()
	})
	// Between finding a free port and binding it somebody else may take it.
	for range 5 {
		if s.port, err = freePort(); err != nil {
			break
		}
		if err = s.run(); err == nil {
			return s
		}
	}
	t.Fatalf("redis-server does not start: %v", err)
	return nil
}

// Addr is host:port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// URL is the server's address in the form of guardd's --redis flag.
func (s *Server) URL() string { return "redis://" + s.Addr() }

// Client is a plain client for looking at and tampering with what a test left
// there; its time-outs are the library's. It is closed when the test ends.
func (s *Server) Client() *redis.Client {
	s.once.Do(func() { s.client = redis.NewClient(&redis.Options{Addr: s.Addr()}) })
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

// Restart stops the server and starts it again on the same port, empty.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	if err := s.run(); err != nil {
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

// run starts the process and returns when its log says that it is ready, which
// is after it has bound its port.
func (s *Server) run() error {
	cmd := exec.Command(s.bin, append([]string{
		"--bind", "127.0.0.1", "--port", strconv.Itoa(s.port),
		"--save", "", "--appendonly", "no", "--dir", s.t.TempDir(),
		"--loglevel", "notice", "--logfile", "",
	}, s.args...)...)
	cmd.SysProcAttr = dieWithParent()
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
			if strings.Contains(lines.Text(), "Ready to accept connections") && !started {
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

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
