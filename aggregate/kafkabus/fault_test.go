package kafkabus

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/aggregate/kafkabus/kafkatest"
	"github.com/guardd/guardd/keys/keystest/daemon"
)

// outage is how long a broker is away: GUARDD_TEST_OUTAGE, else so short that it
// shows the way and no more.
func outage(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("GUARDD_TEST_OUTAGE")
	if text == "" {
		return time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// keeper is a handler that needs everything that it was given.
type keeper struct{}

func (keeper) Handle(aggregate.Message) error { return nil }
func (keeper) Behind() int64                  { return 0 }
func (keeper) Close()                         {}

// What is published ends with the caller's patience, whatever the broker does.
func TestPublishGivesUpOnABrokerThatHangs(t *testing.T) {
	s, p := shared.Server(t), prefix()
	b := open(t, s, func(c *Config) { c.Prefix = p })
	publishN(t, b, 0, 10)
	s.Pause()
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if err := b.Publish(ctx, aggregate.TopicEvents, numbered(10, 10)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a broker that hangs: %v", err)
		}
		cancel()
	}
	s.Resume()
	got := consume(t, b, "g")
	publishN(t, b, 20, 10) // waits for what went on by itself
	for got.has() < 20 {
		<-got.change
	}
	got.end(t)
	if again := got.repeats(); again > 10 {
		t.Errorf("%d messages came again: more than one write was under way", again)
	}
}

func TestTopicsAreMadeOnceTheyAreMissed(t *testing.T) {
	s, p := shared.Server(t), prefix()
	b := open(t, s, func(c *Config) { c.Prefix, c.Partitions, c.times.partitions = p, 3, 200*time.Millisecond })
	got := consume(t, b, "g") // before anybody made a topic
	publishN(t, b, 0, 360)
	got.await(t, 360)
	if at, err := s.Committed("g", p+"events"); err != nil || len(at) > 3 {
		t.Errorf("positions %v, %v: the topic was not made with three partitions", at, err)
	}
	if err := s.DeleteTopics(p+"events", p+"findings", p+"dead"); err != nil {
		t.Fatal(err)
	}
	publishN(t, b, 1000, 10) // in between it is unknown, and made again
	got.end(t)
	// Whose positions are beyond the ends of the new logs, unless the first had
	// found them.
	again := consume(t, b, "g")
	publishN(t, b, 2000, 10)
	awaitAll(t, slices.Concat(values(1000, 10), values(2000, 10)), got, again)
	again.end(t)
}

// refuse has a fake broker answer the next n requests to publish to a topic with
// an error, writing nothing, and counts them.
func refuse(s *kafkatest.Server, topic string, n int32, code *kerr.Error) (refused *atomic.Int32) {
	refused = &atomic.Int32{}
	s.Fake().ControlKey(0, func(r kmsg.Request) (kmsg.Response, error, bool) {
		in := r.(*kmsg.ProduceRequest)
		s.Fake().KeepControl()
		if len(in.Topics) == 0 || in.Topics[0].Topic != topic || refused.Load() == n {
			return nil, nil, false
		}
		refused.Add(1)
		out := in.ResponseKind().(*kmsg.ProduceResponse)
		for _, t := range in.Topics {
			topic := kmsg.NewProduceResponseTopic()
			topic.Topic = t.Topic
			for _, p := range t.Partitions {
				part := kmsg.NewProduceResponseTopicPartition()
				part.Partition, part.ErrorCode = p.Partition, code.Code
				topic.Partitions = append(topic.Partitions, part)
			}
			out.Topics = append(out.Topics, topic)
		}
		return out, nil, true
	})
	return refused
}

// A topic that was just made, or whose leader moves, is unknown to some broker
// for a moment: what was to be published waits for it, and keeps its order.
func TestPublishWaitsForALeader(t *testing.T) {
	for _, code := range []*kerr.Error{kerr.UnknownTopicOrPartition, kerr.LeaderNotAvailable, kerr.NotLeaderForPartition} {
		t.Run(code.Message, func(t *testing.T) {
			s, p := kafkatest.Start(t, kafkatest.Options{Fake: true}), prefix() // a real one cannot be made to
			b := open(t, s, func(c *Config) { c.Prefix, c.Partitions = p, 1 })
			refused := refuse(s, p+"events", 2, code)
			const n = 3*batch + 1
			publishN(t, b, 0, n)
			if refused.Load() != 2 {
				t.Fatalf("%d publications were refused", refused.Load())
			}
			var order []string
			got := &consumed{handle: func(m aggregate.Message) error { order = append(order, string(m.Value)); return nil }}
			got.start(t, b, "g")
			got.await(t, n)
			got.end(t)
			for i, v := range order {
				if v != strconv.Itoa(i) {
					t.Fatalf("%s came where %d was due, of %d: what was refused was overtaken, or came twice", v, i, len(order))
				}
			}
		})
	}
	t.Run("of some partitions", func(t *testing.T) {
		s, p := kafkatest.Start(t, kafkatest.Options{Fake: true}), prefix()
		b := open(t, s, func(c *Config) { c.Prefix, c.Partitions = p, 4 })
		refuse(s, p+"events", 1, kerr.NotLeaderForPartition) // a request is of one
		publishN(t, b, 0, 100)
		m, written := &member{b: b, topic: aggregate.TopicEvents}, int64(0)
		for id := range 4 {
			_, end, err := m.ends(t.Context(), &partition{id: id})
			if err != nil {
				t.Fatal(err)
			}
			written += end
		}
		if written != 100 {
			t.Errorf("100 messages were written %d times", written)
		}
	})
	t.Run("until its context ends", func(t *testing.T) {
		s, p := kafkatest.Start(t, kafkatest.Options{Fake: true}), prefix()
		b := open(t, s, func(c *Config) { c.Prefix = p })
		refuse(s, p+"events", math.MaxInt32, kerr.UnknownTopicOrPartition)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if err := b.Publish(ctx, aggregate.TopicEvents, numbered(0, 1)); !errors.Is(err, kafka.UnknownTopicOrPartition) && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a topic that no broker has: %v", err)
		}
	})
}

