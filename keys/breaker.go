package keys

import (
	"errors"
	"sync"
	"sync/atomic"
)

// ErrOpen means that the shared store was not asked: it has failed again and
// again, and its next probe is not due yet.
var ErrOpen = errors.New("the store has stopped answering, and its next probe is not due")

// BreakerConfig says when a Breaker opens and closes. Zero fields mean the
// defaults. Times are in microseconds.
type BreakerConfig struct {
	// Failures in a row, all within Window, open it: 5 within 10 s.
	Failures int
	Window   int64
	// Interval is the time between two probes while it is open: 250 ms, so that
	// a dead store costs four deadlines a second and not one a request.
	Interval int64
	// Successes are the probes in a row that close it: 5. A store that answers
	// every other call is no store, and the second that they take at least is
	// what the fleet has to bring back what each instance took alone.
	Successes int
	// Flipped is told when it opens and closes. nil: nobody is. It must not
	// block.
	Flipped func(open bool)
}

// Breaker stands before a store. Closed, it lets every call through. It opens
// after repeated failures; then it lets one call through per interval, and never
// two at once, until enough of these have worked. Time is an argument; one that
// steps back costs a probe more. It is safe for concurrent use, and a call
// through a closed one takes no lock.
type Breaker struct {
	c BreakerConfig

	// epoch counts the flips: odd is open. Calls bear the epoch they began in,
	// so that a slow one says nothing about a later one.
	epoch   atomic.Uint64
	failing atomic.Bool // failures have been counted since the last success
	skipped atomic.Uint64

	mu       sync.Mutex
	failures int
	since    int64  // of the first of failures
	probing  uint64 // number of the probe under way, 0: none
	began    int64  // when it did
	next     int64  // probe
	good     int    // probes in a row
	probes   uint64
	failed   uint64
}

// Pass is one call's leave to go through. It is to be told of once.
type Pass struct {
	epoch uint64
	probe uint64 // its number, 0: none
}

// Result is what became of a call.
type Result uint8

// The results.
const (
	Worked Result = iota
	Failed
	Void // it says nothing about the store: the caller hung up, or asked nonsense
)

// NewBreaker returns a closed Breaker.
func NewBreaker(c BreakerConfig) *Breaker {
	if c.Failures <= 0 {
		c.Failures = 5
	}
	if c.Window <= 0 {
		c.Window = 10 * Second
	}
	if c.Interval <= 0 {
		c.Interval = Second / 4
	}
	if c.Successes <= 0 {
		c.Successes = 5
	}
	return &Breaker{c: c}
}

// Ask reports whether a call may go through now.
func (b *Breaker) Ask(now int64) (p Pass, ok bool) {
	if e := b.epoch.Load(); e&1 == 0 {
		return Pass{epoch: e}, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.epoch.Load()
	if e&1 == 0 {
		return Pass{epoch: e}, true
	}
	if b.probing > 0 && now-b.began < lostProbe || b.wait(now) > 0 {
		b.skipped.Add(1)
		return Pass{}, false
	}
	b.probes++
	b.probing, b.began, b.next = b.probes, now, now+b.c.Interval
	return Pass{e, b.probes}, true
}

// Closed is Ask for who must not be the probe: open, it lets nobody through.
func (b *Breaker) Closed() (p Pass, ok bool) {
	if e := b.epoch.Load(); e&1 == 0 {
		return Pass{epoch: e}, true
	}
	b.skipped.Add(1)
	return Pass{}, false
}

// lostProbe is when a probe that nobody has told of is given up: whoever made it
// has panicked, and the breaker must not stay open for that.
const lostProbe = 60 * Second

// wait is the time to the next probe.
func (b *Breaker) wait(now int64) int64 {
	if w := b.next - now; w <= b.c.Interval { // else the clock has stepped back
		return max(w, 0)
	}
	return 0
}

// Tell says what became of a call that was let through.
func (b *Breaker) Tell(p Pass, now int64, r Result) {
	if r == Worked && p.probe == 0 && !b.failing.Load() {
		return
	}
	if b.tell(p, now, r) && b.c.Flipped != nil {
		b.c.Flipped(p.epoch&1 == 0)
	}
}

func (b *Breaker) tell(p Pass, now int64, r Result) (flipped bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.epoch != b.epoch.Load() {
		return false
	}
	switch {
	case p.probe == 0:
	case p.probe != b.probing:
		return false
	default:
		b.probing = 0
		return b.probed(r)
	}
	switch r {
	case Worked:
		b.failures = 0
	case Failed:
		if b.failures == 0 || now < b.since || now-b.since > b.c.Window {
			b.failures, b.since = 0, now
		}
		b.failures++
	}
	b.failing.Store(b.failures > 0)
	if b.failures < b.c.Failures {
		return false
	}
	b.next, b.good, b.probing = now+b.c.Interval, 0, 0
	b.epoch.Add(1)
	return true
}

func (b *Breaker) probed(r Result) (closed bool) {
	switch r {
	case Worked:
		b.good++
	case Failed:
		b.good = 0
		b.failed++
	}
	if b.good < b.c.Successes {
		return false
	}
	b.failures = 0
	b.failing.Store(false)
	b.epoch.Add(1)
	return true
}

// Open reports whether calls are held back.
func (b *Breaker) Open() bool { return b.epoch.Load()&1 == 1 }

// Failing reports whether the last call that said anything failed.
func (b *Breaker) Failing() bool { return b.failing.Load() }

// Recovering reports whether it is open, and its last probe has worked: the store
// may be told what cannot wait, if whoever does so stops at the first failure.
func (b *Breaker) Recovering() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Open() && b.good > 0
}

// Next is the time in microseconds to the next probe, 0 while closed or when
// it is due.
func (b *Breaker) Next(now int64) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.Open() {
		return 0
	}
	return b.wait(now)
}

// BreakerStats is what a Breaker has done so far.
type BreakerStats struct {
	Open         bool
	Opened       uint64 // times
	Probes       uint64
	ProbesFailed uint64
	Skipped      uint64 // calls not let through
}

// Stats counts.
func (b *Breaker) Stats() BreakerStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.epoch.Load()
	return BreakerStats{Open: e&1 == 1, Opened: (e + 1) / 2, Probes: b.probes, ProbesFailed: b.failed, Skipped: b.skipped.Load()}
}
