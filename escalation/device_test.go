package escalation

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
)

func (w *world) revoke(account string) {
	w.Helper()
	if err := w.g.Revoke(context.Background(), "", account); err != nil {
		w.Fatal(err)
	}
}

func TestStrangersDoNotTouchAKnownDevice(t *testing.T) {
	w := newWorld(t)
	device := w.signIn(alice, home, "")
	if n := w.press(alice); n < 19 {
		t.Fatalf("only %d guesses: the strangers did not press", n)
	}
	// Even behind the owner's own address, a code is all that strangers get.
	if v := w.try(Attempt{Account: alice, IP: "203.0.113.9"}); v.Action != ActionVerify {
		t.Fatalf("a stranger gets %s", v.Action)
	}
	v := w.let(Attempt{Account: alice, IP: "203.0.113.9", Device: device})
	if !v.KnownDevice || len(v.Reasons) != 0 {
		t.Errorf("known %v, reasons %v", v.KnownDevice, v.Reasons)
	}
	want := []TierLevel{{"device", "burst", 9, 10, keys.Allow}, {"device", "sustained", 29, 30, keys.Allow}, {"device", "shared", 59, 60, keys.Allow}}
	if !slices.Equal(v.Tiers, want) {
		t.Errorf("tiers %v, want %v", v.Tiers, want)
	}
}

func TestADeviceThatRunsOutIsTrustedAgainWhenFull(t *testing.T) {
	w := newWorld(t)
	device := w.signIn(alice, home, "")
	a := Attempt{Account: alice, IP: "203.0.113.9", Device: device}
	for i := range 10 {
		if v := w.let(a); !v.KnownDevice {
			t.Fatalf("guess %d: not known", i)
		}
	}
	spent := func(want bool) {
		t.Helper()
		v := w.try(a)
		if got := slices.Contains(v.Reasons, ReasonDeviceSpent); got != want || v.KnownDevice == want {
			t.Fatalf("spent is %v, known %v, reasons %v", got, v.KnownDevice, v.Reasons)
		}
	}
	spent(true)
	w.pass(time.Hour) // burst is full again, sustained is not
	spent(true)
	w.pass(23 * time.Hour)
	spent(false)
}

func TestAllDevicesOfAnAccountShareOneLimit(t *testing.T) {
	w := newWorld(t)
	var devices []string
	for range 7 {
		devices = append(devices, w.signIn(alice, home, ""))
	}
	known := 0
	for i := range 70 {
		if w.try(Attempt{Account: alice, IP: home, Device: devices[i%7]}).KnownDevice {
			known++
		}
	}
	if known != 60 {
		t.Errorf("%d guesses on known devices, want 60", known)
	}
	if w.signIn(bobs, home, ""); !w.try(Attempt{Account: bobs, IP: home, Device: w.signIn(bobs, home, "")}).KnownDevice {
		t.Error("another account's device is not known")
	}
}

// bend changes one character.
func bend(s string, at int) string {
	c := "x"
	if s[at] == 'x' {
		c = "y"
	}
	return s[:at] + c + s[at+1:]
}

const bobs = "bob@example.com"

func TestARevocationEndsDevicesPlacesAndProofs(t *testing.T) {
	w := newWorld(t)
	device := w.signIn(alice, home, "")
	w.press(alice)
	proof := w.solve(w.try(Attempt{Account: alice, IP: "203.0.113.9"}), keys.Verify)
	w.pass(time.Second)
	w.revoke("  ALICE@example.com ")
	w.pass(time.Second)

	v := w.try(Attempt{Account: alice, IP: home, Device: device})
	if v.KnownDevice || v.Familiar || !slices.Contains(v.Reasons, ReasonDeviceInvalid) {
		t.Errorf("known %v, familiar %v, reasons %v", v.KnownDevice, v.Familiar, v.Reasons)
	}
	if v := w.try(Attempt{Account: alice, IP: home, Proof: proof}); v.Proceed || v.ProofError != ProofInvalid {
		t.Errorf("a proof from before: %s, %q", v.Action, v.ProofError)
	}
	fresh := w.solve(v, keys.Verify)
	v = w.let(Attempt{Account: alice, IP: home, Proof: fresh})
	device = w.report(v.Attempt, alice, "success", device).Device
	if v := w.try(Attempt{Account: alice, IP: home, Device: device}); !v.KnownDevice {
		t.Errorf("a device minted after the revocation is not known: %v", v.Reasons)
	}
}

// TestAnAttemptFromBeforeARevocationMintsNothingThatCounts: the thief has
// guessed the old password, and reports after it was changed.
func TestAnAttemptFromBeforeARevocationMintsNothingThatCounts(t *testing.T) {
	w := newWorld(t)
	v := w.let(Attempt{Account: alice, IP: home})
	w.pass(time.Second)
	w.revoke(alice)
	w.pass(time.Second)
	device := w.report(v.Attempt, alice, "success", "").Device
	v = w.try(Attempt{Account: alice, IP: home, Device: device})
	if v.KnownDevice || v.Familiar {
		t.Errorf("known %v, familiar %v", v.KnownDevice, v.Familiar)
	}
}

