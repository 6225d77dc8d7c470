package api_test

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/guardd/guardd/api"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/trace"
)

const (
	traceID   = "4bf92f3577b34da6a3ce929d0e0e4736"
	parentID  = "00f067aa0ba902b7"
	traced    = "00-" + traceID + "-" + parentID + "-01"
	untraced  = "00-" + traceID + "-" + parentID + "-00"
	attemptBy = `{"account":"alice","ip":"192.0.2.1"}`
)

// exported is a tracer that keeps what it exports.
type exported struct {
	trace.Tracer
	mu  sync.Mutex
	all []trace.Done
}

func exporting(sample float64) *exported {
	e := &exported{}
	e.Tracer = trace.Tracer{Sample: sample, Export: func(d trace.Done) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.all = append(e.all, d)
	}}
	return e
}

// await is the one request that was exported: the answer is sent before.
func (e *exported) await(t *testing.T) trace.Done {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		e.mu.Lock()
		all := slices.Clone(e.all)
		e.mu.Unlock()
		if len(all) > 0 {
			return all[0]
		}
	}
	t.Fatal("nothing was exported")
	return trace.Done{}
}

// logs waits until the log says so n times: the answer is sent before.
func (s *service) logs(text string, n int) {
	s.t.Helper()
	for end := time.Now().Add(20 * time.Second); strings.Count(s.log.String(), text) != n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("not %d times in the log: %s\n%s", n, text, s.log)
		}
	}
}

func from(parent string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Set("traceparent", parent)
		r.Header.Set("tracestate", "vendor=1")
	}
}

