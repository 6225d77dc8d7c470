package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"golang.org/x/sys/unix"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
)

const (
	burst       = 1000 // events at once, fewer than wait for the publisher's worker
	bursts      = 20
	decodedMany = 50_000
)

// eventsSide is what publishing costs who emits, and what reading costs.
type eventsSide struct {
	verdicts []*escalation.Verdict
	encoded  [][]byte
	kafka    *kafkaProcess
}

func newEventsSide() (_ *eventsSide, err error) {
	s := &eventsSide{}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.kafka, err = startKafka(); err != nil {
		return nil, err
	}
	secrets, err := escalation.GenerateSecrets()
	if err != nil {
		return nil, err
	}
	twin := keys.NewMemory(keys.MemoryConfig{})
	guard, err := escalation.New(escalation.Config{Store: twin, Records: twin, Tallies: twin, Codes: twin, Policy: escalation.DefaultPolicy(), Secrets: secrets})
	if err != nil {
		return nil, err
	}
	for _, v := range visitors(0, burst) {
		verdict, err := guard.Check(context.Background(), &escalation.Attempt{Account: v.account, IP: v.ip, UserAgent: "Mozilla/5.0 (X11; Linux x86_64)", PasswordTag: "0123456789abcdef"})
		if err != nil {
			return nil, err
		}
		s.verdicts = append(s.verdicts, verdict)
	}
	return s, s.encode()
}

// encode has a publisher make the events, as they travel.
func (s *eventsSide) encode() error {
	k := &keeper{}
	p, err := aggregate.NewPublisher(aggregate.PublisherConfig{Bus: k})
	if err != nil {
		return err
	}
	for _, v := range s.verdicts {
		p.Attempt(v, 0)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := p.Close(ctx); err != nil {
		return err
	}
	if len(k.values) < burst {
		return fmt.Errorf("%d events of %d attempts", len(k.values), burst)
	}
	s.encoded = k.values
	return nil
}

// keeper is a bus that keeps what it is given.
type keeper struct {
	aggregate.Bus
	values [][]byte
}

func (k *keeper) Publish(_ context.Context, _ aggregate.Topic, msgs []aggregate.Message) error {
	for _, m := range msgs {
		k.values = append(k.values, append([]byte(nil), m.Value...))
	}
	return nil
}

// takesAll is a bus that takes everything.
type takesAll struct{ aggregate.Bus }

func (takesAll) Publish(context.Context, aggregate.Topic, []aggregate.Message) error { return nil }

func (s *eventsSide) close() {
	if s.kafka != nil {
		s.kafka.stop()
	}
}

// threadCPU is the processor time of the thread that asks, to the nanosecond.
func threadCPU() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err) // it has no other error than a bad argument
	}
	return time.Duration(t.Nano())
}

// emitted is what one event costs the goroutine that emits it, which has a thread
// to itself: what workers do meanwhile is theirs.
func (s *eventsSide) emitted(emit func(i int) error, rest func()) (sample, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all time.Duration
	for range bursts {
		from := threadCPU()
		for i := range burst {
			if err := emit(i); err != nil {
				return nil, err
			}
		}
		all += threadCPU() - from
		rest()
	}
	return sample{"ns": float64(all) / (bursts * burst)}, nil
}

