package plans_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/guardd/guardd/keys/plans"
)

func say[T any](v T) *T { return &v }

// What an operator may do to rows, and what is refused, naming the field.
func TestEditsOfRows(t *testing.T) {
	key := digest("k")
	base := func() *plans.Definition {
		return &plans.Definition{
			Rules: []plans.Rule{{Name: "r", Capacity: 10, Refill: "10/1h", Routes: map[string]int64{"GET /": 2, "*": 1}}, {Name: "s", Capacity: 5, Refill: "1/1m"}},
			Plans: []plans.Plan{{Name: "p", Rules: []string{"r"}}},
			Keys:  []plans.Key{{SHA256: key, Name: "shop", Plan: "p", Overrides: []plans.Override{{Rule: "r", Capacity: ptr(20)}}}},
		}
	}
	for _, c := range []struct {
		name  string
		edit  plans.Edit
		err   error
		field string // of a fault
		want  func(d *plans.Definition)
	}{
		{"create a rule", plans.Edit{Action: plans.Create, Rule: &plans.RuleEdit{Name: "t", Capacity: ptr(3), Refill: say("1/1s")}}, nil, "",
			func(d *plans.Definition) {
				d.Rules = append(d.Rules, plans.Rule{Name: "t", Capacity: 3, Refill: "1/1s"})
			}},
		{"create it twice", plans.Edit{Action: plans.Create, Rule: &plans.RuleEdit{Name: "r", Capacity: ptr(3)}}, plans.ErrExists, "", nil},
		{"create half of one", plans.Edit{Action: plans.Create, Rule: &plans.RuleEdit{Name: "t", Refill: say("1/1s")}}, nil, "capacity", nil},
		{"change one number", plans.Edit{Action: plans.Change, Rule: &plans.RuleEdit{Name: "r", Capacity: ptr(40)}}, nil, "",
			func(d *plans.Definition) { d.Rules[0].Capacity = 40 }},
		{"to nothing", plans.Edit{Action: plans.Change, Rule: &plans.RuleEdit{Name: "r", Capacity: ptr(0)}}, nil, "capacity", nil},
		{"to no refill", plans.Edit{Action: plans.Change, Rule: &plans.RuleEdit{Name: "r", Refill: say("0/1h")}}, nil, "refill", nil},
		{"to a word that is none", plans.Edit{Action: plans.Change, Rule: &plans.RuleEdit{Name: "r", Failure: say(plans.Failure("maybe"))}}, nil, "failure", nil},
		{"below what a route costs", plans.Edit{Action: plans.Change, Rule: &plans.RuleEdit{Name: "r", Capacity: ptr(1)}}, nil, "routes[GET /]", nil},
		{"the table of routes whole", plans.Edit{Action: plans.Change, Rule: &plans.RuleEdit{Name: "r", Routes: map[string]int64{"POST /": 3}}}, nil, "",
			func(d *plans.Definition) { d.Rules[0].Routes = map[string]int64{"POST /": 3} }},
		{"no table of routes", plans.Edit{Action: plans.Change, Rule: &plans.RuleEdit{Name: "r", Routes: map[string]int64{}}}, nil, "",
			func(d *plans.Definition) { d.Rules[0].Routes = nil }},
		{"make it another kind", plans.Edit{Action: plans.Change, Rule: &plans.RuleEdit{Name: "s", Kind: say(plans.Concurrency), Refill: say(""), Settings: plans.Settings{TTL: say("10s")}}}, nil, "",
			func(d *plans.Definition) {
				d.Rules[1] = plans.Rule{Name: "s", Kind: plans.Concurrency, Capacity: 5, Settings: plans.Settings{TTL: say("10s")}}
			}},
		{"with what it cannot have", plans.Edit{Action: plans.Change, Rule: &plans.RuleEdit{Name: "s", Kind: say(plans.Concurrency)}}, nil, "refill", nil},
		{"and a setting of another", plans.Edit{Action: plans.Change, Rule: &plans.RuleEdit{Name: "s", Settings: plans.Settings{TTL: say("10s")}}}, nil, "ttl", nil},
		{"change one that is not there", plans.Edit{Action: plans.Change, Rule: &plans.RuleEdit{Name: "t"}}, plans.ErrNoRow, "", nil},
		{"delete one that a plan needs", plans.Edit{Action: plans.Delete, Rule: &plans.RuleEdit{Name: "r"}}, nil, "plans[p].rules[0]", nil},
		{"delete one", plans.Edit{Action: plans.Delete, Rule: &plans.RuleEdit{Name: "s"}}, nil, "",
			func(d *plans.Definition) { d.Rules = d.Rules[:1] }},
		{"a plan's rules", plans.Edit{Action: plans.Change, Plan: &plans.PlanEdit{Name: "p", Rules: []string{"s", "r"}}}, nil, "",
			func(d *plans.Definition) { d.Plans[0].Rules = []string{"s", "r"} }},
		{"a plan without the rule that a key overrides", plans.Edit{Action: plans.Change, Plan: &plans.PlanEdit{Name: "p", Rules: []string{"s"}}}, nil,
			"keys[" + key.String() + "].overrides[0].rule", nil},
		{"delete a plan that a key has", plans.Edit{Action: plans.Delete, Plan: &plans.PlanEdit{Name: "p"}}, nil, "keys[" + key.String() + "].plan", nil},
		{"suspend a key", plans.Edit{Action: plans.Change, Key: &plans.KeyEdit{SHA256: key, State: say(plans.Suspended)}}, nil, "",
			func(d *plans.Definition) { d.Keys[0].State = plans.Suspended }},
		{"take its overrides away", plans.Edit{Action: plans.Change, Key: &plans.KeyEdit{SHA256: key, Overrides: []plans.Override{}}}, nil, "",
			func(d *plans.Definition) { d.Keys[0].Overrides = nil }},
		{"another bad override", plans.Edit{Action: plans.Change, Key: &plans.KeyEdit{SHA256: key, Overrides: []plans.Override{{Rule: "r", Capacity: ptr(-1)}}}}, nil, "overrides[0].capacity", nil},
		{"delete a key", plans.Edit{Action: plans.Delete, Key: &plans.KeyEdit{SHA256: key}}, nil, "", func(d *plans.Definition) { d.Keys = nil }},
		{"no row", plans.Edit{Action: plans.Delete}, nil, "", nil},
		{"two rows", plans.Edit{Action: plans.Delete, Plan: &plans.PlanEdit{Name: "p"}, Key: &plans.KeyEdit{SHA256: key}}, nil, "", nil},
		{"no action", plans.Edit{Plan: &plans.PlanEdit{Name: "p"}}, nil, "action", nil},
	} {
		d, untouched := base(), base()
		after := *d
		err := c.edit.Apply(&after)
		if err == nil {
			kind, name, _ := c.edit.Row()
			if bad := plans.Judge(d, &after, plans.Diff(d, &after)).Within(kind, name); len(bad) > 0 {
				err = bad
			}
		}
		if diff := plans.Diff(untouched, d); len(diff) > 0 {
			t.Errorf("%s: writes into what was there: %+v", c.name, diff)
		}
		switch {
		case c.want != nil:
			want := base()
			c.want(want)
			if diff := plans.Diff(want, &after); err != nil || len(diff) > 0 {
				t.Errorf("%s: %v, %+v", c.name, err, diff)
			}
		case c.err != nil && !errors.Is(err, c.err), c.err == nil && !isFault(err, c.field):
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// A row that was bad before keeps nobody from mending another, but is not to be
// touched and left bad.
func TestABadRowKeepsNobodyFromMendingAnother(t *testing.T) {
	d := &plans.Definition{Rules: []plans.Rule{{Name: "bad", Capacity: -5, Refill: "1/1h"}, {Name: "r", Capacity: 10, Refill: "10/1h"}},
		Unread: []plans.Unread{{Kind: plans.KindRule, Name: "torn", Fault: plans.Fault{Field: "routes", Reason: "is not JSON"}}}}
	judge := func(e plans.Edit) (plans.Faults, []plans.Record) {
		after := *d
		if err := e.Apply(&after); err != nil {
			t.Fatal(err)
		}
		diff := plans.Diff(d, &after)
		return plans.Judge(d, &after, diff), diff
	}
	if bad, diff := judge(plans.Edit{Action: plans.Change, Rule: &plans.RuleEdit{Name: "r", Capacity: ptr(11)}}); len(bad) > 0 || len(diff) != 1 {
		t.Errorf("another row: %v, %+v", bad, diff)
	}
	if bad, _ := judge(plans.Edit{Action: plans.Change, Rule: &plans.RuleEdit{Name: "bad", Refill: say("2/1h")}}); !bad.On("rules[bad].capacity") {
		t.Errorf("touched and left bad: %v", bad)
	}
	if bad, diff := judge(plans.Edit{Action: plans.Change, Rule: &plans.RuleEdit{Name: "torn", Capacity: ptr(1), Refill: say("1/1h")}}); len(bad) > 0 || len(diff) != 1 || diff[0].Action != plans.Change || diff[0].Before != nil {
		t.Errorf("an unread row made anew: %v, %+v", bad, diff)
	}
	if bad, diff := judge(plans.Edit{Action: plans.Delete, Rule: &plans.RuleEdit{Name: "torn"}}); len(bad) > 0 || len(diff) != 1 || diff[0].Action != plans.Delete {
		t.Errorf("an unread row deleted: %v, %+v", bad, diff)
	}
	after := *d
	if err := (&plans.Edit{Action: plans.Create, Rule: &plans.RuleEdit{Name: "torn"}}).Apply(&after); !errors.Is(err, plans.ErrExists) {
		t.Errorf("an unread row created: %v", err)
	}
}

// An unread row's name keeps what was in force under it.
func TestAnUnreadRowTakesNobodysLimitsAway(t *testing.T) {
	w := newWorld(t, three)
	next := *three
	next.Rules, next.Keys = three.Rules[1:], three.Keys[1:]
	next.Unread = []plans.Unread{{Kind: plans.KindRule, Name: "second", Fault: plans.Fault{Field: "routes", Reason: "is not JSON"}},
		{Kind: plans.KindKey, Name: digest("free-key").String(), Fault: plans.Fault{Field: "overrides", Reason: "is not JSON"}}}
	b, faults := plans.Compile(&next, "2", w.Book())
	if len(faults) != 2 || !faults.On("rules[second].routes") || !faults.On("keys["+digest("free-key").String()+"].overrides") {
		t.Fatalf("faults: %v", faults)
	}
	w.Swap(b)
	if got := left(w.take(plans.Request{Key: "free-key", Cost: 1})); !slices.Equal(got, []int64{9, 99, 49}) {
		t.Errorf("left %v", got)
	}
	if _, faults := plans.Compile(&next, "2", nil); !faults.On("plans[0].rules[0]") {
		t.Errorf("a process that never had the row: %v", faults)
	}
}

// Until a process knows its limits, it says that it does not know.
func TestWithoutABookNothingIsKnown(t *testing.T) {
	w := newWorld(t, three)
	w.Swap(plans.Unknown())
	if _, err := w.Take(t.Context(), &plans.Request{Key: "k", Rules: []string{"hour"}, Cost: 1}); !errors.Is(err, plans.ErrUnloaded) || !errors.Is(err, plans.ErrStore) {
		t.Errorf("%v", err)
	}
	w.load(three)
	if d := w.take(plans.Request{Key: "k", Rules: []string{"hour"}, Cost: 1}); !d.Allowed {
		t.Errorf("%+v", d)
	}
}

func TestAnAuthorSaysWhoAndWhy(t *testing.T) {
	for _, c := range []struct {
		field    string
		who, why string
	}{{"who", "", "x"}, {"who", " ", "x"}, {"who", strings.Repeat("x", plans.MaxWho+1), "x"}, {"who", "a\x1b[2J", "x"}, {"reason", "x", ""},
		{"reason", "x", strings.Repeat("x", plans.MaxWhy+1)}, {"reason", "x", "a\nb"}, {"reason", "x", "\xff"}} {
		if err := (plans.Author{Who: c.who, Why: c.why}).Check(); !isFault(err, c.field) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if err := (plans.Author{Who: "a", Why: "b"}).Check(); err != nil {
		t.Error(err)
	}
}
