package breached

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// One corpus, in every form in which it is found: the indexes hold the same.
func TestEveryFormOfACorpusBuildsTheSame(t *testing.T) {
	const bom = "\xEF\xBB\xBF"
	rows := []string{hashA + ":1", strings.Replace(hashA, "AA", "AB", 1) + ":300", hashB + ":10434004", hashC + ":2"}
	lf := strings.Join(rows, "\n") + "\n"
	o := BuildOptions{Partial: true}
	want := opened(t, built(t, lf, o))
	for name, text := range map[string]string{
		"CRLF":                  strings.ReplaceAll(lf, "\n", "\r\n"),
		"no final newline":      strings.TrimSuffix(lf, "\n"),
		"CRLF, no final one":    strings.Join(rows, "\r\n"),
		"lower case":            strings.ToLower(lf),
		"a BOM":                 bom + lf,
		"a BOM before every":    bom + strings.Join(rows, "\n"+bom),
		"a BOM and CRLF":        bom + strings.Join(rows, "\r\n"+bom),
		"gzip":                  gzipOf(lf),
		"gzip in two members":   gzipOf(lf[:100]) + gzipOf(lf[100:]),
		"gzip of a BOM":         gzipOf(bom + lf),
		"padding":               lf + hashA + ":0\n" + hashC[:39] + "0:0\n",
		"padding between":       rows[0] + "\n" + hashC + ":0\n" + strings.Join(rows[1:], "\n"),
		"padding before":        hashB + ":0\n" + lf,
		"CR before LF, in part": strings.Replace(lf, "\n", "\r\n", 1),
	} {
		t.Run(name, func(t *testing.T) {
			x := opened(t, built(t, text, o))
			if x.etag != want.etag {
				t.Errorf("it holds something else: %+v, not %+v", x.Info(), want.Info())
			}
		})
	}
}

// Real bodies of the public service come out byte for byte.
func TestRealRangesComeOutByteForByte(t *testing.T) {
	for _, kind := range Kinds {
		for _, bits := range []uint8{8, 16, 24} {
			dir := filepath.Join("testdata", kind.String())
			c, err := OpenCorpus(dir)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "index")
			if _, err := Build(context.Background(), c, path, BuildOptions{Partial: true, bits: bits}, nil); err != nil {
				t.Fatal(err)
			}
			c.Close()
			x := opened(t, path)
			for _, name := range files(t, dir) {
				want := readFileT(t, filepath.Join(dir, name))
				r, err := x.Range(context.Background(), kind, name[:5])
				if err != nil || !bytes.Equal(r.Body, want) {
					t.Fatalf("%v %s: %v, %d bytes, not %d", kind, name, err, len(r.Body), len(want))
				}
				for _, line := range strings.Split(string(want), "\r\n") {
					suffix, count, _ := strings.Cut(line, ":")
					v, err := x.Check(context.Background(), parsed(t, kind, name[:5]+suffix))
					if err != nil || !v.Breached || fmt.Sprint(v.Count) != count {
						t.Fatalf("%v %s %s: %+v, %v", kind, name, line, v, err)
					}
				}
			}
		}
	}
}

