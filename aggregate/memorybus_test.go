package aggregate_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/aggregate/aggregatetest"
)

func TestMemoryBus(t *testing.T) {
	aggregatetest.Run(t, aggregatetest.Subject{Cluster: func(t *testing.T, partitions int) func() aggregate.Bus {
		b := aggregate.NewMemoryBus(aggregate.MemoryBusConfig{Partitions: partitions})
		t.Cleanup(func() { _ = b.Close() })
		return func() aggregate.Bus { return b }
	}})
}

// idle is a handler that reads what the test lets it.
type idle struct{ let chan struct{} }

func (h idle) Handle(aggregate.Message) error { <-h.let; return nil }
func (h idle) Behind() int64                  { return 1 << 50 }
func (h idle) Close()                         {}

// A reader that is too slow holds up whoever publishes, and loses nothing; one
// that nobody reads keeps the newest.
func TestAFullMemoryBusWaitsForItsReader(t *testing.T) {
	b := aggregate.NewMemoryBus(aggregate.MemoryBusConfig{Keep: 4})
	event := func(n int) []aggregate.Message {
		return []aggregate.Message{{Key: "realm", Value: fmt.Append(nil, n)}}
	}
	for n := range 100 { // nobody reads
		if err := b.Publish(t.Context(), aggregate.TopicEvents, event(n)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	h, opened, ended := idle{make(chan struct{})}, make(chan bool), make(chan error, 1)
	go func() {
		ended <- b.Consume(ctx, aggregate.TopicEvents, "g", func(int) aggregate.Handler { opened <- true; return h })
	}()
	<-opened
	gone, cancel := context.WithCancel(t.Context())
	published := make(chan error)
	go func() { published <- b.Publish(gone, aggregate.TopicEvents, event(100)) }()
	select {
	case err := <-published:
		t.Fatalf("published over what had not been read: %v", err)
	case h.let <- struct{}{}: // the oldest is read
	}
	if err := <-published; err != nil {
		t.Fatal(err)
	}
	go func() { published <- b.Publish(gone, aggregate.TopicEvents, event(101)) }()
	cancel()
	if err := <-published; !errors.Is(err, context.Canceled) {
		t.Errorf("gave up with %v", err)
	}
	stop()
	close(h.let)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	_ = b.Close()
	if err := b.Publish(t.Context(), aggregate.TopicEvents, event(0)); !errors.Is(err, aggregate.ErrClosed) {
		t.Errorf("a closed bus says %v", err)
	}
}