// Two buses that are opened at once, with other numbers in mind, find each other's
// topics.
func TestTopicsAreMadeByWhoeverIsFirst(t *testing.T) {
	s := shared.Server(t)
	for range 5 {
		p := prefix()
		var all sync.WaitGroup
		for partitions := 1; partitions <= 8; partitions *= 2 {
			b := open(t, s, func(c *Config) { c.Prefix, c.Partitions = p, partitions })
			for _, topic := range aggregate.Topics {
				all.Go(func() {
					if err := b.Publish(t.Context(), topic, numbered(0, 10)); err != nil {
						t.Errorf("%s: %v", topic, err)
					}
				})
			}
		}
		all.Wait()
	}
}

func TestWhatCannotBeMadeIsSaid(t *testing.T) {
	s, p := shared.Server(t), prefix()
	b := open(t, s, func(c *Config) { c.Prefix, c.Replication = p, 3 })
	err := b.Check(t.Context())
	if err == nil || !strings.Contains(err.Error(), "topic "+p+"events does not exist and cannot be created: ") {
		t.Errorf("three copies on one broker: %v", err)
	}
	port, err := daemon.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	nobody := open(t, s, func(c *Config) { c.Brokers = []string{fmt.Sprint("127.0.0.1:", port)} })
	if err := nobody.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "no broker of [127.0.0.1:") {
		t.Errorf("where nobody listens: %v", err)
	}
	if n := nobody.Stats().Errors[opTopics]; n != 1 {
		t.Errorf("%d failures are counted, not 1", n)
	}
}

