package limits_test

import (
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/guardd/guardd/api/limits"
	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/plans"
	"github.com/guardd/guardd/keys/shed"
)

// A request for which there is no room is told so, with its own problem type, and
// gets back what it was charged; a critical one still has room.
func TestSheddingTurnsAwayAndGivesBack(t *testing.T) {
	w := newWorld(t, &plans.Definition{
		Rules: []plans.Rule{{Name: "burst", Capacity: 10, Refill: "1/1h"}},
		Plans: []plans.Plan{{Name: "p", Rules: []string{"burst"}}},
		Keys:  []plans.Key{{SHA256: sha256.Sum256([]byte("secret")), Plan: "p"}},
	})
	l, err := shed.New(shed.Config{Least: 5, Most: 5, First: 5})
	if err != nil {
		t.Fatal(err)
	}
	h := newWork()
	m := limits.Middleware(limits.Options{Taker: w})(limits.Shed(limits.ShedOptions{Limiter: l, Priority: func(r *http.Request) shed.Priority {
		if r.Header.Get("X-Critical") != "" {
			return shed.Critical
		}
		return shed.Normal
	}})(h))
	send := func(critical string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "/x", nil)
		r.Header.Set("X-API-Key", "secret")
		r.Header.Set("X-Critical", critical)
		a := httptest.NewRecorder()
		m.ServeHTTP(a, r)
		return a
	}
	done := make(chan int, 5)
	for range 4 {
		go func() { done <- send("").Code }()
		<-h.started
	}
	a := send("")
	var p limits.Problem
	if err := json.Unmarshal(a.Body.Bytes(), &p); err != nil {
		t.Fatal(err)
	}
	if a.Code != 503 || p.Type != limits.TypeReducedCapacity || a.Header().Get("Retry-After") != "1" || a.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%d %+v %v", a.Code, p, a.Header())
	}
	go func() { done <- send("yes").Code }()
	<-h.started
	if d := w.take(plans.Request{Key: "secret", Rules: []string{"burst"}}); d.Limits[0].Remaining() != 5 {
		t.Errorf("%d tokens are left of 10 after 5 requests", d.Limits[0].Remaining())
	}
	for range 5 {
		h.end <- okay
		if code := <-done; code != 200 {
			t.Errorf("%d", code)
		}
	}
	if s := l.Stats(); s.InFlight != 0 || s.Turned[shed.Normal] != 1 {
		t.Errorf("%+v", s)
	}
}

// What the backend says of itself counts, and a panic leaves no room taken.
func TestSheddingSeesHowTheBackendAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter)
		limit  int
	}{
		"it cannot cope": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }, 4},
		"it answers":     {func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) }, 40},
		"it panics":      {func(http.ResponseWriter) { panic("broken") }, 40},
	} {
		l, err := shed.New(shed.Config{First: 40})
		if err != nil {
			t.Fatal(err)
		}
		now := keys.Second
		m := limits.Shed(limits.ShedOptions{Limiter: l, Now: func() int64 { now += 10_000; return now }})(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { c.answer(w) }))
		for range 300 {
			func() {
				defer func() { recover() }()
				m.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
			}()
		}
		if s := l.Stats(); s.Limit != c.limit || s.InFlight != 0 {
			t.Errorf("%s: %+v, want a limit of %d", name, s, c.limit)
		}
	}
}
