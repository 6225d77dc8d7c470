package escalation

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
)

// at brings a fresh account's pair to the rung and returns what refuses it.
func (w *world) at(account, ip string, rung keys.Rung) *Verdict {
	w.Helper()
	proof := ""
	for range 40 {
		v := w.try(Attempt{Account: account, IP: ip, Proof: proof})
		if string(v.Action) == rung.String() {
			return v
		}
		switch proof = ""; v.Action {
		case ActionDelay:
			proof = w.waited(v)
		case ActionCaptcha:
			proof = w.solve(v, keys.Captcha)
		}
	}
	w.Fatalf("%s is never asked", rung)
	return nil
}

// slow is a policy whose buckets hardly refill, and whose thresholds lie between
// whole tokens: what is waited for is not refilled meanwhile.
func slow() *Policy {
	p := login(Limit{Tier: "pair", Name: "burst", Refill: refill("1/24h"), Delay: pct("75%"), Captcha: pct("55%")})
	p.Realms["shop"] = p.Realms["default"]
	return p
}

// TestProofs is the score sheet of what may be shown: each row in a world of
// its own where alice at home is asked for the rung.
func TestProofs(t *testing.T) {
	type shown func(w *world, v *Verdict) Attempt
	proof := func(p string) Attempt { return Attempt{Account: alice, IP: home, Proof: p} }
	after := func(d time.Duration, rung keys.Rung) shown {
		return func(w *world, v *Verdict) Attempt {
			p := w.solve(v, rung)
			w.pass(d)
			return proof(p)
		}
	}
	wait := func(d time.Duration) shown {
		return func(w *world, v *Verdict) Attempt {
			w.pass(v.RetryAfter + d)
			return proof(v.Challenge.Token)
		}
	}
	elsewhere := func(a Attempt, rung keys.Rung) shown {
		return func(w *world, v *Verdict) Attempt {
			p := v.Challenge.Token
			if rung > keys.Delay {
				p = w.solve(v, rung)
			}
			w.pass(v.RetryAfter)
			a.Proof = p
			// Bring whoever is asked there up the ladder too.
			for range 9 {
				x := w.try(Attempt{Account: a.Account, IP: a.IP, Realm: a.Realm, Flow: a.Flow})
				if !x.Proceed {
					break
				}
			}
			return a
		}
	}
	for _, c := range []struct {
		name  string
		rung  keys.Rung
		shown shown
		let   bool
		why   ProofError
	}{
		{"a wait, waited for", keys.Delay, wait(0), true, ""},
		{"a wait, a microsecond early", keys.Delay, wait(-time.Microsecond), false, ProofTooEarly},
		{"a wait, at the end of its life", keys.Delay, wait(10*time.Minute - time.Microsecond), true, ""},
		{"a wait instead of a picture", keys.Captcha, func(w *world, v *Verdict) Attempt {
			return proof(w.waited(w.at(alice, "203.0.113.1", keys.Delay)))
		}, false, ProofWrongAddress},
		{"a picture for a wait, by code", keys.Delay, after(0, keys.Verify), true, ""},
		{"a picture, solved", keys.Captcha, after(0, keys.Captcha), true, ""},
		{"a picture, solved with a code", keys.Captcha, after(0, keys.Verify), true, ""},
		{"a picture's proof, late", keys.Captcha, after(5*time.Minute, keys.Captcha), false, ProofExpired},
		{"a picture's proof, just in time", keys.Captcha, after(5*time.Minute-time.Microsecond, keys.Captcha), true, ""},
		{"a code, confirmed", keys.Verify, after(0, keys.Verify), true, ""},
		{"a code's proof, late", keys.Verify, after(10*time.Minute, keys.Verify), false, ProofExpired},
		{"rubbish", keys.Captcha, func(w *world, v *Verdict) Attempt { return proof("rubbish") }, false, ProofInvalid},
		{"a challenge nobody solved", keys.Captcha, func(w *world, v *Verdict) Attempt { return proof(v.Challenge.Token) }, false, ProofInvalid},
		{"a code nobody confirmed", keys.Verify, func(w *world, v *Verdict) Attempt { return proof(v.Challenge.Token) }, false, ProofInvalid},
		{"an attempt", keys.Captcha, func(w *world, v *Verdict) Attempt {
			return proof(w.let(Attempt{Account: bobs, IP: "203.0.113.1"}).Attempt)
		}, false, ProofInvalid},
		{"a device", keys.Captcha, func(w *world, v *Verdict) Attempt { return proof(w.signIn(bobs, "203.0.113.1", "")) }, false, ProofInvalid},
		{"sealed by a stranger", keys.Captcha, func(w *world, v *Verdict) Attempt {
			p := w.c.Secrets.openProof(w.solve(v, keys.Captcha))
			return proof(secrets(w, "a secret that is not the guard's").seal(forProof, p.encode()))
		}, false, ProofInvalid},
		{"a picture's, from another address", keys.Captcha, elsewhere(Attempt{Account: alice, IP: "203.0.113.1"}, keys.Captcha), true, ""},
		{"a wait's, from next door", keys.Delay, elsewhere(Attempt{Account: alice, IP: "192.0.2.99"}, keys.Delay), true, ""},
		{"a wait's, from another network", keys.Delay, elsewhere(Attempt{Account: alice, IP: "192.0.3.7"}, keys.Delay), false, ProofWrongAddress},
		{"a wait's, for another account", keys.Delay, elsewhere(Attempt{Account: bobs, IP: home}, keys.Delay), false, ProofWrongAccount},
		{"a picture's, for another account", keys.Captcha, elsewhere(Attempt{Account: bobs, IP: home}, keys.Captcha), false, ProofWrongAccount},
		{"a code's, for another account", keys.Verify, elsewhere(Attempt{Account: bobs, IP: home}, keys.Verify), false, ProofWrongAccount},
		{"a code's, for another flow", keys.Verify, elsewhere(Attempt{Account: alice, IP: home, Flow: "otp"}, keys.Verify), false, ProofInvalid},
		{"a code's, for another realm", keys.Verify, elsewhere(Attempt{Account: alice, IP: home, Realm: "shop"}, keys.Verify), false, ProofInvalid},
		{"a wait's, for another realm", keys.Delay, elsewhere(Attempt{Account: alice, IP: home, Realm: "shop"}, keys.Delay), false, ProofInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, withPolicy(slow()))
			v := w.at(alice, home, c.rung)
			v = w.try(c.shown(w, v))
			if v.Proceed != c.let || v.ProofError != c.why {
				t.Errorf("%s, proof error %q, reasons %v; want let %v, %q", v.Action, v.ProofError, v.Reasons, c.let, c.why)
			}
			if !v.Proceed && v.Challenge == nil {
				t.Error("nothing is offered")
			}
		})
	}
}

