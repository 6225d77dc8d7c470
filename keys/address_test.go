package keys

import (
	"errors"
	"testing"
)

func TestAddressesAreCanonicalByBits(t *testing.T) {
	for _, x := range []struct{ in, want, counted, wide string }{
		{"203.0.113.7", "203.0.113.7", "203.0.113.7/32", "203.0.113.0/24"},
		{"203.0.113.7:443", "203.0.113.7", "203.0.113.7/32", "203.0.113.0/24"},
		{" 203.0.113.7 ", "203.0.113.7", "203.0.113.7/32", "203.0.113.0/24"},
		{"::ffff:203.0.113.7", "203.0.113.7", "203.0.113.7/32", "203.0.113.0/24"},
		{"::ffff:cb00:7107", "203.0.113.7", "203.0.113.7/32", "203.0.113.0/24"},
		{"[::ffff:203.0.113.7]:80", "203.0.113.7", "203.0.113.7/32", "203.0.113.0/24"},
		{"64:ff9b::203.0.113.7", "203.0.113.7", "203.0.113.7/32", "203.0.113.0/24"},
		{"64:ff9b::cb00:7107", "203.0.113.7", "203.0.113.7/32", "203.0.113.0/24"},
		{"64:ff9b:1::cb00:7107", "64:ff9b:1::cb00:7107", "64:ff9b:1::/64", "64:ff9b:1::/48"}, // a local NAT64 is not ours to know
		{"::203.0.113.7", "::cb00:7107", "::/64", "::/48"},                                   // v4-compatible is long gone
		{"2001:DB8:0:0:0:0:0:1", "2001:db8::1", "2001:db8::/64", "2001:db8::/48"},
		{"2001:db8:1:2:3:4:5:6", "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64", "2001:db8:1::/48"},
		{"[2001:db8::1]", "2001:db8::1", "2001:db8::/64", "2001:db8::/48"},
		{"[2001:db8::1]:8443", "2001:db8::1", "2001:db8::/64", "2001:db8::/48"},
		{"fe80::1%eth0", "fe80::1", "fe80::/64", "fe80::/48"},
		{"[fe80::1%eth0]:22", "fe80::1", "fe80::/64", "fe80::/48"},
		{"::1", "::1", "::/64", "::/48"},
		{"0.0.0.0", "0.0.0.0", "0.0.0.0/32", "0.0.0.0/24"},
	} {
		a, err := ParseAddress(x.in)
		if err != nil {
			t.Errorf("%q: %v", x.in, err)
			continue
		}
		if a.String() != x.want || a.Counted().String() != x.counted || a.Wide().String() != x.wide {
			t.Errorf("%q is %s, %s, %s", x.in, a, a.Counted(), a.Wide())
		}
		if b := AddressOf(a.Addr()); b != a {
			t.Errorf("%q twice is %s", x.in, b)
		}
	}
}

func TestAddressesThatAreRefused(t *testing.T) {
	for in, want := range map[string]Fault{
		"":                       FaultEmpty,
		"  ":                     FaultEmpty,
		"203.0.113.7, 10.0.0.1":  FaultList,
		"203.0.113.7,10.0.0.1":   FaultList,
		"203.0.113.7 10.0.0.1":   FaultList,
		"203.0.113.7;10.0.0.1":   FaultList,
		"203.0.113.7\n10.0.0.1":  FaultList,
		"for=203.0.113.7":        FaultNotAddress,
		"unknown":                FaultNotAddress,
		"localhost":              FaultNotAddress,
		"example.com:443":        FaultNotAddress,
		"203.0.113":              FaultNotAddress,
		"203.0.113.07":           FaultNotAddress, // octal to some
		"203.0.113.256":          FaultNotAddress,
		"3405803783":             FaultNotAddress,
		"0xcb007107":             FaultNotAddress,
		"203.0.113.7/32":         FaultNotAddress,
		"203.0.113.7:":           FaultNotAddress,
		"203.0.113.7:99999":      FaultNotAddress,
		"[203.0.113.7]":          FaultNotAddress,
		"[2001:db8::1":           FaultNotAddress,
		"2001:db8::1]":           FaultNotAddress,
		"[[2001:db8::1]]":        FaultNotAddress,
		"2001:db8::1::2":         FaultNotAddress,
		"2001:db8:1:2:3:4:5:6:7": FaultNotAddress,
		"203.0.113.7\x00":        FaultNotAddress,
		"\xff":                   FaultNotAddress,
	} {
		if a, err := ParseAddress(in); !errors.Is(err, want) {
			t.Errorf("%q is %s (%v), not %v", in, a, err, want)
		}
	}
}

func FuzzParseAddress(f *testing.F) {
	for _, s := range []string{"203.0.113.7", "203.0.113.7:443", "[2001:db8::1]:80", "fe80::1%eth0", "::ffff:1.2.3.4", "64:ff9b::1.2.3.4", "a, b", "[::1]", "::ffff:0:0%x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseAddress(s)
		if err != nil {
			var fault Fault
			if a != (Address{}) || !errors.As(err, &fault) {
				t.Fatalf("%q: %s, %v", s, a, err)
			}
			return
		}
		b, err := ParseAddress(a.String())
		if err != nil || a != b {
			t.Fatalf("%q is %s, but that is %s (%v)", s, a, b, err)
		}
		if a.Addr().Is4In6() || a.Addr().Zone() != "" {
			t.Fatalf("%q is not canonical: %s", s, a)
		}
		if !a.Counted().Contains(a.Addr()) || !a.Wide().Contains(a.Addr()) || !a.Wide().Overlaps(a.Counted()) {
			t.Fatalf("%s is not in %s in %s", a, a.Counted(), a.Wide())
		}
		// Whatever is counted with this address is counted as this one is.
		first := AddressOf(a.Counted().Addr())
		if a.Is6() == first.Is6() && first.Counted() != a.Counted() {
			t.Fatalf("%s is counted by %s, its first address by %s", a, a.Counted(), first.Counted())
		}
	})
}
