package postgrestest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/guardd/guardd/keys/keystest/daemon"
)

// Server is one PostgreSQL of its own. Its methods are to be called from the
// test's goroutine.
type Server struct {
	t    testing.TB
	bin  string // folder
	dir  string
	port int
	as   *syscall.SysProcAttr
	cmd  *exec.Cmd
	done chan struct{}

	databases int
}

// Start makes a server with one database, postgres, and waits until it answers.
//
// Where PostgreSQL is not installed the test is skipped, loudly; with CI=true or
// GUARDD_REQUIRE_POSTGRES=1 it fails, so that a run without it cannot pass for a
// run with it.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, bin: binaries(t)}
	s.as = unprivileged(t)
	var err error
	if s.dir, err = os.MkdirTemp("", "postgrestest"); err != nil { // t.TempDir's is closed to another user
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Stop()
		os.RemoveAll(s.dir)
	})
	if c := s.as.Credential; c != nil {
		if err := os.Chown(s.dir, int(c.Uid), int(c.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	initdb := exec.Command(filepath.Join(s.bin, "initdb"), "--pgdata", s.data(), "--username", "postgres", "--auth", "trust", "--no-sync", "--encoding", "UTF8", "--locale", "C")
	initdb.SysProcAttr, initdb.Dir = s.as, s.dir
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	// Between finding a free port and binding it somebody else may take it.
	for range 5 {
		if s.port, err = daemon.FreePort(); err != nil {
			break
		}
		if err = s.run(); err == nil {
			return s
		}
	}
	t.Fatalf("postgres does not start: %v", err)
	return nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// binaries is the folder of initdb and postgres, which Debian keeps out of PATH.
func binaries(t testing.TB) string {
	t.Helper()
	folders, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.Reverse(folders) // the newest first
	if p, err := exec.LookPath("initdb"); err == nil {
		folders = append([]string{filepath.Dir(p)}, folders...)
	}
	for _, dir := range folders {
		if _, err := exec.LookPath(filepath.Join(dir, "postgres")); err == nil {
			return dir
		}
	}
	const missing = "PostgreSQL is not installed (Debian: apt-get install postgresql; macOS: brew install postgresql)"
	if os.Getenv("CI") == "true" || os.Getenv("GUARDD_REQUIRE_POSTGRES") == "1" {
		t.Fatal(missing)
	}
	t.Skip("NOT TESTED OVER POSTGRESQL: " + missing)
	return ""
}

// URL is the address of the database postgres, in the form of guardd's
// --limits-db flag.
func (s *Server) URL() string { return s.url("postgres") }

func (s *Server) url(database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", s.port, database)
}

// Database makes an empty database and returns its URL.
func (s *Server) Database() string {
	s.t.Helper()
	s.databases++
	name := fmt.Sprint("test", s.databases)
	s.Exec(s.URL(), "CREATE DATABASE "+name)
	return s.url(name)
}

// Exec runs statements in the database of a URL, as somebody at a console would.
func (s *Server) Exec(url, statements string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, statements); err != nil {
		s.t.Fatalf("%s: %v", statements, err)
	}
}

// Stop kills the server, frozen or not, with all that serves its connections.
func (s *Server) Stop() {
	if s.cmd == nil {
		return
	}
	s.signal(syscall.SIGQUIT) // ends every connection at once, and writes nothing
	s.signal(syscall.SIGCONT)
	<-s.done
	s.cmd = nil
}

// Pause freezes the server: connections stay open, nothing is answered.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume lets a frozen server go on.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

// signal reaches the server and every process that it has made: each connection
// has one of its own.
func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	for _, pid := range append(children(s.cmd.Process.Pid), s.cmd.Process.Pid) {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			s.t.Errorf("postgres: %v: %v", sig, err)
		}
	}
}

// Restart stops the server and starts it again on the same port, with what it
// holds.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	if err := s.run(); err != nil {
		s.t.Fatalf("postgres does not start again: %v", err)
	}
}

// run starts the process and returns when it says that it is ready.
func (s *Server) run() error {
	s.cmd = nil
	cmd := exec.Command(filepath.Join(s.bin, "postgres"), "-D", s.data(), "-p", fmt.Sprint(s.port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "logging_collector=off", "-c", "log_destination=stderr",
		"-c", "lc_messages=C", "-c", "max_connections=50")
	cmd.SysProcAttr, cmd.Dir = s.as, s.dir
	out, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	ready, done := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(done)
		ready <- awaitReady(out)
		io.Copy(io.Discard, out) // or it would block on a full pipe
		cmd.Wait()
	}()
	if err := <-ready; err != nil {
		<-done
		return err
	}
	s.cmd, s.done = cmd, done
	return nil
}

func awaitReady(log io.Reader) error {
	var said []string
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if strings.Contains(lines.Text(), "ready to accept connections") {
			return nil
		}
		said = append(said, lines.Text())
	}
	return fmt.Errorf("ended before it was ready:\n%s", strings.Join(said, "\n"))
}
