package escalation_test

import (
	"errors"
	"strings"
	"testing"

	. "github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
)

// What an unknown device meets while the store is gone is the realm's choice,
// flow by flow; a known device passes whatever it is.
func TestWhatAnOutageAsksOfUnknownDevicesIsPolicy(t *testing.T) {
	p := &Policy{Realms: map[string]*Realm{DefaultRealm: {
		Delivery: Delivery{Driver: "log"}, StoreGone: "challenge",
		Flows: map[string]*Flow{"otp": {StoreGone: "closed"}, "reset": {StoreGone: "local"}},
	}}}
	s := &memory{Memory: keys.NewMemory(keys.MemoryConfig{})}
	fallback := keys.NewFallback(keys.FallbackConfig{Primary: s, Local: keys.NewMemory(keys.MemoryConfig{}), Instances: 1})
	secrets, err := NewSecrets([][]byte{[]byte("the secret of all instances")})
	if err != nil {
		t.Fatal(err)
	}
	g := NewGuard(t, Config{Store: fallback, Records: fallback, Policy: p, Secrets: secrets})
	f := &fleet{T: t, guards: []*Guard{g}}
	attempt := func(flow string) Attempt { return Attempt{Account: "alice", IP: "192.0.2.7", Flow: flow} }
	known := attempt("login")
	known.Device = f.report(0, f.check(0, known), "alice", "success", "").Device
	for _, flow := range []string{"login", "otp", "reset", "signup"} {
		if v := f.check(0, attempt(flow)); v.Action != ActionAllow {
			t.Fatalf("%s, with the store: %s", flow, v.Action)
		}
	}
	s.gone()
	for flow, want := range map[string]Action{"login": ActionCaptcha, "otp": ActionVerify, "reset": ActionAllow, "signup": ActionCaptcha} {
		v := f.check(0, attempt(flow))
		if v.Action != want || !v.Degraded || (want != ActionAllow) != strings.Contains(strings.Join(v.Reasons, " "), ReasonStoreGone) {
			t.Errorf("%s: %s %v, want %s", flow, v.Action, v.Reasons, want)
		}
		a := attempt(flow)
		a.Device = known.Device
		if v := f.check(0, a); !v.KnownDevice || !v.Proceed || !v.Degraded {
			t.Errorf("%s, on a known device: %s %v", flow, v.Action, v.Reasons)
		}
	}
	a := attempt("login")
	a.Proof = f.solve(f.check(0, a), keys.Captcha)
	if v := f.check(0, a); !v.Proceed {
		t.Errorf("with a solved captcha: %s %s", v.Action, v.ProofError)
	}
	s.heal()
	if v := f.check(0, attempt("signup")); v.Action != ActionAllow {
		t.Errorf("after the outage: %s", v.Action)
	}
}

func TestAChoiceThatIsNoneIsRefusedByName(t *testing.T) {
	p := &Policy{Realms: map[string]*Realm{DefaultRealm: {Delivery: Delivery{Driver: "log"}, StoreGone: "open",
		Flows: map[string]*Flow{"otp": {StoreGone: "shut"}}}}}
	var faults Faults
	if err := p.Validate(); !errors.As(err, &faults) || len(faults) != 2 ||
		faults[0].Field != "realms.default.store_gone" || faults[1].Field != "realms.default.flows.otp.store_gone" {
		t.Errorf("%v", err)
	}
}
