package kafkabus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/guardd/guardd/aggregate"
)

const (
	// batch is how many messages go to a broker at once: the library sets room
	// for so many aside for each.
	batch = 500
	// maxBatch is what brokers take at once by default (message.max.bytes is
	// 1,048,588), and maxValue what one message may hold, with room for its key.
	maxBatch = 1 << 20
	maxValue = maxBatch - 4096
	// maxDead is what of an unreadable message is kept.
	maxDead = 256 << 10
	// messageHead is more than the library adds to a message or to a header.
	messageHead = 64
)

// The headers of a dead letter. What a message was and where it stood is for
// whoever repairs and publishes it again.
const (
	headerReason    = "reason"
	headerTopic     = "topic"
	headerPartition = "partition"
	headerOffset    = "offset"
	headerSize      = "size" // only where the value was cut: what it was
)

func (b *Bus) newWriter() *kafka.Writer {
	return &kafka.Writer{
		Addr: b.client.Addr, Transport: b.transport,
		// As Java's clients do it: by key, so that a realm is one ordered partition.
		Balancer:     kafka.Murmur2Balancer{Consistent: true},
		RequiredAcks: kafka.RequireAll,
		// Whoever publishes repeats: attempts of the library's own would go on
		// after the caller has given up.
		MaxAttempts: 1, WriteTimeout: b.c.times.request, ReadTimeout: b.c.times.request,
		BatchSize: batch, BatchBytes: maxBatch, BatchTimeout: b.c.times.linger,
		Compression: kafka.Snappy,
	}
}

// Publish is the Bus's. All in-sync replicas have a message before it is said to
// be written. A message beyond 1 MiB is refused before any is written.
func (b *Bus) Publish(ctx context.Context, topic aggregate.Topic, msgs []aggregate.Message) error {
	if err := b.known(topic); err != nil {
		return err
	}
	size := 0
	for i := range msgs {
		if n := len(msgs[i].Key) + len(msgs[i].Value) + len(msgs[i].Reason); n > maxValue {
			return fmt.Errorf("message %d of %q has %d bytes, and %d are the most", i, msgs[i].Key, n, maxValue)
		} else {
			size += len(msgs[i].Key) + len(msgs[i].Value)
		}
	}
	// The library may still hold what it was given when ctx has ended.
	room, out := make([]byte, 0, size), make([]kafka.Message, len(msgs))
	keep := func(s string, p []byte) []byte {
		at := len(room)
		room = append(append(room, s...), p...)
		return slices.Clip(room[at:])
	}
	for i := range msgs {
		out[i] = kafka.Message{Topic: b.name(topic), Key: keep(msgs[i].Key, nil), Value: keep("", msgs[i].Value)}
		if msgs[i].Reason != "" {
			out[i].Headers = []kafka.Header{{Key: headerReason, Value: []byte(msgs[i].Reason)}}
		}
	}
	return b.write(ctx, topic, out)
}

// write writes msgs, a batch after the other, so that none of one key overtakes
// another where a batch fails and the next does not.
func (b *Bus) write(ctx context.Context, topic aggregate.Topic, msgs []kafka.Message) error {
	for len(msgs) > 0 {
		n := batchOf(msgs, int(b.room.Load()))
		err := b.writeBatch(ctx, topic, msgs[:n])
		switch {
		case err == nil:
			msgs = msgs[n:]
		case errors.Is(err, kafka.MessageSizeTooLarge) && n > 1:
			// Brokers may take less than they do by default: found out once, for good.
			b.room.Store(int64(sizeOf(msgs[:n]) / 2))
		default:
			return err
		}
	}
	return nil
}

// batchOf is how many of msgs fit in room, at least one.
func batchOf(msgs []kafka.Message, room int) int {
	most, size := min(len(msgs), batch), 0
	for n := range msgs[:most] {
		if size += sizeOf(msgs[n : n+1]); size > room && n > 0 {
			return n
		}
	}
	return most
}

// sizeOf is what messages take at most, uncompressed.
func sizeOf(msgs []kafka.Message) (n int) {
	for i := range msgs {
		n += len(msgs[i].Key) + len(msgs[i].Value) + messageHead
		for _, h := range msgs[i].Headers {
			n += len(h.Key) + len(h.Value) + messageHead
		}
	}
	return n
}

