package keys

import (
	"errors"
	"fmt"
)

// This file is the meaning of Take: pure functions from an Ask and what the
// store holds to an Answer and what to write. Memory runs them;
// redisstore's settle.lua, judge.lua and back.lua are the same in Lua, and keystest holds the two equal.

// ErrAsk is wrapped by what Validate returns.
var ErrAsk = errors.New("bad ask")

// Validate refuses what no store should be asked. Every Store calls it first.
func (a *Ask) Validate() error {
	if err := validKeys(a.Rules, a.Keys); err != nil {
		return err
	}
	switch {
	case a.Cost < 0:
		return badAsk("cost is negative")
	case a.Cost > MaxExact:
		return badAsk("cost is out of range")
	case a.Now < 0 || a.Now > MaxExact:
		return badAsk("now is out of range")
	case a.Request.Life < 0 || a.Request.Life > MaxWindow:
		return badAsk("the life of a request is out of range")
	case a.Costs != nil && len(a.Costs) != len(a.Rules.tiers):
		return badAsk("one cost per tier is needed")
	case a.Floor > Verify || a.StoreGone > Verify || a.Proof.Rung > Verify:
		return badAsk("there is no such rung")
	case a.WrongKey != "" && a.Tags[0] == Tag{}:
		return badAsk("wrong passwords go with a tag")
	}
	var own, device bool
	for i := range a.Rules.tiers {
		own = own || a.Rules.tiers[i].Role&DeviceOwn != 0
		device = device || a.Rules.tiers[i].Role&deviceRoles != 0
	}
	for _, c := range a.Costs {
		if c < 1 || c > a.Cost {
			return badAsk("each tier's cost must be from 1 to the whole cost")
		}
	}
	if device && a.Costs != nil {
		return badAsk("device tiers go with one cost for all")
	}
	if device && (a.Device.Issued == 0 || a.Cost > 1) {
		return badAsk("device tiers need a device and a cost of at most 1")
	}
	if a.Device.Issued != 0 && !own {
		return badAsk("a device needs a tier of its own: nothing else would count it")
	}
	return nil
}

// Validate refuses what no store should be told. Every Store calls it first.
func (r *Return) Validate() error {
	switch {
	case r.Outcome < Success || r.Outcome > Abandoned:
		return badAsk("there is no such outcome")
	case r.OutcomeKey == "":
		return badAsk("an outcome needs its attempt's key")
	case r.Now < 0 || r.Now > MaxExact:
		return badAsk("now is out of range")
	case r.WrongKey != "" && r.Tags[0] == Tag{}:
		return badAsk("wrong passwords go with a tag")
	}
	for _, t := range r.Took {
		if !t.In.Exact() {
			return badAsk("what was taken is out of range")
		}
	}
	if len(r.Took) == 0 {
		return nil
	}
	return validKeys(r.Rules, r.Keys)
}

func validKeys(r *Rules, keys []string) error {
	if r == nil || len(keys) != len(r.tiers) {
		return badAsk("one key per tier is needed")
	}
	for _, k := range keys {
		if k == "" {
			return badAsk("a bucket key is empty")
		}
	}
	return nil
}

func badAsk(why string) error { return fmt.Errorf("%w: %s", ErrAsk, why) }

// Cell is the stored state of one limit: Spent units against a capacity of
// Units units, by LimitSpec.ID. Stamp is the bucket's, when 0, or an earlier one
// of a cell that is kept for others.
type Cell struct {
	ID           uint32
	Spent, Units int64
	Stamp        int64
}

// Bucket is the stored state of one tier. A nil *Bucket is a full one.
type Bucket struct {
	Stamp    int64 // microseconds
	Distrust bool  // a device that ran out and is not full again
	Cells    []Cell
}

func (b *Bucket) cell(id uint32, at int) (Cell, bool) {
	if b == nil {
		return Cell{}, false
	}
	if at < len(b.Cells) && b.Cells[at].ID == id {
		return b.Cells[at], true
	}
	for _, c := range b.Cells {
		if c.ID == id {
			return c, true
		}
	}
	return Cell{}, false
}

// stamp is when c was counted.
func (b *Bucket) stamp(c *Cell) int64 {
	if c.Stamp != 0 {
		return c.Stamp
	}
	return b.Stamp
}

// Cells of limits that are not in force here may be in force elsewhere: in the
// policy of an instance of another version, beside this one while a fleet is
// updated, or in the next reload of this one. Nobody here knows how they refill,
// so they are kept as they are with the time they were counted at, for who knows
// them to bring to the present; dropping them would grant their limits anew with
// every guess made elsewhere.
const (
	// MaxKept is how many cells a bucket keeps for others.
	MaxKept = 8
	// MaxCells is how many cells a bucket has.
	MaxCells = MaxLimits + MaxKept
	// KeptLifetime is how long a cell is kept after it was last counted by
	// someone who knows its limit: three times what the default policy's slowest
	// limit needs to be full.
	KeptLifetime = 30 * Day
)

