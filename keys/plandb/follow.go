package plandb

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/guardd/guardd/keys/plans"
)

// Operations are those that OnError tells of: looking at the version and reading
// what has changed, and waiting for notices of changes.
var Operations = []string{"poll", "listen"}

// FollowConfig is what a Follower needs; all but Swap has a default.
type FollowConfig struct {
	// Every is how often it looks at the version; 0: PollEvery.
	Every time.Duration
	// Patience is how long one look may take; 0: PollPatience. Reading everything
	// may take ten times as long.
	Patience time.Duration
	// Deaf: wait for no notices, only look.
	Deaf bool
	// Region is that of the process, as of plans.CompileIn.
	Region string
	// Last is the book in force before the first reading; nil: an empty one.
	Last *plans.Book
	// Swap is given each new book, and what is wrong with its rows, by name. It is
	// called from one goroutine at a time.
	Swap func(*plans.Book, plans.Faults)
	// OnError is told of what failed; each is tried again.
	OnError func(operation string, err error)
}

// How a Follower keeps its word that a change is everywhere within a second.
const (
	PollEvery    = 500 * time.Millisecond
	PollPatience = 2 * time.Second
)

// Follower keeps a process at what its database says. It is safe for concurrent
// use.
type Follower struct {
	db       *DB
	c        FollowConfig
	last     *plans.Book
	version  int64
	current  bool // last is of version, and nothing says that there is more
	migrated bool
	wake     chan struct{}
	stats    followed
}

// followed is what Stats tells.
type followed struct {
	version, bad, confirmed atomic.Int64
	failures                [2]atomic.Uint64 // as Operations
}

// Stats are how a Follower fares.
type Stats struct {
	Version   int64     // in force; 0 before the first reading
	Bad       int       // faults of rows, as of Version
	Confirmed time.Time // when the database last said that this is the newest
	Failures  map[string]uint64
}

// NewFollower returns a Follower that Run starts.
func (db *DB) NewFollower(c FollowConfig) *Follower {
	if c.Every == 0 {
		c.Every = PollEvery
	}
	if c.Patience == 0 {
		c.Patience = PollPatience
	}
	return &Follower{db: db, c: c, last: c.Last, wake: make(chan struct{}, 1)}
}

// Run follows until ctx ends.
func (f *Follower) Run(ctx context.Context) {
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		if f.db.listen != nil && !f.c.Deaf {
			f.hear(ctx)
		}
	}()
	defer func() { <-heard }()
	tick := time.NewTicker(f.c.Every)
	defer tick.Stop()
	for {
		if err := f.look(ctx); err != nil && ctx.Err() == nil {
			f.failed(0, err)
		}
		select {
		case <-ctx.Done():
			return
		case <-f.wake:
			f.current = false
		case <-tick.C:
		}
	}
}

// Refresh has everything read again, soon.
func (f *Follower) Refresh() {
	select {
	case f.wake <- struct{}{}:
	default: // somebody has asked already
	}
}

// look reads everything if the version is another, or after a failure: what came
// back may be an older state under a number that was seen before.
func (f *Follower) look(ctx context.Context) error {
	brief, cancel := context.WithTimeout(ctx, f.c.Patience)
	defer cancel()
	version, err := f.newest(brief)
	switch {
	case err != nil:
		f.current = false
		return err
	case f.current && version == f.version:
		f.stats.confirmed.Store(time.Now().UnixMicro())
		return nil
	}
	long, cancel := context.WithTimeout(ctx, 10*f.c.Patience)
	defer cancel()
	var d *plans.Definition
	if version, d, err = f.db.Load(long); err != nil {
		f.current = false
		return err
	}
	book, faults := plans.CompileIn(f.c.Region, d, "db "+strconv.FormatInt(version, 10), f.last)
	f.last, f.version, f.current = book, version, true
	f.stats.version.Store(version)
	f.stats.bad.Store(int64(len(faults)))
	f.stats.confirmed.Store(time.Now().UnixMicro())
	f.c.Swap(book, d.ByName(faults))
	return nil
}

// newest asks for the version, and makes the schema where that was not possible
// before.
func (f *Follower) newest(ctx context.Context) (int64, error) {
	if !f.migrated {
		if err := f.db.Migrate(ctx); err != nil {
			return 0, err
		}
		f.migrated = true
	}
	version, err := readVersion(ctx, f.db.sql)
	if err != nil {
		return 0, failed("looking for changes", err)
	}
	return version, nil
}

func (f *Follower) failed(operation int, err error) {
	f.stats.failures[operation].Add(1)
	if f.c.OnError != nil {
		f.c.OnError(Operations[operation], err)
	}
}

// Stats returns how it fares.
func (f *Follower) Stats() Stats {
	s := Stats{Version: f.stats.version.Load(), Bad: int(f.stats.bad.Load()), Failures: map[string]uint64{}}
	if at := f.stats.confirmed.Load(); at != 0 {
		s.Confirmed = time.UnixMicro(at)
	}
	for i, op := range Operations {
		s.Failures[op] = f.stats.failures[i].Load()
	}
	return s
}
