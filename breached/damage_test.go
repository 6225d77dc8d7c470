package breached

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// longText is so many rows that their index has many pages.
func longText(rows int) string {
	var b strings.Builder
	step := ^uint64(0) / uint64(rows+1)
	for i := range rows {
		count := 1 + i%300
		fmt.Fprintf(&b, "%016X%024X:%d\n", uint64(i+1)*step, i, count)
	}
	return b.String()
}

// A file that is cut while it is mapped is an error, whatever was cut off: the
// pages that are gone fault, and the rest of the last one is zeros, in which
// nothing would be found.
func TestAFileCutWhileMappedIsAnErrorAndNoCrash(t *testing.T) {
	ctx, text := context.Background(), longText(20_000)
	first, _, _ := strings.Cut(text, ":")
	for _, cutSuffixes := range []bool{false, true} {
		whole, page := int64(0), int64(os.Getpagesize())
		for _, keep := range []func() int64{
			func() int64 { return 0 },
			func() int64 { return 1 },
			func() int64 { return headerSize },
			func() int64 { return page },
			func() int64 { return page + 1 },
			func() int64 { return whole / 2 / page * page },
			func() int64 { return whole / 2 },
			func() int64 { return whole / page * page },
			func() int64 { return whole - sealSize },
			func() int64 { return whole - 1 },
		} {
			path := built(t, text, BuildOptions{Partial: true})
			name := path
			if cutSuffixes {
				name += SuffixesExtension
			}
			st, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			whole = st.Size()
			x := opened(t, path)
			l, err := OpenLive(path)
			if err != nil {
				t.Fatal(err)
			}
			for !l.Verified() { // or the cut is what it finds
				if err := l.Err(); err != nil {
					t.Fatal(err)
				}
			}
			h := parsed(t, SHA1, first)
			if v, err := x.Check(ctx, h); err != nil || !v.Breached {
				t.Fatalf("%+v, %v", v, err)
			}
			if err := os.Truncate(name, keep()); err != nil {
				t.Fatal(err)
			}
			for _, s := range []Source{x, l} {
				if v, err := s.Check(ctx, h); !errors.Is(err, ErrDamaged) || v != (Verdict{}) {
					t.Errorf("%d of %d bytes: %+v, %v", keep(), whole, v, err)
				}
				if r, err := s.Range(ctx, SHA1, h.Prefix()); !errors.Is(err, ErrDamaged) || r != nil {
					t.Errorf("%d of %d bytes: %+v, %v", keep(), whole, r, err)
				}
			}
			if l.Err() == nil || x.Err() == nil {
				t.Error("it does not say that it refuses")
			}
			if changed, err := l.Reload(ctx); changed || err == nil {
				t.Errorf("reloaded a cut file: %t, %v", changed, err)
			}
			// A good one is taken again.
			good := built(t, text, BuildOptions{Partial: true})
			for _, extension := range []string{SuffixesExtension, ""} {
				if err := os.Rename(good+extension, path+extension); err != nil {
					t.Fatal(err)
				}
			}
			if changed, err := l.Reload(ctx); !changed || err != nil || l.Err() != nil {
				t.Errorf("a good file: %t, %v, %v", changed, err, l.Err())
			}
			if v, err := l.Check(ctx, h); err != nil || !v.Breached {
				t.Errorf("a good file: %+v, %v", v, err)
			}
			if err := errors.Join(l.Close(), x.Close()); err != nil {
				t.Error(err)
			}
		}
	}
}

// A range in the part that is gone is read before the file's end is looked at.
func TestARangeThatFaultsIsAnError(t *testing.T) {
	path := built(t, longText(20_000), BuildOptions{Partial: true})
	x := opened(t, path)
	if err := os.Truncate(path+SuffixesExtension, int64(os.Getpagesize())); err != nil {
		t.Fatal(err)
	}
	if r, err := x.Range(context.Background(), SHA1, "fffe0"); !errors.Is(err, ErrDamaged) || r != nil {
		t.Errorf("%+v, %v", r, err)
	}
}

