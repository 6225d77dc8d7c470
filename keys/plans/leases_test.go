package plans_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest"
	"github.com/guardd/guardd/keys/plans"
)

// counted counts the calls of a store, and makes them fail in either form.
type counted struct {
	plans.Store
	calls atomic.Int64
	fault keystest.Fault
}

func (c *counted) call(do func() error) error {
	c.calls.Add(1)
	switch c.fault {
	case keystest.NotDone:
		return errGone
	case keystest.ReplyLost:
		if err := do(); err != nil {
			return err
		}
		return errGone
	}
	return do()
}

func (c *counted) Take(ctx context.Context, a *keys.Ask, ans *keys.Answer) error {
	return c.call(func() error { return c.Store.Take(ctx, a, ans) })
}

func (c *counted) Settle(ctx context.Context, s *keys.Settlement, out *keys.Settled) error {
	return c.call(func() error { return c.Store.Settle(ctx, s, out) })
}

func (c *counted) Charge(ctx context.Context, x *keys.Charge) error {
	return c.call(func() error { return c.Store.(keys.Charger).Charge(ctx, x) })
}

func (c *counted) Lease(ctx context.Context, a *keys.LeaseAsk, out *keys.Leased) error {
	return c.call(func() error { return c.Store.Lease(ctx, a, out) })
}

// fleet is instances over one store, each with a twin, by a clock that the test owns.
type fleet struct {
	t      *testing.T
	now    int64
	shared *counted
	def    *plans.Definition
	takers []*plans.Taker
	falls  []*keys.Fallback
	tidied int64
	n      byte
}

func newFleet(t *testing.T, instances int, d *plans.Definition) *fleet {
	t.Helper()
	f := &fleet{t: t, now: 1_800_000_000 * keys.Second, def: d}
	f.shared = &counted{Store: keys.NewMemory(keys.MemoryConfig{Now: f.clock})}
	for range instances {
		f.takers = append(f.takers, f.start())
	}
	return f
}

func (f *fleet) clock() int64 { return f.now }

// start is another instance.
func (f *fleet) start() *plans.Taker {
	f.n++
	twin := keys.NewMemory(keys.MemoryConfig{Now: f.clock})
	f.falls = append(f.falls, keys.NewFallback(keys.FallbackConfig{Primary: f.shared, Local: twin, Instances: 3}))
	tk := plans.NewTaker(plans.Config{Store: f.falls[len(f.falls)-1],
		Sealer: plainSealer{}, Hash: hash, Now: f.clock, Instance: [8]byte{0, 0, 0, f.n << 1}})
	tk.InLine()
	f.load(tk)
	return tk
}

func (f *fleet) load(tk *plans.Taker) {
	b, faults := plans.Compile(f.def, "1", tk.Book())
	if len(faults) > 0 {
		f.t.Fatal(faults)
	}
	tk.Swap(b)
}

// mend ends an outage: what was granted alone is charged.
func (f *fleet) mend() {
	f.shared.fault = keystest.Healthy
	for _, x := range f.falls {
		for x.Return(f.t.Context()) {
		}
	}
}

// change puts other rules in force everywhere.
func (f *fleet) change(d *plans.Definition) {
	f.def = d
	for _, tk := range f.takers {
		f.load(tk)
	}
}

func (f *fleet) pass(d time.Duration) {
	for end := f.now + d.Microseconds(); f.now < end; {
		f.now = min(max(f.tidied+100_000, f.now), end)
		if f.now-f.tidied < 100_000 {
			continue
		}
		f.tidied = f.now
		for _, tk := range f.takers {
			tk.Tidy(f.t.Context())
		}
	}
}

func (f *fleet) take(i int, r plans.Request) *plans.Decision {
	f.t.Helper()
	if r.Key == "" {
		r.Key = "k"
	}
	d, err := f.takers[i].Take(f.t.Context(), &r)
	if err != nil {
		f.t.Fatalf("%+v: %v", r, err)
	}
	return d
}

// drive asks at every instance perSecond times a second for so long, and counts
// what was let through.
func (f *fleet) drive(perSecond int, long time.Duration, rules ...string) (asked, let int) {
	f.t.Helper()
	step := time.Second / time.Duration(perSecond*len(f.takers))
	for end := f.now + long.Microseconds(); f.now < end; f.pass(step) {
		if f.take(asked%len(f.takers), plans.Request{Rules: rules, Cost: 1}).Allowed {
			let++
		}
		asked++
	}
	return asked, let
}

