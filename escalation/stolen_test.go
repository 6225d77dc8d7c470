package escalation

import (
	"testing"
	"time"
)

// TestWhatAStolenDeviceCanDo: guess as often as the device's own limits hold,
// then no more than any stranger; the owner's other device and code are not
// touched, and a revocation ends it.
func TestWhatAStolenDeviceCanDo(t *testing.T) {
	w := newMailed(t)
	stolen, kept := w.signIn(alice, home, ""), w.signIn(alice, home, "")
	thief := Attempt{Account: alice, IP: "203.0.113.66", Device: stolen}
	known := 0
	for range 40 {
		if w.try(thief).KnownDevice {
			known++
		}
	}
	if known != 10 { // device.burst
		t.Errorf("%d guesses on the stolen device, want 10", known)
	}
	if v := w.try(thief); v.Proceed || v.KnownDevice {
		t.Errorf("the thief goes on: %s", v.Action)
	}
	if v := w.let(Attempt{Account: alice, IP: home, Device: kept}); !v.KnownDevice {
		t.Error("the owner's own device is not known any more")
	}
	w.pass(25 * time.Hour) // the stolen device is full, and trusted, again
	if !w.let(thief).KnownDevice {
		t.Fatal("the device is not trusted when it is full again")
	}
	w.revoke(alice)
	w.pass(time.Second)
	if w.try(thief).KnownDevice {
		t.Error("a revocation does not end it")
	}
}
