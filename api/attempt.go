package api

import (
	"context"
	"time"

	"github.com/guardd/guardd/api/client"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys/trace"
)

// attempt asks whether a guess may be made. Whatever the answer is, it is a 200.
func (s *service) attempt(ctx context.Context, key *Key, q *client.AttemptRequest) (*client.AttemptResponse, error) {
	if !key.may(q.Realm) {
		return nil, escalation.ErrRealm
	}
	begun := time.Now()
	v, err := s.Guard.Check(ctx, (*escalation.Attempt)(q))
	if err != nil {
		return nil, err
	}
	s.Observer.Attempt(v, time.Since(begun))
	if traced := trace.From(ctx); traced.Recording() {
		traced.Set(trace.Attribute{Key: "guardd.realm", Value: v.Realm}, trace.Attribute{Key: "guardd.flow", Value: v.Flow},
			trace.Attribute{Key: "guardd.action", Value: string(v.Action)}, trace.Attribute{Key: "guardd.posture", Value: v.Posture.String()},
			trace.Attribute{Key: "guardd.degraded", Value: v.Degraded})
	}
	return attemptResponse(v), nil
}

func attemptResponse(v *escalation.Verdict) *client.AttemptResponse {
	a := &client.AttemptResponse{
		Action: string(v.Action), Proceed: v.Proceed, Attempt: v.Attempt,
		KnownDevice: v.KnownDevice, Posture: v.Posture.String(), Degraded: v.Degraded,
		Shadow: v.Shadow, Would: string(v.Would),
		Reasons: v.Reasons, ProofError: string(v.ProofError), Proof: v.Proof,
		Tiers: make([]client.TierLevel, len(v.Tiers)),
	}
	for i, t := range v.Tiers {
		a.Tiers[i] = client.TierLevel{Tier: t.Tier, Limit: t.Limit, Left: t.Left, Capacity: t.Capacity, Rung: t.Rung.String()}
	}
	// In shadow nothing is asked of anybody: a handler that honours a wait or
	// a challenge whatever the action is must find none.
	if !v.Shadow {
		a.RetryAfterMS = milliseconds(v.RetryAfter)
		a.Challenge = challenge(v.Challenge)
	}
	return a
}

func challenge(c *escalation.Challenge) *client.Challenge {
	if c == nil {
		return nil
	}
	return &client.Challenge{Kind: c.Kind, Kinds: c.Kinds, Token: c.Token,
		ExpiresAt: utc(c.ExpiresAt), NotBefore: utc(c.NotBefore), Page: c.Page, Image: c.Image, Audio: c.Audio}
}

// milliseconds rounds up: who comes back then must not be early.
func milliseconds(d time.Duration) int64 {
	return int64((max(d, 0) + time.Millisecond - 1) / time.Millisecond)
}

// utc leaves the zero time zero, so that it is omitted.
func utc(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC()
}
