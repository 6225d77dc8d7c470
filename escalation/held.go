package escalation

import (
	"context"
	"fmt"

	"github.com/guardd/guardd/keys"
)

// This file holds a success whose password has leaked: whoever comes from an
// unknown device in an unfamiliar place may have it from the leak, and shows
// with a code that the account is hers. Who guesses wrong never meets it.

// Breached says what a success with a breached password leads to, beside the
// advice to have it changed.
type Breached struct {
	// Verify holds a success from an unknown device in an unfamiliar place until
	// a code is confirmed. A flow's default is login's, and login's the realm's.
	// Default false.
	Verify *bool `yaml:"verify,omitempty"`
}

// or lays b over base.
func (b Breached) or(base Breached) Breached {
	if b.Verify == nil {
		return base
	}
	return b
}

// hold returns what is to be booked of a report: a success that is held is a
// second factor that is waited for, which gives back, makes nothing known, and
// may be followed by success or failure.
func (g *Guard) hold(ctx context.Context, rec *Recorded, t *attemptToken, realm *liveRealm, r *Report) (keys.Outcome, error) {
	policy := realm.flows[t.flow].holdBreached && !g.c.Shadow
	if rec.Outcome != keys.Success || !rec.Breached || !policy || t.device || t.familiar {
		return rec.Outcome, nil
	}
	var err error
	if rec.ProofError, err = g.finishes(ctx, t, realm, r.Proof); err != nil {
		return 0, err
	}
	if r.Proof != "" && rec.ProofError == "" {
		return keys.Success, nil
	}
	rec.Held = true
	return keys.SecondFactorPending, nil
}

// finishes returns why the proof does not finish a held success of t; "" when
// it does, or none is shown. The store is asked as an attempt would ask it that
// needs a code and takes nothing: it knows revocations and spent proofs. A
// proof finishes as many logins as it lets guesses through.
func (g *Guard) finishes(ctx context.Context, t *attemptToken, realm *liveRealm, token string) (ProofError, error) {
	if token == "" {
		return "", nil
	}
	p := g.c.Secrets.openProof(token)
	switch {
	case p == nil || p.scope != t.scope:
		return ProofInvalid, nil
	case p.account != t.account:
		return ProofWrongAccount, nil
	}
	rules := realm.flows[t.flow].kinds[kindOf(t.ip, t.listed, false)]
	ask := &keys.Ask{
		Now: g.storeNow(), Rules: rules, Keys: bucketKeys(rules, Flows[t.flow], realm.visitor(t.account, t.ip), [16]byte{}),
		Floor: keys.Verify, StateKey: realm.at(t.account).State(), RevokedKey: realm.at(t.account).Revoked(t.account),
		Proof: realm.proof(p),
	}
	var ans keys.Answer
	if err := g.c.Store.Take(ctx, ask, &ans); err != nil {
		return "", fmt.Errorf("%w: %w", ErrStore, err)
	}
	if ans.Status != keys.Decided {
		return "", fmt.Errorf("%w: it came to decide too late", ErrStore)
	}
	if why := proofErrors[ans.Proof]; why != "" {
		return why, nil
	}
	// Where nobody can count it stands: a code is the way that is never refused.
	n, err := g.tally(ctx, realm.at(t.account).Tally("finish", idText(p.id)), verifyProofLifetime)
	if err == nil && n > verifyUses {
		return ProofSpent, nil
	}
	return "", nil
}

// holding is the challenge of a held success.
func (g *Guard) holding(t *attemptToken, realm *liveRealm, r *Report, now int64) (*Challenge, error) {
	_, name, err := realm.account(r.Account)
	if err != nil {
		return nil, err
	}
	c := &challengeToken{scope: t.scope, rung: keys.Verify, account: t.account, name: name, ip: t.ip, born: t.born, returnURL: r.ReturnURL}
	if err := g.refresh(c, now); err != nil {
		return nil, err
	}
	return g.shownAs(realm, c, g.c.Secrets.seal(forChallenge, c.encode())), nil
}
