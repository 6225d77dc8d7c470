package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/guardd/guardd/keys/plans"
)

// limitsEdit is "limits create|change|delete KIND NAME": a change of one row.
func limitsEdit(ctx context.Context, c *limitsCall) (int, error) {
	fs := c.flags()
	c.writeFlags()
	var r rowFlags
	action := plans.Action(c.name)
	if action != plans.Delete {
		r.define(fs)
	}
	words, err := c.parse(1, 2)
	if err != nil {
		return exitUsage, err
	}
	name := ""
	if len(words) == 2 {
		name = words[1]
	}
	edit, key, err := r.edit(c, action, plans.Kind(words[0]), name)
	if err != nil {
		return exitUsage, err
	}
	records, err := c.change(ctx, edit.apply)
	if err != nil {
		var faults plans.Faults
		if kind, name, rerr := edit.Row(); errors.As(err, &faults) && rerr == nil {
			err = faults.Within(kind, name)
		}
		return exitFailed, err
	}
	if c.dryRun {
		key = "" // nothing has it
	}
	return exitOK, c.report(records, key)
}

// rowFlags are a row as the command line gives it.
type rowFlags struct {
	rule plans.RuleEdit
	plan plans.PlanEdit
	key  plans.KeyEdit
	sum  bool            // --sha256 was given
	of   map[string]bool // kinds that flags given are of
	only []string        // those flags
}

// define adds the flags. What is not given is nil, and stays as it is.
func (r *rowFlags) define(fs *flag.FlagSet) {
	r.of = map[string]bool{}
	add := func(kind plans.Kind, name, usage string, set func(string) error) {
		fs.Func(name, string(kind)+": "+usage, func(v string) error {
			r.of[string(kind)], r.only = true, append(r.only, "--"+name)
			return set(v)
		})
	}
	add(plans.KindRule, "kind", "what it limits: `rate`, concurrency or quota", into(&r.rule.Kind))
	add(plans.KindRule, "capacity", "the most `tokens` that can be saved up, or slots that can be held", func(v string) (err error) { r.rule.Capacity, err = whole(v); return err })
	add(plans.KindRule, "refill", "tokens that flow back, as `10/1h`", into(&r.rule.Refill))
	add(plans.KindRule, "route", "`NAME=COST` in tokens, as \"GET /search=5\" or *=1; repeat for more, they replace the table; none: no table", r.addRoute)
	add(plans.KindRule, "counts", "what it counts: `cost` or requests", into(&r.rule.Counts))
	add(plans.KindRule, "failure", "without the shared store: `local`, open or closed", into(&r.rule.Failure))
	add(plans.KindRule, "refund", "after which answers the middleware gives back: `server`, all or none", into(&r.rule.Refund))
	add(plans.KindRule, "ttl", "concurrency: how long a slot lives unless it is renewed, as `1m`", into(&r.rule.TTL))
	add(plans.KindRule, "per", "quota: what it counts by, a calendar `month` or day", into(&r.rule.Per))
	add(plans.KindRule, "anchor", "quota: `day` of the month on which it begins, 1 to 31; a shorter month begins on its last", func(v string) (err error) { r.rule.Anchor, err = whole(v); return err })
	add(plans.KindRule, "zone", "quota: whose midnight, as `Europe/Berlin`", into(&r.rule.Zone))
	add(plans.KindRule, "lease", "rate: take tokens in advance of a key that asks more often a second than this, as `above=N,most=N,for=TIME`; none: never", r.setLease)
	add(plans.KindRule, "shards", "rate: over how many `slots` of a Redis Cluster each key's bucket is spread", func(v string) (err error) { r.rule.Shards, err = whole(v); return err })
	add(plans.KindRule, "regions", "share of each region, of which each counts its own, as `eu=60%,us=40%`; none: whole in every region", func(v string) (err error) { r.rule.Regions, err = plans.ParseRegions(v); return err })
	add(plans.KindPlan, "rule", "`name` of a rule; repeat for more, they replace the plan's", func(v string) error {
		r.plan.Rules = append(r.plan.Rules, v)
		return nil
	})
	add(plans.KindKey, "sha256", "`hex` digits of a key that exists: printf %s \"$KEY\" | sha256sum; none: one is made up, and shown once", func(v string) error {
		r.sum = true
		return r.key.SHA256.UnmarshalText([]byte(v))
	})
	add(plans.KindKey, "name", "whose it is, for operators", into(&r.key.Name))
	add(plans.KindKey, "plan", "`name` of its plan", into(&r.key.Plan))
	add(plans.KindKey, "override", "own numbers, as `RULE:capacity=N,refill=N/TIME,anchor=DAY`; repeat for more, they replace all; none: no own numbers", r.addOverride)
	add(plans.KindKey, "state", "`active` or suspended", into(&r.key.State))
}