func TestABadDeviceTokenIsNeverAnError(t *testing.T) {
	p := &Policy{Realms: map[string]*Realm{"default": nil, "shop": nil}}
	w := newWorld(t, withPolicy(p))
	good := w.signIn(alice, home, "")
	shop := w.let(Attempt{Account: alice, IP: home, Realm: "shop"})
	other := w.report(shop.Attempt, alice, "success", "").Device
	for name, c := range map[string]struct {
		token  string
		reason bool
	}{
		"none":            {"", false},
		"rubbish":         {"hello", true},
		"binary":          {"\x00\xff", true},
		"too long":        {string(make([]byte, 1<<20)), true},
		"bent":            {bend(good, 40), true},
		"another realm's": {other, true},
		"an attempt":      {shop.Attempt, true},
		"another's":       {w.signIn(bobs, home, ""), false}, // a shared browser
	} {
		v := w.try(Attempt{Account: alice, IP: "203.0.113.9", Device: c.token})
		if v.KnownDevice || slices.Contains(v.Reasons, ReasonDeviceInvalid) != c.reason {
			t.Errorf("%s: known %v, reasons %v", name, v.KnownDevice, v.Reasons)
		}
	}
	w.pass(90*24*time.Hour - time.Second)
	if v := w.try(Attempt{Account: alice, IP: home, Device: good}); !v.KnownDevice {
		t.Errorf("not known on the last day: %v", v.Reasons)
	}
	w.pass(time.Second)
	if v := w.try(Attempt{Account: alice, IP: home, Device: good}); v.KnownDevice || !slices.Contains(v.Reasons, ReasonDeviceInvalid) {
		t.Errorf("known after 90 days: %v", v.Reasons)
	}
}

// TestAPlantedTokenSharesNothing: an attacker plants his own device token in
// his victim's browser, and keeps a copy.
func TestAPlantedTokenSharesNothing(t *testing.T) {
	w := newWorld(t)
	planted := w.signIn("mallory", "203.0.113.66", "")
	victims := w.signIn(alice, home, planted)
	m := w.c.Secrets.openDevice(DefaultRealm, planted)
	v := w.c.Secrets.openDevice(DefaultRealm, victims)
	if len(v.entries) != 2 || v.entries[0].id == m.entries[0].id {
		t.Fatalf("the victim's token is %v, the planted one %v", v, m)
	}
	for range 12 { // the attacker uses up what he can reach
		w.try(Attempt{Account: alice, IP: "203.0.113.66", Device: planted})
		w.try(Attempt{Account: "mallory", IP: "203.0.113.66", Device: planted})
	}
	if v := w.try(Attempt{Account: alice, IP: "203.0.113.66", Device: planted}); v.KnownDevice {
		t.Error("the planted token is a known device of the victim's")
	}
	if v := w.try(Attempt{Account: alice, IP: home, Device: victims}); !v.KnownDevice || v.Tiers[0].Left != 9 {
		t.Errorf("the victim's device: known %v, %v", v.KnownDevice, v.Tiers)
	}
}

func TestADeviceHoldsEightAccountsAndDropsTheOldest(t *testing.T) {
	w := newWorld(t)
	device, account := "", func(i int) string { return fmt.Sprintf("account %d", i) }
	for i := range 10 {
		device = w.signIn(account(i), fmt.Sprintf("203.0.113.%d", i), device)
		w.pass(time.Second)
	}
	for i := range 10 {
		v := w.try(Attempt{Account: account(i), IP: home, Device: device})
		if v.KnownDevice != (i >= 2) {
			t.Errorf("account %d: known is %v", i, v.KnownDevice)
		}
	}
	// Coming back renews; nobody is held twice.
	device = w.signIn(account(2), "203.0.113.2", device)
	if d := w.c.Secrets.openDevice(DefaultRealm, device); len(d.entries) != 8 || d.entries[0].account != w.try(Attempt{Account: account(2), IP: home}).Account {
		t.Errorf("%d entries, first %v", len(d.entries), d.entries[0])
	}
}

func TestADeviceServesAllFlows(t *testing.T) {
	w := newWorld(t)
	device := w.signIn(alice, home, "")
	for _, flow := range Flows {
		if v := w.try(Attempt{Account: alice, IP: home, Flow: flow, Device: device}); !v.KnownDevice || v.Tiers[0].Left != 9 {
			t.Errorf("%s: known %v, %v", flow, v.KnownDevice, v.Tiers)
		}
	}
}

func TestAFamiliarPlaceSkipsWhatStrangersThereUsedUp(t *testing.T) {
	off := false
	for name, c := range map[string]struct {
		realm *Realm
		want  bool
	}{"on by default": {nil, true}, "off": {&Realm{FamiliarPlaces: &off}, false}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, withPolicy(&Policy{Realms: map[string]*Realm{"default": c.realm}}))
			w.signIn(alice, "2001:db8::1", "")
			for i := range 200 { // the whole office mistypes
				v := w.try(Attempt{Account: fmt.Sprintf("colleague %d", i), IP: "2001:db8::2"})
				if v.Action == ActionCaptcha {
					w.try(Attempt{Account: fmt.Sprintf("colleague %d", i), IP: "2001:db8::2", Proof: w.solve(v, keys.Captcha)})
				}
			}
			v := w.try(Attempt{Account: alice, IP: "2001:db8:0:0:ffff::3"})
			if v.Familiar != c.want || v.Proceed != c.want {
				t.Errorf("familiar %v, %s because of %v", v.Familiar, v.Action, v.Reasons)
			}
			for _, l := range v.Tiers {
				if skipped := l.Tier == "ip" || l.Tier == "network"; skipped && c.want {
					t.Errorf("%s is listed", l.Tier)
				}
			}
			w.pass(30 * 24 * time.Hour)
			if v := w.try(Attempt{Account: alice, IP: "2001:db8::1"}); v.Familiar {
				t.Error("familiar after 30 days")
			}
		})
	}
}

func TestAFamiliarPlaceIsNoPassForTheAccount(t *testing.T) {
	w := newWorld(t)
	w.signIn(alice, home, "")
	w.press(alice)
	if v := w.try(Attempt{Account: alice, IP: home}); !v.Familiar || v.Action != ActionVerify {
		t.Errorf("familiar %v, %s", v.Familiar, v.Action)
	}
}
