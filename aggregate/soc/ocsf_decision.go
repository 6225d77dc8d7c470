package soc

import (
	"strings"

	"github.com/guardd/guardd/aggregate"
)

// ocsfUnmappedDecision is what of an attempt or outcome has no attribute.
type ocsfUnmappedDecision struct {
	Flow        string                `json:"flow,omitzero"`
	Rung        string                `json:"rung,omitzero"`
	Reasons     []string              `json:"reasons,omitempty"`
	Proof       string                `json:"proof,omitzero"`
	ProofError  string                `json:"proof_error,omitzero"`
	KnownDevice bool                  `json:"known_device,omitzero"`
	Familiar    bool                  `json:"familiar,omitzero"`
	Device      string                `json:"device,omitzero"`
	Posture     string                `json:"posture,omitzero"`
	Degraded    bool                  `json:"degraded,omitzero"`
	Shadow      bool                  `json:"shadow,omitzero"`
	Would       string                `json:"would,omitzero"`
	Outcome     string                `json:"outcome,omitzero"`
	Breached    bool                  `json:"breached,omitzero"`
	UAClass     string                `json:"ua_class,omitzero"`
	Channel     string                `json:"channel,omitzero"`
	Repeat      bool                  `json:"repeat,omitzero"`
	Shown       string                `json:"shown,omitzero"`
	Network     string                `json:"network,omitzero"`
	Tiers       []aggregate.TierLevel `json:"tiers,omitempty"`
}

// ocsfDisposition is disposition_id by what an attempt was answered.
var ocsfDisposition = map[string]struct {
	id      int
	caption string
}{
	"allow": {1, "Allowed"}, "delay": {14, "Delayed"}, "captcha": {22, "Captcha"}, "verify": {23, "Challenge"}, "deny": {2, "Blocked"},
}

// ocsfOutcome is status_id and status_detail by what was reported. Where no password
// was compared, or a second factor is still due, nobody has signed in and nobody has
// failed to.
var ocsfOutcome = map[string]struct {
	status int
	detail string
}{
	"success": {1, ""}, "failure": {2, "INVALID_CREDENTIALS"}, "unknown_account": {2, "USER_DOES_NOT_EXIST"},
	"denied_by_policy": {2, "DENIED_BY_POLICY"}, "abandoned": {2, "ABANDONED"},
	"second_factor_pending": {0, "SECOND_FACTOR_PENDING"}, "not_checked": {0, "NOT_CHECKED"},
}

// decision fills o with an Authentication: of an attempt its activity is Preauth,
// because no password has been compared yet, of an outcome it is Logon.
func (o *ocsfRecord) decision(e *aggregate.Event) {
	o.CategoryUID, o.Category, o.ClassUID, o.Class = 3, "Identity & Access Management", authentication, "Authentication"
	o.Time, o.Metadata.LogName, o.Metadata.Correlation = ms(e.Time), "guardd.events", e.Attempt
	o.Metadata.Profiles = []string{"security_control"}
	o.Service, o.Policy = &ocsfNamed{Name: e.Realm}, &ocsfNamed{Name: e.Flow, UID: e.Realm + "/" + e.Flow}
	o.AuthProtoID, o.AuthProto, o.LogonTypeID, o.LogonType, o.IsRemote = 99, e.Flow, 3, "Network", true
	if e.Flow == "" {
		o.Policy, o.AuthProto = nil, "login"
	}
	if e.Kind == aggregate.KindOutcome {
		o.outcome(e)
	} else {
		o.attempt(e)
	}
	o.Status = [...]string{"Unknown", "Success", "Failure"}[o.StatusID]
	o.Unmapped = &ocsfUnmappedDecision{Flow: e.Flow, Rung: e.Rung, Reasons: e.Reasons, Proof: e.Proof, ProofError: e.ProofError,
		KnownDevice: e.KnownDevice, Familiar: e.Familiar, Device: e.Device, Posture: e.Posture, Degraded: e.Degraded, Shadow: e.Shadow, Would: e.Would,
		Outcome: e.Outcome, Breached: e.Breached, UAClass: e.UAClass, Channel: e.Channel, Repeat: e.Repeat, Shown: e.Shown, Network: e.Network, Tiers: e.Tiers}
}

func (o *ocsfRecord) attempt(e *aggregate.Event) {
	o.ActivityID, o.Activity = 6, "Preauth"
	d := ocsfDisposition[e.Action]
	o.ActionID, o.Action, o.DispositionID, o.Disposition = 1, "Allowed", d.id, d.caption
	switch {
	case refused(e):
		o.ActionID, o.Action, o.StatusID, o.StatusDetail = 2, "Denied", 2, "GUARDD_"+strings.ToUpper(e.Action)
	case answered(e) != "allow": // shadow mode
		o.DispositionID, o.Disposition = 16, "No Action"
	}
}

func (o *ocsfRecord) outcome(e *aggregate.Event) {
	o.ActivityID, o.Activity = 1, "Logon"
	o.ActionID, o.Action, o.DispositionID, o.Disposition = 1, "Allowed", 17, "Logged"
	v := ocsfOutcome[e.Outcome]
	o.StatusID, o.StatusDetail = v.status, v.detail
	switch {
	case e.Duplicate:
		o.StatusID, o.StatusDetail = 0, "DUPLICATE"
	case e.Expired:
		o.StatusID, o.StatusDetail = 0, "EXPIRED"
	}
}
