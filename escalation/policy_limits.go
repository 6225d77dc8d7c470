package escalation

import (
	"errors"

	"github.com/guardd/guardd/keys"
)

// This file checks single rows: impossible numbers, and rungs that could never
// show.

// row returns the row of the table, with what it takes from another filled in;
// ok is false when it is switched off (a network row goes with its ip row).
func (f *Flow) row(i int) (l Limit, ok bool) {
	l = f.Limits[i]
	if l.Tier != "network" {
		return l, !l.Off
	}
	for j := range f.Limits {
		ip := f.Limits[j]
		if ip.Tier != "ip" || ip.Name != l.Name {
			continue
		}
		if ip.Off {
			return l, !l.Off && l.Capacity != nil && !l.Refill.IsZero()
		}
		own := l
		l = own.over(ip)
		l.Tier = own.Tier
		if own.Capacity == nil && ip.Capacity != nil {
			n := *ip.Capacity * networkTimes
			l.Capacity = &n
		}
		if own.Refill.IsZero() {
			l.Refill.Count *= networkTimes
		}
		break
	}
	return l, !l.Off
}

// limit returns the row's limit; the zero Limit where it is only observed.
func (l *Limit) limit() (keys.Limit, error) {
	if l.Capacity == nil && l.Refill.IsZero() {
		return keys.Limit{}, nil
	}
	if l.Capacity == nil {
		return keys.Limit{}, keys.ErrCapacity
	}
	return keys.NewLimit(*l.Capacity, l.Refill.Count, l.Refill.Per)
}

func (l *Limit) steps() keys.Steps {
	return keys.Steps{Delay: l.Delay.Threshold(), Captcha: l.Captcha.Threshold(), Verify: l.Verify.Threshold()}
}

// checkRow reports what is wrong with row i of the whole table. path is where
// it was given.
func (f *Flow) checkRow(i int, effects [4]keys.Effect, path string, faults *Faults) {
	l, on := f.row(i)
	if !on {
		return
	}
	limit, ok := l.checkNumbers(effects, path, faults)
	if l.Tier == "ip" && ok {
		f.checkNetwork(i, path, faults)
	}
	if !l.checkShares(path, faults) || !ok {
		return
	}
	switch l.Tier {
	case "device":
		if l.steps() != keys.NoSteps {
			faults.Add(path, "tier device has no rungs: a device that has run out is not trusted until it is full again")
		}
	case "flood":
		if l.steps() != (keys.Steps{Delay: keys.Never, Captcha: keys.Empty, Verify: keys.Never}) {
			faults.Add(path, "tier flood has one rung, captcha, at empty")
		}
	default:
		l.checkRungs(limit, path, faults)
	}
}

// checkNumbers reports impossible numbers.
func (l *Limit) checkNumbers(effects [4]keys.Effect, path string, faults *Faults) (keys.Limit, bool) {
	if l.Refill.bad != "" {
		faults.Add(path+".refill", "%q is not a count per duration such as 20/1h", l.Refill.bad)
		return keys.Limit{}, false
	}
	limit, err := l.limit()
	switch {
	case errors.Is(err, keys.ErrRefill):
		faults.Add(path+".refill", "%v", err)
	case err != nil:
		faults.Add(path+".capacity", "%v", err)
	case limit.Zero() && l.Tier != "global":
		faults.Add(path+".capacity", "%v", keys.ErrCapacity)
	case limit.Zero():
		return limit, true
	case !fits(l.Tier, limit, effects):
		faults.Add(path+".capacity", "%v (counting a shared address of k = %d, and what a posture divides by)", keys.ErrInexact, keys.MaxK)
	default:
		return limit, true
	}
	return keys.Limit{}, false
}

// fits reports whether a limit stays in the exact range whatever it is scaled
// by: the largest k, every posture.
func fits(tier string, l keys.Limit, effects [4]keys.Effect) bool {
	switch tier {
	case "ip", "network", "flood":
		return l.Times(keys.MaxK).Exact()
	case "global":
		for _, e := range effects {
			if !l.Tighten(max(e.Divisor, 1)).Exact() {
				return false
			}
		}
	}
	return true
}

// checkNetwork reports an ip row whose network row, when it follows it, would
// be impossible.
func (f *Flow) checkNetwork(ip int, path string, faults *Faults) {
	for i := range f.Limits {
		n := &f.Limits[i]
		if n.Tier != "network" || n.Name != f.Limits[ip].Name || n.Capacity != nil && !n.Refill.IsZero() {
			continue
		}
		row, on := f.row(i)
		if !on {
			continue
		}
		if limit, err := row.limit(); err != nil || !fits(n.Tier, limit, [4]keys.Effect{}) {
			faults.Add(path+".capacity", "%v (counting that tier network is %d x this)", keys.ErrInexact, networkTimes)
		}
	}
}

// checkShares reports shares that cannot be read.
func (l *Limit) checkShares(path string, faults *Faults) bool {
	ok := true
	for _, s := range l.shares() {
		if s.Percent.bad != "" {
			faults.Add(path+"."+s.name, "%q is not a share such as 70%%, nor empty, nor never", s.Percent.bad)
			ok = false
		}
	}
	return ok
}

type share struct {
	name string
	Percent
}

// shares are the three thresholds, mildest first.
func (l *Limit) shares() [3]share {
	return [3]share{{"delay", l.Delay}, {"captcha", l.Captcha}, {"verify", l.Verify}}
}

// checkRungs reports rungs that could never show, or always would. Shares are
// compared as the units that they stand for, since 5 % of 10 tokens is less
// than a token, and so less than empty.
func (l *Limit) checkRungs(limit keys.Limit, path string, faults *Faults) {
	if limit.Zero() { // to be learned: compare the shares themselves
		limit = keys.Limit{Capacity: 1e6, Count: 1, Period: 1}
	}
	empty := keys.Empty.Units(limit, limit.Period)
	stricter, below := int64(-1), ""
	any := false
	shares := l.shares()
	for i := len(shares) - 1; i >= 0; i-- {
		s := shares[i]
		t := s.Threshold()
		if t == keys.Never {
			continue
		}
		any = true
		at := t.Units(limit, limit.Period)
		switch {
		case at < empty:
			faults.Add(path+"."+s.name, "is less than one token of %d, and never reached before the limit is empty: say empty", limit.Capacity)
		case at >= limit.Units():
			faults.Add(path+"."+s.name, "is asked of a full bucket already: nothing milder could ever show")
		case below != "" && at <= stricter:
			faults.Add(path+"."+s.name, "begins no earlier than %s, so it can never show", below)
		}
		stricter, below = at, s.name
	}
	if !any {
		faults.Add(path, "leads to no rung: give one, or switch the row off")
	}
}

// checkWhole reports tables that could not keep the promises.
func (f *Flow) checkWhole(path string, faults *Faults) {
	on := map[string]bool{}
	for i := range f.Limits {
		if _, ok := f.row(i); ok {
			l := &f.Limits[i]
			on[l.Tier] = true
			on[l.Tier+"."+l.Name] = true
		}
	}
	if !on["pair"] && !on["account"] {
		faults.Add(path, "tier pair or account is needed: without both, an account can be guessed at from many addresses without end")
	}
	if !on["device.burst"] && !on["device.sustained"] {
		faults.Add(path, "tier device needs burst or sustained: owners on known devices would have no way past strangers")
	}
}
