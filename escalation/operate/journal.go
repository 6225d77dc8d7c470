package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
)

// The actions of a Record.
const (
	ActionClear   = "clear"
	ActionList    = "list.set"
	ActionUnlist  = "list.remove"
	ActionPin     = "posture.pin"
	ActionRelease = "posture.release"
	ActionReload  = "reload"
)

// Actions lists all of them, for metrics and documents.
var Actions = []string{ActionClear, ActionList, ActionUnlist, ActionPin, ActionRelease, ActionReload}

// Record is one thing that an operator did.
type Record struct {
	Seq    int64     `json:"seq"`
	At     time.Time `json:"at"`
	By     string    `json:"by"` // the key's name
	Action string    `json:"action"`
	Realm  string    `json:"realm,omitempty"` // "" is all
	Reason string    `json:"reason"`
	// Changed: something was not already so.
	Changed bool `json:"changed"`
	// Was and Is say what changed, for people: counters cleared, an entry, a
	// posture.
	Was string `json:"was,omitempty"`
	Is  string `json:"is,omitempty"`
	// Target is who was cleared.
	Target *escalation.Target `json:"target,omitempty"`
	List   string             `json:"list,omitempty"`
	// CIDRs are the first cidrsKept of Networks: 10,000 feeds of 10,000 networks
	// would not be a bounded audit.
	CIDRs    []string `json:"cidrs,omitempty"`
	Networks int      `json:"networks,omitzero"`
	// Instance is where it was asked for.
	Instance string `json:"instance"`
}

const cidrsKept = 100

// of says which networks of a list a record is about.
func (r *Record) of(list string, all []string) *Record {
	r.List, r.CIDRs, r.Networks = list, all[:min(len(all), cidrsKept)], len(all)
	return r
}

// Book writes down what w has done: r.Action, Realm, Reason, Changed, Was and Is;
// the rest is filled in. Every instance then does its part (see apply), this one
// at once. Errors: the store's.
func (d *Desk) Book(ctx context.Context, w *Who, r *Record) error {
	r.At, r.By, r.Instance = d.c.Guard.Now(), w.Name, d.instance
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if r.Seq, err = d.journal.Append(ctx, b); err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	d.c.Log.Info("operator", "by", r.By, "action", r.Action, "realm", r.Realm, "reason", r.Reason, "changed", r.Changed,
		"was", r.Was, "is", r.Is, "list", r.List, "networks", r.Networks, "account_hash", accountOf(r.Target), "seq", r.Seq)
	// It is done: what cannot be taken over now will be at the next look.
	if err := d.Look(ctx); err != nil {
		d.c.Log.Warn("an operator's change is not taken over here yet", "error", err)
	}
	return nil
}

func accountOf(t *escalation.Target) string {
	if t == nil {
		return ""
	}
	return t.Account
}

// Audit returns what operators did, newest first: at most most entries before the
// number before (0: the newest), of the realms that are the operator's and, when
// realm is given, of that and of all.
func (d *Desk) Audit(ctx context.Context, w *Who, realm string, before int64, most int) ([]Record, error) {
	faults := escalation.Faults{}
	if most < 0 || most > 1000 {
		faults.Add("limit", "out_of_range")
	}
	if before < 0 {
		faults.Add("before", "out_of_range")
	}
	if err := faultsOf(faults); err != nil {
		return nil, err
	}
	if realm != "" {
		if err := w.may(realm); err != nil {
			return nil, err
		}
	}
	if most == 0 {
		most = 50
	}
	last, err := d.journal.Last(ctx)
	if err != nil {
		return nil, unreachable(err)
	}
	if before > 0 {
		last = min(last, before-1)
	}
	all := []Record{}
	const page = 100
	for last > 0 && len(all) < most {
		entries, err := d.journal.Read(ctx, last-page+1, last)
		if err != nil {
			return nil, unreachable(err)
		}
		if len(entries) == 0 {
			break // older ones are no longer kept
		}
		for i := len(entries) - 1; i >= 0 && len(all) < most; i-- {
			r, err := readRecord(entries[i])
			if err != nil {
				return nil, err
			}
			if r.Realm == "" || (realm == "" || r.Realm == realm) && w.may(r.Realm) == nil {
				all = append(all, *r)
			}
		}
		last = entries[0].Seq - 1
	}
	return all, nil
}

