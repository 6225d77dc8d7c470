package redisstore

import (
	"testing"
	"time"
)

// A clock as it would be: redis is ahead of this process by offset.
func learnt(c *clock, sentAgo, offset int64) {
	e := c.now()
	c.learn(e-sentAgo, e+offset)
}

func TestNoDeadlineTravelsBeforeAReplyHasShownTheTime(t *testing.T) {
	c := clock{start: time.Now()}
	if d := c.in(time.Now()); d != 0 {
		t.Errorf("deadline %d out of nothing", d)
	}
}

func TestRepliesNarrowTheOffsetDown(t *testing.T) {
	c := clock{start: time.Now()}
	const offset = 1_000_000_000
	c.learn(c.now()-50_000, c.now()+offset-30_000) // a slow reply, stamped on the way
	wide := c.to - c.from
	c.learn(c.now()-500, c.now()+offset)
	if c.to-c.from >= wide || c.to-c.from > 10_000 {
		t.Errorf("the offset is known to %d us, before it was %d", c.to-c.from, wide)
	}
	narrow := c.from
	c.learn(c.now()-80_000, c.now()+offset-40_000) // a slow one teaches nothing
	if c.from < narrow {
		t.Errorf("a slow reply moved the offset from %d to %d", narrow, c.from)
	}
}

func TestDeadlineIsNeverLaterInRedisThanHere(t *testing.T) {
	c := clock{start: time.Now()}
	const offset = 5_000_000_000
	// Stamped by Redis right after it was sent: all of the delay was on the way back.
	sent := c.now() - 40_000
	c.learn(sent, sent+offset)
	end := time.Now().Add(time.Second)
	if here := end.Sub(c.start).Microseconds() + offset; c.in(end) > here {
		t.Errorf("deadline %d in Redis is after %d here", c.in(end), here)
	}
}

func TestAClockThatSteppedIsFollowedAtOnce(t *testing.T) {
	c := clock{start: time.Now()}
	for _, offset := range []int64{7_000_000_000, 1_000, 9_000_000_000} {
		learnt(&c, 100, offset)
		if d := c.in(c.start); d > offset || d < offset-1_000_000 {
			t.Errorf("after a step to %d the deadline goes by %d", offset, d)
		}
	}
}
