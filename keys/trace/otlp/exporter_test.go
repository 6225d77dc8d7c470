package otlp

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/guardd/guardd/keys/trace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// receiver is a collector: it speaks OTLP over HTTP, and keeps what it is sent.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	spans  []*spans.Span
	about  map[string]string // the resource
	path   string
	header http.Header
	answer func(n int) int // status of the n-th message
	n      int
}

func receive(t *testing.T) *receiver {
	t.Helper()
	v := &receiver{about: map[string]string{}, answer: func(int) int { return http.StatusOK }}
	v.Server = httptest.NewServer(v)
	t.Cleanup(v.Close)
	return v
}

func (v *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.n++
	v.path, v.header = r.URL.Path, r.Header
	if status := v.answer(v.n); status != http.StatusOK {
		w.WriteHeader(status)
		return
	}
	var in io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		in, _ = gzip.NewReader(r.Body)
	}
	b, err := io.ReadAll(in)
	var m collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(b, &m)
	}
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	for _, rs := range m.ResourceSpans {
		for _, a := range rs.Resource.Attributes {
			v.about[a.Key] = a.Value.GetStringValue()
		}
		for _, ss := range rs.ScopeSpans {
			v.spans = append(v.spans, ss.Spans...)
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	b, _ = proto.Marshal(&collector.ExportTraceServiceResponse{})
	w.Write(b)
}

func open(t *testing.T, c Config) *Exporter {
	t.Helper()
	e, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func closed(t *testing.T, e *Exporter) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := e.Close(ctx); err != nil {
		t.Error(err)
	}
}

var by, _ = trace.Parse([]string{"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}, []string{"vendor=1"})

// request is one that somebody has traced, exported.
func request(tracer *trace.Tracer) *trace.Request {
	r := tracer.Join(by, time.Now())
	r.Begin(trace.Decode).End()
	guard := r.Begin(trace.Guard)
	store := r.Begin(trace.Store)
	r.Begin(trace.Redis).End()
	store.End()
	guard.End()
	r.End("POST /v1/attempts", true, trace.Attribute{Key: "http.route", Value: "/v1/attempts"}, trace.Attribute{Key: "http.response.status_code", Value: int64(500)},
		trace.Attribute{Key: "guardd.degraded", Value: true})
	return r
}

// TestACollectorGetsTheSpansUnderTheNamesThatTheyHadAllAlong: the ids were in logs,
// events and headers before.
func TestACollectorGetsTheSpansUnderTheNamesThatTheyHadAllAlong(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=secret")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	v := receive(t)
	e := open(t, Config{Endpoint: v.URL, Version: "v1.2.3", Instance: "i1"})
	tracer := &trace.Tracer{Export: e.Export, Sample: 1}
	r := request(tracer)
	own := tracer.Begin(time.Now())
	own.End("GET /challenges/{token}", false)
	out := tracer.Ask(r.Sent())
	out.End("deliver code", false)
	closed(t, e)
	if v.path != "/v1/traces" || v.header.Get("X-Key") != "secret" {
		t.Errorf("%s %v", v.path, v.header)
	}
	for k, want := range map[string]string{"service.name": "guardd", "service.version": "v1.2.3", "service.instance.id": "i1", "deployment.environment.name": "test"} {
		if v.about[k] != want {
			t.Errorf("%s is %q", k, v.about[k])
		}
	}
	got := map[string]*spans.Span{}
	for _, s := range v.spans {
		got[s.Name] = s
	}
	if len(v.spans) != 7 {
		t.Fatalf("%d spans: %v", len(v.spans), v.spans)
	}
	root := got["POST /v1/attempts"]
	if string(root.TraceId) != string(r.Trace[:]) || string(root.SpanId) != string(r.Span[:]) || string(root.ParentSpanId) != string(by.Span[:]) ||
		root.TraceState != "vendor=1" || root.Kind != spans.Span_SPAN_KIND_SERVER || root.Status.Code != spans.Status_STATUS_CODE_ERROR || len(root.Attributes) != 3 {
		t.Errorf("%v", root)
	}
	for child, parent := range map[string]string{trace.Decode: "POST /v1/attempts", trace.Guard: "POST /v1/attempts", trace.Store: trace.Guard, trace.Redis: trace.Store, "deliver code": "POST /v1/attempts"} {
		c, p := got[child], got[parent]
		if string(c.ParentSpanId) != string(p.SpanId) || string(c.TraceId) != string(r.Trace[:]) {
			t.Errorf("%s is not within %s: %v", child, parent, c)
		}
		if c.EndTimeUnixNano < c.StartTimeUnixNano || child != "deliver code" && (c.StartTimeUnixNano < p.StartTimeUnixNano || c.EndTimeUnixNano > p.EndTimeUnixNano) {
			t.Errorf("%s: from %d to %d", child, c.StartTimeUnixNano, c.EndTimeUnixNano)
		}
	}
	if got[trace.Redis].Kind != spans.Span_SPAN_KIND_CLIENT || got["deliver code"].Kind != spans.Span_SPAN_KIND_CLIENT || got[trace.Store].Kind != spans.Span_SPAN_KIND_INTERNAL {
		t.Error("kinds")
	}
	if s := got["GET /challenges/{token}"]; string(s.SpanId) != string(own.Span[:]) || string(s.TraceId) != string(own.Trace[:]) || len(s.ParentSpanId) != 0 {
		t.Errorf("%v", s)
	}
	if st := e.Stats(); st != (Stats{Exported: 3}) {
		t.Errorf("%+v", st)
	}
}

func TestACollectorThatIsBusyIsAskedAgain(t *testing.T) {
	v := receive(t)
	v.answer = func(n int) int {
		if n == 1 {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	}
	e := open(t, Config{Endpoint: v.URL})
	request(&trace.Tracer{Export: e.Export})
	closed(t, e)
	if st := e.Stats(); v.n != 2 || len(v.spans) != 5 || st.Exported != 1 {
		t.Errorf("%d messages, %d spans, %+v", v.n, len(v.spans), st)
	}
}

// TestACollectorThatRefusesIsToldOf, and one that hangs holds up neither requests nor
// the end of the process.
func TestACollectorThatRefusesIsToldOf(t *testing.T) {
	v := receive(t)
	v.answer = func(int) int { return http.StatusForbidden }
	told := make(chan error, 8)
	e := open(t, Config{Endpoint: v.URL, Failed: func(err error) { told <- err }})
	request(&trace.Tracer{Export: e.Export})
	closed(t, e)
	if err := <-told; !strings.Contains(err.Error(), "403") {
		t.Error(err)
	}
	if st := e.Stats(); st != (Stats{Failed: 1}) {
		t.Errorf("%+v", st)
	}
	e.Export(trace.Done{})
	if st := e.Stats(); st.Dropped != 1 {
		t.Errorf("after the end: %+v", st)
	}
}

func TestACollectorThatHangsHoldsNothingUp(t *testing.T) {
	hang := make(chan struct{})
	v := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	defer v.Close()
	defer close(hang)
	e := open(t, Config{Endpoint: v.URL})
	tracer := &trace.Tracer{Export: e.Export}
	n := uint64(0)
	for ; e.Stats().Dropped == 0; n++ { // each returns at once, or this never ends
		request(tracer)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := e.Close(ctx); err == nil {
		t.Error("all was sent, to somebody who takes nothing")
	}
	if n > 20*queue {
		t.Errorf("%d requests were kept", n)
	}
}

func TestEndpointsAreJudged(t *testing.T) {
	for endpoint, ok := range map[string]bool{
		"http://127.0.0.1:4318": true, "https://collector.example/otlp/v1/traces": true,
		"": false, "127.0.0.1:4318": false, "grpc://x:4317": false, "http://": false, "http://a:b@c": false, "http://c?key=1": false, "http://[": false,
	} {
		if bad := Check(endpoint); (bad == "") != ok {
			t.Errorf("%q: %s", endpoint, bad)
		} else if strings.Contains(bad, "a:b") {
			t.Errorf("a password is told: %s", bad)
		}
	}
	if _, err := Open(t.Context(), Config{}); err == nil {
		t.Error("none is taken")
	}
}
