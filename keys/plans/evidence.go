package plans

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/guardd/guardd/keys"
)

// Evidence remembers what was decided, so that whoever was refused can be shown
// why: every refusal with its figures, and for each key and second a sum of what
// was let through. Decisions are collected in memory and go to a keys.Trail once
// a second, where every instance's are found together. It is safe for concurrent
// use.
type Evidence struct {
	c EvidenceConfig

	mu      sync.Mutex
	callers map[keys.Account]*gathered
	newest  int64 // second
	serial  uint64
	lost    uint64
	waiting int // len(unsent), for who looks meanwhile

	flushing sync.Mutex      // one at a time
	unsent   []keys.TrailRow // failed before, oldest first
	size     int64           // bytes of unsent
	alone    error           // why the last flush failed
}

// EvidenceConfig is what an Evidence is made of.
type EvidenceConfig struct {
	Trail keys.Trail
	// Instance names this one in the evidence.
	Instance [8]byte
	// Unsent bounds in bytes what is kept here while the Trail cannot be reached;
	// 0: DefaultUnsent.
	Unsent int64
	// Now is the time in Unix microseconds; nil: the machine's. Decisions bear the
	// store's, but those that asked no store.
	Now func() int64
	// OnError is told of each flush that failed; nil: nobody is.
	OnError func(error)
}

// DefaultUnsent is about 100,000 refusals.
const DefaultUnsent = 16 << 20

// flushEvery is how long a refusal may be known to its own instance only, and
// sumsWait for how many flushes a key's sums wait where nothing was refused: a
// key that asks once a second would cost the store a second call for each.
const (
	flushEvery = time.Second
	sumsWait   = 5
	// crowd is how many keys may wait at once: some 10 MB.
	crowd = 20_000
)

// gathered is what has been decided about one caller since the last flush.
type gathered struct {
	open     *entry // the sum of the second that runs
	aged     bool   // open has seen a flush
	waited   int    // flushes that ended has seen
	ended    []keys.TrailRow
	refusals []keys.TrailRow
}

// NewEvidence returns one that has seen nothing.
func NewEvidence(c EvidenceConfig) *Evidence {
	if c.Unsent == 0 {
		c.Unsent = DefaultUnsent
	}
	if c.Now == nil {
		c.Now = func() int64 { return time.Now().UnixMicro() }
	}
	if c.OnError == nil {
		c.OnError = func(error) {}
	}
	return &Evidence{c: c, callers: map[keys.Account]*gathered{}}
}