// leased is one rule r that is leased.
func leased(capacity int64, refill string, l plans.Lease) *plans.Definition {
	d := one(capacity, refill)
	d.Rules[0].Lease = &l
	return d
}

// 15,000 requests a second on one key over 3 instances cost at most 75 calls of the
// store a second, whether the rule has room for them or not; and what the rule has
// is let through.
func TestABusyKeyCostsFewCalls(t *testing.T) {
	const long = 10 * time.Second
	for _, c := range []struct {
		capacity int64
		refill   string
		let      func(asked int) (least, most int)
	}{
		{20_000, "20000/1s", func(asked int) (int, int) { return asked, asked }},
		{10_000, "10000/1s", func(int) (int, int) { return 109_000, 110_000 + 3*1000 }}, // half a window less than all is held at the end
		{100, "10/1s", func(int) (int, int) { return 190, 200 + 3*10 }},
	} {
		f := newFleet(t, 3, leased(c.capacity, c.refill, plans.Lease{Above: 100}))
		asked, let := f.drive(5000, long, "r")
		if asked < 149_000 {
			t.Fatalf("%d requests are not 15,000 a second", asked)
		}
		least, most := c.let(asked)
		if let < least || let > most {
			t.Errorf("%s: %d of %d were let through, not %d to %d", c.refill, let, asked, least, most)
		}
		// Until it is found busy each request is a call.
		if calls := f.shared.calls.Load() - 3*11; calls > 75*10 {
			t.Errorf("%s: %d calls in 10 s: %+v", c.refill, calls, f.takers[0].Leases())
		} else {
			t.Logf("%s: %d of %d let through, %d calls a second", c.refill, let, asked, calls/10)
		}
	}
}

// Below the threshold each take is a call of the store, and exact.
func TestAKeyThatIsNotBusyIsNotLeased(t *testing.T) {
	f := newFleet(t, 3, leased(1000, "1/24h", plans.Lease{Above: 100}))
	asked, _ := f.drive(50, 4*time.Second, "r")
	if calls := f.shared.calls.Load(); calls != int64(asked) {
		t.Errorf("%d calls for %d requests", calls, asked)
	}
	for _, tk := range f.takers {
		if s := tk.Leases(); s.Leased != 0 {
			t.Errorf("%+v", s)
		}
	}
}

// What is held and not used comes back, and a key that is quiet again is whole.
func TestWhatIsNotUsedComesBack(t *testing.T) {
	f := newFleet(t, 3, leased(10_000, "1/1h", plans.Lease{Above: 100}))
	_, let := f.drive(1000, time.Second, "r")
	f.pass(time.Second)
	for i, tk := range f.takers {
		if s := tk.Leases(); s.Leased != s.Spent+s.Returned || s.Lost != 0 || s.Keys != 0 || s.Returned == 0 {
			t.Errorf("instance %d: %+v", i, s)
		}
	}
	if d := f.take(0, plans.Request{Rules: []string{"r"}, Cost: 0}); d.Limits[0].Remaining() != int64(10_000-let) {
		t.Errorf("%d are left after %d of 10,000", d.Limits[0].Remaining(), let)
	}
}

// An instance that dies loses what it held, which is no more than it may hold, and
// nobody else gets it.
func TestACrashLosesAtMostALease(t *testing.T) {
	const most = 500
	f := newFleet(t, 3, leased(10_000, "1/24h", plans.Lease{Above: 100, Most: most}))
	_, let := f.drive(2000, 500*time.Millisecond, "r")
	dead := f.takers[0].Leases()
	f.takers[0] = f.start() // kill -9, and another in its place
	if held := dead.Leased - dead.Spent; held == 0 || held > most {
		t.Fatalf("it held %d: the test shows nothing", held)
	}
	for range 30 { // all that can be had, at all of them
		_, more := f.drive(2000, 200*time.Millisecond, "r")
		let += more
	}
	f.pass(2 * time.Second)
	for range 20 {
		if f.take(1, plans.Request{Rules: []string{"r"}, Cost: 1}).Allowed {
			let++
		}
	}
	if let > 10_000 || let < 10_000-most {
		t.Errorf("%d of 10,000 were let through where one lease of %d was lost", let, most)
	}
}

