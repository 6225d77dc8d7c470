package kafkabus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/guardd/guardd/aggregate"
)

// Consume is the Bus's. What fails at the brokers is told to Config.OnError and
// tried again until ctx ends.
func (b *Bus) Consume(ctx context.Context, topic aggregate.Topic, group string, open func(partition int) aggregate.Handler) error {
	if err := b.known(topic); err != nil {
		return err
	}
	if group == "" {
		return errors.New("a group needs a name")
	}
	m := &member{b: b, topic: topic, group: group, open: open}
	for ctx.Err() == nil {
		if b.Check(ctx) == nil {
			if err := m.join(ctx); err != nil {
				return err
			}
		}
		sleep(ctx, b.c.times.pause)
	}
	return nil
}

// member is one Consume.
type member struct {
	b     *Bus
	topic aggregate.Topic
	group string
	open  func(partition int) aggregate.Handler

	readers    sync.WaitGroup
	committing sync.Mutex // a later position is never overtaken by an earlier
}

// join is a member of the group until ctx ends or nothing comes any more.
func (m *member) join(ctx context.Context) error {
	t := m.b.c.times
	cg, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: m.group, Brokers: m.b.c.Brokers, Dialer: m.b.dialer, Topics: []string{m.b.name(m.topic)},
		HeartbeatInterval: t.heartbeat, SessionTimeout: t.session, RebalanceTimeout: t.rebalance, Timeout: t.request,
		JoinGroupBackoff: t.pause,
		// Without it nothing is ever read from partitions that are added.
		WatchPartitionChanges: true, PartitionWatchInterval: t.partitions,
		StartOffset: kafka.FirstOffset,
	})
	if err != nil {
		return err
	}
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	defer m.leave(cg)
	for {
		gen, err := cg.Next(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			m.b.fail(opGroup, err)
		default:
			m.b.stats.generations.Add(1)
			m.serve(gen, giveUp)
		}
	}
}

// leave has the group's other members take over, and returns when every handler
// is closed. A broker that hangs does not hold it up.
func (m *member) leave(cg *kafka.ConsumerGroup) {
	left := make(chan struct{})
	m.b.leaving.Go(func() {
		defer close(left)
		_ = cg.Close() // never an error
	})
	m.readers.Wait()
	select {
	case <-left:
	case <-time.After(m.b.c.times.request):
	}
}

// serve reads what a generation was dealt, until it ends.
func (m *member) serve(gen *kafka.Generation, giveUp func()) {
	var all []*partition
	for _, a := range gen.Assignments[m.b.name(m.topic)] {
		p := &partition{topic: m.topic, group: m.group, id: a.ID, next: a.Offset, committed: a.Offset}
		all = append(all, p)
	}
	for _, p := range all {
		m.readers.Add(1)
		gen.Start(func(ctx context.Context) {
			defer m.readers.Done()
			defer m.b.stats.watch(p)()
			m.read(ctx, gen, p)
		})
	}
	gen.Start(func(ctx context.Context) {
		for sleep(ctx, m.b.c.times.commit) {
			m.commit(gen, all...)
		}
	})
	gen.Start(func(ctx context.Context) {
		for sleep(ctx, m.b.c.times.look) {
			if err := m.look(ctx, all); err != nil {
				m.b.stats.rebuilt.Add(1)
				m.b.fail(opFetch, err)
				giveUp()
				return
			}
		}
	})
}

// commit stores the positions that have moved. It fails when the generation is
// over: then others have the partitions, and positions of their own.
func (m *member) commit(gen *kafka.Generation, all ...*partition) {
	m.committing.Lock()
	defer m.committing.Unlock()
	positions := map[int]int64{}
	for _, p := range all {
		if at, moved := p.position(); moved {
			positions[p.id] = at
		}
	}
	if len(positions) == 0 {
		return
	}
	if err := gen.CommitOffsets(map[string]map[int]int64{m.b.name(m.topic): positions}); err != nil {
		m.b.fail(opCommit, err)
		return
	}
	for _, p := range all {
		if at, ok := positions[p.id]; ok {
			p.stored(at)
		}
	}
}

// look compares where the logs end with where the readers are. The error says
// that a partition must be read anew.
func (m *member) look(ctx context.Context, all []*partition) error {
	if len(all) == 0 {
		return nil
	}
	var asks []kafka.OffsetRequest
	before := map[int]int64{}
	for _, p := range all {
		before[p.id] = p.due()
		asks = append(asks, kafka.LastOffsetOf(p.id))
	}
	r, err := m.b.client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{m.b.name(m.topic): asks}})
	if err != nil {
		if ctx.Err() == nil {
			m.b.fail(opLook, err)
		}
		return nil
	}
	for _, end := range r.Topics[m.b.name(m.topic)] {
		if end.Error != nil {
			m.b.fail(opLook, end.Error)
			continue
		}
		for _, p := range all {
			if p.id != end.Partition {
				continue
			}
			switch {
			case end.LastOffset < before[p.id]:
				return fmt.Errorf("%s/%d ends at %d, before the %d that was due: was the topic made anew?", m.b.name(m.topic), p.id, end.LastOffset, before[p.id])
			case p.stalled(end.LastOffset, time.Now(), m.b.c.times.stall):
				return fmt.Errorf("nothing came from %s/%d for %v though it goes from %d to %d", m.b.name(m.topic), p.id, m.b.c.times.stall, before[p.id], end.LastOffset)
			}
		}
	}
	return nil
}
