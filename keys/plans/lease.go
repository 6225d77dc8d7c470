package plans

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/guardd/guardd/keys"
)

// Lease is when, and how much, an instance takes of a busy key in advance, so that
// many requests cost one call of the store.
type Lease struct {
	// Above is how many requests a second of one key at one instance make it lease;
	// at least 1.
	Above int64 `yaml:"above" json:"above"`
	// Most is how many tokens of a key one instance holds: a tenth of the capacity,
	// if not given. In any interval as many per instance may be let through beyond
	// what the rule says.
	Most int64 `yaml:"most,omitempty" json:"most,omitempty"`
	// For is how long it may hold them, as "1s", which is what it is if not given.
	For string `yaml:"for,omitempty" json:"for,omitempty"`
}

// Bounds of leases and sub-buckets. A lease that lives less than some windows of
// demand would end unspent; one that lives long is long lost when its holder dies.
const (
	DefaultLease = time.Second
	MinLease     = 500 * time.Millisecond
	MaxLease     = time.Minute
	MaxShards    = 64
)

// String is the form of ParseLease.
func (l Lease) String() string {
	text := "above=" + strconv.FormatInt(l.Above, 10)
	if l.Most != 0 {
		text += ",most=" + strconv.FormatInt(l.Most, 10)
	}
	if l.For != "" {
		text += ",for=" + l.For
	}
	return text
}

// ParseLease reads above=N,most=N,for=TIME, of which above is needed; "none" is the
// zero Lease.
func ParseLease(text string) (l Lease, err error) {
	if text == "none" {
		return l, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		name, v, _ := strings.Cut(part, "=")
		switch name {
		case "above":
			l.Above, err = strconv.ParseInt(v, 10, 64)
		case "most":
			l.Most, err = strconv.ParseInt(v, 10, 64)
		case "for":
			l.For = v
		default:
			err = fmt.Errorf("there is no %q", name)
		}
		if err != nil {
			return Lease{}, fmt.Errorf("must be none or above=N,most=N,for=TIME, not %q", text)
		}
	}
	return l, nil
}

// life is how long a lease lives. Compile has checked it.
func (l *Lease) life() time.Duration {
	if l.For == "" {
		return DefaultLease
	}
	d, _ := time.ParseDuration(l.For)
	return d
}

// terms are those of a rule under a limit, which may be a key's own.
func (r *Rule) terms(limit keys.Limit) keys.LeaseTerms {
	if r.Lease == nil { // never busy enough
		return keys.LeaseTerms{Above: keys.MaxExact / keys.Second, Life: DefaultLease.Microseconds()}
	}
	most := r.Lease.Most
	if most == 0 {
		most = limit.Capacity / 10
	}
	return keys.LeaseTerms{Above: r.Lease.Above, Most: max(min(most, limit.Capacity), 1), Life: r.Lease.life().Microseconds()}
}

func (r *Rule) shards() int64 {
	if r.Shards == nil {
		return 1
	}
	return *r.Shards
}

func (r *Rule) checkLease(at string, faults *Faults) {
	l := r.Lease
	if l == nil || r.Kind != Rate {
		return
	}
	if l.Above < 1 || l.Above > keys.MaxExact/keys.Second {
		faults.add(at+".above", "must be at least 1 request a second")
	}
	if l.Most < 0 || l.Most > r.Capacity {
		faults.add(at+".most", "must be from 1 token to the capacity")
	}
	if d, err := time.ParseDuration(l.For); l.For != "" && (err != nil || d < MinLease || d > MaxLease) {
		faults.add(at+".for", fmt.Sprintf("must be a time from %s to %s, not %q", MinLease, MaxLease, l.For))
	}
}

// checkShards is of a rule, or of a key's own numbers.
func (r *Rule) checkShards(at string, l keys.Limit, faults *Faults) {
	n := r.shards()
	if n < 1 || n > MaxShards {
		faults.add(at+".shards", fmt.Sprintf("must be from 1 to %d", MaxShards))
		return
	}
	if l.Zero() || n == 1 {
		return
	}
	_, err := l.Sub(n)
	switch {
	case errors.Is(err, keys.ErrInexact):
		faults.add(at+".refill", fmt.Sprintf("over %d shards it %s", n, err))
	case err != nil:
		faults.add(at+".capacity", fmt.Sprintf("over %d shards %s", n, err))
	case l.Capacity%n != 0:
		faults.add(at+".capacity", fmt.Sprintf("must be a multiple of the %d shards", n))
	}
}

// purse is how a set is decided by what an instance holds of each of its rules; nil:
// it is not.
type purse struct {
	// sharded: one of the rules has sub-buckets, so that no one call can decide.
	// Otherwise every rule is leased where it is busy.
	sharded bool
	of      []pursed
	// alone is what the twin decides by while the store is gone, of one sub-bucket
	// of each.
	alone *keys.Rules
}

type pursed struct {
	*bound
	terms  keys.LeaseTerms
	shards int64
	sub    keys.Limit  // of one sub-bucket
	rules  *keys.Rules // of it alone
}

func purseOf(chosen []*bound) *purse {
	p := &purse{}
	leased := true
	specs := make([]keys.TierSpec, len(chosen))
	shards := make([]int64, len(chosen))
	for i, x := range chosen {
		if x.Kind != Rate {
			return nil
		}
		leased = leased && x.Lease != nil
		n := x.shards()
		p.sharded = p.sharded || n > 1
		sub, err := x.limit.Sub(n)
		if err != nil {
			panic(err) // Compile has checked it
		}
		specs[i], shards[i] = tierOf(x.Name, sub), n
		p.of = append(p.of, pursed{bound: x, terms: x.terms(x.limit), shards: n, sub: sub, rules: mustRules(specs[i : i+1])})
	}
	if !leased && !p.sharded {
		return nil
	}
	p.alone = mustRules(specs).OfShards(shards)
	return p
}

func tierOf(name string, l keys.Limit) keys.TierSpec {
	return keys.TierSpec{Tier: keys.TierPlan, Limits: []keys.LimitSpec{{Name: name, Limit: l, Steps: steps}}}
}

// mustRules compiles tiers whose limits and names were checked by Compile.
func mustRules(specs []keys.TierSpec) *keys.Rules {
	r, err := keys.NewRules(specs, [4]keys.Effect{}, keys.Pace{})
	if err != nil {
		panic(err)
	}
	return r
}
