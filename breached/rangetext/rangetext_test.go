package rangetext

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"
)

const (
	a = "0005AD76BD555C1D6D771DE417A4B87E4B4"
	b = "000A8DAE4228F821FB418F59826079BF368"
	p = "FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF" // padding
)

func TestWhatIsFound(t *testing.T) {
	for name, row := range map[string]struct {
		body string
		want uint64
	}{
		"the first":             {a + ":10\r\n" + b + ":4", 10},
		"the last":              {b + ":4\r\n" + a + ":10", 10},
		"alone":                 {a + ":10", 10},
		"not there":             {b + ":4", 0},
		"padding of that hash":  {a + ":0\r\n" + b + ":4", 0},
		"padding, then the row": {a + ":0\r\n" + a + ":4", 4},
		"padding, unsorted":     {b + ":4\r\n" + p + ":0\r\n" + a + ":3\r\n" + p + ":0", 3},
		"line feeds":            {b + ":4\n" + a + ":3\n", 3},
		"a last line's end":     {a + ":3\r\n", 3},
		"small letters":         {strings.ToLower(a) + ":3", 3},
		"a byte order mark":     {"\xEF\xBB\xBF" + a + ":3", 3},
		"very often":            {a + ":18446744073709551615", 18446744073709551615},
	} {
		if n, err := Find([]byte(row.body), a); err != nil || n != row.want {
			t.Errorf("%s: %d, %v; want %d", name, n, err, row.want)
		}
	}
}

// Whatever is not an answer of the service is neither "safe" nor "known".
func TestWhatIsNoRange(t *testing.T) {
	for name, body := range map[string]string{
		"nothing":              "",
		"a byte order mark":    "\xEF\xBB\xBF",
		"a page":               "<!doctype html><title>Sign in</title>",
		"a page after a row":   a + ":3\r\n<html>",
		"JSON":                 `{"breached":false}`,
		"no count":             a,
		"an empty count":       a + ":",
		"a negative count":     a + ":-1",
		"a count with a sign":  a + ":+1",
		"a count with a blank": a + ": 1",
		"a fraction":           a + ":1.5",
		"a leading zero":       a + ":01",
		"too large a count":    a + ":18446744073709551616",
		"a cut row":            b + ":4\r\n" + a[:20],
		"NTLM in SHA-1":        a[:27] + ":3",
		"whole hashes":         "00000" + a + ":3",
		"no hex":               "G" + a[1:] + ":3",
		"an empty line":        a + ":3\r\n\r\n" + b + ":4",
		"two counts":           a + ":3\r\n" + a + ":4",
		"a lone CR":            a + ":3\r" + b + ":4",
		"NUL":                  a + ":3\x00",
		"too long":             strings.Repeat(b+":4\r\n", MaxBody/39+1),
	} {
		if n, err := Find([]byte(body), a); err == nil {
			t.Errorf("%s: found %d", name, n)
		}
		if out, err := Strip([]byte(body), len(a)); err == nil && name != "two counts" {
			t.Errorf("%s: stripped to %.40q", name, out)
		}
	}
}

func TestStripIsTheRangeWithoutPadding(t *testing.T) {
	body := strings.ToLower(a) + ":3\n" + p + ":0\n" + b + ":4\n" + p[1:] + "0:0"
	got, err := Strip([]byte(body), len(a))
	if err != nil || string(got) != a+":3\r\n"+b+":4" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := Strip([]byte(p+":0"), len(a)); err == nil {
		t.Errorf("nothing but padding: %q", got)
	}
}

func TestRealRanges(t *testing.T) {
	for file, digits := range map[string]int{"sha1/00000": 35, "sha1/00001": 35, "ntlm/00000": 27, "ntlm/00001": 27} {
		body, err := os.ReadFile("../breachedtest/testdata/" + file + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Strip(body, digits); err != nil || !bytes.Equal(got, body) {
			t.Errorf("%s is not itself: %v", file, err)
		}
		for _, row := range strings.Split(string(body), "\r\n") {
			suffix, count, _ := strings.Cut(row, ":")
			if n, err := Find(body, suffix); err != nil || strconv.FormatUint(n, 10) != count {
				t.Fatalf("%s: %s: %d, %v", file, row, n, err)
			}
		}
	}
}

// FuzzFind holds that what is read can be written again, and says the same.
func FuzzFind(f *testing.F) {
	f.Add([]byte(a + ":3\r\n" + p + ":0\r\n" + b + ":4"))
	f.Add([]byte("\xEF\xBB\xBF" + a + ":3\n"))
	f.Add([]byte("<html>"))
	f.Fuzz(func(t *testing.T, body []byte) {
		n, err := Find(body, a)
		if err != nil {
			if n != 0 {
				t.Errorf("an error and %d", n)
			}
			return
		}
		plain, err := Strip(body, len(a))
		if err != nil { // nothing but padding
			if n != 0 {
				t.Errorf("found %d in nothing but padding", n)
			}
			return
		}
		if again, err := Find(plain, a); err != nil || again != n {
			t.Errorf("found %d, and %d without padding: %v", n, again, err)
		}
		if twice, err := Strip(plain, len(a)); err != nil || !bytes.Equal(twice, plain) {
			t.Errorf("%q is stripped to %q, %v", plain, twice, err)
		}
	})
}
