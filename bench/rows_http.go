package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"
)

const (
	httpRound   = 1200 * time.Millisecond
	httpLatency = 1500 * time.Millisecond
)

// process is a server of the HTTP rows.
type process struct {
	name string
	addr string
	cmd  *exec.Cmd
}

func startProcess(name, bin string, args func(addr string) []string) (*process, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	p := &process{name: name, addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	p.cmd = exec.Command(bin, args(p.addr)...)
	said := &tail{}
	p.cmd.Stderr = said
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	for range 200 {
		if c, err := net.Dial("tcp", p.addr); err == nil {
			c.Close()
			return p, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	p.stop()
	return nil, fmt.Errorf("%s does not listen: %s", name, said)
}

func (p *process) stop() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// tail keeps the end of what a process says, for when it fails.
type tail struct{ b []byte }

func (t *tail) Write(b []byte) (int, error) {
	t.b = append(t.b, b...)
	t.b = t.b[max(0, len(t.b)-2000):]
	return len(b), nil
}

func (t *tail) String() string { return string(t.b) }

// httpSide is the real guardd, twice, beside the bare handler.
type httpSide struct {
	node      *node
	dir       string
	processes []*process
	next      atomic.Int64
	rates     map[string]float64 // last saturated requests a second
	overRedis []string           // a guardd's arguments
}

func newHTTPSide(root string) (*httpSide, error) {
	h, err := newServers(root)
	if err != nil {
		return nil, err
	}
	err = errors.Join(h.bare("bare chi handler", "serve-bare"), h.guardd("guardd, twin"), h.guardd("guardd, Redis", h.overRedis...))
	if err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

// newServers builds guardd from the source at root, and starts a Redis.
func newServers(root string) (h *httpSide, err error) {
	h = &httpSide{rates: map[string]float64{}}
	defer func() {
		if err != nil {
			h.close()
		}
	}()
	if h.dir, err = os.MkdirTemp("", "guardd-bench"); err != nil {
		return nil, err
	}
	guardd := filepath.Join(h.dir, "guardd")
	build := exec.Command("go", "build", "-o", guardd, "./cmd/guardd")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building guardd: %w\n%s", err, out)
	}
	if h.node, err = startRedis(); err != nil {
		return nil, err
	}
	secret := filepath.Join(h.dir, "secret")
	if err := os.WriteFile(secret, []byte("c2VjcmV0IG9mIGEgYmVuY2htYXJrLCBub3Qgb2YgYSBzZXJ2aWNl\n"), 0o600); err != nil {
		return nil, err
	}
	// At saturation requests queue for far longer than 5 ms: with the default
	// deadline most would rightly be answered without Redis.
	h.overRedis = []string{"--secret-file", secret, "--redis", "redis://" + h.node.addr + "?pool_size=64", "--redis-deadline", "500ms"}
	return h, nil
}

// bare starts this program as a server.
func (h *httpSide) bare(name, command string, more ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return h.start(name, self, func(addr string) []string { return append([]string{command, addr}, more...) })
}

// guardd starts a guardd.
func (h *httpSide) guardd(name string, more ...string) error {
	return h.start(name, filepath.Join(h.dir, "guardd"), func(addr string) []string {
		return append([]string{"serve", "--listen", addr, "--admin-listen", "127.0.0.1:0"}, more...)
	})
}

func (h *httpSide) start(name, bin string, args func(addr string) []string) error {
	p, err := startProcess(name, bin, args)
	if err == nil {
		h.processes = append(h.processes, p)
	}
	return err
}

func (h *httpSide) close() {
	for _, p := range h.processes {
		p.stop()
	}
	if h.node != nil {
		h.node.stop()
	}
	os.RemoveAll(h.dir)
}

// used is the processor time so far of everybody who has part in a request:
// who sends it, who answers it, and Redis.
func (h *httpSide) used(p *process) (time.Duration, error) {
	server, err := processCPU(p.cmd.Process.Pid)
	if err != nil {
		return 0, err
	}
	redis, err := h.node.cpu()
	return selfCPU() + server + redis, err
}

var errRefused = errors.New("more than a hundredth of the requests were refused or answered without Redis")

func (h *httpSide) saturated(p *process, ask asking) func() (sample, error) {
	return func() (sample, error) {
		if err := h.node.flush(); err != nil {
			return nil, err
		}
		from, err := h.used(p)
		if err != nil && !errors.Is(err, errNoProc) {
			return nil, err
		}
		l := load{p.addr, &h.next, parallel}
		t, err2 := l.saturate(httpRound, ask)
		if err2 != nil {
			return nil, err2
		}
		if 100*(t.refused+t.degraded) > t.requests {
			return nil, fmt.Errorf("%w: %d and %d of %d", errRefused, t.refused, t.degraded, t.requests)
		}
		perSecond := float64(t.requests) / t.took.Seconds()
		h.rates[p.name] = perSecond
		s := sample{"requests/s": perSecond, "requests/cpu s": perSecond}
		if err == nil {
			to, err := h.used(p)
			if err != nil {
				return nil, err
			}
			s["requests/cpu s"] = float64(t.requests) / (to - from).Seconds()
		}
		return s, nil
	}
}

// halfLoad offers half of what the server did when saturated, and looks at how
// long answers take.
func (h *httpSide) halfLoad(p *process) func() (sample, error) {
	return func() (sample, error) {
		if err := h.node.flush(); err != nil {
			return nil, err
		}
		l := load{p.addr, &h.next, parallel}
		t, err := l.offer(h.rates[p.name]/2, httpLatency)
		if err != nil {
			return nil, err
		}
		return sample{
			"p50 ms": quantile(t.latencies, 0.5), "p99 ms": quantile(t.latencies, 0.99),
			"offered/s": h.rates[p.name] / 2, "degraded": float64(t.degraded) / float64(t.requests),
		}, nil
	}
}

func (h *httpSide) groups() []group {
	const bare, twin, shared = "bare chi handler", "guardd, twin", "guardd, Redis"
	const per = "requests/cpu s"
	saturated := group{name: "http, saturated", floor: bare, measure: per, unit: "requests a second of CPU, sender's, server's and Redis'",
		rows: []row{
			{What: "POST /v1/attempts, twin", Against: bare, of: twin, base: bare, measure: per, higher: true, must: 0.70, aim: 0.85},
			{What: "POST /v1/attempts, Redis", Against: bare, of: shared, base: bare, measure: per, higher: true, must: 0.33, aim: 0.45},
		}}
	half := group{name: "http, half load", floor: bare, measure: "p50 ms", unit: "ms, p50 of the bare handler",
		rows: []row{
			{What: "p99 at half load, twin", Against: bare + " at its half load", of: twin, base: bare, measure: "p99 ms", report: true},
			{What: "p99 at half load, Redis", Against: bare + " at its half load", of: shared, base: bare, measure: "p99 ms", report: true},
		}}
	for _, p := range h.processes {
		saturated.subjects = append(saturated.subjects, subject{p.name, h.saturated(p, (*session).attempt)})
		half.subjects = append(half.subjects, subject{p.name, h.halfLoad(p)})
	}
	return []group{saturated, half}
}