// A folder of 4,096 ranges, as a download that has got so far.
func TestFolderOf4096Ranges(t *testing.T) {
	dir, r := t.TempDir(), rand.New(rand.NewPCG(1, 2))
	bodies := make([]string, 4096)
	rows := uint64(0)
	for i := range bodies {
		var lines []string
		for range 1 + r.IntN(4) {
			lines = append(lines, fmt.Sprintf("%035X:%d", r.Uint64(), 1+r.IntN(300)))
		}
		slices.Sort(lines)
		rows += uint64(len(lines))
		bodies[i] = strings.Join(lines, "\r\n")
		writeFileT(t, filepath.Join(dir, fmt.Sprintf("%05X.txt", i)), []byte(bodies[i]))
	}
	c, err := OpenCorpus(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	path := filepath.Join(t.TempDir(), "index")
	var last Progress
	s, err := Build(context.Background(), c, path, BuildOptions{Partial: true}, func(p Progress) {
		if p.Done < last.Done || p.Rows < last.Rows || p.Bytes < last.Bytes {
			t.Errorf("progress goes from %+v to %+v", last, p)
		}
		last = p
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.Rows != rows || s.Prefixes != 4096 || s.Complete || !s.Ranges || last.Rows != rows || math.Abs(last.Done-4096./Prefixes) > 1e-6 {
		t.Errorf("%+v, after %+v, of %d rows", s, last, rows)
	}
	x := opened(t, path)
	for i, body := range bodies {
		got, err := x.Range(context.Background(), SHA1, fmt.Sprintf("%05x", i))
		if err != nil || string(got.Body) != body {
			t.Fatalf("%05X: %v, %+v", i, err, got)
		}
	}
	if _, err := x.Range(context.Background(), SHA1, "01000"); err != ErrNoRange {
		t.Errorf("a prefix that is missing: %v", err)
	}
}

// randomRows draws a corpus in which hashes share long beginnings, so that
// buckets are long and others empty.
func randomRows(rt *rapid.T, kind Kind) []row {
	byHash := map[Hash]row{}
	for range rapid.IntRange(1, 120).Draw(rt, "rows") {
		var r row
		r.hi = rapid.SampledFrom([]uint64{0, 0x5BAA61E400000000, 0x5BAA61E4C9B93F00, 0xFFFFFFFFFFFFFF00, 0x8000000000000000}).Draw(rt, "begin") +
			uint64(rapid.IntRange(0, 255).Draw(rt, "next"))<<rapid.SampledFrom([]int{0, 8, 24, 40}).Draw(rt, "shift")
		r.mid = rapid.Uint64Range(0, 3).Draw(rt, "mid")
		if kind == SHA1 {
			r.lo = rapid.Uint32Range(0, 1).Draw(rt, "lo")
		}
		r.count = rapid.OneOf(rapid.Uint64Range(1, 3), rapid.Uint64Range(250, 260), rapid.Uint64Range(65530, 65540), rapid.Uint64Min(1)).Draw(rt, "count")
		byHash[r.hash(kind)] = r
	}
	rows := make([]row, 0, len(byHash))
	for _, r := range byHash {
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b row) int { return a.compare(&b) })
	return rows
}

// TestIndexAgreesWithAMap holds an index to what a map of its rows says: of
// every hash in it, of neighbours that are not, and of whole ranges. Rows that
// share all the bits that an index keeps answer the largest of their counts.
func TestIndexAgreesWithAMap(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		kind := rapid.SampledFrom(Kinds).Draw(rt, "kind")
		bits := rapid.SampledFrom([]uint8{8, 8, 8, 16}).Draw(rt, "bits")
		rows := randomRows(rt, kind)
		kept := func(hi uint64) uint64 { return hi >> (24 - bits) }
		counts, ranges := map[uint64]uint64{}, map[uint32]string{}
		for i := range rows {
			r := &rows[i]
			counts[kept(r.hi)] = max(counts[kept(r.hi)], r.count)
			if ranges[r.prefix()] != "" {
				ranges[r.prefix()] += "\r\n"
			}
			ranges[r.prefix()] += fmt.Sprintf("%s:%d", r.hash(kind).Suffix(), r.count)
		}
		path := filepath.Join(dir, "index")
		s, err := Build(context.Background(), NewCorpus("rows", strings.NewReader(text(kind, rows))), path, BuildOptions{Partial: true, bits: bits}, nil)
		if err != nil || s.Rows != uint64(len(rows)) || int(s.Prefixes) != len(ranges) {
			rt.Fatalf("%+v, %v", s, err)
		}
		x, err := Open(path)
		if err != nil {
			rt.Fatal(err)
		}
		defer x.Close()
		if err := x.Verify(context.Background(), nil); err != nil {
			rt.Fatal(err)
		}
		for i := range rows {
			for _, hi := range []uint64{rows[i].hi, rows[i].hi + 1<<16, rows[i].hi - 1<<16, rows[i].hi ^ 1<<63, rows[i].hi ^ 1<<44} {
				q := rows[i]
				q.hi = hi
				v, err := x.Check(context.Background(), q.hash(kind))
				if want := counts[kept(hi)]; err != nil || v.Count != want || v.Breached != (want > 0) {
					rt.Fatalf("%v: %+v, %v; want %d", q.hash(kind), v, err, want)
				}
				prefix := fmt.Sprintf("%05x", q.prefix())
				got, err := x.Range(context.Background(), kind, prefix)
				if want := ranges[q.prefix()]; want == "" && err != ErrNoRange || want != "" && (err != nil || string(got.Body) != want) {
					rt.Fatalf("%s: %+v, %v; want %q", prefix, got, err, want)
				}
			}
		}
	})
}

