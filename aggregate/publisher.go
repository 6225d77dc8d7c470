package aggregate

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys/trace"
)

// PublisherConfig makes a Publisher.
type PublisherConfig struct {
	Bus Bus
	// SpoolDir is where events wait on disk while the bus does not take them; it is
	// one process's own. "" is nowhere: then MemoryBytes of them wait, and the
	// newest are dropped.
	SpoolDir string
	// SpoolBytes bounds the spool; 0 is 1 GiB, some 1.5 million events.
	SpoolBytes int64
	// MemoryBytes bounds what waits in memory once it is encoded; 0 is 8 MiB.
	MemoryBytes int64
	// Ring is how many events may wait to be encoded; 0 is 16,384.
	Ring int
	// Batch is how many events are published at once; 0 is 1,000.
	Batch int
	// Timeout is how long one Publish may take; 0 is 2 s. Backoff is the pause
	// after the first failure, which doubles up to MaxBackoff; 0 are 100 ms and 5 s.
	Timeout, Backoff, MaxBackoff time.Duration
	// Window is how long events are gathered before they are encoded; 0 is 5 ms.
	Window time.Duration
	// Failed, when set, is told of what the bus or the disk refused, from the
	// publisher's own goroutines.
	Failed func(op string, err error)
}

// Publisher brings the events of what it observes to the bus. It is an
// api.Observer: emitting costs the caller a lock and two words, and never waits
// for anything. It is safe for concurrent use.
type Publisher struct {
	c        PublisherConfig
	instance string
	ring     *ring
	queue    *queue
	lives    *lives
	lock     *os.File // nil: no spool

	stop      chan struct{}      // closed: no more events come
	drained   context.Context    // done: all have been encoded
	encoded   context.CancelFunc // ends drained
	give      context.Context    // done: the time to close is over
	giveUp    context.CancelFunc
	ended     sync.WaitGroup
	closing   sync.Once
	last      []life // the realms' counts, once stop is closed
	closed    error
	published atomic.Uint64
	failures  atomic.Uint64
	ends      atomic.Uint64
}

// NewPublisher opens the spool and begins to publish what is in it. Close it.
func NewPublisher(c PublisherConfig) (*Publisher, error) {
	def := func(v *time.Duration, d time.Duration) {
		if *v <= 0 {
			*v = d
		}
	}
	def(&c.Timeout, 2*time.Second)
	def(&c.Backoff, 100*time.Millisecond)
	def(&c.MaxBackoff, 5*time.Second)
	def(&c.Window, 5*time.Millisecond)
	for _, n := range []struct {
		v *int64
		d int64
	}{{&c.SpoolBytes, 1 << 30}, {&c.MemoryBytes, 8 << 20}} {
		if *n.v <= 0 {
			*n.v = n.d
		}
	}
	if c.Ring <= 0 {
		c.Ring = 16384
	}
	if c.Batch <= 0 {
		c.Batch = 1000
	}
	var id [8]byte
	if _, err := rand.Read(id[:]); err != nil {
		return nil, fmt.Errorf("naming the instance: %w", err)
	}
	p := &Publisher{c: c, instance: hex.EncodeToString(id[:]), stop: make(chan struct{})}
	p.drained, p.encoded = context.WithCancel(context.Background())
	p.give, p.giveUp = context.WithCancel(context.Background())
	s, err := p.openSpool()
	if err != nil {
		return nil, fmt.Errorf("events.spool_dir: %w", err)
	}
	p.queue = newQueue(queueConfig{memory: c.MemoryBytes, failed: func(err error) { p.failed("spool", err) }}, s)
	p.ring = newRing(c.Ring, p.lives.mark)
	p.ended.Go(p.encode)
	p.ended.Go(p.send)
	return p, nil
}

