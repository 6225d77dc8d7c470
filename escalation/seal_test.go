package escalation

import (
	"bytes"
	"encoding/base64"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/guardd/guardd/keys"
)

func TestASealOpensForItsPurposeOnly(t *testing.T) {
	s, other := secrets(t), secrets(t, "another secret, also long enough")
	for _, p := range purposes {
		token := s.seal(p, []byte("plain"))
		if again := s.seal(p, []byte("plain")); again != token {
			t.Errorf("%s: the same plaintext seals to %s and %s", p, token, again)
		}
		for _, q := range purposes {
			plain, ok := s.open(q, token)
			if ok != (p == q) || ok && string(plain) != "plain" {
				t.Errorf("sealed for %s, opened for %s: %q, %v", p, q, plain, ok)
			}
		}
		// The purpose stands in clear at the head; changing it there opens nothing.
		b, _ := base64.RawURLEncoding.DecodeString(token)
		for _, q := range purposes {
			b[0] = q[0]
			if _, ok := s.open(q, base64.RawURLEncoding.EncodeToString(b)); ok != (p == q) {
				t.Errorf("a token for %s renamed to %s opens: %v", p, q, ok)
			}
		}
		if _, ok := other.open(p, token); ok {
			t.Errorf("%s: opens under another secret", p)
		}
	}
}

func TestEveryBentTokenIsForged(t *testing.T) {
	s := secrets(t)
	token := s.seal(forDevice, []byte("a plaintext of some length, so that there is a last character to bend"))
	for i := range token {
		for _, c := range "AQgw09-_azZ=+/\n\x00\xff" {
			bent := token[:i] + string(c) + token[i+1:]
			if _, ok := s.open(forDevice, bent); ok && bent != token {
				t.Fatalf("opens with character %d changed to %q", i, c)
			}
		}
		if _, ok := s.open(forDevice, token[:i]); ok {
			t.Fatalf("opens cut to %d characters", i)
		}
		if _, ok := s.open(forDevice, token[:i]+"\n"+token[i:]); ok {
			t.Fatalf("opens with a line break at %d: one token has two spellings", i)
		}
	}
	for _, tail := range []string{"A", "=", "==", "AAAA", " "} {
		if _, ok := s.open(forDevice, token+tail); ok {
			t.Errorf("opens with %q behind it", tail)
		}
	}
	if _, ok := s.open(forDevice, strings.Repeat("A", 1<<20)); ok {
		t.Error("a megabyte opens")
	}
}

func TestSecretsRotate(t *testing.T) {
	const a, b = "the first secret, long enough", "the second secret, long enough"
	old, both, moved, late := secrets(t, a), secrets(t, a, b), secrets(t, b, a), secrets(t, b)
	for name, c := range map[string]struct {
		by, to *Secrets
		opens  bool
	}{
		"old to both":   {old, both, true},
		"both to old":   {both, old, true}, // line two only opens, so the order of restarts does not matter
		"moved to both": {moved, both, true},
		"both to moved": {both, moved, true},
		"moved to late": {moved, late, true},
		"old to late":   {old, late, false},
	} {
		if _, ok := c.to.open(forProof, c.by.seal(forProof, nil)); ok != c.opens {
			t.Errorf("%s: opens is %v", name, ok)
		}
	}
}

func TestBadSecretsAreNamed(t *testing.T) {
	long := []byte("long enough to be a secret")
	for field, lines := range map[string][][]byte{
		"secrets":    nil,
		"secrets[0]": {[]byte("   short      \t   ")},
		"secrets[1]": {long, append([]byte("  "), long...)}, // the same twice
		"secrets[2]": {long, []byte("another that is long enough"), nil},
	} {
		_, err := NewSecrets(lines)
		wantFault(t, err, field, "")
	}
	a, err1 := GenerateSecrets()
	b, err2 := GenerateSecrets()
	if err1 != nil || err2 != nil || a.seals[0].id == b.seals[0].id {
		t.Error("two generated secrets are alike")
	}
}

