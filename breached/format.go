package breached

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"
)

// An index is a file of big-endian numbers:
//
//	header      128 bytes
//	table       2^bits+1 rows, 5 bytes each: the first row of each bucket of
//	            hashes that begin with the same bits, and the number of rows
//	records     6 bytes a row, ascending: the 5 bytes of the hash that follow
//	            the bucket's bits, and the count; 0: it is among the large
//	directory   2^min(bits,16)+1 of 5 bytes: the first large count of each
//	            group of buckets
//	large       13 bytes each, ascending: a row in 5 bytes, its count in 8
//	checksums   CRC-32C of each MiB of each section, 4 bytes each
//	seal        SHA-256 of header and checksums
//
// So 64 of a hash's bits are kept with a table of 24: a random hash is taken
// for one of 2.2 billion once in 8 billion times, 2.2e9/2^64. Corpora of some
// million rows do with 16 bits, and are no less exact, as there are fewer to be
// taken for.
//
// The suffixes, in a file of their own, are what an index lacks of each row's
// hash, in the same order: 12 bytes of SHA-1, 8 of NTLM (one more with a table
// of 16 bits). They are needed for ranges only.

const (
	magic       = "guardd\x00B" // no text begins like that, and no archive
	version     = 1
	headerSize  = 128
	sealSize    = sha256.Size
	tableEntry  = 5
	recordSize  = 6
	keptBytes   = 5 // of a hash, in a record
	largeSize   = 13
	maxSmall    = 255 // the largest count that a record holds
	blockSize   = 1 << 20
	maxRows     = 1<<40 - 1
	maxGroup    = 16 // bits of the directory
	defaultBits = 24
	topBits     = 16      // of the table of a small top-N
	topBitsRows = 4 << 20 // up to here; more, and 2^16 buckets are long ones
)

// What a file holds.
const (
	holdsIndex    = 1
	holdsSuffixes = 2
)

const flagComplete = 1

// header is what a file says of itself.
type header struct {
	holds    uint8
	kind     Kind
	bits     uint8 // of the table
	complete bool
	rows     uint64
	large    uint64 // counts
	top      uint64
	prefixes uint32
	source   int64    // date, seconds since 1970; 0 when not known
	built    int64    // the same
	of       [16]byte // of suffixes: the identity of their index
}

func (h *header) encode() []byte {
	b := make([]byte, 0, headerSize)
	b = append(b, magic...)
	b = binary.BigEndian.AppendUint32(b, version)
	b = append(b, h.holds, byte(h.kind), h.bits, 0)
	if h.complete {
		b[len(b)-1] = flagComplete
	}
	for _, v := range []uint64{h.rows, h.large, h.top, uint64(h.prefixes), uint64(h.source), uint64(h.built)} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	b = append(b, h.of[:]...)
	return append(b, make([]byte, headerSize-len(b))...)
}

// decodeHeader refuses what this program did not write, or not in this version.
func decodeHeader(b []byte, holds uint8) (h header, err error) {
	if len(b) < headerSize || !bytes.HasPrefix(b, []byte(magic)) {
		return h, errors.New("not an index of guardd's: build one with guardd breached build")
	}
	if v := binary.BigEndian.Uint32(b[8:]); v != version {
		return h, fmt.Errorf("version %d of the format; this guardd reads %d: build it again", v, version)
	}
	h.holds, h.kind, h.bits, h.complete = b[12], Kind(b[13]), b[14], b[15] == flagComplete
	at := func(i int) uint64 { return binary.BigEndian.Uint64(b[16+8*i:]) }
	h.rows, h.large, h.top = at(0), at(1), at(2)
	h.prefixes, h.source, h.built = uint32(at(3)), int64(at(4)), int64(at(5))
	copy(h.of[:], b[64:])
	switch {
	case h.holds != holds && h.holds == holdsSuffixes:
		return h, errors.New("these are the suffixes of an index, not the index")
	case h.holds != holds:
		return h, errors.New("not what is expected under this name")
	case h.kind.Size() == 0, h.bits != 8 && h.bits != 16 && h.bits != 24, b[15]&^flagComplete != 0,
		h.rows == 0, h.rows > maxRows, h.large > h.rows, at(3) > Prefixes || at(3) == 0,
		!bytes.Equal(b[:headerSize], h.encode()):
		return h, damaged("the header makes no sense")
	}
	return h, nil
}

// buckets is how many there are.
func (h *header) buckets() uint64 { return 1 << h.bits }

// groups is how many the directory has, each of 1<<groupShift buckets.
func (h *header) groups() uint64    { return 1 << min(h.bits, maxGroup) }
func (h *header) groupShift() uint8 { return h.bits - min(h.bits, maxGroup) }

// suffixSize is what the suffixes hold of each row.
func (h *header) suffixSize() uint64 {
	return uint64(h.kind.Size()) - uint64(h.bits)/8 - keptBytes
}

// section is a part of a file.
type section struct{ at, size uint64 }

func (s section) end() uint64 { return s.at + s.size }

func (s section) blocks() uint64 { return (s.size + blockSize - 1) / blockSize }

// layout is where everything lies.
type layout struct {
	table, records, directory, large section // of an index
	suffixes                         section // of suffixes
	checksums                        section
	size                             uint64
}

// sections lists those with checksums, in order.
func (l *layout) sections() []section {
	return []section{l.table, l.records, l.directory, l.large, l.suffixes}
}

func (h *header) layout() (l layout) {
	at := uint64(headerSize)
	put := func(s *section, size uint64) { *s = section{at, size}; at += size }
	if h.holds == holdsIndex {
		put(&l.table, (h.buckets()+1)*tableEntry)
		put(&l.records, h.rows*recordSize)
		put(&l.directory, (h.groups()+1)*tableEntry)
		put(&l.large, h.large*largeSize)
	} else {
		put(&l.suffixes, h.rows*h.suffixSize())
	}
	blocks := uint64(0)
	for _, s := range l.sections() {
		blocks += s.blocks()
	}
	put(&l.checksums, 4*blocks)
	l.size = at + sealSize
	return l
}

func (h *header) info() Info {
	return Info{Kind: h.kind, Rows: h.rows, Complete: h.complete, Top: h.top, Prefixes: h.prefixes,
		Source: date(h.source), Built: date(h.built)}
}

func date(seconds int64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}

func seconds(t time.Time) int64 {
	if t.IsZero() || t.Unix() < 0 || t.Unix() > math.MaxInt32*100 {
		return 0
	}
	return t.Unix()
}

// seal is what a file ends with.
func seal(head, checksums []byte) [sealSize]byte {
	return sha256.Sum256(append(bytes.Clone(head), checksums...))
}

// identity is of what a file holds, whenever it was built.
func (h *header) identity(checksums []byte) (id [16]byte) {
	timeless := *h
	timeless.source, timeless.built = 0, 0
	sum := seal(timeless.encode(), checksums)
	copy(id[:], sum[:])
	return id
}

// ErrDamaged: the file is not what it was when it was built, or no longer what
// it was when it was opened. What it would answer is not known.
var ErrDamaged = errors.New("the index is damaged")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

func put40(b []byte, v uint64) []byte {
	return append(b, byte(v>>32), byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
}

// load40 reads 5 bytes of at least 8.
func load40(b []byte) uint64 { return binary.BigEndian.Uint64(b) >> 24 }
