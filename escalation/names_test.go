package escalation

import (
	"strings"
	"testing"

	"github.com/guardd/guardd/keys"
)

func TestASealedNameOpensForItsAccountOnly(t *testing.T) {
	secret := []byte("0123456789abcdef0123456789abcdef")
	s, err := newNameSeal(secret, "shop")
	if err != nil {
		t.Fatal(err)
	}
	var a, b keys.Account
	a[0], b[0] = 1, 2
	for _, name := range []string{"a", "alice@example.com", strings.Repeat("x", 32), strings.Repeat("é", 256), "[x]=|"} {
		sealed := s.seal(name, a)
		if got := s.open(sealed, a); got != name {
			t.Errorf("%q opens as %q", name, got)
		}
		if strings.Contains(sealed, name) && len(name) > 1 || s.seal(name, a) == sealed {
			t.Errorf("%q is sealed as %s, or the same each time", name, sealed)
		}
		other, err := newNameSeal(secret, "other")
		if err != nil {
			t.Fatal(err)
		}
		tampered := []byte(sealed)
		tampered[20]++
		for why, got := range map[string]string{"another account": s.open(sealed, b), "another realm": other.open(sealed, a),
			"tampered": s.open(string(tampered), a), "cut": s.open(sealed[:10], a), "nothing": s.open("", a), "not told": (*nameSeal)(nil).open(sealed, a)} {
			if got != "" {
				t.Errorf("%s: %q opens as %q", why, name, got)
			}
		}
	}
	if len(s.seal("a", a)) != len(s.seal(strings.Repeat("a", 32), a)) {
		t.Error("the length tells how long a short name is")
	}
	if (*nameSeal)(nil).seal("alice", a) != "" {
		t.Error("a realm that has no names told seals one")
	}
}
