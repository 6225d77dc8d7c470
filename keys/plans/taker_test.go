package plans_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/plans"
)

var three = &plans.Definition{
	Rules: []plans.Rule{
		{Name: "second", Capacity: 10, Refill: "10/1s"},
		{Name: "hour", Capacity: 100, Refill: "100/1h"},
		{Name: "units", Capacity: 50, Refill: "1/1m", Routes: map[string]int64{"GET /search": 5, "GET /health": 0, "*": 1}},
		{Name: "requests", Capacity: 5, Refill: "5/1m", Counts: plans.CountsRequests},
	},
	Plans: []plans.Plan{{Name: "free", Rules: []string{"second", "hour", "units"}}, {Name: "llm", Rules: []string{"requests", "hour"}}, {Name: "search", Rules: []string{"units"}}},
	Keys: []plans.Key{
		{SHA256: digest("free-key"), Plan: "free"},
		{SHA256: digest("llm-key"), Plan: "llm"},
		{SHA256: digest("search-key"), Plan: "search"},
		{SHA256: digest("big-key"), Plan: "free", Overrides: []plans.Override{{Rule: "second", Capacity: ptr(40), Refill: "40/1s"}}},
		{SHA256: digest("stopped-key"), Plan: "free", State: plans.Suspended},
	},
}

func left(d *plans.Decision) (n []int64) {
	for i := range d.Limits {
		n = append(n, d.Limits[i].Remaining())
	}
	return n
}

func TestPlanAndRouteChoose(t *testing.T) {
	onEveryStore(t, func(t *testing.T, newWorld func(*testing.T, *plans.Definition) *world) {
		w := newWorld(t, three)
		for _, c := range []struct {
			r    plans.Request
			left []int64
		}{
			{plans.Request{Key: "free-key", Cost: 1}, []int64{9, 99, 49}},
			{plans.Request{Key: "free-key", Route: "GET /search", Cost: 1}, []int64{8, 98, 44}},
			{plans.Request{Key: "free-key", Route: "GET /search", Cost: 2}, []int64{6, 96, 34}},
			{plans.Request{Key: "free-key", Route: "GET /health", Cost: 1}, []int64{5, 95}},
			{plans.Request{Key: "free-key", Cost: 0}, []int64{5, 95, 34}}, // a look
			{plans.Request{Key: "big-key", Cost: 1}, []int64{39, 99, 49}},
			{plans.Request{Key: "big-key", Rules: []string{"second"}, Cost: 1}, []int64{38}},
			{plans.Request{Key: "nobody", Rules: []string{"second", "hour"}, Cost: 3}, []int64{7, 97}},
			{plans.Request{Key: "llm-key", Cost: 60}, []int64{4, 40}}, // requests count one, whatever it costs
		} {
			d := w.take(c.r)
			if !d.Allowed || !slices.Equal(left(d), c.left) {
				t.Errorf("%+v: allowed %v, left %v, want %v", c.r, d.Allowed, left(d), c.left)
			}
		}
		if d := w.take(plans.Request{Key: "search-key", Route: "GET /health", Cost: 1}); !d.Allowed || d.Reason != plans.ReasonUncounted || len(d.Limits) != 0 {
			t.Errorf("a route that nothing counts: %+v", d)
		}
		if d := w.take(plans.Request{Key: "stopped-key", Cost: 1}); d.Allowed || d.Reason != plans.ReasonSuspended {
			t.Errorf("a suspended key: %+v", d)
		}
	})
}

