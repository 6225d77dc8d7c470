package limits_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/guardd/guardd/api/limits"
	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/plans"
)

var slotted = &plans.Definition{
	Rules: []plans.Rule{{Name: "inflight", Kind: plans.Concurrency, Capacity: 2}, {Name: "burst", Capacity: 3, Refill: "1/1h"}},
	Plans: []plans.Plan{{Name: "p", Rules: []string{"inflight", "burst"}}},
	Keys:  []plans.Key{{SHA256: sha256.Sum256([]byte("secret")), Plan: "p"}},
}

// work is a handler that a test lets end.
type work struct {
	started chan struct{}
	end     chan func(http.ResponseWriter)
}

func newWork() *work { return &work{make(chan struct{}, 8), make(chan func(http.ResponseWriter))} }

func (h *work) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.started <- struct{}{}
	(<-h.end)(w)
}

// alarms are timers that a test sets off.
type alarms struct {
	sync.Mutex
	every []time.Duration
	set   map[int]func()
}

func (a *alarms) after(d time.Duration, f func()) func() {
	a.Lock()
	defer a.Unlock()
	if a.set == nil {
		a.set = map[int]func(){}
	}
	n := len(a.every)
	a.every = append(a.every, d)
	a.set[n] = f
	return func() {
		a.Lock()
		defer a.Unlock()
		delete(a.set, n)
	}
}

// ring sets off all that are set, and says how many.
func (a *alarms) ring() int {
	a.Lock()
	due := a.set
	a.set = nil
	a.Unlock()
	for _, f := range due {
		f()
	}
	return len(due)
}

func ask(h http.Handler) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/x", nil)
	r.Header.Set("X-API-Key", "secret")
	a := httptest.NewRecorder()
	h.ServeHTTP(a, r)
	return a
}

func okay(w http.ResponseWriter) { w.WriteHeader(http.StatusOK) }

func (w *world) inUse() int64 {
	w.t.Helper()
	d, err := w.Acquire(context.Background(), &plans.SlotRequest{Key: "secret", Rules: []string{"inflight"}, RequestID: "look"})
	if err != nil {
		w.t.Fatal(err)
	}
	if d.Allowed {
		if _, err := w.Release(context.Background(), d.Slot); err != nil {
			w.t.Fatal(err)
		}
		return d.Limits[0].InUse - 1
	}
	return d.Limits[0].InUse
}

// Two requests at once are let through, a third is told what it ran into, and each
// end gives its slot back: also one by a panic.
func TestTheMiddlewareHoldsASlotWhileTheHandlerRuns(t *testing.T) {
	w, h, a := newWorld(t, slotted), newWork(), &alarms{}
	m := limits.Middleware(limits.Options{Taker: w, After: a.after, OnError: func(_ *http.Request, err error) { t.Error(err) }})(h)
	var wg sync.WaitGroup
	answers := make(chan *httptest.ResponseRecorder, 2)
	for range 2 {
		wg.Go(func() {
			defer func() { recover() }()
			answers <- ask(m)
		})
	}
	<-h.started
	<-h.started
	if n := w.inUse(); n != 2 {
		t.Errorf("%d of 2 slots are held", n)
	}
	third := ask(m)
	var p limits.Problem
	if err := json.Unmarshal(third.Body.Bytes(), &p); err != nil {
		t.Fatal(err)
	}
	if third.Code != 429 || p.Type != limits.TypeQuotaExceeded || !slices.Equal(p.ViolatedPolicies, []string{"inflight"}) || third.Header().Get("Retry-After") != "1" ||
		third.Header().Get(limits.Policy) != `"inflight";q=2;qu="concurrent-requests"` || third.Header().Get(limits.RateLimit) != `"inflight";r=0;t=1` {
		t.Errorf("%d %+v %v", third.Code, p, third.Header())
	}
	h.end <- okay
	h.end <- func(http.ResponseWriter) { panic("broken") }
	wg.Wait()
	if n := w.inUse(); n != 0 {
		t.Errorf("%d slots are held when all is done", n)
	}
	if got := (<-answers).Header().Get(limits.RateLimit); got != `"burst";r=2;t=3600, "inflight";r=1` && got != `"burst";r=1;t=3600, "inflight";r=0` && got != `"burst";r=2;t=3600, "inflight";r=0` && got != `"burst";r=1;t=3600, "inflight";r=1` {
		t.Errorf("RateLimit %s", got)
	}
	if n := a.ring(); n != 0 {
		t.Errorf("%d slots would be renewed", n)
	}
	// The refused request took no token, and who is refused tokens leaves no slot.
	go func() {
		for range 2 {
			h.end <- okay
		}
	}()
	for i, want := range []int{200, 200, 429, 429} { // one of 3 was refunded, after the panic
		if got := ask(m); got.Code != want {
			t.Errorf("request %d: %d, want %d", i, got.Code, want)
		}
	}
	if n := w.inUse(); n != 0 {
		t.Errorf("%d slots are held by who was refused", n)
	}
}

