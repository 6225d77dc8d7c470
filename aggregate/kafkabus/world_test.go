package kafkabus

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/guardd/guardd/aggregate"
)

// consumed is what the handlers of one Consume were given.
type consumed struct {
	mu     sync.Mutex
	count  map[string]int // by value
	from   map[int]bool   // partitions that something came from
	change chan struct{}  // has an entry after each change
	handle func(aggregate.Message) error

	stop  context.CancelFunc
	ended chan error
}

// consume reads the events as a member of group, which is this prefix' own.
func consume(t *testing.T, b *Bus, group string) *consumed {
	t.Helper()
	return (&consumed{}).start(t, b, group)
}

func (c *consumed) start(t *testing.T, b *Bus, group string) *consumed {
	t.Helper()
	c.count, c.from, c.change, c.ended = map[string]int{}, map[int]bool{}, make(chan struct{}, 1), make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	go func() {
		c.ended <- b.Consume(ctx, aggregate.TopicEvents, b.c.Prefix+group, func(int) aggregate.Handler { return &collector{c: c} })
	}()
	t.Cleanup(stop)
	return c
}

func (c *consumed) end(t *testing.T) {
	t.Helper()
	c.stop()
	if err := <-c.ended; err != nil {
		t.Error(err)
	}
}

// has tells how many different messages have come.
func (c *consumed) has() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.count)
}

// partitions tells how many of them something has come from.
func (c *consumed) partitions() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.from)
}

func (c *consumed) repeats() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, times := range c.count {
		n += times - 1
	}
	return n
}

// await waits until n different messages have come. What never comes ends the
// test by its deadline.
func (c *consumed) await(t *testing.T, n int) {
	t.Helper()
	for c.has() < n {
		select {
		case <-c.change:
		case err := <-c.ended:
			t.Fatalf("Consume ended with %d of %d messages: %v", c.has(), n, err)
		}
	}
}

// awaitAll waits until each of some values has come to one of the consumers.
func awaitAll(t *testing.T, values []string, all ...*consumed) {
	t.Helper()
	for _, v := range values {
		for !slices.ContainsFunc(all, func(c *consumed) bool { return c.came(v) }) {
			select {
			case <-all[len(all)-1].change:
			case <-t.Context().Done():
				t.Fatalf("%s did not come", v)
			}
		}
	}
}

func (c *consumed) came(value string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count[value] > 0
}

// values are those of numbered.
func values(from, n int) (all []string) {
	for _, m := range numbered(from, n) {
		all = append(all, string(m.Value))
	}
	return all
}

// collector is one handler.
type collector struct {
	c    *consumed
	mu   sync.Mutex
	next int64
}

func (h *collector) Handle(m aggregate.Message) error {
	if h.c.handle != nil {
		if err := h.c.handle(m); err != nil {
			return err
		}
	}
	h.c.mu.Lock()
	h.c.count[string(m.Value)]++
	h.c.from[m.Partition] = true
	h.c.mu.Unlock()
	select {
	case h.c.change <- struct{}{}:
	default:
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next = m.Offset + 1
	return nil
}

func (h *collector) Behind() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.next
}

func (h *collector) Close() {}

// numbered is n messages of some realms from number from on.
func numbered(from, n int) (msgs []aggregate.Message) {
	for i := from; i < from+n; i++ {
		msgs = append(msgs, aggregate.Message{Key: fmt.Sprint("realm", i%12), Value: fmt.Append(nil, i)})
	}
	return msgs
}

// publishN publishes numbered messages and has each written.
func publishN(t *testing.T, b *Bus, from, n int) {
	t.Helper()
	if err := b.Publish(context.Background(), aggregate.TopicEvents, numbered(from, n)); err != nil {
		t.Fatal(err)
	}
}
