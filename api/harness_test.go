package api_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"go.uber.org/goleak"

	"github.com/guardd/guardd/api"
	"github.com/guardd/guardd/api/client"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys/trace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scripted is a Guard that answers what a test wants of it: the faults that a
// real one gives only when its store is gone or it is broken.
type scripted struct {
	check  func(*escalation.Attempt) (*escalation.Verdict, error)
	report func(*escalation.Report, func(string) bool) (*escalation.Recorded, error)
	revoke func(realm, account string) error
}

func (g scripted) Check(_ context.Context, a *escalation.Attempt) (*escalation.Verdict, error) {
	return g.check(a)
}

func (g scripted) Report(_ context.Context, r *escalation.Report, may func(string) bool) (*escalation.Recorded, error) {
	return g.report(r, may)
}

func (g scripted) Revoke(_ context.Context, realm, account string) error {
	return g.revoke(realm, account)
}

// failing is a Guard all of whose answers are err.
func failing(err error) scripted {
	return scripted{
		check:  func(*escalation.Attempt) (*escalation.Verdict, error) { return nil, err },
		report: func(*escalation.Report, func(string) bool) (*escalation.Recorded, error) { return nil, err },
		revoke: func(string, string) error { return err },
	}
}

// allowing lets everybody through.
func allowing() scripted {
	return scripted{
		check: func(*escalation.Attempt) (*escalation.Verdict, error) {
			return &escalation.Verdict{Action: escalation.ActionAllow, Would: escalation.ActionAllow, Proceed: true, Attempt: "sealed"}, nil
		},
		report: func(*escalation.Report, func(string) bool) (*escalation.Recorded, error) {
			return &escalation.Recorded{Recorded: true}, nil
		},
		revoke: func(string, string) error { return nil },
	}
}

// service is a running Service whose every answer is held against openapi.yaml.
type service struct {
	t    *testing.T
	url  string
	http *http.Client
	key  string
	doc  *openapi3.T
	log  *log
}

func start(t *testing.T, c api.Config) *service { t.Helper(); return startWith(t, api.Service, c) }

// startChallenges is the same for the browser side.
func startChallenges(t *testing.T, c api.Config) *service {
	t.Helper()
	return startWith(t, api.Challenges, c)
}