// Refused by one limit, the others are untouched, in every order.
func TestPromiseARefusalByOneRuleChargesNone(t *testing.T) {
	onEveryStore(t, func(t *testing.T, newWorld func(*testing.T, *plans.Definition) *world) {
		for _, order := range permutations("a", "b", "c", "tight") {
			w := newWorld(t, &plans.Definition{Rules: []plans.Rule{{Name: "a", Capacity: 10, Refill: "1/1h"}, {Name: "b", Capacity: 20, Refill: "1/1h"},
				{Name: "c", Capacity: 30, Refill: "30/1h", Routes: map[string]int64{"*": 3}}, {Name: "tight", Capacity: 2, Refill: "1/1h"}}})
			if n := w.allowed(7, order...); n != 2 {
				t.Errorf("%v: %d let through, not 2", order, n)
			}
			d := w.take(plans.Request{Key: "k", Rules: order, Cost: 0})
			for _, l := range d.Limits {
				if want := map[string]int64{"a": 8, "b": 18, "c": 24, "tight": 0}[l.Rule]; l.Remaining() != want {
					t.Errorf("%v: %s has %d left, not %d", order, l.Rule, l.Remaining(), want)
				}
			}
			if r := d.Limits[d.Binding].Rule; r != "tight" {
				t.Errorf("%v: %s binds", order, r)
			}
		}
	})
}

func permutations(words ...string) (all [][]string) {
	if len(words) == 1 {
		return [][]string{words}
	}
	for i, first := range words {
		rest := append(slices.Clone(words[:i]), words[i+1:]...)
		for _, p := range permutations(rest...) {
			all = append(all, append([]string{first}, p...))
		}
	}
	return all
}

func TestSleepingExactlyRetryAfterIsEnough(t *testing.T) {
	onEveryStore(t, func(t *testing.T, newWorld func(*testing.T, *plans.Definition) *world) {
		for _, c := range []struct {
			capacity int64
			refill   string
			cost     int64
		}{{10, "10/1h", 1}, {10, "7/13s", 4}, {3, "1/1us", 3}, {1000, "999/1h", 77}, {5, "3/1ms", 5}} {
			w := newWorld(t, one(c.capacity, c.refill))
			for w.take(plans.Request{Key: "k", Rules: []string{"r"}, Cost: c.cost}).Allowed {
			}
			d := w.take(plans.Request{Key: "k", Rules: []string{"r"}, Cost: c.cost})
			if d.RetryAfter <= 0 {
				t.Fatalf("%+v: retry after %s", c, d.RetryAfter)
			}
			w.pass(d.RetryAfter - time.Microsecond)
			if w.take(plans.Request{Key: "k", Rules: []string{"r"}, Cost: c.cost}).Allowed {
				t.Errorf("%+v: a microsecond sooner would do", c)
			}
			w.pass(time.Microsecond)
			if !w.take(plans.Request{Key: "k", Rules: []string{"r"}, Cost: c.cost}).Allowed {
				t.Errorf("%+v: refused after %s", c, d.RetryAfter)
			}
		}
	})
}

func TestACostAboveCapacityIsImpossible(t *testing.T) {
	onEveryStore(t, func(t *testing.T, newWorld func(*testing.T, *plans.Definition) *world) {
		w := newWorld(t, one(10, "10/1h"))
		d := w.take(plans.Request{Key: "k", Rules: []string{"r"}, Cost: 11})
		if d.Allowed || !d.Impossible || d.RetryAfter != 0 {
			t.Errorf("%+v", d)
		}
		if n := w.allowed(11, "r"); n != 10 {
			t.Errorf("%d are left, not 10", n)
		}
	})
}