// writeBatch writes msgs, and those again that no leader was found for: of a topic
// that was just made, or moves, brokers do not all know at once.
func (b *Bus) writeBatch(ctx context.Context, topic aggregate.Topic, msgs []kafka.Message) error {
	for pause := settlePause; ; pause = min(2*pause, b.c.times.pause) {
		made, err := b.checkFor(ctx, topic)
		if err != nil {
			return err
		}
		err = b.writeOnce(ctx, topic, msgs)
		if !homeless(err) {
			return first(err)
		}
		if errors.Is(first(err), kafka.UnknownTopicOrPartition) {
			made.Store(false)
		}
		if !sleep(ctx, pause) {
			return first(err)
		}
		msgs = unwritten(msgs, err)
	}
}

// homeless tells of an error that says that nothing was written because the
// broker that was asked has not, or not yet, or no longer, what it was asked for,
// or because the library knows nobody to ask.
func homeless(err error) bool {
	return slices.ContainsFunc([]error{
		kafka.UnknownTopicOrPartition, kafka.LeaderNotAvailable, kafka.NotLeaderForPartition,
		protocol.ErrNoTopic, protocol.ErrNoPartition, protocol.ErrNoLeader,
	}, func(e error) bool { return errors.Is(first(err), e) })
}

// unwritten are those of msgs that err is about.
func unwritten(msgs []kafka.Message, err error) (left []kafka.Message) {
	var each kafka.WriteErrors
	if !errors.As(err, &each) || len(each) != len(msgs) {
		return msgs
	}
	for i := range msgs {
		if each[i] != nil {
			left = append(left, msgs[i])
		}
	}
	return left
}

// writeOnce writes msgs in the topic's turn. One write at a time bounds what the
// library holds for a broker that hangs; it goes on when ctx ends, for it cannot
// be called back, and the next one waits for it.
func (b *Bus) writeOnce(ctx context.Context, topic aggregate.Topic, msgs []kafka.Message) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	default:
	}
	turn := b.turns[topic]
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-turn }()
		// Twice: for the metadata, and for the write.
		own, cancel := context.WithTimeout(context.Background(), 2*b.c.times.request+b.c.times.linger)
		defer cancel()
		done <- b.writer.WriteMessages(own, msgs...)
	}()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		b.fail(opPublish, first(err))
	}
	return err
}

// first is one error of many that are alike: the library has one per message.
func first(err error) error {
	var many kafka.WriteErrors
	if !errors.As(err, &many) {
		return err
	}
	for _, e := range many {
		if e != nil {
			return fmt.Errorf("%d of %d messages: %w", many.Count(), len(many), e)
		}
	}
	return err
}

// bury writes a message that cannot be read to aggregate.TopicDead, and repeats
// that until it is written or ctx ends: a message must not be passed over while
// it is nowhere else.
func (b *Bus) bury(ctx context.Context, m kafka.Message, reason string) error {
	dead := kafka.Message{Topic: b.name(aggregate.TopicDead), Key: m.Key, Value: m.Value, Headers: []kafka.Header{
		{Key: headerReason, Value: []byte(reason[:min(len(reason), 1024)])},
		{Key: headerTopic, Value: []byte(m.Topic)},
		{Key: headerPartition, Value: strconv.AppendInt(nil, int64(m.Partition), 10)},
		{Key: headerOffset, Value: strconv.AppendInt(nil, m.Offset, 10)},
	}}
	if len(dead.Value) > maxDead {
		dead.Headers = append(dead.Headers, kafka.Header{Key: headerSize, Value: strconv.AppendInt(nil, int64(len(dead.Value)), 10)})
		dead.Value = dead.Value[:maxDead]
	}
	dead.Key = dead.Key[:min(len(dead.Key), maxDead)]
	for {
		if err := b.write(ctx, aggregate.TopicDead, []kafka.Message{dead}); err == nil {
			b.stats.dead.Add(1)
			return nil
		}
		if !sleep(ctx, b.c.times.pause) {
			return ctx.Err()
		}
	}
}
