package asn

import (
	"fmt"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oschwald/maxminddb-golang/v2"
)

// field is the record's, in every vendor's file.
const field = "autonomous_system_number"

// File is such a file, whole in memory (some 10 MB): what is on disk may be
// replaced meanwhile. It is safe for concurrent use.
type File struct {
	path string
	db   atomic.Pointer[maxminddb.Reader]

	mu   sync.Mutex // over Reload
	seen stamp
}

// stamp tells a file from what it was.
type stamp struct {
	modified time.Time
	size     int64
}

// Open reads path. The error names it, and says what is wrong: that it cannot be
// read, is torn, or holds something else than providers' numbers.
func Open(path string) (*File, error) {
	f := &File{path: path}
	_, err := f.Reload()
	return f, err
}

// Of returns the number of addr's provider, 0 where the file knows none.
func (f *File) Of(addr netip.Addr) uint32 {
	var n uint32
	if err := f.db.Load().Lookup(addr).DecodePath(&n, field); err != nil {
		return 0 // one broken record of a file that was whole when it was read
	}
	return n
}

// Built is when what answers was made.
func (f *File) Built() time.Time { return f.db.Load().Metadata.BuildTime().UTC() }

// Kind is what the vendor calls what answers, as GeoLite2-ASN.
func (f *File) Kind() string { return f.db.Load().Metadata.DatabaseType }

// Reload takes what lies at the path now, if that is another. With an error the one
// before goes on answering.
func (f *File) Reload() (changed bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.path)
	if err != nil {
		return false, err
	}
	is := stamp{info.ModTime(), info.Size()}
	if is == f.seen {
		return false, nil
	}
	db, err := read(f.path)
	if err != nil {
		return false, fmt.Errorf("%s: %w", f.path, err)
	}
	f.seen = is
	f.db.Store(db)
	return true, nil
}

func read(path string) (*maxminddb.Reader, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	db, err := maxminddb.OpenBytes(b)
	if err != nil {
		return nil, err
	}
	return db, check(db)
}

// check reads every record (half a million take a quarter of a second). A torn file
// is refused, and one of something else, as of cities: every answer would be 0, and
// nobody would know.
func check(db *maxminddb.Reader) error {
	some := false
	for r := range db.Networks() {
		var n uint32
		if err := r.DecodePath(&n, field); err != nil {
			return fmt.Errorf("record of %s: %w", r.Prefix(), err)
		}
		some = some || n != 0
	}
	if !some {
		return fmt.Errorf("it is of %s, and holds no %s", db.Metadata.DatabaseType, field)
	}
	return nil
}
