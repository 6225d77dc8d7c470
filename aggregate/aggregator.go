package aggregate

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/guardd/guardd/keys"
)

// DefaultWindow is how much of the log a successor reads again: what is
// remembered for an hour is rebuilt by it, what is learned over days is kept in
// the store.
const DefaultWindow = time.Hour

// AggregatorStore keeps what is learned: sizes of addresses, postures, and where
// the reading was.
type AggregatorStore interface {
	keys.Documents
	keys.Records
}

// AggregatorConfig makes an Aggregator. Bus, Group, Store and Shards are needed.
type AggregatorConfig struct {
	Bus   Bus
	Group string // all instances of one name share the realms
	Store AggregatorStore
	// Shards is how many shards a realm has; false where there is no such realm,
	// whose events are passed over.
	Shards func(realm string) (n int, ok bool)
	// Recents keep the events of late; nil: nobody does.
	Recents *Recents
	// Watch makes what looks for attacks on a realm, with the State of the one
	// before it, nil when there was none. nil: nobody looks.
	Watch func(realm string, state []byte) Watch
	// Provider says which autonomous system announces an address, 0 where nobody
	// knows (package asn). nil: nobody does.
	Provider func(netip.Addr) uint32
	// Now is the store's time; nil is the machine's.
	Now func() time.Time
	// Failed, when set, is told of what the store or the bus refused, from the
	// aggregator's own goroutines: one of Failures and why. It is tried again.
	Failed func(op string, err error)
	// Window is DefaultWindow when 0. Flush is how often what was learned is
	// written, Save how often what is learned over days is; 0 are 250 ms and 5 min.
	Window, Flush, Save time.Duration
}

// The operations that can fail, for metrics.
const (
	opLoad     = "load"     // read what was learned before
	opSave     = "save"     // write what was learned
	opRecents  = "recents"  // keep the events of late
	opSizes    = "sizes"    // write the size of an address
	opControl  = "control"  // set posture, baseline and suspects
	opFindings = "findings" // publish what was found
)

// Failures are the operations that Failed is told of.
var Failures = []string{opLoad, opSave, opRecents, opSizes, opControl, opFindings}

// Aggregator reads the events of all logins and learns from them. Any number of
// them, in any number of processes, share the realms by the bus' partitions: each
// realm has one reader, and when that one dies another goes on. It is safe for
// concurrent use.
type Aggregator struct {
	c AggregatorConfig

	mu       sync.Mutex
	readers  map[*reader]bool
	failures map[string]uint64
	gone     map[string]RealmStats // of readers that have ended
}

