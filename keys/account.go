package keys

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	stdhash "hash"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// MaxAccount is the longest account name, in bytes, before and after
// normalising.
const MaxAccount = 512

// Normalisation says which spellings are one account. It must be the identity
// store's own rule: a coarser one lets strangers spend another account's
// tokens, a finer one gives an attacker one bucket per spelling.
type Normalisation string

const (
	// Exact: every byte counts.
	Exact Normalisation = "exact"
	// Fold: NFKC, case fold, default-ignorables dropped, blanks trimmed and
	// collapsed. The default.
	Fold Normalisation = "fold"
	// Email is Fold under the name of what is normalised: dots and plus tags
	// are kept, since only the mail's own host knows what they mean.
	Email Normalisation = "email"
)

// Valid reports whether n is one of the three.
func (n Normalisation) Valid() bool { return n == Exact || n == Fold || n == Email }

// Apply returns the normal form of name, or a Fault.
func (n Normalisation) Apply(name string) (string, error) {
	switch {
	case name == "":
		return "", FaultEmpty
	case len(name) > MaxAccount:
		return "", FaultTooLong
	case !utf8.ValidString(name):
		return "", FaultUTF8
	case strings.ContainsFunc(name, unicode.IsControl):
		return "", FaultControl
	}
	if n != Exact {
		name = fold(name)
	}
	switch {
	case strings.TrimSpace(name) == "":
		return "", FaultEmpty
	case len(name) > MaxAccount:
		return "", FaultTooLong
	case strings.ContainsFunc(name, unicode.IsControl):
		return "", FaultControl
	}
	return name, nil
}

// fold is repeated until nothing changes: folding can make what NFKC composes,
// and dropping an ignorable can bring together what NFKC joins. Normalising
// twice must never give a second account.
func fold(s string) string {
	if isFolded(s) { // most are
		return s
	}
	if isASCII(s) { // nothing to compose or to drop, and folding is lower case
		return strings.Join(strings.Fields(strings.ToLower(s)), " ")
	}
	for range 8 {
		t := norm.NFKC.String(s)
		t = cases.Fold().String(t)
		t = strings.Map(dropIgnorable, t)
		t = strings.Join(strings.Fields(t), " ")
		if t == s {
			break
		}
		s = t
	}
	return s
}

// isFolded reports whether s is visible ASCII without capitals.
func isFolded(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7F || 'A' <= c && c <= 'Z' {
			return false
		}
	}
	return true
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func dropIgnorable(r rune) rune {
	if ignorable(r) {
		return -1
	}
	return r
}

// ignorable is Unicode's derived property Default_Ignorable_Code_Point
// (DerivedCoreProperties.txt): soft hyphen, joiners, variation selectors,
// fillers, tags.
func ignorable(r rune) bool {
	return unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) ||
		unicode.Is(unicode.Variation_Selector, r) ||
		unicode.Is(unicode.Cf, r) && !prependedMark(r)
}

// prependedMark are the format characters that are visible: Arabic, Syriac and
// Kaithi number signs, interlinear annotation and Egyptian hieroglyph controls.
func prependedMark(r rune) bool {
	return unicode.Is(unicode.Prepended_Concatenation_Mark, r) ||
		r >= 0xFFF9 && r <= 0xFFFB || r >= 0x13430 && r <= 0x1343F
}

// Account is the keyed hash under which an account is counted. The name cannot
// be had back from it without the pepper.
type Account [16]byte

// String returns the hash in 22 URL-safe characters.
func (a Account) String() string { return base64.RawURLEncoding.EncodeToString(a[:]) }

// ParseAccount is the inverse of String, for hashes that a log, an event or an
// answer showed; ok is false for anything else.
func ParseAccount(s string) (a Account, ok bool) {
	n, err := base64.RawURLEncoding.Strict().DecodeString(s)
	return Account(append(n, make([]byte, len(a))...)[:len(a)]), err == nil && len(n) == len(a)
}

// Pepper is the key for hashing names. It is safe for concurrent use.
type Pepper struct{ macs *sync.Pool }

// NewPepper derives a realm's pepper from the secret. Realms never share
// hashes: the same name in two realms is two accounts.
func NewPepper(secret []byte, realm string) (Pepper, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, "guardd pepper 1 "+realm, 32)
	if err != nil {
		return Pepper{}, fmt.Errorf("deriving the pepper of realm %q: %w", realm, err)
	}
	// Keying a MAC costs more than a name: they are used again.
	return Pepper{&sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}}, nil
}

// Account hashes a normalised name.
func (p Pepper) Account(normalised string) Account {
	m := p.macs.Get().(stdhash.Hash)
	defer p.macs.Put(m)
	m.Reset()
	m.Write([]byte(normalised))
	var sum [sha256.Size]byte
	return Account(m.Sum(sum[:0])[:16])
}
