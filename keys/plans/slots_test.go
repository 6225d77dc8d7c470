package plans_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/plans"
)

// inflight has a cap of 3 for all, of 5 for big-key, and one of 2 for searches.
var inflight = &plans.Definition{
	Rules: []plans.Rule{
		{Name: "inflight", Kind: plans.Concurrency, Capacity: 3, Settings: plans.Settings{TTL: text("30s")}},
		{Name: "searches", Kind: plans.Concurrency, Capacity: 2, Routes: map[string]int64{"GET /search": 1}},
		{Name: "hour", Capacity: 5, Refill: "5/1h"},
	},
	Plans: []plans.Plan{{Name: "p", Rules: []string{"hour", "inflight", "searches"}}, {Name: "tokens", Rules: []string{"hour"}}},
	Keys: []plans.Key{
		{SHA256: digest("free-key"), Plan: "p"},
		{SHA256: digest("big-key"), Plan: "p", Overrides: []plans.Override{{Rule: "inflight", Capacity: ptr(5)}}},
		{SHA256: digest("no-slots"), Plan: "tokens"},
		{SHA256: digest("stopped"), Plan: "p", State: plans.Suspended},
	},
}

func (w *world) acquire(r plans.SlotRequest) *plans.SlotDecision {
	w.t.Helper()
	d, err := w.Acquire(w.t.Context(), &r)
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

func (w *world) renew(slot string, ttl time.Duration) *plans.SlotDecision {
	w.t.Helper()
	d, err := w.Renew(w.t.Context(), slot, &plans.SlotRequest{TTL: ttl})
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

func (w *world) release(slot string) bool {
	w.t.Helper()
	ok, err := w.Release(w.t.Context(), slot)
	if err != nil {
		w.t.Fatal(err)
	}
	return ok
}

// what is a decision in short: yes or no, and how many are held of how many.
func what(d *plans.SlotDecision) string {
	all := []string{map[bool]string{true: "yes", false: "no"}[d.Allowed]}
	for _, l := range d.Limits {
		all = append(all, fmt.Sprintf("%s %d/%d", l.Rule, l.InUse, l.Cap))
	}
	return strings.Join(append(all, d.Reason), " ")
}

// A plan's slots: held until they are released or expire, renewed by who holds
// them, all or none of several rules, by each key's own numbers.
func TestSlotsOfAPlan(t *testing.T) {
	onEveryStore(t, func(t *testing.T, newWorld func(*testing.T, *plans.Definition) *world) {
		w := newWorld(t, inflight)
		want := func(d *plans.SlotDecision, says string) *plans.SlotDecision {
			t.Helper()
			if got := strings.TrimSpace(what(d)); got != says {
				t.Errorf("%s, want %s", got, says)
			}
			if d.Allowed != (d.Slot != "") && d.Reason == "" || !d.Allowed && d.Reason == "" && d.RetryAfter < time.Second {
				t.Errorf("%s: slot %q, retry after %s", says, d.Slot, d.RetryAfter)
			}
			return d
		}
		free := plans.SlotRequest{Key: "free-key", Route: "GET /x"}
		search := plans.SlotRequest{Key: "free-key", Route: "GET /search"}
		a := want(w.acquire(free), "yes inflight 1/3")
		if a.TTL != 30*time.Second || a.Expires.Sub(a.At) != a.TTL || a.Renewed {
			t.Errorf("%+v", a)
		}
		b := want(w.acquire(search), "yes inflight 2/3 searches 1/2")
		want(w.acquire(free), "yes inflight 3/3")
		if d := want(w.acquire(search), "no inflight 3/3 searches 1/2"); d.Limits[d.Binding].Rule != "inflight" || d.Limits[0].Allowed || !d.Limits[1].Allowed {
			t.Errorf("%+v", d)
		}
		want(w.acquire(plans.SlotRequest{Key: "big-key", Rules: []string{"inflight"}}), "yes inflight 1/5")
		want(w.acquire(plans.SlotRequest{Key: "another", Rules: []string{"searches"}}), "yes searches 1/2")
		if !w.release(b.Slot) || w.release(b.Slot) {
			t.Error("a slot is released once")
		}
		want(w.acquire(search), "yes inflight 3/3 searches 1/2")
		// a is renewed, what nobody renews falls free.
		w.now += 20 * keys.Second
		if d := want(w.renew(a.Slot, 0), "yes inflight 3/3"); !d.Renewed || d.Slot != a.Slot || d.Expires.Sub(d.At) != 30*time.Second {
			t.Errorf("%+v", d)
		}
		w.now += 15 * keys.Second
		want(w.acquire(free), "yes inflight 2/3")
		w.now += 29 * keys.Second
		want(w.renew(a.Slot, 5*time.Second), "yes inflight 2/3") // it had expired, and there is room
		w.now += 5 * keys.Second
		if w.release(a.Slot) {
			t.Error("an expired slot was released")
		}
		want(w.acquire(plans.SlotRequest{Key: "no-slots", Route: "GET /x"}), "yes uncounted")
		want(w.acquire(plans.SlotRequest{Key: "stopped", Route: "GET /x"}), "no suspended")
		if d := w.acquire(plans.SlotRequest{Key: "free-key", Route: "GET /x", TTL: time.Second}); d.TTL != time.Second {
			t.Errorf("ttl %s", d.TTL)
		}
	})
}

// A slot that has expired cannot be renewed over the cap.
func TestALostSlotIsNotTakenBack(t *testing.T) {
	w := newWorld(t, inflight)
	r := plans.SlotRequest{Key: "k", Rules: []string{"searches"}}
	a := w.acquire(r)
	w.now += 61 * keys.Second
	w.acquire(r)
	w.acquire(r)
	if d := w.renew(a.Slot, 0); d.Allowed || d.Slot != "" {
		t.Errorf("%+v", d)
	}
}

// A request id occupies one slot, however often it is repeated.
func TestARequestIDHoldsOneSlot(t *testing.T) {
	onEveryStore(t, func(t *testing.T, newWorld func(*testing.T, *plans.Definition) *world) {
		w := newWorld(t, inflight)
		r := plans.SlotRequest{Key: "k", Rules: []string{"inflight"}, RequestID: "one"}
		a := w.acquire(r)
		w.now += keys.Second
		if d := w.acquire(r); !d.Allowed || !d.Renewed || d.Limits[0].InUse != 1 {
			t.Errorf("%+v", d)
		}
		for _, other := range []plans.SlotRequest{{Key: "k", Rules: r.Rules, RequestID: "two"}, {Key: "k", Rules: r.Rules}} {
			if d := w.acquire(other); !d.Allowed || d.Renewed {
				t.Errorf("%+v", d)
			}
		}
		if d := w.acquire(plans.SlotRequest{Key: "another", Rules: r.Rules, RequestID: "one"}); d.Renewed || d.Limits[0].InUse != 1 {
			t.Errorf("another key's: %+v", d)
		}
		if !w.release(a.Slot) {
			t.Error("the first's slot is that of the second")
		}
		if d := w.acquire(r); d.Renewed || d.Limits[0].InUse != 3 {
			t.Errorf("%+v", d)
		}
	})
}

// A cap that is lowered takes nobody's slot away, and lets nobody in until there
// is room; a rule that is gone is told.
func TestACapThatChangesWhileSlotsAreHeld(t *testing.T) {
	w := newWorld(t, inflight)
	r := plans.SlotRequest{Key: "k", Rules: []string{"inflight"}}
	var held []string
	for range 3 {
		held = append(held, w.acquire(r).Slot)
	}
	less := *inflight
	less.Rules = append([]plans.Rule{}, inflight.Rules...)
	less.Rules[0].Capacity = 1
	w.load(&less)
	for i, slot := range held {
		if d := w.renew(slot, 0); !d.Allowed || d.Limits[0].InUse != int64(3-i) || d.Limits[0].Remaining() != 0 {
			t.Errorf("%+v", d)
		}
		if w.acquire(r).Allowed {
			t.Errorf("a newcomer got a slot while %d of 1 are held", 3-i)
		}
		w.release(slot)
	}
	if !w.acquire(r).Allowed {
		t.Error("no slot when all are free")
	}
	gone := less
	gone.Rules, gone.Plans, gone.Keys = less.Rules[1:], nil, nil
	w.load(&gone)
	if _, err := w.Renew(t.Context(), held[0], &plans.SlotRequest{}); !errors.Is(err, plans.ErrUnknownRule) {
		t.Errorf("%v", err)
	}
	if w.release(held[0]) {
		t.Error("released twice")
	}
}

func TestBadRequestsForSlotsNameTheirField(t *testing.T) {
	w := newWorld(t, inflight)
	long := strings.Repeat("x", plans.MaxRequestID+1)
	for field, r := range map[string]plans.SlotRequest{
		"key":        {Rules: []string{"inflight"}},
		"rules[0]":   {Key: "k", Rules: []string{"hour"}},
		"rules[1]":   {Key: "k", Rules: []string{"inflight", "inflight"}},
		"ttl_ms":     {Key: "k", Rules: []string{"inflight"}, TTL: time.Millisecond},
		"request_id": {Key: "k", Rules: []string{"inflight"}, RequestID: long},
	} {
		if _, err := w.Acquire(t.Context(), &r); !isFault(err, field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := w.Acquire(t.Context(), &plans.SlotRequest{Key: "stranger", Route: "GET /x"}); !isFault(err, "key") {
		t.Errorf("a key that is not registered: %v", err)
	}
	if _, err := w.Acquire(t.Context(), &plans.SlotRequest{Key: "k", Rules: []string{"none"}}); !errors.Is(err, plans.ErrUnknownRule) {
		t.Errorf("a rule that is not there: %v", err)
	}
	slot := w.acquire(plans.SlotRequest{Key: "k", Rules: []string{"inflight"}}).Slot
	for field, r := range map[string]plans.SlotRequest{"key": {Key: "another"}, "rules[0]": {Rules: []string{"searches"}}, "ttl_ms": {TTL: 2 * time.Hour}} {
		if _, err := w.Renew(t.Context(), slot, &r); !isFault(err, field) {
			t.Errorf("renewing, %s: %v", field, err)
		}
	}
	for _, bent := range []string{"", "r.", slot[:len(slot)-3], "bent"} {
		if _, err := w.Release(t.Context(), bent); !isFault(err, "slot") {
			t.Errorf("%q released: %v", bent, err)
		}
		if _, err := w.Renew(t.Context(), bent, &plans.SlotRequest{}); !isFault(err, "slot") {
			t.Errorf("%q renewed: %v", bent, err)
		}
	}
}
