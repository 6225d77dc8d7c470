package breached

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func gzipOf(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text)) // to memory
	_ = w.Close()
	return b.String()
}

// Everything that people have fed such programs, and that made every password
// "safe" there.
func TestBuildRefusesWhatIsNoCorpus(t *testing.T) {
	rows := hashA + ":1\n" + hashB + ":2\n"
	for name, v := range map[string]struct{ text, says string }{
		"nothing":                 {"", "rows: there is no row in it"},
		"padding only":            {hashA + ":0\n", "rows: there is no row in it"},
		"a web page with 200":     {"<!DOCTYPE html>\n<html>", "rows:1: this is a web page"},
		"a web page at the end":   {rows + "<html>503</html>\n", "rows:3: this is a web page"},
		"a 7z archive":            {"7z\xBC\xAF\x27\x1C\x00\x04" + strings.Repeat("x", 4096), "rows:1: this is a 7z archive: unpack it"},
		"a zip archive":           {"PK\x03\x04" + strings.Repeat("x\n", 99), "rows:1: this is a zip archive: unpack it"},
		"UTF-16":                  {"\xFF\xFE0\x000\x00", "rows:1: this is UTF-16: convert it to ASCII"},
		"an index":                {magic + strings.Repeat("\x00", 200), "rows:1: this is an index that guardd built, not what one is built from"},
		"zeros":                   {strings.Repeat("\x00", 3<<20), "rows:1: not HASH:COUNT"},
		"passwords":               {"password\n123456\n", "rows:1: not HASH:COUNT"},
		"passwords with colons":   {"alice:secret\n", "rows:1: not hex digits before the colon"},
		"an empty line":           {rows + "\n" + hashC + ":1\n", "rows:3: an empty line"},
		"a blank":                 {hashA + " :1\n", "rows:1: not hex digits before the colon"},
		"another delimiter":       {rows + hashC + ";1\n", "rows:3: not HASH:COUNT"},
		"a letter that is no hex": {strings.Replace(rows, "D8:", "G8:", 1), "rows:2: not hex digits before the colon"},
		"a cut hash":              {rows + hashC[:17], "rows:3: cut off after 17 hex digits"},
		"a cut row":               {rows + hashC, "rows:3: cut off after 40 hex digits"},
		"a cut count":             {rows + hashC + ":", "rows:3: cut off: no count after the colon"},
		"a cut count and more":    {hashA + ":\n" + hashB + ":2\n", "rows:1: cut off: no count after the colon"},
		"a negative count":        {hashA + ":-1\n", "rows:1: the count is not a number"},
		"a count with commas":     {hashA + ":1,000\n", "rows:1: the count is not a number"},
		"a leading zero":          {hashA + ":07\n", "rows:1: the count has a leading zero"},
		"too large a count":       {hashA + ":18446744073709551616\n", "rows:1: the count is too large"},
		"two CR":                  {hashA + ":1\r\r\n", "rows:1: the count is not a number"},
		"CR alone":                {hashA + ":1\r" + hashB + ":2\r", "rows:1: the count is not a number"},
		"one digit less":          {hashA[1:] + ":1\n", "rows:1: 39 hex digits, not 40"},
		"one digit less, later":   {rows + hashC[1:] + ":1\n", "rows:3: 39 hex digits, not 40"},
		"one digit more":          {rows + hashC + "0:1\n", "rows:3: 41 hex digits, not 40"},
		"NTLM in SHA-1":           {rows + ntlmA + ":1\n", "rows:3: ntlm (32 digits) among sha1 (40 digits)"},
		"SHA-1 in NTLM":           {ntlmA + ":1\n" + hashC + ":1\n", "rows:2: sha1 (40 digits) among ntlm (32 digits)"},
		"one range file":          {hashA[5:] + ":1\n", "rows:1: 35 digits are a hash without its prefix: give the folder of range files, not one of them"},
		"not sorted":              {hashB + ":1\n" + hashA + ":2\n", "rows:2: not in ascending order of hashes; sort it first"},
		"sorted by count":         {hashC + ":9\n" + hashA + ":8\n", "rows:2: not in ascending order of hashes; sort it first"},
		"twice":                   {rows + strings.ToLower(hashB) + ":2\n", "rows:3: the same hash as in the row before"},
		"a cut gzip":              {gzipOf(rows)[:30], "rows:1: the gzip stream is cut off"},
		"a broken gzip":           {gzipOf(rows)[:40] + "xxxxxxxx", "rows:1: the gzip stream is cut off"},
		"a gzip header":           {"\x1f\x8b\x08", "rows: the gzip stream is cut off"},
		"an endless line":         {strings.Repeat("A", 5<<20), "rows:1: cut off after 5242880 hex digits"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "index")
			_, err := Build(context.Background(), NewCorpus("rows", strings.NewReader(v.text)), path, BuildOptions{Partial: true, bits: small}, nil)
			var at *SourceError
			if !errors.As(err, &at) || !strings.HasPrefix(err.Error(), v.says) && name != "an endless line" && name != "a broken gzip" {
				t.Errorf("%v, want %q", err, v.says)
			}
			if left := files(t, filepath.Dir(path)); len(left) > 0 {
				t.Errorf("it has left %v", left)
			}
		})
	}
}

