package breached

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// indexWriter writes an index, and its suffixes when wanted, of rows that come
// in ascending order, in one pass and the same memory however many they are:
// the table and the records have a place of their own in the file, and the
// large counts a file of their own until it is known where they go.
type indexWriter struct {
	head     header
	index    *os.File
	suffixes *os.File // nil: not wanted
	spool    *os.File // of large counts

	table, records, large, rest *blockWriter
	nextBucket, nextGroup       uint64
	directory                   []byte

	restSkip, restSize int // of the 20 bytes of a row's hash
	samples            samples
	sizes              Sizes // once it has been read again
}

// samples are rows of the build, one of every so many, that are looked up in
// the finished file before it gets its name.
type samples struct {
	rows  []row
	every uint64
}

const maxSamples = 64

func (s *samples) add(n uint64, r *row) {
	if len(s.rows) == maxSamples { // keep every other one
		for i := range maxSamples / 2 {
			s.rows[i] = s.rows[2*i]
		}
		s.rows, s.every = s.rows[:maxSamples/2], 2*s.every
	}
	if n%s.every == 0 {
		s.rows = append(s.rows, *r)
	}
}

func newIndexWriter(kind Kind, bits uint8, out string, suffixes bool) (w *indexWriter, err error) {
	w = &indexWriter{head: header{holds: holdsIndex, kind: kind, bits: bits}, samples: samples{every: 1}}
	defer func() {
		if err != nil {
			w.discard()
		}
	}()
	for _, f := range []struct {
		file   **os.File
		name   string
		wanted bool
	}{{&w.index, out, true}, {&w.spool, out + ".counts", true}, {&w.suffixes, out + SuffixesExtension, suffixes}} {
		if f.wanted {
			if *f.file, err = temporary(f.name); err != nil {
				return w, err
			}
		}
	}
	l := w.head.layout()
	w.table, w.records, w.large = newBlockWriter(w.index, l.table.at), newBlockWriter(w.index, l.records.at), newBlockWriter(w.spool, 0)
	if suffixes {
		w.rest = newBlockWriter(w.suffixes, headerSize)
		w.restSize = int(w.head.suffixSize())
		w.restSkip = kind.Size() - w.restSize
	}
	return w, nil
}

// temporary is a new file beside name, readable by whom the umask says.
func temporary(name string) (*os.File, error) {
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*.tmp")
	if err != nil {
		return nil, err
	}
	// CreateTemp's are for their owner alone, but who builds an index is seldom
	// who serves it, and there is nothing in it that is not public.
	if err := f.Chmod(0o644); err != nil {
		f.Close()
		os.Remove(f.Name())
		return nil, err
	}
	return f, nil
}

// discard removes whatever has not got its name.
func (w *indexWriter) discard() {
	for _, f := range []*os.File{w.index, w.suffixes, w.spool} {
		if f != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}
}

// add takes the next row.
func (w *indexWriter) add(r *row) {
	key := r.hi >> (24 - w.head.bits)
	bucket, rest := key>>40, key&(1<<40-1)
	if w.nextBucket <= bucket {
		w.reach(bucket + 1)
	}
	count := r.count
	if count > maxSmall {
		w.large.buf = binary.BigEndian.AppendUint64(put40(w.large.buf, w.head.rows), count)
		w.large.full()
		w.head.large++
		count = 0
	}
	n := len(w.records.buf)
	w.records.buf = w.records.buf[:n+8]
	binary.BigEndian.PutUint64(w.records.buf[n:], rest<<24|count<<16)
	w.records.buf = w.records.buf[:n+recordSize]
	w.records.full()
	if w.rest != nil {
		w.addRest(r)
	}
	if w.head.rows&(w.samples.every-1) == 0 {
		w.samples.add(w.head.rows, r)
	}
	w.head.rows++
}

// failed is the first write that has not succeeded, as on a full disk.
func (w *indexWriter) failed() error {
	for _, part := range []*blockWriter{w.table, w.records, w.large, w.rest} {
		if part != nil && part.err != nil {
			return part.err
		}
	}
	return nil
}