func (s *eventsSide) publisher() (sample, error) {
	p, err := aggregate.NewPublisher(aggregate.PublisherConfig{Bus: takesAll{}})
	if err != nil {
		return nil, err
	}
	x, err := s.emitted(func(i int) error { p.Attempt(s.verdicts[i], 0); return nil }, func() {
		for p.Stats().Published+burst < p.Stats().Emitted { // the worker keeps up, as it does in service
			time.Sleep(time.Millisecond)
		}
	})
	if lost := p.Stats().Lost; err == nil && p.Stats().Emitted != bursts*burst {
		err = fmt.Errorf("emitted %d, lost %v", p.Stats().Emitted, lost)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return x, errors.Join(err, p.Close(ctx))
}

// library is one kafka-go WriteMessages that does not wait: of an event that
// somebody else has encoded.
func (s *eventsSide) library() (sample, error) {
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	w := &kafka.Writer{Addr: kafka.TCP(s.kafka.addr), Topic: "bench", Async: true, BatchTimeout: 5 * time.Millisecond,
		RequiredAcks: kafka.RequireAll, Transport: transport, AllowAutoTopicCreation: true}
	key := []byte("default")
	x, err := s.emitted(func(i int) error {
		return w.WriteMessages(context.Background(), kafka.Message{Key: key, Value: s.encoded[i]})
	}, func() { time.Sleep(50 * time.Millisecond) })
	return x, errors.Join(err, w.Close())
}

func (s *eventsSide) allocations() (sample, error) {
	p, err := aggregate.NewPublisher(aggregate.PublisherConfig{Bus: takesAll{}, Window: time.Hour}) // its worker sleeps
	if err != nil {
		return nil, err
	}
	i := 0
	n := testing.AllocsPerRun(burst-1, func() { p.Attempt(s.verdicts[i], 0); i++ })
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return sample{"allocations": n}, p.Close(ctx)
}

// decoded is how many events one core reads in a second.
func (s *eventsSide) decoded() (sample, error) {
	var e aggregate.Event
	from := selfCPU()
	for i := range decodedMany {
		if err := e.Decode(s.encoded[i%len(s.encoded)]); err != nil {
			return nil, err
		}
	}
	return sample{"events/cpu s": decodedMany / (selfCPU() - from).Seconds()}, nil
}

// counted is how many events one core reads, classes, counts, learns from, watches for
// attacks and keeps in a second: everything that an instance does with them.
func (s *eventsSide) counted() (sample, error) {
	bus, store, now := aggregate.NewMemoryBus(aggregate.MemoryBusConfig{Keep: decodedMany}), keys.NewMemory(keys.MemoryConfig{}), time.Now()
	msgs := make([]aggregate.Message, decodedMany)
	for i := range msgs {
		var e aggregate.Event
		if err := e.Decode(s.encoded[i/2%burst]); err != nil {
			return nil, err
		}
		e.Instance, e.Seq, e.Time = "0123456789abcdef", uint64(i+1), now.Add(time.Duration(i)*time.Millisecond)
		e.ID = fmt.Sprintf("%s-%d", e.Instance, e.Seq)
		if i%2 == 1 { // what became of it
			e.Kind, e.Outcome, e.Tiers, e.Action = aggregate.KindOutcome, "failure", nil, ""
			if i%8 == 1 {
				e.Outcome = "success"
			}
		}
		b, err := e.AppendTo(nil)
		if err != nil {
			return nil, err
		}
		msgs[i] = aggregate.Message{Key: "default", Value: b}
	}
	if err := bus.Publish(context.Background(), aggregate.TopicEvents, msgs); err != nil {
		return nil, err
	}
	a := aggregate.NewAggregator(aggregate.AggregatorConfig{Bus: bus, Group: "bench", Store: store, Now: func() time.Time { return now.Add(time.Hour) },
		Shards:  func(string) (int, bool) { return 1, true },
		Recents: aggregate.NewRecents(aggregate.RecentsConfig{Streams: store, Keep: 20_000}),
		Watch: func(realm string, state []byte) aggregate.Watch {
			w, _ := aggregate.NewDetection(aggregate.DetectionConfig{Realm: realm, Seed: 1}, state)
			return w
		}})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	from, done := selfCPU(), make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	for a.Stats().Realms["default"].Events < decodedMany {
		select {
		case err := <-done:
			return nil, fmt.Errorf("the aggregator ended: %w", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	cpu := selfCPU() - from
	cancel()
	return sample{"events/cpu s": decodedMany / cpu.Seconds()}, errors.Join(<-done, bus.Close())
}

func (s *eventsSide) groups() []group {
	const library = "kafka-go WriteMessages, async"
	return []group{
		{name: "events, emitting", floor: library, measure: "ns", unit: "ns of CPU a call",
			subjects: []subject{{library, s.library}, {"publisher", s.publisher}},
			rows: []row{{What: "emitting an event, on the request's goroutine", Against: "one asynchronous kafka-go WriteMessages",
				of: "publisher", base: library, measure: "ns", must: 0.25, aim: 0.15}}},
		{name: "events, allocations", rounds: 1, floor: "publisher", measure: "allocations", unit: "allocations",
			subjects: []subject{{"publisher", s.allocations}},
			rows:     []row{{What: "emitting an event", Against: "allocations", of: "publisher", measure: "allocations", must: 2, aim: 1}}},
		{name: "events, reading", floor: "decoder", measure: "events/cpu s", unit: "events a second of CPU",
			subjects: []subject{{"decoder", s.decoded}, {"aggregator", s.counted}},
			rows: []row{{What: "events a second of one core, decoded and counted, learned from, watched and kept", Against: "events", of: "aggregator", measure: "events/cpu s",
				higher: true, must: 100_000, aim: 100_000}, {What: "events a second of one core, decoded", Against: "events", of: "decoder", measure: "events/cpu s",
				higher: true, must: 100_000, aim: 100_000}}},
	}
}
