package oracle

import (
	"fmt"
	"math/big"
	"slices"
)

// world as one attempt sees it.
type view struct {
	*World
	a     *Ask
	ans   *Answer
	bs    []bucket // brought to the present, by tier
	dirty []bool
}

// Take decides one attempt.
func (w *World) Take(a Ask) Answer {
	if a.Deadline > 0 && a.Now > a.Deadline {
		return Answer{Status: "late", Now: a.Now, ID: a.ID, Device: "none", Proof: "none"}
	}
	if f, ok := w.requests[a.RequestKey]; ok && a.RequestKey != "" && a.Now < f.until {
		return f.again(&a)
	}
	ans := Answer{Status: "decided", Now: a.Now, ID: a.ID, Device: "none", Proof: "none"}
	v := view{World: w, a: &a, ans: &ans, bs: make([]bucket, len(a.Rules.Tiers)), dirty: make([]bool, len(a.Rules.Tiers))}
	ans.Revoked = w.revoked[a.Revoked]
	ans.Posture, ans.Baseline, ans.K = w.inForce(a.State, a.K, a.Now)
	v.present()
	for _, l := range ans.Limits {
		if l.counted && a.Cost > l.Limit.Capacity {
			ans.Status = "impossible"
		}
	}
	if ans.Status != "decided" {
		return ans
	}
	place := w.places[a.Place]
	ans.Familiar = a.Place != "" && place > w.revoked[a.Revoked] && a.Now-place < 30*day
	ans.Repeat = v.again()
	v.device()
	v.ladder()
	v.proof()
	v.take()
	v.write()
	return ans
}

// again reports whether one of the account's last eight wrong passwords is tried
// once more, within a day, and with no revocation since.
func (v *view) again() bool {
	if v.a.Wrong == "" {
		return false
	}
	for _, m := range v.mistakes[v.a.Wrong] {
		if slices.Contains(v.a.Tags[:], m.tag) && v.a.Now-m.at < day {
			if m.at > v.revoked[v.a.Revoked] {
				return true
			}
			v.Undone++
		}
	}
	return false
}

func (f first) again(a *Ask) Answer {
	if f.body != a.Body {
		return Answer{Status: "conflict", Now: a.Now, ID: a.ID, Device: "none", Proof: "none"}
	}
	ans := f.answer
	ans.Replayed = true
	if f.shape != a.Rules.shape() {
		ans.Limits = nil
	}
	return ans
}

func (r *Rules) shape() (s string) {
	for _, t := range r.Tiers {
		s += t.Kind + ":"
		for _, l := range t.Limits {
			s += l.Name + ","
		}
	}
	return s
}

func (w *World) inForce(state string, ks [2]string, now int64) (posture int, baseline Limit, k [2]int64) {
	s := w.states[state]
	if now < s.Until {
		posture = s.Posture
	}
	if now < s.PinUntil {
		posture = s.Pin
	}
	if s.Baseline.fits(exact / divisor / 2) {
		baseline = s.Baseline
	}
	for i, key := range ks {
		k[i] = 1
		if v, ok := w.ks[key]; ok && key != "" && now < v.until {
			k[i] = min(max(v.k, 1), maxK)
		}
	}
	return posture, baseline, k
}

// limit is the limit in force, and whether it counts at all.
func (r *Rules) limit(t *Tier, i int, posture int, baseline Limit, k [2]int64) (Limit, bool) {
	l := t.Limits[i].Limit
	if t.ByPosture {
		if i == 0 && baseline != (Limit{}) {
			l = baseline
		}
		e := r.Effects[posture]
		if l == (Limit{}) || e.Uncounted {
			return l, false
		}
		if d := max(e.Divisor, 1); d > 1 {
			// Posture rounds capacity up, and scales refill by the period.
			l = Limit{(l.Capacity + d - 1) / d, l.Count, l.Period * d}
		}
	}
	if t.ByIP {
		l.Capacity, l.Count = l.Capacity*k[0], l.Count*k[0]
	}
	if t.ByNetwork {
		l.Capacity, l.Count = l.Capacity*k[1], l.Count*k[1]
	}
	return l, true
}

// others adds to a bucket the limits that are not in force here, as they were.
func (b *bucket) others(old *bucket) {
	if old == nil {
		return
	}
	for name, c := range old.cells {
		c.at = min(c.at, b.stamp)
		if _, known := b.cells[name]; !known && c.spent.Sign() > 0 && b.stamp-c.at < kept {
			b.cells[name] = c
		}
	}
}

// spentNow keeps the spent fraction when the capacity has changed, rounded up,
// and lets refill repay.
func spentNow(c cell, l Limit, passed int64) *big.Int {
	s := new(big.Int).Set(c.spent)
	if u := l.units(); c.units.Cmp(u) != 0 {
		fraction := new(big.Rat).SetFrac(c.spent, c.units)
		s = ceil(fraction.Mul(fraction, new(big.Rat).SetInt(u)))
	}
	s.Sub(s, new(big.Int).Mul(num(passed), num(l.Count)))
	if s.Sign() < 0 {
		s.SetInt64(0)
	}
	return s
}

