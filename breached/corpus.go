package breached

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Corpus is what an index is built from: one file of HASH:COUNT lines, or a
// folder with a file a range, as the official downloader writes them, either
// gzipped or not. It is read once, from beginning to end.
type Corpus struct {
	name   string
	reader io.Reader // of one file
	ranged int64     // the range that it is of, -1: whole hashes
	close  func() error
	folder []byte // of a folder: prefix to which name its file has, 0 for none
	date   time.Time
}

// NewCorpus is a corpus in one stream. The name is what errors call it.
func NewCorpus(name string, r io.Reader) *Corpus {
	return &Corpus{name: name, reader: r, ranged: -1, close: func() error { return nil }}
}

// OpenCorpus opens a file, or a folder of range files: 00000.txt to FFFFF.txt,
// in either case, with or without .txt, with .gz when gzipped. Other names but
// those that begin with a dot are refused. Close it after Build.
func OpenCorpus(path string) (*Corpus, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	c := &Corpus{name: path, reader: f, ranged: -1, close: f.Close, date: st.ModTime()}
	if st.IsDir() {
		c.reader, c.date = nil, time.Time{}
		if err := c.list(f); err != nil {
			f.Close()
			return nil, err
		}
	}
	return c, nil
}

// Close closes what OpenCorpus has opened.
func (c *Corpus) Close() error { return c.close() }

// The names that range files have, by what stands for them in folder: 1 + twice
// the extension, + 1 when the prefix is in lower case.
var extensions = []string{".txt", "", ".txt.gz", ".gz"}

func rangeName(code byte, prefix int64) string {
	name := fmt.Sprintf("%05X", prefix)
	if (code-1)&1 == 1 {
		name = strings.ToLower(name)
	}
	return name + extensions[(code-1)/2]
}

// list finds the range files. A million names would be most of the memory that
// a build may have, so only which form each has is kept.
func (c *Corpus) list(f *os.File) error {
	c.folder = make([]byte, Prefixes)
	for {
		entries, err := f.ReadDir(1024)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), ".") {
				continue
			}
			if err := c.listed(e); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (c *Corpus) listed(e fs.DirEntry) error {
	name := e.Name()
	file := filepath.Join(c.name, name)
	prefix, err := ParsePrefix(name[:min(PrefixDigits, len(name))])
	for i := range 2 * len(extensions) {
		code := byte(i + 1)
		if err != nil || rangeName(code, int64(prefix)) != name {
			continue
		}
		if other := c.folder[prefix]; other != 0 {
			return &SourceError{file, 0, "the same range as " + rangeName(other, int64(prefix))}
		}
		c.folder[prefix] = code
		return nil
	}
	return &SourceError{file, 0, "not the name of a range file, such as 0A1B2.txt or 0A1B2.txt.gz"}
}

// read hands each file to do, with the range that it is of, -1 for a file of
// whole hashes.
func (c *Corpus) read(ctx context.Context, do func(name string, rng int64, r io.Reader) error) error {
	var in input
	if c.reader != nil {
		r, err := in.open(c.reader)
		if err != nil {
			return &SourceError{c.name, 0, err.Error()}
		}
		return do(c.name, c.ranged, r)
	}
	for prefix, code := range c.folder {
		if code == 0 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := c.readRange(&in, rangeName(code, int64(prefix)), int64(prefix), do); err != nil {
			return err
		}
	}
	return nil
}

func (c *Corpus) readRange(in *input, name string, prefix int64, do func(string, int64, io.Reader) error) error {
	name = filepath.Join(c.name, name)
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if st.ModTime().After(c.date) {
		c.date = st.ModTime()
	}
	r, err := in.open(f)
	if err != nil {
		return &SourceError{name, 0, err.Error()}
	}
	return do(name, prefix, r)
}

// input reads a file, gzipped or not: what it is goes by its first bytes, as
// names lie. It is used again for the next file.
type input struct {
	plain *bufio.Reader
	gz    *gzip.Reader
}

func (in *input) open(r io.Reader) (io.Reader, error) {
	if in.plain == nil {
		in.plain = bufio.NewReaderSize(nil, 64<<10)
	}
	in.plain.Reset(r)
	begin, err := in.plain.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if string(begin) != "\x1f\x8b" {
		return in.plain, nil
	}
	if in.gz == nil {
		in.gz = new(gzip.Reader)
	}
	if err := in.gz.Reset(in.plain); err != nil {
		return nil, gzipError(err)
	}
	return gzipped{in.gz}, nil
}

// gzipped says of what kind an error is.
type gzipped struct{ r *gzip.Reader }

func (g gzipped) Read(b []byte) (int, error) {
	n, err := g.r.Read(b)
	return n, gzipError(err)
}

func gzipError(err error) error {
	switch {
	case err == nil, errors.Is(err, io.EOF):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the gzip stream is cut off")
	}
	return fmt.Errorf("the gzip stream is broken: %w", err)
}
