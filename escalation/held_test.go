package escalation

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
)

// verifying holds successes with a breached password, in every flow but otp.
func verifying() *Policy {
	yes, no := true, false
	return &Policy{Realms: map[string]*Realm{
		"default": {
			Breached: Breached{Verify: &yes}, ReturnOrigins: []string{"https://shop.example"},
			Flows: map[string]*Flow{"otp": {Breached: Breached{Verify: &no}}},
		},
		"shop": nil,
	}}
}

// say reports a success with the password known from a leak.
func (w *world) say(attempt, outcome, proof string) *Recorded {
	w.Helper()
	r, err := w.g.Report(context.Background(), &Report{Attempt: attempt, Account: alice, Outcome: outcome, PasswordBreached: true, Proof: proof}, nil)
	if err != nil {
		w.Fatalf("reporting %s: %v", outcome, err)
	}
	return r
}

// held fails unless r holds the success, for a code and nothing else.
func (w *world) held(r *Recorded) {
	w.Helper()
	if !r.Held || r.Device != "" || r.Challenge == nil || !slices.Equal(r.Advice, []string{AdviceResetPassword, AdviceVerify}) {
		w.Fatalf("not held: %+v", r)
	}
	if r.Challenge.Kind != KindVerify || !slices.Equal(r.Challenge.Kinds, []string{WayCode}) || r.Challenge.Page == "" {
		w.Errorf("held for %+v", r.Challenge)
	}
}

// code is the proof of a held success's challenge.
func (w *world) code(r *Recorded) string {
	w.Helper()
	p, err := w.g.Solve(context.Background(), r.Challenge.Token, keys.Verify)
	if err != nil {
		w.Fatal(err)
	}
	return p
}

func TestASuccessWithABreachedPasswordIsHeldForACode(t *testing.T) {
	w := newWorld(t, withPolicy(verifying()))
	v := w.let(Attempt{Account: alice, IP: home, PasswordBreached: true})
	first := w.report(v.Attempt, alice, "success", "")
	w.held(first)
	if !first.Recorded || first.Duplicate || w.left(alice, home, "account.burst") != 20 {
		t.Errorf("what it cost is not given back: %+v", first)
	}
	again := w.report(v.Attempt, alice, "success", "")
	w.held(again)
	if again.Recorded || !again.Duplicate {
		t.Errorf("counted twice: %+v", again)
	}
	// Until then nothing of the visitor is known: the next one is held too.
	next := w.let(Attempt{Account: alice, IP: home})
	if next.Familiar || next.KnownDevice {
		t.Errorf("known by a success that was held: %+v", next)
	}
	done := w.say(v.Attempt, "success", w.code(first))
	if done.Held || !done.Recorded || done.Device == "" || done.Challenge != nil || done.ProofError != "" ||
		!slices.Equal(done.Advice, []string{AdviceResetPassword}) {
		t.Fatalf("not finished: %+v", done)
	}
	for _, proof := range []string{"", w.code(first), "rubbish"} { // its reply was lost
		if r := w.say(v.Attempt, "success", proof); r.Held || !r.Duplicate || r.Device != done.Device || r.ProofError != "" {
			t.Errorf("repeated with %.9q: %+v", proof, r)
		}
	}
	if v := w.let(Attempt{Account: alice, IP: home, Device: done.Device}); !v.KnownDevice {
		t.Error("the device is not known")
	}
	if v := w.let(Attempt{Account: alice, IP: home}); !v.Familiar {
		t.Error("the place is not familiar")
	}
}

