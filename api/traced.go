package api

import (
	"net/http"

	"github.com/guardd/guardd/keys/trace"
)

// traceOf is which request of somebody's trace w answers; nil: of none. Only what goes
// through observe has one.
func traceOf(w http.ResponseWriter) *trace.Request {
	if a, ok := w.(*recorder); ok {
		return a.trace
	}
	return nil
}

// join puts the request into its caller's trace. The caller has shown its key by then:
// who has none may not have traces kept, nor put words into the log.
func (s *service) join(w http.ResponseWriter, r *http.Request) {
	parents := r.Header[trace.Parent]
	if len(parents) == 0 {
		return
	}
	if a, ok := w.(*recorder); ok {
		if c, ok := trace.Parse(parents, r.Header[trace.State]); ok {
			a.trace = s.Tracer.Join(c, a.begun)
		}
	}
}

// ended ends the request's part of a trace. Its name is the route's: what a visitor has
// put in the path is in no trace.
func (w *recorder) ended(route, method string) {
	if !w.trace.Recording() {
		return
	}
	if route == RouteOther {
		method = "HTTP" // anything may stand there, too
	}
	w.trace.End(method+" "+route, w.status >= 500,
		trace.Attribute{Key: "http.request.method", Value: method}, trace.Attribute{Key: "http.route", Value: route},
		trace.Attribute{Key: "http.response.status_code", Value: int64(w.status)})
}

// traced adds the trace to what is logged.
func (w *recorder) traced(args ...any) []any {
	if id := w.trace.Name(); !id.IsZero() {
		args = append(args, "trace_id", id.TraceID(), "span_id", id.SpanID())
	}
	return args
}
