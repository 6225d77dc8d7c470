package api

import (
	"context"
	"net/http"
	"time"

	"github.com/guardd/guardd/keys/trace"
)

// carryOut bounds one request once it is read. It is no deadline for the
// decision (the guard has its own, far shorter), only a stop for what hangs.
const carryOut = 5 * time.Second

// serveJSON makes a handler of a function from request to answer: who asks,
// what is asked, then do. Whether do's error is a problem of the caller or
// ours is said in one table (problemOf).
//
// A caller that hangs up does not stop what it asked for: an outcome must
// count all the same, and a cancelled call must not look like a failing store.
func serveJSON[Q, A any](s *service, do func(context.Context, *Key, *Q) (*A, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		key, err := s.identify(r)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		s.join(w, r)
		traced := traceOf(w)
		stop := traced.Begin(trace.Decode)
		q, err := decode[Q](w, r)
		stop.End()
		if err != nil {
			s.fail(w, r, err)
			return
		}
		ctx := newPatience(r.Context(), traced)
		defer ctx.over()
		a, err := do(ctx, key, q)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		stop = traced.Begin(trace.Answer)
		defer stop.End()
		if h, ok := any(a).(interface{ setHeaders(http.Header) }); ok {
			h.setHeaders(w.Header())
		}
		writeJSON(w, http.StatusOK, "application/json", a)
	}
}

func (s *service) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	if p.Status >= 500 {
		args := []any{"route", routeOf(r), "status", p.Status, "error", err}
		if a, ok := w.(*recorder); ok {
			args = a.traced(args...)
		}
		s.Log.Error("request failed", args...)
	}
	writeProblem(w, p)
}

// writeJSON writes slices that are nil as [] (json v2 does): an array is never null.
func writeJSON(w http.ResponseWriter, status int, mediaType string, v any) {
	kept := bodies.Get().(*[]byte)
	body, err := appendJSON((*kept)[:0], v)
	if err != nil {
		panic(err) // our own types only
	}
	body = append(body, '\n')
	w.Header().Set("Content-Type", mediaType)
	w.WriteHeader(status)
	_, _ = w.Write(body)
	if cap(body) <= longestKept {
		*kept = body
		bodies.Put(kept)
	}
}
