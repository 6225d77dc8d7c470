package escalation

import (
	"context"

	"github.com/guardd/guardd/keys"
)

// Solve returns the proof that a solved challenge yields. rung is what was
// shown: Captcha for a picture or a sound, Verify for a confirmed code. The
// proof's id is the challenge's, so that however often a challenge is solved,
// one proof's worth of guesses comes of it; the time that it bears is the
// challenge's, so that a revocation in between takes it along. The caller has
// judged the answer (a replay, or a program with ways of its own); Answer
// judges it. Errors: Faults (challenge: invalid, expired).
func (g *Guard) Solve(ctx context.Context, challenge string, rung keys.Rung) (proof string, err error) {
	c := g.c.Secrets.openChallenge(challenge)
	switch {
	case c == nil || !c.solvedBy(rung):
		return "", Faults{{"challenge", "invalid"}}
	case g.now() >= c.expires:
		return "", Faults{{"challenge", "expired"}}
	}
	return g.c.Secrets.seal(forProof, g.prove(c, rung).encode()), nil
}

// solvedBy reports whether rung is one of the challenge's ways: a code always,
// a picture only where a picture was asked for.
func (t *challengeToken) solvedBy(rung keys.Rung) bool {
	return rung == keys.Verify || rung == keys.Captcha && t.rung == keys.Captcha
}

// prove is the proof of c, solved. Work in place of a wait is bound as the wait
// is.
func (g *Guard) prove(c *challengeToken, rung keys.Rung) *proofToken {
	life := captchaProofLifetime
	if rung == keys.Verify {
		life = verifyProofLifetime
	}
	p := &proofToken{scope: c.scope, rung: rung, id: c.id, account: c.account, born: c.born}
	if rung == keys.Delay {
		p.wait, p.network = c.wait, c.ip.Wide()
	}
	p.expires = max(g.now(), c.issued) + life
	return p
}

// proof is what p is worth to a store.
func (r *liveRealm) proof(p *proofToken) keys.Proof {
	k := keys.Proof{Key: r.at(p.account).Proof(idText(p.id)), Rung: p.rung, Wait: p.wait, Issued: p.born, Expires: p.expires, Uses: 1}
	if p.rung == keys.Verify {
		k.Uses = verifyUses
	}
	return k
}