func into[T ~string](field **T) func(string) error {
	return func(v string) error {
		t := T(v)
		*field = &t
		return nil
	}
}

func whole(v string) (*int64, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("must be a whole number, not %q", v)
	}
	return &n, nil
}

func (r *rowFlags) setLease(v string) error {
	l, err := plans.ParseLease(v)
	r.rule.Lease = &l
	return err
}

// none stands for an empty table.
const none = "none"

func (r *rowFlags) addRoute(v string) error {
	if r.rule.Routes == nil {
		r.rule.Routes = map[string]int64{}
	}
	if v == none {
		return nil
	}
	i := strings.LastIndexByte(v, '=') // a route may hold one
	if i < 0 {
		return fmt.Errorf("must be NAME=COST, not %q", v)
	}
	cost, err := whole(v[i+1:])
	if err != nil {
		return err
	}
	if _, twice := r.rule.Routes[v[:i]]; twice {
		return fmt.Errorf("%q is given twice", v[:i])
	}
	r.rule.Routes[v[:i]] = *cost
	return nil
}

func (r *rowFlags) addOverride(v string) error {
	if r.key.Overrides == nil {
		r.key.Overrides = []plans.Override{}
	}
	if v == none {
		return nil
	}
	rule, numbers, ok := strings.Cut(v, ":")
	o := plans.Override{Rule: rule}
	for _, n := range strings.Split(numbers, ",") {
		name, value, _ := strings.Cut(n, "=")
		switch name {
		case "capacity":
			c, err := whole(value)
			if err != nil {
				return fmt.Errorf("capacity %w", err)
			}
			o.Capacity = c
		case "anchor":
			day, err := whole(value)
			if err != nil {
				return fmt.Errorf("anchor %w", err)
			}
			o.Anchor = day
		case "refill":
			o.Refill = value
		default:
			ok = false
		}
	}
	if !ok {
		return fmt.Errorf("must be RULE:capacity=N,refill=N/TIME,anchor=DAY, not %q", v)
	}
	r.key.Overrides = append(r.key.Overrides, o)
	return nil
}

// edit is what was asked for. key is one that was made up for it.
func (r *rowFlags) edit(c *limitsCall, action plans.Action, kind plans.Kind, name string) (e *rowEdit, key string, err error) {
	kinds := []plans.Kind{plans.KindRule, plans.KindPlan, plans.KindKey}
	if !slices.Contains(kinds, kind) { // before its flags, which would be of none
		return nil, "", c.usage("there are rule, plan and key, not %q", kind)
	}
	for of := range r.of {
		if of != string(kind) {
			return nil, "", c.usage("%s: not of a %s", strings.Join(r.only, ", "), kind)
		}
	}
	e = &rowEdit{Edit: plans.Edit{Action: action}}
	switch kind {
	case plans.KindRule:
		r.rule.Name, e.Rule = name, &r.rule
	case plans.KindPlan:
		r.plan.Name, e.Plan = name, &r.plan
	case plans.KindKey:
		e.Key = &r.key
		key, err = r.identify(c, e, action, name)
	}
	if name == "" && err == nil && kind != plans.KindKey {
		err = c.usage("the name of the %s is missing", kind)
	}
	return e, key, err
}

// identify finds out which key is meant. A new one may be made up.
func (r *rowFlags) identify(c *limitsCall, e *rowEdit, action plans.Action, name string) (key string, err error) {
	switch {
	case action != plans.Create && (name == "" || r.sum):
		return "", c.usage("which key? Give its 64 hex digits, or its name, after key")
	case action != plans.Create && r.key.SHA256.UnmarshalText([]byte(name)) == nil:
		return "", nil
	case action != plans.Create:
		e.byName = name
		return "", nil
	case name != "":
		return "", c.usage("create key takes its name as --name %s", name)
	case r.sum:
		return "", nil
	}
	key, r.key.SHA256 = plans.NewKey()
	return key, nil
}

// rowEdit is an Edit whose key may be known by its operators' name only.
type rowEdit struct {
	plans.Edit
	byName string
}

func (e *rowEdit) apply(d *plans.Definition) error {
	if e.byName == "" {
		return e.Apply(d)
	}
	found := 0
	for _, k := range d.Keys {
		if k.Name == e.byName {
			e.Key.SHA256 = k.SHA256
			found++
		}
	}
	switch found {
	case 0:
		return fmt.Errorf("key %s: %w", e.byName, plans.ErrNoRow)
	case 1:
		return e.Apply(d)
	}
	return fmt.Errorf("%d keys are named %s: give the digits of one, as guardd limits list keys shows them", found, e.byName)
}
