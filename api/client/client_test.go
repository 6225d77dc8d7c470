package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/build"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/guardd/guardd/api/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, c client.Config) *client.Client {
	t.Helper()
	if c.Timeout == 0 {
		c.Timeout = time.Minute // what is tested is not the speed of this machine
	}
	g, err := client.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

// answering is a server that answers every request alike.
func answering(t *testing.T, status int, media, body string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", media)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

var guess = client.AttemptRequest{Account: "alice", IP: "192.0.2.1:1234"}

// A login handler must not pull guardd's own dependencies into its program.
func TestTheClientImportsTheStandardLibraryOnly(t *testing.T) {
	const reader = "github.com/guardd/guardd/breached/rangetext"
	for _, dir := range []string{".", "../../breached/rangetext"} {
		p, err := build.ImportDir(dir, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Imports) == 0 {
			t.Fatal("no imports are seen")
		}
		for _, path := range p.Imports {
			if first, _, _ := strings.Cut(path, "/"); strings.Contains(first, ".") && path != reader {
				t.Errorf("%s imports %s", dir, path)
			}
		}
	}
}

func TestConfigurationsThatCannotWorkAreRefused(t *testing.T) {
	const url = "http://127.0.0.1:8080"
	for name, c := range map[string]client.Config{
		"URL": {}, "URL ": {URL: "127.0.0.1:8080"}, "URL  ": {URL: "ftp://x"}, "URL   ": {URL: url + "?x=1"}, "URL    ": {URL: "http://"}, "URL     ": {URL: "http://%zz"},
		"Key": {URL: url, Key: "a\nb"}, "Timeout": {URL: url, Timeout: -1}, "WaitOut": {URL: url, WaitOut: -1}, "Policy": {URL: url, Policy: 7},
	} {
		if _, err := client.New(c); err == nil || !strings.Contains(err.Error(), strings.TrimSpace(name)) {
			t.Errorf("%+v: error %v does not name %s", c, err, name)
		}
	}
	for _, u := range []string{url, url + "/", "https://guardd.example.com/behind/a/prefix/"} {
		if _, err := client.New(client.Config{URL: u}); err != nil {
			t.Error(err)
		}
	}
}

func TestTheKeyAndTheBodyAreSent(t *testing.T) {
	var got []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, r.Method+" "+r.URL.Path, r.Header.Get("Authorization"), r.Header.Get("Content-Type"), string(body))
		_, _ = io.WriteString(w, `{"action":"allow","proceed":true,"recorded":true,"revoked":true}`)
	}))
	defer s.Close()
	g := open(t, client.Config{URL: s.URL + "/x/", Key: "k"})
	q := guess
	q.RequestID = "id"
	_, e1 := g.Attempt(context.Background(), q)
	_, e2 := g.Outcome(context.Background(), client.OutcomeRequest{Attempt: "t", Account: "alice", Outcome: client.OutcomeSuccess})
	e3 := g.Revoke(context.Background(), client.RevokeRequest{Account: "alice"})
	if err := errors.Join(e1, e2, e3); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"POST /x/v1/attempts", "Bearer k", "application/json", `{"account":"alice","ip":"192.0.2.1:1234","request_id":"id"}`,
		"POST /x/v1/outcomes", "Bearer k", "application/json", `{"attempt":"t","account":"alice","outcome":"success"}`,
		"POST /x/v1/devices/revoke", "Bearer k", "application/json", `{"account":"alice"}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("sent %q\nwant %q", got, want)
	}
}

// What to do is in Proceed, whatever happened; the fail policy opens where
// guardd gave no decision, and never by what a visitor can bring about.
func TestProceedWithoutADecision(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	problem := func(status int) string {
		return answering(t, status, "application/problem+json", fmt.Sprintf(`{"type":"x","title":"t","status":%d}`, status))
	}
	for _, row := range []struct {
		name, url   string
		unreachable bool // and so the policy decides
	}{
		{"nobody there", "http://" + closed.Addr().String(), true},
		{"500", problem(500), true},
		{"503", problem(503), true},
		{"wrong key", problem(401), true},
		{"wrong realm", problem(403), true},
		{"wrong path", answering(t, 404, "text/plain", "no"), true},
		{"a proxy's own page", answering(t, 502, "text/html", "<html>"), true},
		{"another service", answering(t, 200, "application/json", `{}`), true},
		{"no JSON", answering(t, 200, "text/html", `<html>`), true},
		{"redirect", answering(t, 307, "text/html", ``), true},
		{"invalid field", problem(400), false},
		{"request id twice", problem(409), false},
		{"too large", problem(413), false},
		{"too large for a proxy", answering(t, 413, "text/html", "<html>"), false},
	} {
		for policy, open := range map[client.Policy]func() bool{
			client.FailOpen:   func() bool { return row.unreachable },
			client.FailClosed: func() bool { return false },
		} {
			g, err := client.New(client.Config{URL: row.url, Policy: policy, Timeout: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			a, err := g.Attempt(context.Background(), guess)
			g.Close()
			if err == nil || a == nil {
				t.Errorf("%s, policy %d: silent: %v %v", row.name, policy, a, err)
				continue
			}
			want := client.ActionDeny
			if open() {
				want = client.ActionAllow
			}
			if a.Proceed != open() || a.Unreachable != row.unreachable || a.Action != want || a.Attempt != "" {
				t.Errorf("%s, policy %d: %+v", row.name, policy, a)
			}
		}
	}
}

// A visitor who half-closes the connection cancels the handler's context and
// still reads its answer.
func TestACancelledAttemptNeverProceeds(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	ctx, hangUp := context.WithCancel(context.Background())
	hangUp()
	a, err := open(t, client.Config{URL: s.URL}).Attempt(ctx, guess)
	if !errors.Is(err, context.Canceled) || a.Proceed || !a.Unreachable {
		t.Errorf("%+v %v", a, err)
	}
	ctx, cancel := context.WithDeadline(context.Background(), time.Unix(1, 0)) // the caller's own deadline is not the visitor's
	defer cancel()
	a, err = open(t, client.Config{URL: s.URL}).Attempt(ctx, guess)
	if !errors.Is(err, context.DeadlineExceeded) || !a.Proceed || !a.Unreachable {
		t.Errorf("%+v %v", a, err)
	}
}

func TestNamesThatJSONWouldChangeAreRefused(t *testing.T) {
	q := guess
	q.Account = "alice\xff"
	a, err := open(t, client.Config{URL: "http://127.0.0.1:1"}).Attempt(context.Background(), q)
	var p *client.Problem
	if !errors.As(err, &p) || !slices.Equal(p.Fields, []client.FieldError{{Field: "account", Reason: "invalid_utf8"}}) || a.Proceed {
		t.Errorf("%+v %v", a, err)
	}
}

func TestProblemsAreTyped(t *testing.T) {
	url := answering(t, 400, "application/problem+json; charset=utf-8",
		`{"type":"`+client.ProblemBase+client.ProblemInvalid+`","title":"Invalid request","status":400,"detail":"d","errors":[{"field":"account","reason":"empty"},{"field":"ip","reason":"list"}]}`)
	g := open(t, client.Config{URL: url})
	_, e1 := g.Attempt(context.Background(), guess)
	_, e2 := g.Outcome(context.Background(), client.OutcomeRequest{Attempt: "x"})
	e3 := g.Revoke(context.Background(), client.RevokeRequest{})
	for _, err := range []error{e1, e2, e3} {
		var p *client.Problem
		if !errors.As(err, &p) || p.Type != client.ProblemBase+client.ProblemInvalid || p.Status != 400 || len(p.Fields) != 2 {
			t.Fatalf("%#v", err)
		}
		if got := err.Error(); got != "guardd answered 400 Invalid request: account empty; ip list" {
			t.Error(got)
		}
	}
}

// brokenOnce breaks the connection of the first n requests, after or before
// they were read: "happened, reply lost" and "did not happen".
func brokenOnce(t *testing.T, n int, read bool) (url string, ids func() []string) {
	var mu sync.Mutex
	var seen []string
	var requests atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		first := requests.Add(1) <= int64(n)
		if !first || read {
			var q struct {
				ID string `json:"request_id"`
			}
			_ = json.NewDecoder(r.Body).Decode(&q)
			mu.Lock()
			seen = append(seen, q.ID)
			mu.Unlock()
		}
		if first {
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, `{"action":"allow","proceed":true,"recorded":true,"revoked":true}`)
	}))
	t.Cleanup(s.Close)
	return s.URL, func() []string { mu.Lock(); defer mu.Unlock(); return seen }
}

func TestABrokenConnectionIsTriedOnceMoreUnderTheSameRequestID(t *testing.T) {
	for _, read := range []bool{false, true} {
		url, ids := brokenOnce(t, 1, read)
		a, err := open(t, client.Config{URL: url}).Attempt(context.Background(), guess)
		if err != nil || !a.Proceed || a.Unreachable {
			t.Errorf("read %v: %+v %v", read, a, err)
		}
		if seen := ids(); len(seen) == 0 || seen[0] == "" || len(slices.Compact(slices.Clone(seen))) != 1 || read && len(seen) != 2 {
			t.Errorf("read %v: request ids %q", read, seen)
		}
	}
	url, ids := brokenOnce(t, 2, true)
	if a, err := open(t, client.Config{URL: url}).Attempt(context.Background(), guess); err == nil || !a.Unreachable || len(ids()) != 2 {
		t.Errorf("two breaks: %+v %v after %q", a, err, ids())
	}
	for name, call := range map[string]func(*client.Client) error{
		"outcome": func(g *client.Client) error {
			_, err := g.Outcome(context.Background(), client.OutcomeRequest{Attempt: "x"})
			return err
		},
		"revoke": func(g *client.Client) error {
			return g.Revoke(context.Background(), client.RevokeRequest{Account: "a"})
		},
	} {
		url, _ := brokenOnce(t, 1, true)
		if err := call(open(t, client.Config{URL: url})); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEveryAttemptHasItsOwnRequestID(t *testing.T) {
	url, ids := brokenOnce(t, 0, true)
	g := open(t, client.Config{URL: url})
	for range 3 {
		if _, err := g.Attempt(context.Background(), guess); err != nil {
			t.Fatal(err)
		}
	}
	if seen := ids(); len(seen) != 3 || seen[0] == seen[1] || seen[1] == seen[2] || len(seen[0]) < 22 {
		t.Errorf("request ids %q", seen)
	}
}

func TestAnAnswerIsNotTriedAgain(t *testing.T) {
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { n.Add(1); w.WriteHeader(503) }))
	defer s.Close()
	if _, err := open(t, client.Config{URL: s.URL}).Attempt(context.Background(), guess); err == nil || n.Load() != 1 {
		t.Errorf("%d requests, %v", n.Load(), err)
	}
}

// transport is a guardd without a network, so that synctest owns the clock.
type transport func(*http.Request) (string, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := f(r)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

func TestASilentGuarddIsGivenUpAfter150Milliseconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		silent := transport(func(r *http.Request) (string, error) {
			tries++
			<-r.Context().Done()
			return "", r.Context().Err()
		})
		g, err := client.New(client.Config{URL: "http://guardd", HTTPClient: &http.Client{Transport: silent}})
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		a, err := g.Attempt(context.Background(), guess)
		if !errors.Is(err, context.DeadlineExceeded) || !a.Unreachable || !a.Proceed || tries != 1 {
			t.Errorf("%+v %v after %d tries", a, err, tries)
		}
		if took := time.Since(begun); took != 150*time.Millisecond {
			t.Errorf("took %v", took)
		}
	})
}

// delaying is a guardd that asks for the waits, in order, then allows.
func delaying(t *testing.T, waits ...time.Duration) (*http.Client, *[]string) {
	var proofs []string
	begun, free := time.Now(), time.Duration(0)
	return &http.Client{Transport: transport(func(r *http.Request) (string, error) {
		var q client.AttemptRequest
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Error(err)
		}
		n := len(proofs)
		proofs = append(proofs, q.Proof)
		if q.Proof != "" && (q.Challenge != "" || q.Answer != "") {
			t.Error("proof and answer together")
		}
		if time.Since(begun) < free {
			t.Errorf("back after %v, asked to wait %v", time.Since(begun), free)
		}
		if n >= len(waits) {
			return `{"action":"allow","proceed":true,"attempt":"x"}`, nil
		}
		free = time.Since(begun) + waits[n]
		return fmt.Sprintf(`{"action":"delay","proceed":false,"retry_after_ms":%d,"challenge":{"kind":"wait","kinds":["wait","code"],"token":"ticket%d"}}`,
			waits[n].Milliseconds(), n), nil
	})}, &proofs
}

func TestADelayIsWaitedOutOnRequestOnly(t *testing.T) {
	s := time.Second
	for _, row := range []struct {
		name     string
		most     time.Duration
		deadline time.Duration // of the caller, 0: none
		waits    []time.Duration
		proceed  bool
		proofs   []string
		took     time.Duration
	}{
		{"not on request", 0, 0, []time.Duration{s}, false, []string{""}, 0},
		{"one", 5 * s, 0, []time.Duration{s}, true, []string{"", "ticket0"}, s},
		{"the wait grew meanwhile", 5 * s, 0, []time.Duration{s, 2 * s}, true, []string{"", "ticket0", "ticket1"}, 3 * s},
		{"longer than the most", 5 * s, 0, []time.Duration{6 * s}, false, []string{""}, 0},
		{"longer in all", 5 * s, 0, []time.Duration{3 * s, 3 * s}, false, []string{"", "ticket0"}, 3 * s},
		{"beyond the caller's deadline", 5 * s, 2 * s, []time.Duration{3 * s}, false, []string{""}, 0},
		{"none named", 2 * time.Millisecond, 0, []time.Duration{0, 0, 0, 0}, false, []string{"", "ticket0", "ticket1"}, 2 * time.Millisecond},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, proofs := delaying(t, row.waits...)
				g, err := client.New(client.Config{URL: "http://guardd", HTTPClient: h, WaitOut: row.most})
				if err != nil {
					t.Fatal(err)
				}
				ctx, begun := context.Background(), time.Now()
				if row.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, row.deadline)
					defer cancel()
				}
				q := guess
				q.Challenge, q.Answer = "c", "a"
				a, err := g.Attempt(ctx, q)
				if err != nil || a.Proceed != row.proceed || !slices.Equal(*proofs, row.proofs) || time.Since(begun) != row.took {
					t.Errorf("%+v %v, proofs %q after %v", a, err, *proofs, time.Since(begun))
				}
				if !a.Proceed && a.Challenge == nil {
					t.Error("the delay is lost")
				}
			})
		})
	}
}

// The same with a real guard: every ticket is a good proof under the request
// id of the attempt that it repeats.
func TestTheDelaysOfARealGuardAreWaitedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := embedded(nil)
		inside := roundTripper(func(r *http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			service.ServeHTTP(w, r)
			return w.Result(), nil
		})
		g, err := client.New(client.Config{URL: "http://guardd", HTTPClient: &http.Client{Transport: inside}, WaitOut: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		for i := range 5 {
			a, err := g.Attempt(context.Background(), guess)
			if err != nil || !a.Proceed || a.Attempt == "" || a.ProofError != "" {
				t.Fatalf("guess %d: %+v %v", i, a, err)
			}
		}
		if took := time.Since(begun); took != 2*time.Second {
			t.Errorf("five guesses took %v: the fourth and the fifth wait a second each", took)
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestRedirectsAreNotFollowed(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the key was sent elsewhere") }))
	defer elsewhere.Close()
	s := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer s.Close()
	if a, err := open(t, client.Config{URL: s.URL, Key: "k"}).Attempt(context.Background(), guess); err == nil || !a.Unreachable {
		t.Errorf("%+v %v", a, err)
	}
}

func TestACancelledWaitNeverProceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := delaying(t, time.Second)
		g, err := client.New(client.Config{URL: "http://guardd", HTTPClient: h, WaitOut: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		ctx, hangUp := context.WithCancel(context.Background())
		time.AfterFunc(time.Second/2, hangUp)
		if a, err := g.Attempt(ctx, guess); err != nil || a.Proceed || a.Action != client.ActionDelay {
			t.Errorf("%+v %v", a, err)
		}
	})
}

func TestWhatWasNotLetThroughIsNotReported(t *testing.T) {
	g := open(t, client.Config{URL: "http://127.0.0.1:1"})
	r, err := g.Outcome(context.Background(), client.OutcomeRequest{Account: "alice", Outcome: client.OutcomeFailure})
	if err != nil || r.Recorded || r.Cookie() != nil {
		t.Errorf("%+v %v", r, err)
	}
}

func TestTheDeviceCookie(t *testing.T) {
	r := &client.OutcomeResponse{Device: "token", DeviceExpiresAt: time.Now().Add(90 * 24 * time.Hour)}
	w := httptest.NewRecorder()
	http.SetCookie(w, r.Cookie())
	set := w.Header().Get("Set-Cookie")
	for _, attribute := range []string{"__Host-guardd_device=token;", "Path=/", "Secure", "HttpOnly", "SameSite=Lax", "Max-Age=77", "Expires="} {
		if !strings.Contains(set, attribute) {
			t.Errorf("%s lacks %s", set, attribute)
		}
	}
	if strings.Contains(set, "Domain") {
		t.Errorf("%s: __Host- allows no domain", set)
	}
	q := httptest.NewRequest(http.MethodPost, "/login", nil)
	if got := client.DeviceToken(q); got != "" {
		t.Errorf("no cookie reads %q", got)
	}
	q.AddCookie(w.Result().Cookies()[0])
	if got := client.DeviceToken(q); got != "token" {
		t.Errorf("read %q", got)
	}
	var nothing *client.OutcomeResponse
	http.SetCookie(httptest.NewRecorder(), nothing.Cookie())
}
