package limits_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/guardd/guardd/api/limits"
	"github.com/guardd/guardd/keys/plans"
)

var twoRules = &plans.Definition{
	Rules: []plans.Rule{
		{Name: "burst", Capacity: 4, Refill: "1/1h"},
		{Name: "units", Capacity: 20, Refill: "1/1h", Routes: map[string]int64{"GET /items/{id}": 5, "*": 1}, Refund: plans.RefundAll},
	},
	Plans: []plans.Plan{{Name: "p", Rules: []string{"burst", "units"}}},
	Keys:  []plans.Key{{SHA256: sha256.Sum256([]byte("secret")), Plan: "p"}},
}

// api answers what the path's id says.
func handler(w http.ResponseWriter, r *http.Request) {
	switch id := cmpOr(chi.URLParam(r, "id"), r.PathValue("id")); id {
	case "missing":
		http.Error(w, "no such item", http.StatusNotFound)
	case "broken":
		http.Error(w, "ours", http.StatusInternalServerError)
	case "panic":
		panic(http.ErrAbortHandler)
	case "silent":
	default:
		w.Write([]byte("ok"))
	}
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func routers(o limits.Options) map[string]http.Handler {
	c := chi.NewRouter()
	c.Use(limits.Middleware(o))
	c.Get("/items/{id}", handler)
	m := http.NewServeMux()
	m.Handle("GET /items/{id}", limits.Middleware(o)(http.HandlerFunc(handler)))
	return map[string]http.Handler{"chi": c, "net/http": m}
}

func get(t *testing.T, h http.Handler, path, key string) *http.Response {
	t.Helper()
	s := httptest.NewServer(h)
	defer s.Close()
	r, _ := http.NewRequest(http.MethodGet, s.URL+path, nil)
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	a, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		if path == "/items/panic" {
			return nil
		}
		t.Fatal(err)
	}
	a.Body.Close()
	return a
}

func TestTheMiddlewareCountsByRouteAndGivesBackWhatFailed(t *testing.T) {
	for name := range routers(limits.Options{}) {
		w := newWorld(t, twoRules)
		h := routers(limits.Options{Taker: w})[name]
		left := func() (n []int64) {
			d := w.take(plans.Request{Key: "secret", Route: "GET /items/{id}"})
			for i := range d.Limits {
				n = append(n, d.Limits[i].Remaining())
			}
			return n
		}
		for _, c := range []struct {
			path   string
			status int
			left   []int64
		}{
			{"/items/1", 200, []int64{3, 15}},
			{"/items/silent", 200, []int64{2, 10}},
			{"/items/missing", 404, []int64{1, 10}}, // the caller's own fault: only units says that it is refunded
			{"/items/broken", 500, []int64{1, 10}},  // ours: both
			{"/items/panic", 0, []int64{1, 10}},
			{"/items/1", 200, []int64{0, 5}},
			{"/items/1", 429, []int64{0, 5}},
		} {
			a := get(t, h, c.path, "secret")
			if a != nil && a.StatusCode != c.status {
				t.Errorf("%s, %s: %d, want %d", name, c.path, a.StatusCode, c.status)
			}
			if got := left(); !slices.Equal(got, c.left) {
				t.Errorf("%s, after %s: left %v, want %v", name, c.path, got, c.left)
			}
			if a != nil && len(fields(t, a.Header, limits.RateLimit)) != 2 {
				t.Errorf("%s, %s: RateLimit %q", name, c.path, a.Header.Get(limits.RateLimit))
			}
		}
	}
}

func TestARefusalIsAProblemThatNamesItsPolicies(t *testing.T) {
	w := newWorld(t, twoRules)
	h := routers(limits.Options{Taker: w, Cost: func(r *http.Request) int64 {
		if r.URL.Path == "/items/dear" {
			return 5
		}
		return 1
	}})["chi"]
	for range 4 {
		get(t, h, "/items/1", "secret")
	}
	a := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/items/1", nil)
	r.Header.Set("X-API-Key", "secret")
	h.ServeHTTP(a, r)
	var p limits.Problem
	if err := json.Unmarshal(a.Body.Bytes(), &p); err != nil {
		t.Fatal(err)
	}
	if a.Code != 429 || p.Status != 429 || p.Type != limits.TypeQuotaExceeded || !slices.Equal(p.ViolatedPolicies, []string{"burst", "units"}) ||
		a.Header().Get("Cache-Control") != "no-store" || a.Header().Get("Content-Type") != "application/problem+json" || a.Header().Get("Retry-After") != "18000" {
		t.Errorf("%d %+v %v", a.Code, p, a.Header())
	}
	r = httptest.NewRequest(http.MethodGet, "/items/dear", nil)
	r.Header.Set("X-API-Key", "secret")
	a = httptest.NewRecorder()
	h.ServeHTTP(a, r)
	if a.Code != 422 || a.Header().Get("Retry-After") != "" {
		t.Errorf("a cost above capacity: %d, retry after %q", a.Code, a.Header().Get("Retry-After"))
	}
	for _, key := range []string{"", "wrong"} {
		if a := get(t, h, "/items/1", key); a.StatusCode != 401 || a.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("key %q: %d", key, a.StatusCode)
		}
	}
}

// broken is a Taker that does not know.
type broken struct{ limits.Taker }

func (broken) HoldsSlots() bool { return true }

func (broken) Acquire(context.Context, *plans.SlotRequest) (*plans.SlotDecision, error) {
	return nil, errors.New("gone")
}

func (broken) Take(context.Context, *plans.Request) (*plans.Decision, error) {
	return nil, errors.New("gone")
}

func (broken) Refund(context.Context, *plans.Decision, int) error { return nil }

func TestWithoutAnAnswerTheOptionsDecide(t *testing.T) {
	told := 0
	o := limits.Options{Taker: broken{}, OnError: func(*http.Request, error) { told++ }}
	if a := get(t, routers(o)["chi"], "/items/1", "secret"); a.StatusCode != 200 {
		t.Errorf("open: %d", a.StatusCode)
	}
	o.FailClosed = true
	if a := get(t, routers(o)["chi"], "/items/1", "secret"); a.StatusCode != 503 || a.Header.Get("Retry-After") != "1" {
		t.Errorf("closed: %d", a.StatusCode)
	}
	if told != 3 { // open: of the slot, and of the tokens
		t.Errorf("told %d times", told)
	}
}
