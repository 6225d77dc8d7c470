package plans

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Action is what becomes of a row.
type Action string

// The actions.
const (
	Create Action = "create"
	Change Action = "change"
	Delete Action = "delete"
)

// Edit is what an operator wants done to one row: exactly one of Rule, Plan and
// Key is set, and names it. Of a row to delete only the name is read.
type Edit struct {
	Action Action
	Rule   *RuleEdit
	Plan   *PlanEdit
	Key    *KeyEdit
}

// RuleEdit is a Rule in which what is nil stays as it is: in a new one, missing.
type RuleEdit struct {
	Name     string    `json:"name"`
	Kind     *RuleKind `json:"kind"`
	Capacity *int64    `json:"capacity"`
	Refill   *string   `json:"refill"`
	// Routes is the whole table; empty but not nil: none.
	Routes  map[string]int64 `json:"routes"`
	Counts  *Counts          `json:"counts"`
	Failure *Failure         `json:"failure"`
	Refund  *Refund          `json:"refund"`
	Settings
}

// PlanEdit is a Plan in which what is nil stays as it is.
type PlanEdit struct {
	Name  string   `json:"name"`
	Rules []string `json:"rules"`
}

// KeyEdit is a Key in which what is nil stays as it is.
type KeyEdit struct {
	SHA256 Digest  `json:"sha256"`
	Name   *string `json:"name"`
	Plan   *string `json:"plan"`
	// Overrides are all of them; empty but not nil: none.
	Overrides []Override `json:"overrides"`
	State     *State     `json:"state"`
}

// Errors of an edit, beside Faults.
var (
	// ErrExists: another row of that name. One that is the same already is none.
	ErrExists = errors.New("exists already")
	ErrNoRow  = errors.New("does not exist")
)

// Apply makes the edit in d, whose slices are replaced, not written into. Whether
// the result is right, Compile says. Made twice it is as if made once, but that a
// row can be deleted only once.
func (e *Edit) Apply(d *Definition) (err error) {
	kind, name, err := e.Row()
	if err != nil {
		return err
	}
	after := *d
	switch kind {
	case KindRule:
		after.Rules, err = edited(d.Rules, e.Action, d.unread(kind, name), func(r *Rule) bool { return r.Name == name }, e.Rule.lay)
	case KindPlan:
		after.Plans, err = edited(d.Plans, e.Action, d.unread(kind, name), func(p *Plan) bool { return p.Name == name }, e.Plan.lay)
	case KindKey:
		after.Keys, err = edited(d.Keys, e.Action, d.unread(kind, name), func(k *Key) bool { return k.SHA256 == e.Key.SHA256 }, e.Key.lay)
	}
	if errors.Is(err, ErrExists) && e.made(d) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", kind, name, err)
	}
	after.Unread = slices.DeleteFunc(slices.Clone(d.Unread), func(u Unread) bool { return u.Kind == kind && u.Name == name })
	*d = after
	return nil
}

// made reports whether the row that a Create would make is there.
func (e *Edit) made(d *Definition) bool {
	var alone Definition
	if e.Apply(&alone) != nil {
		return false
	}
	switch {
	case e.Rule != nil:
		return slices.ContainsFunc(d.Rules, func(r Rule) bool { return sameRule(&r, &alone.Rules[0]) })
	case e.Plan != nil:
		return slices.ContainsFunc(d.Plans, func(p Plan) bool { return samePlan(&p, &alone.Plans[0]) })
	}
	return slices.ContainsFunc(d.Keys, func(k Key) bool { return sameKey(&k, &alone.Keys[0]) })
}

