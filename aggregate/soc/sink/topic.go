package sink

import (
	"context"
	"time"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/aggregate/soc"
)

// topic publishes to a topic beside guardd's own, with the realm for a key.
type topic struct {
	c  *Config
	to aggregate.Topic
}

// publishTimeout bounds one batch.
const publishTimeout = 10 * time.Second

// Deliver is soc.Sink's: all of it, or nobody knows.
func (t *topic) Deliver(ctx context.Context, records []*soc.Record) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	msgs := make([]aggregate.Message, 0, len(records))
	for i, r := range records {
		line, err := t.c.line(nil, r)
		if err != nil {
			if i == 0 {
				return 0, err
			}
			break // those before it first
		}
		msgs = append(msgs, aggregate.Message{Key: r.Realm, Value: line[:len(line)-1]})
	}
	if err := t.c.Bus.Publish(ctx, t.to, msgs); err != nil {
		return 0, err
	}
	if len(msgs) < len(records) {
		_, err := t.c.line(nil, records[len(msgs)])
		return len(msgs), err
	}
	return len(records), nil
}

// Close is soc.Sink's; the bus is not the sink's.
func (t *topic) Close() error { return nil }
