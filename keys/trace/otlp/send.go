package otlp

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"sync/atomic"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	otel "go.opentelemetry.io/otel/trace"

	"github.com/guardd/guardd/keys/trace"
)

// idKey is by which a context holds the ID that its span has had all along: it was in
// logs, events and headers before there was a span.
type idKey struct{}

// ids gives spans their names.
type ids struct{}

// NewIDs is sdk.IDGenerator's, for a span that begins a trace.
func (ids) NewIDs(ctx context.Context) (otel.TraceID, otel.SpanID) {
	id, _ := ctx.Value(idKey{}).(trace.ID)
	return id.Trace, id.Span
}

// NewSpanID is sdk.IDGenerator's, for one within another.
func (ids) NewSpanID(ctx context.Context, _ otel.TraceID) (s otel.SpanID) {
	if id, ok := ctx.Value(idKey{}).(trace.ID); ok {
		return id.Span
	}
	for !s.IsValid() {
		binary.LittleEndian.PutUint64(s[:], rand.Uint64())
	}
	return s
}

// counting counts requests by what the collector says of their spans.
type counting struct {
	sdk.SpanExporter
	failed     func(error)
	sent, lost atomic.Uint64
	ctx        context.Context // ends when nobody waits for the collector any more
	giveUp     context.CancelFunc
}

func newCounting(to sdk.SpanExporter, failed func(error)) *counting {
	c := &counting{SpanExporter: to, failed: failed}
	c.ctx, c.giveUp = context.WithCancel(context.Background())
	return c
}

// ExportSpans is sdk.SpanExporter's.
func (c *counting) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	err := c.SpanExporter.ExportSpans(ctx, spans)
	n := uint64(0)
	for _, s := range spans {
		if s.Parent().IsRemote() || !s.Parent().IsValid() {
			n++
		}
	}
	if err == nil {
		c.sent.Add(n)
		return nil
	}
	c.lost.Add(n)
	if c.failed != nil {
		c.failed(err)
	}
	return nil // it was told; the SDK would print it
}
