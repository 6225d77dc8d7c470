package breached

import "encoding/binary"

// row is a hash and how often it was seen, as it goes through a build: hi and
// mid are its first 16 bytes, big endian, lo is what SHA-1 has beyond.
type row struct {
	hi, mid uint64
	lo      uint32
	count   uint64
}

// prefix is which of the 2^20 ranges it is in.
func (r *row) prefix() uint32 { return uint32(r.hi >> 44) }

// compare orders rows by hash.
func (r *row) compare(s *row) int {
	switch {
	case r.hi != s.hi:
		return order(r.hi < s.hi)
	case r.mid != s.mid:
		return order(r.mid < s.mid)
	case r.lo != s.lo:
		return order(r.lo < s.lo)
	}
	return 0
}

func order(less bool) int {
	if less {
		return -1
	}
	return 1
}

// hash is the row's.
func (r *row) hash(kind Kind) Hash {
	h := Hash{kind: kind}
	binary.BigEndian.PutUint64(h.sum[0:], r.hi)
	binary.BigEndian.PutUint64(h.sum[8:], r.mid)
	binary.BigEndian.PutUint32(h.sum[16:], r.lo)
	return h
}

// rowSize is a row's size in a spool.
const rowSize = 28

func (r *row) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, r.hi)
	b = binary.BigEndian.AppendUint64(b, r.mid)
	b = binary.BigEndian.AppendUint32(b, r.lo)
	return binary.BigEndian.AppendUint64(b, r.count)
}

func (r *row) read(b []byte) {
	r.hi, r.mid = binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
	r.lo, r.count = binary.BigEndian.Uint32(b[16:]), binary.BigEndian.Uint64(b[20:])
}
