package api

import (
	"context"
	_ "embed"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys/trace"
)

// Guard decides; escalation.Guard is one. All methods are safe for concurrent
// use. Errors are escalation's: Faults, ErrConflict, ErrRealm, ErrStore;
// any other is answered 500.
type Guard interface {
	Check(ctx context.Context, a *escalation.Attempt) (*escalation.Verdict, error)
	Report(ctx context.Context, r *escalation.Report, may func(realm string) bool) (*escalation.Recorded, error)
	Revoke(ctx context.Context, realm, account string) error
}

// Observer is told what was decided and answered, for metrics and events. Its
// methods are called while the caller waits, from many goroutines at once:
// they must not block. took is wall time. What it is given must not be changed.
type Observer interface {
	Attempt(v *escalation.Verdict, took time.Duration)
	Outcome(r *escalation.Recorded, took time.Duration)
	// Answered is called once per request. route is one of Routes, whatever
	// the visitor sent.
	// by names the request where it is of somebody's trace, and is zero elsewhere.
	Answered(route string, status int, took time.Duration, by trace.ID)
}

// Config is what Service and Challenges need. Guard is required for the
// first, Challenger for the second; all else has a default.
type Config struct {
	Guard      Guard
	Challenger Challenger
	// PublicURL is where browsers reach Challenges, without a trailing slash;
	// "" is the root of whatever host they ask.
	PublicURL string
	// Keys may call the service. With none, everybody may: then it must listen
	// on loopback only, which the caller has to see to.
	Keys     []Key
	Log      *slog.Logger // nil: nothing is logged
	Observer Observer     // nil: nobody is told
	// Breached answers about leaked passwords.
	Breached BreachedConfig
	// Limits decides about plan limits; nil: there are none.
	Limits Taker
	// Draining: answers ask their connection to be closed, so that callers
	// move on to another instance. nil: never.
	Draining func() bool
	// Tracer exports traces of requests; nil: nobody does. Contexts of callers are
	// taken on either way, from whoever has shown a key, and of no browser.
	Tracer *trace.Tracer
}

// The routes of Service.
const (
	RouteAttempts = "/v1/attempts"
	RouteOutcomes = "/v1/outcomes"
	RouteRevoke   = "/v1/devices/revoke"
	RouteOpenAPI  = "/v1/openapi.yaml"
	RouteTake     = "/v1/limits/take"
	RouteSettle   = "/v1/limits/settle"
	RouteAcquire  = "/v1/limits/acquire"
	RouteRelease  = "/v1/limits/release"
	RouteCheck    = "/v1/breached/check"
	RouteRange    = "/v1/breached/range/{prefix}"
	// RoutePublicRange is the public service's own path, on both listeners.
	RoutePublicRange = "/range/{prefix}"
	// RouteOther stands for every path that is not served: what visitors
	// make up must name no series and fill no log.
	RouteOther = "other"
)

// Routes lists every name that Observer.Answered is given.
var Routes = []string{RouteAttempts, RouteOutcomes, RouteRevoke, RouteOpenAPI, RouteTake, RouteSettle, RouteAcquire, RouteRelease, RouteCheck, RouteRange, RoutePublicRange,
	RoutePage, RouteImage, RouteAudio, RoutePow, RouteAnswer, RouteSend, RouteWorker,
	RouteExplain, RouteClear, RouteLists, RoutePosture, RouteReload, RouteAudit, RouteStatus, RouteStatusPage, RouteLimitsExplain,
	RouteLimits, RouteLimitsRules, RouteLimitsPlans, RouteLimitsKeys, RouteLimitsChanges, RouteOther}

// MaxBody is the largest request body in bytes; a larger one is answered 413.
const MaxBody = 64 << 10

//go:embed openapi.yaml
var openAPI []byte

type service struct {
	Config
}

// Service returns the handler of the /v1 routes. It is safe for concurrent
// use and keeps nothing between requests.
func Service(c Config) http.Handler {
	s := newService(c)
	r := newRouter(s.observe, noBrowsers)
	r.Post(RouteAttempts, serveJSON(s, s.attempt))
	r.Post(RouteOutcomes, serveJSON(s, s.outcome))
	r.Post(RouteRevoke, serveJSON(s, s.revoke))
	r.Post(RouteTake, serveJSON(s, s.take))
	r.Post(RouteSettle, serveJSON(s, s.settle))
	r.Post(RouteAcquire, serveJSON(s, s.acquire))
	r.Post(RouteRelease, serveJSON(s, s.release))
	r.Post(RouteCheck, serveJSON(s, s.checkBreached))
	s.serveRanges(r)
	s.servePublicRanges(r)
	r.Get(RouteOpenAPI, serveOpenAPI)
	r.Head(RouteOpenAPI, serveOpenAPI)
	return r
}

func newService(c Config) *service {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Observer == nil {
		c.Observer = noObserver{}
	}
	if c.Limits == nil {
		c.Limits = noLimits{}
	}
	if c.Draining == nil {
		c.Draining = func() bool { return false }
	}
	return &service{c}
}

// newRouter is a router whose own answers are problem documents too.
func newRouter(use ...func(http.Handler) http.Handler) *chi.Mux {
	r := chi.NewRouter()
	r.Use(use...)
	r.NotFound(func(w http.ResponseWriter, _ *http.Request) { writeProblem(w, problemNotFound()) })
	r.MethodNotAllowed(func(w http.ResponseWriter, q *http.Request) {
		for _, m := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete} {
			if r.Match(chi.NewRouteContext(), m, q.URL.Path) {
				w.Header().Add("Allow", m)
			}
		}
		writeProblem(w, problemMethod())
	})
	return r
}

func serveOpenAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(openAPI)
}

type noObserver struct{}

func (noObserver) Attempt(*escalation.Verdict, time.Duration)    {}
func (noObserver) Outcome(*escalation.Recorded, time.Duration)   {}
func (noObserver) Answered(string, int, time.Duration, trace.ID) {}