// A rule that changes while buckets live keeps the spent fraction.
func TestChangesOfARuleOnALiveBucket(t *testing.T) {
	onEveryStore(t, func(t *testing.T, newWorld func(*testing.T, *plans.Definition) *world) {
		ds := func(d ...*plans.Definition) []*plans.Definition { return d }
		for _, c := range []struct {
			name  string
			steps []*plans.Definition // the first is spent from, a look is made under each other
			spend int
			wait  time.Duration
			want  int // of 1001 takes at once, after the changes and the wait
		}{
			{"upgrade: usable within a second", ds(one(10, "10/1h"), one(1000, "1000/1s")), 10, time.Second, 1000},
			{"upgrade at once gives no more than the spent fraction leaves", ds(one(10, "10/1h"), one(100, "100/1h")), 5, 0, 50},
			{"an upgrade is no fresh burst", ds(one(10, "10/1h"), one(100, "100/1h")), 10, 0, 0},
			{"downgrade: no fresh burst", ds(one(1000, "1000/1s"), one(10, "10/1h")), 1000, 0, 0},
			{"downgrade: refills at the new rate", ds(one(1000, "1000/1s"), one(10, "10/1h")), 1000, 12 * time.Minute, 2},
			{"downgrade of a half spent one", ds(one(1000, "1/24h"), one(10, "10/1h")), 500, 0, 5},
			{"shrink: never negative", ds(one(100, "1/24h"), one(10, "1/24h")), 60, 0, 4},
			{"shrink and grow back: as before", ds(one(100, "1/24h"), one(10, "1/24h"), one(100, "1/24h")), 60, 0, 40},
			{"shrink to what half a token is left of, and grow back: as before", ds(one(100, "1/24h"), one(7, "1/24h"), one(100, "1/24h")), 50, 0, 50},
			{"grow and shrink back: as before", ds(one(10, "1/24h"), one(1000, "1/24h"), one(10, "1/24h")), 7, 0, 3},
			{"the refill alone", ds(one(10, "1/24h"), one(10, "1/1s")), 10, 3 * time.Second, 3},
			{"the refill alone, slower: what came back stays", ds(one(10, "1/1s"), one(10, "1/24h")), 10, 0, 0},
			{"a rule away and back again", ds(one(10, "1/24h"), &plans.Definition{Rules: []plans.Rule{{Name: "other", Capacity: 5, Refill: "1/24h"}}}, one(10, "1/24h")), 6, 0, 4},
		} {
			w := newWorld(t, c.steps[0])
			if n := w.allowed(c.spend, "r"); n != c.spend {
				t.Fatalf("%s: spent %d of %d", c.name, n, c.spend)
			}
			for _, d := range c.steps[1:] {
				w.load(d)
				w.take(plans.Request{Key: "k", Rules: []string{d.Rules[0].Name}, Cost: 0})
			}
			w.pass(c.wait)
			if n := w.allowed(1001, "r"); n != c.want {
				t.Errorf("%s: %d let through, not %d", c.name, n, c.want)
			}
		}
	})
}

func TestFlappingARuleGainsNothing(t *testing.T) {
	onEveryStore(t, func(t *testing.T, newWorld func(*testing.T, *plans.Definition) *world) {
		w := newWorld(t, one(100, "1/24h"))
		total := w.allowed(60, "r")
		for range 50 {
			w.load(one(7, "1/24h"))
			w.take(plans.Request{Key: "k", Rules: []string{"r"}, Cost: 0})
			total += w.allowed(1, "r")
			w.load(one(100, "1/24h"))
			total += w.allowed(1, "r")
		}
		total += w.allowed(200, "r")
		if total > 100 {
			t.Errorf("%d of 100 were let through", total)
		}
	})
}

func TestARequestIdChargesOnce(t *testing.T) {
	onEveryStore(t, func(t *testing.T, newWorld func(*testing.T, *plans.Definition) *world) {
		w := newWorld(t, one(10, "1/24h"))
		r := plans.Request{Key: "k", Rules: []string{"r"}, Cost: 3, RequestID: "a"}
		first := w.take(r)
		w.pass(plans.RequestMemory - time.Microsecond)
		again := w.take(r)
		if !again.Replayed || !again.Allowed || first.Limits[0].Left != again.Limits[0].Left || first.At != again.At {
			t.Errorf("first %+v\nagain %+v", first, again)
		}
		other := r
		other.Cost = 4
		if _, err := w.Take(t.Context(), &other); !errors.Is(err, plans.ErrConflict) {
			t.Errorf("another body: %v", err)
		}
		w.pass(time.Microsecond)
		if d := w.take(r); d.Replayed || !d.Allowed || d.Limits[0].Remaining() != 4 {
			t.Errorf("after its time: %+v", d)
		}
		full := plans.Request{Key: "k", Rules: []string{"r"}, Cost: 5, RequestID: "b"}
		if d := w.take(full); d.Allowed {
			t.Fatal("5 of 4")
		}
		w.load(one(100, "1/24h"))
		if d := w.take(full); !d.Allowed { // refusals are judged anew
			t.Errorf("after an upgrade: %+v", d)
		}
	})
}

