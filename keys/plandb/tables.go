package plandb

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/guardd/guardd/keys/plans"
)

// table is how rows of one kind are kept.
type table struct {
	kind    plans.Kind
	name    string
	columns []string // the first is the key
	// read adds a row to d; where it cannot, it returns its name and c.fault is set.
	read func(c *cells, d *plans.Definition) (name string)
	// values are a row's, in the columns' order; row is as in a plans.Record.
	values func(row json.RawMessage) ([]any, error)
}

var tables = []*table{
	{plans.KindRule, "guardd_limits_rules",
		[]string{"name", "capacity", "refill_count", "refill_period", "routes", "counts", "failure", "refund", "kind", "settings"}, readRule, ruleValues},
	{plans.KindPlan, "guardd_limits_plans", []string{"name", "rules"}, readPlan, planValues},
	{plans.KindKey, "guardd_limits_keys", []string{"sha256", "name", "plan", "overrides", "state"}, readKey, keyValues},
}

func readRule(c *cells, d *plans.Definition) string {
	r := plans.Rule{Name: c.text("name"), Kind: plans.RuleKind(c.text("kind")), Capacity: c.number("capacity"), Refill: readRefill(c),
		Counts: plans.Counts(c.text("counts")), Failure: plans.Failure(c.text("failure")), Refund: plans.Refund(c.text("refund"))}
	c.decode("routes", "{}", &r.Routes)
	if !slices.Contains(plans.RuleKinds, r.Kind) {
		c.bad("kind", "is "+strconv.Quote(string(r.Kind))+", which this guardd does not know")
	}
	c.decode("settings", "{}", &r.Settings)
	if c.fault == nil {
		d.Rules = append(d.Rules, r)
	}
	return r.Name
}

// readRefill is "" where there is none: 0 and no period.
func readRefill(c *cells) string {
	count, period := c.number("refill_count"), c.text("refill_period")
	if count == 0 && period == "" {
		return ""
	}
	return strconv.FormatInt(count, 10) + "/" + period
}

func refillValues(refill string) (count int64, period string, err error) {
	if refill == "" {
		return 0, "", nil
	}
	head, tail, _ := strings.Cut(refill, "/")
	count, err = strconv.ParseInt(strings.TrimSpace(head), 10, 64)
	return count, strings.TrimSpace(tail), err
}

func ruleValues(row json.RawMessage) ([]any, error) {
	var r plans.Rule
	if err := json.Unmarshal(row, &r); err != nil {
		return nil, err
	}
	n, period, err := refillValues(r.Refill)
	if err != nil {
		return nil, err
	}
	if r.Routes == nil {
		r.Routes = map[string]int64{}
	}
	return []any{r.Name, r.Capacity, n, period, text(r.Routes), or(string(r.Counts), string(plans.CountsCost)),
		or(string(r.Failure), string(plans.Local)), or(string(r.Refund), string(plans.RefundServer)), or(string(r.Kind), string(plans.Rate)), text(r.Settings)}, nil
}

func readPlan(c *cells, d *plans.Definition) string {
	p := plans.Plan{Name: c.text("name")}
	c.decode("rules", "", &p.Rules)
	if c.fault == nil {
		d.Plans = append(d.Plans, p)
	}
	return p.Name
}

func planValues(row json.RawMessage) ([]any, error) {
	var p plans.Plan
	if err := json.Unmarshal(row, &p); err != nil {
		return nil, err
	}
	return []any{p.Name, text(p.Rules)}, nil
}

func readKey(c *cells, d *plans.Definition) string {
	k := plans.Key{Name: c.text("name"), Plan: c.text("plan"), State: plans.State(c.text("state"))}
	sum := c.text("sha256")
	switch err := k.SHA256.UnmarshalText([]byte(sum)); {
	case err != nil:
		c.bad("sha256", err.Error())
	case k.SHA256.String() != sum:
		c.bad("sha256", "must be in lower case")
	}
	c.decode("overrides", "[]", &k.Overrides)
	if c.fault == nil {
		d.Keys = append(d.Keys, k)
	}
	return sum
}

func keyValues(row json.RawMessage) ([]any, error) {
	var k plans.Key
	if err := json.Unmarshal(row, &k); err != nil {
		return nil, err
	}
	if k.Overrides == nil {
		k.Overrides = []plans.Override{}
	}
	return []any{k.SHA256.String(), k.Name, k.Plan, text(k.Overrides), or(string(k.State), string(plans.Active))}, nil
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and numbers
	}
	return string(b)
}

func or(s, standard string) string {
	if s == "" {
		return standard
	}
	return s
}

// put is a statement that writes n rows over those of the same names.
func (t *table) put(n int, mark string) string {
	sets := make([]string, len(t.columns)-1)
	for i, c := range t.columns[1:] {
		sets[i] = c + " = excluded." + c
	}
	return fmt.Sprintf("INSERT INTO %s (%s) VALUES %s ON CONFLICT (%s) DO UPDATE SET %s",
		t.name, strings.Join(t.columns, ", "), places(n, len(t.columns), mark), t.columns[0], strings.Join(sets, ", "))
}

// places is ($1, $2), ($3, $4) and so on, with the dialect's mark.
func places(rows, columns int, mark string) string {
	all := make([]string, rows)
	for i := range all {
		row := make([]string, columns)
		for j := range row {
			row[j] = mark + strconv.Itoa(i*columns+j+1)
		}
		all[i] = "(" + strings.Join(row, ", ") + ")"
	}
	return strings.Join(all, ", ")
}
