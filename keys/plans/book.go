package plans

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/guardd/guardd/keys"
)

// Book is a definition, checked and compiled: all that a take reads. It is
// immutable and safe for concurrent use.
type Book struct {
	version string
	rules   map[string]*bound
	plans   map[string]*plan
	keys    map[Digest]*owner

	leases  bool // some rule is leased, or has sub-buckets
	quotas  bool // some rule is one
	slots   bool // some rule is of kind Concurrency
	unknown bool // nobody knows yet what is in force

	sets  sync.Map // what names it, as of setName: *set
	count atomic.Int64

	place place
	// broken is what a file has and cannot be: who names it is not told that it is
	// missing. nil: who needs what is bad is told so.
	broken *broken
}

// broken are rows with faults, by name; under "" those that have none.
type broken struct {
	rules map[string]bool
	plans map[string]*plan // with what rules of them there are
}

// bound is one rule with the limit that is in force for somebody.
type bound struct {
	Rule
	limit keys.Limit // zero for kind Concurrency
	// region is that whose share these numbers are, of whole; "": they are the rule's.
	region string
	whole  *Rule
	// calendar is of kind Quota.
	calendar Calendar
}

func newBound(r Rule, l keys.Limit) *bound {
	x := &bound{Rule: r, limit: l}
	if r.Kind == Quota {
		x.calendar = r.calendarOf()
	}
	return x
}

type plan struct {
	Plan
	rules []*bound
}

// owner is a registered key: its plan's rules under its own numbers.
type owner struct {
	Key
	rules []*bound
	group string // "plan NAME", or the digest where it has numbers of its own
}

// set is what one take decides over.
type set struct {
	rules  *keys.Rules
	bounds []*bound
	gone   keys.Rung // least rung while the store is gone
	strict *set      // those that are not Open, where some are; nil: none is left
	open   bool      // some are Open
	purse  *purse    // nil: each take is a call of the store
	quotas []*bound  // which are counted apart
	bare   bool      // there are only quotas: rules is unlimited
}

// setsKept bounds the compiled sets of a book: callers choose the combination.
const setsKept = 4096

// Compile makes a Book of everything in d that is right. What is wrong is told
// with its path, and what the last book held under that name stays in force
// instead: one bad row takes nobody's limits away. last may be nil. version
// names the book in evidence. Rules that have Regions are bad: it is CompileIn that
// knows where it is.
func Compile(d *Definition, version string, last *Book) (*Book, Faults) {
	return compile(d, version, last, place{})
}

// CompileIn is Compile for a process in a region; "": in none.
func CompileIn(region string, d *Definition, version string, last *Book) (*Book, Faults) {
	return compile(d, version, last, place{region: region})
}

// CompileFile is CompileIn for a file that is taken whole or not at all, by somebody who
// mends all of it at once: told is everything that is wrong, and nothing that is wrong
// only because something else is, such as a plan of a rule whose capacity is a word.
func CompileFile(region string, d *Definition, version string) (*Book, Faults) {
	b := newBook(version, place{region: region})
	b.broken = &broken{map[string]bool{}, map[string]*plan{}}
	faults := b.compile(d, &Book{})
	b.broken = nil
	return b, faults
}

// Check is all that is wrong with d in whatever region, to somebody who changes it
// for all of them.
func Check(d *Definition) Faults {
	_, faults := compile(d, "", nil, place{every: true})
	return faults
}

func compile(d *Definition, version string, last *Book, at place) (*Book, Faults) {
	if last == nil {
		last = &Book{}
	}
	b := newBook(version, at)
	return b, b.compile(d, last)
}

func newBook(version string, at place) *Book {
	return &Book{version: version, place: at, rules: map[string]*bound{}, plans: map[string]*plan{}, keys: map[Digest]*owner{}}
}

func (b *Book) compile(d *Definition, last *Book) (faults Faults) {
	for i := range d.Rules {
		b.addRule(d.Rules[i], fmt.Sprintf("rules[%d]", i), last, &faults)
	}
	b.keepAll(KindRule, d, last, &faults)
	for _, x := range b.rules {
		b.leases = b.leases || x.Lease != nil || x.shards() > 1
		b.quotas = b.quotas || x.Kind == Quota
	}
	for i := range d.Plans {
		b.addPlan(d.Plans[i], fmt.Sprintf("plans[%d]", i), last, &faults)
	}
	b.keepAll(KindPlan, d, last, &faults)
	for i := range d.Keys {
		b.addKey(d.Keys[i], fmt.Sprintf("keys[%d]", i), last, &faults)
	}
	b.keepAll(KindKey, d, last, &faults)
	for _, r := range b.rules {
		b.slots = b.slots || r.Kind == Concurrency
	}
	return faults
}

