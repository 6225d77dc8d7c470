package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

// TestMain makes this test binary stand for the commands guardd and curl in
// PATH, so that scripts and snippets drive the real main in processes of its own.
// It fails when a test has left a goroutine behind.
func TestMain(m *testing.M) {
	testscript.Main(leakless{m}, map[string]func(){"guardd": main, "curl": curl})
}

type leakless struct{ *testing.M }

func (l leakless) Run() int {
	code := l.M.Run()
	http.DefaultClient.CloseIdleConnections()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, "goroutines are left:", err)
		return 1
	}
	return code
}

// patience is how long a test waits for another process before it fails. No
// test passes or fails by how fast something was.
const patience = 20 * time.Second

// process is a running guardd.
type process struct {
	cmd            *exec.Cmd
	service, admin string // URLs
	challenges     string
	done           chan struct{}
	err            error // of Wait, once done is closed

	mu      sync.Mutex
	log     strings.Builder
	changed chan struct{} // closed when log has grown
}

// startProcess runs guardd serve on free ports and returns when it listens.
// dir and environ may be zero: here, and as here.
func startProcess(dir string, environ []string, args ...string) (*process, error) {
	p := &process{done: make(chan struct{}), changed: make(chan struct{})}
	p.cmd = exec.Command("guardd", append([]string{"serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--log-format", "json"}, args...)...)
	p.cmd.Dir, p.cmd.Env = dir, environ
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go p.read(stderr)
	line, err := p.awaitLog(`"msg":"listening"`)
	if err != nil {
		p.kill()
		return nil, err
	}
	var said struct{ Service, Admin, Challenges string }
	if err := json.Unmarshal([]byte(line), &said); err != nil {
		return nil, err
	}
	p.service, p.admin, p.challenges = said.Service, said.Admin, said.Challenges
	return p, nil
}

func (p *process) read(stderr io.Reader) {
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		p.mu.Lock()
		p.log.WriteString(lines.Text() + "\n")
		close(p.changed)
		p.changed = make(chan struct{})
		p.mu.Unlock()
	}
	p.err = p.cmd.Wait()
	close(p.done)
}

// awaitLog returns the first line of the log that has the text, when it comes.
func (p *process) awaitLog(text string) (string, error) {
	late := time.After(patience)
	for {
		p.mu.Lock()
		log, changed := p.log.String(), p.changed
		p.mu.Unlock()
		for line := range strings.Lines(log) {
			if strings.Contains(line, text) {
				return line, nil
			}
		}
		select {
		case <-changed:
		case <-p.done:
			return "", fmt.Errorf("guardd ended (%v) and did not say %s:\n%s", p.err, text, p.logged())
		case <-late:
			return "", fmt.Errorf("guardd does not say %s:\n%s", text, p.logged())
		}
	}
}

func (p *process) logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// wait returns the exit code when the process has ended (-1: by a signal).
func (p *process) wait() (int, error) {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-time.After(patience):
		return 0, fmt.Errorf("guardd does not end:\n%s", p.logged())
	}
}

func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.done
}

// startGuardd is startProcess for one test, which ends it.
func startGuardd(t *testing.T, args ...string) *process {
	t.Helper()
	p, err := startProcess("", nil, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Log(p.logged())
		}
	})
	return p
}

// post sends a body to /v1 and decodes the answer into out, which may be nil.
func (p *process) post(t *testing.T, path, body string, out any) (status int) {
	t.Helper()
	resp, err := http.Post(p.service+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if out != nil {
		if err := json.Unmarshal(text, out); err != nil {
			t.Fatalf("%s: %d %s: %v", path, resp.StatusCode, text, err)
		}
	}
	return resp.StatusCode
}

// get returns status and body.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// curl is as much of curl as the scripts and the README use, so that they run
// where curl is not installed: [-s] [-o FILE] [-X METHOD] [-H HEADER]... [--json BODY] URL[FROM-TO].
func curl() {
	method, body, url := "", "", ""
	header := http.Header{}
	for args := os.Args[1:]; len(args) > 0; args = args[1:] {
		next := func() string {
			if len(args) < 2 {
				fail("curl: %s wants a value", args[0])
			}
			args = args[1:]
			return args[0]
		}
		switch args[0] {
		case "-s":
		case "-o":
			var err error
			if os.Stdout, err = os.Create(next()); err != nil {
				fail("curl: %v", err)
			}
		case "-X":
			method = next()
		case "--json":
			body = next()
			header.Set("Content-Type", "application/json")
		case "-H":
			k, v, _ := strings.Cut(next(), ":")
			header.Add(k, strings.TrimSpace(v))
		default:
			url = args[0]
		}
	}
	if !strings.Contains(url, "://") {
		url = "http://" + url
	}
	if method == "" {
		method = http.MethodGet
		if body != "" {
			method = http.MethodPost
		}
	}
	first, last := 1, 1 // as in http://host/path?[1-10]
	if before, glob, ok := strings.Cut(url, "["); ok {
		if _, err := fmt.Sscanf(glob, "%d-%d]", &first, &last); err != nil {
			fail("curl: %s: %v", url, err)
		}
		url = before
	}
	for ; first <= last; first++ {
		fetch(method, url, body, header)
	}
}

func fetch(method, url, body string, header http.Header) {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		fail("curl: %v", err)
	}
	req.Header = header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		fail("curl: %v", err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(os.Stdout, resp.Body); err != nil {
		fail("curl: %v", err)
	}
}

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(1)
}