// keep adds to b, which has the cells of all limits in force, what old has for
// others.
func (b *Bucket) keep(old *Bucket) {
	if old == nil {
		return
	}
	own := len(b.Cells)
	for i := range old.Cells {
		c := old.Cells[i]
		c.Stamp = min(old.stamp(&c), b.Stamp) // a clock that was mended is mended for all
		if _, known := b.cell(c.ID, i); known || c.Spent == 0 || b.Stamp-c.Stamp >= KeptLifetime {
			continue
		}
		if len(b.Cells)-own == MaxKept {
			return
		}
		b.Cells = append(b.Cells, c)
	}
}

// facts is what a store holds about one Ask at one moment.
type facts struct {
	suspect [3]bool
	inForce InForce
	revoked int64 // 0: never
	place   int64 // stamp of the attempt that signed in here, 0: none
	used    int64 // guesses that the proof has let through
	wrong   *wrongs
	// refuseProof: there is no room to remember this proof's use.
	refuseProof bool
	buckets     [MaxTiers]*Bucket
	overflow    [MaxTiers]bool // a bucket shared by strangers: never above Captcha
}

// judge decides. It writes nothing into the facts; what has to be written is
// in ans: the buckets of ans.tiers (after), one more use of the proof when
// Proof is ProofUsed and the ask is no shadow, and the request mark when Taken.
func judge(a *Ask, f *facts, now int64, ans *Answer) {
	limits := ans.Limits[:0]
	*ans = Answer{}
	ans.Now, ans.ID, ans.Limits = now, a.AttemptID, limits
	if late(a.Deadline, now) {
		ans.Status = Late
		return
	}
	ans.InForce, ans.Revoked = f.inForce, max(f.revoked, 0)
	settle(a, f, now, ans)
	if ans.Status == Impossible {
		return
	}
	ans.Familiar = f.place > f.revoked && now-f.place < PlaceLifetime
	ans.Repeat = f.wrong.repeats(&a.Tags, f.revoked, now)
	ans.Device = judgeDevice(a, f, now, ans)
	if ans.Device == DeviceKnown {
		for i := range ans.Limits {
			l := &ans.Limits[i]
			l.Looked = l.Looked && a.Rules.tiers[l.Tier].Role&deviceRoles != 0
		}
	} else {
		judgeRungs(a, f, ans)
	}
	ans.Let = ans.Needed == Allow
	if state := judgeProof(a, f, now); state != ProofNone {
		ans.Proof, ans.Let = applyProof(a, ans, state)
	}
	take(a, ans)
}

// late reports whether the caller has given up.
func late(deadline, now int64) bool { return deadline > 0 && now > deadline }

// settle fills ans.Limits with every limit in force and what is left of it
// now, before taking, and ans.tiers with the stamps.
func settle(a *Ask, f *facts, now int64, ans *Answer) {
	for t := range a.Rules.tiers {
		spec, b := &a.Rules.tiers[t], f.buckets[t]
		first := len(ans.Limits)
		for i := range spec.Limits {
			l, counted := a.Rules.Whole(t, i, &ans.InForce)
			if counted {
				if a.cost(t) > l.Capacity*a.Rules.shardsOf(t) {
					ans.Status = Impossible
				}
				l = l.Share(a.Rules.shareOf(t))
			}
			la := ans.add()
			la.Tier, la.Index, la.Looked, la.Limit, la.counted = t, i, counted, l, counted
		}
		w := &ans.tiers[t]
		w.stamp = now
		var passed int64
		if b != nil {
			var longest int64
			if b.Stamp > now { // nothing else needs it
				longest = longestToFull(ans.Limits[first:])
			}
			passed, w.stamp, w.write = elapsed(b.Stamp, now, longest)
			w.write = w.write && longest > 0 // a tier that is not counted is left alone
			w.distrust = b.Distrust
		}
		for i := first; i < len(ans.Limits); i++ {
			la := &ans.Limits[i]
			if !la.counted {
				continue
			}
			la.Left = la.Limit.Units()
			if c, ok := b.cell(spec.Limits[la.Index].id, la.Index); ok {
				w.rescaled = w.rescaled || c.Units != la.Limit.Units()
				since := passed
				if c.Stamp != 0 {
					since = max(w.stamp-c.Stamp, 0)
				}
				la.Left -= la.Limit.Spent(c.Spent, c.Units, since)
			}
		}
	}
}

// add returns one more, empty entry of Limits. Made elsewhere and copied in, it
// took a twentieth of a decision.
func (ans *Answer) add() *LimitAnswer {
	n := len(ans.Limits)
	if n == cap(ans.Limits) {
		ans.Limits = append(ans.Limits, LimitAnswer{})
		return &ans.Limits[n]
	}
	ans.Limits = ans.Limits[:n+1]
	l := &ans.Limits[n]
	*l = LimitAnswer{}
	return l
}

