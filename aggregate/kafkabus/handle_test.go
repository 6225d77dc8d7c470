package kafkabus

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/aggregate/kafkabus/kafkatest"
)

// dead reads n dead letters by a client of somebody else.
func dead(t *testing.T, s *kafkatest.Server, topic string, n int) (all []*kgo.Record) {
	t.Helper()
	err := s.Client(func(ctx context.Context, c *kgo.Client) error {
		for len(all) < n {
			f := c.PollFetches(ctx)
			if err := f.Err0(); err != nil {
				return err
			}
			all = append(all, f.Records()...)
		}
		return nil
	}, kgo.ConsumeTopics(topic))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func header(r *kgo.Record, key string) string {
	for _, h := range r.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

// A message on which a handler panics, and one too large to be carried with its
// reason, are passed over like any poison, and kept.
func TestWhateverCannotBeHandledIsBuried(t *testing.T) {
	s, p := shared.Server(t), prefix()
	b := open(t, s, func(c *Config) { c.Prefix, c.Partitions = p, 1 })
	got := &consumed{handle: func(m aggregate.Message) error {
		switch {
		case string(m.Value) == "panic":
			panic("as asked")
		case len(m.Value) > 1000:
			return aggregate.ErrPoison
		}
		return nil
	}}
	got.start(t, b, "g")
	large := bytes.Repeat([]byte("x"), maxValue-10)
	for _, v := range [][]byte{[]byte("one"), []byte("panic"), large, []byte("two")} {
		if err := b.Publish(t.Context(), aggregate.TopicEvents, []aggregate.Message{{Key: "realm", Value: v}}); err != nil {
			t.Fatal(err)
		}
	}
	got.await(t, 2)
	letters := dead(t, s, p+"dead", 2)
	if l := letters[0]; string(l.Key) != "realm" || string(l.Value) != "panic" || !strings.Contains(header(l, headerReason), "panicked: as asked") ||
		header(l, headerTopic) != p+"events" || header(l, headerPartition) != "0" || header(l, headerOffset) != "1" || header(l, headerSize) != "" {
		t.Errorf("%+v", l)
	}
	if l := letters[1]; len(l.Value) != maxDead || header(l, headerSize) != strconv.Itoa(len(large)) {
		t.Errorf("%d bytes, %v", len(l.Value), l.Headers)
	}
	if n := b.Stats().Dead; n != 2 {
		t.Errorf("%d dead letters are counted", n)
	}
	got.end(t)
	if err := b.Publish(t.Context(), aggregate.TopicEvents, []aggregate.Message{{Key: "realm", Value: append(large, large...)}}); err == nil || !strings.Contains(err.Error(), "are the most") {
		t.Errorf("two MiB: %v", err)
	}
}

func TestStatsSayWhereReadersAre(t *testing.T) {
	s, p := shared.Server(t), prefix()
	b := open(t, s, func(c *Config) { c.Prefix, c.Partitions = p, 1 })
	let := make(chan struct{})
	got := &consumed{handle: func(aggregate.Message) error { <-let; return nil }}
	got.start(t, b, "g")
	publishN(t, b, 0, 10)
	for range 4 {
		let <- struct{}{}
	}
	got.await(t, 4)
	at := b.Stats().Partitions
	for len(at) != 1 || at[0].Next != 4 { // the fourth is counted after it was handled
		at = b.Stats().Partitions
	}
	if at[0].Lag < 1 || at[0].Lag > 6 || at[0].Age <= 0 || at[0].Topic != aggregate.TopicEvents {
		t.Errorf("four of ten are handled: %+v", at)
	}
	close(let)
	got.await(t, 10)
	got.end(t)
	if at := b.Stats(); len(at.Partitions) != 0 || at.Generations == 0 {
		t.Errorf("after the end: %+v", at)
	}
}

// Brokers that take less at once than they do by default get less.
func TestWhatIsTooLargeForABrokerIsSplit(t *testing.T) {
	s, p := shared.Server(t), prefix()
	b := open(t, s, func(c *Config) { c.Prefix, c.Partitions = p, 1 })
	if err := b.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.LimitMessages(p+"events", 3000); err != nil {
		t.Fatal(err)
	}
	const n = 200
	var msgs []aggregate.Message
	for i := range n {
		noise := make([]byte, 100) // does not compress
		if _, err := rand.Read(noise); err != nil {
			t.Fatal(err)
		}
		msgs = append(msgs, aggregate.Message{Key: "realm", Value: fmt.Appendf(nil, "%d %x", i, noise)})
	}
	var order []string
	got := &consumed{handle: func(m aggregate.Message) error {
		if !slices.Contains(order, string(m.Value)) {
			order = append(order, string(m.Value))
		}
		return nil
	}}
	got.start(t, b, "g")
	for range 2 { // the second time it knows
		if err := b.Publish(t.Context(), aggregate.TopicEvents, msgs); err != nil {
			t.Fatal(err)
		}
	}
	for got.has() < n || got.repeats() < n {
		<-got.change
	}
	got.end(t)
	for i, v := range order {
		if !strings.HasPrefix(v, fmt.Sprintf("%d ", i)) {
			t.Fatalf("%.10s came where %d was due", v, i)
		}
	}
	refused := b.Stats().Errors[opPublish]
	if err := b.Publish(t.Context(), aggregate.TopicEvents, msgs); err != nil {
		t.Fatal(err)
	}
	if now := b.Stats().Errors[opPublish]; refused == 0 || now != refused {
		t.Errorf("%d writes were refused at first, and %d later", refused, now-refused)
	}
	huge := aggregate.Message{Key: "realm", Value: bytes.Repeat([]byte("0123456789abcdef"), 1000)}
	if _, err := rand.Read(huge.Value); err != nil {
		t.Fatal(err)
	}
	if err := b.Publish(t.Context(), aggregate.TopicEvents, []aggregate.Message{huge}); !errors.Is(err, kafka.MessageSizeTooLarge) {
		t.Errorf("one message beyond what the broker takes: %v", err)
	}
}
