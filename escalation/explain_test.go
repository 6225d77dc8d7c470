package escalation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
)

func (w *world) explain(s Subject) *Explanation {
	w.Helper()
	x, err := w.g.Explain(context.Background(), &s)
	if err != nil {
		w.Fatalf("explaining %+v: %v", s, err)
	}
	return x
}

// clear does what an operator's clear does in the one store.
func (w *world) clear(s Subject, at ...string) (n int) {
	w.Helper()
	ctx := context.Background()
	t, err := w.g.Target(&s)
	if err != nil {
		w.Fatal(err)
	}
	t.At = at
	c := w.g.Counters(t)
	if n, err = w.store.Clear(ctx, c.Buckets); err != nil {
		w.Fatal(err)
	}
	for _, key := range c.Suspects {
		if was, _ := w.store.Get(ctx, key); was != nil {
			if _, err := w.store.Swap(ctx, key, was, nil, 0); err != nil {
				w.Fatal(err)
			}
			n++
		}
	}
	here, err := w.g.ClearHere(ctx, &c)
	if err != nil {
		w.Fatal(err)
	}
	return n + here
}

func (x *Explanation) change(kind string) *Change {
	for i := range x.Changes {
		if x.Changes[i].Kind == kind {
			return &x.Changes[i]
		}
	}
	return nil
}

// TestAnExplanationIsWhatTheNextAttemptGets walks through guesses, sign-ins,
// devices, postures, suspects, sizes, lists and outages: what is explained is
// what is then answered, asking takes nothing, and what is said to change the
// answer does.
func TestAnExplanationIsWhatTheNextAttemptGets(t *testing.T) {
	seen, proved := map[Action]int{}, map[string]int{}
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 1))
		policy := DefaultPolicy()
		policy.Realms["default"].Shards = 1 + int(seed%2)
		w := newWorld(t, withPolicy(policy))
		spaces := keys.NewSpaces("default", 1+int(seed%2))
		ctx := context.Background()
		accounts, ips := []string{"alice", "bob", "carol"}, []string{"192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8:0:1::1"}
		devices := map[string]string{}
		for step := range 1500 {
			account, ip := accounts[r.IntN(3)], ips[r.IntN(4)]
			s := Subject{Account: account, IP: ip}
			if r.IntN(3) == 0 {
				s.Device = devices[account]
			}
			x := w.explain(s)
			if again := w.explain(s); !reflect.DeepEqual(x, again) {
				t.Fatalf("seed %d step %d: asking changed the answer:\n%+v\n%+v", seed, step, x, again)
			}
			if alone := w.explain(Subject{Account: account}); alone.Action > x.Action && len(alone.Reasons) > 0 && x.List == nil && !x.Familiar && x.Device != "known" && alone.rung() > x.rung() {
				t.Fatalf("seed %d step %d: the account alone is asked for %s, at an address for %s", seed, step, alone.Action, x.Action)
			}
			v := w.try(Attempt{Account: account, IP: ip, Device: s.Device})
			seen[v.Action]++
			if v.Action != x.Action || !slices.Equal(v.Reasons, x.Reasons) || v.Action != ActionDeny && (v.KnownDevice != (x.Device == "known") || v.Familiar != x.Familiar || v.Posture.String() != x.Posture.Posture) {
				t.Fatalf("seed %d step %d: explained %+v\nanswered %s %v known %v familiar %v %s", seed, step, x, v.Action, v.Reasons, v.KnownDevice, v.Familiar, v.Posture)
			}
			for _, tier := range v.Tiers { // after taking
				if !slices.ContainsFunc(x.Limits, func(l LimitNow) bool {
					return l.Counted && l.Tier == tier.Tier && l.Limit == tier.Limit && l.Capacity == tier.Capacity && l.Rung == tier.Rung.String() && (l.Left == tier.Left || l.Left == tier.Left+1)
				}) {
					t.Fatalf("seed %d step %d: tier %+v is not in %+v", seed, step, tier, x.Limits)
				}
			}
			if v.Action == ActionCaptcha && r.IntN(3) > 0 { // spends what a captcha may
				proof, err := w.g.Solve(ctx, v.Challenge.Token, keys.Captcha)
				if err != nil {
					t.Fatal(err)
				}
				w.try(Attempt{Account: account, IP: ip, Device: s.Device, Proof: proof})
			}
			if v.Proceed && r.IntN(6) == 0 {
				devices[account] = w.report(v.Attempt, account, "success", s.Device).Device
			}
			if v.Action != ActionAllow && r.IntN(8) == 0 {
				proved[w.tryAChange(r, s)]++
			}
			switch r.IntN(60) {
			case 0:
				err := spaces.PutState(ctx, w.store, keys.State{Posture: keys.Posture(r.IntN(4)), Until: w.clock.Load() + 120*keys.Second}, keys.Day)
				if err != nil {
					t.Fatal(err)
				}
			case 1:
				p := netip.MustParsePrefix([]string{"192.0.2.0/24", "192.0.2.1/32", "2001:db8::/48"}[r.IntN(3)])
				err := spaces.Put(ctx, w.store, func(s keys.Space) string { return s.Suspect(p) }, keys.EncodeUntil(w.clock.Load()+120*keys.Second), keys.Day)
				if err != nil {
					t.Fatal(err)
				}
			case 2:
				var l Lists
				if r.IntN(2) == 0 {
					l.Deny = []ListEntry{{CIDR: ips[0], ExpiresAt: micros(w.clock.Load() + 60*keys.Second)}}
					l.Allow = []ListEntry{{CIDR: ips[2]}}
				}
				if err := w.g.SetLists("default", l); err != nil {
					t.Fatal(err)
				}
			case 3:
				if err := w.g.Revoke(ctx, "", account); err != nil {
					t.Fatal(err)
				}
			}
			w.pass(time.Duration(r.IntN(40)) * time.Second)
		}
	}
	t.Logf("answers %v, changes %v", seen, proved)
	for _, a := range Actions {
		if seen[a] == 0 {
			t.Errorf("no attempt was answered %s", a)
		}
	}
	for _, c := range []string{ChangeWait, ChangeClear, ChangePosture, ChangeUnlist, ChangeProof, ChangeDevice} {
		if proved[c] == 0 {
			t.Errorf("%s was never said to change an answer", c)
		}
	}
}