// Record takes down a decision. It does not block. A look is none.
func (e *Evidence) Record(r *Request, d *Decision) {
	if r.Cost == 0 {
		return
	}
	at := d.At.UnixMicro()
	if d.At.IsZero() || d.Replayed { // a replay bears the time of the first answer
		at = e.c.Now()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	g := e.caller(d.Key)
	s := e.second(g, d.Key, at, d.Version)
	if d.Degraded {
		s.degraded++
	}
	switch {
	case d.Replayed:
		s.replayed++
		return
	case d.Allowed:
		s.allowed++
		s.cost += r.Cost
	default:
		s.refused++
		e.refuse(g, r, d, at)
	}
	s.span(at)
	for i := range d.Limits {
		l := s.limit(&d.Limits[i], d.Degraded)
		l.left = d.Limits[i].Remaining()
		if d.held != nil {
			l.tokens += d.held.held[i].tokens
		}
		if !d.Allowed && i == d.Binding {
			l.refused++
		}
	}
}

// settled takes down what a settlement changed: deltas are tokens by rule.
func (e *Evidence) settled(key keys.Account, version string, at int64, limits []LimitState, deltas []int64, degraded bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.second(e.caller(key), key, at, version)
	s.settled++
	s.span(at)
	for i := range limits {
		l := s.limit(&limits[i], degraded)
		l.left = limits[i].Remaining()
		l.tokens += deltas[i]
	}
}

func (e *Evidence) caller(key keys.Account) *gathered {
	g := e.callers[key]
	if g == nil {
		g = new(gathered)
		e.callers[key] = g
	}
	return g
}

// second is the sum that counts now. One of a clock that stepped back, or that is
// another machine's, goes on until it is flushed.
func (e *Evidence) second(g *gathered, key keys.Account, at int64, version string) *entry {
	e.newest = max(e.newest, at/keys.Second)
	if g.open != nil && (at/keys.Second > g.open.first/keys.Second || g.open.version != version) {
		e.end(g, key)
	}
	if g.open == nil {
		g.open, g.aged = &entry{first: at, last: at, version: version}, false
	}
	return g.open
}

func (e *Evidence) end(g *gathered, key keys.Account) {
	g.ended = append(g.ended, e.row(key, g.open))
	g.open = nil
}

func (e *Evidence) row(key keys.Account, x *entry) keys.TrailRow {
	e.serial++
	x.instance, x.serial = e.c.Instance, e.serial
	return keys.TrailRow{Caller: key, At: x.first, Refusal: x.refusal, Data: x.encode()}
}

// refuse keeps one refusal, and of those since the last flush the last that a
// Trail keeps.
func (e *Evidence) refuse(g *gathered, r *Request, d *Decision, at int64) {
	x := &entry{refusal: true, first: at, last: at, version: d.Version, route: r.Route, reason: d.Reason, cost: r.Cost,
		wait: d.RetryAfter.Microseconds(), refused: 1}
	if d.Impossible {
		x.reason = ReasonImpossible
	}
	if d.Degraded {
		x.degraded = 1
	}
	for i := range d.Limits {
		l := x.limit(&d.Limits[i], d.Degraded)
		l.tokens, l.left = d.Limits[i].Cost, d.Limits[i].Remaining()
		if !d.Limits[i].Allowed {
			l.refused = 1
		}
		if i == d.Binding {
			l.refused += 2
		}
	}
	if len(g.refusals) >= 2*keys.TrailRefusals {
		g.refusals = append(g.refusals[:0], g.refusals[keys.TrailRefusals:]...)
	}
	g.refusals = append(g.refusals, e.row(d.Key, x))
}

// Flush hands what is complete, and due, to the Trail. What that does not take is
// kept, and handed over again by the next.
func (e *Evidence) Flush(ctx context.Context) error { return e.flush(ctx, false) }

func (e *Evidence) flush(ctx context.Context, all bool) error {
	e.flushing.Lock()
	defer e.flushing.Unlock()
	for _, r := range e.collect(all) {
		e.unsent = append(e.unsent, r)
		e.size += rowSize(r)
	}
	e.alone = nil
	var lost uint64
	for len(e.unsent) > 0 && e.alone == nil {
		n := min(len(e.unsent), 2000)
		var left []keys.TrailRow
		left, e.alone = e.c.Trail.Append(ctx, e.unsent[:n])
		e.forget(n)
		if e.alone != nil && !errors.Is(e.alone, keys.ErrAsk) {
			e.unsent = append(left, e.unsent...)
			for _, r := range left {
				e.size += rowSize(r)
			}
		}
	}
	if e.alone != nil {
		n := 0
		for over := e.size - e.c.Unsent; over > 0; n++ {
			over -= rowSize(e.unsent[n])
		}
		e.forget(n)
		e.c.OnError(e.alone)
		lost = uint64(n)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiting = len(e.unsent)
	e.lost += lost
	return e.alone
}

func rowSize(r keys.TrailRow) int64 { return int64(len(r.Data)) + keys.TrailOverhead }

// forget drops the n oldest of unsent.
func (e *Evidence) forget(n int) {
	for _, r := range e.unsent[:n] {
		e.size -= rowSize(r)
	}
	if e.unsent = e.unsent[n:]; len(e.unsent) == 0 {
		e.unsent = nil
	}
}

// collect takes what is complete: seconds that have passed, by the time that
// decisions bear, and those that nothing has come after for a flush.
func (e *Evidence) collect(all bool) (rows []keys.TrailRow) {
	e.mu.Lock()
	defer e.mu.Unlock()
	wait := !all && len(e.callers) < crowd
	for key, g := range e.callers {
		if g.open != nil && (all || g.aged || g.open.first/keys.Second < e.newest) {
			e.end(g, key)
		}
		g.aged = true
		if g.waited++; wait && len(g.refusals) == 0 && len(g.ended) > 0 && g.waited < sumsWait {
			continue
		}
		g.waited = 0
		rows = append(rows, g.ended...)
		rows = append(rows, g.refusals[max(len(g.refusals)-keys.TrailRefusals, 0):]...)
		g.ended, g.refusals = nil, nil
		if g.open == nil {
			delete(e.callers, key)
		}
	}
	e.newest = 0
	return rows
}

// Run flushes once a second until ctx ends, and then everything once more.
func (e *Evidence) Run(ctx context.Context) {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = e.Flush(ctx) // OnError is told
		case <-ctx.Done():
			last, stop := context.WithTimeout(context.WithoutCancel(ctx), flushEvery)
			defer stop()
			_ = e.flush(last, true)
			return
		}
	}
}

// EvidenceStats is how an Evidence is doing.
type EvidenceStats struct {
	Unsent int    // rows that wait for the Trail
	Lost   uint64 // rows dropped because they had waited too long
}

// Stats looks.
func (e *Evidence) Stats() EvidenceStats {
	e.mu.Lock()
	defer e.mu.Unlock()
	return EvidenceStats{Unsent: e.waiting, Lost: e.lost}
}

// rows returns all there is about a caller from since on, from when on nothing
// was dropped, and why it is this instance's alone, if it is.
func (e *Evidence) rows(ctx context.Context, caller keys.Account, since int64) (rows []keys.TrailRow, whole int64, alone error) {
	_ = e.flush(ctx, true) // what it does not hand over is looked at below
	rows, whole, alone = e.c.Trail.Rows(ctx, caller, since)
	e.flushing.Lock()
	defer e.flushing.Unlock()
	if alone == nil {
		alone = e.alone
	}
	for _, r := range e.unsent {
		if r.Caller == caller && r.At >= since {
			rows = append(rows, r)
		}
	}
	return rows, whole, alone
}
