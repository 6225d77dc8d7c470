package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/guardd/guardd/breached"
)

const (
	rangeRows   = 905 // of a real range
	rangePrefix = "ABCDE"
	askRange    = "GET /v1/breached/range/" + rangePrefix + " HTTP/1.1\r\nHost: guardd\r\n\r\n"
	checkBody   = `{"sha1":"` + rangePrefix + `00000000000000000000000000000000001"}`
)

var askCheck = fmt.Sprintf("POST /v1/breached/check HTTP/1.1\r\nHost: guardd\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(checkBody), checkBody)

// rangeBody is a range of as many rows as a real one has.
func rangeBody() string {
	rows := make([]string, rangeRows)
	for i := range rows {
		rows[i] = fmt.Sprintf("%035X:%d", 1+i*7919, 1+i%9)
	}
	return strings.Join(rows, "\r\n")
}

// breachedHTTPSide is guardd with one range beside a bare handler that answers
// the same.
type breachedHTTPSide struct {
	dir       string
	processes []*process
}

func newBreachedHTTPSide(root string) (_ *breachedHTTPSide, err error) {
	s := &breachedHTTPSide{}
	if s.dir, err = os.MkdirTemp("", "guardd-breached-http"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	guardd, index := filepath.Join(s.dir, "guardd"), filepath.Join(s.dir, "index")
	build := exec.Command("go", "build", "-o", guardd, "./cmd/guardd")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building guardd: %w\n%s", err, out)
	}
	rows := rangePrefix + strings.ReplaceAll(rangeBody(), "\r\n", "\n"+rangePrefix)
	if _, err := breached.Build(context.Background(), breached.NewCorpus("rows", strings.NewReader(rows)), index, breached.BuildOptions{Partial: true}, nil); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	for _, p := range []struct {
		name, bin string
		args      func(string) []string
	}{
		{"bare chi handler", self, func(addr string) []string { return []string{"serve-bare", addr} }},
		{"guardd", guardd, func(addr string) []string {
			return []string{"serve", "--listen", addr, "--admin-listen", "127.0.0.1:0", "--breached", index}
		}},
	} {
		started, err := startProcess(p.name, p.bin, p.args)
		if err != nil {
			return nil, err
		}
		s.processes = append(s.processes, started)
	}
	return s, nil
}

func (s *breachedHTTPSide) close() {
	for _, p := range s.processes {
		p.stop()
	}
	os.RemoveAll(s.dir)
}

// asked sends one request as fast as it is answered, for a round.
func (s *breachedHTTPSide) asked(p *process, request string, least int) func() (sample, error) {
	return func() (sample, error) {
		server, err := processCPU(p.cmd.Process.Pid)
		if err != nil {
			return nil, err
		}
		from, end := selfCPU()+server, time.Now().Add(httpRound)
		l := load{p.addr, new(atomic.Int64), parallel}
		t, err := l.each(func(c *session, t *tally) error {
			for time.Now().Before(end) {
				if _, err := c.conn.Write([]byte(request)); err != nil {
					return err
				}
				body, err := c.read()
				if err != nil || len(body) < least {
					return fmt.Errorf("%d bytes: %w", len(body), err)
				}
				t.requests++
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if server, err = processCPU(p.cmd.Process.Pid); err != nil {
			return nil, err
		}
		return sample{"requests/cpu s": float64(t.requests) / (selfCPU() + server - from).Seconds()}, nil
	}
}

func (s *breachedHTTPSide) groups() (all []group) {
	for _, g := range []struct {
		name, what, request string
		least               int
		must                float64
	}{
		{"breached over http, check", "POST /v1/breached/check", askCheck, 40, 0.7},
		{"breached over http, range", "GET /v1/breached/range, 905 rows", askRange, 30_000, 0.2},
	} {
		x := group{name: g.name, floor: "bare chi handler", measure: "requests/cpu s", unit: "requests a second of CPU, sender's and server's",
			rows: []row{{What: g.what, Against: "bare chi handler", of: "guardd", base: "bare chi handler", measure: "requests/cpu s", higher: true, must: g.must, aim: 1}}}
		for _, p := range s.processes {
			x.subjects = append(x.subjects, subject{p.name, s.asked(p, g.request, g.least)})
		}
		all = append(all, x)
	}
	return all
}