// TestAProofIsWorthSoManyGuesses: five for a code, one for anything else, and
// none is spent by an attempt that it does not let through or does not need.
func TestAProofIsWorthSoManyGuesses(t *testing.T) {
	for rung, want := range map[keys.Rung]int{keys.Delay: 1, keys.Captcha: 1, keys.Verify: 5} {
		w := newWorld(t)
		v := w.at(alice, home, rung)
		var proof string
		if rung > keys.Delay {
			proof = w.solve(v, rung)
		} else {
			proof = w.waited(v)
		}
		// Where nothing is asked, it stays unspent.
		w.let(Attempt{Account: alice, IP: "203.0.113.1", Flow: "otp"})
		got := 0
		for range 8 {
			v := w.try(Attempt{Account: alice, IP: home, Proof: proof})
			if v.Proceed {
				got++
			} else if v.ProofError != ProofSpent {
				t.Errorf("%s: %q, want spent", rung, v.ProofError)
			}
		}
		if got != want {
			t.Errorf("%s: %d guesses, want %d", rung, got, want)
		}
	}
}

func TestAnUnneededOrInsufficientProofStaysUnspent(t *testing.T) {
	w := newWorld(t)
	v := w.at(alice, home, keys.Captcha)
	proof := w.solve(v, keys.Captcha)
	w.let(Attempt{Account: alice, IP: "203.0.113.1", Proof: proof})
	w.at(alice, home, keys.Verify) // by other proofs
	if v := w.try(Attempt{Account: alice, IP: home, Proof: proof}); v.ProofError != ProofInsufficient {
		t.Fatalf("%q, want insufficient", v.ProofError)
	}
	w.pass(4 * time.Minute) // enough for a captcha to be enough again
	w.let(Attempt{Account: alice, IP: home, Proof: proof})
	if v := w.try(Attempt{Account: alice, IP: home, Proof: proof}); v.ProofError != ProofSpent {
		t.Errorf("%q, want spent", v.ProofError)
	}
}

