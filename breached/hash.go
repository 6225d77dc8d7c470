package breached

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	//lint:ignore SA1019 NTLM is MD4: it is looked up here, and protects nothing
	"golang.org/x/crypto/md4"
)

// Kind is which hash a corpus is of.
type Kind uint8

// The two corpora of Pwned Passwords. The numbers are those of index files.
const (
	SHA1 Kind = 1 // SHA-1 of the password's UTF-8, 20 bytes
	NTLM Kind = 2 // MD4 of the password's UTF-16, little endian: Windows' own hash, 16 bytes
)

// Kinds lists every kind.
var Kinds = []Kind{SHA1, NTLM}

// String is "sha1" or "ntlm", as in the API and on the command line.
func (k Kind) String() string {
	switch k {
	case SHA1:
		return "sha1"
	case NTLM:
		return "ntlm"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Size is a hash's length in bytes: 20 or 16, and 0 for what is no kind.
func (k Kind) Size() int {
	switch k {
	case SHA1:
		return sha1.Size
	case NTLM:
		return md4.Size
	}
	return 0
}

// Digits is a hash's length in hex digits: 40 or 32.
func (k Kind) Digits() int { return 2 * k.Size() }

// SuffixDigits is what a range's rows hold of a hash: all but the prefix, 35 or
// 27 hex digits.
func (k Kind) SuffixDigits() int { return k.Digits() - PrefixDigits }

// Hash is a password's hash. It is comparable; the zero Hash is of no kind, and
// no source takes it.
type Hash struct {
	kind Kind
	sum  [sha1.Size]byte // NTLM: 16 bytes and zeros
}

// Kind is which hash it is.
func (h Hash) Kind() Kind { return h.kind }

// Bytes is the hash itself, 20 or 16 bytes. The slice is the caller's.
func (h Hash) Bytes() []byte { return append([]byte(nil), h.sum[:h.kind.Size()]...) }

// String is the hash in upper-case hex digits, as the public service writes it.
// It is for whoever asked on a terminal: a logged hash is a leaked one.
func (h Hash) String() string {
	return strings.ToUpper(hex.EncodeToString(h.sum[:h.kind.Size()]))
}

// GoString keeps hashes out of whatever is printed with %#v.
func (h Hash) GoString() string { return "breached.Hash{" + h.kind.String() + "}" }

// Prefix is the first five hex digits, upper case: the range that the hash is
// in.
func (h Hash) Prefix() string { return h.String()[:min(PrefixDigits, h.kind.Digits())] }

// Suffix is the rest after the prefix, upper case, as a range's rows hold it.
func (h Hash) Suffix() string { return h.String()[min(PrefixDigits, h.kind.Digits()):] }

// ParseHash reads the hex digits of a hash, in either case. The error says what
// is wrong and repeats nothing of the text.
func ParseHash(kind Kind, text string) (Hash, error) {
	h := Hash{kind: kind}
	switch {
	case kind.Size() == 0:
		return Hash{}, fmt.Errorf("%v is not a kind of hash", kind)
	case text == "":
		return Hash{}, fmt.Errorf("empty; %v is %d hex digits", kind, kind.Digits())
	case len(text) != kind.Digits():
		return Hash{}, fmt.Errorf("%d characters; %v is %d hex digits", len(text), kind, kind.Digits())
	}
	if _, err := hex.Decode(h.sum[:], []byte(text)); err != nil {
		return Hash{}, fmt.Errorf("not hex digits")
	}
	return h, nil
}

// HashOf is the hash of that kind whose bytes those are.
func HashOf(kind Kind, sum []byte) (Hash, error) {
	h := Hash{kind: kind}
	if kind.Size() == 0 || len(sum) != kind.Size() {
		return Hash{}, fmt.Errorf("%d bytes are no %v hash", len(sum), kind)
	}
	copy(h.sum[:], sum)
	return h, nil
}

// HashPassword hashes a password as the corpus does. Nothing is trimmed or
// normalised: a newline that was read along with it is part of it, and then
// nothing is ever found. Bytes that are no UTF-8 are hashed as they are for
// SHA1; NTLM knows only characters, so there they count as U+FFFD.
//
// kind must be SHA1 or NTLM; for another the zero Hash is returned.
func HashPassword(kind Kind, password []byte) Hash {
	h := Hash{kind: kind}
	switch kind {
	case SHA1:
		h.sum = sha1.Sum(password)
	case NTLM:
		d := md4.New()
		d.Write(utf16LE(password))
		d.Sum(h.sum[:0])
	default:
		return Hash{}
	}
	return h
}

// utf16LE is text as Windows stores it.
func utf16LE(text []byte) []byte {
	out := make([]byte, 0, 2*len(text))
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		text = text[n:]
		for _, u := range utf16.AppendRune(nil, r) {
			out = append(out, byte(u), byte(u>>8))
		}
	}
	return out
}
