package kafkabus

import (
	"context"
	"testing"

	"github.com/guardd/guardd/aggregate"
)

// A topic that is not one of guardd's own is made when it is first published to, and
// read as the others are.
func TestMoreTopicsAreMadeAndPublishedTo(t *testing.T) {
	s, p := shared.Server(t), prefix()
	b := open(t, s, func(c *Config) { c.Prefix, c.More = p, []aggregate.Topic{"soc", "soc-ecs"} })
	for _, topic := range b.c.More {
		if err := b.Publish(t.Context(), topic, numbered(0, 3)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Publish(t.Context(), "another", numbered(0, 3)); err == nil {
		t.Error("a topic that was not named is published to")
	}
	publishN(t, b, 0, 3)
	c := &consumed{}
	c.count, c.from, c.change, c.ended = map[string]int{}, map[int]bool{}, make(chan struct{}, 1), make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	c.stop = stop
	go func() {
		c.ended <- b.Consume(ctx, "soc", p+"g", func(int) aggregate.Handler { return &collector{c: c} })
	}()
	c.await(t, 3)
	c.end(t)
}
