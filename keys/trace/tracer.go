package trace

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"time"
)

// Tracer decides which requests are traced, and hands those that have ended on. nil
// exports nothing; contexts of callers travel all the same. It is safe for concurrent
// use.
type Tracer struct {
	// Sample is the share of requests, of those that name no trace, that begin one.
	Sample float64
	// Export is given each that has ended, while the caller waits: it must not block.
	Export func(Done)
}

// Begin begins a request of no caller's trace: nil for most, where few are sampled.
func (t *Tracer) Begin(begun time.Time) *Request {
	if t == nil {
		return nil
	}
	var id ID
	for id.IsZero() {
		binary.LittleEndian.PutUint64(id.Trace[:], rand.Uint64())
		binary.LittleEndian.PutUint64(id.Trace[8:], rand.Uint64())
	}
	// By the last 7 bytes, which W3C has be random.
	if float64(binary.BigEndian.Uint64(id.Trace[8:])&(1<<56-1)) >= t.Sample*math.Exp2(56) {
		return nil
	}
	id.Sampled = true
	return t.within(Context{ID: id}, [8]byte{}, begun)
}

// Join is the request of a caller that names its trace. Where nobody exports it, it
// sends the caller's own context on.
func (t *Tracer) Join(c Context, begun time.Time) *Request {
	if t == nil || !c.Sampled {
		return &Request{Context: c, within: -1}
	}
	return t.within(c, c.Span, begun)
}

// within makes a request that is recorded, with a name of its own.
func (t *Tracer) within(c Context, parent [8]byte, begun time.Time) *Request {
	for c.Span = parent; c.Span == parent || c.Span == [8]byte{}; {
		binary.LittleEndian.PutUint64(c.Span[:], rand.Uint64())
	}
	return &Request{Context: c, Parent: parent, tracer: t, begun: begun, within: -1, stops: make([]Span, 0, 8)}
}

// Ask is a request of guardd's own to somebody else, because of c, which has ended long
// since (a code that is delivered); nil where c names no trace.
func (t *Tracer) Ask(c Context) *Request {
	if c.IsZero() {
		return nil
	}
	r := t.Join(c, time.Now())
	r.outbound = true
	return r
}

// End ends r, whose name is that of a route and never what a visitor has sent, and
// exports it. nil is nothing to end.
func (r *Request) End(name string, failed bool, a ...Attribute) {
	if !r.recording() {
		return
	}
	if d, ok := r.done(name, failed, a); ok {
		r.tracer.Export(d)
	}
}