// Other panics are not taken for a damaged file.
func TestOnlyFaultsInTheFilesAreCaught(t *testing.T) {
	x := opened(t, built(t, hashA+":1\n", BuildOptions{Partial: true}))
	otherPath := built(t, longText(20_000), BuildOptions{Partial: true})
	other := opened(t, otherPath)
	if err := os.Truncate(otherPath, 0); err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func() error{
		"another file":  func() error { return fmt.Errorf("%d", other.main.data[other.main.records.at]) },
		"a nil pointer": func() error { var p *Index; return p.Err() },
		"an index":      func() error { var b []byte; return fmt.Errorf("%d", b[x.main.rows]) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s was caught", name)
				}
			}()
			_ = x.use(do)
		}()
	}
}

// No changed byte goes unnoticed: either Open says so, or Verify.
func TestNoChangedByteGoesUnnoticed(t *testing.T) {
	ctx := context.Background()
	path := built(t, hashA+":1\n"+hashB+":10434004\n"+hashC+":2\n", BuildOptions{Partial: true})
	for _, extension := range []string{"", SuffixesExtension} {
		good := readFileT(t, path+extension)
		for i := range good {
			bad := bytes.Clone(good)
			bad[i] ^= 1 << (i % 8)
			writeFileT(t, path+extension, bad)
			x, err := Open(path)
			if err == nil {
				err = x.Verify(ctx, nil)
				if errors.Is(err, ErrDamaged) {
					if v, e := x.Check(ctx, parsed(t, SHA1, hashB)); !errors.Is(e, ErrDamaged) {
						t.Errorf("byte %d: it answers %+v, %v after Verify has found it damaged", i, v, e)
					}
				}
				if e := x.Close(); e != nil {
					t.Fatal(e)
				}
			}
			if err == nil {
				t.Errorf("byte %d of %s%s may be anything", i, "index", extension)
			}
		}
		writeFileT(t, path+extension, good)
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	path := built(t, hashA+":1\n"+hashB+":300\n", BuildOptions{Partial: true})
	good, suffixes := readFileT(t, path), readFileT(t, path+SuffixesExtension)
	sealed := func(change func(head []byte)) []byte {
		b := bytes.Clone(good)
		change(b)
		return reseal(b, uint64(len(b)-sealSize)-4*4)
	}
	for name, v := range map[string]struct {
		bytes []byte
		says  string
	}{
		"empty":            {nil, "not an index of guardd's"},
		"text":             {[]byte(strings.Repeat(hashA+":1\n", 9)), "not an index of guardd's"},
		"an archive":       {append([]byte("7z\xBC\xAF\x27\x1C"), make([]byte, 999)...), "not an index of guardd's"},
		"suffixes":         {suffixes, "these are the suffixes of an index, not the index"},
		"cut":              {good[:len(good)-1], "cut off or not all copied"},
		"cut in half":      {good[:len(good)/2], "cut off or not all copied"},
		"the header alone": {good[:headerSize], "cut off or not all copied"},
		"longer":           {append(bytes.Clone(good), 0), "cut off or not all copied"},
		"a later version":  {sealed(func(b []byte) { b[11] = 2 }), "version 2 of the format; this guardd reads 1"},
		"no kind":          {sealed(func(b []byte) { b[13] = 3 }), "the header makes no sense"},
		"many bits":        {sealed(func(b []byte) { b[14] = 32 }), "the header makes no sense"},
		"no rows":          {sealed(func(b []byte) { clear(b[16:24]) }), "the header makes no sense"},
		"too many rows":    {sealed(func(b []byte) { b[16] = 0xFF }), "the header makes no sense"},
		"more large":       {sealed(func(b []byte) { b[31] = 9 }), "the header makes no sense"},
		"trailing header":  {sealed(func(b []byte) { b[headerSize-1] = 1 }), "the header makes no sense"},
		"another seal":     {append(bytes.Clone(good[:len(good)-1]), good[len(good)-1]^1), "the seal is not"},
		"table descends":   {sealed(func(b []byte) { b[headerSize+5*0x20+4] = 9 }), "the table does not ascend from 0"},
		"table begins":     {sealed(func(b []byte) { b[headerSize+4] = 1 }), "the table does not ascend from 0"},
		"table ends":       {sealed(func(b []byte) { b[headerSize+5*256+4] = 9 }), "the table ends with 9, not 2"},
		"directory ends":   {sealed(func(b []byte) { b[headerSize+5*257+2*6+5*256+4] = 9 }), "the directory ends with 9, not 1"},
	} {
		writeFileT(t, path, v.bytes)
		x, err := Open(path)
		if err == nil {
			x.Close()
		}
		if err == nil || !strings.Contains(err.Error(), v.says) || !strings.HasPrefix(err.Error(), path) {
			t.Errorf("%s: %v, want %s: %s", name, err, path, v.says)
		}
	}
	if _, err := Open(filepath.Dir(path)); err == nil || !strings.Contains(err.Error(), "is not a file") {
		t.Errorf("a folder: %v", err)
	}
	if _, err := Open(path + "x"); !os.IsNotExist(err) {
		t.Errorf("nothing: %v", err)
	}
}

// reseal makes a changed file's seal right, so that what is behind it is tested.
func reseal(b []byte, checksums uint64) []byte {
	sum := seal(b[:headerSize], b[checksums:len(b)-sealSize])
	copy(b[len(b)-sealSize:], sum[:])
	return b
}

// Suffixes of another build would serve another password's range.
func TestSuffixesOfAnotherIndexAreRefused(t *testing.T) {
	path, other := built(t, hashA+":1\n", BuildOptions{Partial: true}), built(t, hashB+":1\n", BuildOptions{Partial: true})
	writeFileT(t, path+SuffixesExtension, readFileT(t, other+SuffixesExtension))
	if x, err := Open(path); err == nil || !strings.Contains(err.Error(), "are the suffixes of another index") {
		t.Errorf("%v, %v", x, err)
	}
	// The same corpus built again has the same.
	again := built(t, hashA+":1\n", BuildOptions{Partial: true})
	writeFileT(t, path+SuffixesExtension, readFileT(t, again+SuffixesExtension))
	if !opened(t, path).Info().Ranges {
		t.Error("no ranges")
	}
}

// A hit and a miss of one bucket take the same reads: how long an answer took
// must not say what it was.
func TestHitsAndMissesTakeTheSameReads(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var b strings.Builder
	var hi uint64
	var his []uint64
	for hi < 1<<63 {
		hi += 1 + r.Uint64()>>13
		his = append(his, hi)
		fmt.Fprintf(&b, "%016X%024X:%d\n", hi, 0, []int{1, 7, 255, 256, 70000}[r.IntN(5)])
	}
	x := opened(t, built(t, b.String(), BuildOptions{Partial: true}))
	buckets, hits, misses := map[uint64]int{}, 0, 0
	for _, at := range his {
		for _, hi := range []uint64{at, at &^ 0xFFFF, at + 1<<30, at - 1<<30, at | 1<<55 - 1, at >> 56 << 56} {
			f := x.find(hi)
			if f.found {
				hits++
			} else {
				misses++
			}
			if want, ok := buckets[hi>>56]; ok && want != f.reads {
				t.Fatalf("bucket %d: %d reads, and %d (found: %t)", hi>>56, want, f.reads, f.found)
			}
			buckets[hi>>56] = f.reads
		}
	}
	if hits < 500 || misses < 500 || len(buckets) < 100 {
		t.Errorf("%d hits, %d misses, %d buckets", hits, misses, len(buckets))
	}
}

// Should hashes of the corpus share all that is kept of them, the largest count
// counts: a threshold must not be missed.
func TestHashesThatShareTheirFirst64BitsAnswerTheLargestCount(t *testing.T) {
	a, b, c := hashB[:38]+"01", hashB[:38]+"02", hashB[:38]+"03"
	x := opened(t, built(t, a+":3\n"+b+":300\n"+c+":7\n", BuildOptions{Partial: true}))
	for _, hex := range []string{a, b, c, hashB} {
		if v, err := x.Check(context.Background(), parsed(t, SHA1, hex)); err != nil || v.Count != 300 {
			t.Errorf("%+v, %v", v, err)
		}
	}
	r, err := x.Range(context.Background(), SHA1, hashB[:5])
	if want := a[5:] + ":3\r\n" + b[5:] + ":300\r\n" + c[5:] + ":7"; err != nil || string(r.Body) != want {
		t.Errorf("%v, %s, want %s", err, r.Body, want)
	}
}

func TestCheckAllocatesNothing(t *testing.T) {
	path := built(t, longText(5000), BuildOptions{Partial: true})
	l, err := OpenLive(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for !l.Verified() {
	}
	hit := parsed(t, SHA1, longText(5000)[:40])
	miss := HashPassword(SHA1, []byte("a"))
	for name, s := range map[string]Source{"index": opened(t, path), "live": l} {
		if n := testing.AllocsPerRun(1000, func() {
			for _, h := range []Hash{hit, miss} {
				if _, err := s.Check(context.Background(), h); err != nil {
					t.Fatal(err)
				}
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// FuzzIndex opens what is no index but for its seal, and asks it: it may refuse
// or answer, and neither crash nor answer after it has been found damaged.
func FuzzIndex(f *testing.F) {
	for _, text := range []string{hashA + ":1\n" + hashB + ":10434004\n" + hashC + ":2\n", ntlmA + ":9\n"} {
		path := built(f, text, BuildOptions{Partial: true})
		f.Add(readFileT(f, path), readFileT(f, path+SuffixesExtension))
	}
	f.Fuzz(func(t *testing.T, index, suffixes []byte) {
		main := fuzzed(index, holdsIndex, [16]byte{})
		if main == nil {
			return
		}
		x, err := newIndex(main, fuzzed(suffixes, holdsSuffixes, main.identity(main.checksums)))
		if err != nil {
			return
		}
		ctx, kind := context.Background(), x.Info().Kind
		for i := range uint64(512) {
			h := Hash{kind: kind}
			binary.BigEndian.PutUint64(h.sum[:], i<<55|uint64(index[int(i)%len(index)])<<40)
			v, err := x.Check(ctx, h)
			if err == nil && !v.Breached && v.Count > 0 {
				t.Fatalf("not breached, and %d times", v.Count)
			}
			if r, err := x.Range(ctx, kind, h.Prefix()); err == nil && len(r.Body) == 0 {
				t.Fatal("an empty range")
			}
		}
		was := x.Err()
		if err := x.Verify(ctx, nil); err != nil && was == nil {
			if v, err := x.Check(ctx, Hash{kind: kind}); !errors.Is(err, ErrDamaged) {
				t.Fatalf("it was found damaged, and answers %+v, %v", v, err)
			}
		}
	})
}

// fuzzed is a file of these bytes, whose seal is made right, and which is made
// to be the suffixes of an index.
func fuzzed(b []byte, holds uint8, of [16]byte) *file {
	h, err := decodeHeader(b, holds)
	if err != nil || h.layout().size != uint64(len(b)) {
		return nil
	}
	b = bytes.Clone(b)
	copy(b[64:], of[:])
	reseal(b, h.layout().checksums.at)
	x, err := readFile("fuzzed", bytes.NewReader(b), uint64(len(b)), holds)
	if err != nil {
		return nil
	}
	x.data, x.close = b, func() error { return nil }
	return x
}