// openSpool opens the spool, if there is to be one, and puts in it the end of
// what an earlier process was killed at.
func (p *Publisher) openSpool() (*spool, error) {
	dir := p.c.SpoolDir
	if dir == "" {
		return nil, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	var err error
	if p.lock, err = lockDir(dir); err != nil {
		return nil, err
	}
	s, err := openSpool(dir, p.c.SpoolBytes)
	if err != nil {
		return nil, errors.Join(err, p.lock.Close())
	}
	p.lives, err = openLives(dir, p.instance, func(old []life) error {
		ends, err := p.endsOf(old)
		if err != nil || len(ends) == 0 {
			return err
		}
		p.ends.Add(uint64(len(ends)))
		_, err = s.append(ends)
		return errors.Join(err, s.seal())
	})
	if err != nil {
		return nil, errors.Join(err, p.lock.Close())
	}
	return s, nil
}

func (p *Publisher) endsOf(old []life) (ends []queued, err error) {
	now := time.Now()
	for _, l := range old {
		m, err := messageOf(endOf(l.instance, l.realm, l.seq+1, now), now)
		if err != nil {
			return nil, err
		}
		ends = append(ends, m)
	}
	return ends, nil
}

func messageOf(e *Event, now time.Time) (queued, error) {
	b, err := e.AppendTo(nil)
	return queued{Message: Message{Key: e.Realm, Value: b}, at: now.UnixMicro()}, err
}

// Attempt emits the event of a verdict, which must not be changed any more.
func (p *Publisher) Attempt(v *escalation.Verdict, _ time.Duration) {
	if !v.Quiet && !v.Replayed {
		p.ring.push(v.Realm, record{v: v})
	}
}

// Outcome emits the event of an outcome, which must not be changed any more.
func (p *Publisher) Outcome(r *escalation.Recorded, _ time.Duration) {
	if !r.Quiet {
		p.ring.push(r.Realm, record{r: r})
	}
}

// Answered emits nothing.
func (p *Publisher) Answered(string, int, time.Duration, trace.ID) {}

// encode makes messages of records, and never waits for the bus.
func (p *Publisher) encode() {
	defer p.encoded()
	window := time.NewTimer(0)
	<-window.C
	for {
		select {
		case <-p.ring.wake:
			window.Reset(p.c.Window)
			select {
			case <-window.C:
			case <-p.stop:
			}
			p.encodeAll(p.ring.take())
		case <-p.stop:
			p.encodeAll(p.ring.take())
			ends, err := p.endsOf(p.last)
			if err != nil {
				p.failed("encode", err)
			}
			p.queue.put(ends)
			return
		}
	}
}

func (p *Publisher) encodeAll(records []record) {
	msgs, now := make([]queued, 0, len(records)), time.Now()
	for i := range records {
		r := &records[i]
		e := Event{V: Version, Instance: p.instance, Seq: r.seq}
		e.ID = fmt.Sprintf("%s-%d", p.instance, r.n)
		if r.v != nil {
			e.ofAttempt(r.v)
		} else {
			e.ofOutcome(r.r)
		}
		m, err := messageOf(&e, now)
		if err != nil { // a field that JSON has no form for: a fault of ours
			p.failed("encode", err)
			continue
		}
		msgs = append(msgs, m)
	}
	clear(records)
	p.queue.put(msgs)
}

// send publishes what waits, oldest first, until all is encoded and published,
// or the time to close is over.
func (p *Publisher) send() {
	backoff := p.c.Backoff
	for {
		batch, err := p.queue.next(p.drained, p.c.Batch)
		if err != nil {
			p.failed("spool", err)
			if p.drained.Err() != nil {
				return
			}
			p.pause(backoff)
			continue
		}
		if len(batch) == 0 {
			return
		}
		if err := p.publish(batch); err == nil {
			p.queue.done(len(batch))
			p.published.Add(uint64(len(batch)))
			backoff = p.c.Backoff
		} else {
			p.queue.failed()
			p.failures.Add(1)
			p.failed("publish", err)
			if p.over() {
				return
			}
			p.pause(backoff/2 + mathrand.N(backoff/2+1))
			backoff = min(2*backoff, p.c.MaxBackoff)
		}
		if p.give.Err() != nil {
			return
		}
	}
}

// over reports that closing need not wait for the bus: what waits is on disk, or
// the time is over.
func (p *Publisher) over() bool {
	return p.give.Err() != nil || p.drained.Err() != nil && p.queue.onDisk()
}

func (p *Publisher) publish(batch []queued) error {
	ctx, cancel := context.WithTimeout(p.give, p.c.Timeout)
	defer cancel()
	msgs := make([]Message, len(batch))
	for i := range batch {
		msgs[i] = batch[i].Message
	}
	return p.c.Bus.Publish(ctx, TopicEvents, msgs)
}

func (p *Publisher) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	closing := p.drained.Done()
	if p.drained.Err() != nil {
		closing = nil
	}
	select {
	case <-t.C:
	case <-closing: // once more, before what is left is put away
	case <-p.give.Done():
	}
}

func (p *Publisher) failed(op string, err error) {
	if p.c.Failed != nil {
		p.c.Failed(op, err)
	}
}

// Close takes no more events, publishes those that wait until ctx ends, and
// keeps the rest in the spool, or loses it (Stats says how many). Nobody may
// emit any more: what comes all the same is counted as lost.
func (p *Publisher) Close(ctx context.Context) error {
	p.closing.Do(func() { p.closed = p.close(ctx) })
	return p.closed
}

func (p *Publisher) close(ctx context.Context) error {
	counts := p.ring.close()
	release := context.AfterFunc(ctx, p.giveUp)
	defer release()
	for realm, seq := range counts {
		p.last = append(p.last, life{p.instance, realm, seq})
	}
	close(p.stop)
	p.ended.Wait()
	p.giveUp()
	err := p.queue.close()
	if err == nil { // until the ends are kept, the count is what tells of them
		err = p.lives.close()
	}
	if p.lock != nil {
		err = errors.Join(err, p.lock.Close())
	}
	return err
}

// Stats are a Publisher's counts since it was made.
type Stats struct {
	Emitted   uint64            // events, lost ones included
	Published uint64            // events that the bus took, those of an earlier process included
	Failures  uint64            // calls that the bus failed
	Ends      uint64            // realms whose count an earlier process was killed at
	Lost      map[string]uint64 // events, by one of Losses
	Waiting
}

// Stats returns the counts.
func (p *Publisher) Stats() Stats {
	s := Stats{Published: p.published.Load(), Failures: p.failures.Load(), Ends: p.ends.Load()}
	s.Waiting, s.Lost = p.queue.waiting()
	s.Emitted, s.Lost[lostRing] = p.ring.stats()
	return s
}
