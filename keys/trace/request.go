package trace

import (
	"context"
	"sync"
	"time"
)

// The stops of a request, in its order. README's "seven stops" are these.
const (
	Decode = "decode" // api reads what is asked
	Guard  = "guard"  // escalation asks and decides
	Store  = "store"  // keys' fallback: the shared store, or the twin in its place
	Redis  = "redis"  // one call to the script
	Twin   = "twin"   // the store in this process's memory
	Ladder = "ladder" // what was found becomes an action
	Seal   = "seal"   // an attempt or a challenge is sealed
	Answer = "answer" // api writes the answer
)

// Stops lists them.
var Stops = []string{Decode, Guard, Store, Redis, Twin, Ladder, Seal, Answer}

// Attribute is one thing that is known of a request. No account, address, token or
// password is ever one: traces travel further than the store does.
type Attribute struct {
	Key   string
	Value any // string, int64 or bool
}

// Span is one stop of a request.
type Span struct {
	Name       string
	Within     int // index of the stop around it; -1: the request itself
	Begun, End time.Time
}

// Request is one request that belongs to a trace. nil belongs to none. It is safe for
// concurrent use: a call that was given up on ends its stop whenever it likes.
type Request struct {
	Context         // of this request: what it sends on
	Parent  [8]byte // the request that it is part of; zero where it begins the trace

	tracer *Tracer // nil: nobody exports it

	mu         sync.Mutex
	name       string
	outbound   bool
	begun, end time.Time
	failed     bool
	attributes []Attribute
	stops      []Span
	within     int // the stop that has begun last and not ended
}

// Key is by which a context holds its *Request.
type Key struct{}

// With is ctx of r, which may be nil.
func With(ctx context.Context, r *Request) context.Context {
	if r == nil {
		return ctx
	}
	return context.WithValue(ctx, Key{}, r)
}

// From is the request that ctx is of; nil where it belongs to no trace.
func From(ctx context.Context) *Request {
	r, _ := ctx.Value(Key{}).(*Request)
	return r
}

// Name is r's ID; zero of nil.
func (r *Request) Name() ID {
	if r == nil {
		return ID{}
	}
	return r.ID
}

// Sent is what r sends on with what it asks of others; zero of nil.
func (r *Request) Sent() Context {
	if r == nil {
		return Context{}
	}
	return r.Context
}

// recording reports whether anybody will see the stops.
func (r *Request) recording() bool { return r != nil && r.tracer != nil }

// Set adds what is known of r.
func (r *Request) Set(a ...Attribute) {
	if !r.recording() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end.IsZero() {
		r.attributes = append(r.attributes, a...)
	}
}

// Recording reports whether Set does anything: what is costly to say need not be said.
func (r *Request) Recording() bool { return r.recording() }

// Stop is a stop that has begun.
type Stop struct {
	r *Request
	i int
}

// Begin begins a stop of the request that ctx is of.
func Begin(ctx context.Context, stop string) Stop { return From(ctx).Begin(stop) }

// Begin begins a stop within the one that has begun last.
func (r *Request) Begin(stop string) Stop {
	if !r.recording() {
		return Stop{}
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.end.IsZero() {
		return Stop{}
	}
	r.stops = append(r.stops, Span{Name: stop, Within: r.within, Begun: now})
	r.within = len(r.stops) - 1
	return Stop{r, r.within}
}

// End ends the stop.
func (s Stop) End() {
	if s.r == nil {
		return
	}
	now := time.Now()
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	at := &s.r.stops[s.i]
	if !at.End.IsZero() || !s.r.end.IsZero() {
		return
	}
	at.End = now
	// One that was given up on ends while another goes on, which stays the last.
	for i := s.r.within; i >= 0; i = s.r.stops[i].Within {
		if i == s.i {
			s.r.within = at.Within
		}
	}
}

// Done is a request that has ended, as it is exported.
type Done struct {
	Context
	Parent     [8]byte
	Name       string
	Outbound   bool // guardd asked, and was not asked
	Failed     bool
	Begun, End time.Time
	Attributes []Attribute
	Stops      []Span // those that nobody has ended end with the request
}

// done ends r once, and returns it.
func (r *Request) done(name string, failed bool, a []Attribute) (Done, bool) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.end.IsZero() {
		return Done{}, false
	}
	r.end, r.name, r.failed = now, name, failed
	r.attributes = append(r.attributes, a...)
	for i := range r.stops {
		if r.stops[i].End.IsZero() {
			r.stops[i].End = now
		}
	}
	return Done{r.Context, r.Parent, r.name, r.outbound, r.failed, r.begun, r.end, r.attributes, r.stops}, true
}
