package escalation

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
)

// counting counts the calls that reach the store.
type counting struct {
	*keys.Memory
	takes int
}

func (c *counting) Take(ctx context.Context, a *keys.Ask, ans *keys.Answer) error {
	c.takes++
	return c.Memory.Take(ctx, a, ans)
}

// flooded returns a world in which home has used up its requests, and its store.
func flooded(t *testing.T, change ...func(*Config)) (*world, *counting) {
	t.Helper()
	c := &counting{}
	w := newWorld(t, append(change, func(cfg *Config) {
		c.Memory = cfg.Store.(*keys.Memory)
		cfg.Store = c
	})...)
	return w, c
}

func (w *world) flood(ip string) (passed int) {
	w.Helper()
	for i := range 20_000 {
		if v := w.try(Attempt{Account: fmt.Sprint("somebody ", i), IP: ip}); slices.Contains(v.Reasons, ReasonFlood) {
			return passed
		}
		passed++
	}
	w.Fatal("never flooded")
	return 0
}

func TestAFloodIsAnsweredWithoutTheStore(t *testing.T) {
	w, store := flooded(t)
	if n := w.flood(home); n != 300 {
		t.Errorf("%d requests passed, want 300", n)
	}
	before := store.takes
	v := w.try(Attempt{Account: alice, IP: home})
	if v.Action != ActionCaptcha || !slices.Equal(v.Reasons, []string{ReasonFlood}) || v.Tiers == nil || len(v.Tiers) != 0 || v.Attempt != "" {
		t.Errorf("%+v", v)
	}
	if !slices.Equal(v.Challenge.Kinds, []string{"image", "audio", "code"}) {
		t.Errorf("offers %v", v.Challenge.Kinds)
	}
	if store.takes != before {
		t.Error("the store was asked")
	}
	if v := w.try(Attempt{Account: alice, IP: "203.0.113.1"}); !v.Proceed {
		t.Errorf("another address: %s", v.Action)
	}
	w.pass(time.Second) // five requests flow back
	for i := range 6 {
		v := w.try(Attempt{Account: alice, IP: home})
		if slices.Contains(v.Reasons, ReasonFlood) != (i == 5) {
			t.Errorf("request %d after a second: %v", i, v.Reasons)
		}
	}
}

func TestAProofOrADevicePassesAFlood(t *testing.T) {
	w, store := flooded(t)
	device := w.signIn(alice, home, "")
	w.flood(home)
	if v := w.let(Attempt{Account: alice, IP: home, Device: device}); !v.KnownDevice {
		t.Error("the device is not known")
	}
	v := w.try(Attempt{Account: bobs, IP: home})
	proof := w.solve(v, keys.Captcha)
	x := w.let(Attempt{Account: bobs, IP: home, Proof: proof})
	if !slices.Contains(x.Reasons, ReasonFlood) || len(x.Tiers) == 0 {
		t.Errorf("let through: %v, %v", x.Reasons, x.Tiers)
	}
	// The proof is spent, but authentic: it draws on its own guard, and no more
	// than that reaches the store.
	before := store.takes
	for range 100 {
		w.try(Attempt{Account: bobs, IP: home, Proof: proof})
	}
	if n := store.takes - before; n != ownPerMinute-1 {
		t.Errorf("%d requests reached the store under one proof, want %d", n, ownPerMinute-1)
	}
	before = store.takes
	for name, a := range map[string]Attempt{
		"rubbish":                  {Account: bobs, IP: home, Proof: "rubbish", Device: "rubbish"},
		"another account's proof":  {Account: "carol", IP: home, Proof: proof},
		"another account's device": {Account: "carol", IP: home, Device: device},
	} {
		if v := w.try(a); !slices.Equal(v.Reasons, []string{ReasonFlood}) || store.takes != before {
			t.Errorf("%s passes: %v", name, v.Reasons)
		}
	}
	w.pass(time.Hour)
	w.flood(home)
	before = store.takes
	if v := w.try(Attempt{Account: bobs, IP: home, Proof: proof}); v.ProofError != ProofExpired || store.takes != before {
		t.Errorf("an expired proof: %q", v.ProofError)
	}
	w.pass(91 * 24 * time.Hour)
	w.flood(home)
	before = store.takes
	if w.try(Attempt{Account: alice, IP: home, Device: device}); store.takes != before {
		t.Error("an expired device passes")
	}
}

