package api_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/guardd/guardd/api"
	"github.com/guardd/guardd/escalation"
)

func TestEveryStageOfAConnectionIsBounded(t *testing.T) {
	s := api.NewServer(http.NotFoundHandler(), nil)
	for name, d := range map[string]time.Duration{
		"ReadHeaderTimeout": s.ReadHeaderTimeout, "ReadTimeout": s.ReadTimeout, "WriteTimeout": s.WriteTimeout, "IdleTimeout": s.IdleTimeout,
	} {
		if d <= 0 {
			t.Errorf("%s is unbounded", name)
		}
	}
	if s.MaxHeaderBytes <= 0 || s.MaxHeaderBytes > 64<<10 {
		t.Errorf("MaxHeaderBytes is %d", s.MaxHeaderBytes)
	}
	if s.WriteTimeout <= s.ReadTimeout {
		t.Error("an answer to a slow request would be cut off")
	}
}

// A body that never comes is given up by ReadTimeout, which here is owned by
// the test as an already passed deadline.
func TestABodyThatDoesNotArriveIsA408(t *testing.T) {
	s := api.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
		api.Service(api.Config{Guard: allowing()}).ServeHTTP(w, r)
	}), nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(l)
	defer s.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "POST /v1/attempts HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(c)
	if err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 408 ") {
		t.Errorf("answered %s (%v)", got, err)
	}
}

// While draining: not ready, connections are asked to close, and what is in
// flight is answered before Shutdown returns.
func TestDrainingFinishesWhatIsInFlight(t *testing.T) {
	var draining atomic.Bool
	entered, leave := make(chan struct{}), make(chan struct{})
	g := allowing()
	allow := g.check
	g.check = func(a *escalation.Attempt) (*escalation.Verdict, error) {
		if a.Account == "slow" {
			close(entered)
			<-leave
		}
		return allow(a)
	}
	server := api.NewServer(api.Service(api.Config{Guard: g, Draining: draining.Load}), nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	post := func(account string) (*http.Response, error) {
		w, err := (&http.Client{Transport: transport}).Post("http://"+l.Addr().String()+api.RouteAttempts, "application/json",
			strings.NewReader(`{"account":"`+account+`","ip":"192.0.2.1"}`))
		if err == nil {
			w.Body.Close()
		}
		return w, err
	}
	w, err := post("a")
	if err != nil || w.Close {
		t.Fatalf("before draining: %v, close %v", err, w != nil && w.Close)
	}
	slow := make(chan error, 1)
	go func() {
		w, err := post("slow")
		if err == nil && w.StatusCode != http.StatusOK {
			err = errors.New(w.Status)
		}
		slow <- err
	}()
	<-entered
	draining.Store(true)
	if w, err := post("a"); err != nil || w.StatusCode != http.StatusOK || !w.Close {
		t.Errorf("while draining: %v %v", w, err)
	}
	down := make(chan error, 1)
	go func() { down <- server.Shutdown(context.Background()) }()
	if err := <-served; err != http.ErrServerClosed {
		t.Errorf("serve: %v", err)
	}
	if _, err := post("a"); err == nil {
		t.Error("a new request is taken after the drain began")
	}
	close(leave)
	if err := <-slow; err != nil {
		t.Errorf("in flight: %v", err)
	}
	if err := <-down; err != nil {
		t.Errorf("shutdown: %v", err)
	}
}

// A caller that hangs up has asked all the same: its outcome counts.
func TestAHangUpDoesNotCancelTheGuard(t *testing.T) {
	ctx, hangUp := context.WithCancel(context.Background())
	hangUp()
	for path, body := range map[string]string{
		api.RouteAttempts: `{"account":"a","ip":"192.0.2.1"}`,
		api.RouteOutcomes: `{"attempt":"x","account":"a","outcome":"success"}`,
		api.RouteRevoke:   `{"account":"a"}`,
	} {
		g := &contextual{}
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(body))
		api.Service(api.Config{Guard: g}).ServeHTTP(httptest.NewRecorder(), r)
		if !g.asked || g.err != nil || !g.bounded {
			t.Errorf("%s: the guard's context: %+v", path, g)
		}
	}
}

// contextual is a Guard that remembers what became of its context.
type contextual struct {
	asked, bounded bool
	err            error
}

func (g *contextual) look(ctx context.Context) {
	_, g.bounded = ctx.Deadline()
	g.asked, g.err = true, ctx.Err()
}

func (g *contextual) Check(ctx context.Context, _ *escalation.Attempt) (*escalation.Verdict, error) {
	g.look(ctx)
	return &escalation.Verdict{}, nil
}

func (g *contextual) Report(ctx context.Context, _ *escalation.Report, _ func(string) bool) (*escalation.Recorded, error) {
	g.look(ctx)
	return &escalation.Recorded{}, nil
}

func (g *contextual) Revoke(ctx context.Context, _, _ string) error { g.look(ctx); return nil }
