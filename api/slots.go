package api

import (
	"context"
	"net/http"
	"time"

	"github.com/guardd/guardd/api/client"
	"github.com/guardd/guardd/api/limits"
	"github.com/guardd/guardd/keys/plans"
)

// acquireAnswer is an AcquireResponse and the headers that it is sent with.
type acquireAnswer struct {
	client.AcquireResponse
	headers []limits.Header
}

func (a *acquireAnswer) setHeaders(h http.Header) { limits.SetHeaders(h, a.headers) }

// acquire asks for a slot, or renews one. A refusal is a 200, too.
func (s *service) acquire(ctx context.Context, _ *Key, q *client.AcquireRequest) (*acquireAnswer, error) {
	r := plans.SlotRequest{Key: q.Key, Rules: q.Rules, Route: q.Route, RequestID: q.RequestID, TTL: time.Duration(q.TTLMS) * time.Millisecond}
	if most := plans.MaxTTL.Milliseconds(); q.TTLMS > most || q.TTLMS < 0 { // a product of more could pass for less
		r.TTL = plans.MaxTTL + 1
	}
	if err := oneRule(q.Rule, &r.Rules); err != nil {
		return nil, err
	}
	decide := func() (*plans.SlotDecision, error) { return s.Limits.Acquire(ctx, &r) }
	if q.Slot != "" {
		decide = func() (*plans.SlotDecision, error) { return s.Limits.Renew(ctx, q.Slot, &r) }
	}
	d, err := decide()
	if err != nil {
		return nil, err
	}
	a := &acquireAnswer{acquireResponse(d), limits.SlotHeaders(d)}
	a.Headers = make(map[string]string, len(a.headers))
	for _, h := range a.headers {
		a.Headers[h.Name] = h.Value
	}
	return a, nil
}

func acquireResponse(d *plans.SlotDecision) client.AcquireResponse {
	a := client.AcquireResponse{Allowed: d.Allowed, Slot: d.Slot, Renewed: d.Renewed, Degraded: d.Degraded, Reason: d.Reason,
		RetryAfterMS: milliseconds(d.RetryAfter), Limits: make([]client.SlotLevel, len(d.Limits))}
	if d.Slot != "" {
		a.ExpiresAt = &d.Expires
	}
	for i := range d.Limits {
		l := &d.Limits[i]
		a.Limits[i] = client.SlotLevel{Rule: l.Rule, Limit: l.Cap, InUse: l.InUse, Allowed: l.Allowed}
		if i == d.Binding {
			a.Rule, a.Limit, a.InUse = l.Rule, l.Cap, l.InUse
		}
	}
	return a
}

// release frees a slot.
func (s *service) release(ctx context.Context, _ *Key, q *client.ReleaseRequest) (*client.ReleaseResponse, error) {
	released, err := s.Limits.Release(ctx, q.Slot)
	if err != nil {
		return nil, err
	}
	return &client.ReleaseResponse{Released: released}, nil
}
