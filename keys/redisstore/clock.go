package redisstore

import (
	"context"
	"sync"
	"time"
)

// clock knows how far Redis's clock is from this process's monotonic one. A
// reply that says it was r in Redis, sent at s and received at e, shows that
// the offset is between r - e and r - s; replies narrow that down together, and
// one that contradicts the rest shows that a clock has stepped or drifted (or
// that another server answers): it stands alone then.
type clock struct {
	start time.Time

	mu       sync.Mutex
	known    bool
	from, to int64 // microseconds
}

// now is this process's time in microseconds since start.
func (c *clock) now() int64 { return time.Since(c.start).Microseconds() }

// learn takes in a reply to a call sent at sent.
func (c *clock) learn(sent, redis int64) {
	from, to := redis-c.now()-1, redis-sent+1 // both clocks cut off below 1 us
	c.mu.Lock()
	defer c.mu.Unlock()
	if lo, hi := max(from, c.from), min(to, c.to); c.known && lo <= hi {
		from, to = lo, hi
	}
	c.known, c.from, c.to = true, from, to
}

// in is the time t by Redis's clock, at the earliest that it may be; 0 when no
// reply has shown it yet. Too early loses an answer that would have come in the
// last moment; too late would charge a caller twice.
func (c *clock) in(t time.Time) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		return 0
	}
	return t.Sub(c.start).Microseconds() + c.from
}

// until is the deadline that goes with a call, in Redis's time: the caller's,
// or that of ctx when Redis's clock decides. 0 is none.
func (c *clock) until(ctx context.Context, now, deadline int64) int64 {
	if now != 0 {
		return deadline // the caller owns time
	}
	end, _ := ctx.Deadline()
	mine := c.in(end)
	if deadline == 0 || mine != 0 && mine < deadline {
		return mine
	}
	return deadline
}
