package loginlog

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func gz(parts ...string) string {
	var b bytes.Buffer
	for _, p := range parts {
		w := gzip.NewWriter(&b)
		io.WriteString(w, p)
		w.Close()
	}
	return b.String()
}

func TestLines(t *testing.T) {
	x := strings.Repeat("x", MaxLine)
	const long = "LONG"
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{"empty", "", nil},
		{"one without end", "a", []string{"a"}},
		{"ends", "a\n\nb\r\n\r\nc\r", []string{"a", "", "b", "", "c"}},
		{"a carriage return inside stays", "a\rb\n", []string{"a\rb"}},
		{"byte order mark", "\xef\xbb\xbfa\n", []string{"a"}},
		{"only a mark", "\xef\xbb\xbf", nil},
		{"not UTF-8", "a\xff\x00b\n", []string{"a\xff\x00b"}},
		{"gzip", gz("a\nb\n"), []string{"a", "b"}},
		{"gzip of two", gz("a\nb", "c\n\xff"), []string{"a", "bc", "\xff"}},
		{"gzip with a mark", gz("\xef\xbb\xbfa"), []string{"a"}},
		{"just long enough", x + "\n" + x + "\r\n" + x, []string{x, x, x}},
		{"too long", "a\n" + x + "y\nb\n", []string{"a", long, "b"}},
		{"much too long", x + x + x + x + "\nb", []string{long, "b"}},
		{"too long at the end", x + x, []string{long}},
	} {
		for _, reader := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.HalfReader, iotest.DataErrReader} {
			l, err := NewLines(reader(strings.NewReader(c.in)))
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			var got []string
			for {
				line, err := l.Next()
				if err == io.EOF {
					break
				} else if err == errLong {
					line = []byte(long)
				} else if err != nil {
					t.Fatalf("%s: %v", c.name, err)
				}
				got = append(got, string(line))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s: %.80q, want %.80q", c.name, got, c.want)
			}
			if l.Read() != int64(len(c.in)) {
				t.Errorf("%s: %d of %d bytes read", c.name, l.Read(), len(c.in))
			}
		}
	}
}

func TestBrokenFilesAreErrors(t *testing.T) {
	whole := gz(strings.Repeat("a line\n", 1000))
	for _, c := range []struct{ name, in, want string }{
		{"cut gzip", whole[:len(whole)-9], "unexpected EOF"},
		{"cut in the header", whole[:4], "EOF"},
		{"zstd", "\x28\xb5\x2f\xfdxx", "zstd -dc"},
		{"xz", "\xfd7zXZ\x00", "xz -dc"},
		{"bzip2", "BZh91AY", "bzip2 -dc"},
	} {
		l, err := NewLines(strings.NewReader(c.in))
		if err == nil {
			_, err = NewScanner(l, NewSSHD(2025, time.UTC)).Next()
		}
		if err == nil || err == io.EOF || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	broken := errors.New("disk on fire")
	l, err := NewLines(io.MultiReader(strings.NewReader("x\ny"), iotest.ErrReader(broken)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewScanner(l, NewSSHD(2025, time.UTC)).Next(); !errors.Is(err, broken) {
		t.Errorf("a read error became %v", err)
	}
}

func TestUnreadLinesAreNumbered(t *testing.T) {
	log := "\nMar 27 13:06:56 h cron[1]: x\n?\n" + strings.Repeat("x", MaxLine+1) + "\n   \n?\n?\n?"
	s, events := all(t, strings.NewReader(log), NewSSHD(2025, time.UTC))
	if want := (Counts{8, 0, 3, 5}); s.Counts != want || len(events) != 0 {
		t.Errorf("%+v", s.Counts)
	}
	want := []Unread{{3, errStamp}, {4, errLong}, {6, errStamp}}
	if !slices.Equal(s.First, want) {
		t.Errorf("first %v, want %v", s.First, want)
	}
}
