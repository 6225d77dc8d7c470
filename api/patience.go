package api

import (
	"context"
	"sync"
	"time"

	"github.com/guardd/guardd/keys/trace"
)

// patience is a context that ends carryOut after it was made, and with no parent's
// end. Its timer is made when somebody asks for it: most decisions never do, and
// making and stopping one took a twentieth of a request.
type patience struct {
	values context.Context
	traced *trace.Request
	end    time.Time

	mu     sync.Mutex
	timed  context.Context
	cancel context.CancelFunc
}

func newPatience(values context.Context, traced *trace.Request) *patience {
	return &patience{values: context.WithoutCancel(values), traced: traced, end: time.Now().Add(carryOut)}
}

func (p *patience) timer() context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timed == nil {
		p.timed, p.cancel = context.WithDeadline(p.values, p.end)
	}
	return p.timed
}

// over ends it: whoever still holds it then does what nobody waits for.
func (p *patience) over() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timed == nil {
		p.timed, p.cancel = ended, func() {}
	}
	p.cancel()
}

var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

func (p *patience) Deadline() (time.Time, bool) { return p.end, true }
func (p *patience) Done() <-chan struct{}       { return p.timer().Done() }

// Err needs no timer where nobody has asked for one.
func (p *patience) Err() error {
	p.mu.Lock()
	timed := p.timed
	p.mu.Unlock()
	switch {
	case timed != nil:
		return timed.Err()
	case time.Now().Before(p.end):
		return nil
	}
	return context.DeadlineExceeded
}

// Value asks the timer: so package context finds what can be cancelled, and what is
// derived from this context needs no goroutine to watch it. Which trace it belongs to
// is asked at every stop of every request, and needs no timer.
func (p *patience) Value(key any) any {
	if _, ok := key.(trace.Key); ok {
		return p.traced
	}
	return p.timer().Value(key)
}
