package escalation

import (
	"encoding/hex"
	"testing"

	"github.com/guardd/guardd/keys"
)

// TestSuspectPassword: a password that is tried on many accounts is marked by the
// tag that events have, and asks strangers, whoever they are, until tomorrow's
// key; whoever is known is asked for nothing.
func TestSuspectPassword(t *testing.T) {
	const tag, other = "00112233445566778899aabbccddeeff", "ffeeddccbbaa99887766554433221100"
	w := newWorld(t)
	first := w.let(Attempt{Account: alice, IP: "203.0.113.9", PasswordTag: tag})
	w.put(keys.NewSpace("default", 0).SuspectTag(hex.EncodeToString(first.Tag[:])), keys.EncodeUntil(t0+keys.Day))
	device := w.signIn("known@example.com", "192.0.2.4", "")
	for name, c := range map[string]struct {
		a      Attempt
		action Action
	}{
		"the password":          {Attempt{Account: bobs, IP: "198.51.100.1", PasswordTag: tag}, ActionCaptcha},
		"in capitals":           {Attempt{Account: bobs, IP: "198.51.100.1", PasswordTag: "00112233445566778899AABBCCDDEEFF"}, ActionCaptcha},
		"another":               {Attempt{Account: bobs, IP: "198.51.100.1", PasswordTag: other}, ActionAllow},
		"none":                  {Attempt{Account: bobs, IP: "198.51.100.1"}, ActionAllow},
		"on a known device":     {Attempt{Account: "known@example.com", IP: "198.51.100.1", Device: device, PasswordTag: tag}, ActionAllow},
		"from a familiar place": {Attempt{Account: "known@example.com", IP: "192.0.2.4", PasswordTag: tag}, ActionAllow},
	} {
		v := w.try(c.a)
		if v.Action != c.action || (c.action == ActionCaptcha) != (len(v.Reasons) == 1 && v.Reasons[0] == ReasonSuspect) {
			t.Errorf("%s: %s because of %v, want %s", name, v.Action, v.Reasons, c.action)
		}
	}
}
