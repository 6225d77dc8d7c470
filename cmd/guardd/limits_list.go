package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/guardd/guardd/keys/plandb"
	"github.com/guardd/guardd/keys/plans"
)

// changesListed is how many changes list shows unless told otherwise.
const changesListed = 100

// limitsList is "limits list [rules|plans|keys|changes]".
func limitsList(ctx context.Context, c *limitsCall) (int, error) {
	fs := c.flags()
	since := fs.Duration("since", 30*24*time.Hour, "changes: how far back")
	most := fs.Int("most", changesListed, "changes: how many, the newest first")
	words, err := c.parse(0, 1)
	if err != nil {
		return exitUsage, err
	}
	what := append(words, "")[0]
	if what != "" && !slices.Contains([]string{"rules", "plans", "keys", "changes"}, what) {
		return exitUsage, c.usage("there are rules, plans, keys and changes, not %q", what)
	}
	db, err := c.existing(ctx)
	if err != nil {
		return exitFailed, err
	}
	defer db.Close()
	if what == "changes" {
		return c.listChanges(ctx, db, time.Now().Add(-*since), *most)
	}
	version, d, err := db.Load(ctx)
	if err != nil {
		return exitFailed, err
	}
	return c.listRows(version, d, what)
}

// listed is what list prints with --json.
type listed struct {
	Version int64         `json:"version"`
	Rules   []plans.Rule  `json:"rules,omitempty"`
	Plans   []plans.Plan  `json:"plans,omitempty"`
	Keys    []plans.Key   `json:"keys,omitempty"`
	Bad     []plans.Fault `json:"bad,omitempty"`
}

// listRows exits with exitFailed where rows are bad.
func (c *limitsCall) listRows(version int64, d *plans.Definition, what string) (int, error) {
	bad := plans.Check(d)
	a := listed{Version: version, Bad: d.ByName(bad)}
	all := d.Brief()
	if what == "" || what == "rules" {
		a.Rules = all.Rules
	}
	if what == "" || what == "plans" {
		a.Plans = all.Plans
	}
	if what == "" || what == "keys" {
		a.Keys = all.Keys
	}
	code := exitOK
	if len(bad) > 0 {
		code = exitFailed
	}
	if c.json {
		return code, c.printJSON(a)
	}
	var rules, ps, ks, faulty [][]string
	for _, r := range a.Rules {
		rules = append(rules, []string{"rule", printable(r.Name, plans.MaxName), fmt.Sprint(r.Capacity), printable(r.Refill, 60), strings.Join(extras(&r), " ")})
	}
	for _, p := range a.Plans {
		ps = append(ps, []string{"plan", printable(p.Name, plans.MaxName), printable(strings.Join(p.Rules, " "), 1200)})
	}
	for _, k := range a.Keys {
		ks = append(ks, []string{"key", k.SHA256.String(), k.Plan, dash(printable(k.Name, 60)), strings.Join(ownNumbers(&k), " ")})
	}
	for _, f := range a.Bad {
		faulty = append(faulty, []string{"bad", printable(f.Field, 200), printable(f.Reason, 400)})
	}
	for _, rows := range [][][]string{rules, ps, ks, faulty} {
		printColumns(c.out, rows)
	}
	return code, nil
}

// printColumns prints rows under each other, each column as wide as it needs.
func printColumns(out io.Writer, rows [][]string) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, cells := range rows {
		for len(cells) > 0 && cells[len(cells)-1] == "" {
			cells = cells[:len(cells)-1]
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	w.Flush()
}

// extras are what a rule has beside its numbers.
func extras(r *plans.Rule) (all []string) {
	for _, x := range []string{string(r.Kind), string(r.Counts), string(r.Failure), string(r.Refund)} {
		if x != "" {
			all = append(all, x)
		}
	}
	names, values := r.Given()
	for i, name := range names {
		all = append(all, name+"="+printable(fmt.Sprint(values[i]), 100))
	}
	if sum, tokens := r.Regions.InAll(r.Capacity); len(r.Regions) > 0 && sum != "100%" {
		all = append(all, fmt.Sprintf("in-all=%s,%d", sum, tokens))
	}
	for _, route := range slices.Sorted(maps.Keys(r.Routes)) {
		all = append(all, fmt.Sprintf("%q=%d", route, r.Routes[route]))
	}
	return all
}

func ownNumbers(k *plans.Key) (all []string) {
	if k.State != "" {
		all = append(all, string(k.State))
	}
	for _, o := range k.Overrides {
		s := o.Rule + ":"
		if o.Capacity != nil {
			s += fmt.Sprintf("capacity=%d,", *o.Capacity)
		}
		if o.Refill != "" {
			s += "refill=" + o.Refill + ","
		}
		if o.Anchor != nil {
			s += fmt.Sprintf("anchor=%d", *o.Anchor)
		}
		all = append(all, strings.TrimSuffix(s, ","))
	}
	return all
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func (c *limitsCall) listChanges(ctx context.Context, db *plandb.DB, since time.Time, most int) (int, error) {
	records, err := db.Records(ctx, since, most)
	if err != nil {
		return exitFailed, err
	}
	if c.json {
		all := make([]changedRecord, len(records))
		for i, r := range records {
			all[i] = changedRecord{r.Version, &r.At, r.Who, r.Why, r.Action, r.Kind, r.Name, r.Before, r.After}
		}
		return exitOK, c.printJSON(map[string]any{"changes": all})
	}
	for i := range records {
		r := &records[i]
		fmt.Fprintf(c.out, "%s  version %d  %s: %s (%s)\n", r.At.Format(time.RFC3339), r.Version, printable(r.Who, plans.MaxWho), sentence(r, false), printable(r.Why, plans.MaxWhy))
	}
	return exitOK, nil
}
