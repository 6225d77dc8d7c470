package kafkabus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/guardd/guardd/aggregate"
)

// partition is where the reader of one partition is. It is read by those that
// commit, look and count.
type partition struct {
	topic aggregate.Topic
	group string
	id    int

	mu        sync.Mutex
	handler   aggregate.Handler // nil where there is none for the moment
	next      int64             // due; until the log's ends are known, what the group has stored
	committed int64
	high      int64     // end of the log as last heard of
	last      time.Time // when what was last handled had been published
	fetching  bool      // waiting for the brokers, not for the handler
	// What was due at a look that found something due, and since when.
	stuck int64
	since time.Time
}

// read hands the partition to one handler after the other until ctx ends.
func (m *member) read(ctx context.Context, gen *kafka.Generation, p *partition) {
	if !m.begin(ctx, p) {
		return
	}
	for {
		h := m.open(p.id)
		p.attach(h)
		err := m.feed(ctx, p, h)
		m.commit(gen, p) // what it has done with until now
		p.detach()
		h.Close()
		if ctx.Err() != nil {
			return
		}
		m.b.fail(opHandle, err)
		if !sleep(ctx, m.b.c.times.pause) {
			return
		}
	}
}

// begin finds the offset to begin at: the group's position, unless the log does
// not reach so far. It asks until it is answered or ctx ends.
func (m *member) begin(ctx context.Context, p *partition) bool {
	for {
		first, end, err := m.ends(ctx, p)
		if err == nil {
			if p.committed > end {
				m.b.fail(opFetch, fmt.Errorf("%s/%d ends at %d, before the group's position %d: it was made anew, and is read from its beginning", m.b.name(m.topic), p.id, end, p.committed))
			}
			p.start(first, end)
			return true
		}
		if ctx.Err() == nil {
			m.b.fail(opLook, err)
		}
		if !sleep(ctx, m.b.c.times.pause) {
			return false
		}
	}
}

func (m *member) ends(ctx context.Context, p *partition) (first, end int64, err error) {
	name := m.b.name(m.topic)
	r, err := m.b.client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{
		name: {kafka.FirstOffsetOf(p.id), kafka.LastOffsetOf(p.id)},
	}})
	if err != nil {
		return 0, 0, err
	}
	for _, o := range r.Topics[name] {
		if o.Partition == p.id && o.Error == nil {
			return o.FirstOffset, o.LastOffset, nil
		} else if o.Partition == p.id {
			return 0, 0, o.Error
		}
	}
	return 0, 0, kafka.UnknownTopicOrPartition
}

// feed gives h what comes, until ctx ends or h fails.
func (m *member) feed(ctx context.Context, p *partition, h aggregate.Handler) error {
	t := m.b.c.times
	line := &line{conns: map[net.Conn]bool{}}
	var done atomic.Bool // what fails from then on is our own doing
	r := kafka.NewReader(kafka.ReaderConfig{
		Brokers: m.b.c.Brokers, Dialer: line.over(m.b.dialer), Topic: m.b.name(m.topic), Partition: p.id,
		MinBytes: 1, MaxBytes: 4 << 20, QueueCapacity: 1000, MaxWait: t.fetch, ReadLagInterval: -1,
		ErrorLogger: kafka.LoggerFunc(func(text string, args ...any) {
			if ctx.Err() == nil && !done.Load() {
				m.b.fail(opFetch, fmt.Errorf(text, args...))
			}
		}),
	})
	// It would hold its Close until the broker has answered what was asked last,
	// and a broker that hangs does not.
	defer m.b.leaving.Go(func() {
		done.Store(true)
		line.cut()
		_ = r.Close() // never an error
	})
	if err := r.SetOffset(p.due()); err != nil {
		return err
	}
	for {
		p.waits(true)
		in, err := r.FetchMessage(ctx)
		p.waits(false)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			m.b.fail(opFetch, err)
			if !sleep(ctx, t.pause) {
				return ctx.Err()
			}
			continue
		}
		if err := m.handle(ctx, h, in); err != nil {
			return err
		}
		p.handled(in.Offset, in.HighWaterMark, in.Time)
	}
}

// handle gives h one message, and buries what is poison.
func (m *member) handle(ctx context.Context, h aggregate.Handler, in kafka.Message) error {
	out := aggregate.Message{Key: string(in.Key), Value: in.Value, Partition: in.Partition, Offset: in.Offset, High: in.HighWaterMark, Time: in.Time}
	for _, header := range in.Headers {
		if header.Key == headerReason {
			out.Reason = string(header.Value)
		}
	}
	err := guarded(h, out)
	if !errors.Is(err, aggregate.ErrPoison) {
		return err
	}
	m.b.fail(opHandle, fmt.Errorf("%s/%d at %d: %w", in.Topic, in.Partition, in.Offset, err))
	if m.topic == aggregate.TopicDead {
		return nil // it is there already
	}
	return m.b.bury(ctx, in, err.Error())
}

// guarded calls h. One message on which it panics would end the process, and
// again after each restart, and logins with it: it is poison.
func guarded(h aggregate.Handler, m aggregate.Message) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: the handler panicked: %v\n%s", aggregate.ErrPoison, r, debug.Stack())
		}
	}()
	return h.Handle(m)
}

func (p *partition) start(first, end int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.committed < first || p.committed > end { // kafka.FirstOffset is negative
		p.committed = first
	}
	p.next, p.high, p.stuck = p.committed, end, -1
}

// attach begins at the group's position with a new handler.
func (p *partition) attach(h aggregate.Handler) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.handler, p.next = h, p.committed
}

func (p *partition) detach() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.handler = nil
}

func (p *partition) due() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next
}

func (p *partition) waits(fetching bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fetching = fetching
}

func (p *partition) handled(offset, high int64, published time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next, p.high, p.last = offset+1, max(high, offset+1), published
}

// position is what the group's position may be moved to, and whether that is on.
func (p *partition) position() (at int64, moved bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.handler == nil {
		return 0, false
	}
	at = min(p.handler.Behind(), p.next)
	return at, at > p.committed
}

func (p *partition) stored(at int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.committed = at
}

// stalled takes note of where the log ends, and tells whether for so long nothing
// came although something was due.
func (p *partition) stalled(end int64, now time.Time, most time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.high = max(end, p.next)
	switch {
	case p.handler == nil || end <= p.next || !p.fetching:
		p.stuck = -1
	case p.stuck != p.next:
		p.stuck, p.since = p.next, now
	case now.Sub(p.since) >= most:
		return true
	}
	return false
}

func (p *partition) stats(now time.Time) PartitionStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := PartitionStats{Topic: p.topic, Group: p.group, Partition: p.id, Next: p.next, Committed: p.committed, Lag: max(0, p.high-p.next)}
	if s.Lag > 0 && !p.last.IsZero() {
		s.Age = max(0, now.Sub(p.last))
	}
	return s
}
