package kafkabus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/guardd/guardd/aggregate"
)

// Check sees to it that the topics are there, and makes those that are not. The
// error says which is missing and why it could not be made, or that no broker
// answers. Publish and Consume do the same by themselves until it has worked
// once; a program that is starting asks for the sake of its log.
func (b *Bus) Check(ctx context.Context) error {
	if b.made.Load() {
		return nil
	}
	select {
	case b.making <- struct{}{}:
		defer func() { <-b.making }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if b.made.Load() {
		return nil
	}
	missing, err := b.missing(ctx)
	if err == nil && len(missing) > 0 {
		if err = b.create(ctx, missing); err == nil {
			err = b.settled(ctx)
		}
	}
	if err != nil {
		if ctx.Err() == nil {
			b.fail(opTopics, err)
		}
		return err
	}
	b.made.Store(true)
	return nil
}

// missing lists the topics that are not there.
func (b *Bus) missing(ctx context.Context) (missing []aggregate.Topic, err error) {
	var names []string
	for _, t := range aggregate.Topics {
		names = append(names, b.name(t))
	}
	r, err := b.client.Metadata(ctx, &kafka.MetadataRequest{Topics: names})
	if err != nil {
		return nil, fmt.Errorf("no broker of %v answers: %w", b.c.Brokers, err)
	}
	var bad []error
	for i, t := range aggregate.Topics {
		switch err := r.Topics[i].Error; {
		case errors.Is(err, kafka.UnknownTopicOrPartition):
			missing = append(missing, t)
		case err != nil && !temporary(err):
			bad = append(bad, fmt.Errorf("topic %s: %w", names[i], err))
		}
	}
	return missing, errors.Join(bad...)
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

// settled waits until every partition of the topics has a leader that knows that
// it is one: for a moment after they were made none takes a message.
func (b *Bus) settled(ctx context.Context) error {
	for {
		err := b.leaders(ctx)
		if err == nil || !temporary(err) {
			return err
		}
		if !sleep(ctx, 50*time.Millisecond) {
			return err
		}
	}
}

func (b *Bus) leaders(ctx context.Context) error {
	asks := map[string][]kafka.OffsetRequest{}
	for _, t := range aggregate.Topics {
		n := 1
		if t == aggregate.TopicEvents {
			n = b.c.Partitions
		}
		for p := range n {
			asks[b.name(t)] = append(asks[b.name(t)], kafka.LastOffsetOf(p))
		}
	}
	r, err := b.client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: asks})
	if err != nil {
		return err
	}
	for topic, all := range r.Topics {
		for _, p := range all {
			// A topic that somebody else made may have fewer partitions.
			if p.Error != nil && temporary(p.Error) {
				return fmt.Errorf("topic %s: %w", topic, p.Error)
			}
		}
	}
	return nil
}
