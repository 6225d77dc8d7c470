package breached

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Hex digits are read eight at once: all that eight bytes can be at each place.
func TestHex8ReadsDigitsAndNothingElse(t *testing.T) {
	for place := range 8 {
		for c := range 256 {
			b := []byte("0a9F3c7D")
			b[place] = byte(c)
			want, err := strconv.ParseUint(string(b), 16, 64)
			digit := hexDigit[c] >= 0
			if digit != (err == nil) {
				t.Fatalf("%q: %v", b, err)
			}
			if got, bad := hex8(b); (bad == 0) != digit || digit && uint64(got) != want {
				t.Errorf("%q: %x, bad %x; want %x, %v", b, got, bad, want, err)
			}
		}
	}
}

// simply reads a corpus the plain way. ok is whether it may be built from.
func simply(text string, ranged bool) (rows []string, ok bool) {
	lines := strings.Split(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	width := 0
	for _, line := range lines {
		line = strings.TrimSuffix(strings.TrimPrefix(line, string(bom)), "\r")
		hash, count, _ := strings.Cut(line, ":")
		if width == 0 {
			width = len(hash)
			if ranged && width != 35 && width != 27 || !ranged && width != 40 && width != 32 {
				return nil, false
			}
		}
		if len(hash) != width || !regexp.MustCompile("^[0-9A-Fa-f]+$").MatchString(hash) || !regexp.MustCompile("^(0|[1-9][0-9]*)$").MatchString(count) {
			return nil, false
		}
		if _, err := strconv.ParseUint(count, 10, 64); err != nil {
			return nil, false
		}
		if count == "0" {
			continue
		}
		hash = strings.ToUpper(hash)
		if n := len(rows); n > 0 && strings.SplitN(rows[n-1], ":", 2)[0] >= hash {
			return nil, false
		}
		rows = append(rows, hash+":"+count)
	}
	return rows, len(rows) > 0
}

// scanned reads it as a build does.
func scanned(text string, ranged bool) (rows []string, err error) {
	p := parser{partial: true, rng: -1, chunk: 1 + len(text)/3} // so that chunks end anywhere
	c := NewCorpus("text", strings.NewReader(text))
	each := func(batch []row, _ int64) error {
		for i := range batch {
			h := batch[i].hash(p.kind).String()
			if ranged {
				h = h[PrefixDigits:]
			}
			rows = append(rows, h+":"+strconv.FormatUint(batch[i].count, 10))
		}
		return nil
	}
	if ranged {
		c.ranged = 0xABCDE
	}
	err = p.scan(context.Background(), c, each)
	return rows, err
}

// FuzzCorpus holds the parser of whole hashes and of ranges to a plain one:
// what either refuses the other must, and what they read must be the same.
func FuzzCorpus(f *testing.F) {
	for _, text := range []string{
		"", hashA + ":1\n" + hashB + ":2\r\n" + hashC + ":10434004", ntlmA + ":3\n", hashA[5:] + ":1\r\n" + hashB[5:] + ":0", ntlmA[5:] + ":18446744073709551615",
		string(bom) + hashA + ":1\n" + string(bom) + strings.ToLower(hashB) + ":9\n", "<html>\n", hashB + ":1\n" + hashA + ":1\n", hashA + ":01\n", hashA + ":1\r\r\n",
	} {
		f.Add(text, false)
		f.Add(text, true)
	}
	f.Fuzz(func(t *testing.T, text string, ranged bool) {
		if strings.HasPrefix(text, "\x1f\x8b") {
			return // compress/gzip's
		}
		want, ok := simply(text, ranged)
		got, err := scanned(text, ranged)
		if ok != (err == nil) || ok && !slices.Equal(got, want) {
			t.Fatalf("%q\nread plainly: %q, %t\nread: %q, %v", text, want, ok, got, err)
		}
	})
}
