package keys

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// This file is the ledger of what this instance let through alone.
//
// A debt is kept like a bucket of this instance's share: it grows by what is
// taken, and shrinks as the share refills, since that much the shared bucket may
// grant again by right. So it never exceeds the share, and one that is paid off
// by time is forgotten. It is charged in whole tokens, rounded up.

// debtsKept bounds the ledger (about 400 bytes each). When it is full, the least
// of a few debts looked at goes: a flood of names pushes out its own.
const debtsKept = 1 << 16

// debts is the ledger. It is safe for concurrent use.
type debts struct {
	name string // of this instance, in marks
	max  int
	seq  atomic.Uint64
	size atomic.Int64 // of owed and sent together
	lost atomic.Uint64

	mu   sync.Mutex
	owed map[string]*debt // by bucket key
	sent []*charge        // without a reply so far
	// unheard is in how many of sent a bucket is.
	unheard map[string]int
	only    map[tierOf]*Rules
}

type tierOf struct {
	rules *Rules
	tier  int
}

// debt is what one bucket is owed.
type debt struct {
	rules    *Rules // of its tier alone
	stateKey string
	kKeys    [2]string
	stamp    int64
	cells    []owedCell
}

// owedCell is what one limit is owed, by LimitSpec.ID, so that a reload leaves
// the others' alone: spent units of the share, as last in force.
type owedCell struct {
	id    uint32
	limit Limit
	spent int64
}

// cell is that of a limit; nil when it is owed nothing, or there is no debt.
func (b *debt) cell(id uint32) *owedCell {
	if b != nil {
		for i := range b.cells {
			if b.cells[i].id == id {
				return &b.cells[i]
			}
		}
	}
	return nil
}

type charge struct {
	Charge
	till int64 // when it is given up
}

func newDebts() *debts {
	var id [8]byte
	rand.Read(id[:])
	return &debts{name: hex.EncodeToString(id[:]), max: debtsKept, owed: map[string]*debt{}, unheard: map[string]int{}, only: map[tierOf]*Rules{}}
}

// any reports whether anything is owed or unanswered. A nil ledger owes nothing.
func (d *debts) any() bool { return d != nil && d.size.Load() > 0 }

// add books what the twin let through by this ask, whose rules are whole.
func (d *debts) add(a *Ask, whole *Rules, ans *Answer) {
	if !ans.Taken || ans.Replayed {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := 0; i < len(ans.Limits); {
		t, first := ans.Limits[i].Tier, i
		took := false
		for ; i < len(ans.Limits) && ans.Limits[i].Tier == t; i++ {
			took = took || ans.Limits[i].Took
		}
		if took {
			d.addTier(a, whole, t, ans.Limits[first:i], ans.Now)
		}
	}
	d.count()
}

func (d *debts) addTier(a *Ask, whole *Rules, t int, limits []LimitAnswer, now int64) {
	b := d.owed[a.Keys[t]]
	if b == nil {
		if len(d.owed)+len(d.sent) >= d.max {
			d.forget(now)
		}
		b = &debt{stamp: now, cells: make([]owedCell, 0, len(limits))}
		d.owed[a.Keys[t]] = b
	}
	b.rules, b.stateKey, b.kKeys = d.tier(whole, t), a.StateKey, a.KKeys
	passed := max(now-b.stamp, 0)
	b.stamp = max(now, b.stamp)
	for i := range limits {
		l := &limits[i]
		if l.Limit.Zero() {
			continue
		}
		c := b.cell(whole.tiers[t].Limits[l.Index].id)
		if c == nil {
			b.cells = append(b.cells, owedCell{whole.tiers[t].Limits[l.Index].id, l.Limit, 0})
			c = &b.cells[len(b.cells)-1]
		}
		c.spent = l.Limit.Spent(c.spent, c.limit.Units(), passed)
		c.limit = l.Limit
		if l.Took {
			c.spent = min(c.spent+need(a, l.Tier, l.Limit), l.Limit.Units())
		}
	}
}

// tier returns rules of one tier.
func (d *debts) tier(whole *Rules, t int) *Rules {
	of := tierOf{whole, t}
	if r := d.only[of]; r != nil {
		return r
	}
	r, err := NewRules(whole.tiers[t:t+1], whole.effects, whole.pace)
	if err != nil {
		panic("keys: a tier of valid rules is not valid: " + err.Error())
	}
	if len(d.only) >= sharesKept*MaxTiers {
		clear(d.only)
	}
	d.only[of] = r
	return r
}

// forget makes room for one debt.
func (d *debts) forget(now int64) {
	var least string
	fewest, looked := int64(-1), 0
	for key, b := range d.owed {
		var n int64
		for i := range b.cells {
			n += b.tokens(b.cells[i].id, now)
		}
		if fewest < 0 || n < fewest {
			least, fewest = key, n
		}
		if looked++; looked == 8 || n == 0 {
			break
		}
	}
	if fewest > 0 {
		d.lost.Add(1)
	}
	delete(d.owed, least)
}

// tokens is what a limit is owed at now, rounded up.
func (b *debt) tokens(id uint32, now int64) int64 {
	c := b.cell(id)
	if c == nil || c.spent == 0 {
		return 0
	}
	return ceilDiv(c.limit.Spent(c.spent, c.limit.Units(), max(now-b.stamp, 0)), c.limit.Period)
}

// back takes back what an attempt owes, because its outcome gives back.
func (d *debts) back(r *Return, now int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for t, key := range r.Keys {
		b := d.owed[key]
		if b == nil || b.stamp < r.Stamp {
			continue
		}
		for _, took := range r.Took {
			if took.Tier != r.Rules.tiers[t].Tier {
				continue
			}
			if c := b.cell(took.Limit); c != nil {
				c.spent = max(c.spent-c.limit.Back(took.In, 1, max(now-r.Stamp, 0)), 0)
			}
		}
	}
}

// of takes everything that an ask's buckets owe out of the ledger, as one
// charge; nil when they owe nothing.
func (d *debts) of(a *Ask, now int64) *charge {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.count()
	return d.charge(&Charge{Now: a.Now, Rules: a.Rules, Keys: a.Keys, StateKey: a.StateKey, KKeys: a.KKeys}, now)
}

// charge takes what c's buckets owe out of the ledger; nil when it is nothing.
func (d *debts) charge(c *Charge, now int64) *charge {
	if !d.owing(c.Keys) {
		return nil
	}
	c.Tokens = make([]int64, 0, c.Rules.limits)
	var all int64
	for t, key := range c.Keys {
		b := d.owed[key]
		for i := range c.Rules.tiers[t].Limits {
			n := b.tokens(c.Rules.tiers[t].Limits[i].id, now)
			c.Tokens = append(c.Tokens, n)
			all = max(all, n)
		}
		delete(d.owed, key)
	}
	if all == 0 {
		return nil // paid off by time
	}
	c.MarkKey = d.mark(c.Keys[0])
	return &charge{*c, now + ChargeMemory/2}
}

// owing reports whether one of these buckets owes something.
func (d *debts) owing(keys []string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { return d.owed[key] != nil })
}

