package plans_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/plans"
)

var euUS = plans.Regions{"eu": "60%", "us": "40%"}

// regional are rules of each kind with shares, and a key with numbers of its own.
func regional(shares plans.Regions) *plans.Definition {
	return &plans.Definition{
		Rules: []plans.Rule{
			{Name: "rate", Capacity: 10, Refill: "10/1h", Settings: plans.Settings{Regions: shares}},
			{Name: "slots", Kind: plans.Concurrency, Capacity: 5, Settings: plans.Settings{Regions: shares}},
			{Name: "quota", Kind: plans.Quota, Capacity: 20, Settings: plans.Settings{Regions: shares}},
			{Name: "whole", Capacity: 10, Refill: "10/1h"},
		},
		Plans: []plans.Plan{{Name: "p", Rules: []string{"rate", "quota", "slots"}}},
		Keys: []plans.Key{{SHA256: digest("big"), Plan: "p", Overrides: []plans.Override{{Rule: "rate", Capacity: ptr(1000)}, {Rule: "slots", Capacity: ptr(50)}, {Rule: "quota", Capacity: ptr(200)}}},
			{SHA256: digest("slow"), Plan: "p", Overrides: []plans.Override{{Rule: "rate", Refill: "5/1h"}}}},
	}
}

// in is o in a region, without fault.
func (o *office) in(t *testing.T, region string, d *plans.Definition) *plans.Taker {
	t.Helper()
	b, faults := plans.CompileIn(region, d, "1", nil)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	x := o.start()
	x.Swap(b)
	return x
}

// Each region has its share of every number, of a key's own numbers, too, and a rule
// without regions is whole in each.
func TestARegionHasItsShare(t *testing.T) {
	o := newOffice(&plans.Definition{}, 0)
	for _, c := range []struct {
		region, key, rule string
		want              int64
	}{
		{"eu", "k", "rate", 6}, {"us", "k", "rate", 4}, {"eu", "k", "quota", 12}, {"us", "k", "quota", 8},
		{"eu", "big", "rate", 600}, {"us", "big", "rate", 400}, {"eu", "big", "quota", 120}, {"us", "big", "quota", 80},
		{"eu", "slow", "rate", 6}, {"us", "slow", "rate", 4}, // the capacity is the rule's, and not shared twice
		{"eu", "k", "whole", 10}, {"us", "k", "whole", 10},
	} {
		x := o.in(t, c.region, regional(euUS))
		d, err := x.Take(context.Background(), &plans.Request{Key: c.key, Rules: []string{c.rule}})
		if err != nil || d.Limits[0].Limit.Capacity != c.want || d.Limits[0].Remaining() != c.want {
			t.Errorf("%s of %s in %s: %+v, %v, want %d", c.rule, c.key, c.region, d, err, c.want)
		}
		if c.rule == "rate" && d != nil {
			if w := d.Limits[0].Window(); w != time.Hour && c.key == "k" {
				t.Errorf("%s in %s is full after %s: the refill has the same share", c.rule, c.region, w)
			}
		}
	}
	for region, want := range map[string]int64{"eu": 3, "us": 2} { // 60 % and 40 % of 5
		x := o.in(t, region, regional(euUS))
		d, err := x.Acquire(context.Background(), &plans.SlotRequest{Key: "k " + region, Rules: []string{"slots"}})
		if err != nil || d.Limits[0].Cap != want {
			t.Errorf("slots in %s: %+v, %v", region, d, err)
		}
		if d, err = x.Acquire(context.Background(), &plans.SlotRequest{Key: "big", Rules: []string{"slots"}}); err != nil || d.Limits[0].Cap != want*10 {
			t.Errorf("slots of a key's own in %s: %+v, %v", region, d, err)
		}
	}
}

// Regions with a store each admit the sum of their shares, and what is rounded down
// is lost: 7 are 4 and 2.
func TestRegionsAdmitTheSumOfTheirShares(t *testing.T) {
	for _, c := range []struct{ capacity, eu, us int64 }{{10, 6, 4}, {7, 4, 2}, {1000, 600, 400}} {
		d := &plans.Definition{Rules: []plans.Rule{{Name: "r", Capacity: c.capacity, Refill: "1/1000h", Settings: plans.Settings{Regions: euUS}}}}
		for region, want := range map[string]int64{"eu": c.eu, "us": c.us} {
			o := newOffice(&plans.Definition{}, 0) // a store of its own
			x := o.in(t, region, d)
			var let int64
			for range c.capacity + 3 {
				if ask(t, x, plans.Request{Rules: []string{"r"}, Cost: 1}).Allowed {
					let++
				}
			}
			if let != want {
				t.Errorf("%d of %d in %s, want %d", let, c.capacity, region, want)
			}
		}
		if sum, tokens := euUS.InAll(c.capacity); sum != "100%" || tokens != c.eu+c.us {
			t.Errorf("of %d in all %s, %d", c.capacity, sum, tokens)
		}
	}
	if sum, tokens := (plans.Regions{"eu": "60%", "us": "33.33%", "ap": "25.5%"}).InAll(100); sum != "118.83%" || tokens != 60+33+25 {
		t.Errorf("%s, %d", sum, tokens)
	}
}

