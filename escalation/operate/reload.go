package operate

import (
	"context"

	"github.com/guardd/guardd/escalation"
)

// ReloadRequest has every instance read its configuration again.
type ReloadRequest struct {
	Reason string `json:"reason"`
	DryRun bool   `json:"dry_run"`
}

// Reloaded is the answer.
type Reloaded struct {
	Reloaded bool  `json:"reloaded"` // here; the other instances do within a second, each from its own files
	DryRun   bool  `json:"dry_run"`
	Seq      int64 `json:"seq,omitzero"`
}

// Reload reads the configuration of this instance, and if that is good, has the
// others do so too; with DryRun it only says whether it is. It concerns all
// realms, so it is for operators of all. Errors: Faults (what is wrong with the
// configuration), ErrRealm, ErrStore.
func (d *Desk) Reload(ctx context.Context, w *Who, q *ReloadRequest) (*Reloaded, error) {
	if err := w.everywhere(d.c.Realms()); err != nil {
		return nil, err
	}
	faults := escalation.Faults{}
	checkReason(q.Reason, &faults)
	if err := faultsOf(faults); err != nil {
		return nil, err
	}
	if d.c.Reload == nil {
		return nil, escalation.Faults{{Field: "config", Reason: "missing"}}
	}
	if err := d.c.Reload(q.DryRun); err != nil {
		return nil, err
	}
	a := &Reloaded{Reloaded: !q.DryRun, DryRun: q.DryRun}
	if q.DryRun {
		return a, nil
	}
	r := &Record{Action: ActionReload, Reason: q.Reason, Changed: true}
	if err := d.Book(ctx, w, r); err != nil {
		return nil, unreachable(err)
	}
	a.Seq = r.Seq
	return a, nil
}
