package escalation

import (
	"context"
	"errors"

	"github.com/guardd/guardd/keys"
)

// shown is what a visitor showed in proof.
type shown struct {
	proof  keys.Proof      // zero: nothing that counts here
	id     [16]byte        // of the proof, also of one that does not count here
	err    ProofError      // why it cannot count, whatever the store says
	ticket *challengeToken // when it is a wait
	solved string          // the proof that a right answer gave
	second bool            // the first of two pictures was read
}

// unasked is why the proof did not help where the store is not asked.
func (s *shown) unasked(now int64) ProofError {
	switch {
	case s.err != "" || s.proof.Key == "":
		return s.err
	case now >= s.proof.Expires:
		return ProofExpired
	case s.proof.Rung == keys.Delay:
		return ProofInsufficient // no wait is enough under a flood
	}
	return ""
}

// openDevice reads the device token. A bad one is never an error: the attempt
// goes on as from an unknown device.
func (g *Guard) openDevice(v *visit) {
	if v.a.Device == "" {
		return
	}
	t := g.c.Secrets.openDevice(v.scope.realm, v.a.Device)
	v.badDevice = t == nil
	if t != nil {
		v.device = t.entry(v.account)
	}
}

// openShown reads the proof, or judges the answer that stands in its place.
func (g *Guard) openShown(ctx context.Context, v *visit) error {
	token := v.a.Proof
	if v.a.Challenge != "" {
		proof, why, err := g.judgeAnswer(ctx, v)
		if err != nil {
			return err
		}
		if why != "" {
			v.shown.err = why
			return nil
		}
		v.shown.solved, token = proof, proof
	}
	if token == "" {
		return nil
	}
	if p := g.c.Secrets.openProof(token); p != nil {
		v.showProof(p)
	} else if c := g.c.Secrets.openChallenge(token); c != nil && c.rung == keys.Delay {
		v.showWait(c)
	} else {
		v.shown.err = ProofInvalid
	}
	return nil
}

func (v *visit) showProof(p *proofToken) {
	v.shown.id = p.id
	switch {
	case p.scope != v.scope:
		v.shown.err = ProofInvalid
	case p.account != v.account:
		v.shown.err = ProofWrongAccount
	case p.rung == keys.Delay && p.network != v.ip.Wide():
		v.shown.err = ProofWrongAddress
	default:
		v.shown.proof = v.realm.proof(p)
	}
}

// showWait takes a wait ticket for the proof that it is. It is bound to the
// network that it was given to: a botnet must not wait in one place and guess
// in another.
func (v *visit) showWait(c *challengeToken) {
	v.shown.id = c.id
	switch {
	case c.scope != v.scope:
		v.shown.err = ProofInvalid
	case c.account != v.account:
		v.shown.err = ProofWrongAccount
	case c.ip.Wide() != v.ip.Wide():
		v.shown.err = ProofWrongAddress
	default:
		v.shown.ticket = c
		v.shown.proof = keys.Proof{
			Key: v.realm.at(v.account).Proof(idText(c.id)), Rung: keys.Delay, Wait: c.wait,
			Issued: c.born, NotBefore: c.notBefore(), Expires: c.expires, Uses: 1,
		}
	}
}

// judgeAnswer judges challenge and answer, and returns the proof of a right
// one, or why there is none. Another account's challenge is not spent.
func (g *Guard) judgeAnswer(ctx context.Context, v *visit) (proof string, why ProofError, err error) {
	c := g.c.Secrets.openChallenge(v.a.Challenge)
	switch {
	case c == nil || c.scope != v.scope:
		return "", ProofInvalid, nil
	case c.account != v.account:
		return "", ProofWrongAccount, nil
	}
	p, why, err := g.judge(ctx, v.realm, c, &Solution{Text: v.a.Answer, IP: v.a.IP})
	switch {
	case errors.Is(err, ErrTooMany): // an attempt is answered, whatever its address does
		return "", ProofInsufficient, nil
	case err != nil || p == nil:
		v.shown.second = why == ProofInsufficient
		return "", why, err
	}
	return g.c.Secrets.seal(forProof, p.encode()), "", nil
}

// credentials are the ids under which the flood guard lets v pass a flooded
// address, each with a guard of its own: a device may have been stolen, and its
// thief must not use up what the owner's code passes by. A wait is none: every
// refusal gives one away for nothing, so a flood could bring its own, and no
// wait lifts over the captcha that a flooded address asks for.
func (v *visit) credentials(now int64) (ids []string) {
	if p := &v.shown.proof; p.Rung > keys.Delay && now < p.Expires {
		ids = append(ids, idText(v.shown.id))
	}
	if v.device != nil && now < v.device.expires() {
		ids = append(ids, HashID(v.device.id))
	}
	return ids
}