func ceil(r *big.Rat) *big.Int {
	n := new(big.Int).Add(r.Num(), r.Denom())
	return n.Div(n.Sub(n, num(1)), r.Denom())
}

// clock returns the time passed since a stamp and the new stamp: never
// backwards, unless the stamp is further ahead than any time to full.
func clock(stamp, now int64, longest *big.Rat) (passed, fresh int64, broken bool) {
	if stamp <= now {
		return now - stamp, now, false
	}
	if new(big.Rat).SetInt64(stamp-now).Cmp(longest) > 0 {
		return 0, now, true
	}
	return 0, stamp, false
}

// present brings every bucket to the present.
func (v *view) present() {
	for ti := range v.a.Rules.Tiers {
		t := &v.a.Rules.Tiers[ti]
		longest, any := new(big.Rat), false
		at := len(v.ans.Limits)
		for i := range t.Limits {
			l, counted := v.a.Rules.limit(t, i, v.ans.Posture, v.ans.Baseline, v.ans.K)
			v.ans.Limits = append(v.ans.Limits, LimitAnswer{Tier: ti, Index: i, Looked: counted, Limit: l, counted: counted})
			if counted {
				longest, any = maxRat(longest, wholeUp(l.toFull())), true
			}
		}
		old := v.buckets[v.a.Keys[ti]]
		b := bucket{stamp: v.a.Now}
		if old != nil {
			var broken bool
			_, b.stamp, broken = clock(old.stamp, v.a.Now, longest)
			b.distrust = old.distrust
			v.dirty[ti] = broken && any
		}
		for i := at; i < len(v.ans.Limits); i++ {
			l := &v.ans.Limits[i]
			if !l.counted {
				continue
			}
			left := l.Limit.units()
			if old != nil {
				if c, ok := old.cells[t.Limits[l.Index].Name]; ok {
					if c.at < old.stamp {
						v.Kept++
					}
					left.Sub(left, spentNow(c, l.Limit, max(b.stamp-c.at, 0)))
				}
			}
			l.Left = left.Int64()
		}
		v.bs[ti] = b
	}
}

// wholeUp: times are whole microseconds.
func wholeUp(r *big.Rat) *big.Rat { return new(big.Rat).SetInt(ceil(r)) }

func maxRat(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) < 0 {
		return b
	}
	return a
}

func (t *Tier) ofDevice() bool { return t.OwnDevice || t.SharedDevice }

func (v *view) tier(l *LimitAnswer) *Tier { return &v.a.Rules.Tiers[l.Tier] }

// has reports whether l holds the attempt's cost, or one token for a look.
func (v *view) has(l *LimitAnswer) bool {
	return tokens(l.Left, l.Limit.Period).Cmp(new(big.Rat).SetInt64(max(v.a.Cost, 1))) >= 0
}

// device: an authentic device uses its own limits instead of all others. Once
// one of its own runs out it counts for nothing until all are full; while the
// shared one is empty, no device counts.
func (v *view) device() {
	d := v.a.Device
	if d.Issued == 0 {
		return
	}
	if d.Expires <= v.a.Now || d.Issued <= v.revoked[v.a.Revoked] {
		v.ans.Device = "invalid"
		for i := range v.ans.Limits {
			if l := &v.ans.Limits[i]; v.tier(l).ofDevice() {
				l.Looked = false
			}
		}
		return
	}
	anyEmpty, ownFull := false, true
	for i := range v.ans.Limits {
		l := &v.ans.Limits[i]
		if !v.tier(l).ofDevice() {
			continue
		}
		if !v.has(l) {
			anyEmpty = true
			if v.tier(l).OwnDevice && !v.bs[l.Tier].distrust {
				v.bs[l.Tier].distrust = true
				v.dirty[l.Tier] = true
			}
		}
		if v.tier(l).OwnDevice && num(l.Left).Cmp(l.Limit.units()) != 0 {
			ownFull = false
		}
	}
	flagged := false
	for ti := range v.bs {
		if v.a.Rules.Tiers[ti].OwnDevice {
			if ownFull {
				v.bs[ti].distrust = false
			}
			flagged = flagged || v.bs[ti].distrust
		}
	}
	v.ans.Device = "known"
	if anyEmpty || flagged {
		v.ans.Device = "spent"
		return
	}
	for i := range v.ans.Limits {
		if l := &v.ans.Limits[i]; !v.tier(l).ofDevice() {
			l.Looked = false
		}
	}
}

// begun reports whether a rung has begun at threshold th, and by how many whole
// tokens what is left lies below it. Whatever the share, less than the attempt
// needs is below it.
func (v *view) begun(l *LimitAnswer, th int) (bool, int64) {
	if th == Never {
		return false, 0
	}
	left := tokens(l.Left, l.Limit.Period)
	if th != Empty {
		at := big.NewRat(int64(th), 10000)
		at.Mul(at, new(big.Rat).SetInt64(l.Limit.Capacity))
		if least := new(big.Rat).SetInt64(max(v.a.Cost, 1)); at.Cmp(least) >= 0 {
			return left.Cmp(at) <= 0, whole(at.Sub(at, left))
		}
	}
	missing := new(big.Rat).Sub(new(big.Rat).SetInt64(max(v.a.Cost, 1)), left)
	return missing.Sign() > 0, ceil(missing).Int64() - 1
}

