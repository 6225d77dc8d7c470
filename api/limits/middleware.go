package limits

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/guardd/guardd/keys/plans"
)

// Taker decides; plans.Taker is one.
type Taker interface {
	Take(ctx context.Context, r *plans.Request) (*plans.Decision, error)
	Refund(ctx context.Context, d *plans.Decision, status int) error
	HoldsSlots() bool
	Acquire(ctx context.Context, r *plans.SlotRequest) (*plans.SlotDecision, error)
	Renew(ctx context.Context, slot string, r *plans.SlotRequest) (*plans.SlotDecision, error)
	Release(ctx context.Context, slot string) (bool, error)
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
	// Rules to count against, and Slots to hold one of each meanwhile; neither: all
	// of the key's plan.
	Rules, Slots []string
	// FailClosed answers 503 when nobody knows whether there are tokens left. With
	// a keys.Fallback that does not happen.
	FailClosed bool
	// OnError is told what was let through or refused for want of an answer, and of
	// slots that could not be renewed (ErrSlotLost) or released; nil: nobody is.
	OnError func(*http.Request, error)
	// After calls f once, after d, unless it is stopped; nil: time.AfterFunc.
	After func(d time.Duration, f func()) (stop func())
}

// ErrSlotLost: a slot had expired before it was renewed, and others have taken it.
// The request that held it goes on.
var ErrSlotLost = errors.New("a slot had expired, and there is none free")

// BearerKey is the key of Authorization: Bearer, else X-API-Key.
func BearerKey(r *http.Request) string {
	if scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	return r.Header.Get("X-Api-Key") // as http.Header has it, which costs nothing
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

// Middleware counts each request before it is handled, and holds its slots while
// it is. Every answer says in its headers where the caller stands; a refusal is a
// problem document with 429. What a rule refunds is given back when the handler
// has failed.
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
	if o.After == nil {
		o.After = func(d time.Duration, f func()) func() {
			t := time.AfterFunc(d, f)
			return func() { t.Stop() }
		}
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { o.serve(w, r, next) })
	}
}

// serve takes tokens after it has a slot: a slot comes back whole, whoever is
// refused then, and a refusal costs nothing.
func (o *Options) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	key, route := o.Key(r), o.Route(r)
	held, free := o.hold(w, r, key, route)
	if free == nil {
		return // it is answered
	}
	defer free()
	if len(o.Rules) == 0 && len(o.Slots) > 0 {
		next.ServeHTTP(w, r)
		return
	}
	c := calls.Get().(*call)
	c.request = plans.Request{Key: key, Rules: o.Rules, Route: route, Cost: o.Cost(r)}
	d, err := o.take(r.Context(), c)
	if err != nil {
		if !o.unknown(w, r, err) {
			next.ServeHTTP(w, r)
		}
		return
	}
	a := &answer{recorder: recorder{ResponseWriter: w, status: http.StatusInternalServerError}}
	a.values.set(w.Header(), d, held)
	if d.Allowed {
		o.handle(a, r, next, d)
	} else {
		Refusal(d).Write(w)
	}
	calls.Put(c) // not where the handler panicked
}

// call is a request and its decision, to be used again: what is decided by a lease
// costs less than making them.
type call struct {
	request  plans.Request
	decision plans.Decision
}

var calls = sync.Pool{New: func() any { return new(call) }}

// taker is what a plans.Taker has beside Taker.
type taker interface {
	TakeInto(ctx context.Context, r *plans.Request, d *plans.Decision) error
}

func (o *Options) take(ctx context.Context, c *call) (*plans.Decision, error) {
	if t, ok := o.Taker.(taker); ok {
		return &c.decision, t.TakeInto(ctx, &c.request, &c.decision)
	}
	return o.Taker.Take(ctx, &c.request)
}

// unknown answers where nobody knows whether the request may be let through, and
// reports whether it has.
func (o *Options) unknown(w http.ResponseWriter, r *http.Request, err error) (answered bool) {
	var faults plans.Faults
	if errors.As(err, &faults) && faults.On("key") {
		w.Header().Set("WWW-Authenticate", "Bearer")
		(&Problem{Type: TypeKey, Title: "No valid key", Status: http.StatusUnauthorized, Detail: "A known key is needed."}).Write(w)
		return true
	}
	o.OnError(r, err)
	if o.FailClosed {
		w.Header().Set("Retry-After", "1")
		(&Problem{Type: TypeUnavailable, Title: "Limits not known", Status: http.StatusServiceUnavailable, Detail: "Repeat the request."}).Write(w)
	}
	return o.FailClosed
}

// handle gives back what is to be refunded, a panicking handler's too.
func (o *Options) handle(a *answer, r *http.Request, next http.Handler, d *plans.Decision) {
	defer func() {
		if a.status < 400 {
			return
		}
		// Who hung up is refunded all the same.
		if err := o.Taker.Refund(context.WithoutCancel(r.Context()), d, a.status); err != nil {
			o.OnError(r, err)
		}
	}()
	next.ServeHTTP(&a.recorder, r)
	if !a.wrote {
		a.status = http.StatusOK // net/http says so for a handler that said nothing
	}
}

// answer is what one answer needs as long as somebody may look at it.
type answer struct {
	recorder
	values values
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
