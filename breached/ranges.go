package breached

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
)

// Range writes a prefix's rows as the public service does. It needs the
// suffixes; without them, for a corpus that was cut to its most frequent
// hashes, and for a prefix that an incomplete corpus has no row of, it is
// ErrNoRange. Its ETag stands for what the files hold: it changes with any
// row of the corpus, and not with the time of the build.
func (x *Index) Range(_ context.Context, kind Kind, prefix string) (*Range, error) {
	p, err := ParsePrefix(prefix)
	if err != nil {
		return nil, err
	}
	if kind != x.main.kind {
		return nil, ErrKind
	}
	if x.suffixes == nil || x.main.top > 0 {
		return nil, ErrNoRange
	}
	var body []byte
	if err := x.use(func() error {
		body = x.rangeBody(uint64(p))
		return nil
	}); err != nil {
		return nil, err
	}
	if len(body) == 0 {
		return nil, ErrNoRange
	}
	return &Range{Body: body, ETag: fmt.Sprintf(`"%s-%05x"`, x.etag, p), Modified: x.Info().Source}, nil
}

// rangeRow is about what a row takes: 35 digits, a colon, mostly one or two
// digits, CRLF.
const rangeRow = 41

func (x *Index) rangeBody(prefix uint64) []byte {
	m := x.main
	row, end := m.rangeRows(prefix)
	if row >= end {
		return nil
	}
	body := make([]byte, 0, (end-row)*rangeRow)
	known := int(m.bits)/8 + keptBytes
	rest := int(x.suffixes.suffixSize())
	bucket := m.firstBucket(prefix)
	_, bucketEnd := m.bucket(bucket)
	var sum [32]byte // 20 are a hash's, and 8 can be written from anywhere
	for ; row < end; row++ {
		for row >= bucketEnd {
			bucket++
			_, bucketEnd = m.bucket(bucket)
		}
		record := binary.BigEndian.Uint64(m.data[m.records.at+row*recordSize:])
		head := bucket<<40 | record>>24
		binary.BigEndian.PutUint64(sum[:], head<<(64-8*known))
		copy(sum[known:], x.suffixes.data[x.suffixes.layout.suffixes.at+row*uint64(rest):][:rest])
		count := record >> 16 & 0xFF
		if count == 0 {
			var reads int
			_, count = m.largeCount(row, bucket>>m.groupShift(), &reads)
		}
		body = appendRangeRow(body, sum[:known+rest], count)
	}
	return body[:len(body)-len("\r\n")]
}

// appendRangeRow appends a hash without its first five digits, and its count.
func appendRangeRow(body, sum []byte, count uint64) []byte {
	body = append(body, upperHex[sum[2]&15])
	for _, b := range sum[3:] {
		body = append(body, hexPair[b][0], hexPair[b][1])
	}
	body = append(body, ':')
	body = strconv.AppendUint(body, count, 10)
	return append(body, "\r\n"...)
}

// firstBucket is the one that the first hash of a prefix belongs to.
func (h *header) firstBucket(prefix uint64) uint64 {
	return prefix << 44 >> (64 - h.bits)
}

// rangeRows is the rows of a prefix, from the first to before the last.
func (x *file) rangeRows(prefix uint64) (from, to uint64) {
	return x.firstRow(prefix), x.firstRow(prefix + 1)
}

// firstRow is the first row that is not below a prefix.
func (x *file) firstRow(prefix uint64) uint64 {
	if prefix == Prefixes {
		return x.rows
	}
	from, to := x.bucket(x.firstBucket(prefix))
	rest := prefix << 44 >> (24 - x.bits) & (1<<40 - 1)
	if rest == 0 || from == to {
		return from
	}
	row, _ := x.lowerBound(from, to, rest)
	if load40(x.data[x.records.at+row*recordSize:]) < rest {
		row++
	}
	return row
}