// ladder finds the needed rung, looking at what is left before taking.
func (v *view) ladder() {
	if v.ans.Device == "known" {
		return
	}
	wait := int64(0)
	for i := range v.ans.Limits {
		l := &v.ans.Limits[i]
		t := v.tier(l)
		if t.ofDevice() {
			continue
		}
		if v.ans.Familiar && t.SkipFamiliar {
			l.Looked = false
		}
		if !l.Looked {
			continue
		}
		s := t.Limits[l.Index]
		if yes, below := v.begun(l, s.Delay); yes {
			l.Rung = Delay
			if w := v.pace(below); w > wait {
				wait = w
			}
		}
		if yes, _ := v.begun(l, s.Captcha); yes {
			l.Rung = Captcha
		}
		if yes, _ := v.begun(l, s.Verify); yes {
			l.Rung = Verify
		}
		v.ans.Needed = max(v.ans.Needed, l.Rung)
	}
	posture, suspect := v.a.Rules.Effects[v.ans.Posture].Floor, Allow
	for _, key := range v.a.Suspects {
		if key != "" && v.a.Now < v.suspects[key] {
			suspect = Captcha
		}
	}
	if v.ans.Familiar {
		posture, suspect = Allow, Allow
	}
	v.ans.Needed = max(v.ans.Needed, posture, suspect, v.a.Floor)
	if posture == Delay || v.a.Floor == Delay {
		wait = max(wait, v.a.Rules.Base)
	}
	if v.ans.Needed == Delay {
		v.ans.Wait = wait
	}
	if n := v.ans.Needed; n > Allow {
		v.ans.ByPosture, v.ans.BySuspect, v.ans.ByFlood = posture == n, suspect == n, v.a.Floor == n
	}
}

// pace is base x 2^n up to max.
func (v *view) pace(n int64) int64 {
	w := new(big.Int).Lsh(num(v.a.Rules.Base), uint(min(n, 64)))
	if w.Cmp(num(v.a.Rules.Max)) > 0 {
		return v.a.Rules.Max
	}
	return w.Int64()
}

// proof: one that is not needed, or not enough, stays unspent.
func (v *view) proof() {
	p, ans := &v.a.Proof, v.ans
	ans.Let = ans.Needed == Allow
	if p.Key == "" {
		return
	}
	switch {
	case p.Issued <= v.revoked[v.a.Revoked]:
		ans.Proof = "invalid"
	case v.a.Now >= p.Expires:
		ans.Proof = "expired"
	case v.proofs[p.Key] >= p.Uses:
		ans.Proof = "spent"
	case v.a.Now < p.NotBefore:
		ans.Proof = "too_early"
	case ans.Let:
	case p.Rung < ans.Needed:
		ans.Proof = "insufficient"
	case p.Rung == Delay && p.Wait < ans.Wait:
		ans.Proof = "too_early"
	default:
		ans.Proof, ans.Let = "used", true
	}
}

// take takes one cost from every limit that has it, if the attempt is let
// through and is no repeat.
func (v *view) take() {
	if v.a.Cost == 0 || !v.ans.Let && !v.a.Shadow {
		return
	}
	v.ans.Taken = true
	for i := range v.ans.Limits {
		l := &v.ans.Limits[i]
		t := v.tier(l)
		if v.ans.Repeat || !l.Looked || !v.has(l) || t.ofDevice() && v.ans.Device != "known" {
			continue
		}
		l.Left -= v.a.Cost * l.Limit.Period
		l.Took = true
		v.dirty[l.Tier] = true
		if t.OwnDevice && l.Left < l.Limit.Period {
			v.bs[l.Tier].distrust = true
		}
	}
}

func (v *view) write() {
	for ti := range v.bs {
		if !v.dirty[ti] {
			continue
		}
		b := v.bs[ti]
		b.cells = map[string]cell{}
		for i := range v.ans.Limits {
			if l := &v.ans.Limits[i]; l.Tier == ti && l.counted {
				u := l.Limit.units()
				b.cells[v.tier(l).Limits[l.Index].Name] = cell{new(big.Int).Sub(u, num(l.Left)), u, b.stamp}
			}
		}
		b.others(v.buckets[v.a.Keys[ti]])
		v.buckets[v.a.Keys[ti]] = &b
	}
	if v.ans.Proof == "used" && !v.a.Shadow && v.a.Cost > 0 {
		v.proofs[v.a.Proof.Key]++
	}
	if v.a.RequestKey != "" && v.ans.Taken {
		v.requests[v.a.RequestKey] = first{v.a.Body, v.a.Now + 60*second, v.a.Rules.shape(), *v.ans}
	}
}

// String is for failure messages.
func (l Limit) String() string { return fmt.Sprintf("%d, %d per %dus", l.Capacity, l.Count, l.Period) }
