package operate

import (
	"context"
	"time"

	"github.com/guardd/guardd/escalation"
)

// ExplainRequest asks why: about an account, an address, both, a network, a
// device, or one decision.
type ExplainRequest struct {
	Realm       string `json:"realm"`
	Flow        string `json:"flow"`
	Account     string `json:"account"`
	AccountHash string `json:"account_hash"`
	IP          string `json:"ip"`
	Network     string `json:"network"`
	Device      string `json:"device"`
	DeviceHash  string `json:"device_hash"`
	Decision    string `json:"decision"`
}

// Explained is the answer: how things are now, and how they were.
type Explained struct {
	escalation.Explanation
	// Decision is the decision that was asked about; of an account without an
	// address its last that asked for more, whose address is then explained.
	// Its tiers are the limits as it found them.
	Decision *Decision `json:"decision,omitempty"`
	// Recent are decisions and outcomes of late about the same, newest first.
	Recent []Decision `json:"recent"`
	// Kept: decisions are kept at all.
	Kept bool `json:"decisions_kept"`
}

// recentShown is how many events an explanation shows, recentSearched in how many
// the last decision that asked for more is looked for.
const (
	recentShown    = 20
	recentSearched = 200
)

// Explain says what an attempt would be answered now and was answered of late,
// and why. Errors: Faults, ErrRealm, ErrStore.
func (d *Desk) Explain(ctx context.Context, w *Who, q *ExplainRequest) (*Explained, error) {
	realm, err := d.realm(w, q.Realm)
	if err != nil {
		return nil, err
	}
	s := &escalation.Subject{Realm: realm, Flow: q.Flow, Account: q.Account, AccountHash: q.AccountHash, IP: q.IP,
		Network: q.Network, Device: q.Device, DeviceHash: q.DeviceHash}
	a := &Explained{Recent: []Decision{}, Kept: d.c.Recents != nil}
	if q.Decision != "" {
		faults := escalation.Faults{}
		if a.Decision, err = d.decided(ctx, s, q.Decision, &faults); err != nil {
			return nil, err
		}
		if err := faultsOf(faults); err != nil {
			return nil, err
		}
	}
	t, err := d.c.Guard.Target(s)
	if err != nil {
		return nil, err
	}
	if err := d.recent(ctx, realm, s, t, a); err != nil {
		return nil, err
	}
	x, err := d.c.Guard.Explain(ctx, s)
	if err != nil {
		return nil, err
	}
	a.Explanation = *x
	return a, nil
}

// recent finds what was decided of late, and the address of an account that is
// asked about without one.
func (d *Desk) recent(ctx context.Context, realm string, s *escalation.Subject, t *escalation.Target, a *Explained) error {
	q := Query{Account: t.Account, IP: t.IP, Network: t.Network, Most: recentSearched}
	if len(t.Devices) > 0 {
		q.Device = t.Devices[0].Hash
	}
	events, err := d.late(ctx, realm, q)
	if err != nil {
		a.Kept = false // what is now can be told all the same
		d.c.Log.Warn("decisions of late cannot be read", "error", err)
		return nil
	}
	a.Recent = append(a.Recent, events[:min(len(events), recentShown)]...)
	if a.Decision == nil && t.Account != "" && t.IP == "" && t.Network == "" {
		if a.Decision = lastAsked(events); a.Decision != nil {
			s.IP = a.Decision.IP
			if s.Flow == "" {
				s.Flow = a.Decision.Flow
			}
		}
	}
	return nil
}

// lastAsked is the last decision that asked for more, else the last of all.
func lastAsked(events []Decision) *Decision {
	var last *Decision
	for i := range events {
		e := &events[i]
		if e.Outcome != "" {
			continue
		}
		if e.Would != string(escalation.ActionAllow) {
			return e
		}
		if last == nil {
			last = e
		}
	}
	return last
}

// lateFor bounds a look at the decisions of late: all that are kept, where few or
// none are what is looked for.
const lateFor = 8 * time.Second

// late finds decisions of late; none where nobody keeps them.
func (d *Desk) late(ctx context.Context, realm string, q Query) ([]Decision, error) {
	if d.c.Recents == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lateFor)
	defer cancel()
	return d.c.Recents.Recent(ctx, realm, q)
}
