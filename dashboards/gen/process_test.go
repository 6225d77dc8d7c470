package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/guardd/guardd/keys/keystest/daemon"
)

// patience is how long a test waits for another process before it fails. No test
// passes or fails by how fast something was.
const patience = 90 * time.Second

// eventually looks again and again until done, which tells what it waits for.
func eventually(t *testing.T, done func() (ok bool, waiting string)) {
	t.Helper()
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); ; <-tick.C {
		ok, waiting := done()
		if ok {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("still waiting: %s", waiting)
		}
	}
}

// freePort is one for a server that the test starts, and starts again.
func freePort(t *testing.T) string {
	t.Helper()
	n, err := daemon.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(n))
}

// guarddProcess is a real guardd.
type guarddProcess struct {
	service, admin string // addresses
	bin, config    string
	cmd            *exec.Cmd
	done           chan struct{}

	mu  sync.Mutex
	log strings.Builder
}

// buildGuardd builds the binary of the tree that this is a part of.
func buildGuardd(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "guardd")
	cmd := exec.Command("go", "build", "-o", bin, "./cmd/guardd")
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return bin
}

// startGuardd runs one until the test ends. Between finding a free port and binding
// it somebody else may take it, so that it is tried again.
func startGuardd(t *testing.T, bin, config string) *guarddProcess {
	t.Helper()
	p := &guarddProcess{bin: bin, config: config}
	var err error
	for range 5 {
		p.service, p.admin = freePort(t), freePort(t)
		if err = p.start(t); err == nil || !strings.Contains(p.logged(), "address already in use") {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Log(p.complaints())
		}
	})
	return p
}

// start returns when it answers, or when it has ended.
func (p *guarddProcess) start(t *testing.T) error {
	t.Helper()
	p.cmd = exec.Command(p.bin, "serve", "--config", p.config, "--listen", p.service, "--admin-listen", p.admin, "--log-format", "json")
	p.cmd.SysProcAttr = daemon.DieWithParent()
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	p.done = done
	go func(cmd *exec.Cmd) {
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			p.mu.Lock()
			p.log.WriteString(lines.Text() + "\n")
			p.mu.Unlock()
		}
		_ = cmd.Wait()
		close(done)
	}(p.cmd)
	eventually(t, func() (bool, string) {
		select {
		case <-done:
			err = fmt.Errorf("guardd ended:\n%s", p.complaints())
			return true, ""
		default:
		}
		status, _ := get("http://" + p.admin + "/readyz")
		return status == http.StatusOK, p.complaints()
	})
	return err
}

func (p *guarddProcess) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

func (p *guarddProcess) logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// complaints are the log's lines above info, the first of them.
func (p *guarddProcess) complaints() string {
	var list []string
	for line := range strings.Lines(p.logged()) {
		if !strings.Contains(line, `"level":"INFO"`) && len(list) < 20 {
			list = append(list, line)
		}
	}
	return strings.Join(list, "")
}

// code is the verification code that was delivered, to the log, for a challenge.
func (p *guarddProcess) code(token string) string {
	for line := range strings.Lines(p.logged()) {
		var said struct {
			Code   string
			Begins string `json:"token_begins"`
		}
		if json.Unmarshal([]byte(line), &said) == nil && said.Code != "" && strings.HasPrefix(token, said.Begins) {
			return said.Code
		}
	}
	return ""
}

// hangUp has it read its policy again.
func (p *guarddProcess) hangUp(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}

// run runs a command of guardd's.
func run(t *testing.T, stdin, bin string, args ...string) {
	t.Helper()
	cmd := exec.Command(bin, args...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("guardd %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// get is status and body; 0 when nobody answers.
func get(url string) (int, string) {
	resp, err := http.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}

// writeFile writes one for the test.
func writeFile(t *testing.T, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
