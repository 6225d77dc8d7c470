package operate

import (
	"context"
	"fmt"

	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
)

// ClearRequest says whose counters are to be full again: an account's (with an
// address: its pair there too), an address's, a network's, a device's, or those
// of the account of a decision at its address.
type ClearRequest struct {
	Realm       string `json:"realm"`
	Account     string `json:"account"`
	AccountHash string `json:"account_hash"`
	IP          string `json:"ip"`
	Network     string `json:"network"`
	Device      string `json:"device"`
	DeviceHash  string `json:"device_hash"`
	Decision    string `json:"decision"`
	Reason      string `json:"reason"`
	DryRun      bool   `json:"dry_run"`
}

// Cleared is the answer to a ClearRequest.
type Cleared struct {
	Changed bool `json:"changed"` // with DryRun: something would have
	DryRun  bool `json:"dry_run"`
	// Counters is how many buckets and marks of suspicion were taken away.
	Counters int               `json:"counters"`
	Target   escalation.Target `json:"target"`
	Seq      int64             `json:"seq,omitzero"` // in the journal
}

// pairsCleared is how many addresses of late an account's pairs are cleared at.
const pairsCleared = 100

// Clear gives back what was spent: the buckets of the target are full again on
// every instance within a second, and its networks no longer suspect. Nothing else
// is touched: revocations stand, proofs and codes that were used stay so.
// Errors: Faults, ErrRealm, ErrStore.
func (d *Desk) Clear(ctx context.Context, w *Who, q *ClearRequest) (*Cleared, error) {
	realm, err := d.realm(w, q.Realm)
	if err != nil {
		return nil, err
	}
	faults := escalation.Faults{}
	checkReason(q.Reason, &faults)
	s := &escalation.Subject{Realm: realm, Account: q.Account, AccountHash: q.AccountHash, IP: q.IP,
		Network: q.Network, Device: q.Device, DeviceHash: q.DeviceHash}
	if q.Decision != "" {
		if _, err := d.decided(ctx, s, q.Decision, &faults); err != nil {
			return nil, err
		}
	}
	if err := faultsOf(faults); err != nil {
		return nil, err
	}
	t, err := d.c.Guard.Target(s)
	if err != nil {
		return nil, err
	}
	if t.Account != "" && len(t.Devices) == 0 {
		if err := d.pairs(ctx, realm, t); err != nil {
			return nil, err
		}
	}
	n, err := d.clear(ctx, t, q.DryRun)
	if err != nil {
		return nil, unreachable(err)
	}
	a := &Cleared{Changed: n > 0, DryRun: q.DryRun, Counters: n, Target: *t}
	if q.DryRun {
		return a, nil
	}
	r := &Record{Action: ActionClear, Realm: realm, Reason: q.Reason, Changed: n > 0, Is: fmt.Sprintf("%d counters cleared", n), Target: t}
	if err := d.Book(ctx, w, r); err != nil {
		return nil, unreachable(err)
	}
	a.Seq = r.Seq
	return a, nil
}

// decided makes a decision's account and address the subject. It returns nil where
// it adds a fault.
func (d *Desk) decided(ctx context.Context, s *escalation.Subject, id string, faults *escalation.Faults) (*Decision, error) {
	if s.Account+s.AccountHash+s.IP+s.Network+s.Device+s.DeviceHash != "" {
		faults.Add("decision", "not_with_others")
		return nil, nil
	}
	found, err := d.late(ctx, s.Realm, byID(id))
	switch {
	case err != nil:
		return nil, unreachable(err)
	case len(found) == 0:
		faults.Add("decision", "unknown")
		return nil, nil
	}
	e := &found[len(found)-1] // of an attempt and its outcome, the attempt
	s.AccountHash, s.IP, s.Flow = e.Account, e.IP, e.Flow
	return e, nil
}

// pairs adds the addresses of late: nothing else names an account's pairs.
func (d *Desk) pairs(ctx context.Context, realm string, t *escalation.Target) error {
	events, err := d.late(ctx, realm, Query{Account: t.Account, Most: pairsCleared})
	if err != nil {
		return unreachable(err)
	}
	seen := map[string]bool{t.IP: true}
	for _, e := range events {
		if !seen[e.IP] {
			seen[e.IP] = true
			t.At = append(t.At, e.IP)
		}
	}
	return nil
}

// clear counts, and unless dry takes away, what counts the target in the store. What
// this instance's flood guard has is counted, too, and taken away with every
// other instance's when the journal is read.
func (d *Desk) clear(ctx context.Context, t *escalation.Target, dry bool) (n int, err error) {
	c := d.c.Guard.Counters(t)
	if dry {
		n, err = d.c.Store.Held(ctx, c.Buckets)
	} else {
		n, err = d.c.Store.Clear(ctx, c.Buckets)
	}
	if err != nil {
		return n, err
	}
	here, err := d.c.Guard.HeldHere(ctx, &c)
	if err != nil {
		return n, err
	}
	n += here
	for _, key := range c.Suspects {
		gone, err := d.unsuspect(ctx, key, dry)
		if err != nil {
			return n, err
		}
		if gone {
			n++
		}
	}
	return n, nil
}

// unsuspect ends the suspicion of a network.
func (d *Desk) unsuspect(ctx context.Context, key string, dry bool) (bool, error) {
	if dry {
		was, err := d.c.Store.Get(ctx, key)
		return was != nil, err
	}
	return keys.Change(ctx, d.c.Store, key, func(was []byte) ([]byte, int64, bool, error) { return nil, 0, was != nil, nil })
}

// clearHere does what a clear leaves to each instance.
func (d *Desk) clearHere(ctx context.Context, t *escalation.Target) error {
	if t == nil {
		return nil
	}
	c := d.c.Guard.Counters(t)
	if _, err := d.c.Guard.ClearHere(ctx, &c); err != nil {
		return err
	}
	if d.c.Here == nil {
		return nil
	}
	for _, key := range c.Suspects {
		if err := d.c.Here.Learn(ctx, key, keys.EncodeUntil(0), keys.Second); err != nil {
			return err
		}
	}
	return d.c.Here.ClearHere(ctx, c.Buckets)
}