// The fence: a holder that was stopped for longer than its lease lives spends
// nothing of it, and returns nothing.
func TestAHolderThatWasStoppedSpendsNothing(t *testing.T) {
	f := newFleet(t, 1, leased(1000, "1/24h", plans.Lease{Above: 100, Most: 500}))
	f.drive(2000, 200*time.Millisecond, "r")
	before := f.takers[0].Leases()
	if before.Leased == before.Spent {
		t.Fatal("it holds nothing: the test shows nothing")
	}
	f.now += 2 * keys.Second // nobody tidies meanwhile
	f.take(0, plans.Request{Rules: []string{"r"}, Cost: 1})
	f.pass(time.Second)
	after := f.takers[0].Leases()
	if after.Returned != 0 || after.Lost < before.Leased-before.Spent-1 {
		t.Errorf("it held %d, and after it %+v", before.Leased-before.Spent, after)
	}
	d := f.take(0, plans.Request{Rules: []string{"r"}, Cost: 0})
	if all := int64(after.Leased) + d.Limits[0].Remaining(); all != 1000-10 && all != 1000-9 && all != 1000-11 { // before it was busy each was a call
		t.Errorf("%d were leased and %d are left of 1000", after.Leased, d.Limits[0].Remaining())
	}
}

// Several rules: all or none, by what is held too.
func TestRulesThatAreLeasedAreAllOrNothing(t *testing.T) {
	d := leased(10_000, "1/24h", plans.Lease{Above: 100, Most: 500})
	d.Rules = append(d.Rules, plans.Rule{Name: "narrow", Capacity: 300, Refill: "1/24h", Settings: plans.Settings{Lease: &plans.Lease{Above: 100, Most: 300}}})
	f := newFleet(t, 3, d)
	_, let := f.drive(1000, 2*time.Second, "r", "narrow")
	f.pass(time.Second)
	if let != 300 {
		t.Errorf("%d were let through, not 300", let)
	}
	if x := f.take(0, plans.Request{Rules: []string{"r"}, Cost: 0}).Limits[0]; x.Remaining() != 10_000-300 {
		t.Errorf("the wide rule has %d left: what the narrow one refused was charged", x.Remaining())
	}
}

// A rule that changes, and a key that is suspended, count at once, whatever is held.
func TestWhatIsHeldFollowsTheRules(t *testing.T) {
	key := func(state plans.State, capacity int64) *plans.Definition {
		d := leased(capacity, "1/24h", plans.Lease{Above: 100})
		d.Plans = []plans.Plan{{Name: "p", Rules: []string{"r"}}}
		d.Keys = []plans.Key{{SHA256: digest("k"), Plan: "p", State: state}}
		return d
	}
	f := newFleet(t, 2, key(plans.Active, 10_000))
	_, let := f.drive(1000, time.Second)
	f.change(key(plans.Suspended, 10_000))
	if d := f.take(0, plans.Request{Cost: 1}); d.Allowed || d.Reason != plans.ReasonSuspended {
		t.Fatalf("suspended: %+v", d)
	}
	f.change(key(plans.Active, 1000)) // the spent fraction stays
	spent := (let + 9) / 10
	_, more := f.drive(1000, 3*time.Second)
	if more > 1000-spent || more < 1000-spent-2*100-2 {
		t.Errorf("%d of 10,000 were taken, and then %d of 1000", let, more)
	}
}

// A cost that is estimated is corrected, where it was taken from a lease, too.
func TestAReservationFromALeaseIsSettled(t *testing.T) {
	f := newFleet(t, 2, leased(10_000, "1/24h", plans.Lease{Above: 100, Most: 1000}))
	_, let := f.drive(1000, time.Second, "r")
	r := f.take(0, plans.Request{Rules: []string{"r"}, Cost: 100, Reserve: true})
	if !r.Allowed || r.Reservation == "" {
		t.Fatalf("%+v", r)
	}
	f.pass(59 * time.Second)
	for i, want := range []plans.Settlement{{Settled: true, Charged: 30}, {Duplicate: true, Charged: 100}} {
		s, err := f.takers[1].Settle(t.Context(), r.Reservation, 30)
		if err != nil || s.Settled != want.Settled || s.Duplicate != want.Duplicate || s.Charged != want.Charged {
			t.Errorf("settlement %d: %+v, %v", i, s, err)
		}
	}
	if x := f.take(0, plans.Request{Rules: []string{"r"}, Cost: 0}).Limits[0]; x.Remaining() != int64(10_000-let-30) {
		t.Errorf("%d left after %d and 30 of 10,000", x.Remaining(), let)
	}
	more := f.take(0, plans.Request{Rules: []string{"r"}, Cost: 10, Reserve: true})
	if s, err := f.takers[0].Settle(t.Context(), more.Reservation, 25); err != nil || !s.Settled {
		t.Errorf("%+v, %v", s, err)
	}
	late := f.take(0, plans.Request{Rules: []string{"r"}, Cost: 10, Reserve: true})
	f.pass(60 * time.Second)
	if s, err := f.takers[0].Settle(t.Context(), late.Reservation, 0); err != nil || s.Settled || s.Duplicate {
		t.Errorf("after 60 s: %+v, %v", s, err)
	}
}