func TestTLSAndSASL(t *testing.T) {
	s := kafkatest.Start(t, kafkatest.Options{Secure: true})
	for _, mechanism := range Mechanisms {
		t.Run(mechanism, func(t *testing.T) {
			p := prefix()
			b := open(t, s, func(c *Config) { c.Prefix, c.SASL.Mechanism = p, mechanism })
			got := consume(t, b, "g-"+mechanism)
			publishN(t, b, 0, 10)
			got.await(t, 10)
			got.end(t)
		})
	}
	for name, change := range map[string]func(*Config){
		"wrong password": func(c *Config) { c.SASL.Password = "another" },
		"no user":        func(c *Config) { c.SASL = SASL{} },
		"in clear":       func(c *Config) { c.TLS = nil },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := open(t, s, change).Check(ctx); err == nil {
				t.Error("got in")
			}
		})
	}
}

// Commits of a generation that is over must fail, or a member that had been away
// would move the positions of whoever has its partitions by now.
func TestAnOldGenerationCommitsNothing(t *testing.T) {
	s, p := shared.Server(t), prefix()
	b := open(t, s, func(c *Config) { c.Prefix, c.Partitions = p, 1 })
	publishN(t, b, 0, 10)
	topic := b.name(aggregate.TopicEvents)
	group := func() *kafka.ConsumerGroup {
		cg, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{ID: "g", Brokers: b.c.Brokers, Topics: []string{topic},
			HeartbeatInterval: 100 * time.Millisecond, JoinGroupBackoff: 100 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		return cg
	}
	next := func(cg *kafka.ConsumerGroup) *kafka.Generation {
		for {
			gen, err := cg.Next(t.Context())
			if err == nil {
				return gen
			}
			t.Log(err) // the coordinator is being made
		}
	}
	first := group()
	defer first.Close()
	old := next(first)
	second := group()
	defer second.Close()
	next(second)
	m := &member{b: b, topic: aggregate.TopicEvents, group: "g"}
	at := &partition{topic: aggregate.TopicEvents, id: 0, handler: &collector{next: 10}, next: 10}
	m.commit(old, at)
	if b.Stats().Errors[opCommit] != 1 || at.committed != 0 {
		t.Errorf("an old generation committed: %d failures, position %d", b.Stats().Errors[opCommit], at.committed)
	}
	if stored, err := s.Committed("g", topic); err != nil || len(stored) != 0 {
		t.Errorf("stored: %v, %v", stored, err)
	}
}

// A reader that gets nothing although there is something is replaced, and its
// group's membership with it.
func TestAStallIsNoticed(t *testing.T) {
	s, p := kafkatest.Start(t, kafkatest.Options{Fake: true}), prefix() // only kfake can be made to hold back what it has
	b := open(t, s, func(c *Config) {
		c.Prefix, c.Partitions = p, 1
		c.times.look, c.times.stall, c.times.fetch, c.times.pause = 50*time.Millisecond, 300*time.Millisecond, 300*time.Millisecond, 50*time.Millisecond
	})
	got := consume(t, b, "g")
	publishN(t, b, 0, 10)
	got.await(t, 10)
	var held atomic.Bool
	held.Store(true)
	s.Fake().ControlKey(1, func(r kmsg.Request) (kmsg.Response, error, bool) {
		s.Fake().KeepControl()
		if !held.Load() {
			return nil, nil, false
		}
		in := r.(*kmsg.FetchRequest)
		out := in.ResponseKind().(*kmsg.FetchResponse)
		for _, t := range in.Topics {
			topic := kmsg.NewFetchResponseTopic()
			topic.Topic = t.Topic
			for _, p := range t.Partitions {
				part := kmsg.NewFetchResponseTopicPartition()
				part.Partition, part.HighWatermark = p.Partition, 10
				topic.Partitions = append(topic.Partitions, part)
			}
			out.Topics = append(out.Topics, topic)
		}
		time.Sleep(20 * time.Millisecond) // as a broker that waits for more
		return out, nil, true
	})
	publishN(t, b, 10, 10)
	for b.Stats().Rebuilt == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	if at := b.Stats().Partitions; len(at) > 0 && at[0].Lag == 0 && got.has() < 20 {
		t.Errorf("ten messages are due, and the lag is %+v", at)
	}
	held.Store(false)
	got.await(t, 20)
	got.end(t)
}
