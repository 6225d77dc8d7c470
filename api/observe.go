package api

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/guardd/guardd/keys/trace"
)

// Headers of every answer, which nobody adds to.
var (
	notStored  = []string{"no-store"} // answers bear tokens
	notSniffed = []string{"nosniff"}
)

// observe goes around every request: the headers of every answer, what becomes
// of a panic, and who is told.
func (s *service) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun := time.Now()
		answer := &recorder{ResponseWriter: w, begun: begun, trace: s.Tracer.Begin(begun)}
		h := w.Header()
		h["Cache-Control"], h["X-Content-Type-Options"] = notStored, notSniffed // of every answer: made once
		if s.Draining() {
			w.Header().Set("Connection", "close")
		}
		defer func() {
			if p := recover(); p != nil {
				s.recovered(answer, r, p)
			}
			route, took := routeOf(r), time.Since(begun)
			s.Observer.Answered(route, answer.status, took, answer.trace.Name())
			answer.ended(route, r.Method)
			// No path, query, header or body: names and tokens travel in them.
			if !s.Log.Enabled(r.Context(), slog.LevelDebug) {
				return // its arguments are not free
			}
			s.Log.Debug("answered", answer.traced("route", route, "status", answer.status, "took", took)...)
		}()
		next.ServeHTTP(answer, r)
	})
}

// recovered answers 500 where nothing was answered yet. A panic's value is
// logged only when the runtime made it: any other may hold what was asked.
func (s *service) recovered(w *recorder, r *http.Request, p any) {
	said := fmt.Sprintf("%T", p)
	if e, ok := p.(runtime.Error); ok {
		said = e.Error()
	}
	s.Log.Error("panic", w.traced("route", routeOf(r), "panic", said, "stack", string(debug.Stack()))...)
	if w.status != 0 {
		panic(http.ErrAbortHandler) // half an answer must not look whole
	}
	writeProblem(w, problemInternal())
}

// routeOf is the route's pattern, or RouteOther.
func routeOf(r *http.Request) string {
	if c := chi.RouteContext(r.Context()); c != nil && slices.Contains(Routes, c.RoutePattern()) {
		return c.RoutePattern()
	}
	return RouteOther
}

// noBrowsers refuses pages of other origins: without keys, any page that a
// developer visits could otherwise talk to the guardd on his own machine.
func noBrowsers(next http.Handler) http.Handler {
	p := http.NewCrossOriginProtection()
	p.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { writeProblem(w, problemBrowser()) }))
	return p.Handler(next)
}

// recorder remembers the status, and which request of somebody's trace this is.
type recorder struct {
	http.ResponseWriter
	status int
	begun  time.Time
	trace  *trace.Request // nil: of none
}

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap serves http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
