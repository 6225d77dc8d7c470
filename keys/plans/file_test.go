package plans_test

import (
	"slices"
	"testing"

	"github.com/guardd/guardd/keys/plans"
)

// TestCompileFileTellsRootsOnly: all that is wrong with a file at once, and nothing that
// is mended with something else.
func TestCompileFileTellsRootsOnly(t *testing.T) {
	good := plans.Rule{Name: "good", Capacity: 10, Refill: "1/1s"}
	bad := plans.Rule{Name: "bad", Refill: "1/1s"}
	of := func(plan string, rules ...string) plans.Plan { return plans.Plan{Name: plan, Rules: rules} }
	key := func(n byte, plan string, o ...plans.Override) plans.Key {
		return plans.Key{SHA256: plans.Digest{n}, Plan: plan, Overrides: o}
	}
	ten, none := new(int64(10)), new(int64(0))
	for name, c := range map[string]struct {
		d    plans.Definition
		want []string
	}{
		"all right": {plans.Definition{Rules: []plans.Rule{good}, Plans: []plans.Plan{of("p", "good")}, Keys: []plans.Key{key(1, "p")}}, nil},
		"a plan of a bad rule, a key of that plan": {plans.Definition{Rules: []plans.Rule{good, bad}, Plans: []plans.Plan{of("p", "good", "bad")},
			Keys: []plans.Key{key(1, "p"), key(2, "p", plans.Override{Rule: "good", Capacity: ten}, plans.Override{Rule: "bad", Capacity: ten})}}, []string{"rules[1].capacity"}},
		"but what is wrong there, too": {plans.Definition{Rules: []plans.Rule{good, bad}, Plans: []plans.Plan{of("p", "good", "bad", "gone", "good")},
			Keys: []plans.Key{key(1, "p", plans.Override{Rule: "other", Capacity: ten}, plans.Override{Rule: "good", Capacity: none}, plans.Override{Rule: "bad", Capacity: none, Refill: "x"}), key(1, "gone")}},
			[]string{"rules[1].capacity", "plans[0].rules[2]", "plans[0].rules[3]", "keys[0].overrides[0].rule", "keys[0].overrides[1].capacity",
				"keys[0].overrides[2].capacity", "keys[0].overrides[2].refill", "keys[1].plan"}},
		"twice, the first of which is bad": {plans.Definition{Rules: []plans.Rule{bad, {Name: "bad", Capacity: 1}}, Plans: []plans.Plan{of("p"), of("p", "bad", "gone")},
			Keys: []plans.Key{key(1, "p", plans.Override{Rule: "bad", Capacity: ten})}}, []string{"rules[0].capacity", "rules[1].name", "rules[1].refill", "plans[0].rules", "plans[1].name", "plans[1].rules[1]"}},
		"twice, the first of which is right": {plans.Definition{Rules: []plans.Rule{good, {Name: "good", Refill: "1/1s"}}, Plans: []plans.Plan{of("p", "good"), of("p")},
			Keys: []plans.Key{key(1, "p"), {SHA256: plans.Digest{1}, Plan: "p", State: "asleep"}}}, []string{"rules[1].name", "rules[1].capacity", "plans[1].name", "plans[1].rules", "keys[1].sha256", "keys[1].state"}},
		"without a name": {plans.Definition{Rules: []plans.Rule{{Capacity: 10, Refill: "1/1s"}, good}, Plans: []plans.Plan{of("", "good"), of("q", "theirs", "good")},
			Keys: []plans.Key{key(1, "p"), key(2, "q")}}, []string{"rules[0].name", "plans[0].name"}},
	} {
		b, faults := plans.CompileFile("", &c.d, "v")
		var fields []string
		for _, f := range faults {
			fields = append(fields, f.Field)
		}
		if !slices.Equal(fields, c.want) {
			t.Errorf("%s: %v\nnot %v:\n%v", name, fields, c.want, faults)
		}
		if r, p, k := b.Sizes(); len(c.want) == 0 && (r != 1 || p != 1 || k != 1) {
			t.Errorf("%s: %d rules, %d plans, %d keys", name, r, p, k)
		}
	}
	// Who changes one row is told what that breaks: there the rows in force count.
	d := plans.Definition{Rules: []plans.Rule{bad}, Plans: []plans.Plan{of("p", "bad")}}
	if faults := plans.Check(&d); !faults.On("plans[0].rules[0]") {
		t.Errorf("a plan of a rule that cannot be in force is right: %v", faults)
	}
}