// guarded is a real guard over the twin.
func guarded(t *testing.T) *escalation.Guard {
	t.Helper()
	secrets, err := escalation.GenerateSecrets()
	if err != nil {
		t.Fatal(err)
	}
	twin := keys.NewMemory(keys.MemoryConfig{})
	g, err := escalation.New(escalation.Config{Store: twin, Records: twin, Policy: escalation.DefaultPolicy(), Secrets: secrets})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestACallersTraceIsTakenOn to whoever makes events, and to the log, whether or not
// anybody exports it.
func TestACallersTraceIsTakenOn(t *testing.T) {
	e := exporting(0)
	for name, tracer := range map[string]*trace.Tracer{"exported": &e.Tracer, "not": nil} {
		o := &told{}
		s := start(t, api.Config{Guard: guarded(t), Observer: o, Tracer: tracer})
		s.post(api.RouteAttempts, attemptBy, from(traced))
		s.post(api.RouteAttempts, attemptBy)
		v, without := o.verdicts[0].Request, o.verdicts[1].Request
		if v.TraceID() != traceID || !v.Sampled || (v.SpanID() == parentID) != (tracer == nil) {
			t.Errorf("%s: the guard says %+v", name, v)
		}
		if !without.IsZero() {
			t.Errorf("%s: %+v of nobody's trace", name, without)
		}
		s.logs("trace_id="+traceID+" span_id="+v.SpanID(), 1)
	}
	d := e.await(t)
	within := map[string]string{trace.Decode: "", trace.Guard: "", trace.Store: trace.Guard, trace.Ladder: trace.Guard, trace.Seal: trace.Guard, trace.Answer: ""}
	for _, s := range d.Stops {
		around := ""
		if s.Within >= 0 {
			around = d.Stops[s.Within].Name
		}
		if w, ok := within[s.Name]; !ok || w != around {
			t.Errorf("%s is within %q", s.Name, around)
		}
		delete(within, s.Name)
	}
	if len(within) > 0 || d.Name != "POST /v1/attempts" || d.Failed || d.State != "vendor=1" || len(e.all) != 1 {
		t.Errorf("%+v, without %v", d, within)
	}
	known := map[string]any{}
	for _, a := range d.Attributes {
		known[a.Key] = a.Value
	}
	if known["guardd.action"] != "allow" || known["guardd.realm"] != "default" || known["http.response.status_code"] != int64(200) {
		t.Errorf("%v", known)
	}
	for _, secret := range []string{"alice", "192.0.2.1"} {
		for k, v := range known {
			if text, _ := v.(string); strings.Contains(text, secret) {
				t.Errorf("%s tells of %s", k, secret)
			}
		}
	}
}

func TestAnOutcomeIsTracedToo(t *testing.T) {
	e, o := exporting(0), &told{}
	s := start(t, api.Config{Guard: allowing(), Observer: o, Tracer: &e.Tracer})
	s.post(api.RouteOutcomes, `{"attempt":"a","account":"alice","outcome":"success"}`, from(traced))
	if d := e.await(t); d.Name != "POST /v1/outcomes" || d.Attributes[0].Key != "guardd.realm" {
		t.Errorf("%+v", d)
	}
}

// TestFaultsAreTracedAsSuch, and leave their trace in the log.
func TestFaultsAreTracedAsSuch(t *testing.T) {
	e := exporting(0)
	s := start(t, api.Config{Guard: failing(errors.New("gone")), Tracer: &e.Tracer})
	s.post(api.RouteAttempts, attemptBy, from(traced))
	if d := e.await(t); !d.Failed || !strings.Contains(s.log.String(), "request failed") {
		t.Errorf("%+v\n%s", d, s.log)
	}
	s.logs(traceID, 2)
}

// TestWhoHasShownNoKeyHasNoTraceKept: he could have everything exported, and write
// into the log.
func TestWhoHasShownNoKeyHasNoTraceKept(t *testing.T) {
	e := exporting(0)
	s := start(t, api.Config{Guard: allowing(), Keys: []api.Key{key("shop", "secret")}, Tracer: &e.Tracer})
	s.post(api.RouteAttempts, attemptBy, from(traced))
	pages := startChallenges(t, api.Config{Challenger: guarded(t), Tracer: &e.Tracer})
	pages.post("/challenges/none/answer", `{"answer":"1"}`, from(traced))
	s.logs("msg=answered", 1)
	pages.logs("msg=answered", 1)
	if strings.Contains(s.log.String()+pages.log.String(), traceID) {
		t.Errorf("%s\n%s", s.log, pages.log)
	}
	s.key = "secret"
	s.post(api.RouteAttempts, attemptBy, from(untraced)) // the caller wants none kept, and is logged
	s.post(api.RouteAttempts, attemptBy, from("00-nonsense"))
	s.logs("msg=answered", 3)
	s.logs(traceID, 1)
	if len(e.all) != 0 {
		t.Errorf("exported: %+v", e.all)
	}
}

// TestBrowsersRequestsBeginTracesOfOurOwn, where they are sampled.
func TestBrowsersRequestsBeginTracesOfOurOwn(t *testing.T) {
	e := exporting(1)
	pages := startChallenges(t, api.Config{Challenger: guarded(t), Tracer: &e.Tracer})
	pages.post("/challenges/none/answer", `{"answer":"1"}`, from(traced))
	if d := e.await(t); d.TraceID() == traceID || d.Parent != [8]byte{} || d.Name != "POST "+api.RouteAnswer || d.State != "" {
		t.Errorf("%+v", d)
	}
}

// TestTracingThatIsOffCostsNoAllocation: neither where nobody exports, nor where this
// request is not sampled.
func TestTracingThatIsOffCostsNoAllocation(t *testing.T) {
	off := allocations(t, nil)
	if n := allocations(t, &exporting(0).Tracer); n != off {
		t.Errorf("%v allocations of a request that is not sampled, %v where nobody exports", n, off)
	}
	t.Logf("%v allocations a request", off)
}

func allocations(t *testing.T, tracer *trace.Tracer) float64 {
	h := api.Service(api.Config{Guard: guarded(t), Tracer: tracer})
	body := []byte(attemptBy)
	r := httptest.NewRequest(http.MethodPost, api.RouteAttempts, nil)
	w := &silent{http.Header{}}
	return testing.AllocsPerRun(500, func() {
		q := *r
		q.Body = reading{bytes.NewReader(body)}
		h.ServeHTTP(w, &q)
	})
}

type reading struct{ *bytes.Reader }

func (reading) Close() error { return nil }

type silent struct{ h http.Header }

func (w *silent) Header() http.Header         { return w.h }
func (w *silent) Write(b []byte) (int, error) { return len(b), nil }
func (w *silent) WriteHeader(int)             {}
