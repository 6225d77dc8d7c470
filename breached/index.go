package breached

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
)

// Index is an index file, mapped. It answers a look-up in a microsecond or so
// while the file is in the page cache, and takes no memory of the process's own
// beyond some kilobytes.
//
// All methods are safe for concurrent use. The mapping lives until Close was
// called and the last look-up that began before it has ended.
type Index struct {
	main, suffixes *file // suffixes may be nil
	etag           string
	users          atomic.Int64 // look-ups, and 1 until Close
	closed         atomic.Bool
	bad            atomic.Pointer[error] // the first fault; nothing is answered after it
}

// ErrClosed: the index was closed before the look-up began.
var ErrClosed = errors.New("the index is closed")

// Open opens the index at path, with path.suffixes if that is there. Their
// structure is verified: header, sizes, seal, and that the table leads into the
// file. Checksums are Verify's. A file that is no index is an error, and so are
// suffixes of another index.
func Open(path string) (*Index, error) {
	suffixes := path + SuffixesExtension
	if _, err := os.Stat(suffixes); errors.Is(err, fs.ErrNotExist) {
		suffixes = ""
	}
	return open(path, suffixes)
}

func open(path, suffixes string) (*Index, error) {
	main, err := openFile(path, holdsIndex)
	if err != nil {
		return nil, err
	}
	var rest *file
	if suffixes != "" {
		if rest, err = openFile(suffixes, holdsSuffixes); err != nil {
			return nil, errors.Join(err, main.unmap())
		}
	}
	x, err := newIndex(main, rest)
	if err != nil {
		err = errors.Join(err, main.unmap())
		if rest != nil {
			err = errors.Join(err, rest.unmap())
		}
	}
	return x, err
}

func newIndex(main, suffixes *file) (*Index, error) {
	if err := main.ascending(main.table, main.rows, "the table"); err != nil {
		return nil, err
	}
	if err := main.ascending(main.directory, main.header.large, "the directory"); err != nil {
		return nil, err
	}
	x := &Index{main: main, suffixes: suffixes}
	id := main.identity(main.checksums)
	if suffixes != nil {
		if suffixes.of != id || suffixes.rows != main.rows || suffixes.kind != main.kind || suffixes.bits != main.bits {
			return nil, fmt.Errorf("%s are the suffixes of another index than %s: build both again, or remove the suffixes",
				suffixes.name, main.name)
		}
		id = suffixes.identity(suffixes.checksums)
	}
	x.etag = hex.EncodeToString(id[:8])
	x.users.Store(1)
	return x, nil
}

// Info is what the file says of itself.
func (x *Index) Info() Info {
	i := x.main.info()
	i.Ranges = x.suffixes != nil
	return i
}

// Err is why the index answers nothing any more: ErrDamaged, or nil.
func (x *Index) Err() error {
	if err := x.bad.Load(); err != nil {
		return *err
	}
	return nil
}

// Close lets go of the file; look-ups that have begun end well. Later ones are
// ErrClosed.
func (x *Index) Close() error {
	if x.closed.Swap(true) {
		return nil
	}
	return x.release()
}

// acquire keeps the mapping until release.
func (x *Index) acquire() bool {
	for {
		n := x.users.Load()
		if n == 0 {
			return false
		}
		if x.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (x *Index) release() error {
	if x.users.Add(-1) > 0 {
		return nil
	}
	err := x.main.unmap()
	if x.suffixes != nil {
		err = errors.Join(err, x.suffixes.unmap())
	}
	return err
}

// use calls do while the mapping is there, and keeps what it says to itself when
// the file turns out not to be what it was.
func (x *Index) use(do func() error) error {
	if x.closed.Load() || !x.acquire() {
		return ErrClosed
	}
	defer x.release()
	if err := x.Err(); err != nil {
		return err
	}
	err := guarded([2]*file{x.main, x.suffixes}, func() error {
		err := do()
		if !x.main.intact() || x.suffixes != nil && !x.suffixes.intact() {
			return errCut
		}
		return err
	})
	if errors.Is(err, ErrDamaged) {
		x.fail(err)
	}
	return err
}

func (x *Index) fail(err error) { x.bad.CompareAndSwap(nil, &err) }

// Verify reads the whole index and compares its checksums. An index that fails
// answers nothing any more. progress, which may be nil, is told how many of how
// many bytes are done.
func (x *Index) Verify(ctx context.Context, progress func(done, total uint64)) error {
	if !x.acquire() {
		return ErrClosed
	}
	defer x.release()
	if err := x.Err(); err != nil {
		return err
	}
	var done uint64
	total := x.Size()
	for _, f := range []*file{x.main, x.suffixes} {
		if f == nil {
			continue
		}
		if err := f.verify(ctx, func(n uint64) {
			done += n
			if progress != nil {
				progress(done, total)
			}
		}); err != nil {
			if errors.Is(err, ErrDamaged) {
				x.fail(err)
			}
			return err
		}
	}
	return nil
}

// Size is the bytes of the file and its suffixes.
func (x *Index) Size() uint64 {
	n := x.main.size
	if x.suffixes != nil {
		n += x.suffixes.size
	}
	return n
}
