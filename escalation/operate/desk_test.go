package operate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/escalation/operate"
	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fleet is some instances over one store, by one clock that the test owns.
type fleet struct {
	*testing.T
	clock  atomic.Int64
	shared *keys.Memory
	late   operate.Recents
	realms []string // that there are
	all    []*instance
}

type instance struct {
	*operate.Desk
	guard    *escalation.Guard
	store    *keys.Fallback
	link     *keystest.Faulty
	twin     *keys.Memory
	node     *node
	reloaded int
	wrong    error // what a reload finds
}

// node is the shared store, of which a part may be gone, as a node of a Cluster.
type node struct {
	*keys.Memory
	gone string // in the keys of that part; "": none is
}

func (n *node) Get(ctx context.Context, key string) ([]byte, error) {
	if n.gone != "" && strings.Contains(key, n.gone) {
		return nil, errors.New("gone")
	}
	return n.Memory.Get(ctx, key)
}

// recents are events that a test puts there.
type recents struct {
	mu     sync.Mutex
	events []operate.Decision
	err    error
}

func (r *recents) Recent(_ context.Context, realm string, q operate.Query) (found []operate.Decision, _ error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	is := func(want, got string) bool { return want == "" || want == got }
	for _, e := range slices.Backward(r.events) {
		if realm == "default" && is(q.ID, e.ID) && is(q.Attempt, e.Attempt) && is(q.Account, e.Account) && is(q.IP, e.IP) && is(q.Network, e.Network) && is(q.Device, e.Device) && len(found) < q.Most {
			found = append(found, e)
		}
	}
	return found, r.err
}

func newFleet(t *testing.T, n int, r operate.Recents) *fleet {
	t.Helper()
	f := &fleet{T: t, late: r, realms: []string{"default", "shop"}}
	f.clock.Store(1_800_000_000 * keys.Second)
	f.shared = keys.NewMemory(keys.MemoryConfig{Now: f.clock.Load})
	for range n {
		f.join()
	}
	f.look()
	return f
}

// join adds an instance, which has not looked at the journal yet.
func (f *fleet) join() *instance {
	f.Helper()
	p := escalation.DefaultPolicy()
	p.Realms["shop"] = &escalation.Realm{Shards: 2, Delivery: escalation.Delivery{Driver: "log"},
		Lists: escalation.Lists{Deny: []escalation.ListEntry{{CIDR: "198.51.100.66", Reason: "old"}}}}
	secrets, err := escalation.NewSecrets([][]byte{[]byte("a secret of the tests, long enough")})
	if err != nil {
		f.Fatal(err)
	}
	x := &instance{link: &keystest.Faulty{Subject: f.shared}, twin: keys.NewMemory(keys.MemoryConfig{Now: f.clock.Load}), node: &node{Memory: f.shared}}
	x.store = keys.NewFallback(keys.FallbackConfig{Primary: x.link, Local: x.twin, Instances: 2})
	x.guard, err = escalation.New(escalation.Config{Store: x.store, Records: x.store, Policy: p, Secrets: secrets, Now: f.clock.Load})
	if err != nil {
		f.Fatal(err)
	}
	x.Desk = operate.New(operate.Config{Guard: x.guard, Store: x.node, Here: x.store, Recents: f.late,
		Realms: func() []string { return f.realms },
		Reload: func(dry bool) error {
			if !dry && x.wrong == nil {
				x.reloaded++
			}
			return x.wrong
		}}, fmt.Sprint("instance ", len(f.all)))
	f.all = append(f.all, x)
	return x
}

// look has every instance look at the journal.
func (f *fleet) look() {
	f.Helper()
	for _, x := range f.all {
		if err := x.Look(f.Context()); err != nil {
			f.Fatal(err)
		}
	}
}

func (f *fleet) try(i int, a escalation.Attempt) *escalation.Verdict {
	f.Helper()
	v, err := f.all[i].guard.Check(f.Context(), &a)
	if err != nil {
		f.Fatal(err)
	}
	return v
}

func (f *fleet) pass(d time.Duration) { f.clock.Add(d.Microseconds()) }

var ops = &operate.Who{Name: "ops"}

// must is for calls that succeed.
func must[T any](f *fleet) func(*T, error) *T {
	return func(v *T, err error) *T {
		f.Helper()
		if err != nil {
			f.Fatal(err)
		}
		return v
	}
}

func (f *fleet) audit() []operate.Record {
	f.Helper()
	all, err := f.all[0].Audit(f.Context(), ops, "", 0, 0)
	if err != nil {
		f.Fatal(err)
	}
	return all
}

