package otlp

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	otel "go.opentelemetry.io/otel/trace"

	"github.com/guardd/guardd/keys/trace"
)

// Bounds of what waits: some 4 MB of requests in all.
const (
	queue    = 1024             // requests, before they are spans
	batch    = 512              // spans in one message
	delay    = 2 * time.Second  // until a batch that is not full is sent
	patience = 10 * time.Second // for one message, its repetitions included
)

// Config says where to.
type Config struct {
	// Endpoint is the collector's URL, as http://127.0.0.1:4318; without a path,
	// /v1/traces is meant. Headers, certificates and compression are said by the
	// environment, under OpenTelemetry's own names (OTEL_EXPORTER_OTLP_HEADERS, …).
	Endpoint string
	// Version is this program's.
	Version string
	// Instance tells the processes of a fleet apart.
	Instance string
	// Failed is told of every message that was given up. It must not block. nil:
	// nobody is.
	Failed func(error)
}

// Check says what is wrong with an endpoint; "" for nothing.
func Check(endpoint string) string {
	u, err := url.Parse(endpoint)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Sprintf("must be a URL as http://127.0.0.1:4318, not %q", redact(endpoint))
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "must have no user, query or fragment: keys go into OTEL_EXPORTER_OTLP_HEADERS"
	}
	return ""
}

// redact drops what may be a password.
func redact(s string) string {
	if i := strings.LastIndex(s, "@"); i >= 0 {
		return "…@" + s[i+1:]
	}
	return s
}

// Stats are what became of requests' traces.
type Stats struct {
	Exported uint64 // that the collector took
	Dropped  uint64 // for which there was no room
	Failed   uint64 // that the collector did not take
}

// Exporter sends traces away. It is safe for concurrent use.
type Exporter struct {
	c        Config
	waiting  chan trace.Done
	provider *sdk.TracerProvider
	tracer   otel.Tracer
	sender   *counting
	dropped  atomic.Uint64

	mu     sync.RWMutex
	closed bool
	worker sync.WaitGroup
}

// Open returns an exporter, which connects to nobody until there is something to send.
func Open(ctx context.Context, c Config) (*Exporter, error) {
	if bad := Check(c.Endpoint); bad != "" {
		return nil, fmt.Errorf("otlp: the endpoint %s", bad)
	}
	u, _ := url.Parse(c.Endpoint)
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1/traces"
	}
	to, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(u.String()), otlptracehttp.WithTimeout(patience),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: time.Second, MaxInterval: 5 * time.Second, MaxElapsedTime: patience}))
	if err != nil {
		return nil, fmt.Errorf("otlp: %w", err)
	}
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "guardd"),
		attribute.String("service.version", c.Version), attribute.String("service.instance.id", c.Instance)), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("otlp: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	e := &Exporter{c: c, waiting: make(chan trace.Done, queue), sender: newCounting(to, c.Failed)}
	// The sampling is done: what comes here is sent.
	e.provider = sdk.NewTracerProvider(sdk.WithResource(about), sdk.WithSampler(sdk.AlwaysSample()), sdk.WithIDGenerator(ids{}),
		sdk.WithSpanProcessor(sdk.NewBatchSpanProcessor(e.sender, sdk.WithMaxExportBatchSize(batch), sdk.WithMaxQueueSize(8*batch),
			sdk.WithBatchTimeout(delay), sdk.WithExportTimeout(patience), sdk.WithBlocking())))
	e.tracer = e.provider.Tracer("github.com/guardd/guardd")
	e.worker.Go(func() {
		for d := range e.waiting {
			e.span(&d)
		}
	})
	return e, nil
}

// Export takes one request, or drops it where there is no room.
func (e *Exporter) Export(d trace.Done) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.closed {
		e.dropped.Add(1)
		return
	}
	select {
	case e.waiting <- d:
	default:
		e.dropped.Add(1)
	}
}

// Stats are of now.
func (e *Exporter) Stats() Stats {
	return Stats{Exported: e.sender.sent.Load(), Failed: e.sender.lost.Load(), Dropped: e.dropped.Load()}
}

// Close sends what waits, until ctx ends.
func (e *Exporter) Close(ctx context.Context) error {
	e.mu.Lock()
	if !e.closed {
		e.closed = true
		close(e.waiting)
	}
	e.mu.Unlock()
	stop := context.AfterFunc(ctx, e.sender.giveUp) // what is being sent, and all that waits
	defer stop()
	e.worker.Wait()
	if err := e.provider.Shutdown(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	return ctx.Err()
}

// span makes spans of a request: one of its own, and one of each stop.
func (e *Exporter) span(d *trace.Done) {
	kind, ctx := otel.SpanKindServer, context.Background()
	if d.Outbound {
		kind = otel.SpanKindClient
	}
	state, _ := otel.ParseTraceState(d.State)
	if d.Parent != [8]byte{} {
		ctx = otel.ContextWithRemoteSpanContext(ctx, otel.NewSpanContext(otel.SpanContextConfig{TraceID: d.Trace, SpanID: d.Parent,
			TraceFlags: otel.FlagsSampled, TraceState: state, Remote: true}))
	}
	ctx, root := e.tracer.Start(context.WithValue(ctx, idKey{}, d.ID), d.Name, otel.WithTimestamp(d.Begun), otel.WithSpanKind(kind), otel.WithAttributes(attributes(d.Attributes)...))
	if d.Failed {
		root.SetStatus(codes.Error, "")
	}
	ctx = context.WithValue(ctx, idKey{}, nil)
	within := make([]context.Context, len(d.Stops))
	for i, s := range d.Stops {
		around := ctx
		if s.Within >= 0 {
			around = within[s.Within]
		}
		o := []otel.SpanStartOption{otel.WithTimestamp(s.Begun)}
		if s.Name == trace.Redis {
			o = append(o, otel.WithSpanKind(otel.SpanKindClient), otel.WithAttributes(attribute.String("db.system.name", "redis"), attribute.String("db.operation.name", "EVALSHA")))
		}
		var span otel.Span
		within[i], span = e.tracer.Start(around, s.Name, o...)
		span.End(otel.WithTimestamp(s.End))
	}
	root.End(otel.WithTimestamp(d.End))
}

func attributes(list []trace.Attribute) (all []attribute.KeyValue) {
	for _, a := range list {
		switch v := a.Value.(type) {
		case string:
			all = append(all, attribute.String(a.Key, v))
		case int64:
			all = append(all, attribute.Int64(a.Key, v))
		case bool:
			all = append(all, attribute.Bool(a.Key, v))
		}
	}
	return all
}
