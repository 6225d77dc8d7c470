package escalation

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/trace"
)

// Report books the outcome of an attempt. may says whether the caller may act
// for the attempt's realm; nil is any. Errors: Faults, ErrRealm (nothing was
// done), ErrStore (we do not know; repeat it).
func (g *Guard) Report(ctx context.Context, r *Report, may func(realm string) bool) (*Recorded, error) {
	traced := trace.From(ctx)
	defer traced.Begin(trace.Guard).End()
	outcome, known := keys.ParseOutcome(r.Outcome)
	t, realm, err := g.reported(r, known, may)
	if err != nil {
		return nil, err
	}
	rec := &Recorded{Advice: []string{}, Realm: t.realm, Flow: Flows[t.flow], Account: t.account, IP: t.ip, Outcome: outcome, Trace: t.trace(realm.quiet)}
	rec.Breached, rec.Request = rec.Breached || r.PasswordBreached, traced.Name()
	if realm.names != nil {
		_, name, err := realm.account(r.Account)
		if err != nil {
			return nil, err // reported has read it
		}
		rec.Name = realm.names.seal(name, t.account)
	}
	booked, err := g.hold(ctx, rec, t, realm, r)
	if err != nil {
		return nil, err
	}
	ret := g.giving(t, realm, booked)
	var rcp keys.Receipt
	stop := traced.Begin(trace.Store)
	err = g.c.Store.Give(ctx, ret, &rcp)
	stop.End()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStore, err)
	}
	if rcp.Status == keys.Late {
		return nil, fmt.Errorf("%w: it came to decide too late", ErrStore)
	}
	rec.Recorded, rec.Duplicate, rec.Degraded = rcp.Recorded, rcp.Duplicate, rcp.Degraded
	rec.Now, rec.Booked = micros(rcp.Now), booked
	if rcp.Expired {
		rec.AttemptError, rec.Held, rec.ProofError = string(ProofExpired), false, ""
		return rec, nil
	}
	if rec.Held && rcp.Prior == keys.Success { // it was finished before
		rec.Held, rec.ProofError, booked = false, "", keys.Success
		rec.Booked = booked
	}
	// A repeated success is answered like the first: its reply may have been
	// lost on the way.
	stands := rcp.Recorded || rcp.Duplicate && rcp.Prior == booked
	rec.Held = rec.Held && stands
	if outcome == keys.Success && stands {
		if err := g.succeeded(ctx, rec, t, realm, r, &rcp); err != nil {
			return nil, err
		}
	}
	// Of an unknown account there is nobody to notify.
	if rcp.Recorded && outcome != keys.UnknownAccount && rcp.Failures >= keys.MaxFailures {
		rec.Advice = append(rec.Advice, AdviceNotifyUser)
	}
	return rec, nil
}

// succeeded makes the browser known, or asks whose it is, and says what is to
// become of a password that has leaked.
func (g *Guard) succeeded(ctx context.Context, rec *Recorded, t *attemptToken, realm *liveRealm, r *Report, rcp *keys.Receipt) (err error) {
	if rec.Breached {
		rec.Advice = append(rec.Advice, AdviceResetPassword)
	}
	if rec.Held {
		rec.Advice = append(rec.Advice, AdviceVerify)
		rec.Challenge, err = g.holding(t, realm, r, rcp.Now)
		return err
	}
	known := g.mint(rec, t, r.Device, rcp.Now)
	if rcp.Recorded {
		g.notifySuccess(ctx, realm, t, r.Account, known, rcp)
	}
	return nil
}

// reported opens and checks a report.
func (g *Guard) reported(r *Report, known bool, may func(string) bool) (*attemptToken, *liveRealm, error) {
	faults := &Faults{}
	t := g.c.Secrets.openAttempt(r.Attempt)
	var realm *liveRealm
	if t != nil {
		if may != nil && !may(t.realm) {
			return nil, nil, ErrRealm
		}
		realm = g.live.Load().realms[t.realm]
	}
	var account keys.Account
	var err error
	switch {
	case r.Attempt == "":
		faults.Add("attempt", "empty")
	case realm == nil: // forged, or of a realm that is no more
		faults.Add("attempt", "invalid")
	}
	if realm == nil {
		_, err = keys.Fold.Apply(r.Account)
	} else {
		account, _, err = realm.account(r.Account)
	}
	switch {
	case err != nil:
		faults.Add("account", "%v", err)
	case realm != nil && account != t.account:
		// A visitor who swaps his own attempt into another's form must not
		// mint that account a device.
		faults.Add("account", "wrong_account")
	}
	if realm != nil && r.ReturnURL != "" {
		checkReturnURL(r.ReturnURL, realm.origins, faults)
	}
	switch {
	case r.Outcome == "":
		faults.Add("outcome", "empty")
	case !known:
		faults.Add("outcome", "unknown")
	}
	if len(*faults) > 0 {
		return nil, nil, *faults
	}
	return t, realm, nil
}

// giving names what the outcome touches.
func (g *Guard) giving(t *attemptToken, realm *liveRealm, outcome keys.Outcome) *keys.Return {
	flow, of := Flows[t.flow], realm.visitor(t.account, t.ip)
	rules := realm.flows[t.flow].kinds[kindOf(t.ip, t.listed, t.device)]
	ret := &keys.Return{
		Now: g.storeNow(), Rules: rules, Keys: bucketKeys(rules, flow, of, t.deviceID),
		StateKey: of.State(), KKeys: kKeys(of, t.ip),
		Outcome: outcome, Stamp: t.stamp, Expires: t.expires(), Took: t.took,
		OutcomeKey:  of.Outcome(idText(t.id)),
		PlaceKey:    realm.placeKey(of),
		FailuresKey: of.Failures(t.account),
		WrongKey:    wrongKey(flow, t.tag, of), Tags: [2]Tag{t.tag, t.tagBefore},
	}
	if t.degraded {
		// It took from a twin. Only that twin can give back; the shared store,
		// and anybody else's twin, would be given what they never lost.
		if ret.Local = t.instance == g.c.Instance; !ret.Local {
			ret.Took = nil
		}
	}
	return ret
}

// mint makes the browser a known one: what it knew before, in this realm, and
// this account under a fresh id. The id comes of the attempt's, so a repeated
// success is the same device and not another bucket. known reports whether the
// browser was one of this account's before.
func (g *Guard) mint(rec *Recorded, t *attemptToken, old string, now int64) (known bool) {
	sum := sha256.Sum256(append([]byte("guardd device 1 "), t.id[:]...))
	fresh := deviceEntry{account: t.account, id: [16]byte(sum[:16]), issued: t.stamp, born: t.born}
	d := &deviceToken{realm: t.realm, entries: []deviceEntry{fresh}}
	if o := g.c.Secrets.openDevice(t.realm, old); o != nil {
		for _, e := range o.entries {
			switch {
			case now >= e.expires():
			case e.account == t.account:
				known = true
			default:
				d.entries = append(d.entries, e)
			}
		}
	}
	slices.SortStableFunc(d.entries[1:], func(a, b deviceEntry) int { return cmp.Compare(b.issued, a.issued) })
	d.entries = d.entries[:min(len(d.entries), maxDeviceAccounts)]
	rec.Device, rec.DeviceID = g.c.Secrets.seal(forDevice, d.encode()), fresh.id
	rec.DeviceExpires = micros(fresh.expires())
	return known
}