// unpaid reports whether one of these buckets owes something, or may: what was
// sent for it has not been answered.
func (d *debts) unpaid(keys []string) bool {
	if !d.any() {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.owing(keys) || slices.ContainsFunc(keys, func(key string) bool { return d.unheard[key] > 0 })
}

// owes is owing of an ask's buckets, for who does not hold the lock.
func (d *debts) owes(a *Ask) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.owing(a.Keys)
}

// looks is how many debts that cannot be sent yet are passed over for one that
// can, where a part of the store is gone. The order is another each time.
const looks = 1024

// next is what is to be sent next: what has not been answered, or one debt, of a
// bucket that may be charged now. nil: nothing that was looked at is.
func (d *debts) next(now int64, may func(bucket string) bool) *charge {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.count()
	for range min(len(d.sent), looks) {
		c := d.pop()
		switch {
		case now >= c.till:
			d.lost.Add(1)
		case may(c.Keys[0]):
			return c
		default:
			d.push(c)
		}
	}
	passed := 0
	for key, b := range d.owed {
		if !may(key) {
			if passed++; passed == looks {
				break
			}
			continue
		}
		if c := d.charge(&Charge{Rules: b.rules, Keys: []string{key}, StateKey: b.stateKey, KKeys: b.kKeys}, now); c != nil {
			return c
		}
	}
	return nil
}

// sentKept bounds what waits for a reply: one an attempt that failed while the
// breaker was closed, and one a probe.
const sentKept = 4096

// again keeps a charge that was not answered.
func (d *debts) again(c *charge) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.sent) >= sentKept {
		d.pop()
		d.lost.Add(1)
	}
	d.push(c)
	d.count()
}

func (d *debts) push(c *charge) {
	d.sent = append(d.sent, c)
	for _, key := range c.Keys {
		d.unheard[key]++
	}
}

// pop takes out the first of sent.
func (d *debts) pop() *charge {
	c := d.sent[0]
	d.sent = d.sent[1:]
	d.heard(c)
	return c
}

func (d *debts) heard(c *charge) {
	for _, key := range c.Keys {
		if d.unheard[key]--; d.unheard[key] <= 0 {
			delete(d.unheard, key)
		}
	}
}

func (d *debts) count() { d.size.Store(int64(len(d.owed) + len(d.sent))) }

// mark names a charge, in the slot of the bucket.
func (d *debts) mark(bucket string) string {
	prefix, _, _ := strings.Cut(bucket, "}:")
	return prefix + "}:charge:" + d.name + ":" + strconv.FormatUint(d.seq.Add(1), 36)
}
