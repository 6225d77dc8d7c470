package kafkabus

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/guardd/guardd/aggregate"
)

// Bus is an aggregate.Bus over Kafka.
type Bus struct {
	c         Config
	transport *kafka.Transport
	client    *kafka.Client
	dialer    *kafka.Dialer
	writer    *kafka.Writer
	// turns holds a token for each topic, and one for making the topics: who has
	// it writes.
	turns    map[aggregate.Topic]chan struct{}
	making   chan struct{}
	made     atomic.Bool  // the topics have been seen
	madeMore atomic.Bool  // and Config.More
	room     atomic.Int64 // bytes that brokers take at once
	stats    stats
	// leaving are readers and groups that are done with, and still hanging up.
	leaving sync.WaitGroup
}

var _ aggregate.Bus = (*Bus)(nil)

// Open returns a bus. It reaches no broker yet: a guardd that starts while Kafka
// is away publishes as soon as it is there. The error lists what is wrong with c,
// each a Fault.
func Open(c Config) (*Bus, error) {
	if err := c.err(); err != nil {
		return nil, err
	}
	c.complete()
	mechanism, err := c.SASL.mechanism()
	if err != nil {
		return nil, err
	}
	b := &Bus{c: c, turns: map[aggregate.Topic]chan struct{}{}, making: make(chan struct{}, 1)}
	var names []string
	for _, t := range slices.Concat(aggregate.Topics, c.More) {
		b.turns[t] = make(chan struct{}, 1)
		names = append(names, b.name(t))
	}
	plain := &net.Dialer{Timeout: c.times.dial, KeepAlive: 15 * time.Second}
	b.transport = &kafka.Transport{
		Dial: plain.DialContext, DialTimeout: c.times.dial, MetadataTTL: c.times.partitions, MetadataTopics: names,
		ClientID: c.ClientID, TLS: c.TLS, SASL: mechanism,
	}
	b.client = &kafka.Client{Addr: kafka.TCP(c.Brokers...), Transport: b.transport, Timeout: c.times.request}
	b.dialer = &kafka.Dialer{
		DialFunc: dialBounded(plain, c.times.dial+c.times.request), Timeout: c.times.dial,
		ClientID: c.ClientID, TLS: c.TLS, SASLMechanism: mechanism,
	}
	b.room.Store(maxBatch)
	b.writer = b.newWriter()
	return b, nil
}

// dialBounded dials, and bounds what is said first: the library sets a deadline
// for everything but SASL and looking for a leader, where a broker that hangs
// would hold a member, and its Close, for ever.
func dialBounded(d *net.Dialer, most time.Duration) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return c, c.SetDeadline(time.Now().Add(most))
	}
}

// name is a topic's, at the brokers.
func (b *Bus) name(t aggregate.Topic) string { return b.c.Prefix + string(t) }

func (b *Bus) known(t aggregate.Topic) error {
	if !slices.Contains(aggregate.Topics, t) && !slices.Contains(b.c.More, t) {
		return fmt.Errorf("there is no topic %q", t)
	}
	return nil
}

// fail tells of what will be tried again.
func (b *Bus) fail(op string, err error) {
	b.stats.failed(op)
	b.c.OnError(op, err)
}

// Close hangs up. It waits for what Consume has left to end.
func (b *Bus) Close() error {
	b.leaving.Wait()
	err := b.writer.Close()
	b.transport.CloseIdleConnections()
	return err
}

// sleep waits, and tells whether ctx still runs.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