func TestReserveAndSettle(t *testing.T) {
	onEveryStore(t, func(t *testing.T, newWorld func(*testing.T, *plans.Definition) *world) {
		for _, c := range []struct {
			name     string
			estimate int64
			wait     time.Duration
			cost     int64
			settled  bool
			left     int64 // of 100, refilled by 1 a second
		}{
			{"as estimated", 40, 0, 40, true, 60},
			{"less: the rest comes back", 40, 0, 10, true, 90},
			{"less, later: but what refill has repaid", 40, 10 * time.Second, 10, true, 90},
			{"nothing: but what refill has repaid", 40, 10 * time.Second, 0, true, 100},
			{"more is charged", 40, 0, 70, true, 30},
			{"more than there is empties it", 40, 0, 5000, true, 0},
			{"too late: as estimated", 40, plans.ReservationExpiry, 0, false, 100},
		} {
			w := newWorld(t, one(100, "1/1s"))
			r := plans.Request{Key: "k", Rules: []string{"r"}, Cost: c.estimate, Reserve: true}
			d := w.take(r)
			w.pass(c.wait)
			s, err := w.Settle(t.Context(), d.Reservation, c.cost)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if s.Settled != c.settled || s.Limits[0].Remaining() != c.left {
				t.Errorf("%s: %+v, %d left, want %d", c.name, s, s.Limits[0].Remaining(), c.left)
			}
			before := w.take(plans.Request{Key: "k", Rules: []string{"r"}}).Limits[0].Left
			again, err := w.Settle(t.Context(), d.Reservation, 0)
			if err != nil || again.Settled || again.Duplicate != c.settled {
				t.Errorf("%s, twice: %+v, %v", c.name, again, err)
			}
			if after := w.take(plans.Request{Key: "k", Rules: []string{"r"}}).Limits[0].Left; after != before {
				t.Errorf("%s: settling twice changed %d to %d", c.name, before, after)
			}
		}
		w := newWorld(t, one(100, "1/1s"))
		if _, err := w.Settle(t.Context(), "bent", 1); !isFault(err, "reservation") {
			t.Errorf("a bent reservation: %v", err)
		}
		d := w.take(plans.Request{Key: "k", Rules: []string{"r"}, Cost: 1, Reserve: true})
		if _, err := w.Settle(t.Context(), d.Reservation, -1); !isFault(err, "cost") {
			t.Errorf("a negative cost: %v", err)
		}
	})
}

// Whoever reserves for nothing must not save up a second burst.
func TestReservingForNothingSavesUpNothing(t *testing.T) {
	onEveryStore(t, func(t *testing.T, newWorld func(*testing.T, *plans.Definition) *world) {
		w := newWorld(t, one(30, "1/1s"))
		d := w.take(plans.Request{Key: "k", Rules: []string{"r"}, Cost: 30, Reserve: true})
		w.pass(30 * time.Second) // full again
		if n := w.allowed(31, "r"); n != 30 {
			t.Fatal(n)
		}
		if _, err := w.Settle(t.Context(), d.Reservation, 0); err != nil {
			t.Fatal(err)
		}
		if n := w.allowed(30, "r"); n != 0 {
			t.Errorf("a second burst of %d", n)
		}
	})
}

// slow answers late, as a store over a network does.
type slow struct{ plans.Store }

func (s slow) Take(ctx ctx, a *keys.Ask, ans *keys.Answer) error {
	time.Sleep(3 * time.Millisecond)
	return s.Store.Take(ctx, a, ans)
}

func TestTwoHundredParallelTakesOnABurstOfTen(t *testing.T) {
	onEveryStore(t, func(t *testing.T, newWorld func(*testing.T, *plans.Definition) *world) {
		w := newWorld(t, one(10, "1/24h"))
		w.over(slow{w.store}, one(10, "1/24h"))
		var mu sync.Mutex
		var wg sync.WaitGroup
		allowed := 0
		for range 200 {
			wg.Go(func() {
				d, err := w.Take(t.Context(), &plans.Request{Key: "k", Rules: []string{"r"}, Cost: 1})
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
				} else if d.Allowed {
					allowed++
				}
			})
		}
		wg.Wait()
		if allowed != 10 {
			t.Errorf("%d were let through", allowed)
		}
	})
}

