package moments

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/keys"
)

// posture is what is in force of a realm, and why.
type posture struct {
	Posture string `json:"posture"`
	// PinUntil is until when it is pinned, 0 where it is not; Until is until when
	// what the aggregator has found counts, if it is more than normal.
	PinUntil int64 `json:"pin_until,omitzero"`
	Until    int64 `json:"until,omitzero"`
}

func (p posture) orNormal() posture {
	if p.Posture == "" {
		p.Posture = keys.Normal.String()
	}
	return p
}

// differs reports whether anything is to be told of postures.
func (l *ledger) differs(postures map[string]posture) bool {
	for realm, is := range postures {
		was := l.Postures[realm].orNormal()
		if was.Posture != is.Posture || was.PinUntil != is.PinUntil {
			return true
		}
	}
	return false
}

// postures reads those in force. A realm whose shard does not answer is left out,
// and told of later.
func (t *Teller) postures(ctx context.Context, now int64) (map[string]posture, error) {
	all := map[string]posture{}
	var errs error
	for _, realm := range t.c.Realms() {
		shards, ok := t.c.Shards(realm)
		if !ok {
			continue
		}
		b, err := t.c.Store.Get(ctx, keys.NewSpaces(realm, shards)[0].State())
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("posture of %s: %w", realm, err))
			continue
		}
		s := keys.DecodeState(b)
		p := posture{Posture: s.Effective(now).String()}
		if now < s.PinUntil {
			p.PinUntil = s.PinUntil
		}
		if s.Posture > keys.Normal {
			p.Until = s.Until
		}
		all[realm] = p
	}
	return all, errs
}

func postureChange(realm string, was, is posture, now int64) aggregate.Finding {
	f := aggregate.Finding{V: aggregate.FindingVersion, ID: aggregate.PostureChange + "-" + strconv.FormatInt(now, 36), Realm: realm,
		What: aggregate.PostureChange, State: aggregate.FindingOnce, Start: time.UnixMicro(now).UTC(), Last: time.UnixMicro(now).UTC(),
		Was: was.Posture, Is: is.Posture, Reason: because(was, is, now)}
	if is.Posture != keys.Normal.String() {
		f.Posture = is.Posture
	}
	return f
}

// because says who changed the posture.
func because(was, is posture, now int64) string {
	switch {
	case is.PinUntil > 0:
		return "an operator has pinned it until " + time.UnixMicro(is.PinUntil).UTC().Format(time.RFC3339)
	case was.PinUntil > 0 && was.PinUntil <= now:
		return "an operator's pin has ended"
	case was.PinUntil > 0:
		return "an operator has released it"
	case is.Posture == keys.Normal.String() && is.Until > 0 && is.Until <= now:
		return "nobody has renewed what detection had set"
	}
	return "detection"
}