// longestToFull is over the limits of a tier that are in force; 0: none is.
func longestToFull(limits []LimitAnswer) (longest int64) {
	for i := range limits {
		if l := &limits[i]; l.counted {
			longest = max(longest, l.Limit.TimeToFull())
		}
	}
	return longest
}

// need is what the attempt takes from a limit in units; what is Empty is
// judged by it, so it is never less than a token.
func need(a *Ask, t int, l Limit) int64 {
	cost := a.cost(t)
	if cost > l.Capacity {
		return l.Units() + 1 // more than a share holds: never enough
	}
	return max(cost, 1) * l.Period
}

// cost is what the attempt takes from each limit of tier t, in tokens.
func (a *Ask) cost(t int) int64 {
	if a.Costs != nil {
		return a.Costs[t]
	}
	return a.Cost
}

// judgeDevice says whether the device's own buckets decide. A limit of its own
// that is empty marks the device; the mark goes when all of them are full.
func judgeDevice(a *Ask, f *facts, now int64, ans *Answer) DeviceState {
	if a.Device.Issued == 0 {
		return DeviceNone
	}
	if now >= a.Device.Expires || a.Device.Issued <= f.revoked {
		for i := range ans.Limits {
			if l := &ans.Limits[i]; a.Rules.tiers[l.Tier].Role&deviceRoles != 0 {
				l.Looked = false
			}
		}
		return DeviceInvalid
	}
	state, full := DeviceKnown, true
	for i := range ans.Limits {
		l := &ans.Limits[i]
		role := a.Rules.tiers[l.Tier].Role
		if role&deviceRoles == 0 {
			continue
		}
		empty := l.Left < need(a, l.Tier, l.Limit)
		if empty {
			state = DeviceSpent
		}
		if role&DeviceOwn != 0 {
			full = full && l.Left == l.Limit.Units()
			if w := &ans.tiers[l.Tier]; empty && !w.distrust {
				w.distrust, w.write = true, true
			}
		}
	}
	for t := range a.Rules.tiers {
		if w := &ans.tiers[t]; a.Rules.tiers[t].Role&DeviceOwn != 0 && w.distrust {
			if full {
				w.distrust = false // what is full again is forgotten when it is next written
			} else {
				state = DeviceSpent
			}
		}
	}
	return state
}

// judgeRungs finds the needed rung over all limits that are not a device's,
// and over the floors.
func judgeRungs(a *Ask, f *facts, ans *Answer) {
	pace := a.Rules.pace
	for i := range ans.Limits {
		l := &ans.Limits[i]
		spec := &a.Rules.tiers[l.Tier]
		switch {
		case spec.Role&deviceRoles != 0:
			continue // looked at, but leads nowhere
		case ans.Familiar && spec.Role&SkipFamiliar != 0:
			l.Looked = false
		}
		if !l.Looked {
			continue
		}
		var below int64
		l.Rung, below = spec.Limits[l.Index].Steps.Rung(l.Limit, l.Left, need(a, l.Tier, l.Limit))
		if f.overflow[l.Tier] {
			l.Rung = min(l.Rung, Captcha)
		}
		if l.Rung == Delay {
			ans.Wait = max(ans.Wait, pace.Wait(below))
		}
		ans.Needed = max(ans.Needed, l.Rung)
	}
	floors := [...]struct {
		by   Cause
		rung Rung
	}{
		{ByFlood, a.Floor},
		{ByPosture, a.Rules.effects[ans.Posture&3].Floor},
		{BySuspect, Captcha},
		{ByStoreGone, a.gone},
	}
	if ans.Familiar {
		floors[1].rung = Allow
	}
	if ans.Familiar || f.suspect == [3]bool{} {
		floors[2].rung = Allow
	}
	for _, fl := range floors {
		ans.Needed = max(ans.Needed, fl.rung)
	}
	for _, fl := range floors {
		if fl.rung == Delay {
			ans.Wait = max(ans.Wait, pace.Base)
		}
		if fl.rung == ans.Needed && fl.rung > Allow {
			ans.Causes |= fl.by
		}
	}
	if ans.Needed != Delay {
		ans.Wait = 0
	}
}

// judgeProof says whether the proof is good at all; ProofUsed means yes.
func judgeProof(a *Ask, f *facts, now int64) ProofState {
	p := &a.Proof
	state := p.good(now, f.revoked, f.used)
	if state == ProofUsed && f.refuseProof && p.Rung < Verify {
		return ProofRefused
	}
	return state
}

