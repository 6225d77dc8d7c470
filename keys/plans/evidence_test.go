package plans_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/plans"
)

// court is instances that share a store and a trail, on an owned clock.
type court struct {
	*world
	trail    keys.Trail
	takers   []*plans.Taker
	evidence []*plans.Evidence
	errs     []error
}

func newCourt(t *testing.T, instances int, trail func(now func() int64) keys.Trail, d *plans.Definition) *court {
	c := &court{world: newWorld(t, d)}
	now := func() int64 { return c.now }
	c.trail = trail(now)
	for i := range instances {
		e := plans.NewEvidence(plans.EvidenceConfig{Trail: c.trail, Instance: [8]byte{byte(i + 1)}, Now: now, Unsent: 1 << 16,
			OnError: func(err error) { c.errs = append(c.errs, err) }})
		tk := plans.NewTaker(plans.Config{Store: c.store, Sealer: plainSealer{}, Slots: plainSealer{}, Hash: hash, Evidence: e, Instance: [8]byte{byte(i + 1)}, Now: now})
		b, faults := plans.Compile(d, "7", nil)
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		tk.Swap(b)
		c.takers, c.evidence = append(c.takers, tk), append(c.evidence, e)
	}
	return c
}

func memory(now func() int64) keys.Trail { return keys.NewMemoryTrail(16<<20, now) }

func (c *court) at(i int, r plans.Request) *plans.Decision {
	c.t.Helper()
	d, err := c.takers[i].Take(c.t.Context(), &r)
	if err != nil {
		c.t.Fatal(err)
	}
	return d
}

func (c *court) flush() {
	for _, e := range c.evidence {
		_ = e.Flush(context.Background())
	}
}

