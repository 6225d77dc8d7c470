package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
)

// MaxPin is the longest that a posture can be pinned.
const MaxPin = 30 * 24 * time.Hour

// PinRequest pins a realm's posture.
type PinRequest struct {
	Realm     string `json:"realm"`
	Posture   string `json:"posture"`
	ExpiresIn string `json:"expires_in"` // as 90m or 24h
	Reason    string `json:"reason"`
	DryRun    bool   `json:"dry_run"`
}

// ReleaseRequest ends a pin: the aggregator's posture counts again.
type ReleaseRequest struct {
	Realm  string `json:"realm"`
	Reason string `json:"reason"`
	DryRun bool   `json:"dry_run"`
}

// Posture is a realm's posture, and whether a request changed it.
type Posture struct {
	Realm string `json:"realm"`
	escalation.PostureNow
	Changed bool  `json:"changed"`
	DryRun  bool  `json:"dry_run"`
	Seq     int64 `json:"seq,omitzero"`
}

// Posture looks. Errors: Faults, ErrRealm, ErrStore.
func (d *Desk) Posture(ctx context.Context, w *Who, realm string) (*Posture, error) {
	realm, err := d.realm(w, realm)
	if err != nil {
		return nil, err
	}
	s, err := d.state(ctx, realm)
	if err != nil {
		return nil, unreachable(err)
	}
	return &Posture{Realm: realm, PostureNow: escalation.PostureOf(s, d.now())}, nil
}

// InForce is the posture in force, for the process itself: metrics ask for it at each
// scrape. Errors: ErrRealm, ErrStore.
func (d *Desk) InForce(ctx context.Context, realm string) (escalation.PostureNow, error) {
	p, err := d.Posture(ctx, &Who{}, realm)
	if err != nil {
		return escalation.PostureNow{}, err
	}
	return p.PostureNow, nil
}

func (d *Desk) now() int64 { return d.c.Guard.Now().UnixMicro() }

func (d *Desk) state(ctx context.Context, realm string) (keys.State, error) {
	b, err := d.c.Store.Get(ctx, d.spaces(realm)[0].State())
	return keys.DecodeState(b), err
}

// pinSlack is how far apart two ends of a pin are one: whoever repeats a request
// whose reply was lost changes nothing.
const pinSlack = 5 * keys.Second

// Pin sets the posture for some time, whatever the aggregator finds. It counts in
// the next attempt on every instance. Errors: Faults, ErrRealm, ErrStore.
func (d *Desk) Pin(ctx context.Context, w *Who, q *PinRequest) (*Posture, error) {
	realm, err := d.realm(w, q.Realm)
	if err != nil {
		return nil, err
	}
	faults := escalation.Faults{}
	checkReason(q.Reason, &faults)
	p, err := keys.ParsePosture(q.Posture)
	if err != nil {
		faults.Add("posture", "unknown")
	}
	length, err := time.ParseDuration(q.ExpiresIn)
	switch {
	case q.ExpiresIn == "":
		faults.Add("expires_in", "missing")
	case err != nil:
		faults.Add("expires_in", "not_duration")
	case length < time.Second || length > MaxPin:
		faults.Add("expires_in", "out_of_range")
	}
	if err := faultsOf(faults); err != nil {
		return nil, err
	}
	until := d.now() + length.Microseconds()
	return d.setPin(ctx, w, realm, q.DryRun, &Record{Action: ActionPin, Reason: q.Reason}, func(s keys.State) (keys.State, bool) {
		apart := max(s.PinUntil-until, until-s.PinUntil)
		same := s.Pin == p && apart <= pinSlack
		s.Pin, s.PinUntil = p, until
		return s, !same
	})
}

// Release ends a pin. Errors: Faults, ErrRealm, ErrStore.
func (d *Desk) Release(ctx context.Context, w *Who, q *ReleaseRequest) (*Posture, error) {
	realm, err := d.realm(w, q.Realm)
	if err != nil {
		return nil, err
	}
	faults := escalation.Faults{}
	checkReason(q.Reason, &faults)
	if err := faultsOf(faults); err != nil {
		return nil, err
	}
	now := d.now()
	return d.setPin(ctx, w, realm, q.DryRun, &Record{Action: ActionRelease, Reason: q.Reason}, func(s keys.State) (keys.State, bool) {
		had := now < s.PinUntil
		s.Pin, s.PinUntil = keys.Normal, 0
		return s, had
	})
}

func (d *Desk) setPin(ctx context.Context, w *Who, realm string, dry bool, r *Record, change func(keys.State) (keys.State, bool)) (*Posture, error) {
	was, err := d.state(ctx, realm)
	if err != nil {
		return nil, unreachable(err)
	}
	is, changed := change(was)
	if !changed {
		is = was
	}
	if !dry {
		if changed, err = d.spaces(realm).ChangeState(ctx, d.c.Store, change); err != nil {
			return nil, unreachable(err)
		}
	}
	a := &Posture{Realm: realm, PostureNow: escalation.PostureOf(is, d.now()), Changed: changed, DryRun: dry}
	if dry {
		return a, nil
	}
	r.Realm, r.Changed, r.Was, r.Is = realm, changed, d.said(was), d.said(is)
	if err := d.Book(ctx, w, r); err != nil {
		return nil, unreachable(err)
	}
	a.Seq = r.Seq
	return a, nil
}

// said is a state for people.
func (d *Desk) said(s keys.State) string {
	p := escalation.PostureOf(s, d.now())
	if p.Pin == "" {
		return p.Posture + ", not pinned"
	}
	return fmt.Sprintf("%s, pinned until %s", p.Pin, p.PinUntil.Format(time.RFC3339))
}

// takePosture lets this instance's twin know, for an outage.
func (d *Desk) takePosture(ctx context.Context, realm string) error {
	if d.c.Here == nil || d.c.Guard.Policy().Realms[realm] == nil {
		return nil
	}
	for _, s := range d.spaces(realm) {
		b, err := d.c.Store.Get(ctx, s.State())
		if err != nil {
			return err
		}
		if b == nil {
			b = keys.State{}.Encode()
		}
		if err := d.c.Here.Learn(ctx, s.State(), b, keys.StateLifetime); err != nil {
			return err
		}
	}
	return nil
}