func TestBadRequestsNameTheirField(t *testing.T) {
	w := newWorld(t, three)
	for field, r := range map[string]plans.Request{
		"key":        {Rules: []string{"hour"}, Cost: 1},
		"cost":       {Key: "k", Rules: []string{"hour"}, Cost: -1},
		"rules[1]":   {Key: "k", Rules: []string{"hour", "hour"}, Cost: 1},
		"route":      {Key: "k", Rules: []string{"hour"}, Cost: 1, Route: string(make([]byte, plans.MaxRoute+1))},
		"request_id": {Key: "k", Rules: []string{"hour"}, Cost: 1, RequestID: string(make([]byte, plans.MaxRequestID+1))},
	} {
		if _, err := w.Take(t.Context(), &r); !isFault(err, field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := w.Take(t.Context(), &plans.Request{Key: "unregistered", Cost: 1}); !isFault(err, "key") {
		t.Errorf("no rule and no plan: %v", err)
	}
	if _, err := w.Take(t.Context(), &plans.Request{Key: "k", Rules: []string{"none"}, Cost: 1}); !errors.Is(err, plans.ErrUnknownRule) {
		t.Errorf("an unknown rule: %v", err)
	}
}

// The longest reservation fits what seals take.
func TestTheLongestReservationFits(t *testing.T) {
	var d plans.Definition
	var names []string
	for i := range plans.MaxRules {
		r := plans.Rule{Name: strings.Repeat("x", plans.MaxName-2) + fmt.Sprintf("%02d", i), Capacity: 1 << 40, Refill: "1/4096us", Routes: map[string]int64{"*": 1 << 39}}
		d.Rules, names = append(d.Rules, r), append(names, r.Name)
	}
	w := newWorld(t, &d)
	r := w.take(plans.Request{Key: "k", Rules: names, Route: strings.Repeat("r", plans.MaxRoute), Cost: 1, Reserve: true})
	if n := len(r.Reservation) * 4 / 3; n > 3900 {
		t.Errorf("%d characters", n)
	}
	if s, err := w.Settle(t.Context(), r.Reservation, 0); err != nil || !s.Settled || s.Limits[15].Remaining() != 1<<40 {
		t.Errorf("%+v, %v", s, err)
	}
}

// Whoever settles at once, from several places, settles once.
func TestSettlingInParallelSettlesOnce(t *testing.T) {
	onEveryStore(t, func(t *testing.T, newWorld func(*testing.T, *plans.Definition) *world) {
		w := newWorld(t, one(100, "1/24h"))
		r := w.take(plans.Request{Key: "k", Rules: []string{"r"}, Cost: 50, Reserve: true})
		var mu sync.Mutex
		var wg sync.WaitGroup
		settled, duplicate := 0, 0
		for n := range 50 {
			wg.Go(func() {
				s, err := w.Settle(t.Context(), r.Reservation, 30)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err != nil:
					t.Error(n, err)
				case s.Settled:
					settled++
				case s.Duplicate:
					duplicate++
				}
			})
		}
		wg.Wait()
		if left := w.take(plans.Request{Key: "k", Rules: []string{"r"}}).Limits[0].Remaining(); settled != 1 || duplicate != 49 || left != 70 {
			t.Errorf("settled %d times, %d duplicates, %d left", settled, duplicate, left)
		}
	})
}

// A refund is given once, capped, and only where the rule says so.
func TestARefundIsGivenOnce(t *testing.T) {
	onEveryStore(t, func(t *testing.T, newWorld func(*testing.T, *plans.Definition) *world) {
		rules := []plans.Rule{{Name: "server", Capacity: 10, Refill: "1/24h"}, {Name: "all", Capacity: 10, Refill: "1/24h", Refund: plans.RefundAll}, {Name: "none", Capacity: 10, Refill: "1/24h", Refund: plans.RefundNone}}
		for status, want := range map[int][]int64{200: {6, 6, 6}, 404: {6, 8, 6}, 429: {6, 8, 6}, 500: {8, 8, 6}, 503: {8, 8, 6}} {
			w := newWorld(t, &plans.Definition{Rules: rules})
			r := plans.Request{Key: "k", Rules: []string{"server", "all", "none"}, Cost: 2}
			w.take(r)
			d := w.take(r)
			for range 3 {
				if err := w.Refund(t.Context(), d, status); err != nil {
					t.Fatal(err)
				}
			}
			r.Cost = 0
			if got := left(w.take(r)); !slices.Equal(got, want) {
				t.Errorf("after %d: %v, want %v", status, got, want)
			}
		}
	})
}

// One request id, asked for at once: one charge, one answer.
func TestARequestIdInParallelChargesOnce(t *testing.T) {
	onEveryStore(t, func(t *testing.T, newWorld func(*testing.T, *plans.Definition) *world) {
		w := newWorld(t, one(100, "1/24h"))
		var wg sync.WaitGroup
		var mu sync.Mutex
		fresh := 0
		for range 50 {
			wg.Go(func() {
				d, err := w.Take(t.Context(), &plans.Request{Key: "k", Rules: []string{"r"}, Cost: 7, RequestID: "once"})
				mu.Lock()
				defer mu.Unlock()
				if err != nil || !d.Allowed || d.Limits[0].Remaining() != 93 {
					t.Errorf("%+v, %v", d, err)
				} else if !d.Replayed {
					fresh++
				}
			})
		}
		wg.Wait()
		if left := w.take(plans.Request{Key: "k", Rules: []string{"r"}}).Limits[0].Remaining(); fresh != 1 || left != 93 {
			t.Errorf("charged %d times, %d left", fresh, left)
		}
	})
}

// A key that loses its own numbers has its plan's, with what it has spent.
func TestAnOverrideThatIsTakenAwayIsGone(t *testing.T) {
	onEveryStore(t, func(t *testing.T, newWorld func(*testing.T, *plans.Definition) *world) {
		d := func(own ...plans.Override) *plans.Definition {
			return &plans.Definition{Rules: one(10, "1/24h").Rules, Plans: []plans.Plan{{Name: "p", Rules: []string{"r"}}},
				Keys: []plans.Key{{SHA256: digest("k"), Plan: "p", Overrides: own}}}
		}
		w := newWorld(t, d(plans.Override{Rule: "r", Capacity: ptr(100)}))
		for range 50 {
			w.take(plans.Request{Key: "k", Cost: 1})
		}
		w.load(d())
		if l := w.take(plans.Request{Key: "k"}).Limits[0]; l.Limit.Capacity != 10 || l.Remaining() != 5 {
			t.Errorf("%+v: half of it is spent", l)
		}
	})
}

// Numbers at the ends of what is exact are kept to the token and the microsecond.
func TestHugeNumbersAreExact(t *testing.T) {
	onEveryStore(t, func(t *testing.T, newWorld func(*testing.T, *plans.Definition) *world) {
		for _, c := range []struct {
			capacity, cost int64
			refill         string
			wait           time.Duration
		}{
			{keys.MaxExact - 5_000_000_000, keys.MaxExact - 5_000_000_000, "5000000000/1us", time.Second + 801_439*time.Microsecond}, // more a second than there are nanoseconds
			{1, 1, "1/8760h", 8760 * time.Hour},
			{25, 25, "1/100h", 2500 * time.Hour},
		} {
			w := newWorld(t, one(c.capacity, c.refill))
			r := plans.Request{Key: "k", Rules: []string{"r"}, Cost: c.cost}
			if d := w.take(r); !d.Allowed || d.Limits[0].Left != 0 {
				t.Errorf("%+v: %+v", c, d)
			}
			d := w.take(r)
			if d.Allowed || d.RetryAfter != c.wait {
				t.Errorf("%+v: allowed %v, retry after %s", c, d.Allowed, d.RetryAfter)
			}
			w.pass(d.RetryAfter - time.Microsecond)
			if w.take(r).Allowed {
				t.Errorf("%+v: a microsecond early", c)
			}
			w.pass(time.Microsecond)
			if !w.take(r).Allowed {
				t.Errorf("%+v: refused after Retry-After", c)
			}
		}
	})
}
