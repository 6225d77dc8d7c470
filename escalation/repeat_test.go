package escalation

import "testing"

// This file holds what a repeated request_id gets where its first answer was
// given under other circumstances.

func TestARepeatInShadowTakesOnce(t *testing.T) {
	w := newWorld(t, shadow)
	for range 6 {
		w.try(Attempt{Account: alice, IP: home})
	}
	a := Attempt{Account: alice, IP: home, RequestID: "r"}
	first := w.try(a)
	again := w.try(a)
	if first.Would != ActionCaptcha || again.Would != first.Would || !again.Replayed || again.Attempt != first.Attempt {
		t.Errorf("first %+v\nagain %+v", first, again)
	}
	if v := w.try(Attempt{Account: alice, IP: home}); v.Tiers[0].Left != first.Tiers[0].Left-1 {
		t.Errorf("%d left after one guess more, had %d", v.Tiers[0].Left, first.Tiers[0].Left)
	}
}

// TestARepeatOfAShadowAnswerIsNoAttemptWhereItIsRefused: while shadow is being
// switched off, the repeat may come to an instance that enforces.
func TestARepeatOfAShadowAnswerIsNoAttemptWhereItIsRefused(t *testing.T) {
	w := newWorld(t, shadow)
	for range 6 {
		w.try(Attempt{Account: alice, IP: home})
	}
	a := Attempt{Account: alice, IP: home, RequestID: "r"}
	w.try(a)
	w.c.Shadow = false
	w.g = w.guard(w.c)
	if v := w.try(a); v.Proceed || v.Attempt != "" || v.Challenge == nil {
		t.Errorf("%+v", v)
	}
}

// TestARepeatWithoutTheDevicesSecret: while secrets rotate, the repeat may come
// to an instance that cannot read the device token of the first.
func TestARepeatWithoutTheDevicesSecret(t *testing.T) {
	pepper := func(c *Config) {
		c.Policy = logged(&Policy{Realms: map[string]*Realm{"default": {PepperFile: "pepper", Pepper: testSecret}}})
	}
	w := newWorld(t, pepper)
	a := Attempt{Account: alice, IP: home, Device: w.signIn(alice, home, ""), RequestID: "r"}
	if v := w.let(a); !v.KnownDevice {
		t.Fatalf("%+v", v)
	}
	w.c.Secrets = secrets(t, "another secret, just as long")
	w.g = w.guard(w.c)
	v := w.let(a)
	if !v.Replayed {
		t.Fatalf("%+v", v)
	}
	w.report(v.Attempt, alice, "failure", "")
}
