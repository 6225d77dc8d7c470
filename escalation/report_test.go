package escalation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
)

// left is what a limit of alice's at home holds, without taking.
func (w *world) left(account, ip, tier string) int64 {
	w.Helper()
	v, err := w.g.live.Load().visit(&Attempt{Account: account, IP: ip}, t0)
	if err != nil {
		w.Fatal(err)
	}
	ask, err := w.g.ask(v, keys.Allow)
	if err != nil {
		w.Fatal(err)
	}
	ask.Cost = 0
	var ans keys.Answer
	if err := w.store.Take(context.Background(), ask, &ans); err != nil {
		w.Fatal(err)
	}
	for _, l := range Decide(ask.Rules, &ans).Tiers {
		if l.Tier+"."+l.Limit == tier {
			return l.Left
		}
	}
	w.Fatalf("no limit %s", tier)
	return 0
}

// TestOutcomes is the score sheet of reports about one attempt, in order: what
// is said of each, and how many of the account's 20 tokens are left.
func TestOutcomes(t *testing.T) {
	type step struct {
		outcome   string
		recorded  bool
		device    bool
		tokenLeft int64
	}
	for name, steps := range map[string][]step{
		"success":                      {{"success", true, true, 20}},
		"success twice":                {{"success", true, true, 20}, {"success", false, true, 20}},
		"success, then failure":        {{"success", true, true, 20}, {"failure", false, false, 20}, {"success", false, true, 20}},
		"failure":                      {{"failure", true, false, 19}},
		"failure, then success":        {{"failure", true, false, 19}, {"success", false, false, 19}},
		"unknown account":              {{"unknown_account", true, false, 19}, {"not_checked", false, false, 19}},
		"pending, then success":        {{"second_factor_pending", true, false, 20}, {"success", true, true, 20}, {"success", false, true, 20}},
		"pending, then failure":        {{"second_factor_pending", true, false, 20}, {"failure", true, false, 20}, {"success", false, false, 20}},
		"pending, then something else": {{"second_factor_pending", true, false, 20}, {"abandoned", false, false, 20}, {"success", true, true, 20}},
		"pending twice":                {{"second_factor_pending", true, false, 20}, {"second_factor_pending", false, false, 20}},
		"denied by policy":             {{"denied_by_policy", true, false, 20}, {"success", false, false, 20}},
		"not checked":                  {{"not_checked", true, false, 20}},
		"abandoned":                    {{"abandoned", true, false, 19}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			v := w.let(Attempt{Account: alice, IP: home})
			for i, s := range steps {
				r := w.report(v.Attempt, alice, s.outcome, "")
				if r.Recorded != s.recorded || r.Duplicate == s.recorded || (r.Device != "") != s.device || r.AttemptError != "" {
					t.Errorf("step %d, %s: %+v", i, s.outcome, r)
				}
				if got := w.left(alice, home, "account.burst"); got != s.tokenLeft {
					t.Errorf("step %d, %s: %d left, want %d", i, s.outcome, got, s.tokenLeft)
				}
			}
		})
	}
}

func TestARepeatedSuccessIsTheSameDevice(t *testing.T) {
	w := newWorld(t)
	v := w.let(Attempt{Account: alice, IP: home})
	first := w.report(v.Attempt, alice, "success", "")
	w.pass(time.Minute)
	again := w.report(v.Attempt, alice, "success", "")
	if first.Device != again.Device || !again.Duplicate || !first.DeviceExpires.Equal(micros(t0+keys.DeviceLifetime)) {
		t.Errorf("first %+v, again %+v", first, again)
	}
	if v := w.let(Attempt{Account: alice, IP: home, Device: again.Device}); !v.KnownDevice {
		t.Error("not known")
	}
}

