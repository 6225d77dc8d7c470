package limits_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/guardd/guardd/api/limits"
	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/plans"
)

// sink is an http.ResponseWriter that costs nothing.
type sink struct{ h http.Header }

func (s *sink) Header() http.Header         { return s.h }
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }
func (s *sink) WriteHeader(int)             {}

var nothing = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

// leasedHandler is the middleware before a handler that does nothing, of a key that
// is leased.
func leasedHandler(t testing.TB) (http.Handler, *plans.Taker) {
	t.Helper()
	tk := plans.NewTaker(plans.Config{Store: keys.NewMemory(keys.MemoryConfig{}), Sealer: plainSealer{}, Slots: plainSealer{}, Hash: hash})
	b, faults := plans.Compile(&plans.Definition{Rules: []plans.Rule{{Name: "r", Capacity: 1 << 30, Refill: "1073741824/1s",
		Settings: plans.Settings{Lease: &plans.Lease{Above: 1}}}}}, "1", nil)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	tk.Swap(b)
	return limits.Middleware(limits.Options{Taker: tk, Rules: []string{"r"}, Route: func(*http.Request) string { return "GET /x" }})(nothing), tk
}

func keyed() *http.Request {
	r := httptest.NewRequest("GET", "/x", nil)
	r.Header.Set("X-Api-Key", "gk_of_somebody_with_a_key_of_usual_length_0")
	return r
}

// A busy key's requests are told where they stand as any, each by the tokens that
// are left after it.
func TestHeadersOfALeasedKey(t *testing.T) {
	w := newWorld(t, &plans.Definition{Rules: []plans.Rule{{Name: "r", Capacity: 1000, Refill: "1/24h", Settings: plans.Settings{Lease: &plans.Lease{Above: 20, Most: 100}}}}})
	h := limits.Middleware(limits.Options{Taker: w.Taker, Rules: []string{"r"}})(nothing)
	last := int64(1000)
	refusals := 0
	for range 1500 {
		w.now += time.Millisecond.Microseconds()
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, keyed())
		state := fields(t, answer.Header(), limits.RateLimit)
		r := number(t, state[0], "r")
		if answer.Code == http.StatusTooManyRequests {
			if refusals++; r != 0 || answer.Header().Get(limits.RetryAfter) == "" {
				t.Fatalf("a refusal with %v", answer.Header())
			}
			continue
		}
		if r >= last || refusals > 0 {
			t.Fatalf("%d left after %d, and %d refusals", r, last, refusals)
		}
		last = r
	}
	if s := w.Leases(); s.Allowed < 500 || refusals < 400 {
		t.Errorf("%+v and %d refusals: the test shows nothing", s, refusals)
	}
}

// mapped is a limiter of one process: a look-up in a map, with a mutex.
type mapped struct {
	mu sync.Mutex
	m  map[string]*int64
}

func (l *mapped) allow(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.m[key]
	*n--
	return *n > 0
}

func BenchmarkMiddleware(b *testing.B) {
	leased, _ := leasedHandler(b)
	l, n := &mapped{m: map[string]*int64{}}, int64(1)<<62
	l.m["gk_of_somebody_with_a_key_of_usual_length_0"] = &n
	for name, h := range map[string]http.Handler{
		"leased": leased,
		"a map with a mutex": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if l.allow(limits.BearerKey(r)) {
				nothing.ServeHTTP(w, r)
			}
		}),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			r, w := keyed(), &sink{http.Header{}}
			for b.Loop() {
				h.ServeHTTP(w, r)
			}
		})
	}
}