// largestAttempt has the longest realm and as many limits, with as long
// numbers, as an attempt can take from at once. A known device's takes from no
// more than three.
func largestAttempt() *attemptToken {
	a := &attemptToken{
		scope: scope{strings.Repeat("r", 64), 3}, id: [16]byte(bytes.Repeat([]byte{1}, 16)),
		account: keys.Account(bytes.Repeat([]byte{2}, 16)), ip: keys.AddressOf(netip.MustParseAddr("2001:db8:ffff:ffff:ffff::1")),
		stamp: 4_000_000_000_000_000, born: 4_000_000_000_000_000 + keys.Day, listed: true, breached: true, degraded: true, familiar: true,
		ua: 255, tag: Tag{1}, instance: [8]byte{7},
	}
	for i := range 9 {
		a.took = append(a.took, keys.Took{Tier: keys.Tier(i % 5), Limit: 1<<32 - 1 - uint32(i),
			In: keys.Limit{Capacity: 1<<26 - 1, Count: 1<<52 + int64(i), Period: 1 << 26}})
	}
	return a
}

func TestTokensSurviveARoundTripWithinTheirSizes(t *testing.T) {
	s := secrets(t)
	a := largestAttempt()
	token := s.seal(forAttempt, a.encode())
	if got := s.openAttempt(token); !reflect.DeepEqual(got, a) || len(token) > maxAttemptToken {
		t.Errorf("attempt of %d characters: %+v", len(token), got)
	}
	known := largestAttempt()
	known.device, known.deviceID, known.tag, known.took = true, [16]byte{9}, Tag{}, known.took[:3]
	if got := s.openAttempt(s.seal(forAttempt, known.encode())); !reflect.DeepEqual(got, known) {
		t.Errorf("attempt on a known device: %+v", got)
	}
	c := &challengeToken{scope: a.scope, rung: keys.Delay, id: a.id, account: a.account, issued: a.stamp, born: a.stamp + 7,
		expires: a.stamp + 700e6, wait: 30e6, work: maxPowWork, name: strings.Repeat("n", keys.MaxAccount), ip: a.ip, returnURL: strings.Repeat("u", maxReturnURL)}
	token = s.seal(forChallenge, c.encode())
	if got := s.openChallenge(token); !reflect.DeepEqual(got, c) || len(token) > maxChallengeToken {
		t.Errorf("challenge of %d characters: %+v", len(token), got)
	}
	c.rung, c.wait, c.digits = keys.Captcha, 0, 999_999
	if got := s.openChallenge(s.seal(forChallenge, c.encode())); !reflect.DeepEqual(got, c) {
		t.Errorf("captcha: %+v", got)
	}
	p := &proofToken{scope: a.scope, rung: keys.Verify, id: a.id, account: a.account, born: a.stamp, expires: a.stamp + 1}
	if got := s.openProof(s.seal(forProof, p.encode())); !reflect.DeepEqual(got, p) {
		t.Errorf("proof: %+v", got)
	}
	p.rung, p.wait, p.network = keys.Delay, 30e6, a.ip.Wide()
	if got := s.openProof(s.seal(forProof, p.encode())); !reflect.DeepEqual(got, p) {
		t.Errorf("proof of work: %+v", got)
	}
	d := &deviceToken{realm: a.realm}
	for i := range maxDeviceAccounts {
		d.entries = append(d.entries, deviceEntry{keys.Account{byte(i)}, [16]byte{byte(i)}, a.stamp, a.stamp + int64(i)})
	}
	token = s.seal(forDevice, d.encode())
	if got := s.openDevice(a.realm, token); !reflect.DeepEqual(got, d) || len(token) > maxDeviceToken {
		t.Errorf("device of %d characters: %+v", len(token), got)
	}
	if s.openDevice("another", token) != nil {
		t.Error("a device token opens in another realm")
	}
}

