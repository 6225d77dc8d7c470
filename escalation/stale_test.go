package escalation

import (
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
)

// This file is about an application that goes on with an old password, and about
// whoever would make use of it that such an attempt takes nothing.

// hashed is a tag as a handler makes it.
func hashed(password string) string {
	return hex.EncodeToString([]byte(fmt.Sprintf("%-16s", password)))
}

// wrong makes a guess that fails, with a code where one is needed.
func (w *world) wrong(a Attempt) *Verdict {
	w.Helper()
	v := w.try(a)
	if !v.Proceed {
		a.Proof = w.solve(v, keys.Verify)
		v = w.let(a)
	}
	w.report(v.Attempt, a.Account, "failure", "")
	return v
}

// lefts is what every limit holds.
func lefts(v *Verdict) (n []int64) {
	for _, t := range v.Tiers {
		n = append(n, t.Left)
	}
	return n
}

// TestAnOldApplicationEmptiesNothing: every five minutes for three days, from
// one place after another, over midnights and reports as they come.
func TestAnOldApplicationEmptiesNothing(t *testing.T) {
	w := newWorld(t)
	for i := range 3 * 24 * 12 {
		a := Attempt{Account: alice, IP: fmt.Sprintf("198.51.100.%d", 1+i/100), PasswordTag: hashed("old")}
		v := w.let(a)
		if v.Repeat != (i > 0) {
			t.Fatalf("retry %d: repeat is %v", i, v.Repeat)
		}
		if v.Action != ActionAllow || len(v.Reasons) > 0 {
			t.Fatalf("retry %d: %s because of %v", i, v.Action, v.Reasons)
		}
		outcome := []string{"failure", "unknown_account"}[i%2]
		if r := w.report(v.Attempt, alice, outcome, ""); r.Repeat != v.Repeat || r.Tag != v.Tag {
			t.Fatalf("retry %d: the outcome says %+v of %+v", i, r.Trace, v.Trace)
		}
		w.pass(5 * time.Minute)
	}
	v := w.let(Attempt{Account: alice, IP: "203.0.113.7"})
	for _, l := range v.Tiers {
		if l.Left != l.Capacity-1 {
			t.Errorf("%s.%s holds %d of %d", l.Tier, l.Limit, l.Left, l.Capacity)
		}
	}
}

// TestARepeatLooksLikeAnyOther: whoever is refused is told the same, whether his
// password had been wrong before or not.
func TestARepeatLooksLikeAnyOther(t *testing.T) {
	w := newWorld(t)
	for i := range 3 {
		w.wrong(Attempt{Account: alice, IP: home, PasswordTag: hashed(fmt.Sprint("guess ", i))})
	}
	rungs := map[Action]bool{}
	for range 12 {
		fresh := w.try(Attempt{Account: alice, IP: home, PasswordTag: hashed("fresh")})
		again := w.try(Attempt{Account: alice, IP: home, PasswordTag: hashed("guess 1")})
		if fresh.Proceed {
			t.Fatal("nobody is asked for anything")
		}
		if !again.Repeat || fresh.Repeat {
			t.Fatalf("repeat: %v, and of a fresh password %v", again.Repeat, fresh.Repeat)
		}
		if again.Action != fresh.Action || fmt.Sprint(again.Reasons, again.Tiers, again.RetryAfter) != fmt.Sprint(fresh.Reasons, fresh.Tiers, fresh.RetryAfter) ||
			fmt.Sprint(again.Challenge.Kinds) != fmt.Sprint(fresh.Challenge.Kinds) {
			t.Errorf("a repeat is told %+v, another %+v", again, fresh)
		}
		rungs[fresh.Action] = true
		// By a proof it gets on, as any other, and spends it; then it takes nothing.
		proof := w.solve(again, keys.Verify)
		let := w.let(Attempt{Account: alice, IP: home, PasswordTag: hashed("guess 1"), Proof: proof})
		if !let.Repeat || fmt.Sprint(lefts(let)) != fmt.Sprint(lefts(again)) || let.Used != keys.Verify {
			t.Errorf("by a proof: %+v", let)
		}
		w.let(Attempt{Account: alice, IP: home, PasswordTag: hashed("another"), Proof: proof}) // one guess nearer to the next rung
	}
	for _, a := range []Action{ActionDelay, ActionCaptcha, ActionVerify} {
		if !rungs[a] {
			t.Errorf("%s was not seen", a)
		}
	}
}

