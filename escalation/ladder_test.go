package escalation

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/guardd/guardd/keys"
)

// rungOf is how much an action asks for.
func rungOf(a Action) int { return slices.Index(Actions, a) }

// TestMorePressureNeverLowersTheRung walks tables of random limits, thresholds
// and floors; time stands still.
func TestMorePressureNeverLowersTheRung(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	rungs := map[Action]int{}
	for range 300 {
		p := randomPolicy(r)
		if err := p.Validate(); err != nil {
			t.Fatalf("%v", err)
		}
		w := newWorld(t, withPolicy(p))
		last := 0
		for i := range 60 {
			v := w.try(Attempt{Account: alice, IP: home})
			rungs[v.Action]++
			if rungOf(v.Action) < last {
				t.Fatalf("guess %d: %s after %s", i, v.Action, Actions[last])
			}
			last = rungOf(v.Action)
			if v.Proceed {
				continue
			}
			if !slices.Contains(v.Challenge.Kinds, WayCode) {
				t.Fatalf("%s offers %v: no code", v.Action, v.Challenge.Kinds)
			}
			if len(v.Reasons) == 0 {
				t.Fatalf("%s for no reason", v.Action)
			}
			// One code always suffices.
			if v := w.try(Attempt{Account: alice, IP: home, Proof: w.solve(v, keys.Verify)}); !v.Proceed {
				t.Fatalf("a code is not enough: %s, %q", v.Action, v.ProofError)
			}
		}
	}
	for _, a := range []Action{ActionAllow, ActionDelay, ActionCaptcha, ActionVerify} {
		if rungs[a] < 100 {
			t.Errorf("%s was asked %d times: the walk does not reach it", a, rungs[a])
		}
	}
}

// randomPolicy gives pair and account random capacities and shares in order.
func randomPolicy(r *rand.Rand) *Policy {
	var rows []Limit
	for _, tier := range []string{"pair", "account", "ip"} {
		capacity := 10 + r.Int64N(40)
		s := []int{30 + r.IntN(69), 30 + r.IntN(69), 30 + r.IntN(69)}
		slices.Sort(s)
		l := Limit{Tier: tier, Name: "burst", Capacity: &capacity, Refill: refill("1/1h")}
		if s[0] == s[1] || s[1] == s[2] || r.IntN(2) == 0 {
			l.Verify = pct("empty")
		} else {
			l.Verify = pct(itoa(s[0]) + "%")
		}
		if s[1] == s[2] {
			s[2]++
		}
		l.Captcha, l.Delay = pct(itoa(s[1])+"%"), pct(itoa(s[2])+"%")
		if r.IntN(4) == 0 {
			l.Captcha = pct("never")
		}
		rows = append(rows, l)
	}
	return login(rows...)
}

// TestDecide is the score sheet of answers.
func TestDecide(t *testing.T) {
	rules := DefaultPolicy().compiled["default"].flows[0].kinds[kindDevice]
	answer := func(change func(*keys.Answer)) *keys.Answer {
		ans := &keys.Answer{}
		for i, tier := range rules.Tiers() {
			for j, l := range tier.Limits {
				ans.Limits = append(ans.Limits, keys.LimitAnswer{Tier: i, Index: j, Looked: true, Limit: l.Limit})
			}
		}
		change(ans)
		return ans
	}
	for name, c := range map[string]struct {
		ans     *keys.Answer
		action  Action
		reasons []string
	}{
		"nothing asked": {answer(func(a *keys.Answer) { a.Let = true }), ActionAllow, []string{}},
		"delay by two": {answer(func(a *keys.Answer) {
			a.Needed, a.Limits[0].Rung, a.Limits[2].Rung = keys.Delay, keys.Delay, keys.Delay
		}), ActionDelay, []string{"pair.burst", "account.burst"}},
		"captcha over a delay": {answer(func(a *keys.Answer) {
			a.Needed, a.Limits[0].Rung, a.Limits[3].Rung, a.Causes = keys.Captcha, keys.Delay, keys.Captcha, keys.ByPosture|keys.BySuspect|keys.ByFlood
		}), ActionCaptcha, []string{"account.sustained", "posture", "suspect", "flood"}},
		"verify": {answer(func(a *keys.Answer) {
			a.Needed, a.Limits[4].Rung, a.Device = keys.Verify, keys.Verify, keys.DeviceSpent
		}), ActionVerify,
			[]string{"ip.burst", "device.spent"}},
		"lifted by a proof": {answer(func(a *keys.Answer) { a.Needed, a.Limits[0].Rung, a.Let = keys.Delay, keys.Delay, true }), ActionAllow, []string{"pair.burst"}},
		"a bad device":      {answer(func(a *keys.Answer) { a.Let, a.Device = true, keys.DeviceInvalid }), ActionAllow, []string{"device.invalid"}},
		"not looked at":     {answer(func(a *keys.Answer) { a.Let, a.Limits[0].Looked = true, false }), ActionAllow, []string{}},
	} {
		d := Decide(rules, c.ans)
		if d.Action != c.action || !slices.Equal(d.Reasons, c.reasons) {
			t.Errorf("%s: %+v", name, d)
		}
		looked := 0
		for _, l := range c.ans.Limits {
			if l.Looked {
				looked++
			}
		}
		if len(d.Tiers) != looked {
			t.Errorf("%s: %d tiers for %d limits looked at", name, len(d.Tiers), looked)
		}
	}
}