// A row that differs in one bit from a row must not be read as another.
func TestNoFlippedBitOfARowIsAccepted(t *testing.T) {
	good := []byte(hashB + ":2\n")
	p := parser{kind: SHA1, partial: true, rng: -1}
	p.setWidth()
	for i := range good {
		for bit := range 8 {
			b := bytes.Clone(good)
			b[i] ^= 1 << bit
			if b[len(b)-1] != '\n' {
				continue // the scanner's, which hands on whole lines
			}
			q := p
			rows, err := q.parse(b, nil)
			valid := hexDigit[b[i]] >= 0
			if i == 40 {
				valid = false
			} else if i == 41 {
				valid = b[i] >= '0' && b[i] <= '9'
			}
			if valid != (err == nil) {
				t.Fatalf("%q: %v, %v", b, rows, err)
			}
			if err == nil && len(rows) == 1 && i < 40 && rows[0].hash(SHA1) != parsed(t, SHA1, string(b[:40])) {
				t.Fatalf("%q is read as %v", b, rows[0].hash(SHA1))
			}
		}
	}
}

// every writes a row of each prefix from one to before another.
func every(from, to int, count string) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&b, "%05X%s:%s\n", i, hashB[5:], count)
	}
	return b.String()
}

// A download that has ended early must not be taken for all of it.
func TestMissingPrefixesAreRefusedUnlessPartial(t *testing.T) {
	const last = Prefixes
	all := every(0, last, "3")
	line := len(all) / last
	for _, v := range []struct {
		name, text, says string
		prefixes         uint32
	}{
		{"all of them", all, "", last},
		{"without the last", all[:len(all)-line], "rows:1048575: it ends here, with 1048575 of 1048576 prefixes: prefix FFFFF is missing; --partial accepts that", last - 1},
		{"6% of them", all[:line*(last/16)], "rows:65536: it ends here, with 65536 of 1048576 prefixes: prefixes 10000 to FFFFF are missing; --partial accepts that", last / 16},
		{"without the first", all[line:], "rows:1: prefix 00000 is missing before this; --partial accepts that", last - 1},
		{"without some", all[:line*7] + all[line*9:], "rows:8: prefixes 00007 to 00008 are missing before this; --partial accepts that", last - 2},
		{"one of padding", all[:line*7] + every(7, 8, "0") + all[line*8:], "rows:9: prefix 00007 is missing before this; --partial accepts that", last - 1},
	} {
		t.Run(v.name, func(t *testing.T) {
			for _, partial := range []bool{false, true} {
				path := filepath.Join(t.TempDir(), "index")
				s, err := Build(context.Background(), NewCorpus("rows", strings.NewReader(v.text)), path, BuildOptions{Partial: partial, NoSuffixes: true, bits: 16}, nil)
				if v.says != "" && !partial {
					if err == nil || err.Error() != v.says {
						t.Errorf("%v, want %q", err, v.says)
					}
					continue
				}
				if err != nil || s.Prefixes != v.prefixes || s.Complete != (v.prefixes == last) {
					t.Errorf("%+v, %v", s, err)
				}
				verdict, err := opened(t, path).Check(context.Background(), parsed(t, SHA1, hashC))
				if want := (Verdict{Complete: v.prefixes == last}); err != nil || verdict != want {
					t.Errorf("%+v, %v, want %+v", verdict, err, want)
				}
			}
		})
	}
}

