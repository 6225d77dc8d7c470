package keys

import (
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestNamesThatAreOneAccount(t *testing.T) {
	for in, want := range map[string]string{
		"alice":                         "alice",
		"Alice@Example.COM":             "alice@example.com",
		"  alice  ":                     "alice",
		"Anna \u00a0 Maria":             "anna maria", // no-break space
		"\u3000alice\u2003":             "alice",      // ideographic and em space
		"ＡＬＩＣＥ":                         "alice",      // full width
		"ali\u200bce":                   "alice",      // zero width space
		"a\u200dl\u2060i\ufeffce":       "alice",      // joiner, word joiner, byte order mark
		"al\u00adice":                   "alice",      // soft hyphen
		"alice\ufe0f":                   "alice",      // variation selector
		"alice\U000e0061\U000e007f":     "alice",      // tags
		"al\u3164ice":                   "alice",      // Hangul filler
		"oﬃce":                          "office",     // ligature
		"straße":                        "strasse",
		"STRASSE":                       "strasse",
		"ΣΊΣΥΦΟΣ":                       "σίσυφοσ", // final sigma
		"e\u0301":                       "é",       // composed
		"\u212b":                        "å",       // Angstrom sign
		"\u0130":                        "i\u0307", // dotted capital I folds to i and a dot above
		"I":                             "i",
		"ı":                             "ı",      // dotless i is a letter of its own
		"раураl":                        "раураl", // Cyrillic look-alikes stay what they are
		"a.l.i.c.e+shop@example.com":    "a.l.i.c.e+shop@example.com",
		"\u0345":                        "ι", // combining iota subscript
		"①":                             "1",
		strings.Repeat("a", MaxAccount): strings.Repeat("a", MaxAccount),
	} {
		for _, n := range []Normalisation{Fold, Email} {
			if got, err := n.Apply(in); err != nil || got != want {
				t.Errorf("%s %+q is %+q (%v), not %+q", n, in, got, err, want)
			}
		}
	}
	if a, _ := Fold.Apply("раураl"); a == "paypal" {
		t.Error("another script's letters became Latin")
	}
}

func TestExactKeepsEveryByte(t *testing.T) {
	for _, s := range []string{"Alice", " alice", "ＡＬＩＣＥ", "ali\u200bce", "e\u0301"} {
		if got, err := Exact.Apply(s); err != nil || got != s {
			t.Errorf("%+q became %+q (%v)", s, got, err)
		}
	}
}

func TestNamesThatAreRefused(t *testing.T) {
	for in, want := range map[string]Fault{
		"":                                FaultEmpty,
		" ":                               FaultEmpty,
		" \u00a0\u3000 ":                  FaultEmpty,
		"a\x00b":                          FaultControl,
		"\x00":                            FaultControl,
		"a\tb":                            FaultControl,
		"a\nb":                            FaultControl,
		"a\x7fb":                          FaultControl,
		"a\u0085b":                        FaultControl,
		"\xff":                            FaultUTF8,
		"a\xc3":                           FaultUTF8,
		"\xed\xa0\x80":                    FaultUTF8, // a surrogate half
		strings.Repeat("a", MaxAccount+1): FaultTooLong,
		strings.Repeat("a", 4096):         FaultTooLong,
	} {
		for _, n := range []Normalisation{Exact, Fold, Email} {
			if got, err := n.Apply(in); !errors.Is(err, want) {
				t.Errorf("%s %+.40q is %+.40q (%v), not %v", n, in, got, err, want)
			}
		}
	}
	for in, want := range map[string]Fault{
		"\u200b\u200d":               FaultEmpty,
		"\u3164":                     FaultEmpty,
		strings.Repeat("\ufdfa", 99): FaultTooLong, // 3 bytes that become 33
	} {
		if got, err := Fold.Apply(in); !errors.Is(err, want) {
			t.Errorf("%+q is %+.40q (%v), not %v", in, got, err, want)
		}
	}
}

// DerivedCoreProperties.txt of Unicode 14, 15 and 15.1 counts 4174 default
// ignorable code points.
func TestIgnorableIsUnicodesProperty(t *testing.T) {
	n := 0
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if ignorable(r) {
			n++
		}
	}
	if n != 4174 && unicode.Version == "15.0.0" {
		t.Errorf("%d code points are ignorable", n)
	}
	for _, r := range []rune{0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180E, 0x180F, 0x200B, 0x200F, 0x202A, 0x202E, 0x2060, 0x2065,
		0x206F, 0x3164, 0xFE00, 0xFE0F, 0xFEFF, 0xFFA0, 0xFFF0, 0xFFF8, 0x1BCA0, 0x1BCA3, 0x1D173, 0x1D17A, 0xE0000, 0xE0FFF} {
		if !ignorable(r) {
			t.Errorf("%U is kept", r)
		}
	}
	for _, r := range []rune{' ', 0x600, 0x605, 0x6DD, 0x70F, 0x890, 0x8E2, 0xFFF9, 0xFFFB, 0x110BD, 0x110CD, 0x13430, 0x1343F, 0x2028, 0xFFFD} {
		if ignorable(r) {
			t.Errorf("%U is dropped", r)
		}
	}
}

func TestAccountsAreHashesUnderTheRealmsPepper(t *testing.T) {
	pepper := func(secret, realm string) Pepper {
		p, err := NewPepper([]byte(secret), realm)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	a := pepper("secret", "shop").Account("alice")
	if a != pepper("secret", "shop").Account("alice") {
		t.Error("the same name is two accounts")
	}
	for name, b := range map[string]Account{
		"another realm": pepper("secret", "bank").Account("alice"), "another secret": pepper("other", "shop").Account("alice"),
		"another name": pepper("secret", "shop").Account("alice "),
	} {
		if a == b {
			t.Errorf("%s is the same account", name)
		}
	}
	if s := a.String(); len(s) != 22 || strings.Contains(s, "alice") {
		t.Errorf("written %q", s)
	}
}

func FuzzNormalise(f *testing.F) {
	for _, s := range []string{"alice", " A\u00a0B ", "ＡＬＩＣＥ", "ΣΊΣΥΦΟΣ", "e\u0301\u0345", "\u1100\u115f\u1161", "İ", "\u1e9e\u0323\u0307", "\ufdfa", "ῼ\u0345", "a\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, n := range []Normalisation{Exact, Fold, Email} {
			got, err := n.Apply(s)
			again, err2 := n.Apply(s)
			if got != again || err != err2 {
				t.Fatalf("%s %+q is %+q, then %+q", n, s, got, again)
			}
			if err != nil {
				var fault Fault
				if got != "" || !errors.As(err, &fault) {
					t.Fatalf("%+q: %q, %v", s, got, err)
				}
				continue
			}
			if !utf8.ValidString(got) || strings.ContainsFunc(got, unicode.IsControl) || strings.TrimSpace(got) == "" || len(got) > MaxAccount {
				t.Fatalf("%s %+q became %+q", n, s, got)
			}
			if twice, err := n.Apply(got); err != nil || twice != got {
				t.Fatalf("%s %+q is %+q, but that is %+q (%v)", n, s, got, twice, err)
			}
		}
	})
}
