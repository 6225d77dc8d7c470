package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/guardd/guardd/keys/keystest/redistest"
	"github.com/guardd/guardd/keys/trace"
)

// traced asks as part of a trace, which it returns. The flags say whether it is kept.
func traced(t *testing.T, p *process, path, body, flags string) (id string) {
	t.Helper()
	id = fmt.Sprintf("%032x", len(path)+1)
	req, err := http.NewRequest(http.MethodPost, p.service+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("traceparent", "00-"+id+"-00f067aa0ba902b7-"+flags)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", resp.StatusCode, text)
	}
	return id
}

// received are the names of spans and their parents', by trace.
type received struct {
	mu    sync.Mutex
	spans map[string]map[string]string
}

func (v *received) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var m collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &m)
	}
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	names, parents := map[string]string{}, [][3]string{}
	for _, rs := range m.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				names[string(s.SpanId)] = s.Name
				parents = append(parents, [3]string{hex.EncodeToString(s.TraceId), s.Name, string(s.ParentSpanId)})
			}
		}
	}
	for _, p := range parents {
		if v.spans[p[0]] == nil {
			v.spans[p[0]] = map[string]string{}
		}
		parent, ok := names[p[2]]
		if !ok {
			parent = hex.EncodeToString([]byte(p[2]))
		}
		v.spans[p[0]][p[1]] = parent
	}
}

// TestTracesReachACollector: the seven stops of one attempt over a real Redis, under
// the caller's span; and its trace beside the buckets that it is counted in.
func TestTracesReachACollector(t *testing.T) {
	v := &received{spans: map[string]map[string]string{}}
	srv := httptest.NewServer(v)
	defer srv.Close()
	p := startGuardd(t, "--tracing", srv.URL, "--config", writeFile(t, "guardd.yaml", "tracing: {sample: 0}\n"), "--redis", redistest.Start(t).URL(), "--redis-deadline", "5s", "--secret-file", writeFile(t, "secret", longLine), "--log-level", "debug")
	const attempt = `{"account":"alice","ip":"192.0.2.1"}`
	p.post(t, "/v1/attempts", attempt, nil) // of no trace
	id := traced(t, p, "/v1/attempts", attempt, "01")
	unkept := traced(t, p, "/v1/devices/revoke", `{"account":"alice"}`, "00")
	if _, err := p.awaitLog(`"trace_id":"` + id + `"`); err != nil {
		t.Error(err)
	}
	if _, err := p.awaitLog(`"trace_id":"` + unkept + `"`); err != nil {
		t.Error(err)
	}
	req, _ := http.NewRequest(http.MethodGet, p.admin+"/metrics", nil)
	req.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	for _, name := range []string{"guardd_decision_duration_seconds", "guardd_http_request_duration_seconds"} {
		found := 0
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, name+"_bucket") && strings.Contains(line, `# {trace_id="`+id+`"}`) {
				found++
			}
		}
		if found != 1 {
			t.Errorf("%s: %d buckets name the trace", name, found)
		}
	}
	if strings.Contains(string(text), unkept) {
		t.Error("an exemplar leads to a trace that nobody keeps")
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, err := p.wait(); err != nil || code != 0 {
		t.Errorf("%d %v", code, err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.spans) != 1 {
		t.Errorf("traces: %v", v.spans)
	}
	const root = "POST /v1/attempts"
	for stop, within := range map[string]string{root: "00f067aa0ba902b7", trace.Decode: root, trace.Guard: root, trace.Store: trace.Guard,
		trace.Redis: trace.Store, trace.Ladder: trace.Guard, trace.Seal: trace.Guard, trace.Answer: root} {
		if got := v.spans[id][stop]; got != within {
			t.Errorf("%s is within %q, not %q", stop, got, within)
		}
	}
}

func TestTracingIsJudgedAtLoad(t *testing.T) {
	for file, want := range map[string]string{
		"tracing: {otlp: collector:4318}": "tracing.otlp: must be a URL",
		"tracing: {sample: 1.5}":          "tracing.sample: must be from 0 to 1, not 1.5",
		"tracing: {sample: .nan}":         "tracing.sample: must be from 0 to 1",
	} {
		if _, err := loadWith(t, file, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", file, err)
		}
	}
	c, err := loadWith(t, "tracing: {sample: 0.5}", map[string]string{"GUARDD_TRACING": "http://127.0.0.1:4318"})
	if err != nil || c.Tracing.OTLP != "http://127.0.0.1:4318" || c.Tracing.Sample != .5 {
		t.Errorf("%+v %v", c.Tracing, err)
	}
}