// Who is known, and who guesses wrong, is never held; nor is anybody where the
// policy does not say so.
func TestNobodyElseIsHeld(t *testing.T) {
	for name, c := range map[string]struct {
		attempt Attempt
		outcome string
		policy  *Policy
		before  func(*world) (device string)
		advice  []string
	}{
		"not breached":      {Attempt{}, "success", verifying(), nil, []string{}},
		"wrong":             {Attempt{PasswordBreached: true}, "failure", verifying(), nil, []string{}},
		"no such account":   {Attempt{PasswordBreached: true}, "unknown_account", verifying(), nil, []string{}},
		"a second factor":   {Attempt{PasswordBreached: true}, "second_factor_pending", verifying(), nil, []string{}},
		"by default":        {Attempt{PasswordBreached: true}, "success", nil, nil, []string{AdviceResetPassword}},
		"another realm":     {Attempt{PasswordBreached: true, Realm: "shop"}, "success", verifying(), nil, []string{AdviceResetPassword}},
		"the flow's policy": {Attempt{PasswordBreached: true, Flow: "otp"}, "success", verifying(), nil, []string{AdviceResetPassword}},
		"a familiar place":  {Attempt{PasswordBreached: true}, "success", verifying(), func(w *world) string { w.signIn(alice, home, ""); return "" }, []string{AdviceResetPassword}},
		"a known device": {Attempt{PasswordBreached: true, IP: "203.0.113.99"}, "success", verifying(),
			func(w *world) string { return w.signIn(alice, home, "") }, []string{AdviceResetPassword}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, withPolicy(verifying()))
			if c.policy == nil {
				w = newWorld(t)
			}
			a := c.attempt
			a.Account = alice
			if a.IP == "" {
				a.IP = home
			}
			if c.before != nil {
				a.Device = c.before(w)
			}
			v := w.let(a)
			if r := w.report(v.Attempt, alice, c.outcome, ""); r.Held || r.Challenge != nil || !slices.Equal(r.Advice, c.advice) || (r.Device != "") != (c.outcome == "success") {
				t.Errorf("%+v", r)
			}
		})
	}
	w := newWorld(t, withPolicy(verifying()), shadow)
	if r := w.say(w.let(Attempt{Account: alice, IP: home}).Attempt, "success", ""); r.Held || r.Device == "" {
		t.Errorf("in shadow: %+v", r)
	}
}

// TestProofsOfHeldSuccesses is the score sheet of what may be shown.
func TestProofsOfHeldSuccesses(t *testing.T) {
	for name, c := range map[string]struct {
		proof func(w *world, r *Recorded) string
		why   ProofError
	}{
		"a code":        {func(w *world, r *Recorded) string { return w.code(r) }, ""},
		"rubbish":       {func(*world, *Recorded) string { return "rubbish" }, ProofInvalid},
		"the challenge": {func(_ *world, r *Recorded) string { return r.Challenge.Token }, ProofInvalid},
		"a picture's": {func(w *world, _ *Recorded) string {
			return w.solve(w.at(alice, "203.0.113.7", keys.Captcha), keys.Captcha)
		}, ProofInsufficient},
		"another's": {func(w *world, _ *Recorded) string {
			return w.solve(w.at(bobs, "203.0.113.7", keys.Captcha), keys.Verify)
		}, ProofWrongAccount},
		"of another realm": {func(w *world, _ *Recorded) string { return w.codeOf(Attempt{Account: alice, IP: home, Realm: "shop"}) }, ProofInvalid},
		"of another flow":  {func(w *world, _ *Recorded) string { return w.codeOf(Attempt{Account: alice, IP: home, Flow: "reset"}) }, ProofInvalid},
		"too late": {func(w *world, r *Recorded) string {
			p := w.code(r)
			w.pass(10 * time.Minute)
			return p
		}, ProofExpired},
		"from before a revocation": {func(w *world, r *Recorded) string {
			p := w.code(r)
			w.pass(time.Second)
			if err := w.g.Revoke(context.Background(), "", alice); err != nil {
				w.Fatal(err)
			}
			return p
		}, ProofInvalid},
		"spent on guesses": {func(w *world, r *Recorded) string {
			p := w.code(r)
			for range verifyUses {
				w.press(alice)
				w.let(Attempt{Account: alice, IP: "203.0.113.9", Proof: p})
			}
			return p
		}, ProofSpent},
		"the one that let her through": {func(w *world, r *Recorded) string {
			p := w.code(r)
			w.press(alice)
			w.let(Attempt{Account: alice, IP: "203.0.113.9", Proof: p})
			return p
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, withPolicy(verifying()))
			v := w.let(Attempt{Account: alice, IP: home})
			first := w.say(v.Attempt, "success", "")
			w.held(first)
			r := w.say(v.Attempt, "success", c.proof(w, first))
			if r.ProofError != c.why {
				t.Fatalf("proof error %q, want %q", r.ProofError, c.why)
			}
			if c.why == "" {
				if r.Held || r.Device == "" {
					t.Errorf("%+v", r)
				}
				return
			}
			w.held(r)
		})
	}
}

// codeOf is the proof of a confirmed code elsewhere.
func (w *world) codeOf(a Attempt) string {
	w.Helper()
	for range 40 {
		if v := w.try(a); !v.Proceed {
			return w.solve(v, keys.Verify)
		}
	}
	w.Fatal("nothing is ever asked")
	return ""
}

