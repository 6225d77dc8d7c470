package plans

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/guardd/guardd/keys"
)

// Regions are a rule's shares by region, each as "60%" or "33.33%": whole percents,
// or with up to two decimals, above 0 and up to 100. What counts in one region does
// not see what counts in another, so in all a rule admits the sum of its shares.
type Regions map[string]string

// MaxRegions bounds how many regions a rule names.
const MaxRegions = 64

// wholeShare is 100 %, in hundredths of a percent.
const wholeShare = 10_000

var shareForm = regexp.MustCompile(`^(0|[1-9][0-9]{0,2})(?:\.([0-9]{1,2}))?%$`)

// parseShare reads hundredths of a percent, from 1 to wholeShare.
func parseShare(text string) (n int64, ok bool) {
	m := shareForm.FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	n, _ = strconv.ParseInt(m[1]+(m[2] + "00")[:2], 10, 64)
	return n, n >= 1 && n <= wholeShare
}

// ParseRegions reads NAME=SHARE,NAME=SHARE; "none" names none. What it names
// Compile judges.
func ParseRegions(text string) (Regions, error) {
	r := Regions{}
	if text == "none" {
		return r, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		name, share, ok := strings.Cut(part, "=")
		if !ok {
			return nil, fmt.Errorf("must be none or NAME=SHARE,NAME=SHARE, as eu=60%%,us=40%%, not %q", text)
		}
		if _, twice := r[name]; twice {
			return nil, fmt.Errorf("%q is given twice", name)
		}
		r[name] = share
	}
	return r, nil
}

// String is the form of ParseRegions, in order of the names.
func (r Regions) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(r)) {
		parts = append(parts, name+"="+r[name])
	}
	return strings.Join(parts, ",")
}

// InAll is what all regions of a rule with so much capacity admit together: the sum
// of their shares, as "110%", and of their capacities, each of which is rounded
// down. Shares that are no shares count nothing.
func (r Regions) InAll(capacity int64) (sum string, tokens int64) {
	var n int64
	for _, text := range r {
		if share, ok := parseShare(text); ok {
			n += share
			tokens += keys.PartOf(capacity, share, wholeShare)
		}
	}
	return strconv.FormatFloat(float64(n)/100, 'f', -1, 64) + "%", tokens
}

// CheckRegion says what is wrong with the name of a region.
func CheckRegion(name string) error {
	var bad Faults
	if checkName("", name, &bad); len(bad) > 0 {
		return errors.New(bad[0].Reason)
	}
	return nil
}

func (r Regions) check(at string, faults *Faults) {
	if len(r) > MaxRegions {
		faults.add(at, fmt.Sprintf("names more than %d regions", MaxRegions))
		return
	}
	for _, name := range slices.Sorted(maps.Keys(r)) {
		path := at + "[" + name + "]"
		checkName(path, name, faults)
		if _, ok := parseShare(r[name]); !ok {
			faults.add(path, fmt.Sprintf("must be a share above 0%% and up to 100%%, as 60%% or 33.33%%, not %q", r[name]))
		}
	}
}

// place is where a book is in force.
type place struct {
	region string // "": none
	every  bool   // in whatever region: to judge a definition, not to take by it
}

// in makes x what it is at a place: the region's share of its numbers, and of those
// that a key has of its own. at names the rule's regions, or a key's numbers.
func (x *bound) in(p place, at string, faults *Faults) {
	switch _, named := x.Regions[p.region]; {
	case len(x.Regions) == 0:
	case p.every:
		for _, region := range slices.Sorted(maps.Keys(x.Regions)) {
			trial := *x
			trial.share(region, at, faults)
		}
	case named:
		x.share(p.region, at, faults)
	case p.region == "":
		faults.add(at, fmt.Sprintf("this guardd is in no region: set region to one of %s", x.Regions))
	default:
		faults.add(at, fmt.Sprintf("says nothing of region %q, which this guardd is in", p.region))
	}
}

// share makes x a region's. Checks are those of a rule of such numbers.
func (x *bound) share(region, at string, faults *Faults) {
	n, _ := parseShare(x.Regions[region]) // checked
	whole := x.Rule
	x.region, x.whole = region, &whole
	x.Capacity = keys.PartOf(whole.Capacity, n, wholeShare)
	var bad Faults
	switch {
	case x.Capacity < 1:
		bad.add("", fmt.Sprintf("of %d is less than 1", whole.Capacity))
	case x.Kind == Concurrency:
	case x.Kind == Quota:
		x.limit.Capacity = x.Capacity
	default:
		l, err := x.limit.Part(n, wholeShare)
		if err != nil {
			bad.add("", fmt.Sprintf("of %s, capacity %d, %s", whole.Refill, whole.Capacity, err))
			break
		}
		x.limit = l
		x.checkShards("", l, &bad)
	}
	if len(bad) == 0 {
		x.checkRoutes(".routes", x.limit, &bad)
	}
	for _, f := range bad {
		faults.add(at, strings.Join(strings.Fields(fmt.Sprintf("in region %s, %s: %s %s", region, x.Regions[region], strings.TrimPrefix(f.Field, "."), f.Reason)), " "))
	}
}

// written is the rule as its row says it.
func (x *bound) written() Rule {
	if x.whole != nil {
		return *x.whole
	}
	return x.Rule
}

// usageRule names the rule in a ledger. Regions that share one have a row each: the
// share of one is nothing that another may spend. No rule's name has an @.
func (x *bound) usageRule() string {
	if x.region == "" {
		return x.Name
	}
	return x.Name + "@" + x.region
}

// Generous are the rules whose regions admit more in all than the rule says, in
// order of their names.
func (b *Book) Generous() (all []Rule) {
	for _, name := range slices.Sorted(maps.Keys(b.rules)) {
		r := b.rules[name].written()
		var n int64
		for _, text := range r.Regions {
			share, _ := parseShare(text)
			n += share
		}
		if n > wholeShare {
			all = append(all, r)
		}
	}
	return all
}