func TestFolders(t *testing.T) {
	a, b := hashA[5:]+":1\r\n"+hashB[5:]+":2", hashC[5:]+":3"
	var one, ntlm = parsed(t, SHA1, "00000"+hashB[5:]), ntlmA[5:] + ":7"
	for name, v := range map[string]struct {
		files map[string]string
		says  string
	}{
		"as downloaded":      {map[string]string{"00000.txt": a, "0000F.txt": b}, ""},
		"without extension":  {map[string]string{"00000": a, "0000f": b}, ""},
		"gzipped":            {map[string]string{"00000.txt.gz": gzipOf(a), "0000F.gz": gzipOf(b)}, ""},
		"gzip by its bytes":  {map[string]string{"00000.txt": gzipOf(a), "0000F.gz": b}, ""},
		"hidden files":       {map[string]string{"00000.txt": a, ".DS_Store": "x"}, ""},
		"NTLM":               {map[string]string{"00000.txt": ntlm}, ""},
		"an empty one":       {map[string]string{"00000.txt": a, "00001.txt": ""}, ""},
		"padded":             {map[string]string{"00000.txt": a + "\r\n" + hashC[5:] + ":0\r\n" + hashA[5:39] + "0:0"}, ""},
		"a web page":         {map[string]string{"00000.txt": a, "00001.txt": "<html>"}, "/00001.txt:1: this is a web page"},
		"an error page":      {map[string]string{"00000.txt": a, "00001.txt": "Something went wrong."}, "/00001.txt:1: not HASH:COUNT"},
		"a cut row":          {map[string]string{"00000.txt": a[:30]}, "/00000.txt:1: cut off after 30 hex digits"},
		"whole hashes":       {map[string]string{"00000.txt": hashA + ":1"}, "/00000.txt:1: 40 digits are a whole hash; a range file's rows have 35 or 27"},
		"NTLM among SHA-1":   {map[string]string{"00000.txt": a, "00001.txt": ntlm}, "/00001.txt:1: a range of ntlm (27 digits) among those of sha1 (35 digits)"},
		"not sorted":         {map[string]string{"00000.txt": hashB[5:] + ":2\n" + hashA[5:] + ":1"}, "/00000.txt:2: not in ascending order of hashes; sort it first"},
		"a cut gzip":         {map[string]string{"00000.gz": gzipOf(a)[:30]}, "/00000.gz:1: the gzip stream is cut off"},
		"a range twice":      {map[string]string{"0000A.txt": a, "0000a.txt": a}, "the same range as "},
		"another file":       {map[string]string{"00000.txt": a, "README": ""}, "/README: not the name of a range file, such as 0A1B2.txt or 0A1B2.txt.gz"},
		"an unfinished file": {map[string]string{"00000.txt.part": a}, "/00000.txt.part: not the name of a range file, such as 0A1B2.txt or 0A1B2.txt.gz"},
		"mixed case":         {map[string]string{"0aB00.txt": a}, "/0aB00.txt: not the name of a range file, such as 0A1B2.txt or 0A1B2.txt.gz"},
		"nothing":            {nil, ": there is no row in it"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, path := t.TempDir(), filepath.Join(t.TempDir(), "index")
			for f, text := range v.files {
				writeFileT(t, filepath.Join(dir, f), []byte(text))
			}
			c, err := OpenCorpus(dir)
			if err == nil {
				defer c.Close()
				_, err = Build(context.Background(), c, path, BuildOptions{Partial: true, bits: small}, nil)
			}
			if v.says != "" {
				if err == nil || !strings.Contains(err.Error(), v.says) || !strings.HasPrefix(err.Error(), dir) {
					t.Errorf("%v, want %s%s", err, dir, v.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			x := opened(t, path)
			if x.Info().Source.IsZero() {
				t.Error("it has no date")
			}
			h, count := one, uint64(2)
			if x.Info().Kind == NTLM {
				h, count = parsed(t, NTLM, "00000"+ntlmA[5:]), 7
			}
			if verdict, err := x.Check(context.Background(), h); err != nil || verdict.Count != count {
				t.Errorf("%+v, %v", verdict, err)
			}
		})
	}
}

// An empty or a missing range file is named, where holes are not accepted.
func TestHolesOfAFolderAreNamed(t *testing.T) {
	for says, second := range map[string]string{"/00001.txt: there is no row in it; --partial accepts that": "", "/00002.txt:1: prefix 00001 is missing before this; --partial accepts that": "-"} {
		dir := t.TempDir()
		writeFileT(t, filepath.Join(dir, "00000.txt"), []byte(hashA[5:]+":1"))
		writeFileT(t, filepath.Join(dir, "00002.txt"), []byte(hashA[5:]+":1"))
		if second != "-" {
			writeFileT(t, filepath.Join(dir, "00001.txt"), nil)
		}
		c, err := OpenCorpus(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, err = Build(context.Background(), c, filepath.Join(t.TempDir(), "x"), BuildOptions{bits: small}, nil)
		if err == nil || err.Error() != dir+says {
			t.Errorf("%v, want %s", err, says)
		}
	}
}

// A build that fails leaves what was there as it was, and nothing beside it.
func TestAFailedBuildChangesNothing(t *testing.T) {
	path := built(t, hashA+":1\n", BuildOptions{Partial: true})
	before, suffixes := readFileT(t, path), readFileT(t, path+SuffixesExtension)
	good := hashA + ":1\n" + hashB + ":2\n"
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	for name, do := range map[string]func() error{
		"a bad row": func() error {
			_, err := Build(context.Background(), NewCorpus("x", strings.NewReader(good+"x")), path, BuildOptions{Partial: true}, nil)
			return err
		},
		"a bad row, top": func() error {
			_, err := Build(context.Background(), NewCorpus("x", strings.NewReader(good+"x")), path, BuildOptions{Partial: true, Top: 1}, nil)
			return err
		},
		"canceled": func() error {
			_, err := Build(canceled, NewCorpus("x", strings.NewReader(good)), path, BuildOptions{Partial: true}, nil)
			return err
		},
		"a reader that fails": func() error {
			_, err := Build(context.Background(), NewCorpus("x", &failing{text: good}), path, BuildOptions{Partial: true}, nil)
			if !strings.Contains(err.Error(), "x:3: the disk is gone") {
				t.Errorf("%v does not say where", err)
			}
			return err
		},
	} {
		if err := do(); err == nil {
			t.Errorf("%s: built", name)
		}
		if !bytes.Equal(readFileT(t, path), before) || !bytes.Equal(readFileT(t, path+SuffixesExtension), suffixes) {
			t.Errorf("%s: the old index has changed", name)
		}
		if left := files(t, filepath.Dir(path)); len(left) != 2 {
			t.Errorf("%s: there are %v", name, left)
		}
	}
	if _, err := Build(context.Background(), NewCorpus("x", strings.NewReader(good)), t.TempDir(), BuildOptions{Partial: true}, nil); err == nil {
		t.Error("it has built over a folder")
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

type failing struct {
	text string
	done bool
}

func (f *failing) Read(b []byte) (int, error) {
	if f.done {
		return 0, errors.New("the disk is gone")
	}
	f.done = true
	return copy(b, f.text), nil
}
