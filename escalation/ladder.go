package escalation

import (
	"time"

	"github.com/guardd/guardd/keys"
)

// Decision is what the ladder makes of a store's answer.
type Decision struct {
	Action     Action
	Reasons    []string
	Tiers      []TierLevel
	RetryAfter time.Duration
}

// Decide is pure: what to do about ans, the answer to an ask of rules, and
// why. The reasons are those of the needed rung even where a proof lifted the
// attempt over it.
func Decide(rules *keys.Rules, ans *keys.Answer) Decision {
	d := Decision{Action: ActionAllow, Tiers: make([]TierLevel, 0, len(ans.Limits)), Reasons: []string{}}
	tiers := rules.Tiers()
	for i := range ans.Limits {
		l := &ans.Limits[i]
		if !l.Looked {
			continue
		}
		tier, limit := tiers[l.Tier].Tier.String(), tiers[l.Tier].Limits[l.Index].Name
		d.Tiers = append(d.Tiers, TierLevel{Tier: tier, Limit: limit, Left: l.Tokens(), Capacity: l.Limit.Capacity, Rung: l.Rung})
		if l.Rung > keys.Allow && l.Rung == ans.Needed {
			d.Reasons = append(d.Reasons, tier+"."+limit)
		}
	}
	for _, c := range []struct {
		by     keys.Cause
		reason string
	}{{keys.ByPosture, ReasonPosture}, {keys.BySuspect, ReasonSuspect}, {keys.ByFlood, ReasonFlood}, {keys.ByStoreGone, ReasonStoreGone}} {
		if ans.Causes&c.by != 0 {
			d.Reasons = append(d.Reasons, c.reason)
		}
	}
	switch ans.Device {
	case keys.DeviceSpent:
		d.Reasons = append(d.Reasons, ReasonDeviceSpent)
	case keys.DeviceInvalid:
		d.Reasons = append(d.Reasons, ReasonDeviceInvalid)
	}
	if !ans.Let {
		d.ask(ans.Needed)
		d.RetryAfter = time.Duration(ans.Wait) * time.Microsecond
	}
	return d
}

// ask says what a refused attempt is asked for.
func (d *Decision) ask(needed keys.Rung) {
	switch needed {
	case keys.Delay:
		d.Action = ActionDelay
	case keys.Captcha:
		d.Action = ActionCaptcha
	default:
		d.Action = ActionVerify
	}
}

// proofErrors says in words what became of a proof.
var proofErrors = map[keys.ProofState]ProofError{
	keys.ProofExpired:      ProofExpired,
	keys.ProofSpent:        ProofSpent,
	keys.ProofTooEarly:     ProofTooEarly,
	keys.ProofInsufficient: ProofInsufficient,
	keys.ProofInvalid:      ProofInvalid,
	// There was no room to remember that it was used; a code always passes.
	keys.ProofRefused: ProofInsufficient,
}
