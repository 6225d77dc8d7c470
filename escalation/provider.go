package escalation

import (
	"context"
	"errors"
	"fmt"

	"github.com/guardd/guardd/keys"
)

// ProviderView is what a page needs to show a third party's challenge.
type ProviderView struct {
	Name    string // also the Way of its answers
	SiteKey string
	Script  string // URL
	Action  string // what the widget is shown for; "" for a provider without
}

// Provider is a third party's challenge. Safe for concurrent use.
type Provider interface {
	Name() string    // of policy and answers: "turnstile"
	SiteKey() string // public
	Script() string  // URL
	Action() string  // what its widget must be shown for; "" where it has none
	// Verify asks the third party about what its widget gave. ok false is a
	// wrong answer; an error means that it could not tell (wrapping
	// ErrMisconfigured when that is our own fault).
	Verify(ctx context.Context, response, ip string) (ok bool, err error)
}

// maxAsked is how often a third party is asked about one challenge: whoever
// sends rubbish must not have us call it without end.
const maxAsked = 3

func (r *liveRealm) provider(name string) Provider {
	for _, p := range r.providers {
		if p.Name() == name {
			return p
		}
	}
	return nil
}

// providerViews are those that can solve c.
func (g *Guard) providerViews(realm *liveRealm, c *challengeToken) (views []ProviderView) {
	if c.rung != keys.Captcha {
		return nil
	}
	for _, p := range realm.providers {
		views = append(views, ProviderView{Name: p.Name(), SiteKey: p.SiteKey(), Script: p.Script(), Action: p.Action()})
	}
	return views
}

// judgeProvider asks a third party. What its widget gave is good once there; it
// could still be given for many challenges at the same moment, so it is the
// challenge that is spent, when the answer is known. When the third party
// cannot tell, the local ways are left.
func (g *Guard) judgeProvider(ctx context.Context, realm *liveRealm, c *challengeToken, way string, s *Solution) (ProofError, error) {
	p := realm.provider(way)
	if p == nil || c.rung != keys.Captcha {
		return ProofInvalid, nil
	}
	n, err := g.tally(ctx, realm.at(c.account).Tally("asked", idText(c.id)), c.life())
	switch {
	case errors.Is(err, keys.ErrNoStore):
		return ProofUnsure, nil
	case err != nil:
		return "", fmt.Errorf("%w: %w", ErrStore, err)
	case n > maxAsked:
		return ProofSpent, nil
	}
	ok, err := p.Verify(ctx, s.Text, s.IP)
	if g.c.Asked != nil {
		g.c.Asked(way, ok, err)
	}
	if err != nil {
		return ProofUnsure, nil
	}
	if why := g.first(ctx, realm, c); why != "" {
		return why, nil
	}
	if !ok {
		return ProofWrongAnswer, nil
	}
	return "", nil
}
