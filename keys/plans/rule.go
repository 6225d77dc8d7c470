package plans

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/guardd/guardd/keys"
)

// Failure is what a rule does while the shared store is gone.
type Failure string

const (
	// Local counts at this instance's share of the limit. The default.
	Local Failure = "local"
	// Open lets everything through, and counts what fits the share.
	Open Failure = "open"
	// Closed refuses everything.
	Closed Failure = "closed"
)

// Refund is which failed requests the middleware gives back their cost. A
// caller who got back what he broke himself would have no limit (Trillian
// #2022: every failure was refunded).
type Refund string

const (
	// RefundServer gives back after an answer of 500 or above. The default.
	RefundServer Refund = "server"
	// RefundAll gives back after 400 and above, too.
	RefundAll Refund = "all"
	// RefundNone gives nothing back.
	RefundNone Refund = "none"
)

// Counts is what a rule counts.
type Counts string

const (
	// CountsCost: what the request says it costs, 1 unless it says so. The default.
	CountsCost Counts = "cost"
	// CountsRequests: each request once, whatever else it costs.
	CountsRequests Counts = "requests"
)

// Bounds of a definition.
const (
	MaxName  = 64   // bytes of the name of a rule or plan
	MaxRules = 16   // rules of one plan, and of one take
	MaxRoute = 256  // bytes of the name of a route
	MaxCosts = 1000 // routes in one rule's table
)

// AnyRoute stands in a cost table for every route that is not in it.
const AnyRoute = "*"

// Rule is one limit as written.
type Rule struct {
	Name string   `yaml:"name" json:"name"`
	Kind RuleKind `yaml:"kind,omitempty" json:"kind,omitempty"` // "" is Rate
	// Capacity is the most tokens that can be saved up, or slots that can be held;
	// at least 1.
	Capacity int64 `yaml:"capacity" json:"capacity"`
	// Refill is COUNT/PERIOD, as "10/1h": the tokens that flow back per period. Only
	// of kind Rate.
	Refill string `yaml:"refill,omitempty" json:"refill,omitempty"`
	// Routes says how many tokens a request by a route takes for each that it
	// counts. Without a table that is 1; with one, a route that is not in it takes
	// what AnyRoute does, and without that nothing: the rule does not count it.
	Routes  map[string]int64 `yaml:"routes,omitempty" json:"routes,omitempty"`
	Counts  Counts           `yaml:"counts,omitempty" json:"counts,omitempty"`   // "" is CountsCost
	Failure Failure          `yaml:"failure,omitempty" json:"failure,omitempty"` // "" is Local
	Refund  Refund           `yaml:"refund,omitempty" json:"refund,omitempty"`   // "" is RefundServer
	// Settings are those of some kinds only.
	Settings `yaml:",inline"`
}

// factor is how many tokens a request by the route takes for each that it
// counts; 0: the rule does not count it.
func (r *Rule) factor(route string) int64 {
	if len(r.Routes) == 0 {
		return 1
	}
	if c, ok := r.Routes[route]; ok {
		return c
	}
	return r.Routes[AnyRoute]
}

// Cost is what a request by the route that says it costs cost takes, in tokens;
// more than fits a bucket is keys.MaxExact.
func (r *Rule) Cost(route string, cost int64) int64 {
	f := r.factor(route)
	switch {
	case r.Counts == CountsRequests:
		return f
	case f > 0 && cost > keys.MaxExact/f:
		return keys.MaxExact
	}
	return f * cost
}

// check completes the rule and returns its limit: of kind Concurrency none, of Quota
// one without a refill. at is
// the path of its row.
func (r *Rule) check(at string, faults *Faults) (l keys.Limit) {
	checkName(at+".name", r.Name, faults)
	r.checkKind(at, faults)
	l = r.checkNumbers(at, faults)
	r.checkLease(at+".lease", faults)
	r.Regions.check(at+".regions", faults)
	choose(at+".counts", &r.Counts, faults, CountsCost, CountsRequests)
	choose(at+".failure", &r.Failure, faults, Local, Open, Closed)
	choose(at+".refund", &r.Refund, faults, RefundServer, RefundAll, RefundNone)
	return l
}

// checkNumbers is check for what a key may have of its own.
func (r *Rule) checkNumbers(at string, faults *Faults) (l keys.Limit) {
	switch r.Kind {
	case Concurrency:
		r.checkSlots(at, faults)
	case Quota:
		r.checkQuota(at, faults)
		l = keys.Limit{Capacity: r.Capacity, Period: 1} // nothing flows back
	default:
		l = checkLimit(at, r.Capacity, r.Refill, faults)
		r.checkShards(at, l, faults)
	}
	r.checkRoutes(at+".routes", l, faults)
	return l
}

func (r *Rule) checkRoutes(at string, l keys.Limit, faults *Faults) {
	if len(r.Routes) > MaxCosts {
		faults.add(at, fmt.Sprintf("holds more than %d routes", MaxCosts))
		return
	}
	counts := len(r.Routes) == 0
	for _, route := range slices.Sorted(maps.Keys(r.Routes)) {
		cost := r.Routes[route]
		counts = counts || cost > 0
		switch path := at + "[" + route + "]"; {
		case route == "" || len(route) > MaxRoute:
			faults.add(path, fmt.Sprintf("the name of a route has from 1 to %d bytes", MaxRoute))
		case cost < 0:
			faults.add(path, "a cost is 0 or more tokens")
		case !l.Zero() && cost > l.Capacity:
			faults.add(path, fmt.Sprintf("costs %d, but capacity is %d: it could never be let through", cost, l.Capacity))
		}
	}
	if !counts {
		faults.add(at, "counts nothing: every route costs 0")
	}
}

// choose completes a setting that is one of some words, of which the first is the
// default.
func choose[T ~string](at string, v *T, faults *Faults, words ...T) {
	switch {
	case *v == "":
		*v = words[0]
	case !slices.Contains(words, *v):
		faults.add(at, fmt.Sprintf("must be one of %q, not %q", words, *v))
	}
}

// checkName takes what can stand in a header, a key and a metric as it is.
func checkName(at, name string, faults *Faults) {
	switch {
	case name == "":
		faults.add(at, "is missing")
	case len(name) > MaxName || strings.ContainsFunc(name, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("_.-", c))
	}):
		faults.add(at, fmt.Sprintf("must be up to %d letters, digits, '_', '.' and '-', not %q", MaxName, name))
	}
}

// checkLimit returns the limit, or the zero Limit and what is wrong.
func checkLimit(at string, capacity int64, refill string, faults *Faults) keys.Limit {
	count, per, err := keys.ParseRefill(refill)
	if err != nil {
		faults.add(at+".refill", err.Error())
	}
	if capacity < 1 {
		faults.add(at+".capacity", keys.ErrCapacity.Error())
		return keys.Limit{}
	}
	if err != nil {
		return keys.Limit{}
	}
	l, err := keys.NewLimit(capacity, count, per)
	switch {
	case errors.Is(err, keys.ErrRefill):
		faults.add(at+".refill", err.Error())
	case err != nil:
		faults.add(at+".capacity", err.Error())
	}
	return l
}
