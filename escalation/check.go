package escalation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/trace"
)

// Check decides whether the guess may be made now, and if not, what would make
// it acceptable. Errors: Faults (the request is wrong), ErrConflict (the
// request id was another request's), ErrStore (we do not know; never with a
// keys.Fallback).
func (g *Guard) Check(ctx context.Context, a *Attempt) (*Verdict, error) {
	traced := trace.From(ctx)
	defer traced.Begin(trace.Guard).End()
	v, err := g.live.Load().visit(a, g.now())
	if err != nil {
		return nil, err
	}
	v.traced = traced
	if v.listed == denied {
		return g.unasked(v, Decision{Action: ActionDeny, Reasons: []string{ReasonListDeny}})
	}
	g.openDevice(v)
	if err := g.openShown(ctx, v); err != nil {
		return nil, err
	}
	now := g.now()
	floor, ok, err := g.flood.pass(ctx, v, v.credentials(now), now)
	if err != nil {
		return nil, err
	}
	if !ok {
		d := Decision{Reasons: []string{ReasonFlood}}
		d.ask(keys.Captcha)
		return g.unasked(v, d)
	}
	ask, err := g.ask(v, floor)
	if err != nil {
		return nil, err
	}
	ans := g.answers.Get().(*keys.Answer)
	defer g.answers.Put(ans)
	if err := take(ctx, g.c.Store, ask, ans); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStore, err)
	}
	switch ans.Status {
	case keys.Conflict:
		return nil, ErrConflict
	case keys.Late:
		return nil, fmt.Errorf("%w: it came to decide too late", ErrStore)
	case keys.Impossible:
		return nil, errors.New("a limit holds less than one token")
	}
	g.learn(ctx, v, ans)
	return g.answer(v, ask.Rules, ans)
}

// take is a stop of its own.
func take(ctx context.Context, s keys.Store, ask *keys.Ask, ans *keys.Answer) error {
	defer trace.Begin(ctx, trace.Store).End()
	return s.Take(ctx, ask, ans)
}

// ask names everything that bears on the attempt, for one call to the store.
func (g *Guard) ask(v *visit, floor keys.Rung) (*keys.Ask, error) {
	id, err := g.newID()
	if err != nil {
		return nil, err
	}
	device := [16]byte{}
	if v.device != nil {
		device = v.device.id
	}
	today, before := v.realm.tagger.tags(v.a.PasswordTag, g.now())
	rules := v.flow.kinds[kindOf(v.ip, v.listed == allowed, v.device != nil)]
	ask := &keys.Ask{
		Now: g.storeNow(), Rules: rules, Keys: bucketKeys(rules, v.flowName, v.names, device),
		Cost: 1, Floor: floor, StoreGone: v.flow.gone, Shadow: g.c.Shadow, AttemptID: id,
		StateKey:    v.names.State(),
		SuspectKeys: v.names.Suspects(tagText(today)),
		KKeys:       kKeys(v.names, v.ip),
		RevokedKey:  v.names.Revoked(),
		PlaceKey:    v.realm.placeKey(v.names),
		WrongKey:    wrongKey(v.flowName, today, v.names), Tags: [2]Tag{today, before},
		Proof:   v.shown.proof,
		Request: v.request(),
	}
	if v.device != nil {
		ask.Device = keys.Device{Issued: v.device.born, Expires: v.device.expires()}
	}
	return ask, nil
}

// learn keeps what an answer tells beside the decision: the store's clock and
// the size of the address. The twin knows neither, and what is told again is
// of up to a minute ago.
func (g *Guard) learn(ctx context.Context, v *visit, ans *keys.Answer) {
	if ans.Replayed {
		return
	}
	g.saw(ans.Now)
	g.sawRevoked(ans.Born(), ans.Now) // what is made known of it is to be revoked, too
	if ans.Degraded {
		return
	}
	g.sawClock(ans.Now)
	g.flood.learn(ctx, v, ans.K[0], ans.Now)
}

// answer makes the verdict of a store's answer.
func (g *Guard) answer(v *visit, rules *keys.Rules, ans *keys.Answer) (*Verdict, error) {
	stop := v.traced.Begin(trace.Ladder)
	d := Decide(rules, ans)
	stop.End()
	if v.badDevice {
		d.Reasons = append(d.Reasons, ReasonDeviceInvalid)
	}
	if v.listed == allowed {
		d.Reasons = append(d.Reasons, ReasonListAllow)
	}
	r := g.verdict(v, d, ans.Now)
	r.KnownDevice = ans.Device == keys.DeviceKnown
	r.Familiar, r.Posture = ans.Familiar, ans.Posture
	r.Needed, r.Repeat = ans.Needed, ans.Repeat
	if ans.Proof == keys.ProofUsed {
		r.Used = v.shown.proof.Rung
	}
	r.Degraded, r.Replayed = ans.Degraded, ans.Replayed
	if r.ProofError = v.shown.err; r.ProofError == "" {
		r.ProofError = proofErrors[ans.Proof]
	}
	if r.Replayed { // the answer was right the first time
		r.ProofError = ""
	}
	if v.shown.solved != "" && v.shown.guessesLeft(ans.Proof) {
		r.Proof = v.shown.solved
	}
	if ans.Taken && r.Proceed { // a repeat of one in shadow may come to an instance that enforces
		g.sealAttempt(v, r, rules, ans)
	}
	if r.Action == ActionAllow {
		return r, nil
	}
	return r, g.challenge(v, r, &d, ans.Needed, ans.Wait, ans.Born())
}

