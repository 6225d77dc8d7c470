package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/guardd/guardd/api/client"
	"github.com/guardd/guardd/api/limits"
	"github.com/guardd/guardd/keys/plans"
)

// Taker decides about plan limits; plans.Taker is one. It is safe for concurrent
// use. Its errors are those of package plans.
type Taker interface {
	Take(ctx context.Context, r *plans.Request) (*plans.Decision, error)
	Settle(ctx context.Context, reservation string, cost int64) (*plans.Settlement, error)
	Acquire(ctx context.Context, r *plans.SlotRequest) (*plans.SlotDecision, error)
	Renew(ctx context.Context, slot string, r *plans.SlotRequest) (*plans.SlotDecision, error)
	Release(ctx context.Context, slot string) (released bool, err error)
}

// takeAnswer is a TakeResponse, but for its headers, and the headers that it is
// sent with.
type takeAnswer struct {
	client.TakeResponse
	headers []limits.Header
}

func (a *takeAnswer) setHeaders(h http.Header) { limits.SetHeaders(h, a.headers) }

// take asks for tokens. A refusal is a 200, too.
func (s *service) take(ctx context.Context, _ *Key, q *client.TakeRequest) (*takeAnswer, error) {
	r := plans.Request{Key: q.Key, Rules: q.Rules, Route: q.Route, Cost: 1, RequestID: q.RequestID, Reserve: q.Reserve}
	if q.Cost != nil {
		r.Cost = *q.Cost
	}
	if err := oneRule(q.Rule, &r.Rules); err != nil {
		return nil, err
	}
	d, err := s.Limits.Take(ctx, &r)
	if err != nil {
		return nil, err
	}
	if d.Impossible {
		return nil, problemImpossible()
	}
	return &takeAnswer{takeResponse(d), limits.Headers(d)}, nil
}

// oneRule adds the field rule to rules; both together are refused.
func oneRule(rule string, rules *[]string) error {
	switch {
	case rule == "":
	case len(*rules) > 0:
		return problemInvalid(client.FieldError{Field: "rules", Reason: "not_with_rule"})
	default:
		*rules = []string{rule}
	}
	return nil
}

func takeResponse(d *plans.Decision) client.TakeResponse {
	a := client.TakeResponse{Allowed: d.Allowed, Degraded: d.Degraded, Reason: d.Reason, Reservation: d.Reservation,
		RetryAfterMS: milliseconds(d.RetryAfter), Limits: make([]client.LimitLevel, len(d.Limits))}
	for i := range d.Limits {
		l := &d.Limits[i]
		a.Limits[i] = client.LimitLevel{Rule: l.Rule, Limit: l.Limit.Capacity, Remaining: l.Remaining(), Allowed: l.Allowed}
		if i == d.Binding {
			a.Rule, a.Limit, a.Remaining, a.ResetAfterMS = l.Rule, l.Limit.Capacity, l.Remaining(), milliseconds(l.Reset)
		}
	}
	return a
}

// settle says what a reservation really cost.
func (s *service) settle(ctx context.Context, _ *Key, q *client.SettleRequest) (*client.SettleResponse, error) {
	if q.Cost == nil {
		return nil, problemInvalid(client.FieldError{Field: "cost", Reason: "missing"})
	}
	d, err := s.Limits.Settle(ctx, q.Reservation, *q.Cost)
	if err != nil {
		return nil, err
	}
	a := &client.SettleResponse{Settled: d.Settled, Duplicate: d.Duplicate, Charged: d.Charged, Degraded: d.Degraded}
	if d.Binding >= 0 {
		a.Remaining = d.Limits[d.Binding].Remaining()
	}
	return a, nil
}

// limitsProblem is the problem of an error of package plans, or nil.
func limitsProblem(err error) *client.Problem {
	var faults plans.Faults
	switch {
	case errors.As(err, &faults):
		fields := make([]client.FieldError, len(faults))
		for i, f := range faults {
			fields[i] = client.FieldError(f)
		}
		return problemInvalid(fields...)
	case errors.Is(err, plans.ErrUnknownRule):
		return problem(client.ProblemUnknownRule, http.StatusNotFound, "Unknown rule", "There is no rule of that name.",
			client.FieldError{Field: "rule", Reason: "unknown"})
	case errors.Is(err, plans.ErrConflict):
		return problem(client.ProblemConflict, http.StatusConflict, "Request id used twice",
			"The request_id was used within the last 10 minutes for another request. Make a fresh one per take.",
			client.FieldError{Field: "request_id", Reason: "conflict"})
	case errors.Is(err, plans.ErrExists):
		return problem(client.ProblemExists, http.StatusConflict, "Exists already", "There is another row of that name: change it, or delete it first.")
	case errors.Is(err, plans.ErrNoRow):
		return problem(client.ProblemNoRow, http.StatusNotFound, "Does not exist", "There is no row of that name.")
	case errors.Is(err, plans.ErrNewer):
		return problem(client.ProblemNewer, http.StatusConflict, "Kept by a newer guardd", "A change by this version could lose what it does not know.")
	case errors.Is(err, plans.ErrStore):
		return problemStore()
	}
	return nil
}

// noLimits is the Taker where there are none.
type noLimits struct{}

func (noLimits) Take(context.Context, *plans.Request) (*plans.Decision, error) {
	return nil, plans.ErrUnknownRule
}

func (noLimits) Settle(context.Context, string, int64) (*plans.Settlement, error) {
	return nil, plans.Faults{{Field: "reservation", Reason: "invalid"}}
}

func (noLimits) Acquire(context.Context, *plans.SlotRequest) (*plans.SlotDecision, error) {
	return nil, plans.ErrUnknownRule
}

func (noLimits) Renew(context.Context, string, *plans.SlotRequest) (*plans.SlotDecision, error) {
	return nil, plans.Faults{{Field: "slot", Reason: "invalid"}}
}

func (noLimits) Release(context.Context, string) (bool, error) {
	return false, plans.Faults{{Field: "slot", Reason: "invalid"}}
}