// TestAClearReachesEveryInstance: the store, every twin, every flood guard, and
// what an instance that was cut off still owes.
func TestAClearReachesEveryInstance(t *testing.T) {
	f := newFleet(t, 3, nil)
	ctx := t.Context()
	victim := escalation.Attempt{Account: "alice", IP: "203.0.113.7"}
	for i := range 12 { // mirrored into the twins of 0 and 1
		f.try(i%2, escalation.Attempt{Account: "alice", IP: fmt.Sprintf("203.0.113.%d", i)})
	}
	f.all[2].link.Set(keystest.NotDone)
	for range 2 {
		f.try(2, victim)
	}
	if f.all[2].store.Debts().Owed == 0 {
		t.Fatal("an instance that was cut off owes nothing")
	}
	for range 301 { // the flood guard of instance 1, for this address
		f.try(1, escalation.Attempt{Account: "mallory", IP: "192.0.2.66"})
	}
	if v := f.try(1, escalation.Attempt{Account: "bob", IP: "192.0.2.66"}); !slices.Contains(v.Reasons, escalation.ReasonFlood) {
		t.Fatalf("a flooded address: %s %v", v.Action, v.Reasons)
	}
	q := &operate.ClearRequest{Account: "alice", Reason: "ticket 12"}
	dry := *q
	dry.DryRun = true
	if a := must[operate.Cleared](f)(f.all[0].Clear(ctx, ops, &dry)); !a.Changed || !a.DryRun || a.Counters == 0 || a.Seq != 0 {
		t.Errorf("a dry run says %+v", a)
	}
	if len(f.audit()) != 0 || f.try(0, victim).Action == escalation.ActionAllow {
		t.Error("a dry run changes something")
	}
	a := must[operate.Cleared](f)(f.all[0].Clear(ctx, ops, q))
	if !a.Changed || a.Counters == 0 || a.Target.Account == "" || a.Seq != 1 {
		t.Errorf("a clear says %+v", a)
	}
	must[operate.Cleared](f)(f.all[0].Clear(ctx, ops, &operate.ClearRequest{Account: "alice", IP: victim.IP, Reason: "ticket 12"}))
	must[operate.Cleared](f)(f.all[0].Clear(ctx, ops, &operate.ClearRequest{IP: "192.0.2.66", Reason: "ticket 12"}))
	f.look()
	if again := must[operate.Cleared](f)(f.all[0].Clear(ctx, ops, q)); again.Changed || again.Counters != 0 {
		t.Errorf("the second clear says %+v", again)
	}
	f.look()
	for i, x := range f.all {
		x.link.Set(keystest.NotDone) // by its twin alone
		e, err := x.guard.Explain(ctx, &escalation.Subject{Account: "alice", IP: victim.IP})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range e.Limits {
			if (l.Tier == "account" || l.Tier == "pair") && l.Left != l.Capacity {
				t.Errorf("the twin of instance %d has %d of %d left of %s %s", i, l.Left, l.Capacity, l.Tier, l.Limit)
			}
		}
		x.link.Set(keystest.Healthy)
		for x.store.Return(ctx) {
		}
	}
	e, err := f.all[0].guard.Explain(ctx, &escalation.Subject{Account: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range e.Limits {
		if l.Left != l.Capacity {
			t.Errorf("when all is paid %s %s has %d of %d", l.Tier, l.Limit, l.Left, l.Capacity)
		}
	}
	if v := f.try(1, escalation.Attempt{Account: "bob", IP: "192.0.2.66"}); slices.Contains(v.Reasons, escalation.ReasonFlood) {
		t.Error("the flood guard of another instance still asks for more")
	}
}

// An account's pairs are found by the addresses of late; a decision stands for its
// account and address.
func TestAClearFindsPairsByDecisionsOfLate(t *testing.T) {
	late := &recents{}
	f := newFleet(t, 1, late)
	ctx := t.Context()
	a := escalation.Attempt{Account: "alice", IP: "203.0.113.7"}
	for range 6 {
		f.try(0, a)
	}
	v := f.try(0, a)
	late.events = []operate.Decision{
		{ID: "0123456789abcdef-1", Attempt: "one", Flow: "login", Account: v.Account.String(), IP: a.IP, Network: "203.0.113.0/24", Action: string(v.Action), Would: string(v.Action)},
		{ID: "0123456789abcdef-2", Flow: "login", Account: v.Account.String(), IP: "192.0.2.1", Action: "allow", Would: "allow"},
		{ID: "0123456789abcdef-3", Attempt: "one", Outcome: "failure", Flow: "login", Account: v.Account.String(), IP: a.IP, Network: "203.0.113.0/24"},
	}
	x := must[operate.Explained](f)(f.all[0].Explain(ctx, ops, &operate.ExplainRequest{Account: "alice"}))
	if x.IP != a.IP || x.Decision == nil || x.Decision.ID != "0123456789abcdef-1" || x.Action != v.Action || !slices.Equal(x.Reasons, v.Reasons) || len(x.Recent) != 3 || !x.Kept {
		t.Errorf("why alice was asked: %+v", x)
	}
	if x = must[operate.Explained](f)(f.all[0].Explain(ctx, ops, &operate.ExplainRequest{Decision: "0123456789abcdef-2"})); x.IP != "192.0.2.1" || x.Decision.ID != "0123456789abcdef-2" || x.Account != v.Account.String() {
		t.Errorf("a decision: %+v", x)
	}
	if x = must[operate.Explained](f)(f.all[0].Explain(ctx, ops, &operate.ExplainRequest{Decision: "one"})); x.IP != a.IP || x.Decision.ID != "0123456789abcdef-1" {
		t.Errorf("an attempt: %+v", x)
	}
	c := must[operate.Cleared](f)(f.all[0].Clear(ctx, ops, &operate.ClearRequest{Account: "alice", Reason: "r"}))
	if !slices.Contains(c.Target.At, a.IP) {
		t.Errorf("cleared %+v", c)
	}
	if v := f.try(0, a); v.Action != escalation.ActionAllow {
		t.Errorf("then she is asked for %s because of %v", v.Action, v.Reasons)
	}
	for _, q := range []*operate.ClearRequest{{Decision: "0123456789abcdef-9", Reason: "r"}, {Decision: "0123456789abcdef-1", Account: "a", Reason: "r"}} {
		var faults escalation.Faults
		if _, err := f.all[0].Clear(ctx, ops, q); !errors.As(err, &faults) || faults[0].Field != "decision" {
			t.Errorf("%+v: %v", q, err)
		}
	}
	late.err = errors.New("gone")
	if x = must[operate.Explained](f)(f.all[0].Explain(ctx, ops, &operate.ExplainRequest{Account: "alice"})); x.Kept || x.Account == "" {
		t.Errorf("without them: %+v", x)
	}
}

func TestListsHoldOnEveryInstanceAndEndByThemselves(t *testing.T) {
	f := newFleet(t, 2, nil)
	ctx := t.Context()
	at := func(i int, realm, ip string) escalation.Action {
		return f.try(i, escalation.Attempt{Account: "a", IP: ip, Realm: realm}).Action
	}
	q := &operate.ListRequest{Realm: "shop", CIDR: "192.0.2.0/24", Reason: "a scan", ExpiresAt: f.now().Add(time.Hour)}
	dry := *q
	dry.DryRun = true
	if l := must[operate.Listed](f)(f.all[0].List(ctx, ops, "deny", &dry)); !l.Changed || l.Entries != 1 || l.Seq != 0 || at(0, "shop", "192.0.2.1") == escalation.ActionDeny {
		t.Errorf("a dry run says %+v", l)
	}
	if l := must[operate.Listed](f)(f.all[0].List(ctx, ops, "deny", q)); !l.Changed || l.Entries != 1 || l.Seq != 1 {
		t.Errorf("listing says %+v", l)
	}
	if l := must[operate.Listed](f)(f.all[1].List(ctx, ops, "deny", q)); l.Changed || l.Entries != 1 {
		t.Errorf("listing again says %+v", l)
	}
	must[operate.Listed](f)(f.all[1].List(ctx, ops, "allow", &operate.ListRequest{Realm: "shop", CIDRs: []string{"192.0.2.9", "192.0.2.8/32"}, Reason: "ours"}))
	f.look()
	for i := range f.all {
		for ip, want := range map[string]escalation.Action{"192.0.2.1": escalation.ActionDeny, "192.0.2.9": escalation.ActionAllow, "192.0.2.8": escalation.ActionAllow, "198.51.100.66": escalation.ActionDeny} {
			if got := at(i, "shop", ip); got != want {
				t.Errorf("instance %d answers %s to %s, not %s", i, got, ip, want)
			}
		}
		if at(i, "default", "192.0.2.1") == escalation.ActionDeny {
			t.Error("one realm's list is another's")
		}
	}
	// An instance that comes later has them from the start.
	late := newFleetOver(f)
	if v, err := late.guard.Check(ctx, &escalation.Attempt{Account: "a", IP: "192.0.2.1", Realm: "shop"}); err != nil || v.Action != escalation.ActionDeny {
		t.Errorf("an instance that comes later answers %+v (%v)", v, err)
	}
	l, err := f.all[0].Lists(ctx, ops, "shop", "deny")
	if err != nil || len(l.Entries) != 1 || l.Entries[0].By != "ops" || l.Entries[0].CIDR != "192.0.2.0/24" || len(l.Policy) != 1 {
		t.Errorf("the list shows %+v (%v)", l, err)
	}
	if u := must[operate.Listed](f)(f.all[1].Unlist(ctx, ops, "allow", &operate.UnlistRequest{Realm: "shop", CIDR: "192.0.2.9", Reason: "not ours"})); !u.Changed || u.Entries != 1 {
		t.Errorf("unlisting says %+v", u)
	}
	if u := must[operate.Listed](f)(f.all[1].Unlist(ctx, ops, "allow", &operate.UnlistRequest{Realm: "shop", CIDR: "192.0.2.9", Reason: "not ours"})); u.Changed || u.Entries != 1 {
		t.Errorf("unlisting again says %+v", u)
	}
	f.look()
	if at(0, "shop", "192.0.2.9") != escalation.ActionDeny {
		t.Error("what was unlisted is still allowed")
	}
	f.pass(time.Hour)
	if at(0, "shop", "192.0.2.9") == escalation.ActionDeny {
		t.Error("an entry outlives its end")
	}
	if l, err := f.all[0].Lists(ctx, ops, "shop", "deny"); err != nil || len(l.Entries) != 0 {
		t.Errorf("and is shown: %+v (%v)", l, err)
	}
	all := f.audit()
	if len(all) != 5 || all[0].Seq != 5 || all[4].Action != operate.ActionList || !all[4].Changed || all[3].Changed || all[4].Reason != "a scan" || all[4].By != "ops" || !slices.Equal(all[4].CIDRs, []string{"192.0.2.0/24"}) {
		t.Errorf("the audit has %+v", all)
	}
}

func (f *fleet) now() time.Time { return time.UnixMicro(f.clock.Load()).UTC() }

// newFleetOver is one more instance over a fleet's store.
func newFleetOver(f *fleet) *instance {
	f.Helper()
	g := newFleet(f.T, 1, nil)
	x := g.all[0]
	x.Desk = operate.New(operate.Config{Guard: x.guard, Store: f.shared, Here: x.store, Realms: func() []string { return []string{"default", "shop"} }}, "late")
	if err := x.Look(f.Context()); err != nil {
		f.Fatal(err)
	}
	return x
}

func TestTenThousandEntriesAndNoMore(t *testing.T) {
	f := newFleet(t, 1, nil)
	q := &operate.ListRequest{Reason: "r"}
	for i := range escalation.MaxListed {
		q.CIDRs = append(q.CIDRs, fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255))
	}
	if l := must[operate.Listed](f)(f.all[0].List(t.Context(), ops, "deny", q)); l.Entries != escalation.MaxListed {
		t.Errorf("%+v", l)
	}
	if f.try(0, escalation.Attempt{Account: "a", IP: q.CIDRs[9_999]}).Action != escalation.ActionDeny {
		t.Error("the last entry does not count")
	}
	if r := f.audit()[0]; r.Networks != escalation.MaxListed || len(r.CIDRs) != 100 || r.CIDRs[0] != "10.0.0.0/32" {
		t.Errorf("the audit says %d networks, and keeps %d", r.Networks, len(r.CIDRs))
	}
	var faults escalation.Faults
	if _, err := f.all[0].List(t.Context(), ops, "deny", &operate.ListRequest{CIDR: "11.0.0.1", Reason: "r"}); !errors.As(err, &faults) || faults[0] != (escalation.FieldFault{Field: "cidr", Reason: "full"}) {
		t.Errorf("one more: %v", err)
	}
}

func TestAPinHoldsOnEveryInstanceAndInAnOutage(t *testing.T) {
	f := newFleet(t, 3, nil)
	ctx := t.Context()
	stranger := escalation.Attempt{Account: "a", IP: "192.0.2.1", Realm: "shop"}
	q := &operate.PinRequest{Realm: "shop", Posture: "critical", ExpiresIn: "1h", Reason: "attack"}
	dry := *q
	dry.DryRun = true
	if p := must[operate.Posture](f)(f.all[0].Pin(ctx, ops, &dry)); !p.Changed || p.Pin != "critical" || f.try(0, stranger).Action != escalation.ActionAllow {
		t.Errorf("a dry run says %+v", p)
	}
	if p := must[operate.Posture](f)(f.all[0].Pin(ctx, ops, q)); !p.Changed || p.PostureNow.Posture != "critical" || !p.PinUntil.Equal(f.now().Add(time.Hour)) {
		t.Errorf("a pin says %+v", p)
	}
	f.pass(time.Second) // the reply was lost
	if p := must[operate.Posture](f)(f.all[0].Pin(ctx, ops, q)); p.Changed {
		t.Errorf("a repeat says %+v", p)
	}
	if v := f.try(1, stranger); v.Action != escalation.ActionCaptcha || v.Reasons[0] != escalation.ReasonPosture {
		t.Errorf("before any look the other instance answers %s %v", v.Action, v.Reasons)
	}
	f.look()
	f.all[2].link.Set(keystest.NotDone) // its twin has mirrored nothing
	if v := f.try(2, escalation.Attempt{Account: "b", IP: "192.0.2.2", Realm: "shop"}); v.Action != escalation.ActionCaptcha || !v.Degraded {
		t.Errorf("in an outage it answers %s %v", v.Action, v.Reasons)
	}
	f.all[2].link.Set(keystest.Healthy)
	if p, err := f.all[1].Posture(ctx, ops, "shop"); err != nil || p.Pin != "critical" || p.Aggregator != "" {
		t.Errorf("it shows %+v (%v)", p, err)
	}
	if p := must[operate.Posture](f)(f.all[1].Release(ctx, ops, &operate.ReleaseRequest{Realm: "shop", Reason: "over"})); !p.Changed || p.Pin != "" || p.PostureNow.Posture != "normal" {
		t.Errorf("a release says %+v", p)
	}
	if p := must[operate.Posture](f)(f.all[1].Release(ctx, ops, &operate.ReleaseRequest{Realm: "shop", Reason: "over"})); p.Changed {
		t.Errorf("a second release says %+v", p)
	}
	if v := f.try(0, stranger); v.Action != escalation.ActionAllow {
		t.Errorf("after it: %s %v", v.Action, v.Reasons)
	}
	must[operate.Posture](f)(f.all[0].Pin(ctx, ops, q))
	f.pass(time.Hour)
	if v := f.try(0, stranger); v.Action != escalation.ActionAllow {
		t.Errorf("after its time: %s %v", v.Action, v.Reasons)
	}
	all := f.audit()
	if len(all) != 5 || all[4].Was != "normal, not pinned" || !strings.HasPrefix(all[4].Is, "critical, pinned until 2027-01-15T") {
		t.Errorf("the audit has %+v", all)
	}
}

func TestAReloadReachesEveryInstanceUnlessItIsWrong(t *testing.T) {
	f := newFleet(t, 3, nil)
	ctx := t.Context()
	count := func() (n []int) {
		for _, x := range f.all {
			n = append(n, x.reloaded)
		}
		return n
	}
	must[operate.Reloaded](f)(f.all[1].Reload(ctx, ops, &operate.ReloadRequest{Reason: "new limits", DryRun: true}))
	f.look()
	if got := count(); !slices.Equal(got, []int{0, 0, 0}) {
		t.Errorf("a dry run reloads %v", got)
	}
	must[operate.Reloaded](f)(f.all[1].Reload(ctx, ops, &operate.ReloadRequest{Reason: "new limits"}))
	f.look()
	f.look()
	if got := count(); !slices.Equal(got, []int{1, 1, 1}) {
		t.Errorf("a reload reloads %v", got)
	}
	f.all[1].wrong = escalation.Faults{{Field: "realms", Reason: "wrong"}}
	var faults escalation.Faults
	if _, err := f.all[1].Reload(ctx, ops, &operate.ReloadRequest{Reason: "r"}); !errors.As(err, &faults) {
		t.Errorf("a wrong configuration: %v", err)
	}
	f.look()
	if got := count(); !slices.Equal(got, []int{1, 1, 1}) || len(f.audit()) != 1 {
		t.Errorf("and reloads %v", got)
	}
}

// What an operator may not, and what nobody can, is refused before anything is
// done, each with its field.
func TestWhatIsRefused(t *testing.T) {
	f := newFleet(t, 1, nil)
	d, ctx := f.all[0].Desk, t.Context()
	shopOnly := &operate.Who{Name: "shop", May: func(realm string) bool { return realm == "shop" }}
	second := func(_ any, err error) error { return err }
	for name, c := range map[string]struct {
		err   error
		field string // "" is ErrRealm
	}{
		"explain elsewhere":     {second(d.Explain(ctx, shopOnly, &operate.ExplainRequest{Account: "a"})), ""},
		"clear elsewhere":       {second(d.Clear(ctx, shopOnly, &operate.ClearRequest{Account: "a", Reason: "r"})), ""},
		"list elsewhere":        {second(d.List(ctx, shopOnly, "deny", &operate.ListRequest{CIDR: "192.0.2.1", Reason: "r"})), ""},
		"unlist elsewhere":      {second(d.Unlist(ctx, shopOnly, "deny", &operate.UnlistRequest{CIDR: "192.0.2.1", Reason: "r"})), ""},
		"look elsewhere":        {second(d.Lists(ctx, shopOnly, "", "deny")), ""},
		"pin elsewhere":         {second(d.Pin(ctx, shopOnly, &operate.PinRequest{Posture: "high", ExpiresIn: "1h", Reason: "r"})), ""},
		"release elsewhere":     {second(d.Release(ctx, shopOnly, &operate.ReleaseRequest{Reason: "r"})), ""},
		"posture elsewhere":     {second(d.Posture(ctx, shopOnly, "default")), ""},
		"reload for some":       {second(d.Reload(ctx, shopOnly, &operate.ReloadRequest{Reason: "r"})), ""},
		"audit elsewhere":       {second(d.Audit(ctx, shopOnly, "default", 0, 0)), ""},
		"no such realm":         {second(d.Posture(ctx, ops, "x")), "realm"},
		"clear without reason":  {second(d.Clear(ctx, ops, &operate.ClearRequest{Account: "a"})), "reason"},
		"clear nobody":          {second(d.Clear(ctx, ops, &operate.ClearRequest{Reason: "r"})), "account"},
		"a decision not kept":   {second(d.Clear(ctx, ops, &operate.ClearRequest{Decision: "0123456789abcdef-1", Reason: "r"})), "decision"},
		"explain nobody":        {second(d.Explain(ctx, ops, &operate.ExplainRequest{})), "account"},
		"no such list":          {second(d.List(ctx, ops, "grey", &operate.ListRequest{CIDR: "192.0.2.1", Reason: "r"})), "list"},
		"list without reason":   {second(d.List(ctx, ops, "deny", &operate.ListRequest{CIDR: "192.0.2.1", Reason: " "})), "reason"},
		"a reason of two lines": {second(d.List(ctx, ops, "deny", &operate.ListRequest{CIDR: "192.0.2.1", Reason: "a\nb"})), "reason"},
		"a long reason":         {second(d.List(ctx, ops, "deny", &operate.ListRequest{CIDR: "192.0.2.1", Reason: strings.Repeat("x", 201)})), "reason"},
		"no network":            {second(d.List(ctx, ops, "deny", &operate.ListRequest{Reason: "r"})), "cidr"},
		"host bits":             {second(d.List(ctx, ops, "deny", &operate.ListRequest{CIDR: "192.0.2.1/24", Reason: "r"})), "cidr"},
		"one of many":           {second(d.List(ctx, ops, "deny", &operate.ListRequest{CIDRs: []string{"192.0.2.1", "x"}, Reason: "r"})), "cidrs.1"},
		"everybody":             {second(d.List(ctx, ops, "deny", &operate.ListRequest{CIDR: "0.0.0.0/0", Reason: "r"})), "cidr"},
		"an end in the past":    {second(d.List(ctx, ops, "deny", &operate.ListRequest{CIDR: "192.0.2.1", ExpiresAt: f.now(), Reason: "r"})), "expires_at"},
		"the policy's entry":    {second(d.Unlist(ctx, ops, "deny", &operate.UnlistRequest{Realm: "shop", CIDR: "198.51.100.66/32", Reason: "r"})), "cidr"},
		"no such posture":       {second(d.Pin(ctx, ops, &operate.PinRequest{Posture: "red", ExpiresIn: "1h", Reason: "r"})), "posture"},
		"a pin without end":     {second(d.Pin(ctx, ops, &operate.PinRequest{Posture: "high", Reason: "r"})), "expires_in"},
		"a pin for a year":      {second(d.Pin(ctx, ops, &operate.PinRequest{Posture: "high", ExpiresIn: "9000h", Reason: "r"})), "expires_in"},
		"a pin for a word":      {second(d.Pin(ctx, ops, &operate.PinRequest{Posture: "high", ExpiresIn: "long", Reason: "r"})), "expires_in"},
		"release, no reason":    {second(d.Release(ctx, ops, &operate.ReleaseRequest{})), "reason"},
		"reload, no reason":     {second(d.Reload(ctx, ops, &operate.ReloadRequest{})), "reason"},
		"a page too large":      {second(d.Audit(ctx, ops, "", 0, 1001)), "limit"},
	} {
		var faults escalation.Faults
		switch {
		case c.field == "" && !errors.Is(c.err, escalation.ErrRealm):
			t.Errorf("%s: %v", name, c.err)
		case c.field != "" && (!errors.As(c.err, &faults) || faults[0].Field != c.field):
			t.Errorf("%s: %v", name, c.err)
		}
	}
	if all := f.audit(); len(all) != 0 {
		t.Errorf("the audit has %+v", all)
	}
	// Who may everybody may have everybody.
	if l := must[operate.Listed](f)(d.List(ctx, ops, "deny", &operate.ListRequest{CIDR: "0.0.0.0/0", Force: true, Reason: "r"})); !l.Changed {
		t.Errorf("by force: %+v", l)
	}
}

func TestTheAuditIsPagedAndEachSeesTheirOwn(t *testing.T) {
	f := newFleet(t, 1, nil)
	ctx := t.Context()
	for i := range 130 {
		must[operate.Cleared](f)(f.all[0].Clear(ctx, ops, &operate.ClearRequest{Realm: []string{"default", "shop"}[i%2], Account: "alice", Reason: fmt.Sprint("n", i)}))
	}
	page := func(w *operate.Who, realm string, before int64, most int) []operate.Record {
		t.Helper()
		all, err := f.all[0].Audit(ctx, w, realm, before, most)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	must[operate.Reloaded](f)(f.all[0].Reload(ctx, ops, &operate.ReloadRequest{Reason: "of all realms"}))
	if all := page(ops, "", 131, 1000); len(all) != 130 || all[0].Reason != "n129" || all[129].Seq != 1 {
		t.Errorf("%d entries, the first %+v", len(all), all[0])
	}
	if all := page(ops, "", 31, 10); len(all) != 10 || all[0].Seq != 30 || all[9].Seq != 21 {
		t.Errorf("a page of %d from %d", len(all), all[0].Seq)
	}
	shop := &operate.Who{Name: "s", May: func(r string) bool { return r == "shop" }}
	for _, all := range [][]operate.Record{page(shop, "", 0, 1000), page(ops, "shop", 0, 1000)} {
		if len(all) != 66 || all[0].Action != operate.ActionReload || slices.ContainsFunc(all[1:], func(r operate.Record) bool { return r.Realm != "shop" }) {
			t.Errorf("%d entries of the shop", len(all))
		}
	}
	b, err := json.Marshal(page(ops, "", 0, 1000))
	if err != nil || strings.Contains(string(b), "alice") {
		t.Errorf("the audit holds a name (%v)", err)
	}
}

// An instance that is cut off for a while takes over everything that it missed,
// once; and a store that was emptied leaves it with the lists that are there.
func TestWhatWasMissedIsTakenOver(t *testing.T) {
	f := newFleet(t, 2, nil)
	ctx := t.Context()
	for i := range 5 {
		must[operate.Listed](f)(f.all[0].List(ctx, ops, "deny", &operate.ListRequest{CIDR: fmt.Sprintf("192.0.2.%d", i), Reason: "r"}))
	}
	deny := func(i int, ip string) bool {
		return f.try(i, escalation.Attempt{Account: "a", IP: ip}).Action == escalation.ActionDeny
	}
	if deny(1, "192.0.2.4") {
		t.Fatal("it knows before it has looked")
	}
	f.look()
	if !deny(1, "192.0.2.0") || !deny(1, "192.0.2.4") {
		t.Error("it has not taken over what it missed")
	}
	f.shared.Forget("gd:{operators}:head")
	f.shared.Forget(keys.NewSpace("default", 0).Lists())
	f.look()
	if deny(1, "192.0.2.0") {
		t.Error("it goes by lists that the store does not have")
	}
	must[operate.Listed](f)(f.all[0].List(ctx, ops, "deny", &operate.ListRequest{CIDR: "192.0.2.77", Reason: "r"}))
	f.look()
	if !deny(1, "192.0.2.77") {
		t.Error("after the store was emptied nothing is taken over")
	}
}

// Where a part of the store is gone, what is done in the realms on the rest is taken
// over all the same, and what is not is when the part is back.
func TestAPartThatIsGoneHoldsUpNoOtherRealm(t *testing.T) {
	f := newFleet(t, 2, nil)
	ctx, there := t.Context(), f.all[1]
	deny := func(realm, ip string) bool {
		return f.try(1, escalation.Attempt{Realm: realm, Account: "a", IP: ip}).Action == escalation.ActionDeny
	}
	there.node.gone = "{shop/"
	for _, realm := range []string{"shop", "default", "shop"} {
		must[operate.Listed](f)(f.all[0].List(ctx, ops, "deny", &operate.ListRequest{Realm: realm, CIDR: "192.0.2.1", Reason: "r"}))
	}
	must[operate.Reloaded](f)(f.all[0].Reload(ctx, ops, &operate.ReloadRequest{Reason: "r"}))
	for range 3 {
		if err := there.Look(ctx); err == nil || !strings.Contains(err.Error(), "shop") {
			t.Errorf("a look past what is gone says %v", err)
		}
	}
	if !deny("default", "192.0.2.1") || there.reloaded != 1 {
		t.Errorf("held up; reloaded %d times", there.reloaded)
	}
	if deny("shop", "192.0.2.1") {
		t.Error("it knows what it cannot have read")
	}
	there.node.gone = ""
	f.look()
	if !deny("shop", "192.0.2.1") || there.reloaded != 1 {
		t.Errorf("not taken over afterwards; reloaded %d times", there.reloaded)
	}
}

// What has run out makes room: a list that is fed every hour never fills.
func TestEntriesThatHaveRunOutTakeNoRoom(t *testing.T) {
	f := newFleet(t, 1, nil)
	for i := range 3 {
		q := &operate.ListRequest{CIDR: fmt.Sprintf("192.0.2.%d", i), Reason: "r", ExpiresAt: f.now().Add(time.Hour)}
		if l := must[operate.Listed](f)(f.all[0].List(t.Context(), ops, "deny", q)); l.Entries != 1 {
			t.Errorf("feed %d: %d entries", i, l.Entries)
		}
		f.pass(2 * time.Hour)
	}
	b, err := f.shared.Get(t.Context(), keys.NewSpace("default", 0).Lists())
	if err != nil || strings.Contains(string(b), "192.0.2.1/32") {
		t.Errorf("stored: %s (%v)", b, err)
	}
}

// A realm that a reload brings has the lists that are stored for it.
func TestARealmThatComesHasItsLists(t *testing.T) {
	f := newFleet(t, 1, nil)
	must[operate.Listed](f)(f.all[0].List(t.Context(), ops, "deny", &operate.ListRequest{Realm: "shop", CIDR: "192.0.2.1", Reason: "r"}))
	f.realms = []string{"default"}
	f.join()
	f.look()
	f.realms = []string{"default", "shop"}
	f.look()
	if v := f.try(1, escalation.Attempt{Realm: "shop", Account: "a", IP: "192.0.2.1"}); v.Action != escalation.ActionDeny {
		t.Errorf("answered %s", v.Action)
	}
}

func TestRunLooksUntilItEnds(t *testing.T) {
	f := newFleet(t, 2, nil)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); f.all[1].Run(ctx, func(err error) { t.Error(err) }) }()
	must[operate.Listed](f)(f.all[0].List(ctx, ops, "deny", &operate.ListRequest{CIDR: "192.0.2.1", Reason: "r"}))
	for f.try(1, escalation.Attempt{Account: "a", IP: "192.0.2.1"}).Action != escalation.ActionDeny {
		time.Sleep(time.Millisecond)
	}
	stop()
	<-done
	if age := f.all[1].Age(); age < 0 || age > time.Hour {
		t.Errorf("the last look was %s ago", age)
	}
}

func TestAnAnswerSaysWhatItExplains(t *testing.T) {
	f := newFleet(t, 1, nil)
	x := must[operate.Explained](f)(f.all[0].Explain(t.Context(), ops, &operate.ExplainRequest{Account: "alice", IP: "192.0.2.1"}))
	direct, err := f.all[0].guard.Explain(t.Context(), &escalation.Subject{Account: "alice", IP: "192.0.2.1"})
	if err != nil || !reflect.DeepEqual(&x.Explanation, direct) || x.Kept || x.Recent == nil {
		t.Errorf("%+v\n%+v (%v)", x, direct, err)
	}
}