// addRest appends what the index does not keep of the hash.
func (w *indexWriter) addRest(r *row) {
	b := w.rest.buf
	if w.restSkip == 8 { // a table of 24 bits, as all large ones have
		b = binary.BigEndian.AppendUint64(b, r.mid)
		if w.restSize == 12 {
			b = binary.BigEndian.AppendUint32(b, r.lo)
		}
	} else {
		var whole [rowSize]byte
		r.append(whole[:0])
		b = append(b, whole[w.restSkip:w.restSkip+w.restSize]...)
	}
	w.rest.buf = b
	w.rest.full()
}

// reach begins every bucket, and group of buckets, before that one.
func (w *indexWriter) reach(bucket uint64) {
	shift := w.head.groupShift()
	for ; w.nextBucket < bucket; w.nextBucket++ {
		w.table.buf = put40(w.table.buf, w.head.rows)
		w.table.full()
		if w.nextBucket>>shift == w.nextGroup {
			w.directory = put40(w.directory, w.head.large)
			w.nextGroup++
		}
	}
}

// finish writes everything that had to wait for the last row, and has it all on
// the disk when it returns.
func (w *indexWriter) finish() error {
	w.reach(w.head.buckets())
	w.table.buf = put40(w.table.buf, w.head.rows)
	w.directory = put40(w.directory, w.head.large)
	for _, part := range []*blockWriter{w.table, w.records, w.large} {
		if err := part.finish(); err != nil {
			return err
		}
	}
	l := w.head.layout()
	directory := newBlockWriter(w.index, l.directory.at)
	for d := w.directory; len(d) > 0; d = d[min(len(d), blockSlack):] {
		directory.buf = append(directory.buf, d[:min(len(d), blockSlack)]...)
		directory.full()
	}
	if err := directory.finish(); err != nil {
		return err
	}
	if err := w.copyLarge(l.large); err != nil {
		return err
	}
	checksums := append(w.table.checksums, w.records.checksums...)
	checksums = append(checksums, directory.checksums...)
	checksums = append(checksums, w.large.checksums...)
	if err := finishFile(w.index, &w.head, checksums); err != nil {
		return err
	}
	if w.rest == nil {
		return nil
	}
	if err := w.rest.finish(); err != nil {
		return err
	}
	head := w.head
	head.holds, head.of = holdsSuffixes, w.head.identity(checksums)
	return finishFile(w.suffixes, &head, w.rest.checksums)
}

func (w *indexWriter) copyLarge(to section) error {
	from := io.NewSectionReader(w.spool, 0, int64(to.size))
	n, err := io.Copy(io.NewOffsetWriter(w.index, int64(to.at)), from)
	if err == nil && n != int64(to.size) {
		err = fmt.Errorf("%s: %d bytes of large counts, not %d", w.spool.Name(), n, to.size)
	}
	return err
}

// finishFile writes the ends of a file.
func finishFile(f *os.File, h *header, checksums []byte) error {
	l, head := h.layout(), h.encode()
	sum := seal(head, checksums)
	if _, err := f.WriteAt(head, 0); err != nil {
		return err
	}
	if _, err := f.WriteAt(append(checksums, sum[:]...), int64(l.checksums.at)); err != nil {
		return err
	}
	return f.Sync()
}

// place gives the files their names: the suffixes first, as who has mapped the
// old index keeps the old suffixes, and who opens the new one must find them.
func (w *indexWriter) place(out string) error {
	if w.suffixes != nil {
		if err := os.Rename(w.suffixes.Name(), out+SuffixesExtension); err != nil {
			return err
		}
	} else if err := os.Remove(out + SuffixesExtension); err != nil && !os.IsNotExist(err) {
		return err
	}
	if err := os.Rename(w.index.Name(), out); err != nil {
		return err
	}
	// A rename is on the disk when its folder is.
	dir, err := os.Open(filepath.Dir(out))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
