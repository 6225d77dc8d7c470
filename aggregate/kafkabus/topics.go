package kafkabus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/guardd/guardd/aggregate"
)

// Check sees to it that the topics are there, and makes those that are not. The
// error says which is missing and why it could not be made, or that no broker
// answers. Publish and Consume do the same by themselves until it has worked
// once; a program that is starting asks for the sake of its log.
func (b *Bus) Check(ctx context.Context) error { return b.check(ctx, &b.made, aggregate.Topics) }

// checkFor is Check for a topic: one of Config.More that cannot be made must not keep events
// from being published.
func (b *Bus) checkFor(ctx context.Context, topic aggregate.Topic) (made *atomic.Bool, err error) {
	if slices.Contains(aggregate.Topics, topic) {
		return &b.made, b.Check(ctx)
	}
	return &b.madeMore, b.check(ctx, &b.madeMore, b.c.More)
}

func (b *Bus) check(ctx context.Context, made *atomic.Bool, topics []aggregate.Topic) error {
	if made.Load() {
		return nil
	}
	select {
	case b.making <- struct{}{}:
		defer func() { <-b.making }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if made.Load() {
		return nil
	}
	if err := b.make(ctx, topics); err != nil {
		if ctx.Err() == nil {
			b.fail(opTopics, err)
		}
		return err
	}
	made.Store(true)
	return nil
}

// make makes the topics that are missing until none is.
func (b *Bus) make(ctx context.Context, topics []aggregate.Topic) error {
	for created := false; ; created = true {
		partitions, missing, err := b.there(ctx, topics)
		switch {
		case err != nil:
			return err
		case len(missing) > 0:
			// The library answers from what it last heard: that a topic is missing,
			// for seconds after it was made. It asks the brokers again whenever it
			// has asked them for topics, even for some that are there.
			if err := b.create(ctx, missing); err != nil {
				return err
			}
			if created && !sleep(ctx, settlePause) {
				return ctx.Err()
			}
		case created:
			return b.settled(ctx, partitions)
		default:
			return nil
		}
	}
}

// there counts the partitions of the topics that are there, as far as the library
// knows, and lists those that are not.
func (b *Bus) there(ctx context.Context, topics []aggregate.Topic) (partitions map[aggregate.Topic]int, missing []aggregate.Topic, err error) {
	var names []string
	for _, t := range topics {
		names = append(names, b.name(t))
	}
	r, err := b.client.Metadata(ctx, &kafka.MetadataRequest{Topics: names})
	if err != nil {
		return nil, nil, fmt.Errorf("no broker of %v answers: %w", b.c.Brokers, err)
	}
	partitions = map[aggregate.Topic]int{}
	var bad []error
	for i, t := range topics {
		switch err := r.Topics[i].Error; {
		case errors.Is(err, kafka.UnknownTopicOrPartition):
			missing = append(missing, t)
		case err != nil && !temporary(err):
			bad = append(bad, fmt.Errorf("topic %s: %w", names[i], err))
		default:
			partitions[t] = len(r.Topics[i].Partitions)
		}
	}
	return partitions, missing, errors.Join(bad...)
}

// temporary tells of an error that goes by itself, as when a partition has no
// leader for a moment.
func temporary(err error) bool {
	var e kafka.Error
	return errors.As(err, &e) && e.Temporary()
}

func (b *Bus) create(ctx context.Context, missing []aggregate.Topic) error {
	r := &kafka.CreateTopicsRequest{}
	for _, t := range missing {
		partitions, replication := 1, -1
		if t == aggregate.TopicEvents {
			partitions = b.c.Partitions
		}
		if b.c.Replication > 0 {
			replication = b.c.Replication
		}
		r.Topics = append(r.Topics, kafka.TopicConfig{Topic: b.name(t), NumPartitions: partitions, ReplicationFactor: replication})
	}
	answer, err := b.client.CreateTopics(ctx, r)
	if err != nil {
		return fmt.Errorf("creating the topics: %w", err)
	}
	var bad []error
	for _, t := range missing {
		if err := answer.Errors[b.name(t)]; err != nil && !errors.Is(err, kafka.TopicAlreadyExists) {
			bad = append(bad, fmt.Errorf("topic %s does not exist and cannot be created: %w", b.name(t), err))
		}
	}
	return errors.Join(bad...)
}

// settlePause is between looks at topics that are being made.
const settlePause = 50 * time.Millisecond

// settled waits until every partition of topics that were just made has a leader
// that knows that it is one: for a moment none takes a message. One that has
// none for longer has to wait for a broker to come back, and does not hold up
// the others.
func (b *Bus) settled(ctx context.Context, partitions map[aggregate.Topic]int) error {
	bounded, cancel := context.WithTimeout(ctx, b.c.times.request)
	defer cancel()
	for {
		led, err := b.led(bounded, partitions)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case led || bounded.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		sleep(bounded, settlePause)
	}
}

// led tells whether every partition has a leader that answers as one.
func (b *Bus) led(ctx context.Context, partitions map[aggregate.Topic]int) (bool, error) {
	asks := map[string][]kafka.OffsetRequest{}
	for t, n := range partitions {
		for p := range n {
			asks[b.name(t)] = append(asks[b.name(t)], kafka.LastOffsetOf(p))
		}
	}
	r, err := b.client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: asks})
	if err != nil {
		return false, fmt.Errorf("asking for the leaders of the topics: %w", err)
	}
	for _, all := range r.Topics {
		for _, p := range all {
			// The library says Unknown of a partition that it knows no leader of.
			if temporary(p.Error) || errors.Is(p.Error, kafka.Unknown) {
				return false, nil
			}
		}
	}
	return true, nil
}