// TestAPlaintextIsReadWholeOrNotAtAll cuts and lengthens what is inside a seal.
func TestAPlaintextIsReadWholeOrNotAtAll(t *testing.T) {
	c := &challengeToken{scope: scope{"default", 0}, rung: keys.Delay, issued: t0, born: t0, expires: t0 + 1, wait: 1, ip: keys.AddressOf(netip.MustParseAddr("192.0.2.7"))}
	p := &proofToken{scope: scope{"default", 0}, rung: keys.Captcha, born: t0, expires: t0 + 1}
	d := &deviceToken{realm: "default", entries: []deviceEntry{{issued: t0, born: t0 + 1}}}
	for name, x := range map[string]struct {
		plain []byte
		ok    func([]byte) bool
	}{
		"attempt":   {largestAttempt().encode()[:140], func(b []byte) bool { _, ok := decodeAttempt(b); return ok }},
		"challenge": {c.encode(), func(b []byte) bool { _, ok := decodeChallenge(b); return ok }},
		"proof":     {p.encode(), func(b []byte) bool { _, ok := decodeProof(b); return ok }},
		"device":    {d.encode(), func(b []byte) bool { _, ok := decodeDevice(b); return ok }},
	} {
		if name == "attempt" {
			a := largestAttempt()
			a.took, a.device, a.deviceID = nil, true, [16]byte{9}
			x.plain = a.encode()
		}
		if !x.ok(x.plain) {
			t.Fatalf("%s: is not read", name)
		}
		for i := range x.plain {
			if name == "device" && i == 8 {
				continue // a device token without entries is one too
			}
			if x.ok(x.plain[:i]) {
				t.Errorf("%s: read when cut to %d of %d", name, i, len(x.plain))
			}
		}
		if x.ok(append(bytes.Clone(x.plain), 0)) {
			t.Errorf("%s: read with a byte behind it", name)
		}
	}
}

// FuzzOpen: nothing panics, nothing opens that was not sealed, and what opens
// has one spelling.
func FuzzOpen(f *testing.F) {
	s := secrets(f)
	sealed := map[string]bool{}
	seed := func(p purpose, plain []byte) {
		token := s.seal(p, plain)
		sealed[token] = true
		f.Add(token, plain)
	}
	seed(forAttempt, largestAttempt().encode())
	seed(forChallenge, (&challengeToken{scope: scope{"default", 0}, rung: keys.Delay, ip: keys.AddressOf(netip.MustParseAddr("192.0.2.7"))}).encode())
	seed(forProof, (&proofToken{scope: scope{"default", 0}, rung: keys.Verify}).encode())
	seed(forDevice, (&deviceToken{realm: "default", entries: []deviceEntry{{}, {}}}).encode())
	f.Fuzz(func(t *testing.T, token string, plain []byte) {
		if (s.openAttempt(token) != nil || s.openChallenge(token) != nil || s.openProof(token) != nil ||
			s.openDevice("default", token) != nil) && !sealed[token] {
			t.Errorf("%q opens", token)
		}
		// What a seal holds is ours, but an older or newer version's may differ.
		if a, ok := decodeAttempt(plain); ok {
			if b, ok := decodeAttempt(a.encode()); !ok || !reflect.DeepEqual(a, b) {
				t.Errorf("%x is read as %+v, then as %+v", plain, a, b)
			}
		}
		if a, ok := decodeChallenge(plain); ok {
			if b, ok := decodeChallenge(a.encode()); !ok || !reflect.DeepEqual(a, b) {
				t.Errorf("%x is read as %+v, then as %+v", plain, a, b)
			}
		}
		if a, ok := decodeProof(plain); ok {
			if b, ok := decodeProof(a.encode()); !ok || *a != *b {
				t.Errorf("%x is read as %+v, then as %+v", plain, a, b)
			}
		}
		if a, ok := decodeDevice(plain); ok {
			if b, ok := decodeDevice(a.encode()); !ok || !reflect.DeepEqual(a, b) {
				t.Errorf("%x is read as %+v, then as %+v", plain, a, b)
			}
		}
	})
}
