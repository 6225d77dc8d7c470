package limits

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/guardd/guardd/keys/plans"
)

// Taker decides; plans.Taker is one.
type Taker interface {
	Take(ctx context.Context, r *plans.Request) (*plans.Decision, error)
	Refund(ctx context.Context, d *plans.Decision, status int) error
}

// Options are what Middleware needs; all but Taker have a default.
type Options struct {
	Taker Taker
	// Key finds the caller's key; nil: BearerKey. "" is answered 401.
	Key func(*http.Request) string
	// Route names the request's route, as in the rules' cost tables; nil:
	// PatternRoute.
	Route func(*http.Request) string
	// Cost of the request in tokens; nil: 1.
	Cost func(*http.Request) int64
	// Rules to count against; none: those of the key's plan.
	Rules []string
	// FailClosed answers 503 when nobody knows whether there are tokens left. With
	// a keys.Fallback that does not happen.
	FailClosed bool
	// OnError is told what was let through or refused for want of an answer; nil:
	// nobody is.
	OnError func(*http.Request, error)
}

// BearerKey is the key of Authorization: Bearer, else X-API-Key.
func BearerKey(r *http.Request) string {
	if scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	return r.Header.Get("X-API-Key")
}

// PatternRoute is method and pattern as the router has matched it: of a chi
// router around the middleware, or of http.ServeMux; where there is neither,
// method and path.
func PatternRoute(r *http.Request) string {
	if c := chi.RouteContext(r.Context()); c != nil && c.Routes != nil {
		if p := c.Routes.Find(chi.NewRouteContext(), r.Method, r.URL.Path); p != "" {
			return r.Method + " " + p
		}
	}
	if method, _, _ := strings.Cut(r.Pattern, " "); r.Pattern != "" {
		if method == r.Method {
			return r.Pattern
		}
		return r.Method + " " + r.Pattern
	}
	return r.Method + " " + r.URL.Path
}

// Middleware counts each request before it is handled. Every answer says in its
// headers where the caller stands; a refusal is a problem document with 429. What
// a rule refunds is given back when the handler has failed.
func Middleware(o Options) func(http.Handler) http.Handler {
	if o.Key == nil {
		o.Key = BearerKey
	}
	if o.Route == nil {
		o.Route = PatternRoute
	}
	if o.Cost == nil {
		o.Cost = func(*http.Request) int64 { return 1 }
	}
	if o.OnError == nil {
		o.OnError = func(*http.Request, error) {}
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { o.serve(w, r, next) })
	}
}

func (o *Options) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	d, err := o.Taker.Take(r.Context(), &plans.Request{Key: o.Key(r), Rules: o.Rules, Route: o.Route(r), Cost: o.Cost(r)})
	var faults plans.Faults
	switch {
	case errors.As(err, &faults) && faults.On("key"):
		w.Header().Set("WWW-Authenticate", "Bearer")
		(&Problem{Type: TypeKey, Title: "No valid key", Status: http.StatusUnauthorized, Detail: "A known key is needed."}).Write(w)
		return
	case err != nil:
		o.OnError(r, err)
		if o.FailClosed {
			w.Header().Set("Retry-After", "1")
			(&Problem{Type: TypeUnavailable, Title: "Limits not known", Status: http.StatusServiceUnavailable, Detail: "Repeat the request."}).Write(w)
			return
		}
		next.ServeHTTP(w, r)
		return
	}
	Set(w.Header(), d)
	if !d.Allowed {
		Refusal(d).Write(w)
		return
	}
	o.handle(w, r, next, d)
}

// handle gives back what is to be refunded, a panicking handler's too.
func (o *Options) handle(w http.ResponseWriter, r *http.Request, next http.Handler, d *plans.Decision) {
	answer := &recorder{ResponseWriter: w, status: http.StatusInternalServerError}
	defer func() {
		if answer.status < 400 {
			return
		}
		// Who hung up is refunded all the same.
		if err := o.Taker.Refund(context.WithoutCancel(r.Context()), d, answer.status); err != nil {
			o.OnError(r, err)
		}
	}()
	next.ServeHTTP(answer, r)
	if !answer.wrote {
		answer.status = http.StatusOK // net/http says so for a handler that said nothing
	}
}

type recorder struct {
	http.ResponseWriter
	status int
	wrote  bool
}

// WriteHeader remembers the status that counts: 1xx come before it.
func (w *recorder) WriteHeader(status int) {
	if !w.wrote && status >= 200 {
		w.status, w.wrote = status, true
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(b []byte) (int, error) {
	if !w.wrote {
		w.status, w.wrote = http.StatusOK, true
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap serves http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
