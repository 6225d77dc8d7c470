package breached

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"
)

// SuffixesExtension is what the name of an index's suffixes has beyond the
// index's.
const SuffixesExtension = ".suffixes"

// BuildOptions say what to build.
type BuildOptions struct {
	// Partial accepts a corpus in which prefixes are missing. The index then
	// says of itself that it is not complete.
	Partial bool
	// Top keeps the N most frequent hashes only, of those seen equally often the
	// first by hash; 0 keeps all. Such an index has no suffixes, as it could
	// serve no range exactly.
	Top uint64
	// NoSuffixes leaves the suffixes out: a third of the size, and no ranges.
	NoSuffixes bool
	// Source is the date of the corpus; zero: that of its newest file.
	Source time.Time
	// Built is the time of the build; zero: not said.
	Built time.Time

	bits uint8 // of the table; 0: chosen by what is built
}

// Progress is how far a build is.
type Progress struct {
	// Rows and Bytes (of text, unpacked) have been read.
	Rows  uint64
	Bytes int64
	// Done is the share of the corpus that has been read, from 0 to 1. Hashes
	// are spread evenly and come in order, so where the last one stands says it,
	// also of a pipe whose length nobody knows.
	Done float64
}

// Stats are what a build has done.
type Stats struct {
	Info
	// Read is how many rows the corpus has; Padding how many beyond, with count
	// 0, that were left out.
	Read, Padding uint64
	Sizes
	// OpenEnd is whether the last line of a single file has no end: it may be
	// cut off, and its count with it.
	OpenEnd bool
}

// Build writes an index of the corpus to the path out, and its suffixes to
// out.suffixes, under temporary names until all of it is on the disk and has
// been read again. What was there is replaced then, and nothing is left behind
// by a build that fails. progress may be nil; it is called after every few
// thousand rows.
//
// A corpus that cannot be what it is meant to be is refused: a *SourceError
// says where. Memory does not grow with the corpus (some 40 MB). When ctx ends,
// a read of the corpus that does not return is left behind.
func Build(ctx context.Context, c *Corpus, out string, o BuildOptions, progress func(Progress)) (Stats, error) {
	if st, err := os.Stat(out); err == nil && !st.Mode().IsRegular() {
		return Stats{}, fmt.Errorf("%s is there, and is not a file", out)
	}
	b := &builder{parser: parser{partial: o.Partial, file: c.name, rng: -1}, options: o, out: out, progress: progress}
	defer b.discard()
	if o.Top > 0 {
		return b.top(ctx, c)
	}
	return b.all(ctx, c)
}

type builder struct {
	parser   parser
	options  BuildOptions
	out      string
	progress func(Progress)
	bytes    int64
	read     uint64
	writer   *indexWriter
}

func (b *builder) discard() {
	if b.writer != nil {
		b.writer.discard()
	}
}

// all builds an index of every row.
func (b *builder) all(ctx context.Context, c *Corpus) (Stats, error) {
	err := b.parser.scan(ctx, c, func(rows []row, bytes int64) (err error) {
		if b.writer == nil && len(rows) > 0 {
			if b.writer, err = newIndexWriter(b.parser.kind, b.bits(), b.out, !b.options.NoSuffixes); err != nil {
				return err
			}
		}
		for i := range rows {
			b.writer.add(&rows[i])
		}
		b.advance(rows, bytes)
		if b.writer == nil { // nothing but padding so far
			return nil
		}
		return b.writer.failed()
	})
	if err != nil {
		return Stats{}, err
	}
	return b.finish(ctx, c, false)
}

func (b *builder) bits() uint8 {
	switch {
	case b.options.bits != 0:
		return b.options.bits
	case b.options.Top > 0 && b.options.Top <= topBitsRows:
		return topBits
	}
	return defaultBits
}

func (b *builder) advance(rows []row, bytes int64) {
	b.bytes += bytes
	b.read += uint64(len(rows))
	if b.progress != nil && len(rows) > 0 {
		b.progress(Progress{b.read, b.bytes, float64(rows[len(rows)-1].hi) / math.MaxUint64})
	}
}

// finish has the files written, read again, and named.
func (b *builder) finish(ctx context.Context, c *Corpus, cut bool) (Stats, error) {
	w, o := b.writer, &b.options
	if w.head.rows > maxRows {
		return Stats{}, errors.New("more rows than an index can hold")
	}
	source := o.Source
	if source.IsZero() {
		source = c.date
	}
	w.head.prefixes = b.parser.prefixes
	w.head.complete = b.parser.prefixes == Prefixes && !cut
	w.head.top = o.Top
	w.head.source, w.head.built = seconds(source), seconds(o.Built)
	if err := w.finish(); err != nil {
		return Stats{}, err
	}
	if err := w.selfTest(ctx); err != nil {
		return Stats{}, err
	}
	if err := w.place(b.out); err != nil {
		return Stats{}, err
	}
	s := Stats{Info: w.head.info(), Read: b.read, Padding: b.parser.padding, OpenEnd: b.parser.openEnd && b.parser.rng < 0}
	s.Ranges, s.Sizes = w.rest != nil, w.sizes
	return s, nil
}

// selfTest looks rows of the corpus up in the finished file. An index that
// knows nothing would call every password safe.
func (w *indexWriter) selfTest(ctx context.Context) error {
	suffixes := ""
	if w.suffixes != nil {
		suffixes = w.suffixes.Name()
	}
	x, err := open(w.index.Name(), suffixes)
	if err != nil {
		return fmt.Errorf("the new index cannot be read again: %w", err)
	}
	defer x.Close()
	w.sizes = x.Sizes()
	for i := range w.samples.rows {
		r := &w.samples.rows[i]
		v, err := x.Check(ctx, r.hash(w.head.kind))
		if err != nil {
			return fmt.Errorf("the new index cannot be read again: %w", err)
		}
		// Another hash with the same 64 bits may have a larger count.
		if !v.Breached || v.Count < r.count {
			return errors.New("the new index does not hold what it was built from: this is a fault of guardd, please report it")
		}
	}
	return nil
}
