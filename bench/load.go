package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// load sends requests over kept-alive connections. It does what a client must and
// no more, so that the cores are the servers'.
type load struct {
	addr    string
	next    *atomic.Int64 // visitor; shared by all loads, so that nobody comes twice
	workers int
}

// asking makes one request of visitor n and counts its answer.
type asking func(c *session, n int, t *tally) error

// tally is what became of the requests.
type tally struct {
	requests, refused, degraded int
	took                        time.Duration
	latencies                   []float64 // ms, where they were asked for
}

// saturate sends as fast as answers come, for a time.
func (l *load) saturate(d time.Duration, ask asking) (tally, error) {
	end := time.Now().Add(d)
	return l.each(func(c *session, t *tally) error {
		for time.Now().Before(end) {
			if err := ask(c, int(l.next.Add(1)), t); err != nil {
				return err
			}
		}
		return nil
	})
}

// offer sends at a fixed rate whatever the answers do (open loop): a request
// that waits for a free connection waits in its latency, which counts from
// when it was due.
func (l *load) offer(perSecond float64, d time.Duration) (tally, error) {
	begun, total := time.Now(), int64(perSecond*d.Seconds())
	var sent atomic.Int64
	return l.each(func(c *session, t *tally) error {
		for {
			n := sent.Add(1)
			if n > total {
				return nil
			}
			due := begun.Add(time.Duration(float64(n) / perSecond * float64(time.Second)))
			time.Sleep(time.Until(due))
			if err := c.attempt(int(l.next.Add(1)), t); err != nil {
				return err
			}
			t.latencies = append(t.latencies, float64(time.Since(due).Microseconds())/1000)
		}
	})
}

func (l *load) each(work func(*session, *tally) error) (sum tally, err error) {
	tallies, errs := make([]tally, l.workers), make([]error, l.workers)
	begun := time.Now()
	var wg sync.WaitGroup
	for i := range l.workers {
		wg.Go(func() {
			c, err := net.Dial("tcp", l.addr)
			if err != nil {
				errs[i] = err
				return
			}
			defer c.Close()
			errs[i] = work(&session{conn: c, in: bufio.NewReaderSize(c, 8<<10)}, &tallies[i])
		})
	}
	wg.Wait()
	sum.took = time.Since(begun)
	for _, t := range tallies {
		sum.requests += t.requests
		sum.refused += t.refused
		sum.degraded += t.degraded
		sum.latencies = append(sum.latencies, t.latencies...)
	}
	return sum, errors.Join(errs...)
}

// session is one connection.
type session struct {
	conn      net.Conn
	in        *bufio.Reader
	out, body []byte
}

// attempt is one login attempt of visitor n, answered.
func (s *session) attempt(n int, t *tally) error {
	s.body = fmt.Appendf(s.body[:0], `{"account":"user%08d@example.com","ip":"%s","user_agent":"Mozilla/5.0 (X11; Linux x86_64)","channel":"web"}`, n, address(n))
	return s.post("/v1/attempts", `"proceed":true`, t)
}

// callers are who takes, in turn: an API has few, who come often.
const callers = 1000

// take is one take of caller n, answered.
func (s *session) take(n int, t *tally) error {
	s.body = fmt.Appendf(s.body[:0], `{"key":"key%08d","rule":%q}`, n%callers, benchRule)
	return s.post("/v1/limits/take", `"allowed":true`, t)
}

// post sends body to path; an answer without yes is a refusal.
func (s *session) post(path, yes string, t *tally) error {
	s.out = fmt.Appendf(s.out[:0], "POST %s HTTP/1.1\r\nHost: guardd\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(s.body), s.body)
	if _, err := s.conn.Write(s.out); err != nil {
		return err
	}
	answer, err := s.read()
	if err != nil {
		return err
	}
	t.requests++
	if !bytes.Contains(answer, []byte(yes)) {
		t.refused++
	}
	if bytes.Contains(answer, []byte(`"degraded":true`)) {
		t.degraded++
	}
	return nil
}

// read returns the body of one answer, which must be a 200.
func (s *session) read() ([]byte, error) {
	status, err := s.in.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(status, []byte("HTTP/1.1 200")) {
		return nil, fmt.Errorf("answered %q", status)
	}
	length := -1
	for {
		line, err := s.in.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		if v, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(v)); err != nil {
				return nil, err
			}
		}
	}
	if length < 0 {
		return nil, errors.New("an answer without a length")
	}
	s.body = append(s.body[:0], make([]byte, length)...)
	_, err = io.ReadFull(s.in, s.body)
	return s.body, err
}