// A failed request that is refunded goes back to where it came from, at no call, and
// once.
func TestARefundGoesBackToTheLease(t *testing.T) {
	f := newFleet(t, 1, leased(10_000, "1/24h", plans.Lease{Above: 100, Most: 1000}))
	_, let := f.drive(1000, 500*time.Millisecond, "r")
	calls := f.shared.calls.Load()
	d := f.take(0, plans.Request{Rules: []string{"r"}, Cost: 5})
	for range 2 {
		for _, status := range []int{200, 404, 500} {
			if err := f.takers[0].Refund(t.Context(), d, status); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := f.shared.calls.Load() - calls; n > 1 { // a refill
		t.Errorf("%d calls for a refund", n)
	}
	kept := f.take(0, plans.Request{Rules: []string{"r"}, Cost: 7})
	f.pass(2 * time.Second) // the lease has ended: the store is told
	if err := f.takers[0].Refund(t.Context(), kept, 503); err != nil {
		t.Fatal(err)
	}
	if x := f.take(0, plans.Request{Rules: []string{"r"}, Cost: 0}).Limits[0]; x.Remaining() != int64(10_000-let) {
		t.Errorf("%d left after %d of 10,000", x.Remaining(), let)
	}
}

// A refusal says when to come again, and then the request passes, if nobody else
// took anything.
func TestARefusalByALeaseSaysWhenToComeAgain(t *testing.T) {
	for _, shards := range []int64{1, 4} {
		d := leased(400, "40/1s", plans.Lease{Above: 50, Most: 100})
		d.Rules[0].Shards = &shards
		f := newFleet(t, 1, d)
		f.drive(1000, 3*time.Second, "r")
		refused := 0
		for _, cost := range []int64{1, 3, 40, 1, 100, 1, 1} {
			r := f.take(0, plans.Request{Rules: []string{"r"}, Cost: cost})
			if r.Allowed {
				continue
			}
			refused++
			b := &r.Limits[r.Binding]
			if r.RetryAfter <= 0 || b.Remaining() >= cost || b.Allowed || r.Impossible {
				t.Errorf("%d shards, cost %d: %+v", shards, cost, r)
			}
			f.pass(r.RetryAfter)
			if r := f.take(0, plans.Request{Rules: []string{"r"}, Cost: cost}); !r.Allowed {
				t.Errorf("%d shards, cost %d: refused again: %+v", shards, cost, r)
			}
		}
		if refused < 3 {
			t.Errorf("%d shards: only %d were refused: the test shows nothing", shards, refused)
		}
		if r := f.take(0, plans.Request{Rules: []string{"r"}, Cost: 401}); r.Allowed || !r.Impossible || r.RetryAfter != 0 {
			t.Errorf("%d shards, a cost above the capacity: %+v", shards, r)
		}
	}
}

// While the store is gone, what is held is spent, and then each instance's share; no
// more than that, and afterwards the key goes on.
func TestLeasesInAnOutage(t *testing.T) {
	const most = 90
	f := newFleet(t, 3, leased(900, "1/24h", plans.Lease{Above: 100, Most: most}))
	_, before := f.drive(1000, 50*time.Millisecond, "r")
	f.shared.fault = keystest.NotDone
	degraded, let := 0, 0
	for n := range 3000 {
		d := f.take(n%3, plans.Request{Rules: []string{"r"}, Cost: 1})
		if d.Allowed {
			let++
		}
		if d.Degraded {
			degraded++
		}
	}
	if let < 300 || let > 900+3*most || degraded < 2000 {
		t.Errorf("%d were let through in an outage, %d decided by the twins, %d before it", let, degraded, before)
	}
	f.mend()
	f.pass(time.Second)
	_, after := f.drive(500, time.Second, "r")
	if f.take(0, plans.Request{Rules: []string{"r"}, Cost: 1}).Degraded {
		t.Error("the store is back, and not asked")
	}
	if all := before + let + after; all > 900+3*most || all < 900-3*most {
		t.Errorf("%d, %d and %d of 900 were let through before an outage, in it and after", before, let, after)
	}
}

// Rules say so where their numbers do not go together.
func TestLeasesAndShardsAreChecked(t *testing.T) {
	n := func(v int64) *int64 { return &v }
	for want, r := range map[string]plans.Rule{
		"rules[0].lease.above": {Settings: plans.Settings{Lease: &plans.Lease{Above: -1}}},
		"rules[0].lease.most":  {Settings: plans.Settings{Lease: &plans.Lease{Above: 1, Most: 101}}},
		"rules[0].lease.for":   {Settings: plans.Settings{Lease: &plans.Lease{Above: 1, For: "1ms"}}},
		"rules[0].shards":      {Settings: plans.Settings{Shards: n(65)}},
		"rules[0].capacity":    {Settings: plans.Settings{Shards: n(3)}},  // no multiple
		"rules[0].capacity ":   {Settings: plans.Settings{Shards: n(20)}}, // 5 tokens each
		"rules[0].lease":       {Kind: plans.Concurrency, Settings: plans.Settings{Lease: &plans.Lease{Above: 1}}},
	} {
		r.Name, r.Capacity, r.Refill = "r", 100, "1/1s"
		if r.Kind == plans.Concurrency {
			r.Refill = ""
		}
		_, faults := plans.Compile(&plans.Definition{Rules: []plans.Rule{r}}, "1", nil)
		if len(faults) != 1 || faults[0].Field != strings.TrimSpace(want) {
			t.Errorf("%+v: %v", r, faults)
		}
	}
	for _, text := range []string{"above=5", "above=5,most=7", "above=5,most=7,for=2s", "above=5,for=2s"} {
		if l, err := plans.ParseLease(text); err != nil || l.String() != text {
			t.Errorf("%s is read as %s, %v", text, l, err)
		}
	}
	for _, text := range []string{"", "5", "above", "above=x", "below=3"} {
		if l, err := plans.ParseLease(text); err == nil {
			t.Errorf("%q is read as %s", text, l)
		}
	}
}

func ExampleParseLease() {
	l, _ := plans.ParseLease("above=200,most=1000")
	fmt.Println(l.Above, l.Most)
	// Output: 200 1000
}

// What evidence says of a busy key is what happened, to the request, and no more than
// was to be had and held.
func TestEvidenceOfWhatIsLeased(t *testing.T) {
	c := newCourt(t, 3, memory, leased(5000, "1000/1s", plans.Lease{Above: 50, Most: 200}))
	for _, tk := range c.takers {
		tk.InLine()
	}
	allowed, refused := 0, 0
	for n := range 20_000 { // 2,500 a second for 8 s
		d := c.at(n%3, plans.Request{Key: "k", Rules: []string{"r"}, Cost: 1})
		if d.Allowed {
			allowed++
		} else {
			refused++
		}
		if d.At.UnixMicro() != c.now {
			t.Fatalf("decided at %s, not %s", d.At, time.UnixMicro(c.now).UTC())
		}
		c.pass(400 * time.Microsecond)
		if n%2500 == 0 {
			c.flush()
		}
	}
	if held := c.takers[0].Leases(); held.Allowed == 0 || held.Refused == 0 || refused == 0 {
		t.Fatalf("%+v: the test shows nothing", held)
	}
	r := c.report("k", time.Minute)
	y := r.Rules[0]
	if r.Asked != 20_000 || r.Allowed != int64(allowed) || r.Refused != int64(refused) || y.Taken != int64(allowed) || y.Refused != int64(refused) {
		t.Errorf("%+v, %+v, want %d and %d", r.Decided, y, allowed, refused)
	}
	if y.Taken > y.Had+3*200 {
		t.Errorf("%d taken of %d to be had and 600 held", y.Taken, y.Had)
	}
	for _, x := range r.Refusals {
		if x.Remaining != 0 || x.RetryAfterMS < 1 || x.Degraded || x.Rule != "r" {
			t.Fatalf("%+v", x)
		}
	}
}