// TestBadReports is the score sheet of what is refused as a report.
func TestBadReports(t *testing.T) {
	p := &Policy{Realms: map[string]*Realm{"default": nil, "shop": nil}}
	w := newWorld(t, withPolicy(p))
	attempt := w.let(Attempt{Account: alice, IP: home}).Attempt
	challenge := w.at(bobs, "203.0.113.1", keys.Captcha).Challenge.Token
	gone := w.let(Attempt{Account: alice, IP: home, Realm: "shop"}).Attempt
	if err := w.g.SetPolicy(DefaultPolicy()); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		r      Report
		field  string
		reason string
	}{
		"no attempt":        {Report{Attempt: "", Account: alice, Outcome: "failure"}, "attempt", "empty"},
		"rubbish":           {Report{Attempt: "rubbish", Account: alice, Outcome: "failure"}, "attempt", "invalid"},
		"bent":              {Report{Attempt: bend(attempt, 50), Account: alice, Outcome: "failure"}, "attempt", "invalid"},
		"a challenge":       {Report{Attempt: challenge, Account: alice, Outcome: "failure"}, "attempt", "invalid"},
		"a realm that went": {Report{Attempt: gone, Account: alice, Outcome: "failure"}, "attempt", "invalid"},
		"another account":   {Report{Attempt: attempt, Account: bobs, Outcome: "success"}, "account", "wrong_account"},
		"no account":        {Report{Attempt: attempt, Account: "", Outcome: "success"}, "account", "empty"},
		"no outcome":        {Report{Attempt: attempt, Account: alice, Outcome: ""}, "outcome", "empty"},
		"no such outcome":   {Report{Attempt: attempt, Account: alice, Outcome: "Success"}, "outcome", "unknown"},
	} {
		rec, err := w.g.Report(context.Background(), &c.r, nil)
		var f Faults
		if rec != nil || !errors.As(err, &f) || len(f) != 1 || f[0] != (FieldFault{c.field, c.reason}) {
			t.Errorf("%s: %v, want %s: %s", name, err, c.field, c.reason)
		}
	}
	// Nothing of that was booked. The name may be spelt as the visitor did.
	if r := w.report(attempt, "  Alice@Example.COM", "success", ""); !r.Recorded {
		t.Errorf("%+v", r)
	}
}

func TestEveryBentAttemptIsForged(t *testing.T) {
	w := newWorld(t)
	attempt := w.let(Attempt{Account: alice, IP: home}).Attempt
	for i := range attempt {
		_, err := w.g.Report(context.Background(), &Report{Attempt: bend(attempt, i), Account: alice, Outcome: "success"}, nil)
		wantFault(t, err, "attempt", "invalid")
	}
}

func TestAnAttemptExpires(t *testing.T) {
	w := newWorld(t)
	v, late := w.let(Attempt{Account: alice, IP: home}), w.let(Attempt{Account: alice, IP: home})
	if !v.AttemptExpires.Equal(micros(t0 + keys.AttemptLifetime)) {
		t.Errorf("expires %v", v.AttemptExpires)
	}
	w.pass(15*time.Minute - time.Microsecond)
	if r := w.report(v.Attempt, alice, "success", ""); !r.Recorded {
		t.Errorf("just in time: %+v", r)
	}
	w.pass(time.Microsecond)
	r := w.report(late.Attempt, alice, "success", "")
	if r.Recorded || r.Duplicate || r.AttemptError != "expired" || r.Device != "" || len(r.Advice) != 0 {
		t.Errorf("late: %+v", r)
	}
}

func TestAKeyActsForItsOwnRealmsOnly(t *testing.T) {
	w := newWorld(t)
	v := w.let(Attempt{Account: alice, IP: home})
	r := Report{Attempt: v.Attempt, Account: alice, Outcome: "success"}
	asked := ""
	if _, err := w.g.Report(context.Background(), &r, func(realm string) bool { asked = realm; return false }); err != ErrRealm || asked != "default" {
		t.Errorf("%v for realm %q", err, asked)
	}
	if got := w.left(alice, home, "account.burst"); got != 19 {
		t.Errorf("%d left: a refused report had an effect", got)
	}
	if rec, err := w.g.Report(context.Background(), &r, func(string) bool { return true }); err != nil || !rec.Recorded {
		t.Errorf("%+v, %v", rec, err)
	}
}

// TestAdvice is the score sheet of what is advised after n failures.
func TestAdvice(t *testing.T) {
	for name, c := range map[string]struct {
		failures  int
		outcome   string
		breached  bool // said with the attempt
		breached2 bool // said with the report
		want      []string
	}{
		"nothing":                         {0, "success", false, false, []string{}},
		"nine failures":                   {9, "success", false, false, []string{}},
		"ten failures":                    {10, "success", false, false, []string{"notify_user"}},
		"the tenth failure":               {9, "failure", false, false, []string{"notify_user"}},
		"nobody to notify":                {9, "unknown_account", false, false, []string{}},
		"breached, said first":            {0, "success", true, false, []string{"reset_password"}},
		"breached, said last":             {0, "success", false, true, []string{"reset_password"}},
		"breached, but wrong":             {0, "failure", true, true, []string{}},
		"breached, but a second factor":   {0, "second_factor_pending", true, true, []string{}},
		"breached and attacked":           {10, "success", true, false, []string{"reset_password", "notify_user"}},
		"a second factor, under attack":   {10, "second_factor_pending", false, false, []string{"notify_user"}},
		"abandoned, under attack":         {10, "abandoned", false, false, []string{"notify_user"}},
		"the back-end down, under attack": {10, "not_checked", false, false, []string{"notify_user"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for i := range c.failures {
				outcome := []string{"failure", "unknown_account"}[i%2]
				v := w.try(Attempt{Account: alice, IP: fmt.Sprintf("203.0.113.%d", i)})
				if !v.Proceed {
					v = w.let(Attempt{Account: alice, IP: fmt.Sprintf("203.0.113.%d", i), Proof: w.solve(v, keys.Verify)})
				}
				w.report(v.Attempt, alice, outcome, "")
			}
			v := w.try(Attempt{Account: alice, IP: home, PasswordBreached: c.breached})
			if !v.Proceed {
				v = w.let(Attempt{Account: alice, IP: home, PasswordBreached: c.breached, Proof: w.solve(v, keys.Verify)})
			}
			r, err := w.g.Report(context.Background(), &Report{Attempt: v.Attempt, Account: alice, Outcome: c.outcome, PasswordBreached: c.breached2}, nil)
			if err != nil || !slices.Equal(r.Advice, c.want) {
				t.Errorf("%v, %v, want %v", r, err, c.want)
			}
		})
	}
}