func readRecord(e keys.Entry) (*Record, error) {
	r := new(Record)
	if err := json.Unmarshal(e.Value, r); err != nil {
		return nil, fmt.Errorf("entry %d of the journal: %w", e.Seq, err)
	}
	r.Seq = e.Seq
	return r, nil
}

// Run looks at the journal until ctx ends. Failed, when not nil, is told of looks
// that failed.
func (d *Desk) Run(ctx context.Context, failed func(error)) {
	ticker := time.NewTicker(d.c.Every)
	defer ticker.Stop()
	for {
		if err := d.Look(ctx); err != nil && failed != nil && ctx.Err() == nil {
			failed(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Age is the time since the journal was last looked at to its end; before the
// first look, since New.
func (d *Desk) Age() time.Duration { return time.Since(time.UnixMicro(d.looked.Load())) }

// renewEvery is how often the lists are read and written anew.
const renewEvery = 24 * time.Hour

// Look takes over what operators have done since the last look. What it cannot
// it tries again at the next, and goes on with the rest: where one node of a
// Cluster is gone, what is done in the realms on the others must not wait for it.
func (d *Desk) Look(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	last, err := d.journal.Last(ctx)
	if err != nil {
		return err
	}
	if last < d.seen || last-d.seen > JournalKeeps && d.begun || time.Now().After(d.renew) {
		d.listed, d.renew = map[string]bool{}, time.Now().Add(renewEvery) // another store, or more was missed than is kept
	}
	if last < d.seen || !d.begun {
		d.seen, d.begun = last, true // an instance that has just come has nothing to clear
	}
	entries, err := d.journal.Read(ctx, d.seen+1, last)
	if err != nil {
		return err
	}
	due := d.behind
	for _, e := range entries {
		if r, err := readRecord(e); err != nil {
			d.c.Log.Error("an operator's change is not understood", "error", err)
		} else {
			due = append(due, r)
		}
	}
	d.seen, d.behind = last, nil
	errs := d.applyAll(ctx, due)
	if errs = errors.Join(errs, d.takeLists(ctx)); errs == nil {
		d.looked.Store(time.Now().UnixMicro())
	}
	return errs
}

// applyAll applies records, the newest first: what was to be done again may fail
// again, and take its time. Each realm that fails is left for the next look.
func (d *Desk) applyAll(ctx context.Context, due []*Record) (errs error) {
	failed := map[string]bool{}
	for _, r := range slices.Backward(due) {
		if !failed[r.Realm] {
			err := d.apply(ctx, r)
			if err == nil {
				continue
			}
			failed[r.Realm], errs = true, errors.Join(errs, fmt.Errorf("realm %s: %w", r.Realm, err))
		}
		d.behind = append(d.behind, r)
	}
	slices.Reverse(d.behind)
	if n := len(d.behind) - JournalKeeps; n > 0 {
		d.behind = d.behind[n:]
	}
	return errs
}

// apply does in this instance what a record says. It may be repeated.
func (d *Desk) apply(ctx context.Context, r *Record) (err error) {
	switch r.Action {
	case ActionClear:
		err = d.clearHere(ctx, r.Target)
	case ActionList, ActionUnlist:
		err = d.takeList(ctx, r.Realm)
	case ActionPin, ActionRelease:
		err = d.takePosture(ctx, r.Realm)
	case ActionReload:
		if r.Instance != d.instance && d.c.Reload != nil {
			_ = d.c.Reload(false) // it has said what is wrong
		}
	}
	if err == nil {
		d.c.Applied(r.Action)
	}
	return err
}
