package breached

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// generation is a corpus whose counts say which one it is.
func generation(n int) string {
	count := strings.Repeat("7", n%9+1)
	return hashA + ":" + count + "\n" + hashB + ":" + count + "\n"
}

func rebuild(t testing.TB, path, text string, o BuildOptions) {
	t.Helper()
	o.Partial, o.bits = true, small
	if _, err := Build(context.Background(), NewCorpus("rows", strings.NewReader(text)), path, o, nil); err != nil {
		t.Fatal(err)
	}
}

// Replacing the file under load fails no look-up: each answers from the old
// index or the new one, and none from both.
func TestReplacingTheFileUnderLoadFailsNoLookup(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "index")
	rebuild(t, path, generation(0), BuildOptions{})
	l, err := OpenLive(path)
	if err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var asked atomic.Int64
	var wg sync.WaitGroup
	h := parsed(t, SHA1, hashB)
	for range 4 {
		wg.Go(func() {
			for !stop.Load() {
				v, err := l.Check(ctx, h)
				r, rangeErr := l.Range(ctx, SHA1, hashB[:5])
				if err != nil || rangeErr != nil || !v.Breached {
					t.Errorf("%+v, %v, %v", v, err, rangeErr)
					return
				}
				if rows := strings.Split(string(r.Body), "\r\n"); len(rows) != 1 || !strings.HasPrefix(rows[0], hashB[5:]+":7") {
					t.Errorf("%q", r.Body)
					return
				}
				asked.Add(1)
			}
		})
	}
	const generations = 30
	for n := 1; n <= generations; n++ {
		rebuild(t, path, generation(n), BuildOptions{})
		before := asked.Load()
		changed, err := l.Reload(ctx)
		if err != nil || !changed {
			t.Fatalf("generation %d: %t, %v", n, changed, err)
		}
		want := uint64(0)
		for range n%9 + 1 {
			want = 10*want + 7
		}
		if v, err := l.Check(ctx, h); err != nil || v.Count != want || !l.Verified() {
			t.Fatalf("generation %d: %+v, %v; want %d", n, v, err, want)
		}
		for asked.Load() < before+20 && !t.Failed() {
			runtime.Gosched()
		}
	}
	stop.Store(true)
	wg.Wait()
	if changed, err := l.Reload(ctx); changed || err != nil {
		t.Errorf("nothing has changed: %t, %v", changed, err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := l.Check(ctx, h); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if _, err := l.Reload(ctx); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if maps, err := os.ReadFile("/proc/self/maps"); err == nil && bytes.Contains(maps, []byte(path)) {
		t.Error("it is still mapped")
	}
}

// An index that is closed between a look-up's finding it and using it is not the
// one of now: the look-up goes to that. This swaps far more often than files are
// built, to meet that moment.
func TestALookupThatMeetsASwapGoesToTheNewIndex(t *testing.T) {
	ctx := context.Background()
	path := built(t, generation(0), BuildOptions{Partial: true})
	l, err := OpenLive(path)
	if err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var asked atomic.Int64
	var wg sync.WaitGroup
	h := parsed(t, SHA1, hashB)
	for range 2 {
		wg.Go(func() {
			for !stop.Load() {
				if v, err := l.Check(ctx, h); err != nil || !v.Breached {
					t.Errorf("%+v, %v", v, err)
					return
				}
				asked.Add(1)
			}
		})
	}
	for n := 0; n < 3000 || asked.Load() < 3000; n++ {
		x, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.now.Swap(x).Close(); err != nil {
			t.Fatal(err)
		}
		if t.Failed() {
			break
		}
	}
	stop.Store(true)
	wg.Wait()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// What is no index, or not all of one, is not taken: the old answers stay.
func TestLiveKeepsTheOldIndexUntilTheNewOneIsVerified(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "index")
	rebuild(t, path, generation(0), BuildOptions{})
	l, err := OpenLive(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	rebuild(t, path+"2", generation(1), BuildOptions{})
	good, suffixes := readFileT(t, path+"2"), readFileT(t, path+"2"+SuffixesExtension)
	record := bytes.Clone(good)
	record[headerSize+257*5]++ // of the first record: a checksum of a MiB says so
	place := func(name string, b []byte) {
		writeFileT(t, name+".new", b)
		if err := os.Rename(name+".new", name); err != nil {
			t.Fatal(err)
		}
	}
	answers := func(what string, count uint64) {
		t.Helper()
		v, err := l.Check(ctx, parsed(t, SHA1, hashB))
		r, rangeErr := l.Range(ctx, SHA1, hashB[:5])
		if err != nil || v.Count != count || rangeErr != nil || len(r.Body) != len(hashB[5:])+1+len("7")*map[uint64]int{7: 1, 77: 2}[count] {
			t.Errorf("%s: %+v, %v, %v; want %d", what, v, err, rangeErr, count)
		}
	}
	for name, b := range map[string][]byte{"text": []byte("hello"), "cut": good[:len(good)-99], "other suffixes": good} {
		place(path, b)
		for range 2 { // the second time it is known
			if changed, err := l.Reload(ctx); changed || err == nil {
				t.Errorf("%s: taken: %v", name, err)
			}
		}
		answers(name, 7)
	}
	// With its own suffixes, so that nothing but a checksum says it.
	place(path+SuffixesExtension, suffixes)
	place(path, record)
	if changed, err := l.Reload(ctx); changed || !errors.Is(err, ErrDamaged) {
		t.Errorf("a changed record: %t, %v", changed, err)
	}
	answers("a changed record", 7)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if changed, err := l.Reload(ctx); changed || !os.IsNotExist(err) {
		t.Errorf("no file: %t, %v", changed, err)
	}
	answers("no file", 7)
	place(path, good)
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if changed, err := l.Reload(canceled); changed || !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %t, %v", changed, err)
	}
	if changed, err := l.Reload(ctx); !changed || err != nil {
		t.Errorf("a good one: %t, %v", changed, err)
	}
	answers("a good one", 77)
}

// A file that is overwritten in place is not what was verified, even by an index
// of the same size.
func TestAnIndexOverwrittenInPlaceIsRefused(t *testing.T) {
	ctx := context.Background()
	for _, asked := range []bool{true, false} {
		path := filepath.Join(t.TempDir(), "index")
		rebuild(t, path, hashA+":1\n"+hashB+":7\n", BuildOptions{})
		rebuild(t, path+"2", hashA+":1\n"+hashB+":8\n", BuildOptions{})
		l, err := OpenLive(path)
		if err != nil {
			t.Fatal(err)
		}
		for !l.Verified() && l.Err() == nil {
			runtime.Gosched()
		}
		if asked {
			writeFileT(t, path, readFileT(t, path+"2"))
			if v, err := l.Check(ctx, parsed(t, SHA1, hashB)); !errors.Is(err, ErrDamaged) {
				t.Errorf("%+v, %v", v, err)
			}
		} else { // nobody has asked when it is noticed
			writeFileT(t, path, []byte("hello"))
			if changed, err := l.Reload(ctx); changed || err == nil || l.Err() == nil {
				t.Errorf("%t, %v, %v", changed, err, l.Err())
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Checksums are compared while an index answers already; when they are wrong it
// answers no more.
func TestLiveRefusesAnIndexWhoseChecksumsAreWrong(t *testing.T) {
	path := filepath.Join(t.TempDir(), "index")
	rebuild(t, path, generation(0), BuildOptions{})
	b := readFileT(t, path)
	b[headerSize+257*5]++
	writeFileT(t, path, b)
	l, err := OpenLive(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for l.Err() == nil {
		runtime.Gosched()
	}
	if v, err := l.Check(context.Background(), parsed(t, SHA1, hashA)); !errors.Is(err, ErrDamaged) || l.Verified() {
		t.Errorf("%+v, %v", v, err)
	}
}

// An index that is closed during a look-up is unmapped after it.
func TestCloseWaitsForLookups(t *testing.T) {
	x := opened(t, built(t, generation(0), BuildOptions{Partial: true}))
	if err := x.use(func() error {
		if err := errors.Join(x.Close(), x.Close()); err != nil {
			return err
		}
		if f := x.find(0); f.found {
			t.Error("found")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if x.users.Load() != 0 {
		t.Error("it is not unmapped")
	}
	if _, err := x.Check(context.Background(), parsed(t, SHA1, hashA)); err != ErrClosed {
		t.Error(err)
	}
	if err := x.Verify(context.Background(), nil); err != ErrClosed {
		t.Error(err)
	}
}

// Live holds to the contract too, and NTLM's to SHA-1's.
func TestLiveIsASource(t *testing.T) {
	path := filepath.Join(t.TempDir(), "index")
	rebuild(t, path, ntlmA+":3\n", BuildOptions{})
	l, err := OpenLive(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx := context.Background()
	if _, err := l.Check(ctx, parsed(t, SHA1, hashA)); err != ErrKind {
		t.Error(err)
	}
	if v, err := l.Check(ctx, HashPassword(NTLM, []byte("password"))); err != nil || v.Count != 3 {
		t.Errorf("%+v, %v", v, err)
	}
	// Suffixes that are taken away, or come later, are noticed.
	if err := os.Rename(path+SuffixesExtension, path+".away"); err != nil {
		t.Fatal(err)
	}
	for _, there := range []bool{false, true} {
		if there {
			if err := os.Rename(path+".away", path+SuffixesExtension); err != nil {
				t.Fatal(err)
			}
		}
		if changed, err := l.Reload(ctx); !changed || err != nil || l.Info().Ranges != there {
			t.Errorf("%t, %v, %+v", changed, err, l.Info())
		}
		if _, err := l.Range(ctx, NTLM, ntlmA[:5]); (err == nil) != there {
			t.Error(err)
		}
	}
}
