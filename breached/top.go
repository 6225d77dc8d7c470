package breached

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math"
	"os"
)

// exactCounts are told apart while a corpus is read; 0.01% of all are larger.
const exactCounts = 1 << 16

// selection finds the N most frequent rows of a stream that is seen once. A row
// that is among them was among the N most frequent of those seen so far, so
// only such are kept, in a file: some N x (1 + ln(rows/N)) of rows that come in
// no order of counts, as hashes do. Memory is a histogram.
type selection struct {
	n     uint64
	spool *os.File
	w     *bufio.Writer
	kept  uint64 // in the spool

	seen  [exactCounts + 1]uint64 // rows by count; the last: of that and more
	floor uint64                  // rows below are not among the N any more
	above uint64                  // rows of floor and more
}

func newSelection(n uint64, out string) (*selection, error) {
	spool, err := temporary(out + ".rows")
	if err != nil {
		return nil, err
	}
	return &selection{n: n, spool: spool, w: bufio.NewWriterSize(spool, blockSize), floor: 1}, nil
}

func (s *selection) close() {
	s.spool.Close()
	os.Remove(s.spool.Name())
}

func (s *selection) add(r *row) error {
	if r.count < s.floor {
		return nil
	}
	c := min(r.count, exactCounts)
	s.seen[c]++
	s.above++
	for s.floor < exactCounts && s.above-s.seen[s.floor] >= s.n {
		s.above -= s.seen[s.floor]
		s.floor++
	}
	if r.count < s.floor {
		return nil
	}
	s.kept++
	var b [rowSize]byte
	_, err := s.w.Write(r.append(b[:0]))
	return err
}

// each plays the kept rows again.
func (s *selection) each(ctx context.Context, do func(*row)) error {
	if _, err := s.spool.Seek(0, io.SeekStart); err != nil {
		return err
	}
	in := bufio.NewReaderSize(s.spool, blockSize)
	var b [rowSize]byte
	var r row
	for i := range s.kept {
		if i%batchSize == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if _, err := io.ReadFull(in, b[:]); err != nil {
			return err
		}
		r.read(b[:])
		do(&r)
	}
	return nil
}

// threshold is the count of the Nth row, and how many rows of exactly that
// count are among the N.
func (s *selection) threshold(ctx context.Context) (count, ties uint64, err error) {
	if err := s.w.Flush(); err != nil {
		return 0, 0, err
	}
	if s.floor < exactCounts {
		return s.floor, s.n - (s.above - s.seen[s.floor]), nil
	}
	// All N are beyond the histogram: look closer, 16 bits of the counts at a
	// time, at those that share the bits above.
	want := s.n
	for shift := 48; shift >= 0; shift -= 16 {
		clear(s.seen[:])
		if err := s.each(ctx, func(r *row) {
			if r.count>>shift>>16 == count>>shift>>16 {
				s.seen[r.count>>shift&0xFFFF]++
			}
		}); err != nil {
			return 0, 0, err
		}
		digit := uint64(math.MaxUint16)
		for ; s.seen[digit] < want; digit-- {
			want -= s.seen[digit]
		}
		count |= digit << shift
	}
	return count, want, nil
}

// top builds an index of the N most frequent rows.
func (b *builder) top(ctx context.Context, c *Corpus) (Stats, error) {
	if b.options.Top > maxRows {
		return Stats{}, errors.New("more rows than an index can hold")
	}
	s, err := newSelection(b.options.Top, b.out)
	if err != nil {
		return Stats{}, err
	}
	defer s.close()
	err = b.parser.scan(ctx, c, func(rows []row, bytes int64) error {
		for i := range rows {
			if err := s.add(&rows[i]); err != nil {
				return err
			}
		}
		b.advance(rows, bytes)
		return nil
	})
	if err != nil {
		return Stats{}, err
	}
	count, ties, err := s.threshold(ctx)
	if err != nil {
		return Stats{}, err
	}
	if b.writer, err = newIndexWriter(b.parser.kind, b.bits(), b.out, false); err != nil {
		return Stats{}, err
	}
	if err := s.each(ctx, func(r *row) {
		if r.count == count && ties > 0 {
			ties--
			b.writer.add(r)
		} else if r.count > count {
			b.writer.add(r)
		}
	}); err != nil {
		return Stats{}, err
	}
	return b.finish(ctx, c, b.writer.head.rows < b.read)
}