func (b *Book) addRule(r Rule, at string, last *Book, faults *Faults) {
	var bad Faults
	if b.rules[r.Name] != nil || b.broken.twice(r.Name) {
		faults.add(at+".name", fmt.Sprintf("%q is used twice", r.Name))
		if b.broken != nil {
			r.check(at, faults)
		}
		return
	}
	l := r.check(at, &bad) // completes r
	x := newBound(r, l)
	if len(bad) == 0 {
		x.in(b.place, at+".regions", &bad)
	}
	if len(bad) == 0 {
		b.rules[r.Name] = x
		return
	}
	*faults = append(*faults, bad...)
	if b.broken != nil {
		b.broken.rules[r.Name] = true
	}
	if old := last.rules[r.Name]; old != nil {
		b.rules[r.Name] = old
	}
}

func (b *Book) addPlan(p Plan, at string, last *Book, faults *Faults) {
	twice := b.plans[p.Name] != nil || p.Name != "" && b.broken.plan(p.Name) != nil
	if twice {
		faults.add(at+".name", fmt.Sprintf("%q is used twice", p.Name))
		if b.broken == nil {
			return
		}
	}
	var bad Faults
	checkName(at+".name", p.Name, &bad)
	if n := len(p.Rules); n == 0 || n > MaxRules {
		bad.add(at+".rules", fmt.Sprintf("between 1 and %d rules are needed, not %d", MaxRules, n))
	}
	made, whole := &plan{Plan: p}, true
	for i, name := range p.Rules {
		r := b.rules[name]
		switch {
		case r == nil && b.broken.rule(name):
			whole = false
			continue
		case r == nil:
			bad.add(fmt.Sprintf("%s.rules[%d]", at, i), fmt.Sprintf("there is no rule %q", name))
		case slices.Contains(p.Rules[:i], name):
			bad.add(fmt.Sprintf("%s.rules[%d]", at, i), fmt.Sprintf("%q is named twice", name))
		}
		made.rules = append(made.rules, r)
	}
	switch {
	case twice:
		*faults = append(*faults, bad...)
		return
	case len(bad) == 0 && whole:
		b.plans[p.Name] = made
		return
	}
	*faults = append(*faults, bad...)
	if b.broken != nil {
		b.broken.plans[p.Name] = made
	}
	if old := last.plans[p.Name]; old != nil {
		b.plans[p.Name] = old
	}
}

func (b *Book) addKey(k Key, at string, last *Book, faults *Faults) {
	twice := b.keys[k.SHA256] != nil
	if twice {
		faults.add(at+".sha256", "is used twice")
		if b.broken == nil {
			return
		}
	}
	var bad Faults
	switch {
	case k.SHA256 == Digest{}:
		bad.add(at+".sha256", "is missing")
	case k.SHA256 == Digest(sha256.Sum256(nil)):
		bad.add(at+".sha256", "is that of the empty key")
	}
	choose(at+".state", &k.State, &bad, Active, Suspended)
	o := &owner{Key: k}
	p, half := b.plans[k.Plan], b.broken.plan(k.Plan)
	switch {
	case p != nil:
		o.rules, o.group = p.rules, "plan "+p.Name
		o.override(b.place, at+".overrides", nil, &bad)
	case half != nil:
		o.rules = slices.DeleteFunc(slices.Clone(half.rules), func(r *bound) bool { return r == nil })
		o.override(b.place, at+".overrides", half, &bad)
	case b.broken.plan("") == nil:
		bad.add(at+".plan", fmt.Sprintf("there is no plan %q", k.Plan))
	}
	if len(bad) == 0 && p != nil && !twice {
		b.keys[k.SHA256] = o
		return
	}
	*faults = append(*faults, bad...)
	if twice {
		return
	}
	if old := last.keys[k.SHA256]; old != nil {
		b.keys[k.SHA256] = old
	}
}

// rule reports whether a fault of that rule, or of one whose name is not known, is told.
func (b *broken) rule(name string) bool { return b != nil && (b.rules[name] || b.rules[""]) }

// twice reports whether a rule of that name was told of before.
func (b *broken) twice(name string) bool { return b != nil && name != "" && b.rules[name] }

// plan is the one of that name whose faults are told; nil: there is none.
func (b *broken) plan(name string) *plan {
	if b == nil {
		return nil
	}
	return b.plans[name]
}

// override takes over the key's own numbers. half is its plan where that is not whole:
// of what that names, and has not, nothing is told.
func (o *owner) override(p place, at string, half *plan, faults *Faults) {
	if len(o.Overrides) == 0 {
		return
	}
	o.rules, o.group = slices.Clone(o.rules), "key "+o.SHA256.String()
	seen := map[string]bool{}
	for i, v := range o.Overrides {
		path := at + "[" + strconv.Itoa(i) + "]"
		j := slices.IndexFunc(o.rules, func(r *bound) bool { return r.Name == v.Rule })
		switch {
		case j < 0 && half != nil && (len(half.Rules) == 0 || slices.Contains(half.Rules, v.Rule)):
			v.check(path, faults)
			continue
		case j < 0:
			faults.add(path+".rule", fmt.Sprintf("the plan has no rule %q", v.Rule))
			continue
		case seen[v.Rule]:
			faults.add(path+".rule", fmt.Sprintf("%q is overridden twice", v.Rule))
			continue
		}
		seen[v.Rule] = true
		own := o.rules[j].written()
		if v.Capacity != nil {
			own.Capacity = *v.Capacity
		}
		if v.Refill != "" {
			own.Refill = v.Refill
		}
		if v.Anchor != nil {
			own.Anchor = v.Anchor
			if own.Kind != Quota {
				faults.add(path+".anchor", own.notWith())
			}
		}
		var bad Faults
		l := own.checkNumbers(path, &bad)
		x := newBound(own, l)
		if len(bad) == 0 { // the share is of these
			x.in(p, path+".capacity", &bad)
		}
		*faults = append(*faults, bad...)
		o.rules[j] = x
	}
}

