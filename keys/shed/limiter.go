package shed

import (
	"errors"
	"fmt"
	"math"
	"sync"
)

// Priority says who is turned away last.
type Priority uint8

const (
	// Critical requests may use all of the limit.
	Critical Priority = iota
	// Normal requests leave Reserve of it to critical ones.
	Normal
	// Background requests leave twice that.
	Background
)

// Priorities are the names of all, in order, for metrics.
var Priorities = [...]string{"critical", "normal", "background"}

// String returns its name.
func (p Priority) String() string {
	if int(p) < len(Priorities) {
		return Priorities[p]
	}
	return "priority"
}

// Config tells a Limiter how to go about it. What is 0 has the default.
type Config struct {
	// Least, Most and First are bounds of the limit, and what it begins with, in
	// requests under way: 4, 1000 and 20.
	Least, Most, First int
	// Reserve is the share of the limit that Normal leaves to Critical, below a
	// half: 0.2 (Stripe keeps a fifth of its fleet for critical calls).
	Reserve float64
	// Tolerance is how many times its baseline a request may take before the limit
	// shrinks, above 1: 1.5. Slack is what it may take beyond that, in microseconds:
	// 5 ms. A request of 1 ms that waits for another of 30 is no sign of overload.
	Tolerance float64
	Slack     int64
	// Window is how long requests are watched for one step, in microseconds: 100 ms,
	// or as long as it takes to see Samples: 10.
	Window  int64
	Samples int
}

// MaxClasses is how many classes of requests have a baseline of their own: those
// beyond share one.
const MaxClasses = 64

// Limiter decides which requests a backend is spared. It is safe for concurrent use.
type Limiter struct {
	c  Config
	mu sync.Mutex

	limit    float64
	inFlight int
	turned   [len(Priorities)]uint64

	begun   int64 // of the window
	peak    int   // most under way in it
	seen    int
	failed  int
	classes map[string]*class
	order   []*class // as they came: sums of floats must not hang on a map's order
}

// class are requests that take alike.
type class struct {
	baseline float64 // microseconds; 0: none yet
	n        int     // in the window
	took     float64
}

// New returns a Limiter, or what is wrong with c.
func New(c Config) (*Limiter, error) {
	standard(&c.Least, 4)
	standard(&c.Most, 1000)
	standard(&c.First, min(max(20, c.Least), c.Most))
	standard(&c.Reserve, 0.2)
	standard(&c.Tolerance, 1.5)
	standard(&c.Slack, 5_000)
	standard(&c.Window, 100_000)
	standard(&c.Samples, 10)
	var bad []error
	for _, x := range []struct {
		wrong bool
		says  string
	}{
		{c.Least < 1, "Least must be at least 1"},
		{c.Most < c.Least, "Most must be at least Least"},
		{c.First < c.Least || c.First > c.Most, "First must be from Least to Most"},
		{!(c.Reserve > 0 && c.Reserve < 0.5), "Reserve must be above 0 and below a half"},
		{!(c.Tolerance > 1 && c.Tolerance <= 100), "Tolerance must be above 1 and at most 100"},
		{c.Slack < 0, "Slack must not be negative"},
		{c.Window < 1, "Window must be at least 1 microsecond"},
		{c.Samples < 1, "Samples must be at least 1"},
	} {
		if x.wrong {
			bad = append(bad, fmt.Errorf("shed: %s", x.says))
		}
	}
	if len(bad) > 0 {
		return nil, errors.Join(bad...)
	}
	return &Limiter{c: c, limit: float64(c.First), classes: map[string]*class{}}, nil
}

func standard[T comparable](v *T, to T) {
	if *v == *new(T) {
		*v = to
	}
}

// Begin reports whether a request may go to the backend now. Who may must End.
func (l *Limiter) Begin(p Priority) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p > Background {
		p = Background
	}
	if l.inFlight >= l.room(p) {
		l.turned[p]++
		return false
	}
	l.inFlight++
	l.peak = max(l.peak, l.inFlight)
	return true
}

// room is how many may be under way for one more of p to be let through; at least
// one of each, or nothing would ever be learned of them.
func (l *Limiter) room(p Priority) int {
	share := 1 - l.c.Reserve*[...]float64{0, 1, 2}[p]
	return max(int(l.limit*share+1e-9), 1)
}

// Result is how a request ended.
type Result uint8

// The results.
const (
	// Done: what it took counts.
	Done Result = iota
	// Failed: the backend could not cope, by a time-out or a 503.
	Failed
	// Void: it says nothing, as when the caller hung up.
	Void
)

// End tells of a request that Begin let through: at now it had taken so many
// microseconds. Requests of a class take alike.
func (l *Limiter) End(now, took int64, of string, r Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight = max(l.inFlight-1, 0)
	if l.begun == 0 || now < l.begun {
		l.begun = now - max(took, 0) // the first, or a clock that has stepped back
	}
	switch r {
	case Done:
		c := l.class(of)
		c.n++
		c.took += float64(max(took, 1))
		l.seen++
	case Failed:
		l.failed++
		l.seen++
	}
	if l.seen >= l.c.Samples && now-l.begun >= l.c.Window {
		l.step()
		l.begun, l.seen, l.failed, l.peak = now, 0, 0, l.inFlight
	}
}

func (l *Limiter) class(of string) *class {
	c := l.classes[of]
	if c == nil && len(l.classes) >= MaxClasses {
		of = ""
		c = l.classes[of]
	}
	if c == nil {
		c = new(class)
		l.classes[of] = c
		l.order = append(l.order, c)
	}
	return c
}

// step moves the limit by what the window has shown.
func (l *Limiter) step() {
	slow, least := l.slowness(), float64(l.c.Least)
	switch {
	case l.failed*2 > l.seen:
		l.limit /= 2
	case slow > 1:
		l.limit *= max(1/slow, 0.5)
	case float64(l.peak) >= l.limit/2: // else nobody knows what more would do
		l.limit += math.Sqrt(l.limit)
	}
	l.limit = min(max(l.limit, least), float64(l.c.Most))
}

// slowness is how many times what it may a request of the window took, and takes
// over what the window says of the baselines.
func (l *Limiter) slowness() float64 {
	n, slow := 0, 0.0
	atLeast := l.limit <= float64(l.c.Least)
	for _, c := range l.order {
		if c.n == 0 {
			continue
		}
		mean := c.took / float64(c.n)
		if c.baseline == 0 {
			c.baseline = mean
		}
		n, slow = n+c.n, slow+float64(c.n)*mean/(l.c.Tolerance*c.baseline+float64(l.c.Slack))
		switch {
		case mean < c.baseline: // by degrees: one answer from a cache is no baseline
			c.baseline += (mean - c.baseline) * fall
		case atLeast:
			c.baseline += (mean - c.baseline) * rise
		}
		c.n, c.took = 0, 0
	}
	if n == 0 {
		return 1
	}
	return slow / float64(n)
}

// How fast a baseline follows what was measured, in one window.
const (
	fall = 0.2
	rise = 0.5
)

// Stats are how a Limiter fares.
type Stats struct {
	Limit, InFlight int
	Turned          [len(Priorities)]uint64 // turned away so far, by priority
}

// Stats returns how it fares.
func (l *Limiter) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Stats{Limit: int(l.limit), InFlight: l.inFlight, Turned: l.turned}
}
