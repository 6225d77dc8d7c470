package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/guardd/guardd/keys/keystest/redistest"
)

// lockedBuffer is a log that the test reads while guardd writes.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// serveOnce starts guardd inside this process, calls do, stops it and returns
// its exit code.
func serveOnce(t *testing.T, do func(*server), args ...string) int {
	t.Helper()
	fl, _, err := parseFlags("serve", serveUsage, append([]string{"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, args...), getenv(nil), io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	c, err := load(fl)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newServer(c, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.run(ctx) }()
	do(s)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
		return exitFailed
	}
	return exitOK
}

func TestServingLeavesNoGoroutineBehind(t *testing.T) {
	redis := redistest.Start(t)
	secret := writeFile(t, "secret", longLine)
	ignore := goleak.IgnoreCurrent()
	for _, args := range [][]string{nil, {"--redis", redis.URL(), "--secret-file", secret, "--redis-deadline", "1s"}} {
		client := &http.Client{Transport: &http.Transport{}}
		serveOnce(t, func(s *server) {
			for range 20 {
				resp, err := client.Post(s.service.url()+"/v1/attempts", "application/json", strings.NewReader(`{"account":"a","ip":"192.0.2.1"}`))
				if err != nil {
					t.Fatal(err)
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}, args...)
		client.CloseIdleConnections()
	}
	goleak.VerifyNone(t, ignore)
}

// A start that fails half way must not keep what it had opened.
func TestFailedStartLeavesNothingOpen(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free.Close()
	ignore := goleak.IgnoreCurrent()
	var log lockedBuffer
	code := run(t.Context(), []string{"serve", "--listen", free.Addr().String(), "--admin-listen", taken.Addr().String(), "--log-format", "text"}, getenv(nil), nil, io.Discard, &log)
	if code != exitFailed || !strings.Contains(log.String(), taken.Addr().String()+" is in use: end what listens there, or give another address with --admin-listen") {
		t.Errorf("exit code %d, log:\n%s", code, log.String())
	}
	again, err := net.Listen("tcp", free.Addr().String())
	if err != nil {
		t.Fatalf("the first listener is still open: %v", err)
	}
	again.Close()
	goleak.VerifyNone(t, ignore)
}

func TestRequestsBegunAreFinishedWhileDraining(t *testing.T) {
	begun, finish := make(chan struct{}), make(chan struct{})
	answered := make(chan string, 1)
	code := serveOnce(t, func(s *server) {
		inner := s.service.server.Handler
		s.service.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(begun)
			<-finish
			inner.ServeHTTP(w, r)
		})
		go func() {
			resp, err := http.Post(s.service.url()+"/v1/attempts", "application/json", strings.NewReader(`{"account":"a","ip":"192.0.2.1"}`))
			if err != nil {
				answered <- err.Error()
				return
			}
			defer resp.Body.Close()
			text, _ := io.ReadAll(resp.Body)
			answered <- string(text)
		}()
		<-begun
		s.service.server.RegisterOnShutdown(func() { close(finish) }) // runs once draining has begun
	})
	if got := <-answered; code != exitOK || !strings.Contains(got, `"action":"allow"`) {
		t.Errorf("exit code %d, answer %s", code, got)
	}
}

func TestDrainingIsBounded(t *testing.T) {
	begun, never := make(chan struct{}), make(chan struct{})
	defer close(never)
	fl, _, _ := parseFlags("serve", serveUsage, []string{"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--drain", "1ms"}, getenv(nil), io.Discard, io.Discard)
	c, err := load(fl)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newServer(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s.service.server.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(begun); <-never })
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.run(ctx) }()
	go func() {
		if resp, err := http.Get(s.service.url()); err == nil {
			resp.Body.Close()
		}
	}()
	<-begun
	cancel()
	if err := <-done; err == nil || !strings.Contains(err.Error(), "cut off after 1ms") {
		t.Errorf("error %v", err)
	}
}

func TestSecretsAndNamesStayOutOfTheLog(t *testing.T) {
	var out bytes.Buffer
	log := newLogger(&out, logConfig{Format: "json"})
	log.Info("x", "account", "alice", "ip", "192.0.2.1", slog.Group("g", "token", "tok-1"), "route", "/v1/attempts")
	log.With("device", "dev-1").Warn("y", "url", redactURL("redis://u:hunter2@example.com/0"))
	for _, secret := range []string{"alice", "192.0.2.1", "tok-1", "dev-1", "hunter2"} {
		if strings.Contains(out.String(), secret) {
			t.Errorf("%s is in the log: %s", secret, out.String())
		}
	}
	if !strings.Contains(out.String(), "/v1/attempts") {
		t.Error("nothing was logged")
	}
}

func TestUndoRunsLastFirstAndOnce(t *testing.T) {
	var order []int
	var c cleanups
	for i := range 3 {
		c.push(func() error { order = append(order, i); return nil })
	}
	c.run()
	c.run()
	if len(order) != 3 || order[0] != 2 || order[2] != 0 {
		t.Errorf("order %v", order)
	}
}