// Regions that keep a quota in one ledger do not spend each other's, and are told of
// apart; a quota without regions is one there.
func TestRegionsOfOneLedger(t *testing.T) {
	d := &plans.Definition{Rules: []plans.Rule{
		{Name: "shared", Kind: plans.Quota, Capacity: 20, Settings: plans.Settings{Regions: euUS}},
		{Name: "one", Kind: plans.Quota, Capacity: 20}}}
	o := newOffice(&plans.Definition{}, 0)
	eu, us := o.in(t, "eu", d), o.in(t, "us", d)
	let := map[string]int{}
	for range 30 {
		for region, x := range map[string]*plans.Taker{"eu": eu, "us": us} {
			for _, rule := range []string{"shared", "one"} {
				if ask(t, x, plans.Request{Rules: []string{rule}, Cost: 1}).Allowed {
					let[rule]++
					let[rule+" "+region]++
				}
			}
			x.TidyQuotas(context.Background())
			o.now += 3 * keys.Second // nobody keeps anything in hand
			x.TidyQuotas(context.Background())
		}
	}
	if let["shared eu"] != 12 || let["shared us"] != 8 || let["one"] != 20 {
		t.Errorf("%v", let)
	}
	told := map[string]int{}
	for _, q := range o.reached {
		told[q.Rule]++
	}
	if told["shared@eu"] != 2 || told["shared@us"] != 2 || told["one"] != 2 || len(told) != 3 {
		t.Errorf("told %v", told)
	}
}

func TestBadRegionsAreRefused(t *testing.T) {
	rule := func(shares plans.Regions, change ...func(*plans.Rule)) *plans.Definition {
		r := plans.Rule{Name: "r", Capacity: 10, Refill: "10/1h", Settings: plans.Settings{Regions: shares}}
		for _, f := range change {
			f(&r)
		}
		return &plans.Definition{Rules: []plans.Rule{r}}
	}
	own := func(capacity int64, refill string) *plans.Definition {
		d := regional(euUS)
		d.Keys[0].Overrides = []plans.Override{{Rule: "rate", Capacity: &capacity, Refill: refill}}
		return d
	}
	many := plans.Regions{}
	for i := range plans.MaxRegions + 1 {
		many["r"+strings.Repeat("x", i%60)+string(rune('a'+i/60))] = "1%"
	}
	bad := map[string]struct {
		d      *plans.Definition
		region string
		field  string
		says   string
	}{
		"0":                   {rule(plans.Regions{"eu": "0%"}), "eu", "rules[0].regions[eu]", "must be a share"},
		"above 100":           {rule(plans.Regions{"eu": "100.01%"}), "eu", "rules[0].regions[eu]", "must be a share"},
		"three decimals":      {rule(plans.Regions{"eu": "33.333%"}), "eu", "rules[0].regions[eu]", "must be a share"},
		"no percent":          {rule(plans.Regions{"eu": "60"}), "eu", "rules[0].regions[eu]", "must be a share"},
		"less than nothing":   {rule(plans.Regions{"eu": "-1%"}), "eu", "rules[0].regions[eu]", "must be a share"},
		"a name with a space": {rule(plans.Regions{"e u": "60%"}), "e u", "rules[0].regions[e u]", "letters"},
		"no name":             {rule(plans.Regions{"": "60%"}), "", "rules[0].regions[]", "is missing"},
		"too many":            {rule(many), "eu", "rules[0].regions", "more than"},
		"in no region":        {rule(euUS), "", "rules[0].regions", "is in no region: set region to one of eu=60%,us=40%"},
		"in another":          {rule(euUS), "ap", "rules[0].regions", `nothing of region "ap"`},
		"less than 1":         {rule(plans.Regions{"eu": "9.99%"}), "eu", "rules[0].regions", "in region eu, 9.99%: of 10 is less than 1"},
		"a slot less than 1":  {rule(plans.Regions{"eu": "9%"}, func(r *plans.Rule) { r.Kind, r.Refill = plans.Concurrency, "" }), "eu", "rules[0].regions", "less than 1"},
		"a quota less than 1": {rule(plans.Regions{"eu": "9%"}, func(r *plans.Rule) { r.Kind, r.Refill = plans.Quota, "" }), "eu", "rules[0].regions", "less than 1"},
		"inexact":             {rule(plans.Regions{"eu": "33.33%"}, func(r *plans.Rule) { r.Capacity, r.Refill = 100_000, "99991/24h" }), "eu", "rules[0].regions", "in region eu, 33.33%: of 99991/24h, capacity 100000, leaves the exact range"},
		"a route":             {rule(plans.Regions{"eu": "50%"}, func(r *plans.Rule) { r.Routes = map[string]int64{"*": 6} }), "eu", "rules[0].regions", "routes[*] costs 6, but capacity is 5"},
		"a route of a quota":  {rule(plans.Regions{"eu": "50%"}, func(r *plans.Rule) { r.Kind, r.Refill, r.Routes = plans.Quota, "", map[string]int64{"*": 6} }), "eu", "rules[0].regions", "routes[*] costs 6, but capacity is 5"},
		"shards":              {rule(plans.Regions{"eu": "50.5%"}, func(r *plans.Rule) { r.Capacity, r.Shards = 200, ptr(2) }), "eu", "rules[0].regions", "multiple of the 2 shards"},
		"a key's own":         {own(1, ""), "eu", "keys[0].overrides[0].capacity", "in region eu, 60%: of 1 is less than 1"},
	}
	for name, c := range bad {
		t.Run(name, func(t *testing.T) {
			_, faults := plans.CompileIn(c.region, c.d, "1", nil)
			if !faults.On(c.field) || !strings.Contains(faults.Error(), c.says) {
				t.Errorf("%v, want %s: %s", faults, c.field, c.says)
			}
			judged := plans.Check(c.d) // wherever it is in force
			if elsewhere := name == "in no region" || name == "in another"; elsewhere != (len(judged) == 0) {
				t.Errorf("judged: %v", judged)
			}
		})
	}
	if faults := plans.Check(regional(euUS)); len(faults) > 0 {
		t.Error(faults)
	}
	if _, faults := plans.Compile(regional(euUS), "1", nil); !faults.On("rules[0].regions") {
		t.Errorf("in no region: %v", faults)
	}
	if err := plans.CheckRegion("eu west"); err == nil || plans.CheckRegion("eu-west.1") != nil {
		t.Error("names of regions")
	}
}

