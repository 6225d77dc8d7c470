package breached

import (
	"context"
	"errors"
	"time"
)

// Source is a corpus that can be asked. All are safe for concurrent use, and
// all hold to one suite: package breachedtest.
type Source interface {
	// Check looks a hash up. An error means unknown: never "safe", never
	// "breached". A hash of a kind that the source has not is ErrKind.
	Check(ctx context.Context, h Hash) (Verdict, error)

	// Range is every row of a prefix, byte for byte as the public service
	// answers. The prefix is five hex digits in either case, else ErrPrefix.
	// ErrNoRange: this source cannot serve that prefix exactly, now or later.
	// Any other error means unknown.
	Range(ctx context.Context, kind Kind, prefix string) (*Range, error)
}

// Verdict is what a corpus knows of a hash.
type Verdict struct {
	// Breached is whether the corpus holds it.
	Breached bool
	// Count is how often it was seen; 0 when it is not breached.
	Count uint64
	// Complete is false when the corpus is known to lack some: a top-N subset,
	// or ranges that were missing when it was built. Then "not breached" is
	// only "not in this corpus".
	Complete bool
}

// Range is one prefix's rows.
type Range struct {
	// Body is SUFFIX:COUNT lines, suffix in upper-case hex, ascending, separated
	// by CRLF, with none after the last. It must not be changed.
	Body []byte
	// ETag is a strong entity tag with its quotes; "" when none is known.
	ETag string
	// Modified is when the rows were last changed, zero when nobody knows.
	Modified time.Time
}

// What a caller tells apart.
var (
	// ErrNoRange: the source cannot serve this prefix byte for byte.
	ErrNoRange = errors.New("this corpus cannot serve that range")
	// ErrKind: the source is of the other kind of hash.
	ErrKind = errors.New("this corpus is of another kind of hash")
	// ErrPrefix: that is no prefix. It does not repeat what was given.
	ErrPrefix = errors.New("a prefix is 5 hex digits")
)

// Prefixes of ranges: 20 bits, so 1,048,576 ranges.
const (
	PrefixDigits = 5
	Prefixes     = 1 << 20
)

// ParsePrefix reads five hex digits in either case.
func ParsePrefix(prefix string) (uint32, error) {
	if len(prefix) != PrefixDigits {
		return 0, ErrPrefix
	}
	var n uint32
	for i := range len(prefix) {
		d := hexDigit[prefix[i]]
		if d < 0 {
			return 0, ErrPrefix
		}
		n = n<<4 | uint32(d)
	}
	return n, nil
}

// hexDigit is what each byte is worth as a hex digit of either case, -1 for
// none.
var hexDigit = func() (t [256]int8) {
	for i := range t {
		t[i] = -1
	}
	for i := range 10 {
		t['0'+i] = int8(i)
	}
	for i := range 6 {
		t['a'+i], t['A'+i] = int8(10+i), int8(10+i)
	}
	return t
}()

// Info describes a corpus file, for whoever watches over it.
type Info struct {
	Kind Kind
	// Rows is how many hashes it holds.
	Rows uint64
	// Complete is false for a subset, see Verdict.
	Complete bool
	// Top is N of a corpus of the N most frequent, 0 when it was not cut.
	Top uint64
	// Prefixes is how many of the 1,048,576 prefixes had a row in what it was
	// built from.
	Prefixes uint32
	// Source is the date of what it was built from, Built when that was done.
	Source, Built time.Time
	// Ranges is whether ranges can be served: the suffixes are there.
	Ranges bool
}
