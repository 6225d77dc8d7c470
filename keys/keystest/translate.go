package keystest

import (
	"fmt"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest/oracle"
)

// This file turns the oracle's words into those of package keys and back.

var tierByKind = map[string]keys.Tier{
	"pair": keys.TierPair, "account": keys.TierAccount, "ip": keys.TierIP, "network": keys.TierNetwork,
	"global": keys.TierGlobal, "device": keys.TierDevice, "devices": keys.TierDevices, "plan": keys.TierPlan,
}

var kindByTier = func() map[keys.Tier]string {
	m := map[keys.Tier]string{}
	for k, t := range tierByKind {
		m[t] = k
	}
	return m
}()

// compile makes the store's rules of the oracle's.
func compile(r *oracle.Rules) (*keys.Rules, error) {
	var tiers []keys.TierSpec
	for _, t := range r.Tiers {
		tier, ok := tierByKind[t.Kind]
		if !ok {
			return nil, fmt.Errorf("no tier is called %q", t.Kind)
		}
		spec := keys.TierSpec{Tier: tier}
		for _, role := range []struct {
			on   bool
			role keys.Role
		}{
			{t.SkipFamiliar, keys.SkipFamiliar}, {t.ByIP, keys.ScaleIP}, {t.ByNetwork, keys.ScaleNetwork},
			{t.ByPosture, keys.ScalePosture}, {t.OwnDevice, keys.DeviceOwn}, {t.SharedDevice, keys.DeviceShared},
		} {
			if role.on {
				spec.Role |= role.role
			}
		}
		for _, l := range t.Limits {
			spec.Limits = append(spec.Limits, keys.LimitSpec{Name: l.Name, Limit: keys.Limit(l.Limit),
				Steps: keys.Steps{Delay: threshold(l.Delay), Captcha: threshold(l.Captcha), Verify: threshold(l.Verify)}})
		}
		tiers = append(tiers, spec)
	}
	var effects [4]keys.Effect
	for i, e := range r.Effects {
		effects[i] = keys.Effect{Floor: keys.Rung(e.Floor), Divisor: e.Divisor, Uncounted: e.Uncounted}
	}
	return keys.NewRules(tiers, effects, keys.Pace{Base: r.Base, Max: r.Max})
}

func threshold(th int) keys.Threshold {
	switch th {
	case oracle.Never:
		return keys.Never
	case oracle.Empty:
		return keys.Empty
	}
	return keys.Threshold(th)
}

// ask makes the store's ask of the oracle's.
func ask(a *oracle.Ask, rules *keys.Rules) *keys.Ask {
	return &keys.Ask{Now: a.Now, Deadline: a.Deadline, Rules: rules, Keys: a.Keys, Cost: a.Cost, Floor: keys.Rung(a.Floor),
		Shadow: a.Shadow, AttemptID: a.ID, StateKey: a.State, SuspectKeys: a.Suspects, KKeys: a.K, RevokedKey: a.Revoked,
		PlaceKey: a.Place, WrongKey: a.Wrong, Tags: tags(a.Tags), Device: keys.Device(a.Device), Request: keys.Request{Key: a.RequestKey, Body: a.Body},
		Proof: keys.Proof{Key: a.Proof.Key, Rung: keys.Rung(a.Proof.Rung), Wait: a.Proof.Wait, Issued: a.Proof.Issued,
			NotBefore: a.Proof.NotBefore, Expires: a.Proof.Expires, Uses: a.Proof.Uses}}
}

var (
	statusNames = map[keys.Status]string{keys.Decided: "decided", keys.Late: "late", keys.Conflict: "conflict", keys.Impossible: "impossible"}
	deviceNames = map[keys.DeviceState]string{keys.DeviceNone: "none", keys.DeviceKnown: "known", keys.DeviceSpent: "spent", keys.DeviceInvalid: "invalid"}
	proofNames  = map[keys.ProofState]string{keys.ProofNone: "none", keys.ProofUsed: "used", keys.ProofExpired: "expired", keys.ProofSpent: "spent",
		keys.ProofTooEarly: "too_early", keys.ProofInsufficient: "insufficient", keys.ProofInvalid: "invalid", keys.ProofRefused: "refused"}
)

// answer makes the oracle's answer of the store's.
func answer(a *keys.Answer) oracle.Answer {
	out := oracle.Answer{Status: statusNames[a.Status], Now: a.Now, Let: a.Let, Taken: a.Taken, Replayed: a.Replayed, Repeat: a.Repeat,
		Needed: int(a.Needed), Wait: a.Wait, Posture: int(a.Posture), Baseline: oracle.Limit(a.Baseline), K: a.K,
		ByPosture: a.Causes&keys.ByPosture != 0, BySuspect: a.Causes&keys.BySuspect != 0, ByFlood: a.Causes&keys.ByFlood != 0,
		Device: deviceNames[a.Device], Familiar: a.Familiar, Revoked: a.Revoked, Proof: proofNames[a.Proof], ID: a.ID}
	for _, l := range a.Limits {
		out.Limits = append(out.Limits, oracle.LimitAnswer{Tier: l.Tier, Index: l.Index, Looked: l.Looked, Took: l.Took,
			Rung: int(l.Rung), Limit: oracle.Limit(l.Limit), Left: l.Left})
	}
	return out
}

// ret makes the store's return of the oracle's.
func ret(r *oracle.Return, rules *keys.Rules) *keys.Return {
	outcome, _ := keys.ParseOutcome(r.Outcome)
	out := &keys.Return{Now: r.Now, Deadline: r.Deadline, Rules: rules, Keys: r.Keys, StateKey: r.State, KKeys: r.K,
		Outcome: outcome, Stamp: r.Stamp, Expires: r.Expires, OutcomeKey: r.Mark, PlaceKey: r.Place, FailuresKey: r.FailuresKey,
		WrongKey: r.Wrong, Tags: tags(r.Tags)}
	for _, t := range r.Took {
		out.Took = append(out.Took, keys.Took{Tier: tierByKind[t.Kind], Limit: limitID(rules, t), In: keys.Limit(t.In)})
	}
	return out
}

// tags are the words of passwords, as long as tags are.
func tags(words [2]string) (t [2]keys.Tag) {
	for i, w := range words {
		copy(t[i][:], w)
	}
	return t
}

// limitID finds the stored name of a limit; one that the rules no longer know
// gets an ID that none has.
func limitID(r *keys.Rules, took oracle.Took) uint32 {
	for _, t := range r.Tiers() {
		for i := range t.Limits {
			if kindByTier[t.Tier] == took.Kind && t.Limits[i].Name == took.Name {
				return t.Limits[i].ID()
			}
		}
	}
	return 0
}

func receipt(r *keys.Receipt) oracle.Receipt {
	prior := ""
	if r.Prior != 0 {
		prior = r.Prior.String()
	}
	return oracle.Receipt{Late: r.Status == keys.Late, Expired: r.Expired, Recorded: r.Recorded, Duplicate: r.Duplicate,
		Prior: prior, Failures: r.Failures, Gave: r.Gave}
}