func (x *Explanation) rung() int { return slices.Index(Actions, x.Action) }

// tryAChange does one of the things that are said to bring allow.
func (w *world) tryAChange(r *rand.Rand, s Subject) string {
	w.Helper()
	x := w.explain(s)
	if len(x.Changes) == 0 {
		if x.Action != ActionAllow && !(x.List != nil && x.List.Policy) {
			w.Fatalf("nothing changes %+v", x)
		}
		return ""
	}
	c := x.Changes[r.IntN(len(x.Changes))]
	switch c.Kind {
	case ChangeWait:
		w.pass(time.Duration(c.After) * time.Millisecond)
	case ChangeClear:
		if slices.Contains(c.By, "account+ip") || slices.Contains(c.By, "account") {
			w.clear(Subject{Account: s.Account, IP: s.IP})
		}
		if slices.Contains(c.By, "ip") {
			w.clear(Subject{IP: s.IP})
		}
		if slices.Contains(c.By, "network") {
			w.clear(Subject{Network: s.IP})
		}
	case ChangeUnlist:
		if err := w.g.SetLists("default", Lists{}); err != nil {
			w.Fatal(err)
		}
		return c.Kind // what it hid may ask for more
	default:
		return c.Kind
	}
	after := w.explain(s)
	if x.List != nil && x.List.List == ListDeny && after.Action != ActionDeny {
		return c.Kind
	}
	if after.Action != ActionAllow {
		w.Fatalf("%+v was to bring allow for %+v\nbefore %+v\nafter  %+v", c, s, x, after)
	}
	return c.Kind
}