// TestRepeatsSpendTheirProofs: a solved picture is one guess, of whatever password.
func TestRepeatsSpendTheirProofs(t *testing.T) {
	w := newWorld(t)
	for i := range 5 {
		w.wrong(Attempt{Account: alice, IP: home, PasswordTag: hashed(fmt.Sprint("guess ", i))})
	}
	a := Attempt{Account: alice, IP: home, PasswordTag: hashed("guess 1")}
	v := w.try(a)
	a.Proof = w.solve(v, keys.Captcha)
	w.let(a)
	if v := w.try(a); v.Proceed || v.ProofError != ProofSpent {
		t.Errorf("a proof lets two repeats through: %s, %q", v.Action, v.ProofError)
	}
}

// TestOnlyPasswordsAreRepeated: a code that was wrong may be right half a minute
// later, so in other flows each try is a guess.
func TestOnlyPasswordsAreRepeated(t *testing.T) {
	w := newWorld(t)
	for _, flow := range Flows {
		a := Attempt{Account: alice, IP: home, Flow: flow, PasswordTag: hashed("123456")}
		first := w.wrong(a)
		again := w.let(a)
		took := lefts(again)[0] < lefts(first)[0]
		if again.Repeat == took || again.Repeat != (flow == DefaultFlow) {
			t.Errorf("%s: repeat is %v, took something %v", flow, again.Repeat, took)
		}
	}
}

// TestWhoCanBeARepeat is the score sheet of what was known as wrong.
func TestWhoCanBeARepeat(t *testing.T) {
	old := Attempt{Account: alice, IP: home, PasswordTag: hashed("old")}
	for name, c := range map[string]struct {
		before func(w *world)
		a      Attempt
		repeat bool
	}{
		"the same":             {nil, old, true},
		"in capitals":          {nil, Attempt{Account: "ALICE@example.com", IP: home, PasswordTag: "6F6C6420202020202020202020202020"}, true},
		"from elsewhere":       {nil, Attempt{Account: alice, IP: "2001:db8::9", PasswordTag: hashed("old")}, true},
		"another password":     {nil, Attempt{Account: alice, IP: home, PasswordTag: hashed("new")}, false},
		"another account":      {nil, Attempt{Account: bobs, IP: home, PasswordTag: hashed("old")}, false},
		"no tag":               {nil, Attempt{Account: alice, IP: home}, false},
		"a handler's new key":  {nil, Attempt{Account: alice, IP: home, PasswordTag: hashed("old under another key")}, false},
		"past midnight":        {func(w *world) { w.pass(20 * time.Hour) }, old, true},
		"a day later":          {func(w *world) { w.pass(24 * time.Hour) }, old, false},
		"after a revocation":   {func(w *world) { w.revoke(alice) }, old, false},
		"revoked for somebody": {func(w *world) { w.revoke(bobs) }, old, true},
		"once it was right": {func(w *world) {
			w.report(w.let(old).Attempt, alice, "success", "")
		}, old, false},
		"once another was right": {func(w *world) {
			w.report(w.let(Attempt{Account: alice, IP: home, PasswordTag: hashed("new")}).Attempt, alice, "success", "")
		}, old, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.clock.Store(20_000*keys.Day + 16*3600*keys.Second) // midnight is 8 hours away
			w.wrong(old)
			if c.before != nil {
				c.before(w)
			}
			if v := w.let(c.a); v.Repeat != c.repeat {
				t.Errorf("repeat is %v", v.Repeat)
			}
		})
	}
}

// TestAPasswordThatWasChangedToAWrongOneIsGuessed: an adversary who knows what was
// wrong waits for it to become right. Whoever changes passwords says so, and
// from then on his next try is a guess, also where its own failure is told of late.
func TestAPasswordThatWasChangedToAWrongOneIsGuessed(t *testing.T) {
	w := newWorld(t)
	var late []*Verdict
	for i := range 3 {
		a := Attempt{Account: alice, IP: "198.51.100.7", PasswordTag: hashed(fmt.Sprint("guess ", i))}
		if i < 2 {
			w.wrong(a)
		} else {
			late = append(late, w.let(a))
		}
	}
	w.pass(time.Second)
	w.revoke(alice)
	w.pass(10 * time.Second)
	for _, v := range late {
		w.report(v.Attempt, alice, "failure", "")
	}
	before := int64(-1)
	for i := range 3 {
		v := w.try(Attempt{Account: alice, IP: "198.51.100.8", PasswordTag: hashed(fmt.Sprint("guess ", i))})
		if v.Repeat || before >= 0 && lefts(v)[0] != before-1 {
			t.Errorf("guess %d is free: %+v", i, v.Tiers)
		}
		before = lefts(v)[0]
	}
}

