package api

import (
	"context"
	"time"

	"github.com/guardd/guardd/api/client"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys/trace"
)

// outcome books what became of an attempt. Its realm is sealed into it, so
// the guard asks whether the key may act for it.
func (s *service) outcome(ctx context.Context, key *Key, q *client.OutcomeRequest) (*client.OutcomeResponse, error) {
	begun := time.Now()
	r, err := s.Guard.Report(ctx, (*escalation.Report)(q), key.may)
	if err != nil {
		return nil, err
	}
	s.Observer.Outcome(r, time.Since(begun))
	if traced := trace.From(ctx); traced.Recording() {
		traced.Set(trace.Attribute{Key: "guardd.realm", Value: r.Realm}, trace.Attribute{Key: "guardd.flow", Value: r.Flow},
			trace.Attribute{Key: "guardd.outcome", Value: r.Outcome.String()}, trace.Attribute{Key: "guardd.degraded", Value: r.Degraded})
	}
	return &client.OutcomeResponse{
		Recorded: r.Recorded, Duplicate: r.Duplicate, AttemptError: r.AttemptError,
		Device: r.Device, DeviceExpiresAt: utc(r.DeviceExpires), Advice: r.Advice,
		ProofError: string(r.ProofError), Challenge: challenge(r.Challenge),
	}, nil
}

// revoke makes every device, place and proof of an account count for nothing.
func (s *service) revoke(ctx context.Context, key *Key, q *client.RevokeRequest) (*client.RevokeResponse, error) {
	if !key.may(q.Realm) {
		return nil, escalation.ErrRealm
	}
	realm := q.Realm
	if realm == "" {
		realm = escalation.DefaultRealm
	}
	if err := s.Guard.Revoke(ctx, realm, q.Account); err != nil {
		return nil, err
	}
	return &client.RevokeResponse{Revoked: true}, nil
}
