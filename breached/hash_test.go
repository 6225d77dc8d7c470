package breached

import (
	"fmt"
	"strings"
	"testing"
)

// Vectors of other programs: printf %s P | sha1sum, and
// iconv -t UTF-16LE | openssl dgst -md4.
func TestGoldenPasswords(t *testing.T) {
	for _, v := range []struct{ password, sha1, ntlm string }{
		{"", "DA39A3EE5E6B4B0D3255BFEF95601890AFD80709", "31D6CFE0D16AE931B73C59D7E0C089C0"},
		{"password", "5BAA61E4C9B93F3F0682250B6CF8331B7EE68FD8", "8846F7EAEE8FB117AD06BDD830B7586C"},
		{"P@ssw0rd", "21BD12DC183F740EE76F27B78EB39C8AD972A757", "E19CCF75EE54E06B06A5907AF13CEF42"},
		{"Grüße aus Köln", "5CA85A0B51FAF664D0C29EACFDEA0764981E781F", "A047870B3DE57EA75B7E8D9B6E35F586"},
		{"пароль", "5670B4358AE287FE8E74C2FF6F6293F905409077", "507E3EE80DF7DB7C1FDD8D50AE8DB606"},
		{"密码123", "2888B30AD91C749C005DED5D30CFE63CF4A766AB", "56B91E8AB5EE40A62862EEE212E64746"},
		{"🔑🔒", "76A62C6530512BECBDE60F6484FFF77FAE2E2076", "88C7537B387BAB985E2EB9E95E08B174"},
		{"naïve\n", "F275786E6F958544F2CF0B0654D37CA3ADE1D517", "C520A386EF07D9A5E36E6F3B403FF4E2"},
		{"a\u0301", "B525ECA1C706A9E0E11DCA0CCE04B7BF73A31CD6", "93A2757452F3230130145E0FE7052E48"},
	} {
		for kind, want := range map[Kind]string{SHA1: v.sha1, NTLM: v.ntlm} {
			h := HashPassword(kind, []byte(v.password))
			if h.String() != want {
				t.Errorf("%v of %q is %s, not %s", kind, v.password, h, want)
			}
			if h.Prefix()+h.Suffix() != want || len(h.Prefix()) != PrefixDigits || len(h.Suffix()) != kind.SuffixDigits() {
				t.Errorf("%v of %q is cut into %s and %s", kind, v.password, h.Prefix(), h.Suffix())
			}
			for _, text := range []string{want, strings.ToLower(want)} {
				if read, err := ParseHash(kind, text); err != nil || read != h {
					t.Errorf("%v %s is read as %v, %v", kind, text, read, err)
				}
			}
			if read, err := HashOf(kind, h.Bytes()); err != nil || read != h {
				t.Errorf("the bytes of %v %s are read as %v, %v", kind, want, read, err)
			}
		}
	}
}

func TestParseHashSaysWhatIsWrong(t *testing.T) {
	for _, v := range []struct {
		kind       Kind
		text, says string
	}{
		{SHA1, "", "empty; sha1 is 40 hex digits"},
		{SHA1, strings.Repeat("A", 32), "32 characters; sha1 is 40 hex digits"},
		{NTLM, strings.Repeat("A", 40), "40 characters; ntlm is 32 hex digits"},
		{NTLM, strings.Repeat("A", 31) + "G", "not hex digits"},
		{0, "AA", "kind 0 is not a kind of hash"},
	} {
		h, err := ParseHash(v.kind, v.text)
		if err == nil || err.Error() != v.says || h != (Hash{}) {
			t.Errorf("%v %q: %v, %v; want %q", v.kind, v.text, h, err, v.says)
		}
	}
	if h, err := HashOf(SHA1, make([]byte, 16)); err == nil {
		t.Errorf("16 bytes are SHA-1: %v", h)
	}
}

func TestParsePrefix(t *testing.T) {
	for text, want := range map[string]uint32{"00000": 0, "fFfFf": 0xFFFFF, "0aB19": 0x0AB19} {
		if got, err := ParsePrefix(text); err != nil || got != want {
			t.Errorf("%s: %x, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0000", "000000", "0000G", "0000é", " 0000", "+0000", "0x000"} {
		if got, err := ParsePrefix(text); err != ErrPrefix {
			t.Errorf("%q: %x, %v", text, got, err)
		}
	}
}

// A hash that is printed along with a struct is a leak that nobody sees in the
// code.
func TestHashIsNotPrintedByAccident(t *testing.T) {
	h := HashPassword(SHA1, []byte("password"))
	if text := fmt.Sprintf("%#v", h); strings.Contains(strings.ToUpper(text), "5BAA6") || strings.Contains(text, "0x5b") {
		t.Errorf("%%#v prints %s", text)
	}
}
