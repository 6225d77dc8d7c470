package keys

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// MaxInstances is the most instances that may share a store, and what one that
// does not know how many there are takes for the truth: its share is the least.
const MaxInstances = 10_000

// Beats is a store that is told which instances live.
type Beats interface {
	// Beat says at key that the instance lives for ttl microseconds from now (the
	// store's clock, unless now is given), and returns how many do. A ttl of 0
	// says that it is leaving.
	Beat(ctx context.Context, key string, instance [8]byte, now, ttl int64) (live int64, err error)
}

// Lifetimes of a heartbeat unless LiveConfig says otherwise: an instance that
// was killed counts for a quarter of a minute, in which the others grant a
// little less than their share.
const (
	BeatEvery = time.Second
	BeatTTL   = 15 * time.Second
)

// LiveConfig makes a Live.
type LiveConfig struct {
	Store    Beats
	Instance [8]byte // its name, as no other's
	// Every and TTL are the heart's pace; 0 is BeatEvery and BeatTTL.
	Every, TTL time.Duration
	// Fixed is the operator's word for how many there are; 0 is none. The heart
	// beats all the same, for the others.
	Fixed int
	// Breakers stand before the store; beats are probes too, so that they close
	// where nobody logs in. nil: none.
	Breakers *Breakers
	// Now is the breakers' clock; nil is the machine's.
	Now func() int64
}

// Live counts the instances that live off one store, by their heartbeats there.
// In an outage the last count stands. It is safe for concurrent use.
type Live struct {
	c     LiveConfig
	beats atomic.Int64 // that were heard, at most 2
	count atomic.Int64
}

// NewLive returns a Live that knows of nobody yet.
func NewLive(c LiveConfig) *Live {
	if c.Every <= 0 {
		c.Every = BeatEvery
	}
	if c.TTL <= 0 {
		c.TTL = BeatTTL
	}
	if c.Now == nil {
		c.Now = func() int64 { return time.Now().UnixMicro() }
	}
	return &Live{c: c}
}

// Count is how many instances live, as far as this one knows: Fixed, or what the
// last beat heard. 0 means that it does not know. One that has just come says so
// until its second beat: by then the others have counted it, too, and whatever
// happens to the store, no share is granted twice.
func (l *Live) Count() int {
	if l.c.Fixed > 0 {
		return l.c.Fixed
	}
	return int(l.count.Load())
}

// Beat sends one heartbeat, unless the breaker holds it back.
func (l *Live) Beat(ctx context.Context) error {
	n, err := l.beat(ctx, l.at(LiveKey), LiveKey)
	if err != nil {
		return err
	}
	if l.beats.Add(1) > 1 || n == 1 {
		l.count.Store(min(max(n, 1), MaxInstances))
	}
	return nil
}

func (l *Live) at(key string) *Breaker {
	if l.c.Breakers == nil {
		return nil
	}
	return l.c.Breakers.At(key)
}

// beat sends one through a breaker, if there is one.
func (l *Live) beat(ctx context.Context, through *Breaker, key string) (live int64, err error) {
	var pass Pass
	if through != nil {
		var ok bool
		if pass, ok = through.Ask(l.c.Now()); !ok {
			return 0, ErrOpen
		}
	}
	live, err = l.c.Store.Beat(ctx, key, l.c.Instance, 0, l.c.TTL.Microseconds())
	if through != nil {
		through.Tell(pass, l.c.Now(), resultOf(ctx, err))
	}
	return live, err
}

// Tend probes each part of the store that has failed since it last worked, unless
// it is not due yet, or the one that Beat asks. Failed, when not nil, is told of
// those that failed again, from any goroutine.
func (l *Live) Tend(ctx context.Context, failed func(error)) {
	if l.c.Breakers == nil {
		return
	}
	var all sync.WaitGroup
	for _, p := range l.c.Breakers.ailing(LiveKey) {
		all.Go(func() {
			_, err := l.beat(ctx, p.Breaker, BeatKey(p.key))
			if err != nil && err != ErrOpen && failed != nil && ctx.Err() == nil {
				failed(err)
			}
		})
	}
	all.Wait()
}

// Run beats and tends until ctx ends, and then says that the instance is leaving.
// Failed, when not nil, is told of beats that failed, from any goroutine.
func (l *Live) Run(ctx context.Context, failed func(error)) {
	var tending sync.WaitGroup
	tending.Go(func() { pulse(ctx, l.lull, func() { l.Tend(ctx, failed) }) })
	pulse(ctx, l.pause, func() {
		if err := l.Beat(ctx); err != nil && failed != nil && ctx.Err() == nil {
			failed(err)
		}
	})
	tending.Wait()
	leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_, _ = l.c.Store.Beat(leave, LiveKey, l.c.Instance, 0, 0) // else the mark dies by itself
}

// pulse does something again and again until ctx ends, with a pause before each.
func pulse(ctx context.Context, pause func() time.Duration, do func()) {
	timer := time.NewTimer(pause())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		do()
		timer.Reset(pause())
	}
}

// pause is the time to the next beat, a tenth more or less, so that a fleet
// started at once does not beat at once; while the breaker is open, to its next
// probe.
func (l *Live) pause() time.Duration {
	p := l.c.Every - l.c.Every/10 + rand.N(l.c.Every/5+1)
	if at := l.at(LiveKey); at != nil && at.Open() {
		p = min(p, l.until(at))
	}
	return p
}

// lull is the time to the next look at who needs to be probed.
func (l *Live) lull() time.Duration {
	p := l.c.Every
	if l.c.Breakers != nil {
		for _, ill := range l.c.Breakers.ailing(LiveKey) {
			if ill.Open() {
				p = min(p, l.until(ill.Breaker))
			}
		}
	}
	return p
}

func (l *Live) until(b *Breaker) time.Duration {
	return time.Duration(b.Next(l.c.Now()))*time.Microsecond + time.Millisecond
}
