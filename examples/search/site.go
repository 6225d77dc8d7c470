package main

import (
	"context"
	"fmt"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/plans"
	"github.com/guardd/guardd/keys/shed"
)

// The routes, and what a request takes of a worker.
const (
	item   = "GET /items/{id}"
	search = "GET /search"
	report = "POST /reports"
)

var needs = map[string]int64{item: millisecond, search: 30 * millisecond, report: 1000 * millisecond}

const (
	millisecond int64 = 1000
	second            = 1000 * millisecond
)

// Protection is what stands before the backend.
type Protection struct {
	Name         string
	Rules, Slots []string
	Shed         bool
}

// Protections are compared. Counting requests is what most do.
var Protections = []Protection{
	{"requests", []string{"requests"}, nil, false},
	{"cost + concurrency", []string{"requests", "units"}, []string{"reports"}, false},
	{"cost + concurrency + shedding", []string{"requests", "units"}, []string{"reports"}, true},
}

// limits are what each caller may do: 100 requests a second, and 500 ms of a worker
// a second, of which 5 s can be saved up; and two reports at once.
var limits = &plans.Definition{Rules: []plans.Rule{
	{Name: "requests", Capacity: 200, Refill: "100/1s", Counts: plans.CountsRequests},
	{Name: "units", Capacity: 5000, Refill: "500/1s", Routes: map[string]int64{item: 1, search: 30, report: 1000}},
	{Name: "reports", Kind: plans.Concurrency, Capacity: 2, Routes: map[string]int64{report: 1}},
}}

// door lets requests through to the backend, or does not.
type door struct {
	p     Protection
	now   int64
	taker *plans.Taker
	limit *shed.Limiter
}

// plain is a sealer for what does not leave the process.
type plain struct{}

func (plain) Seal(b []byte) string { return string(b) }

func (plain) Open(s string) ([]byte, bool) { return []byte(s), true }

func newDoor(p Protection) (*door, error) {
	d := &door{p: p}
	clock := func() int64 { return d.now }
	d.taker = plans.NewTaker(plans.Config{Store: keys.NewMemory(keys.MemoryConfig{Now: clock}), Sealer: plain{}, Slots: plain{}, Now: clock,
		Hash: func(k plans.Digest) keys.Account { return keys.Account(k[:16]) }})
	book, faults := plans.Compile(limits, "example", nil)
	if len(faults) > 0 {
		return nil, faults
	}
	d.taker.Swap(book)
	var err error
	d.limit, err = shed.New(shed.Config{Least: 2, Slack: 50 * millisecond})
	return d, err
}

// enter asks for everything that p has, and returns what is to be told when the
// request is done; nil: it may not go on.
func (d *door) enter(now int64, caller int, route string, critical bool) (leave func(now int64), err error) {
	d.now = now
	ctx, key, slot := context.Background(), fmt.Sprint("caller ", caller), ""
	if len(d.p.Slots) > 0 && route == report {
		s, err := d.taker.Acquire(ctx, &plans.SlotRequest{Key: key, Rules: d.p.Slots})
		if err != nil || !s.Allowed {
			return nil, err
		}
		slot = s.Slot
	}
	free := func(at int64) {
		if d.now = at; slot != "" {
			_, err = d.taker.Release(ctx, slot)
		}
	}
	a, err := d.taker.Take(ctx, &plans.Request{Key: key, Rules: d.p.Rules, Route: route, Cost: 1})
	if err != nil || !a.Allowed {
		free(now)
		return nil, err
	}
	if !d.p.Shed {
		return free, nil
	}
	priority := shed.Normal
	switch {
	case critical:
		priority = shed.Critical
	case route == report: // nobody waits before a screen for it
		priority = shed.Background
	}
	if !d.limit.Begin(priority) {
		free(now)
		return nil, d.taker.Refund(ctx, a, 503)
	}
	return func(at int64) {
		d.limit.End(at, at-now, route, shed.Done)
		free(at)
	}, nil
}