// TestTopIsTheMostFrequent holds the selection, which sees each row once, to
// sorting all of them.
func TestTopIsTheMostFrequent(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		rows := randomRows(rt, SHA1)
		n := rapid.Uint64Range(1, 130).Draw(rt, "top")
		path := filepath.Join(dir, "index")
		s, err := Build(context.Background(), NewCorpus("rows", strings.NewReader(text(SHA1, rows))), path, BuildOptions{Partial: true, Top: n, bits: small}, nil)
		if err != nil {
			rt.Fatal(err)
		}
		want := slices.Clone(rows)
		slices.SortStableFunc(want, func(a, b row) int { return -cmp.Compare(a.count, b.count) })
		want = want[:min(int(n), len(want))]
		if s.Rows != uint64(len(want)) || s.Read != uint64(len(rows)) || s.Complete || s.Ranges || s.Top != n {
			rt.Fatalf("%+v of %d rows, %d wanted", s, len(rows), len(want))
		}
		slices.SortFunc(want, func(a, b row) int { return a.compare(&b) })
		// What is built of the right rows is what was built.
		other := path + "2"
		if _, err := Build(context.Background(), NewCorpus("rows", strings.NewReader(text(SHA1, want))), other, BuildOptions{Partial: true, NoSuffixes: true, bits: small}, nil); err != nil {
			rt.Fatal(err)
		}
		a, b := readFileT(t, path), readFileT(t, other)
		if !bytes.Equal(a[headerSize:len(a)-sealSize], b[headerSize:len(b)-sealSize]) {
			rt.Fatalf("it holds others than the top %d", n)
		}
	})
	if left := files(t, dir); len(left) != 2 {
		t.Errorf("there are %v", left)
	}
}

// A corpus that is cut is not complete, whatever it was cut from; one that has
// no more than N rows was not cut.
func TestTopOfACompleteCorpus(t *testing.T) {
	all := every(0, Prefixes, "7")
	for n, complete := range map[uint64]bool{Prefixes: true, Prefixes - 1: false, 5 << 20: true} {
		path := filepath.Join(t.TempDir(), "index")
		s, err := Build(context.Background(), NewCorpus("rows", strings.NewReader(all)), path, BuildOptions{Top: n}, nil)
		if err != nil || s.Complete != complete || s.Rows != min(n, Prefixes) {
			t.Errorf("%d: %+v, %v", n, s, err)
		}
		if x := opened(t, path); x.main.bits != map[bool]uint8{true: topBits, false: defaultBits}[n <= topBitsRows] {
			t.Errorf("top %d has a table of %d bits", n, x.main.bits)
		}
		v, err := opened(t, path).Check(context.Background(), parsed(t, SHA1, hashC))
		if want := (Verdict{Complete: complete}); err != nil || v != want {
			t.Errorf("%d: %+v, %v", n, v, err)
		}
	}
}

// chunked hands on a few bytes at a time, so that rows are cut anywhere.
type chunked struct {
	r *strings.Reader
	n int
}

func (c *chunked) Read(b []byte) (int, error) { return c.r.Read(b[:min(len(b), c.n)]) }