// TestHoardedSuccessesGainNothing: an attacker signs in to his own account
// from the address that he attacks from, keeps the attempts back, guesses at
// others, and then reports his successes at once.
func TestHoardedSuccessesGainNothing(t *testing.T) {
	w := newWorld(t)
	var hoard []string
	for i := range 12 {
		v := w.let(Attempt{Account: fmt.Sprint("mallory ", i), IP: home})
		hoard = append(hoard, v.Attempt)
	}
	guesses := 0
	for i := range 40 {
		if w.try(Attempt{Account: fmt.Sprint("victim ", i), IP: home}).Proceed {
			guesses++
		}
	}
	if guesses != 4 { // 16 of 40 until the address is slowed down
		t.Fatalf("%d guesses", guesses)
	}
	w.pass(10 * time.Minute) // refill has repaid 20 tokens: the hoard is worth nothing any more
	before := w.left(alice, home, "ip.burst")
	for i, a := range hoard {
		w.report(a, fmt.Sprint("mallory ", i), "success", "")
	}
	if after := w.left(alice, home, "ip.burst"); before != 40 || after != 40 {
		t.Errorf("%d left before, %d after", before, after)
	}
	// Without refill, each gives back its own token and no other.
	w = newWorld(t)
	var v *Verdict
	for range 3 {
		v = w.let(Attempt{Account: alice, IP: home})
	}
	for range 3 {
		w.report(v.Attempt, alice, "success", "")
	}
	if got := w.left(alice, home, "pair.burst"); got != 8 {
		t.Errorf("%d left, want 8: three taken, one given back", got)
	}
}

// TestAnAttemptOfAnotherInstancesTwinGetsNothingBackHere, where it took
// nothing.
func TestAnAttemptOfAnotherInstancesTwinGetsNothingBackHere(t *testing.T) {
	for name, own := range map[string]bool{"own": true, "another's": false} {
		w := newWorld(t)
		w.let(Attempt{Account: alice, IP: home})
		v := w.let(Attempt{Account: alice, IP: home})
		tok := w.c.Secrets.openAttempt(v.Attempt)
		tok.degraded, tok.instance = true, [8]byte{1}
		if own {
			tok.instance = w.g.c.Instance
		}
		ret := w.g.giving(tok, w.g.live.Load().realms["default"], keys.Success)
		if ret.Local != own || (len(ret.Took) > 0) != own {
			t.Errorf("%s: local %v, gives back %d limits", name, ret.Local, len(ret.Took))
		}
		w.report(w.c.Secrets.seal(forAttempt, tok.encode()), alice, "success", "")
		if got := w.left(alice, home, "pair.burst"); own != (got == 9) {
			t.Errorf("%s: %d left", name, got)
		}
	}
}

func TestASuccessOnAKnownDeviceGivesBackToTheDevice(t *testing.T) {
	w := newWorld(t)
	device := w.signIn(alice, home, "")
	w.let(Attempt{Account: alice, IP: home, Device: device})
	v := w.let(Attempt{Account: alice, IP: home, Device: device})
	if v.Tiers[0].Left != 8 || v.Tiers[2].Left != 58 {
		t.Fatalf("%v", v.Tiers)
	}
	next := w.report(v.Attempt, alice, "success", device).Device
	if next == device {
		t.Error("the device's id is not fresh")
	}
	v = w.let(Attempt{Account: alice, IP: home, Device: device})
	if v.Tiers[0].Left != 8 || v.Tiers[2].Left != 58 {
		t.Errorf("one given back, one taken: %v", v.Tiers)
	}
}
