package main

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/guardd/guardd/api/limits"
	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/plans"
)

const leaseCalls = 200_000

// leasesSide is plan limits of a busy key, whose tokens are leased.
type leasesSide struct {
	taker      *plans.Taker
	middleware http.Handler
	mapped     http.Handler
}

// leaseKey has the length of those that guardd makes.
const leaseKey = "gk_of_somebody_with_a_key_of_usual_length_0"

func newLeasesSide() (*leasesSide, error) {
	book, faults := plans.Compile(&plans.Definition{Rules: []plans.Rule{{Name: benchRule, Capacity: 1 << 30, Refill: "1073741824/1s",
		Settings: plans.Settings{Lease: &plans.Lease{Above: 1}}}}}, "bench", nil)
	if len(faults) > 0 {
		return nil, faults
	}
	s := &leasesSide{taker: plans.NewTaker(plans.Config{Store: keys.NewMemory(keys.MemoryConfig{}), Hash: func(d plans.Digest) keys.Account { return keys.Account(d[:16]) }})}
	s.taker.Swap(book)
	done := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	s.middleware = limits.Middleware(limits.Options{Taker: s.taker, Rules: []string{benchRule}, Route: func(*http.Request) string { return "GET /x" }})(done)
	// What most services begin with.
	var mu sync.Mutex
	left := map[string]*int64{leaseKey: new(int64)}
	s.mapped = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := limits.BearerKey(r)
		mu.Lock()
		n := left[key]
		*n++
		mu.Unlock()
		done.ServeHTTP(w, r)
	})
	_, err := s.take()
	return s, err
}

func (s *leasesSide) take() (sample, error) {
	return timed(1, leaseCalls, func(_, n int) error {
		r, d := new(plans.Request), new(plans.Decision)
		rules := []string{benchRule}
		for range n {
			*r = plans.Request{Key: leaseKey, Rules: rules, Route: "GET /x", Cost: 1}
			if err := s.taker.TakeInto(context.Background(), r, d); err != nil {
				return err
			}
			if !d.Allowed {
				return errors.New("a leased take was refused")
			}
		}
		return nil
	})
}

// blank is an http.ResponseWriter that costs nothing.
type blank struct{ h http.Header }

func (b blank) Header() http.Header         { return b.h }
func (b blank) Write(p []byte) (int, error) { return len(p), nil }
func (b blank) WriteHeader(int)             {}

func served(h http.Handler) func() (sample, error) {
	return func() (sample, error) {
		return timed(1, leaseCalls, func(_, n int) error {
			r, err := http.NewRequest(http.MethodGet, "/x", nil)
			if err != nil {
				return err
			}
			r.Header.Set("X-Api-Key", leaseKey)
			w := blank{http.Header{}}
			for range n {
				h.ServeHTTP(w, r)
			}
			return nil
		})
	}
}

func (s *leasesSide) groups() []group {
	const ours, theirs, take = "guardd's middleware, a leased key", "a look-up in a map with a mutex", "a leased take"
	return []group{{name: "plan limits, a leased key", floor: theirs, measure: "ns", unit: "ns of processor a call",
		subjects: []subject{{theirs, served(s.mapped)}, {take, s.take}, {ours, served(s.middleware)}},
		rows: []row{
			{What: "a leased take", Against: "the figure itself, in ns", of: take, measure: "ns", must: 1000, aim: 500},
			{What: "middleware, a leased key", Against: "a map with a mutex", of: ours, base: theirs, measure: "ns", must: 5, aim: 5},
		}}}
}

func (s *leasesSide) close() {}