// guessesLeft reports whether a proof that fared like this can be shown again.
func (s *shown) guessesLeft(state keys.ProofState) bool {
	switch state {
	case keys.ProofNone, keys.ProofInsufficient:
		return true
	case keys.ProofUsed:
		return s.proof.Uses > 1
	}
	return false
}

// unasked is the verdict where the store is not asked: an operator's deny, a
// flood. Its times are by what we know of the store's clock.
func (g *Guard) unasked(v *visit, d Decision) (*Verdict, error) {
	now := g.now()
	d.Tiers = []TierLevel{}
	r := g.verdict(v, d, now)
	r.Needed = keys.Captcha
	r.ProofError = v.shown.unasked(now)
	if g.c.Shadow {
		id, err := g.newID()
		if err != nil {
			return nil, err
		}
		g.sealAttempt(v, r, nil, &keys.Answer{ID: id, Now: now})
		return r, nil
	}
	if d.Action == ActionDeny {
		return r, nil
	}
	return r, g.challenge(v, r, &d, keys.Captcha, 0, g.born(now))
}

// verdict is what all verdicts have. In shadow everybody is let through, and
// what would have been is told beside it.
func (g *Guard) verdict(v *visit, d Decision, now int64) *Verdict {
	r := &Verdict{
		Action: d.Action, Would: d.Action, Shadow: g.c.Shadow,
		Reasons: d.Reasons, Tiers: d.Tiers, RetryAfter: d.RetryAfter,
		Realm: v.scope.realm, Flow: v.flowName, Account: v.account, IP: v.ip, Now: micros(now),
	}
	if r.Shadow {
		r.Action, r.RetryAfter = ActionAllow, 0
	}
	r.Proceed = r.Action == ActionAllow
	r.Trace, r.Channel = v.trace(now), v.a.Channel
	return r
}

// sealAttempt seals who guesses and what that took.
func (g *Guard) sealAttempt(v *visit, r *Verdict, rules *keys.Rules, ans *keys.Answer) {
	defer v.traced.Begin(trace.Seal).End()
	t := attemptToken{
		scope: v.scope, id: ans.ID, account: v.account, ip: v.ip, stamp: ans.Now, born: ans.Born(),
		listed: v.listed == allowed, breached: v.a.PasswordBreached, degraded: ans.Degraded, instance: g.c.Instance,
		familiar: ans.Familiar, ua: uaIndex(r.UAClass), tag: r.Tag, repeat: ans.Repeat,
	}
	if t.repeat { // its outcome is that of the one that failed yesterday
		t.tagBefore = r.TagBefore
	}
	if ans.Device == keys.DeviceKnown && v.device != nil { // a repeat may come to an instance without the device's secret
		t.device, t.deviceID = true, v.device.id
	}
	t.took = make([]keys.Took, 0, len(ans.Limits))
	for i := range ans.Limits {
		if l := &ans.Limits[i]; l.Took {
			tier := &rules.Tiers()[l.Tier]
			t.took = append(t.took, keys.Took{Tier: tier.Tier, Limit: tier.Limits[l.Index].ID(), In: l.Limit})
		}
	}
	r.Attempt = g.c.Secrets.seal(forAttempt, t.encode())
	r.AttemptExpires = micros(t.expires())
	r.AttemptID = t.id
}

// challenge seals what would make the attempt acceptable. One who comes too
// early with a wait that is long enough gets the same ticket again: whoever
// clicks twice does not wait twice.
func (g *Guard) challenge(v *visit, r *Verdict, d *Decision, needed keys.Rung, wait, born int64) error {
	defer v.traced.Begin(trace.Seal).End()
	now := r.Now.UnixMicro()
	t, token := v.shown.ticket, v.a.Proof
	if !(needed == keys.Delay && r.ProofError == ProofTooEarly && t != nil && t.wait >= wait && now < t.notBefore()) {
		t = &challengeToken{
			scope: v.scope, rung: needed, account: v.account, name: v.name, ip: v.ip,
			born: born, wait: wait, returnURL: v.a.ReturnURL,
			work: v.realm.pow.work(needed, wait, v.flow.pace.Base, r.Posture),
		}
		t.second = v.shown.second && needed == keys.Captcha
		if err := g.refresh(t, now); err != nil {
			return err
		}
		token = g.c.Secrets.seal(forChallenge, t.encode())
	}
	r.Challenge = g.shownAs(v.realm, t, token)
	if needed == keys.Delay {
		r.RetryAfter = time.Duration(t.notBefore()-now) * time.Microsecond
	}
	return nil
}

func (g *Guard) newID() (id [16]byte, err error) {
	if _, err = io.ReadFull(g.c.Rand, id[:]); err != nil {
		return id, fmt.Errorf("making an identity: %w", err)
	}
	return id, nil
}
