package soctest

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/guardd/guardd/keys/keystest/daemon"
)

// patience is how long a program has to come up.
const patience = 20 * time.Second

// program is one that runs until the test ends.
type program struct {
	cmd *exec.Cmd
	mu  sync.Mutex
	out bytes.Buffer
}

func (p *program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *program) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// find returns where a program is. Debian keeps rsyslogd in /usr/sbin.
func find(t testing.TB, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
		if path := "/usr/sbin/" + name; exists(path) {
			return path
		}
	}
	if os.Getenv("CI") != "" || os.Getenv("GUARDD_REQUIRE_SOC") != "" {
		t.Fatalf("%s is not installed", names[0])
	}
	t.Skipf("%s is not installed", names[0])
	return ""
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

// run starts a program that is to listen on a port of args' choice.
func run(t testing.TB, path string, args func(port string) []string) (p *program, addr string) {
	t.Helper()
	for range 3 { // somebody may take the port first
		port, err := daemon.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		addr = net.JoinHostPort("127.0.0.1", itoa(port))
		p = &program{}
		p.cmd = exec.Command(path, args(itoa(port))...)
		p.cmd.Stdout, p.cmd.Stderr, p.cmd.SysProcAttr = p, p, daemon.DieWithParent()
		if err := p.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if p.listens(addr) {
			t.Cleanup(func() {
				p.stop()
				if t.Failed() {
					t.Logf("%s said:\n%s", path, p.said())
				}
			})
			return p, addr
		}
		p.stop()
	}
	t.Fatalf("%s does not listen:\n%s", path, p.said())
	return nil, ""
}

func (p *program) listens(addr string) bool {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial("tcp", addr); err == nil {
			return c.Close() == nil
		}
		if strings.Contains(p.said(), "address already in use") {
			return false
		}
	}
	return false
}

func (p *program) stop() {
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.cmd.Wait()
}