// A proof finishes no more logins than it lets guesses through: who reads one
// in a log has no more of it than its owner.
func TestAProofFinishesFewLogins(t *testing.T) {
	w := newWorld(t, withPolicy(verifying()))
	proof, finished := "", 0
	for i := range 8 {
		v := w.let(Attempt{Account: alice, IP: "203.0.113." + itoa(i+1)})
		r := w.say(v.Attempt, "success", proof)
		if proof == "" {
			proof = w.code(r)
			continue
		}
		if r.Device != "" {
			finished++
		} else if r.ProofError != ProofSpent {
			t.Errorf("%+v", r)
		}
	}
	if finished != verifyUses {
		t.Errorf("%d logins were finished with one proof, not %d", finished, verifyUses)
	}
}

// A success that is held locks nobody out and costs nobody anything: it may
// come to nothing, and the next one is held anew.
func TestAHeldSuccessMayComeToNothing(t *testing.T) {
	w := newWorld(t, withPolicy(verifying()))
	for range 30 {
		v := w.let(Attempt{Account: alice, IP: home})
		w.held(w.say(v.Attempt, "success", ""))
	}
	v := w.let(Attempt{Account: alice, IP: home})
	w.held(w.say(v.Attempt, "success", ""))
	if r := w.say(v.Attempt, "failure", ""); !r.Recorded || len(r.Advice) != 0 || r.Challenge != nil {
		t.Errorf("%+v", r)
	}
	late := w.let(Attempt{Account: alice, IP: home})
	w.pass(14 * time.Minute)
	proof := w.code(w.say(late.Attempt, "success", ""))
	w.pass(time.Minute)
	if r := w.say(late.Attempt, "success", proof); r.AttemptError != "expired" || r.Held || r.Device != "" || r.ProofError != "" || len(r.Advice) != 0 {
		t.Errorf("after the attempt's time: %+v", r)
	}
}

func TestTheChallengeOfAHeldSuccessLeadsBack(t *testing.T) {
	w := newWorld(t, withPolicy(verifying()))
	v := w.let(Attempt{Account: alice, IP: home, PasswordBreached: true})
	r := &Report{Attempt: v.Attempt, Account: alice, Outcome: "success", ReturnURL: "https://shop.example/finish"}
	rec, err := w.g.Report(context.Background(), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	view, err := w.g.View(context.Background(), rec.Challenge.Token)
	if err != nil || view.ReturnURL != r.ReturnURL || view.Kind != KindVerify {
		t.Errorf("%+v, %v", view, err)
	}
	r.ReturnURL = "https://evil.example/"
	_, err = w.g.Report(context.Background(), r, nil)
	wantFault(t, err, "return_url", "not_allowed")
}

// TestAWrongPasswordTellsNothingOfALeak: all that an attacker sees, or can
// measure by length, is the same with the flag and without.
func TestAWrongPasswordTellsNothingOfALeak(t *testing.T) {
	with, without := newWorld(t, withPolicy(verifying())), newWorld(t, withPolicy(verifying()))
	for i := range 12 {
		a := with.try(Attempt{Account: alice, IP: home, PasswordBreached: true})
		b := without.try(Attempt{Account: alice, IP: home})
		if a.Action != b.Action || a.Proceed != b.Proceed || len(a.Attempt) != len(b.Attempt) || !slices.Equal(a.Reasons, b.Reasons) ||
			a.RetryAfter != b.RetryAfter || !slices.Equal(a.Tiers, b.Tiers) || strings.Join(waysOf(a), " ") != strings.Join(waysOf(b), " ") {
			t.Fatalf("guess %d: %+v, without %+v", i, a, b)
		}
		if !a.Proceed {
			break
		}
		x, y := with.say(a.Attempt, "failure", ""), without.report(b.Attempt, alice, "failure", "")
		if !x.Breached || y.Breached {
			t.Error("the one bit for the events is wrong")
		}
		x.Breached = false
		if x.Recorded != y.Recorded || x.Held || len(x.Advice) != len(y.Advice) || x.Device != "" || x.Challenge != nil || x.ProofError != "" {
			t.Fatalf("outcome %d: %+v, without %+v", i, x, y)
		}
	}
}

func waysOf(v *Verdict) []string {
	if v.Challenge == nil {
		return nil
	}
	return v.Challenge.Kinds
}