// TestAChallengeSolvedAgainIsNoSecondProof holds over the challenge's whole
// life, although the first proof of it is long dead.
func TestAChallengeSolvedAgainIsNoSecondProof(t *testing.T) {
	w := newWorld(t, withPolicy(slow()))
	v := w.at(alice, home, keys.Captcha)
	for i := range 9 {
		x := w.try(Attempt{Account: alice, IP: home, Proof: w.solve(v, keys.Captcha)})
		if x.Proceed != (i == 0) || i > 0 && x.ProofError != ProofSpent {
			t.Fatalf("solved %d times: %s, %q", i+1, x.Action, x.ProofError)
		}
		// Others' marks, so that the store tidies up.
		for n := range 40 {
			other, ip := fmt.Sprintf("other %d %d", i, n), fmt.Sprintf("198.51.%d.%d", i, n)
			w.let(Attempt{Account: other, IP: ip, Proof: w.waited(w.at(other, ip, keys.Delay))})
		}
		w.pass(66 * time.Second)
	}
	w.pass(6 * time.Second)
	_, err := w.g.Solve(context.Background(), v.Challenge.Token, keys.Captcha)
	wantFault(t, err, "challenge", "expired")
}

func TestAWaitMustCoverTheWaitThatIsNeededNow(t *testing.T) {
	w := newWorld(t)
	first := w.at(alice, home, keys.Delay) // one second
	second := w.try(Attempt{Account: alice, IP: home})
	if first.RetryAfter != time.Second || second.RetryAfter != time.Second {
		t.Fatalf("waits of %v and %v, want 1 s", first.RetryAfter, second.RetryAfter)
	}
	early, late := w.waited(first), w.waited(second)
	w.let(Attempt{Account: alice, IP: home, Proof: early})
	v := w.try(Attempt{Account: alice, IP: home, Proof: late})
	if v.ProofError != ProofTooEarly || v.RetryAfter != 2*time.Second {
		t.Errorf("%q, wait %v: want too_early, 2 s", v.ProofError, v.RetryAfter)
	}
}

func TestWhoComesTooEarlyDoesNotWaitTwice(t *testing.T) {
	w := newWorld(t, withPolicy(slow()))
	v := w.at(alice, home, keys.Delay)
	w.pass(900 * time.Millisecond)
	again := w.try(Attempt{Account: alice, IP: home, Proof: v.Challenge.Token})
	if again.ProofError != ProofTooEarly || again.Challenge.Token != v.Challenge.Token || again.RetryAfter != 100*time.Millisecond {
		t.Errorf("%q, the same ticket %v, wait %v", again.ProofError, again.Challenge.Token == v.Challenge.Token, again.RetryAfter)
	}
	w.pass(again.RetryAfter)
	w.let(Attempt{Account: alice, IP: home, Proof: again.Challenge.Token})
}

func TestSolveTakesWhatTheChallengeOffers(t *testing.T) {
	w := newWorld(t)
	for asked, ways := range map[keys.Rung]map[keys.Rung]bool{
		keys.Delay:   {keys.Delay: false, keys.Captcha: false, keys.Verify: true},
		keys.Captcha: {keys.Delay: false, keys.Captcha: true, keys.Verify: true},
		keys.Verify:  {keys.Delay: false, keys.Captcha: false, keys.Verify: true},
	} {
		v := w.at("asked for "+asked.String(), "203.0.113."+itoa(int(asked)), asked)
		for rung, ok := range ways {
			if _, err := w.g.Solve(context.Background(), v.Challenge.Token, rung); (err == nil) != ok {
				t.Errorf("%s solved by %s: %v", asked, rung, err)
			}
		}
	}
	_, err := w.g.Solve(context.Background(), "rubbish", keys.Verify)
	wantFault(t, err, "challenge", "invalid")
}
