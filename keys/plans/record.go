package plans

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"time"
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
		case x.text == "":
			bad.add(x.field, "is missing: the audit says who changed what, and why")
		case len(x.text) > x.most:
			bad.add(x.field, "is too long")
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
	was, is := rowsOf(before), rowsOf(after)
	var all []Record
	for id, row := range is {
		old, known := was[id]
		switch {
		case !known:
			all = append(all, Record{Action: Create, Kind: id.kind, Name: id.name, After: row})
		case !bytes.Equal(old, row):
			all = append(all, Record{Action: Change, Kind: id.kind, Name: id.name, Before: old, After: row})
		}
	}
	for id, old := range was {
		if _, still := is[id]; !still {
			all = append(all, Record{Action: Delete, Kind: id.kind, Name: id.name, Before: old})
		}
	}
	order := []Kind{KindRule, KindPlan, KindKey}
	slices.SortFunc(all, func(a, b Record) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Kind), slices.Index(order, b.Kind)), cmp.Compare(a.Name, b.Name))
	})
	return all
}

type rowID struct {
	kind Kind
	name string
}

// rowsOf is every row as canonical JSON; of an unread one nil.
func rowsOf(d *Definition) map[rowID]json.RawMessage {
	all := make(map[rowID]json.RawMessage, len(d.Rules)+len(d.Plans)+len(d.Keys))
	for _, u := range d.Unread {
		all[rowID{u.Kind, u.Name}] = nil
	}
	for i := range d.Rules {
		r := d.Rules[i].brief()
		all[rowID{KindRule, r.Name}] = encode(r)
	}
	for i := range d.Plans {
		all[rowID{KindPlan, d.Plans[i].Name}] = encode(d.Plans[i])
	}
	for i := range d.Keys {
		k := d.Keys[i].brief()
		all[rowID{KindKey, k.SHA256.String()}] = encode(k)
	}
	return all
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
	unsay(&r.Counts, CountsCost)
	unsay(&r.Failure, Local)
	unsay(&r.Refund, RefundServer)
	if len(r.Routes) == 0 {
		r.Routes = nil
	}
	return r
}

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
