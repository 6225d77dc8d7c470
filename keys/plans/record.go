package plans

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Author is who changes limits, and why: neither is ever empty.
type Author struct{ Who, Why string }

// Bounds of what an audit keeps.
const (
	MaxWho = 128  // bytes
	MaxWhy = 1024 // bytes
)

// Check returns Faults on who and reason.
func (a Author) Check() error {
	var bad Faults
	for _, x := range []struct {
		field, text string
		most        int
	}{{"who", a.Who, MaxWho}, {"reason", a.Why, MaxWhy}} {
		switch {
		case strings.TrimSpace(x.text) == "":
			bad.add(x.field, "is missing: the audit says who changed what, and why")
		case len(x.text) > x.most:
			bad.add(x.field, "is too long")
		case !utf8.ValidString(x.text) || strings.ContainsFunc(x.text, unicode.IsControl):
			bad.add(x.field, "holds what cannot be printed")
		}
	}
	return bad.err()
}

// Order is a change of limits that somebody asks for.
type Order struct {
	Author
	At time.Time
	// DryRun: say what would change, and change nothing.
	DryRun bool
	// Edit changes a Definition; rows that it leaves alone must not be written into.
	// Its errors end the change.
	Edit func(*Definition) error
}

// ErrNewer: the limits are kept by a newer guardd. They can be read; a change by
// this one could lose what it does not know.
var ErrNewer = errors.New("the limits are kept by a newer guardd: change them with that one")

// Record is what one change did to one row.
type Record struct {
	Version int64 // of the definition that it made
	At      time.Time
	Author
	Action Action
	Kind   Kind
	Name   string // of a key its digest
	// Before and After are the row as JSON; nil where there is none, or where it
	// could not be read.
	Before, After json.RawMessage
}

// Diff is what makes after of before, row by row in order of kind and name:
// Action, Kind, Name, Before and After of each Record.
func Diff(before, after *Definition) []Record {
	return slices.Concat(
		diff(before, after, KindRule, before.Rules, after.Rules, func(r *Rule) string { return r.Name }, sameRule, Rule.brief),
		diff(before, after, KindPlan, before.Plans, after.Plans, func(p *Plan) string { return p.Name }, samePlan, Plan.brief),
		diff(before, after, KindKey, before.Keys, after.Keys, func(k *Key) string { return k.SHA256.String() }, sameKey, Key.brief))
}

func diff[T any](before, after *Definition, kind Kind, was, is []T, name func(*T) string, same func(a, b *T) bool, brief func(T) T) (all []Record) {
	old := make(map[string]*T, len(was)) // nil: unread
	for _, u := range before.Unread {
		if u.Kind == kind {
			old[u.Name] = nil
		}
	}
	for i := range was {
		old[name(&was[i])] = &was[i]
	}
	for i := range is {
		row, n := &is[i], name(&is[i])
		there, known := old[n]
		delete(old, n)
		switch {
		case !known:
			all = append(all, Record{Action: Create, Kind: kind, Name: n, After: encode(brief(*row))})
		case there == nil || !same(there, row):
			r := Record{Action: Change, Kind: kind, Name: n, After: encode(brief(*row))}
			if there != nil {
				r.Before = encode(brief(*there))
			}
			all = append(all, r)
		}
	}
	for _, u := range after.Unread {
		if u.Kind == kind && old[u.Name] == nil {
			delete(old, u.Name) // left alone
		}
	}
	for n, there := range old {
		r := Record{Action: Delete, Kind: kind, Name: n}
		if there != nil {
			r.Before = encode(brief(*there))
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b Record) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// The rows are compared in place of their texts: there may be many.

func sameRule(a, b *Rule) bool {
	x, y := a.brief(), b.brief()
	return x.Name == y.Name && x.Capacity == y.Capacity && x.Refill == y.Refill && maps.Equal(x.Routes, y.Routes) &&
		x.Counts == y.Counts && x.Failure == y.Failure && x.Refund == y.Refund && x.Kind == y.Kind && sameSettings(x.Settings, y.Settings)
}

func samePlan(a, b *Plan) bool { return a.Name == b.Name && slices.Equal(a.Rules, b.Rules) }

func sameKey(a, b *Key) bool {
	x, y := a.brief(), b.brief()
	return x.SHA256 == y.SHA256 && x.Name == y.Name && x.Plan == y.Plan && x.State == y.State &&
		slices.EqualFunc(x.Overrides, y.Overrides, func(v, w Override) bool {
			return v.Rule == w.Rule && v.Refill == w.Refill && samePointed(v.Capacity, w.Capacity) && samePointed(v.Anchor, w.Anchor)
		})
}

func samePointed[T comparable](a, b *T) bool {
	return (a == nil) == (b == nil) && (a == nil || *a == *b)
}

func encode(row any) json.RawMessage {
	text, err := json.Marshal(row)
	if err != nil {
		panic(err) // strings, numbers and digests
	}
	return text
}

// Brief is d without what is at its default, as somebody would write it.
func (d *Definition) Brief() *Definition {
	b := &Definition{Plans: d.Plans, Unread: d.Unread}
	for _, r := range d.Rules {
		b.Rules = append(b.Rules, r.brief())
	}
	for _, k := range d.Keys {
		b.Keys = append(b.Keys, k.brief())
	}
	return b
}

// brief says nothing of what is at its default.
func (r Rule) brief() Rule {
	unsay(&r.Kind, Rate)
	unsay(&r.Counts, CountsCost)
	unsay(&r.Failure, Local)
	unsay(&r.Refund, RefundServer)
	if len(r.Routes) == 0 {
		r.Routes = nil
	}
	r.Settings = r.Settings.brief()
	return r
}

func (p Plan) brief() Plan { return p }

func (k Key) brief() Key {
	unsay(&k.State, Active)
	if len(k.Overrides) == 0 {
		k.Overrides = nil
	}
	return k
}

func unsay[T comparable](v *T, standard T) {
	if *v == standard {
		*v = *new(T)
	}
}