// While the handler runs its slot is renewed, a third of its life before each
// last moment; what nobody renews falls free.
func TestASlotIsRenewedWhileTheHandlerRuns(t *testing.T) {
	w, h, a := newWorld(t, slotted), newWork(), &alarms{}
	var mu sync.Mutex
	var told []error
	m := limits.Middleware(limits.Options{Taker: w, After: a.after, OnError: func(_ *http.Request, err error) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, err)
	}})(h)
	done := make(chan *httptest.ResponseRecorder)
	go func() { done <- ask(m) }()
	<-h.started
	for range 10 {
		w.now += 20 * keys.Second
		if n := a.ring(); n != 1 {
			t.Fatalf("%d slots were renewed", n)
		}
		if n := w.inUse(); n != 1 {
			t.Errorf("%d slots are held", n)
		}
	}
	for _, d := range a.every {
		if d != 20*time.Second {
			t.Errorf("renewed after %s of a minute", d)
		}
	}
	// This one stands still for longer than the slot lives; others take what is free.
	w.now += 61 * keys.Second
	if n := w.inUse(); n != 0 {
		t.Errorf("%d slots are held by nobody", n)
	}
	for range 2 {
		if d, err := w.Acquire(t.Context(), &plans.SlotRequest{Key: "secret", Rules: []string{"inflight"}}); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
	}
	a.ring()
	if len(told) != 1 || !errors.Is(told[0], limits.ErrSlotLost) {
		t.Errorf("told %v", told)
	}
	if n := w.inUse(); n != 2 {
		t.Errorf("%d of 2 are held", n)
	}
	h.end <- okay
	if got := <-done; got.Code != 200 {
		t.Errorf("%d", got.Code)
	}
	if n := w.inUse(); n != 2 {
		t.Errorf("%d of 2 are held: another's slot was released", n)
	}
}

// Rules and slots may be named in place of a plan's.
func TestTheMiddlewareTakesWhatItIsTold(t *testing.T) {
	for _, c := range []struct {
		o    limits.Options
		want string
	}{
		{limits.Options{}, `"burst";r=2;t=3600, "inflight";r=1`},
		{limits.Options{Rules: []string{"burst"}}, `"burst";r=2;t=3600`},
		{limits.Options{Slots: []string{"inflight"}}, `"inflight";r=1`},
		{limits.Options{Rules: []string{"burst"}, Slots: []string{"inflight"}}, `"burst";r=2;t=3600, "inflight";r=1`},
	} {
		w := newWorld(t, slotted)
		c.o.Taker = w
		a := ask(limits.Middleware(c.o)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { okay(w) })))
		if got := a.Header().Get(limits.RateLimit); a.Code != 200 || got != c.want {
			t.Errorf("%v %v: %d, RateLimit %s, want %s", c.o.Rules, c.o.Slots, a.Code, got, c.want)
		}
		if n := w.inUse(); n != 0 {
			t.Errorf("%d slots are held", n)
		}
	}
}