// TestAnAdversaryPushesOutWhatHePaysFor: of an account's wrong passwords eight are
// known. Who makes others, so that the owner's old application pays again, pays
// eight tokens of the account for each that it does; by repeating his own he
// pushes out nothing.
func TestAnAdversaryPushesOutWhatHePaysFor(t *testing.T) {
	w := newWorld(t)
	app := Attempt{Account: alice, IP: home, PasswordTag: hashed("old")}
	w.wrong(app)
	tries := 0
	guess := func(n int) { // each from a place of its own: the account's limits alone stop him
		for range n {
			tries++
			if w.wrong(Attempt{Account: alice, IP: fmt.Sprintf("198.51.100.%d", tries), PasswordTag: hashed(fmt.Sprint("guess ", tries))}).Repeat {
				t.Fatal("a guess is free")
			}
		}
	}
	guess(7)
	for i := range 40 { // for nothing
		v := w.try(Attempt{Account: alice, IP: "203.0.113.77", PasswordTag: hashed(fmt.Sprint("guess ", 1+i%7))})
		if !v.Repeat {
			t.Fatalf("a wrong password of late is a guess: %+v", v)
		}
		if v.Proceed {
			w.report(v.Attempt, alice, "failure", "")
		}
	}
	if v := w.try(app); !v.Repeat {
		t.Error("seven others have pushed the old password out")
	}
	guess(1)
	if v := w.try(app); v.Repeat {
		t.Error("nine wrong passwords are known")
	}
}

// TestRepeatsInShardsAndShadow: an account's wrong passwords are in its own shard,
// whatever the address; in shadow nothing is taken for them either, and what
// would have been is told.
func TestRepeatsInShardsAndShadow(t *testing.T) {
	for _, dark := range []bool{false, true} {
		w := newWorld(t, withPolicy(&Policy{Realms: map[string]*Realm{DefaultRealm: {Shards: 3}}}), func(c *Config) { c.Shadow = dark })
		for i := range 20 {
			account := fmt.Sprint("account ", i)
			a := Attempt{Account: account, IP: fmt.Sprintf("192.0.2.%d", i), PasswordTag: hashed("old")}
			w.wrong(a)
			a.IP = fmt.Sprintf("2001:db8:%x::1", i)
			first, again := w.let(a), w.let(a)
			if !first.Repeat || !again.Repeat || fmt.Sprint(lefts(first)) != fmt.Sprint(lefts(again)) {
				t.Errorf("shadow %v, %s: %+v, then %+v", dark, account, first, again)
			}
		}
	}
	w := newWorld(t, shadow)
	for i := range 6 {
		w.report(w.let(Attempt{Account: alice, IP: home, PasswordTag: hashed(fmt.Sprint("guess ", i))}).Attempt, alice, "failure", "")
	}
	a := Attempt{Account: alice, IP: home, PasswordTag: hashed("guess 5"), RequestID: "r"}
	v := w.let(a)
	if !v.Repeat || v.Would == ActionAllow || v.Tiers[0].Left != 4 {
		t.Errorf("in shadow: would %s, %+v", v.Would, v.Tiers[0])
	}
	w.report(v.Attempt, alice, "second_factor_pending", "")
	if again := w.let(a); !again.Replayed || !again.Repeat || again.Attempt != v.Attempt {
		t.Errorf("the same request again: %+v", again)
	}
	a.RequestID = "another"
	if v := w.let(a); v.Repeat || v.Tiers[0].Left != 3 {
		t.Errorf("it was right, and what it had not taken has come back: %+v", v.Tiers[0])
	}
}

// TestEightOldApplicationsOverMidnight: after midnight each password has another
// tag, which takes the place of yesterday's: else eight applications would push each
// other out.
func TestEightOldApplicationsOverMidnight(t *testing.T) {
	w := newWorld(t)
	w.clock.Store(20_000*keys.Day + 12*3600*keys.Second)
	app := func(i int) Attempt {
		return Attempt{Account: alice, IP: fmt.Sprintf("198.51.100.%d", i+1), PasswordTag: hashed(fmt.Sprint("old ", i))}
	}
	for i := range 8 {
		w.wrong(app(i))
	}
	for range 3 {
		w.pass(13 * time.Hour) // twice past midnight
		for i := range 8 {
			if v := w.wrong(app(7 - i)); !v.Repeat {
				t.Errorf("application %d pays", 7-i)
			}
		}
	}
}
