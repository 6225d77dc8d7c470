package breached

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"runtime/debug"
)

// file is an open index file, or its suffixes.
type file struct {
	header
	layout
	name      string
	at        io.ReaderAt // what is read where nobody waits: mapped memory is for look-ups
	close     func() error
	data      []byte // mapped
	checksums []byte
	sum       [sealSize]byte
}

// openFile maps a file whose header, size and seal are right.
func openFile(name string, holds uint8) (*file, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file", name)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	x, err := readFile(name, f, uint64(st.Size()), holds)
	if err != nil {
		f.Close()
		return nil, err
	}
	x.close = f.Close
	if x.data, err = mapFile(f, int(st.Size())); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return x, nil
}

// readFile reads what a file says of itself, and holds it to that.
func readFile(name string, at io.ReaderAt, size uint64, holds uint8) (*file, error) {
	x := &file{name: name, at: at}
	head := make([]byte, min(size, headerSize))
	err := readAt(at, head, 0)
	if err == nil {
		x.header, err = decodeHeader(head, holds)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	x.layout = x.header.layout()
	if size != x.size {
		return nil, fmt.Errorf("%s: %w", name, damaged("%d bytes, not %d: cut off or not all copied", size, x.size))
	}
	end := make([]byte, x.layout.checksums.size+sealSize)
	if err := readAt(at, end, x.layout.checksums.at); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	x.checksums = end[:x.layout.checksums.size]
	copy(x.sum[:], end[len(x.checksums):])
	if x.sum != seal(head, x.checksums) {
		return nil, fmt.Errorf("%s: %w", name, damaged("the seal is not that of the header and the checksums"))
	}
	return x, nil
}

func readAt(at io.ReaderAt, b []byte, from uint64) error {
	_, err := at.ReadAt(b, int64(from))
	if err == io.EOF {
		err = damaged("it ended while it was read")
	}
	return err
}

// intact reports whether the mapped file still ends as it did. A look-up asks
// after it has read. A file that is cut loses its last page: touching it faults
// when the cut is before that page, and reads zeros when it is within. So this
// finds every cut, for one read of memory that every look-up has in common;
// without it the zeros that take the place of what was cut off in the page would
// be read as "not breached".
func (x *file) intact() bool {
	return bytes.Equal(x.data[len(x.data)-sealSize:], x.sum[:])
}

// verify reads everything and compares checksums.
func (x *file) verify(ctx context.Context, progress func(bytes uint64)) error {
	buf := make([]byte, min(blockSize, x.size))
	sums := x.checksums
	for _, s := range x.sections() {
		for at := s.at; at < s.end(); at += blockSize {
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
			block := buf[:min(blockSize, s.end()-at)]
			if err := readAt(x.at, block, at); err != nil {
				return fmt.Errorf("%s: %w", x.name, err)
			}
			if crc32.Checksum(block, castagnoli) != binary.BigEndian.Uint32(sums) {
				return fmt.Errorf("%s: %w", x.name, damaged("bytes %d to %d are not what was written", at, at+uint64(len(block))))
			}
			sums = sums[4:]
			progress(uint64(len(block)))
		}
	}
	return nil
}

// ascending reads a section of 5-byte numbers, which must ascend from 0 to last.
func (x *file) ascending(s section, last uint64, what string) error {
	in := io.NewSectionReader(x.at, int64(s.at), int64(s.size))
	buf := make([]byte, min(tableEntry<<16, s.size)+3)
	var before uint64
	for n := uint64(0); n < s.size; {
		some := buf[:min(tableEntry<<16, s.size-n)]
		if _, err := io.ReadFull(in, some); err != nil {
			return fmt.Errorf("%s: %w", x.name, err)
		}
		for i := 0; i < len(some); i += tableEntry {
			v := load40(buf[i:])
			if v < before || n == 0 && i == 0 && v != 0 {
				return fmt.Errorf("%s: %w", x.name, damaged("%s does not ascend from 0", what))
			}
			before = v
		}
		n += uint64(len(some))
	}
	if before != last {
		return fmt.Errorf("%s: %w", x.name, damaged("%s ends with %d, not %d", what, before, last))
	}
	return nil
}

func (x *file) unmap() error {
	var err error
	if x.data != nil {
		err = unmap(x.data)
	}
	if e := x.close(); err == nil {
		err = e
	}
	return err
}

// guarded calls do, and makes an error of a fault in reading one of the mapped
// files: the system's answer (SIGBUS) to reading what has been cut off, or what
// the disk cannot give.
func guarded(files [2]*file, do func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			if !faultIn(r, files) {
				panic(r)
			}
			err = errCut
		}
	}()
	return do()
}

var errCut = damaged("the file has been cut off or changed since it was opened")
