// Package sigma_test holds the Sigma rules of this folder to the specification, and
// evaluates them over events of a real guard that is attacked, and of one that is not.
package sigma_test

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/aggregate/sim"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
)

// TestRulesFollowTheSpecification: Sigma 2.1, as its JSON schemas and its prose have it.
func TestRulesFollowTheSpecification(t *testing.T) {
	rules := load(t)
	uuid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	ids := map[string]string{}
	for name, r := range rules {
		bad := func(format string, args ...any) { t.Errorf(name+": "+format, args...) }
		if r.Title == "" || len(r.Title) > 256 || strings.HasSuffix(r.Title, ".") {
			bad("title %q", r.Title)
		}
		if !uuid.MatchString(r.ID) || ids[r.ID] != "" {
			bad("id %q, as %q", r.ID, ids[r.ID])
		}
		ids[r.ID] = name
		if r.Status != "test" || r.License != "Apache-2.0" || r.Author == "" || strings.TrimSpace(r.Description) == "" || len(r.References) == 0 {
			bad("status, license, author, description and references are needed: %+v", r)
		}
		if _, err := time.Parse(time.DateOnly, r.Date); err != nil {
			bad("date %q", r.Date)
		}
		if !slices.Contains([]string{"informational", "low", "medium", "high", "critical"}, r.Level) {
			bad("level %q", r.Level)
		}
		for _, tag := range r.Tags {
			if !regexp.MustCompile(`^attack\.(t\d{4}(\.\d{3})?|[a-z]+(-[a-z]+)*)$`).MatchString(tag) {
				bad("tag %q", tag)
			}
		}
		if r.Level != "informational" && (len(r.Tags) == 0 || len(r.FalsePositives) == 0) && r.Logsource == nil {
			bad("what alerts says what it means and when it is wrong")
		}
		if (r.Correlation == nil) == (r.Detection == nil) {
			bad("has one of detection and correlation")
		} else if r.Detection != nil {
			checkDetection(r, bad)
		} else {
			checkCorrelation(rules, r, bad)
		}
	}
}

func checkDetection(r *rule, bad func(string, ...any)) {
	condition, _ := r.Detection["condition"].(string)
	if r.Logsource == nil || r.Logsource.Product != "guardd" || !slices.Contains([]string{"events", "findings"}, r.Logsource.Service) || condition == "" {
		bad("logsource %+v, condition %q", r.Logsource, condition)
		return
	}
	p := &parser{words: tokens(condition), known: r.Detection, holds: func(string) bool { return true }}
	if p.or(); p.err != nil || len(p.words) > 0 {
		bad("condition %q: %v %v", condition, p.err, p.words)
	}
	fields := fieldsOf(reflect.TypeFor[aggregate.Event]())
	if r.Logsource.Service == "findings" {
		fields = fieldsOf(reflect.TypeFor[aggregate.Finding]())
	}
	for name, s := range r.Detection {
		if name == "condition" {
			continue
		}
		if !strings.Contains(condition, name) && !strings.Contains(condition, strings.SplitAfter(name, "_")[0]+"*") {
			bad("%s is in no condition", name)
		}
		m, ok := s.(map[string]any)
		if !ok {
			bad("%s is no map", name)
		}
		for field := range m {
			field, modifier, _ := strings.Cut(field, "|")
			if !slices.Contains(fields, field) || !slices.Contains([]string{"", "exists", "startswith"}, modifier) {
				bad("%s asks for the field %q, modifier %q", name, field, modifier)
			}
		}
	}
}

func checkCorrelation(rules map[string]*rule, r *rule, bad func(string, ...any)) {
	c := r.Correlation
	if r.Logsource != nil || !slices.Contains([]string{"event_count", "value_count", "temporal_ordered"}, c.Type) || len(c.GroupBy) == 0 || c.GroupBy[0] != "realm" {
		bad("%+v", c)
	}
	if _, err := spanOf(c.Timespan); err != nil {
		bad("%v", err)
	}
	for _, other := range c.Rules {
		if rules[other] == nil || other == r.Name {
			bad("there is no rule %q", other)
		}
	}
	fields := fieldsOf(reflect.TypeFor[aggregate.Event]())
	want := c.GroupBy
	if c.Type == "value_count" {
		field, _ := c.Condition["field"].(string)
		want = append(slices.Clone(want), field)
	}
	for _, f := range want {
		if !slices.Contains(fields, f) {
			bad("there is no field %q", f)
		}
	}
	if n, ok := c.Condition["gte"].(int); !ok || n < 2 || len(c.Condition) != 1+len(want)-len(c.GroupBy) {
		bad("condition %v", c.Condition)
	}
}

// fieldsOf are the names in JSON, those of lists of objects with a dot.
func fieldsOf(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
		if e := t.Field(i).Type; e.Kind() == reflect.Slice && e.Elem().Kind() == reflect.Struct {
			for _, sub := range fieldsOf(e.Elem()) {
				names = append(names, name+"."+sub)
			}
		}
	}
	return names
}

const minute, small, large = int64(60e6), 30_000, 100_000