// TestAStolenDeviceDoesNotStopTheOwnersProof: the device was revoked, but is
// authentic still, and thief and owner sit behind one address.
func TestAStolenDeviceDoesNotStopTheOwnersProof(t *testing.T) {
	w, _ := flooded(t)
	device := w.signIn(alice, home, "")
	w.pass(time.Hour)
	if err := w.g.Revoke(t.Context(), "", alice); err != nil {
		t.Fatal(err)
	}
	w.pass(time.Second)
	w.flood(home)
	for range 2 * ownPerMinute {
		w.try(Attempt{Account: alice, IP: home, Device: device})
	}
	proof := w.solve(w.try(Attempt{Account: alice, IP: home, Device: device}), keys.Verify)
	for range verifyUses {
		w.let(Attempt{Account: alice, IP: home, Device: device, Proof: proof})
	}
}

// TestAFloodOfAddressesDoesNotStopWhoHasSomethingToShow: a million addresses a
// minute fill what remembers addresses, and newcomers share counts there that are
// used up.
func TestAFloodOfAddressesDoesNotStopWhoHasSomethingToShow(t *testing.T) {
	w, _ := flooded(t, func(c *Config) { c.FloodAddresses = 64 })
	device := w.signIn(alice, home, "")
	rules := w.g.live.Load().realms[DefaultRealm].floods[0].share()
	for i := range 60_000 {
		var ans keys.Answer
		ask := keys.Ask{Now: w.clock.Load(), Rules: rules, Keys: []string{fmt.Sprint("address ", i)}, Cost: 300}
		if err := w.g.flood.buckets.Take(t.Context(), &ask, &ans); err != nil {
			t.Fatal(err)
		}
	}
	refused := 0
	for i := range 100 {
		v := w.try(Attempt{Account: fmt.Sprint("somebody ", i), IP: fmt.Sprintf("198.51.100.%d", i+1)})
		if slices.Contains(v.Reasons, ReasonFlood) {
			refused++
		}
	}
	if refused < 90 {
		t.Fatalf("%d of 100 new addresses are flooded", refused)
	}
	w.flood(home)
	if v := w.let(Attempt{Account: alice, IP: home, Device: device}); !v.KnownDevice {
		t.Error("the device is not known")
	}
	for i := range 20 {
		a := Attempt{Account: fmt.Sprint("newcomer ", i), IP: home}
		a.Proof = w.solve(w.try(a), keys.Verify)
		w.let(a)
	}
}

// TestAWaitIsNoPassThroughAFlood: waits are given away for nothing.
func TestAWaitIsNoPassThroughAFlood(t *testing.T) {
	w, store := flooded(t)
	ticket := w.waited(w.at(alice, home, keys.Delay))
	w.flood(home)
	before := store.takes
	v := w.try(Attempt{Account: alice, IP: home, Proof: ticket})
	if v.ProofError != ProofInsufficient || v.Action != ActionCaptcha || store.takes != before {
		t.Errorf("%s, %q, %d calls", v.Action, v.ProofError, store.takes-before)
	}
}

func TestTheFloodLimitIsSharedByInstancesAndGrowsWithTheAddress(t *testing.T) {
	w, _ := flooded(t, func(c *Config) { c.Instances = 3 })
	if n := w.flood(home); n != 100 {
		t.Errorf("%d requests passed at one of three instances, want 100", n)
	}
	w, _ = flooded(t)
	office, _ := keys.ParseAddress(home)
	w.put(keys.NewSpace("default", 0).K(office.Counted()), keys.EncodeK(4, t0+keys.Day))
	// The first answer tells how large the address is.
	if n := w.flood(home); n < 4*300-4 || n > 4*300 {
		t.Errorf("%d requests passed from an address of k = 4, want 1200", n)
	}
}

func TestWithoutAFloodRowThereIsNoGuard(t *testing.T) {
	w, store := flooded(t, withPolicy(login(Limit{Tier: "flood", Name: "burst", Off: true})))
	for range 400 {
		w.try(Attempt{Account: alice, IP: home})
	}
	if store.takes != 400 {
		t.Errorf("%d of 400 reached the store", store.takes)
	}
}

func TestAFloodInShadowStillGetsAnAttempt(t *testing.T) {
	w, _ := flooded(t, shadow)
	w.flood(home)
	v := w.try(Attempt{Account: alice, IP: home})
	if v.Would != ActionCaptcha || !v.Proceed || v.Attempt == "" || v.Challenge != nil {
		t.Fatalf("%+v", v)
	}
	if r := w.report(v.Attempt, alice, "success", ""); !r.Recorded || r.Device == "" {
		t.Errorf("%+v", r)
	}
}
