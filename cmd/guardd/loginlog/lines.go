package loginlog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// MaxLine is the longest line that is read, in bytes. Longer ones are passed
// over without being held in memory, and count as unparsed: syslog messages
// end at 8 KiB, and a log is no place to be flooded from.
const MaxLine = 64 << 10

var errLong = fmt.Errorf("longer than %d bytes", MaxLine)

// Lines splits a log into lines. Gzip is recognised by its content and opened;
// a byte order mark and carriage returns before line ends are dropped. A last
// line needs no line end.
type Lines struct {
	source *counter
	in     *bufio.Reader
	buf    []byte
}

// counter counts what has been read of the source, for progress.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// packers are the compressions that are not opened here, by their magic.
var packers = []struct{ magic, tool string }{
	{"\x28\xb5\x2f\xfd", "zstd"},
	{"\xfd7zXZ\x00", "xz"},
	{"BZh", "bzip2"},
}

// NewLines begins to read r. It fails where r is compressed in a way that it
// cannot open.
func NewLines(r io.Reader) (*Lines, error) {
	l := &Lines{source: &counter{r: r}}
	l.in = bufio.NewReaderSize(l.source, 64<<10)
	if magic, _ := l.in.Peek(2); string(magic) == "\x1f\x8b" {
		z, err := gzip.NewReader(l.in)
		if err != nil {
			return nil, fmt.Errorf("opening gzip: %w", err)
		}
		l.in = bufio.NewReaderSize(z, 64<<10)
	}
	head, _ := l.in.Peek(6)
	for _, p := range packers {
		if bytes.HasPrefix(head, []byte(p.magic)) {
			return nil, fmt.Errorf("compressed with %s: unpack it first (%s -dc FILE | guardd replay -)", p.tool, p.tool)
		}
	}
	if bytes.HasPrefix(head, []byte("\xef\xbb\xbf")) {
		l.in.Discard(3)
	}
	return l, nil
}

// Read returns how many bytes of the source (as it is stored) were read.
func (l *Lines) Read() int64 { return l.source.n }

// Next returns the next line, which is valid until the next call. At the end
// the error is io.EOF; errLong says that a line was passed over.
func (l *Lines) Next() ([]byte, error) {
	l.buf = l.buf[:0]
	long := false
	for {
		part, err := l.in.ReadSlice('\n')
		if len(l.buf)+len(part) > MaxLine+2 { // with its line end
			long = true
		} else {
			l.buf = append(l.buf, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (err != io.EOF || len(part) == 0 && len(l.buf) == 0 && !long):
			return nil, err
		}
		line := trimEnd(l.buf)
		if long || len(line) > MaxLine {
			return nil, errLong
		}
		return line, nil
	}
}

func trimEnd(line []byte) []byte {
	line = bytes.TrimSuffix(line, []byte("\n"))
	return bytes.TrimSuffix(line, []byte("\r"))
}
