package aggregate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"time"
)

// ErrClosed is returned by a Bus that has been closed.
var ErrClosed = errors.New("the bus is closed")

// MemoryBusConfig makes a MemoryBus.
type MemoryBusConfig struct {
	// Partitions of every topic; 0 is 1.
	Partitions int
	// Keep is how many messages a partition keeps for whoever reads it again; 0
	// is 8,192, some 6 MB of events.
	Keep int
}

// MemoryBus is the Bus of a process that is alone. What it keeps ends with the
// process. When a partition is full of messages that a group in use has not
// read yet, Publish waits.
type MemoryBus struct {
	c       MemoryBusConfig
	mu      sync.Mutex
	topics  map[Topic][]*memoryLog
	changed chan struct{} // closed and made anew at every change
	closed  bool
}

// memoryLog is one partition.
type memoryLog struct {
	first  int64 // offset of msgs[0]
	msgs   []Message
	groups map[string]*memoryGroup
}

// memoryGroup is where a group is in one partition.
type memoryGroup struct {
	position int64 // where the next handler begins
	next     int64 // what the present one reads next
	members  int   // Consume calls that read the topic or wait to
	owned    bool
}

// NewMemoryBus returns an empty bus.
func NewMemoryBus(c MemoryBusConfig) *MemoryBus {
	c.Partitions = max(c.Partitions, 1)
	if c.Keep <= 0 {
		c.Keep = 8192
	}
	b := &MemoryBus{c: c, topics: map[Topic][]*memoryLog{}, changed: make(chan struct{})}
	for _, t := range Topics {
		for range c.Partitions {
			b.topics[t] = append(b.topics[t], &memoryLog{groups: map[string]*memoryGroup{}})
		}
	}
	return b
}

// Publish is Bus's. The error is ctx's when there was no room in time.
func (b *MemoryBus) Publish(ctx context.Context, topic Topic, msgs []Message) error {
	logs := b.topics[topic]
	if logs == nil {
		return fmt.Errorf("there is no topic %q", topic)
	}
	for i := range msgs {
		p := partitionOf(msgs[i].Key, len(logs))
		err := b.when(ctx, func() bool { return logs[p].room(b.c.Keep) }, func() {
			m := msgs[i]
			m.Value = bytes.Clone(m.Value)
			m.Partition, m.Offset, m.Time = p, logs[p].end(), time.Now()
			logs[p].msgs = append(logs[p].msgs, m)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func partitionOf(key string, n int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key))
	return int(h.Sum32() % uint32(n))
}

func (l *memoryLog) end() int64 { return l.first + int64(len(l.msgs)) }

// room makes room for one message where nobody waits for the oldest.
func (l *memoryLog) room(keep int) bool {
	if len(l.msgs) < keep {
		return true
	}
	for _, g := range l.groups {
		if g.members > 0 && g.next <= l.first {
			return false
		}
	}
	l.msgs[0] = Message{}
	l.msgs, l.first = l.msgs[1:], l.first+1
	return true
}

// Consume is Bus's.
func (b *MemoryBus) Consume(ctx context.Context, topic Topic, group string, open func(partition int) Handler) error {
	logs := b.topics[topic]
	if logs == nil {
		return fmt.Errorf("there is no topic %q", topic)
	}
	var readers sync.WaitGroup
	errs := make([]error, len(logs))
	for p, l := range logs {
		b.mu.Lock()
		g := l.groups[group]
		if g == nil {
			g = &memoryGroup{position: l.first, next: l.first}
			l.groups[group] = g
		}
		g.members++
		b.mu.Unlock()
		readers.Go(func() {
			errs[p] = b.member(ctx, l, g, func() Handler { return open(p) })
			b.change(func() { g.members-- })
		})
	}
	readers.Wait()
	return errors.Join(errs...)
}

// member waits until it owns the partition, and then reads it until ctx ends.
func (b *MemoryBus) member(ctx context.Context, l *memoryLog, g *memoryGroup, open func() Handler) error {
	err := b.when(ctx, func() bool { return !g.owned }, func() { g.owned = true })
	if err != nil {
		return ended(ctx, err)
	}
	defer b.change(func() { g.owned = false })
	for pause := time.Duration(0); ; pause = time.Second {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		h := open()
		err := b.read(ctx, l, g, h)
		h.Close()
		if err != nil {
			return ended(ctx, err)
		}
	}
}

func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// read gives h what there is, from the group's position on. It returns nil when
// h failed, and has to be replaced.
func (b *MemoryBus) read(ctx context.Context, l *memoryLog, g *memoryGroup, h Handler) error {
	b.change(func() {
		g.position = max(g.position, l.first)
		g.next = g.position
	})
	moved := func() { g.position = max(g.position, min(h.Behind(), g.next)) }
	defer b.change(moved) // what it was still busy with after the last message is done by now
	for {
		var m Message
		err := b.when(ctx, func() bool { return g.next < l.end() }, func() {
			g.next = max(g.next, l.first)
			m = l.msgs[g.next-l.first]
			m.High = l.end()
			m.Value = bytes.Clone(m.Value)
		})
		if err != nil {
			return err
		}
		err = h.Handle(m)
		if errors.Is(err, ErrPoison) {
			err = b.Publish(ctx, TopicDead, []Message{{Key: m.Key, Value: m.Value, Reason: err.Error()}})
		}
		if err != nil {
			return ctx.Err()
		}
		b.change(func() {
			g.next = m.Offset + 1
			moved()
		})
	}
}

// Close ends every Consume and Publish that still runs, with ErrClosed.
func (b *MemoryBus) Close() error {
	b.change(func() { b.closed = true })
	return nil
}

// when waits until ready, and then does what is to be done, under one lock.
func (b *MemoryBus) when(ctx context.Context, ready func() bool, do func()) error {
	for {
		b.mu.Lock()
		changed := b.changed
		switch {
		case ctx.Err() != nil:
			b.mu.Unlock()
			return ctx.Err()
		case b.closed:
			b.mu.Unlock()
			return ErrClosed
		case ready():
			do()
			b.tell()
			b.mu.Unlock()
			return nil
		}
		b.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

func (b *MemoryBus) change(do func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	do()
	b.tell()
}

// tell wakes whoever waits.
func (b *MemoryBus) tell() {
	close(b.changed)
	b.changed = make(chan struct{})
}
