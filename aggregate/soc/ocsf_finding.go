package soc

import "github.com/guardd/guardd/aggregate"

// ocsfUnmappedFinding is what of a finding has no attribute.
type ocsfUnmappedFinding struct {
	State    string                    `json:"state"`
	Posture  string                    `json:"posture,omitzero"`
	Peak     float64                   `json:"peak_per_minute,omitzero"`
	Accounts int                       `json:"accounts,omitzero"`
	Sources  int                       `json:"sources,omitzero"`
	Done     []aggregate.FindingAction `json:"done,omitempty"`
	By       string                    `json:"by,omitzero"`
	Action   string                    `json:"action,omitzero"`
	Was      string                    `json:"was,omitzero"`
	Is       string                    `json:"is,omitzero"`
	Learning bool                      `json:"learning,omitzero"`
	DryRun   bool                      `json:"dry_run,omitzero"`
}

// finding fills o with a Detection Finding. Its time is when the campaign began,
// which does not change; what changed is in modified_time.
func (o *ocsfRecord) finding(r *Record) {
	f, k := r.Finding, kindOf(r.Finding.What)
	o.CategoryUID, o.Category, o.ClassUID, o.Class = 2, "Findings", detectionFinding, "Detection Finding"
	switch r.Change {
	case Updated:
		o.ActivityID, o.Activity, o.StatusID, o.Status = 2, "Update", 2, "In Progress"
	case Closed:
		o.ActivityID, o.Activity, o.StatusID, o.Status = 3, "Close", 4, "Resolved"
	default:
		o.ActivityID, o.Activity, o.StatusID, o.Status = 1, "Create", 1, "New"
		o.IsAlert = r.Severity >= Medium
	}
	o.Time, o.StartTime, o.EndTime, o.Count = ms(f.Start), ms(f.Start), ms(r.Time), f.Guesses
	o.Metadata.LogName, o.Metadata.Modified = "guardd.findings", ms(r.Time)
	o.ConfidenceID, o.Confidence = 2, "Medium"
	if f.Learning {
		o.ConfidenceID, o.Confidence = 1, "Low"
	}
	o.Info = &ocsfFinding{
		UID: f.Realm + "/" + f.ID, Title: r.Title(), Desc: f.Reason, Types: []string{f.What},
		Analytic: ocsfAnalytic{UID: f.What, Name: k.title, TypeID: k.analytic, Type: k.analytic.caption()},
		Created:  ms(f.Start), FirstSeen: ms(f.Start), LastSeen: ms(r.Time), Modified: ms(r.Time),
	}
	if k.attack[0] != "" {
		o.Info.Attacks = []ocsfAttack{{Tactic: named(k.tactic), Technique: named(k.attack), Sub: named(k.sub)}}
	}
	o.Unmapped = &ocsfUnmappedFinding{State: f.State, Posture: f.Posture, Peak: f.Peak, Accounts: f.Accounts, Sources: f.Sources,
		Done: f.Done, By: f.By, Action: f.Action, Was: f.Was, Is: f.Is, Learning: f.Learning, DryRun: f.DryRun}
}

func named(v [2]string) *ocsfNamed {
	if v[0] == "" {
		return nil
	}
	return &ocsfNamed{UID: v[0], Name: v[1]}
}