func TestWhatIsExplained(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	device := w.signIn("alice", "198.51.100.1", "")
	for range 8 {
		w.try(Attempt{Account: "alice", IP: "203.0.113.7"})
	}
	x := w.explain(Subject{Account: "alice", IP: "203.0.113.7"})
	hash := w.let(Attempt{Account: "alice", IP: "198.51.100.1", Device: device}).Account.String()
	if x.Account != hash || x.Network != "203.0.113.0/24" || x.K != 1 || x.Familiar || x.Action != ActionDelay || x.Code != nil || !x.RevokedAt.IsZero() {
		t.Errorf("a stranger's address: %+v", x)
	}
	if same := w.explain(Subject{AccountHash: hash, IP: "203.0.113.7"}); !reflect.DeepEqual(same, x) {
		t.Errorf("by hash %+v\nby name %+v", same, x)
	}
	if wait, proof := x.change(ChangeWait), x.change(ChangeProof); wait == nil || proof == nil || !slices.Contains(proof.Ways, WayCode) {
		t.Errorf("changes: %+v", x.Changes)
	}
	x = w.explain(Subject{Account: "alice", IP: "198.51.100.1"})
	if !x.Familiar || x.Action != ActionAllow || len(x.Changes) > 0 || x.Device != "" {
		t.Errorf("where she has signed in: %+v", x)
	}
	for _, l := range x.Limits {
		if l.Counted != (l.Tier != "ip") {
			t.Errorf("at a familiar place %s counts: %v", l.Tier, l.Counted)
		}
	}
	x = w.explain(Subject{Device: device, IP: "192.0.2.200"})
	if x.Device != "known" || x.Account != hash || x.Action != ActionAllow {
		t.Errorf("her device alone: %+v", x)
	}
	if err := w.g.Revoke(ctx, "", "alice"); err != nil {
		t.Fatal(err)
	}
	if x = w.explain(Subject{Device: device}); x.Device != "invalid" || x.RevokedAt.UnixMicro() != w.clock.Load() || x.Reasons[0] != ReasonDeviceInvalid {
		t.Errorf("revoked: %+v", x)
	}
	x = w.explain(Subject{Network: "2001:db8::/48"})
	if x.Network != "2001:db8::/48" || x.IP != "" || len(x.Limits) != 2 || x.Limits[0].Tier != "network" {
		t.Errorf("a network: %+v", x)
	}
	if strings.Contains(fmt.Sprintf("%+v", w.explain(Subject{Account: "alice"})), "alice") {
		t.Error("an explanation holds a name")
	}

	for name, c := range map[string]struct {
		s     Subject
		field string
	}{
		"nobody":                   {Subject{}, "account"},
		"name and hash":            {Subject{Account: "a", AccountHash: hash}, "account_hash"},
		"no hash":                  {Subject{AccountHash: "alice"}, "account_hash"},
		"no address":               {Subject{IP: "alice"}, "ip"},
		"no such neighbourhood":    {Subject{Network: "192.0.2.0/25"}, "network"},
		"a forged device":          {Subject{Device: "abc"}, "device"},
		"another account's device": {Subject{Account: "bob", Device: device}, "device"},
		"no realm":                 {Subject{Account: "a", Realm: "x"}, "realm"},
		"no flow":                  {Subject{Account: "a", Flow: "x"}, "flow"},
		"a name that is none":      {Subject{Account: "a\x00"}, "account"},
	} {
		var faults Faults
		if _, err := w.g.Explain(ctx, &c.s); !errors.As(err, &faults) || faults[0].Field != c.field {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAClearGivesBackWhatStrangersSpentAndNothingElse: the owner's counters are
// full again, and what was revoked, used or sent stays so.
func TestAClearGivesBackWhatStrangersSpentAndNothingElse(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	device := w.signIn("alice", "198.51.100.1", "")
	for i := range 40 {
		for _, flow := range []string{"login", "otp"} {
			w.try(Attempt{Account: "alice", IP: fmt.Sprintf("203.0.113.%d", i), Flow: flow})
		}
	}
	fresh := Attempt{Account: "alice", IP: "192.0.2.1"}
	if v := w.try(fresh); v.Action == ActionAllow {
		t.Fatal("strangers' guesses ask her for nothing")
	}
	if err := w.g.Revoke(ctx, "", "alice"); err != nil {
		t.Fatal(err)
	}
	t0, err := w.g.Target(&Subject{Account: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	a, _ := keys.ParseAccount(t0.Account)
	sent := keys.CodeAnswer{}
	space := keys.NewSpace("default", 0)
	if err := w.store.SendCode(ctx, &keys.CodeAsk{Now: w.clock.Load(), Key: space.Code(a), SenderKey: "s", Account: a}, &sent); err != nil {
		t.Fatal(err)
	}
	before := w.explain(Subject{Account: "alice"})
	if n := w.clear(Subject{Account: "alice"}, "203.0.113.1"); n < 3 { // login, otp, and a pair
		t.Errorf("%d counters were cleared", n)
	}
	after := w.explain(Subject{Account: "alice"})
	for _, l := range after.Limits {
		if l.Left != l.Capacity {
			t.Errorf("%s %s has %d of %d", l.Tier, l.Limit, l.Left, l.Capacity)
		}
	}
	if before.Code == nil || !reflect.DeepEqual(after.Code, before.Code) || !after.RevokedAt.Equal(before.RevokedAt) || after.RevokedAt.IsZero() {
		t.Errorf("before %+v\nafter  %+v", before, after)
	}
	if x := w.explain(Subject{Device: device}); x.Device != "invalid" {
		t.Errorf("a revoked device is %q after a clear", x.Device)
	}
	if v := w.try(fresh); v.Action != ActionAllow {
		t.Errorf("afterwards she is asked for %s because of %v", v.Action, v.Reasons)
	}
	if n := w.clear(Subject{Account: "bob"}); n != 0 {
		t.Errorf("a clear of nothing took %d counters away", n)
	}
	// What counts an address is not what counts an account there.
	for range 30 {
		w.try(Attempt{Account: "carol", IP: "192.0.2.9"})
	}
	w.clear(Subject{IP: "192.0.2.9"})
	x := w.explain(Subject{Account: "carol", IP: "192.0.2.9"})
	for _, l := range x.Limits {
		full := l.Left == l.Capacity
		if want := l.Tier == "ip" || l.Tier == "flood"; full != want {
			t.Errorf("after a clear of the address %s %s has %d of %d", l.Tier, l.Limit, l.Left, l.Capacity)
		}
	}
}