// check is of an override whose rule is not known: of what kind it is nobody can say.
func (v *Override) check(at string, faults *Faults) {
	if v.Capacity != nil && *v.Capacity < 1 {
		faults.add(at+".capacity", keys.ErrCapacity.Error())
	}
	if _, _, err := keys.ParseRefill(v.Refill); v.Refill != "" && err != nil {
		faults.add(at+".refill", err.Error())
	}
}

// Unknown is the book of a process that has not been told its limits yet: every
// take under it fails with ErrUnloaded. An empty book would let those through
// that name no rule of ours, and call rules unknown that exist.
func Unknown() *Book { return &Book{unknown: true} }

// Version is what Compile was told.
func (b *Book) Version() string { return b.version }

// Sizes are how many rules, plans and keys the book holds.
func (b *Book) Sizes() (rules, plans, keys int) { return len(b.rules), len(b.plans), len(b.keys) }

// pick resolves what a request counts against: the rules named, else those of
// the key's plan that count its route.
func (b *Book) pick(r *Request) (*owner, *set, error) {
	if b.unknown {
		return nil, nil, ErrUnloaded
	}
	o := b.keys[r.key()]
	if len(r.Rules) == 0 {
		if o == nil {
			return nil, nil, Faults{{"key", "not_registered"}}
		}
		var chosen []*bound
		for _, x := range o.rules {
			if x.Kind != Concurrency && x.factor(r.Route) > 0 {
				chosen = append(chosen, x)
			}
		}
		return o, b.set(o.group, chosen), nil
	}
	chosen := make([]*bound, 0, len(r.Rules))
	group := ""
	for i, name := range r.Rules {
		x := b.rules[name]
		if o != nil {
			if j := slices.IndexFunc(o.rules, func(r *bound) bool { return r.Name == name }); j >= 0 {
				x, group = o.rules[j], o.group
			}
		}
		switch {
		case x == nil:
			return nil, nil, fmt.Errorf("%w: %q", ErrUnknownRule, name)
		case x.Kind == Concurrency: // nothing of it can be taken: its slots are acquired
			return nil, nil, Faults{{fmt.Sprintf("rules[%d]", i), "is_concurrency"}}
		}
		if x.factor(r.Route) > 0 {
			chosen = append(chosen, x)
		}
	}
	return o, b.set(group, chosen), nil
}

// set compiles a combination once.
func (b *Book) set(group string, chosen []*bound) *set {
	if len(chosen) == 0 {
		return nil
	}
	var name strings.Builder
	name.WriteString(group)
	for _, x := range chosen {
		name.WriteByte(' ')
		name.WriteString(x.Name)
	}
	if v, ok := b.sets.Load(name.String()); ok {
		return v.(*set)
	}
	s := compileSet(chosen)
	if b.count.Add(1) > setsKept {
		b.sets.Clear()
		b.count.Store(1)
	}
	v, _ := b.sets.LoadOrStore(name.String(), s)
	return v.(*set)
}

// unlimited is taken where nothing but quotas are: request ids and reservations are
// then known, and settled once, by the same mechanism as everywhere.
var unlimited = &bound{Rule: Rule{Name: "", Kind: Rate, Counts: CountsCost, Failure: Open, Refund: RefundAll}, limit: keys.Limit{Capacity: MaxQuota, Count: MaxQuota, Period: 1}}

// steps: a plan's limit has one rung, no, where less than the cost is left.
var steps = keys.Steps{Delay: keys.Never, Captcha: keys.Never, Verify: keys.Empty}

func compileSet(all []*bound) *set {
	s := &set{}
	for _, x := range all {
		if x.Kind == Quota {
			s.quotas = append(s.quotas, x)
		} else {
			s.bounds = append(s.bounds, x)
		}
	}
	if s.bare = len(s.bounds) == 0; s.bare {
		s.bounds = []*bound{unlimited}
	}
	chosen := s.bounds
	var strict []*bound
	specs := make([]keys.TierSpec, len(chosen))
	for i, x := range chosen {
		specs[i] = tierOf(x.Name, x.limit)
		switch x.Failure {
		case Closed:
			s.gone = keys.Verify
		case Open:
			s.open = true
			continue
		}
		strict = append(strict, x)
	}
	if s.open && len(strict) > 0 {
		s.strict = compileSet(strict)
	}
	s.rules, s.purse = mustRules(specs), purseOf(chosen)
	return s
}
