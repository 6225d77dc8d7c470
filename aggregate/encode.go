package aggregate

import (
	"encoding/hex"
	"time"

	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
)

// ofAttempt fills e with what v says.
func (e *Event) ofAttempt(v *escalation.Verdict) {
	e.Kind, e.Time, e.Realm, e.Flow = KindAttempt, v.Now, v.Realm, v.Flow
	e.ofTrace(&v.Trace, v.Account, v.IP)
	e.Action, e.Would, e.Reasons = string(v.Action), string(v.Would), v.Reasons
	if v.Would != escalation.ActionDeny {
		e.Rung = v.Needed.String()
	}
	if v.Used > keys.Allow {
		e.Proof = v.Used.String()
	}
	e.ProofError, e.Shown, e.Posture = string(v.ProofError), hashed(v.ProofID), v.Posture.String()
	e.Degraded, e.Shadow, e.Channel = v.Degraded, v.Shadow, v.Channel
	if len(v.Tiers) > 0 {
		e.Tiers = make([]TierLevel, len(v.Tiers))
	}
	for i, t := range v.Tiers {
		e.Tiers[i] = TierLevel{Tier: t.Tier, Limit: t.Limit, Left: t.Left, Capacity: t.Capacity, Rung: t.Rung.String()}
	}
}

// ofOutcome fills e with what r says.
func (e *Event) ofOutcome(r *escalation.Recorded) {
	e.Kind, e.Time, e.Realm, e.Flow = KindOutcome, r.Now, r.Realm, r.Flow
	e.ofTrace(&r.Trace, r.Account, r.IP)
	e.Outcome, e.Degraded = r.Booked.String(), r.Degraded
	e.Duplicate, e.Expired = r.Duplicate, !r.Recorded && !r.Duplicate
}

func (e *Event) ofTrace(t *escalation.Trace, a keys.Account, ip keys.Address) {
	e.Name = t.Name
	e.Account, e.IP, e.Network = a.String(), ip.String(), ip.Wide().String()
	e.Attempt, e.Device = hashed(t.AttemptID), hashed(t.DeviceID)
	e.KnownDevice, e.Familiar, e.Breached, e.UAClass = t.KnownDevice, t.Familiar, t.Breached, t.UAClass
	e.Trace, e.Span = t.Request.TraceID(), t.Request.SpanID()
	e.Tag, e.TagPrev, e.Repeat = tagText(t.Tag), tagText(t.TagBefore), t.Repeat
}

func hashed(id [16]byte) string {
	if id == ([16]byte{}) {
		return ""
	}
	return escalation.HashID(id)
}

func tagText(t escalation.Tag) string {
	if t == (escalation.Tag{}) {
		return ""
	}
	return hex.EncodeToString(t[:])
}

// endOf is the event that ends an instance's count of a realm.
func endOf(instance, realm string, seq uint64, now time.Time) *Event {
	return &Event{V: Version, ID: instance + "-end-" + realm, Instance: instance, Seq: seq, Kind: KindEnd,
		Time: now.UTC().Truncate(time.Microsecond), Realm: realm}
}
