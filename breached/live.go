package breached

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Live answers from whatever index lies at a path now. Reload looks whether
// another lies there, and changes to it without a failed look-up.
//
// All methods are safe for concurrent use. Write a new index under another name
// and rename it, as Build does: one that is overwritten in place is refused.
type Live struct {
	path string
	now  atomic.Pointer[Index]

	mu       sync.Mutex // held by Reload and Close; what is below is theirs
	lies     signature  // what now was opened from
	refused  signature  // what was looked at last and not taken
	why      error      // why not
	closed   bool
	check    context.CancelFunc // ends the verification of now
	checking sync.WaitGroup
	verified atomic.Bool
}

// signature is how a changed file is noticed.
type signature struct{ main, suffixes fileState }

type fileState struct {
	info os.FileInfo // nil: not there
}

func (s fileState) same(t fileState) bool {
	if s.info == nil || t.info == nil {
		return s.info == t.info
	}
	return os.SameFile(s.info, t.info) && s.info.Size() == t.info.Size() && s.info.ModTime().Equal(t.info.ModTime())
}

// rewritten reports whether it is the file that it was, and not as it was.
func (s fileState) rewritten(was fileState) bool {
	return s.info != nil && was.info != nil && os.SameFile(s.info, was.info) && !s.same(was)
}

func (s signature) same(t signature) bool {
	return s.main.same(t.main) && s.suffixes.same(t.suffixes)
}

func lookAt(path string) (s signature, err error) {
	if s.main.info, err = os.Stat(path); err != nil {
		return s, err
	}
	s.suffixes.info, err = os.Stat(path + SuffixesExtension)
	if errors.Is(err, fs.ErrNotExist) {
		s.suffixes.info, err = nil, nil
	}
	return s, err
}

// OpenLive opens the index at path and answers from it at once; its checksums
// are verified meanwhile, and when they are wrong it answers ErrDamaged from
// then on. Close it.
func OpenLive(path string) (*Live, error) {
	lies, err := lookAt(path)
	if err != nil {
		return nil, err
	}
	x, err := Open(path)
	if err != nil {
		return nil, err
	}
	l := &Live{path: path, lies: lies}
	l.now.Store(x)
	ctx, cancel := context.WithCancel(context.Background())
	l.check = cancel
	l.checking.Go(func() {
		// What it finds the index keeps: Err says it.
		if x.Verify(ctx, nil) == nil && l.now.Load() == x {
			l.verified.Store(true)
		}
	})
	return l, nil
}

// Reload looks whether other files lie at the path. If so they are opened and
// all of them is verified, while the old index goes on answering; then the new
// one answers. An error means that what lies there is not taken: the old index
// stays, and the same files are not read again but answer the same error. When
// the file was changed in place and is not a whole index any more, the old index
// is refused as well, as it is of the same file.
//
// It costs two stats when nothing has changed, so call it as often as a change
// shall be noticed.
func (l *Live) Reload(ctx context.Context) (changed bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false, ErrClosed
	}
	lies, err := lookAt(l.path)
	switch {
	case err != nil:
		return false, err // the mapping outlives the name
	case lies.same(l.lies):
		return false, l.Err()
	case lies.same(l.refused):
		return false, l.why
	}
	next, err := l.verifiedIndex(ctx)
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if err != nil {
		l.refused, l.why = lies, err
		if lies.main.rewritten(l.lies.main) || lies.suffixes.rewritten(l.lies.suffixes) {
			l.now.Load().fail(errCut)
		}
		return false, err
	}
	l.check()
	l.lies, l.refused, l.why = lies, signature{}, nil
	old := l.now.Swap(next)
	l.verified.Store(true)
	return true, old.Close()
}

func (l *Live) verifiedIndex(ctx context.Context) (*Index, error) {
	x, err := Open(l.path)
	if err != nil {
		return nil, err
	}
	if err := x.Verify(ctx, nil); err != nil {
		return nil, errors.Join(err, x.Close())
	}
	return x, nil
}

// Check asks the index of now.
func (l *Live) Check(ctx context.Context, h Hash) (Verdict, error) {
	for {
		x := l.now.Load()
		v, err := x.Check(ctx, h)
		if !l.swapped(x, err) {
			return v, err
		}
	}
}

// Range asks the index of now.
func (l *Live) Range(ctx context.Context, kind Kind, prefix string) (*Range, error) {
	for {
		x := l.now.Load()
		r, err := x.Range(ctx, kind, prefix)
		if !l.swapped(x, err) {
			return r, err
		}
	}
}

// swapped is when an index was closed between the load and the look-up.
func (l *Live) swapped(x *Index, err error) bool {
	return err != nil && errors.Is(err, ErrClosed) && l.now.Load() != x
}

// Info describes the index of now.
func (l *Live) Info() Info { return l.now.Load().Info() }

// Age is how old its corpus was at a time: 0 when nobody knows its date.
func (l *Live) Age(now time.Time) time.Duration {
	source := l.Info().Source
	if source.IsZero() {
		return 0
	}
	return now.Sub(source)
}

// Err is why the index of now answers nothing any more, or nil.
func (l *Live) Err() error { return l.now.Load().Err() }

// Verified is whether all checksums of the index of now have been compared.
func (l *Live) Verified() bool { return l.verified.Load() }

// Close lets go of the files; later look-ups are ErrClosed.
func (l *Live) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	l.check()
	l.checking.Wait()
	return l.now.Load().Close()
}
