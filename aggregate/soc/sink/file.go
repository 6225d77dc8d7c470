package sink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/guardd/guardd/aggregate/soc"
)

// file appends lines, and begins a new file where one is large. What was delivered
// is on the disk. Others may rename the file meanwhile: a new one is begun then. One
// process at a time may write it.
type file struct {
	c    *Config
	path string
	f    *os.File // nil: not open
	size int64
}

func newFile(c *Config, path string) *file { return &file{c: c, path: path} }

// Deliver is soc.Sink's.
func (s *file) Deliver(_ context.Context, records []*soc.Record) (done int, err error) {
	if err := s.open(); err != nil {
		return 0, err
	}
	var b []byte
	for i, r := range records {
		before := len(b)
		if b, err = s.c.line(b, r); err != nil {
			return s.write(b[:before], i, err)
		}
		if s.c.RotateBytes > 0 && s.size+int64(len(b)) >= s.c.RotateBytes {
			if done, err = s.write(b, i+1, nil); err != nil {
				return done, err
			}
			if err := s.rotate(); err != nil || i+1 == len(records) {
				return i + 1, err
			}
			more, err := s.Deliver(context.Background(), records[i+1:])
			return i + 1 + more, err
		}
	}
	return s.write(b, len(records), nil)
}

// write has b on the disk, or nothing of it; n are the records of b.
func (s *file) write(b []byte, n int, err error) (int, error) {
	if len(b) == 0 {
		return n, err
	}
	if _, werr := s.f.Write(b); werr != nil {
		// What is half there is repeated: a whole line of it must not stay before half
		// a line.
		return 0, errors.Join(werr, s.f.Truncate(s.size), s.shut())
	}
	if serr := s.f.Sync(); serr != nil {
		return 0, errors.Join(serr, s.shut())
	}
	s.size += int64(len(b))
	return n, err
}

// open opens the file, unless the one that is open still has its name.
func (s *file) open() error {
	if s.f != nil {
		mine, err := s.f.Stat()
		there, terr := os.Stat(s.path)
		if err == nil && terr == nil && os.SameFile(mine, there) {
			s.size = mine.Size()
			return nil
		}
		if err := s.shut(); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(s.path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o640)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(s.path), 0o750); err == nil {
			f, err = os.OpenFile(s.path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o640)
		}
	}
	if err != nil {
		return err
	}
	s.f = f
	return s.mend()
}

// mend ends a line that a crash has torn, so that the next one is a line of its own.
func (s *file) mend() error {
	st, err := s.f.Stat()
	if err != nil {
		return err
	}
	s.size = st.Size()
	if s.size == 0 {
		return nil
	}
	last := make([]byte, 1)
	if _, err := s.f.ReadAt(last, s.size-1); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if last[0] == '\n' {
		return nil
	}
	n, err := s.f.WriteString("\n")
	s.size += int64(n)
	return err
}

// rotate renames path to path.1, that to path.2 and so on; the oldest goes.
func (s *file) rotate() error {
	if err := s.shut(); err != nil {
		return err
	}
	old := func(n int) string {
		if n == 0 {
			return s.path
		}
		return fmt.Sprintf("%s.%d", s.path, n)
	}
	if s.c.Keep <= 0 {
		return os.Remove(s.path)
	}
	for n := s.c.Keep; n > 0; n-- {
		if err := os.Rename(old(n-1), old(n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (s *file) shut() error {
	if s.f == nil {
		return nil
	}
	err := s.f.Close()
	s.f = nil
	return err
}

// Close is soc.Sink's.
func (s *file) Close() error { return s.shut() }