// good says whether the proof counts at all, whatever is asked for: ProofUsed
// means yes. revoked is the account's revocation stamp, used how many guesses
// the proof has let through.
func (p *Proof) good(now, revoked, used int64) ProofState {
	switch {
	case p.Key == "":
		return ProofNone
	case p.Issued <= revoked:
		return ProofInvalid
	case now >= p.Expires:
		return ProofExpired
	case used >= p.Uses:
		return ProofSpent
	case now < p.NotBefore:
		return ProofTooEarly
	}
	return ProofUsed
}

// applyProof holds a proof against the needed rung.
func applyProof(a *Ask, ans *Answer, state ProofState) (ProofState, bool) {
	switch p := &a.Proof; {
	case state != ProofUsed:
		return state, ans.Let
	case ans.Needed == Allow:
		return ProofNone, true // not needed: stays unspent
	case p.Rung < ans.Needed:
		return ProofInsufficient, false
	case p.Rung == Delay && p.Wait < ans.Wait:
		return ProofTooEarly, false
	}
	return ProofUsed, true
}

// take takes the cost from every looked-at limit that has it, when the attempt
// is let through (in shadow: always) and no repeat, and marks what has to be
// written.
func take(a *Ask, ans *Answer) {
	if a.Cost == 0 || !ans.Let && !a.Shadow {
		return
	}
	ans.Taken = true
	if ans.Repeat {
		return
	}
	for i := range ans.Limits {
		l := &ans.Limits[i]
		role := a.Rules.tiers[l.Tier].Role
		if !l.Looked || role&deviceRoles != 0 && ans.Device != DeviceKnown {
			continue
		}
		cost := need(a, l.Tier, l.Limit)
		if l.Left < cost {
			continue
		}
		l.Left -= cost
		l.Took = true
		w := &ans.tiers[l.Tier]
		w.write = true
		if role&DeviceOwn != 0 && l.Left < l.Limit.Period {
			w.distrust = true // this was its last guess on trust
		}
	}
}

// after is the bucket of tier t as it is to be stored when ans.tiers[t].write
// is set, and when it will be full again; old is what was stored, cells is
// reused. Every limit in force has a cell.
func (ans *Answer) after(r *Rules, t int, old *Bucket, cells []Cell) (b Bucket, full int64) {
	b = Bucket{Stamp: ans.tiers[t].stamp, Distrust: ans.tiers[t].distrust, Cells: cells[:0]}
	full = b.Stamp
	for i := range ans.Limits {
		if l := &ans.Limits[i]; l.Tier == t && l.counted {
			u := l.Limit.Units()
			b.Cells = append(b.Cells, Cell{ID: r.tiers[t].Limits[l.Index].id, Spent: u - l.Left, Units: u})
			full = max(full, b.Stamp+ceilDiv(u-l.Left, l.Limit.Count))
		}
	}
	b.keep(old)
	return b, full
}

// giveBack computes what tier t's bucket b gets back: after, full again at full,
// is to be stored when gave, the number of limits that got something, is above
// 0. cells is reused.
//
// A bucket gone since, or one counted before the attempt, is not the
// bucket that the attempt took from (taking leaves a stamp at or after the
// attempt's): it was lost, or a broken clock was taken back and refill has
// been counting since then. Nothing is given back to it.
func giveBack(ret *Return, t int, f *InForce, b *Bucket, now int64, cells []Cell) (after Bucket, full int64, gave int) {
	if b == nil || b.Stamp < ret.Stamp {
		return Bucket{}, 0, 0
	}
	spec := &ret.Rules.tiers[t]
	var longest int64
	for i := range spec.Limits {
		if l, counted := ret.Rules.Limit(t, i, f); counted {
			longest = max(longest, l.TimeToFull())
		}
	}
	passed, stamp, _ := elapsed(b.Stamp, now, longest)
	after = Bucket{Stamp: stamp, Distrust: b.Distrust, Cells: cells[:0]}
	for i := range spec.Limits {
		l, counted := ret.Rules.Limit(t, i, f)
		if !counted {
			continue
		}
		c, at := Cell{ID: spec.Limits[i].id, Units: l.Units()}, b.Stamp
		if stored, ok := b.cell(c.ID, i); ok {
			since := passed
			if stored.Stamp != 0 {
				at, since = stored.Stamp, max(stamp-stored.Stamp, 0)
			}
			c.Spent = l.Spent(stored.Spent, stored.Units, since)
		}
		for _, took := range ret.Took {
			if took.Tier != spec.Tier || took.Limit != c.ID || at < ret.Stamp {
				continue
			}
			if back := min(l.Back(took.In, 1, max(now-ret.Stamp, 0)), c.Spent); back > 0 {
				c.Spent -= back
				gave++
			}
		}
		after.Cells = append(after.Cells, c)
		full = max(full, stamp+ceilDiv(c.Spent, l.Count))
	}
	after.keep(b)
	return after, full, gave
}