// A rule that goes on without this region is a bad row: the old one stays.
func TestARuleThatForgetsARegionStaysAsItWas(t *testing.T) {
	had, faults := plans.CompileIn("us", regional(euUS), "1", nil)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	now, faults := plans.CompileIn("us", regional(plans.Regions{"eu": "100%"}), "2", had)
	if !faults.On("rules[0].regions") {
		t.Error(faults)
	}
	o := newOffice(&plans.Definition{}, 0)
	x := o.start()
	x.Swap(now)
	if d := ask(t, x, plans.Request{Rules: []string{"rate"}}); d.Limits[0].Limit.Capacity != 4 {
		t.Errorf("%+v", d)
	}
}

func TestGenerousRules(t *testing.T) {
	d := regional(plans.Regions{"eu": "60%", "us": "40.01%"})
	b, _ := plans.CompileIn("eu", d, "1", nil)
	all := b.Generous()
	if len(all) != 3 || all[0].Name != "quota" || all[0].Capacity != 20 {
		t.Errorf("%+v", all)
	}
	if b, _ = plans.CompileIn("eu", regional(euUS), "1", nil); len(b.Generous()) != 0 {
		t.Error("100 % is not too much")
	}
}

// Regions are carried through text, JSON and changes.
func TestRegionsAreCarried(t *testing.T) {
	r, err := plans.ParseRegions("us=40%,eu=60%")
	if err != nil || r.String() != "eu=60%,us=40%" {
		t.Errorf("%v, %v", r, err)
	}
	for _, text := range []string{"eu", "", "eu=1%,eu=2%"} {
		if _, err := plans.ParseRegions(text); err == nil {
			t.Errorf("%q was read", text)
		}
	}
	var e plans.RuleEdit
	if err := json.Unmarshal([]byte(`{"name":"rate","regions":{"eu":"60%","us":"40%"}}`), &e); err != nil {
		t.Fatal(err)
	}
	d := regional(nil)
	before := *d
	edit := plans.Edit{Action: plans.Change, Rule: &e}
	if err := edit.Apply(d); err != nil || d.Rules[0].Regions.String() != "eu=60%,us=40%" {
		t.Fatalf("%+v, %v", d.Rules[0], err)
	}
	if records := plans.Diff(&before, d); len(records) != 1 || !strings.Contains(string(records[0].After), `"regions":{"eu":"60%","us":"40%"}`) {
		t.Errorf("%+v", records)
	}
	if e.Regions, err = plans.ParseRegions("none"); err != nil {
		t.Fatal(err)
	}
	if err := edit.Apply(d); err != nil || len(plans.Diff(&before, d)) != 0 {
		t.Errorf("%+v, %v", d.Rules[0], err)
	}
}