// attacks are what each rule that alerts is there for.
func attacks(t *testing.T) map[string]func() []record {
	wrong := func(account, ip string) escalation.Attempt {
		return escalation.Attempt{Account: account, IP: ip, PasswordTag: "00112233445566778899"}
	}
	during := func(scenario string, c sim.Config) func() []record {
		c.Seed, c.PerDay, c.Before, c.After = 5, small, 5*minute, minute
		return func() []record { return play(t, scenario, c) }
	}
	return map[string]func() []record{
		"guardd_credential_stuffing":  during("stuffing-8000x4", sim.Config{During: 10 * minute}),
		"guardd_password_spraying":    during("spray-common-password", sim.Config{During: 10 * minute}),
		"guardd_account_under_attack": during("botnet-one-account", sim.Config{During: 15 * minute}),
		"guardd_account_takeover": func() []record { // an hour between two guesses stays under every limit
			return scripted(t, 12, time.Hour, func(w *world, i int) {
				a, o := wrong("victim", fmt.Sprintf("198.51.100.%d", i)), keys.Failure
				if a.PasswordTag = fmt.Sprintf("%020x", i); i == 11 {
					o = keys.Success
				}
				w.login(a, o, false)
			})
		},
		"guardd_account_enumeration": func() []record {
			return scripted(t, 30, 10*time.Second, func(w *world, i int) {
				w.login(wrong(fmt.Sprint("name", i), fmt.Sprintf("198.51.100.%d", i%3)), keys.UnknownAccount, false)
			})
		},
		"guardd_token_forgery": func() []record {
			return scripted(t, 30, 10*time.Second, func(w *world, i int) {
				a := wrong(fmt.Sprint("name", i), "198.51.100.7")
				if i%2 == 0 {
					a.Device = "forged"
				} else {
					a.Proof = "forged"
				}
				w.login(a, keys.Failure, false)
			})
		},
		"guardd_finding_attack": func() []record {
			return findings(t, aggregate.Finding{V: 1, ID: "x", Realm: "default", What: "distributed_guessing", State: aggregate.FindingOpen, Posture: "high"})
		},
		"guardd_finding_takeover": func() []record {
			return findings(t, aggregate.Finding{V: 1, ID: "x", Realm: "default", What: "success_after_failures", State: aggregate.FindingOpen})
		},
		"guardd_operator_loosened": func() []record {
			return findings(t, aggregate.Finding{V: 1, ID: "x", What: aggregate.OperatorAction, State: aggregate.FindingOnce, Action: "list.set", By: "ops",
				Done: []aggregate.FindingAction{{What: "list.set on allow, networks: 1"}}})
		},
	}
}

// calm is what no rule that alerts may fire on: an honest hour with what scans in the
// background, applications with old passwords, an office that comes to work, and
// findings of what is none of it.
func calm(t *testing.T) map[string][]record {
	c := sim.Config{Seed: 6, Before: 5 * minute, During: 45 * minute, After: 5 * minute}
	all := map[string][]record{}
	for _, scenario := range []sim.Case{sim.StaleApp, sim.OfficeAtNine, sim.ResetDay, sim.OutageNotChecked} {
		c.PerDay = small
		if scenario == sim.StaleApp {
			c.PerDay = large // for which the thresholds are said
		}
		all[string(scenario)] = play(t, string(scenario), c)
	}
	all["findings"] = findings(t,
		aggregate.Finding{V: 1, ID: "a", What: "distributed_guessing", State: aggregate.FindingOpen, Posture: "elevated"},
		aggregate.Finding{V: 1, ID: "b", What: "distributed_guessing", State: aggregate.FindingOpen, Posture: "critical", DryRun: true},
		aggregate.Finding{V: 1, ID: "c", What: "success_after_failures", State: aggregate.FindingClosed},
		aggregate.Finding{V: 1, ID: "d", What: aggregate.OperatorAction, State: aggregate.FindingOnce, Action: "list.set", Done: []aggregate.FindingAction{{What: "list.set on deny, networks: 1"}}},
		aggregate.Finding{V: 1, ID: "e", What: aggregate.OperatorAction, State: aggregate.FindingOnce, Action: "posture.release"})
	return all
}

// TestEachRuleFiresOnItsAttackAndNotOnCalm.
func TestEachRuleFiresOnItsAttackAndNotOnCalm(t *testing.T) {
	rules := load(t)
	peace := map[string]*engine{}
	for name, records := range calm(t) {
		if len(records) < 5 {
			t.Fatalf("%s: %d records", name, len(records))
		}
		peace[name] = &engine{rules, records, map[string][]hit{}}
	}
	story := attacks(t)
	used := map[string]bool{}
	for name, r := range rules {
		if r.Correlation != nil {
			for _, other := range r.Correlation.Rules {
				used[other] = true
			}
		}
		if r.Level == "informational" {
			continue
		}
		if story[name] == nil {
			t.Errorf("%s: nobody attacks", name)
			continue
		}
		e := &engine{rules, story[name](), map[string][]hit{}}
		if n := len(e.hits(name)); n == 0 {
			for _, other := range rules[name].rules() {
				t.Logf("%s: %d", other, len(e.hits(other)))
			}
			t.Errorf("%s does not fire, of %d records", name, len(e.records))
		} else {
			t.Logf("%s fires %d times in %d records", name, n, len(e.records))
		}
		for calm, e := range peace {
			if n := len(e.hits(name)); n > 0 {
				t.Errorf("%s fires %d times on %s, first %v", name, n, calm, e.hits(name)[0].fields.fields)
			}
		}
	}
	for name, r := range rules {
		if r.Level == "informational" && !used[name] {
			t.Errorf("%s alerts nobody and is used by no rule", name)
		}
	}
}

func (r *rule) rules() []string {
	if r.Correlation == nil {
		return nil
	}
	return r.Correlation.Rules
}

// TestTheRulesAreNamedWhereAnalystsLook.
func TestTheRulesAreNamedWhereAnalystsLook(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range load(t) {
		if r.Level != "informational" && !strings.Contains(string(text), "["+name+"]("+name+".yml)") {
			t.Errorf("README.md does not name %s", name)
		}
	}
}