func startWith(t *testing.T, handler func(api.Config) http.Handler, c api.Config) *service {
	t.Helper()
	logged := new(log)
	c.Log = slog.New(slog.NewTextHandler(logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s := httptest.NewUnstartedServer(nil)
	s.Config = api.NewServer(handler(c), c.Log)
	s.Start()
	t.Cleanup(s.Close)
	return &service{t: t, url: s.URL, http: s.Client(), doc: document(t), log: logged}
}

// log is a buffer that handlers and tests share.
type log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

type answer struct {
	*http.Response
	body string
}

// post sends a body as JSON; edits change the request before it goes.
func (s *service) post(path, body string, edits ...func(*http.Request)) answer {
	s.t.Helper()
	r, err := http.NewRequest(http.MethodPost, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for _, edit := range edits {
		edit(r)
	}
	return s.send(r, body)
}

func (s *service) send(r *http.Request, body string) answer {
	s.t.Helper()
	if s.key != "" {
		r.Header.Set("Authorization", "Bearer "+s.key)
	}
	w, err := s.http.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer w.Body.Close()
	got, err := io.ReadAll(w.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	a := answer{w, string(got)}
	if cc := w.Header.Get("Cache-Control"); cc != "no-store" && !isMedia(a) {
		s.t.Errorf("Cache-Control: %q, want no-store", cc)
	}
	s.documented(r, body, a)
	return a
}

// documented holds request and answer against the document: what is answered
// 200 was a documented request, and every answer is a documented one.
func (s *service) documented(r *http.Request, body string, a answer) {
	s.t.Helper()
	path := r.URL.Path
	params := map[string]string{}
	if rest, ok := strings.CutPrefix(path, "/challenges/"); ok && rest != "" && path != api.RouteWorker {
		token, what, deeper := strings.Cut(rest, "/")
		params["token"] = token
		if path = api.RoutePage; deeper {
			path += "/" + what
		}
	}
	if at := strings.LastIndex(path, "/range/"); at >= 0 {
		params["prefix"] = path[at+len("/range/"):]
		path = path[:at] + "/range/{prefix}"
	}
	if list, ok := strings.CutPrefix(path, "/admin/v1/lists/"); ok {
		params["list"], path = list, api.RouteLists
	}
	item := s.doc.Paths.Find(path)
	if item == nil {
		if a.StatusCode != http.StatusNotFound {
			s.t.Errorf("%s is not documented and answers %d", r.URL.Path, a.StatusCode)
		}
		return
	}
	method := r.Method
	if item.GetOperation(method) == nil {
		if a.StatusCode != http.StatusMethodNotAllowed {
			s.t.Errorf("%s %s is not documented and answers %d", method, r.URL.Path, a.StatusCode)
			return
		}
		for method = range item.Operations() { // any documents the 405
			break
		}
	}
	q := r.Clone(context.Background())
	q.Body = io.NopCloser(strings.NewReader(body))
	if q.Body != http.NoBody && body != "" && !strings.HasPrefix(path, "/challenges/") {
		q.Header.Set("Content-Type", "application/json")
	}
	input := &openapi3filter.RequestValidationInput{
		Request: q, PathParams: params,
		Route:   &routers.Route{Spec: s.doc, Path: path, PathItem: item, Method: method, Operation: item.GetOperation(method)},
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true, SkipSettingDefaults: true},
	}
	if a.StatusCode == http.StatusOK {
		if err := openapi3filter.ValidateRequest(context.Background(), input); err != nil {
			s.t.Errorf("answered 200, but the document refuses the request %s\n%v", body, err)
		}
	}
	if r.URL.Path == api.RouteOpenAPI && a.StatusCode == http.StatusOK {
		return
	}
	err := openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: a.StatusCode, Header: a.Header, Options: input.Options,
		Body: io.NopCloser(strings.NewReader(a.body)),
	})
	if err != nil {
		s.t.Errorf("%s %s answers %d, which the document refuses: %s\n%v", r.Method, r.URL.Path, a.StatusCode, a.body, err)
	}
}

// problem reads the answer as a problem document of that status and word, and
// returns its fields as "field: reason".
func (a answer) problem(t *testing.T, status int, word string) []string {
	t.Helper()
	var p client.Problem
	if err := json.Unmarshal([]byte(a.body), &p); err != nil {
		t.Fatalf("no problem document: %s", a.body)
	}
	if ct := a.Header.Get("Content-Type"); ct != "application/problem+json" {
		t.Errorf("Content-Type %q", ct)
	}
	if a.StatusCode != status || p.Status != status || p.Type != client.ProblemBase+word || p.Title == "" || p.Detail == "" {
		t.Errorf("answered %d %s\nwant %d %s", a.StatusCode, a.body, status, word)
	}
	var fields []string
	for _, f := range p.Fields {
		fields = append(fields, f.Field+": "+f.Reason)
	}
	return fields
}

func read[T any](t *testing.T, a answer) *T {
	t.Helper()
	v := new(T)
	if err := json.Unmarshal([]byte(a.body), v); err != nil || a.StatusCode != http.StatusOK {
		t.Fatalf("answered %d %s", a.StatusCode, a.body)
	}
	return v
}

func key(name, secret string, realms ...string) api.Key {
	return api.Key{Name: name, SHA256: sha256.Sum256([]byte(secret)), Realms: realms}
}

// told is an Observer that keeps what it is told.
type told struct {
	mu       sync.Mutex
	verdicts []*escalation.Verdict
	outcomes []*escalation.Recorded
	answered []string
	statuses []int
}

func (o *told) Attempt(v *escalation.Verdict, _ time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.verdicts = append(o.verdicts, v)
}

func (o *told) Outcome(r *escalation.Recorded, _ time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.outcomes = append(o.outcomes, r)
}

func (o *told) Answered(route string, status int, _ time.Duration, _ trace.ID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answered = append(o.answered, route)
	o.statuses = append(o.statuses, status)
}