// report is what instance 0 says, once the others had time to tell.
func (c *court) report(key string, since time.Duration) *plans.Report {
	c.t.Helper()
	for range 5 { // as long as sums may wait
		c.flush()
	}
	c.flush()
	r, err := c.evidence[0].Report(c.t.Context(), hash(digest(key)), time.UnixMicro(c.now).Add(-since))
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

// "We sent 540 and got 429s": what the evidence says is what happened, to the
// token and the microsecond, whichever instance is asked.
func TestEvidenceDefendsA429(t *testing.T) {
	for _, instances := range []int{1, 3} {
		c := newCourt(t, instances, memory, &plans.Definition{Rules: []plans.Rule{{Name: "burst", Capacity: 50, Refill: "10/1s"}, {Name: "daily", Capacity: 10_000, Refill: "1/1h"}}})
		allowed, refused := 0, 0
		var first, last *plans.Decision
		for n := range 540 { // 54 s
			d := c.at(n%instances, plans.Request{Key: "acme", Rules: []string{"burst", "daily"}, Route: "GET /x", Cost: 1})
			switch {
			case d.Allowed:
				allowed++
			case first == nil:
				first = d
				fallthrough
			default:
				refused++
				last = d
			}
			c.at(0, plans.Request{Key: "other", Rules: []string{"burst"}, Cost: 1})
			c.pass(80 * time.Millisecond) // 12.5 a second
			if n%12 == 0 {
				c.flush()
			}
		}
		if refused < 10 {
			t.Fatalf("only %d refused: the test shows nothing", refused)
		}
		r := c.report("acme", 10*time.Minute)
		if !r.Complete || r.Asked != 540 || r.Allowed != int64(allowed) || r.Refused != int64(refused) || r.Cost != int64(allowed) || r.Degraded+r.Replayed+r.Settled != 0 {
			t.Errorf("%d instances: %+v, want %d allowed, %d refused", instances, r.Decided, allowed, refused)
		}
		b := r.Rules[0]
		if b.Rule != "burst" || b.Taken != int64(allowed) || b.Refused != int64(refused) || !slices.Equal(b.Versions, []string{"7"}) || b.Capacity != 50 {
			t.Errorf("%d instances: rule %+v", instances, b)
		}
		// It was refused, so all that was to be had was had, but what refills to the end.
		if spare := b.Had - b.Taken; spare < 0 || spare > 1 {
			t.Errorf("%d instances: %d taken of %d to be had", instances, b.Taken, b.Had)
		}
		if d := r.Rules[1]; d.Rule != "daily" || d.Taken != int64(allowed) || d.Refused != 0 {
			t.Errorf("%d instances: rule %+v", instances, d)
		}
		if len(r.Refusals) != refused {
			t.Fatalf("%d instances: %d refusals, not %d", instances, len(r.Refusals), refused)
		}
		for i, d := range map[int]*plans.Decision{0: first, refused - 1: last} {
			x := r.Refusals[i]
			if !x.At.Equal(d.At) || x.Rule != "burst" || x.Remaining != 0 || x.Cost != 1 || x.RetryAfterMS != (d.RetryAfter+time.Millisecond-1).Milliseconds() || x.Version != "7" || x.Degraded || x.Route != "GET /x" ||
				len(x.Limits) != 2 || !x.Limits[0].Short || x.Limits[1].Short || x.Limits[1].Remaining != d.Limits[1].Remaining() {
				t.Errorf("%d instances: refusal %d: %+v, decided %+v", instances, i, x, d)
			}
		}
		sum := plans.Decided{}
		for i, s := range r.Seconds {
			sum.Asked, sum.Allowed, sum.Cost = sum.Asked+s.Asked, sum.Allowed+s.Allowed, sum.Cost+s.Cost
			if i > 0 && !s.At.After(r.Seconds[i-1].At) {
				t.Errorf("%d instances: second %s after %s", instances, s.At, r.Seconds[i-1].At)
			}
		}
		if len(r.Seconds) != 44 || sum.Asked != 540 || sum.Allowed != int64(allowed) { // 540 x 80 ms
			t.Errorf("%d instances: %d seconds, %+v", instances, len(r.Seconds), sum)
		}
	}
}

// One row a second and key, however often the clock of flushes falls into it.
func TestEvidenceIsOneRowASecond(t *testing.T) {
	c := newCourt(t, 1, memory, one(1<<20, "1/1h"))
	for range 1000 {
		c.at(0, plans.Request{Key: "k", Rules: []string{"r"}, Cost: 1})
		c.pass(10 * time.Millisecond)
		if c.now%keys.Second == 700_000 {
			c.flush()
		}
	}
	for range 6 {
		c.flush()
	}
	rows, _, err := c.trail.Rows(t.Context(), hash(digest("k")), 0)
	if err != nil || len(rows) != 10 {
		t.Errorf("%d rows of 10 s (%v)", len(rows), err)
	}
}

// The ring holds the last 1,000; the sums know of all.
func TestEvidenceKeepsTheLastThousandRefusals(t *testing.T) {
	for _, every := range []int{1700, 10_000} { // flushed between, or only at the end
		c := newCourt(t, 1, memory, one(1, "1/24h"))
		for n := range 5000 {
			c.at(0, plans.Request{Key: "k", Rules: []string{"r"}, Cost: 1, Route: fmt.Sprint(n)})
			c.pass(time.Millisecond)
			if n%every == every-1 {
				c.flush()
			}
		}
		r := c.report("k", time.Hour)
		if r.Refused != 4999 || len(r.Refusals) != keys.TrailRefusals || r.Refusals[0].Route != "4000" || r.Refusals[999].Route != "4999" {
			t.Errorf("flushed after %d: %d refused, %d kept from %s to %s", every, r.Refused, len(r.Refusals), r.Refusals[0].Route, r.Refusals[len(r.Refusals)-1].Route)
		}
	}
}

// Whatever is not a plain take is told apart.
func TestEvidenceTellsDecisionsApart(t *testing.T) {
	c := newCourt(t, 1, memory, three)
	c.at(0, plans.Request{Key: "stopped-key", Cost: 1})
	c.at(0, plans.Request{Key: "search-key", Route: "GET /health", Cost: 1}) // counted by no rule
	c.at(0, plans.Request{Key: "free-key", Cost: 0})                         // a look
	for range 2 {
		c.at(0, plans.Request{Key: "free-key", Cost: 2, RequestID: "once"})
	}
	c.at(0, plans.Request{Key: "free-key", Cost: 11})
	res := c.at(0, plans.Request{Key: "free-key", Cost: 5, Reserve: true})
	if _, err := c.takers[0].Settle(t.Context(), res.Reservation, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := c.takers[0].Settle(t.Context(), res.Reservation, 1); err != nil { // twice
		t.Fatal(err)
	}
	r := c.report("free-key", time.Minute)
	if r.Decided != (plans.Decided{Asked: 4, Allowed: 2, Refused: 1, Replayed: 1, Settled: 1, Cost: 7}) {
		t.Errorf("%+v", r.Decided)
	}
	if y := r.Rules[0]; y.Taken != 3 || y.Rule != "second" {
		t.Errorf("%+v", y)
	}
	if len(r.Refusals) != 1 || r.Refusals[0].Reason != plans.ReasonImpossible || r.Refusals[0].RetryAfterMS != 0 || r.Refusals[0].Cost != 11 {
		t.Errorf("%+v", r.Refusals)
	}
	if r := c.report("stopped-key", time.Minute); r.Refused != 1 || r.Refusals[0].Reason != plans.ReasonSuspended || len(r.Rules) != 0 {
		t.Errorf("%+v", r)
	}
	if r := c.report("search-key", time.Minute); r.Allowed != 1 || len(r.Rules) != 0 {
		t.Errorf("%+v", r)
	}
	if r := c.report("nobody", time.Minute); r.Asked != 0 || !r.Complete || len(r.Seconds)+len(r.Refusals) != 0 {
		t.Errorf("%+v", r)
	}
}

// brokenTrail fails in both forms: it did not happen, and it happened but nobody
// was told.
type brokenTrail struct {
	keys.Trail
	before, after bool
}

var errTrail = errors.New("the trail is gone")

func (b *brokenTrail) Append(ctx context.Context, rows []keys.TrailRow) ([]keys.TrailRow, error) {
	if b.before {
		return rows, errTrail
	}
	if left, err := b.Trail.Append(ctx, rows); err != nil {
		return left, err
	}
	if b.after {
		return rows, errTrail
	}
	return nil, nil
}

func (b *brokenTrail) Rows(ctx context.Context, a keys.Account, since int64) ([]keys.TrailRow, int64, error) {
	if b.before || b.after {
		return nil, 0, errTrail
	}
	return b.Trail.Rows(ctx, a, since)
}

func TestEvidenceOutlivesAnOutageAndCountsNothingTwice(t *testing.T) {
	for _, form := range []string{"did not happen", "happened, and the reply was lost"} {
		broken := &brokenTrail{}
		c := newCourt(t, 1, func(now func() int64) keys.Trail { broken.Trail = memory(now); return broken }, one(10, "1/24h"))
		take := func(n int) {
			for range n {
				c.at(0, plans.Request{Key: "k", Rules: []string{"r"}, Cost: 1})
				c.pass(300 * time.Millisecond)
			}
		}
		take(5)
		c.flush()
		broken.before, broken.after = form == "did not happen", form != "did not happen"
		take(3)
		c.flush()
		take(7)
		r := c.report("k", time.Minute)
		if r.Complete || r.Missing == "" {
			t.Errorf("%s: during it, the report is said to be complete", form)
		}
		if r.Refused != 5 || len(r.Refusals) != 5 { // of this instance all that was not handed over
			t.Errorf("%s: during it %+v", form, r.Decided)
		}
		if len(c.errs) == 0 || !errors.Is(c.errs[0], errTrail) {
			t.Errorf("%s: told %v", form, c.errs)
		}
		broken.before, broken.after = false, false
		r = c.report("k", time.Minute)
		if !r.Complete || r.Asked != 15 || r.Allowed != 10 || r.Refused != 5 || len(r.Refusals) != 5 || r.Rules[0].Taken != 10 {
			t.Errorf("%s: after it %+v, %d refusals", form, r.Decided, len(r.Refusals))
		}
		if s := c.evidence[0].Stats(); s.Unsent != 0 || s.Lost != 0 {
			t.Errorf("%s: %+v", form, s)
		}
	}
}

func TestEvidenceThatCannotBeHandedOverIsBounded(t *testing.T) {
	broken := &brokenTrail{before: true}
	c := newCourt(t, 1, func(now func() int64) keys.Trail { broken.Trail = memory(now); return broken }, one(1, "1/24h"))
	for n := range 2000 {
		c.at(0, plans.Request{Key: fmt.Sprint("k", n), Rules: []string{"r"}, Cost: 1})
		if n%100 == 0 {
			c.flush()
		}
	}
	for range 6 {
		c.flush()
	}
	s := c.evidence[0].Stats()
	if s.Unsent > 1<<16/keys.TrailOverhead || s.Lost == 0 || s.Unsent+int(s.Lost) != 2000 {
		t.Errorf("%+v", s)
	}
	if r := c.report("k1999", time.Minute); r.Asked != 1 {
		t.Errorf("of the latest, %+v", r.Decided)
	}
}

// Over any history the report is a plain count of what was decided, and nobody
// took more than there was.
func TestEvidenceAddsUp(t *testing.T) {
	for seed := range uint64(30) {
		rnd := rand.New(rand.NewPCG(seed, 8))
		c := newCourt(t, 3, func(now func() int64) keys.Trail { return &flakyTrail{memory(now), rnd} }, three)
		var want plans.Decided
		taken := map[string]int64{}
		refusals := 0
		for range 400 {
			i := rnd.IntN(3)
			r := plans.Request{Key: "free-key", Cost: rnd.Int64N(12), Route: []string{"", "GET /search", "GET /health"}[rnd.IntN(3)]}
			d := c.at(i, r)
			if r.Cost > 0 {
				want.Asked++
				if d.Allowed {
					want.Allowed++
					want.Cost += r.Cost
					for _, l := range d.Limits {
						taken[l.Rule] += l.Cost
					}
				} else {
					want.Refused++
					refusals++
				}
			}
			c.pass(time.Duration(rnd.IntN(400)) * time.Millisecond)
			if rnd.IntN(50) == 0 {
				c.pass(-2 * time.Second) // a clock that steps back
			}
			if rnd.IntN(20) == 0 {
				_ = c.evidence[i].Flush(t.Context())
			}
		}
		for i := range c.evidence {
			c.evidence[i].Report(t.Context(), keys.Account{}, time.UnixMicro(c.now)) // has it hand over what it can
		}
		var r *plans.Report
		for range 100 {
			if r = c.report("free-key", time.Hour); r.Complete && c.unsent() == 0 {
				break
			}
		}
		if r.Decided != want || len(r.Refusals) != refusals || !r.Complete {
			t.Errorf("seed %d: %+v and %d refusals, not %+v and %d", seed, r.Decided, len(r.Refusals), want, refusals)
		}
		for _, y := range r.Rules {
			if y.Taken != taken[y.Rule] || y.Taken > y.Had {
				t.Errorf("seed %d: %s took %d of %d, not %d", seed, y.Rule, y.Taken, y.Had, taken[y.Rule])
			}
		}
	}
}

// What somebody else has written to the trail is skipped.
func TestEvidenceSkipsWhatIsNoRow(t *testing.T) {
	c := newCourt(t, 1, memory, three)
	for range 60 {
		c.at(0, plans.Request{Key: "free-key", Cost: 1, Route: "GET /search"})
	}
	r := c.report("free-key", time.Minute)
	rows, _, _ := c.trail.Rows(t.Context(), hash(digest("free-key")), 0)
	rnd := rand.New(rand.NewPCG(1, 1))
	for _, x := range rows {
		for range 15 {
			bent := x
			bent.Data = append([]byte{byte(rnd.IntN(3))}, x.Data[1:1+rnd.IntN(len(x.Data)-1)]...)
			bent.Data[rnd.IntN(len(bent.Data))] ^= byte(1 + rnd.IntN(255))
			bent.At += rnd.Int64N(1000) - 500
			if _, err := c.trail.Append(t.Context(), []keys.TrailRow{bent}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := c.report("free-key", time.Minute); len(got.Refusals) < len(r.Refusals) {
		t.Errorf("%d refusals of %d are left", len(got.Refusals), len(r.Refusals))
	}
}

func BenchmarkEvidence(b *testing.B) {
	e := plans.NewEvidence(plans.EvidenceConfig{Trail: keys.NewMemoryTrail(64<<20, nil)})
	w := plans.NewTaker(plans.Config{Store: keys.NewMemory(keys.MemoryConfig{}), Sealer: plainSealer{}, Slots: plainSealer{}, Hash: hash})
	book, _ := plans.Compile(three, "1", nil)
	w.Swap(book)
	for name, r := range map[string]*plans.Request{"allowed": {Key: "free-key", Cost: 1}, "refused": {Key: "k", Rules: []string{"second"}, Cost: 11}} {
		d, err := w.Take(b.Context(), r)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				e.Record(r, d)
			}
		})
	}
}

func TestExplainFindsTheKeyThatIsMeant(t *testing.T) {
	d := &plans.Definition{Rules: three.Rules, Plans: three.Plans, Keys: []plans.Key{
		{SHA256: digest("acme-key"), Name: "acme", Plan: "free"}, {SHA256: digest("twice-1"), Name: "twice", Plan: "free"}, {SHA256: digest("twice-2"), Name: "twice", Plan: "free"}}}
	c := newCourt(t, 1, memory, d)
	c.at(0, plans.Request{Key: "acme-key", Cost: 1})
	c.at(0, plans.Request{Key: "stranger", Rules: []string{"hour"}, Cost: 1})
	for _, q := range []plans.ExplainRequest{{Key: "acme-key"}, {SHA256: digest("acme-key").String(), Since: "6h"}, {Name: "acme", Since: "1s"}} {
		a, err := c.takers[0].Explain(t.Context(), &q)
		if err != nil || a.Name != "acme" || a.Plan != "free" || a.State != plans.Active || !a.Registered || a.SHA256 != digest("acme-key") || a.Allowed != 1 || a.Version != "7" {
			t.Errorf("%+v: %+v, %v", q, a, err)
		}
	}
	if a, err := c.takers[0].Explain(t.Context(), &plans.ExplainRequest{Key: "stranger"}); err != nil || a.Registered || a.Allowed != 1 {
		t.Errorf("%+v, %v", a, err)
	}
	for field, q := range map[string]plans.ExplainRequest{
		"key": {}, "sha256": {SHA256: "12"}, "name": {Name: "nobody"}, "since": {Key: "k", Since: "10"},
	} {
		if _, err := c.takers[0].Explain(t.Context(), &q); !isFault(err, field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	for field, q := range map[string]plans.ExplainRequest{
		"name": {Name: "twice"}, "key": {Key: string(make([]byte, plans.MaxKey+1))}, "since": {Key: "k", Since: "7h"}, "sha256": {Key: "k", SHA256: digest("k").String()},
	} {
		if _, err := c.takers[0].Explain(t.Context(), &q); !isFault(err, field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	if a, err := c.Explain(t.Context(), &plans.ExplainRequest{Key: "k"}); err != nil || a.Complete || a.Missing == "" { // a Taker that keeps none
		t.Errorf("%+v, %v", a, err)
	}
}

// Sums of a key that asks all the time are handed over together; a refusal at once.
func TestSumsWaitForCompanyAndRefusalsDoNot(t *testing.T) {
	counted := &countingTrail{}
	c := newCourt(t, 1, func(now func() int64) keys.Trail { counted.Trail = memory(now); return counted }, one(100, "1/24h"))
	second := func(cost int64) int {
		c.at(0, plans.Request{Key: "k", Rules: []string{"r"}, Cost: cost})
		c.pass(time.Second)
		before := counted.calls
		c.flush()
		return counted.calls - before
	}
	calls := 0
	for range 50 {
		calls += second(1)
	}
	if calls < 9 || calls > 11 {
		t.Errorf("50 s of takes were handed over in %d calls", calls)
	}
	if n := second(60); n != 1 {
		t.Errorf("a refusal waited")
	}
	if r := c.report("k", time.Minute); r.Asked != 51 || r.Refused != 1 || len(r.Seconds) != 51 {
		t.Errorf("%+v, %d seconds", r.Decided, len(r.Seconds))
	}
	for n := range 25_000 { // where there are too many to wait, nobody does
		c.at(0, plans.Request{Key: fmt.Sprint(n), Rules: []string{"r"}, Cost: 1})
	}
	c.flush()
	before := counted.rows
	if c.flush(); counted.rows-before < 20_000 {
		t.Errorf("of 25,000 keys %d were handed over", counted.rows-before)
	}
}

func (c *court) unsent() (n int) {
	for _, e := range c.evidence {
		n += e.Stats().Unsent
	}
	return n
}

// flakyTrail takes some rows, some of which it says it has not.
type flakyTrail struct {
	keys.Trail
	rnd *rand.Rand
}

func (f *flakyTrail) Append(ctx context.Context, rows []keys.TrailRow) (left []keys.TrailRow, err error) {
	if f.rnd.IntN(2) == 0 {
		return f.Trail.Append(ctx, rows)
	}
	for _, r := range rows {
		kind := f.rnd.IntN(3)
		if kind > 0 {
			if _, err := f.Trail.Append(ctx, []keys.TrailRow{r}); err != nil {
				return rows, err
			}
		}
		if kind < 2 {
			left = append(left, r)
		}
	}
	if len(left) == 0 {
		return nil, nil
	}
	return left, errTrail
}

type countingTrail struct {
	keys.Trail
	calls, rows int
}

func (c *countingTrail) Append(ctx context.Context, rows []keys.TrailRow) ([]keys.TrailRow, error) {
	c.calls++
	c.rows += len(rows)
	return c.Trail.Append(ctx, rows)
}