// NewAggregator returns an Aggregator; Run has it read.
func NewAggregator(c AggregatorConfig) *Aggregator {
	for _, d := range []struct {
		v *time.Duration
		d time.Duration
	}{{&c.Window, DefaultWindow}, {&c.Flush, 250 * time.Millisecond}, {&c.Save, 5 * time.Minute}} {
		if *d.v <= 0 {
			*d.v = d.d
		}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Aggregator{c: c, readers: map[*reader]bool{}, failures: map[string]uint64{}, gone: map[string]RealmStats{}}
}

// Run reads until ctx ends, and then returns nil once what was learned is written.
func (a *Aggregator) Run(ctx context.Context) error {
	return a.c.Bus.Consume(ctx, TopicEvents, a.c.Group, a.open)
}

func (a *Aggregator) open(partition int) Handler {
	r := &reader{a: a, partition: partition, realms: map[string]*realm{}, wake: make(chan struct{})}
	r.behind.Store(-1)
	a.mu.Lock()
	a.readers[r] = true
	a.mu.Unlock()
	r.ended.Go(r.flushing)
	return r
}

func (a *Aggregator) failed(op string, err error) {
	a.mu.Lock()
	a.failures[op]++
	a.mu.Unlock()
	if a.c.Failed != nil {
		a.c.Failed(op, err)
	}
}

func (a *Aggregator) now() int64 { return a.c.Now().UnixMicro() }

// reader is the Handler of one partition.
type reader struct {
	a         *Aggregator
	partition int
	behind    atomic.Int64  // Behind's answer; -1 before the first message
	wake      chan struct{} // closed: the partition goes
	ended     sync.WaitGroup

	mu     sync.Mutex
	realms map[string]*realm // changed by Handle only
	marks  []mark
	lag    int64
	delay  time.Duration
	last   time.Time
	event  Event // reused
}

// mark is where in the log the events of a time begin.
type mark struct{ at, offset int64 }

// markEvery is how far apart marks are: a successor reads so much more than it
// has to.
const markEvery = 10 * keys.Second

// Handle is Handler's.
func (r *reader) Handle(m Message) error {
	e := &r.event // nobody else's
	if err := e.Decode(m.Value); err != nil {
		return err
	}
	if e.Seq == 0 || e.Instance == "" {
		return fmt.Errorf("%w: instance and seq are needed", ErrPoison)
	}
	x := r.realms[e.Realm]
	if _, ok := r.a.c.Shards(e.Realm); ok && x == nil {
		var err error
		if x, err = r.begin(e.Realm, m.Offset == 0); err != nil {
			return err // this partition is read again, once the store answers
		}
	}
	now := r.a.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lag, r.last = max(m.High-m.Offset-1, 0), e.Time
	r.delay = max(time.Duration(now-e.Time.UnixMicro())*time.Microsecond, 0)
	if at := e.Time.UnixMicro(); at <= now+aheadMost {
		r.mark(at, m.Offset)
	}
	if x != nil {
		r.realms[e.Realm] = x
		x.take(e, m.Value, now, r.a.c.Recents != nil)
	}
	return nil
}

func (r *reader) mark(at, offset int64) {
	if n := len(r.marks); n == 0 || at >= r.marks[n-1].at+markEvery {
		r.marks = append(r.marks, mark{at, offset})
	}
	oldest := r.marks[len(r.marks)-1].at - r.a.c.Window.Microseconds()
	for len(r.marks) > 1 && r.marks[0].at+markEvery <= oldest {
		r.marks = r.marks[1:]
	}
	r.behind.Store(r.marks[0].offset)
}

// Behind is Handler's: what is older than the window is not needed any more.
func (r *reader) Behind() int64 { return max(r.behind.Load(), 0) }

// Close is Handler's. It writes what was learned, if the store takes it in time.
func (r *reader) Close() {
	close(r.wake)
	r.ended.Wait()
	r.a.mu.Lock()
	defer r.a.mu.Unlock()
	delete(r.a.readers, r)
	for name, realm := range r.realms {
		r.a.gone[name] = sum(r.a.gone[name], realm.now()).ended()
	}
}

// AggregatorStats are an Aggregator's counts since it was made.
type AggregatorStats struct {
	Readers  []ReaderStats         // of the partitions that it has now
	Realms   map[string]RealmStats // those it had before included
	Failures map[string]uint64     // by Failures
}

// ReaderStats is where the reader of one partition is.
type ReaderStats struct {
	Partition int
	Lag       int64     // messages that were due after the last one, when it came
	Last      time.Time // time of the last event; zero for none
	// Delay is how long after it had happened the last event was read.
	Delay time.Duration
}

// Stats returns the counts.
func (a *Aggregator) Stats() AggregatorStats {
	a.mu.Lock()
	s := AggregatorStats{Realms: maps.Clone(a.gone), Failures: map[string]uint64{}}
	for _, op := range Failures {
		s.Failures[op] = a.failures[op]
	}
	readers := make([]*reader, 0, len(a.readers))
	for r := range a.readers {
		readers = append(readers, r)
	}
	a.mu.Unlock()
	for _, r := range readers {
		r.mu.Lock()
		s.Readers = append(s.Readers, ReaderStats{Partition: r.partition, Lag: r.lag, Last: r.last, Delay: r.delay})
		for name, realm := range r.realms {
			s.Realms[name] = sum(s.Realms[name], realm.now())
		}
		r.mu.Unlock()
	}
	return s
}

// ended is what stays of it: what has been counted, and nothing that somebody else
// sees from now on.
func (s RealmStats) ended() RealmStats {
	s.Watch = WatchStatus{Learning: true, Found: s.Watch.Found, Changes: s.Watch.Changes}
	return s
}

// sum is what two readers of a realm, one after the other, have counted.
func sum(was, is RealmStats) RealmStats {
	is.Events += was.Events
	is.Duplicates += was.Duplicates
	is.Missing += was.Missing
	is.Late += was.Late
	is.Ahead += was.Ahead
	is.Bins += was.Bins
	is.Overfull += was.Overfull
	is.Unkept += was.Unkept
	is.Stale += was.Stale
	for i, n := range was.Classes {
		is.Classes[i] += n
	}
	is.Watch.add(&was.Watch)
	return is
}