// Rows are read whole wherever chunks end, with any line's end.
func TestRowsAreReadWholeWhereverChunksEnd(t *testing.T) {
	var b strings.Builder
	r := rand.New(rand.NewPCG(3, 4))
	ends := []string{"\n", "\r\n"}
	var hi uint64
	want := 0
	for b.Len() < 5*chunkSize/2 {
		hi += 1 + r.Uint64()>>20
		fmt.Fprintf(&b, "%016X%024X:%d%s", hi, r.Uint32(), 1+r.Uint64()>>r.IntN(60), ends[r.IntN(2)])
		want++
	}
	etag := ""
	for _, n := range []int{1 << 30, 4096, 1021} {
		path := filepath.Join(t.TempDir(), "index")
		var in io.Reader = &chunked{strings.NewReader(b.String()), n}
		s, err := Build(context.Background(), NewCorpus("rows", in), path, BuildOptions{Partial: true, bits: 16}, nil)
		if err != nil || s.Rows != uint64(want) {
			t.Fatalf("%d: %+v, %v, want %d rows", n, s, err, want)
		}
		x := opened(t, path)
		if etag == "" {
			etag = x.etag
		}
		if x.etag != etag {
			t.Errorf("chunks of %d make another index", n)
		}
	}
}

// Indexes are files that outlive a program: what version 1 wrote must be read by
// whatever reads version 1.
func TestFormatIsWhatItWas(t *testing.T) {
	text := hashA + ":1\n" + hashB + ":10434004\n" + hashC + ":255\n"
	path := built(t, text, BuildOptions{Partial: true, Source: time.Unix(1_700_000_000, 0), Built: time.Unix(1_800_000_000, 0)})
	for extension, want := range map[string]string{
		"": "testdata/version1", SuffixesExtension: "testdata/version1.suffixes",
	} {
		got := readFileT(t, path+extension)
		if os.Getenv("GUARDD_GOLDEN") != "" {
			writeFileT(t, want, got)
		}
		if old := readFileT(t, want); !bytes.Equal(got, old) {
			t.Errorf("%s differs: a new format needs a new version\n%s\n%s", want, hex.Dump(got[:headerSize]), hex.Dump(old[:headerSize]))
		}
	}
	x := opened(t, "testdata/version1")
	want := Info{Kind: SHA1, Rows: 3, Prefixes: 3, Source: time.Unix(1_700_000_000, 0).UTC(), Built: time.Unix(1_800_000_000, 0).UTC(), Ranges: true}
	if x.Info() != want {
		t.Errorf("%+v, want %+v", x.Info(), want)
	}
	if v, err := x.Check(context.Background(), parsed(t, SHA1, hashB)); err != nil || v.Count != 10434004 {
		t.Errorf("%+v, %v", v, err)
	}
}

// endless is a corpus that never ends well.
type endless struct {
	line string
	next uint64
	read int
}

func (e *endless) Read(b []byte) (int, error) {
	b = b[:0:len(b)]
	for cap(b)-len(b) > maxLine {
		e.next += 1 << 36
		b = fmt.Appendf(b, "%016X%s", e.next, e.line)
	}
	e.read += len(b)
	if e.read > 200<<20 {
		return 0, io.ErrUnexpectedEOF
	}
	return len(b), nil
}

// A disk that is full ends a build when it is, and not after the other 99 GB.
func TestABuildEndsWhenTheDiskIsFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "index")
	w, err := newIndexWriter(SHA1, 16, path, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.suffixes.Close(); err != nil { // whose writes fail from here on
		t.Fatal(err)
	}
	e := &endless{line: hashB[16:] + ":1\n"}
	b := &builder{parser: parser{partial: true, rng: -1}, out: path, writer: w}
	_, err = b.all(context.Background(), NewCorpus("endless", e))
	b.discard()
	if !errors.Is(err, os.ErrClosed) || e.read > 100<<20 {
		t.Errorf("%v after %d MB", err, e.read>>20)
	}
	if left := files(t, filepath.Dir(path)); len(left) > 0 {
		t.Errorf("it has left %v", left)
	}
}
