package api

import (
	"net/http"
	"net/http/pprof"

	"github.com/go-chi/chi/v5/middleware"
)

// AdminConfig is what Admin needs; every field may be left out.
type AdminConfig struct {
	Metrics http.Handler // at /metrics; nil: not served
	// Ready says "ok" or "degraded" with true while decisions are possible,
	// "starting" or "draining" with false. nil: always ok.
	Ready func() (status string, ok bool)
	Pprof bool // serve /debug/pprof
	// Operators serves /admin/v1; nil: not served.
	Operators *OperatorsConfig
}

// health is the body of /healthz and /readyz.
type health struct {
	Status string `json:"status"`
}

// Admin returns the handler of the admin listener. Only /admin/v1 asks for keys,
// so it belongs on loopback or a network of operators.
//
// /healthz is 200 while the process answers at all; restart what fails it.
// /readyz is 503 only before load and while draining, never because the store
// is gone: guardd then still answers, degraded, and an instance taken out of
// rotation would not.
func Admin(c AdminConfig) http.Handler {
	r := newRouter(noStore, middleware.GetHead) // some balancers probe with HEAD
	r.Get("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, "application/json", health{"ok"})
	})
	r.Get("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		status, ok := "ok", true
		if c.Ready != nil {
			status, ok = c.Ready()
		}
		code := http.StatusOK
		if !ok {
			code = http.StatusServiceUnavailable
		}
		writeJSON(w, code, "application/json", health{status})
	})
	if c.Operators != nil {
		serveOperators(r, c.Operators)
	}
	if c.Metrics != nil {
		r.Method(http.MethodGet, "/metrics", c.Metrics)
	}
	if c.Pprof {
		r.HandleFunc("/debug/pprof/*", pprof.Index)
		r.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		r.HandleFunc("/debug/pprof/profile", pprof.Profile)
		r.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		r.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return r
}

func noStore(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}