// Row is what the edit is of. Faults where it is of none, or of several.
func (e *Edit) Row() (kind Kind, name string, err error) {
	n := 0
	if e.Rule != nil {
		kind, name, n = KindRule, e.Rule.Name, n+1
	}
	if e.Plan != nil {
		kind, name, n = KindPlan, e.Plan.Name, n+1
	}
	if e.Key != nil {
		kind, name, n = KindKey, e.Key.SHA256.String(), n+1
	}
	var bad Faults
	if n != 1 {
		bad.add("", "give one of rule, plan and key")
	}
	if actions := []Action{Create, Change, Delete}; !slices.Contains(actions, e.Action) {
		bad.add("action", fmt.Sprintf("must be one of %q, not %q", actions, e.Action))
	}
	return kind, name, bad.err()
}

// unread reports whether the row is there but cannot be read: then it can be
// deleted, or made anew by a change that gives all of it.
func (d *Definition) unread(k Kind, name string) bool {
	return slices.ContainsFunc(d.Unread, func(u Unread) bool { return u.Kind == k && u.Name == name })
}

func edited[T any](rows []T, a Action, unread bool, is func(*T) bool, lay func(*T)) ([]T, error) {
	i := slices.IndexFunc(rows, func(row T) bool { return is(&row) })
	rows = slices.Clone(rows)
	switch {
	case a == Create && (i >= 0 || unread):
		return nil, ErrExists
	case a != Create && i < 0 && !unread:
		return nil, ErrNoRow
	case a == Delete && i < 0:
		return rows, nil
	case a == Delete:
		return slices.Delete(rows, i, i+1), nil
	case i < 0:
		rows, i = append(rows, *new(T)), len(rows)
	}
	lay(&rows[i])
	return rows, nil
}

func (e *RuleEdit) lay(r *Rule) {
	r.Name = e.Name
	lay(&r.Kind, e.Kind)
	lay(&r.Capacity, e.Capacity)
	lay(&r.Refill, e.Refill)
	if e.Routes != nil {
		r.Routes = maps.Clone(e.Routes)
	}
	lay(&r.Counts, e.Counts)
	lay(&r.Failure, e.Failure)
	lay(&r.Refund, e.Refund)
	r.Settings.lay(&e.Settings)
}

func (e *PlanEdit) lay(p *Plan) {
	p.Name = e.Name
	if e.Rules != nil {
		p.Rules = slices.Clone(e.Rules)
	}
}

func (e *KeyEdit) lay(k *Key) {
	k.SHA256 = e.SHA256
	lay(&k.Name, e.Name)
	lay(&k.Plan, e.Plan)
	if e.Overrides != nil {
		k.Overrides = slices.Clone(e.Overrides)
	}
	lay(&k.State, e.State)
}

func lay[T any](to, v *T) {
	if v != nil {
		*to = *v
	}
}

// Merge lays every row of more over d: what is in d alone stays.
func (d *Definition) Merge(more *Definition) {
	d.Rules = merged(d.Rules, more.Rules, func(r *Rule) string { return r.Name })
	d.Plans = merged(d.Plans, more.Plans, func(p *Plan) string { return p.Name })
	d.Keys = merged(d.Keys, more.Keys, func(k *Key) Digest { return k.SHA256 })
	d.Unread = slices.DeleteFunc(slices.Clone(d.Unread), func(u Unread) bool { return more.has(u.Kind, u.Name) })
}

func merged[T any, N comparable](rows, more []T, name func(*T) N) []T {
	rows, at := slices.Clone(rows), make(map[N]int, len(rows))
	for i := range rows {
		at[name(&rows[i])] = i
	}
	for i := range more {
		if j, ok := at[name(&more[i])]; ok {
			rows[j] = more[i]
		} else {
			rows = append(rows, more[i]) // a name that more uses twice stays so: Compile refuses it
		}
	}
	return rows
}

func (d *Definition) has(k Kind, name string) bool {
	switch k {
	case KindRule:
		return slices.ContainsFunc(d.Rules, func(r Rule) bool { return r.Name == name })
	case KindPlan:
		return slices.ContainsFunc(d.Plans, func(p Plan) bool { return p.Name == name })
	}
	return slices.ContainsFunc(d.Keys, func(x Key) bool { return x.SHA256.String() == name })
}