func TestTiersComeInPolicyOrder(t *testing.T) {
	w := newWorld(t)
	state := keys.State{Baseline: keys.Limit{Capacity: 1000, Count: 1, Period: 1000}}
	if err := w.store.Put(context.Background(), keys.NewSpace("default", 0).State(), state.Encode(), keys.Day); err != nil {
		t.Fatal(err)
	}
	device := w.signIn(alice, "2001:db8::1", "")
	v := w.let(Attempt{Account: bobs, IP: "2001:db8:1::1", Device: device})
	var got []string
	for _, l := range v.Tiers {
		got = append(got, l.Tier+"."+l.Limit)
	}
	want := []string{"pair.burst", "pair.sustained", "account.burst", "account.sustained", "ip.burst", "ip.sustained", "network.burst", "network.sustained", "global.burst"}
	if !slices.Equal(got, want) {
		t.Errorf("tiers %v, want %v", got, want)
	}
}

// TestPostureAndSuspects is the score sheet of floors: what an attempt meets
// that nothing else is asked of.
func TestPostureAndSuspects(t *testing.T) {
	posture := func(p keys.Posture) func(*world) {
		return func(w *world) {
			s := keys.State{Posture: p, Until: t0 + keys.Day, Baseline: keys.Limit{Capacity: 100, Count: 1, Period: 1e6}}
			w.put(keys.NewSpace("default", 0).State(), s.Encode())
		}
	}
	suspect := func(ip string, wide bool) func(*world) {
		return func(w *world) {
			a, _ := keys.ParseAddress(ip)
			p := a.Counted()
			if wide {
				p = a.Wide()
			}
			w.put(keys.NewSpace("default", 0).Suspect(p), keys.EncodeUntil(t0+keys.Day))
		}
	}
	for name, c := range map[string]struct {
		set    func(*world)
		who    string // "", "device" or "place"
		action Action
		reason string
		global int64 // capacity of the global tier; 0: not listed
	}{
		"normal":                 {posture(keys.Normal), "", ActionAllow, "", 100},
		"elevated":               {posture(keys.Elevated), "", ActionAllow, "", 50},
		"high":                   {posture(keys.High), "", ActionDelay, "posture", 20},
		"critical":               {posture(keys.Critical), "", ActionCaptcha, "posture", 0},
		"critical, device":       {posture(keys.Critical), "device", ActionAllow, "", 0},
		"critical, place":        {posture(keys.Critical), "place", ActionAllow, "", 0},
		"suspect address":        {suspect("203.0.113.9", false), "", ActionCaptcha, "suspect", 0},
		"suspect network":        {suspect("203.0.113.1", true), "", ActionCaptcha, "suspect", 0},
		"suspect, device":        {suspect("203.0.113.9", true), "device", ActionAllow, "", 0},
		"suspect, place":         {suspect("203.0.113.9", true), "place", ActionAllow, "", 0},
		"a neighbour is suspect": {suspect("203.0.113.1", false), "", ActionAllow, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := Attempt{Account: alice, IP: "203.0.113.9"}
			switch c.who {
			case "device":
				a.Device = w.signIn(alice, home, "")
			case "place":
				w.signIn(alice, a.IP, "")
			}
			c.set(w)
			v := w.try(a)
			if v.Action != c.action || c.reason != "" && !slices.Equal(v.Reasons, []string{c.reason}) {
				t.Errorf("%s because of %v, want %s because of %s", v.Action, v.Reasons, c.action, c.reason)
			}
			var global int64
			for _, l := range v.Tiers {
				if l.Tier == "global" {
					global = l.Capacity
				}
			}
			if global != c.global {
				t.Errorf("global holds %d, want %d", global, c.global)
			}
		})
	}
}

func (w *world) put(key string, value []byte) {
	w.Helper()
	if err := w.store.Put(context.Background(), key, value, keys.Day); err != nil {
		w.Fatal(err)
	}
}
