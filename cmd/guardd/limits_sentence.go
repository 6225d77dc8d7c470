package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/guardd/guardd/keys/plans"
)

var done, wouldDo = map[plans.Action]string{plans.Create: "created", plans.Change: "changed", plans.Delete: "deleted"},
	map[plans.Action]string{plans.Create: "would create", plans.Change: "would change", plans.Delete: "would delete"}

// sentence says what a change did to a row, or would do: changed rule burst:
// capacity 50 -> 60.
func sentence(r *plans.Record, would bool) string {
	verb := done[r.Action]
	if would {
		verb = wouldDo[r.Action]
	}
	s := verb + " " + string(r.Kind) + " " + r.Name
	if fields := fields(r); r.Action != plans.Delete && len(fields) > 0 {
		s += ": " + strings.Join(fields, ", ")
	}
	return s
}

// fields are those that differ, in order of their names.
func fields(r *plans.Record) (all []string) {
	was, is := fieldsOf(r.Before), fieldsOf(r.After)
	names := slices.Sorted(maps.Keys(is))
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if _, still := is[name]; !still {
			names = append(names, name)
		}
	}
	for _, name := range names {
		old, now := was[name], is[name]
		switch {
		case name == "name" && r.Kind != plans.KindKey || name == "sha256" || old == now:
		case r.Action == plans.Create:
			all = append(all, name+" "+now)
		default:
			all = append(all, name+" "+orNone(old)+" -> "+orNone(now))
		}
	}
	return all
}

func orNone(s string) string {
	if s == "" {
		return "(default)"
	}
	return s
}

func fieldsOf(row json.RawMessage) map[string]string {
	var raw map[string]json.RawMessage
	if json.Unmarshal(row, &raw) != nil {
		return nil // there is none, or it could not be read
	}
	all := make(map[string]string, len(raw))
	for name, v := range raw {
		var s string
		if json.Unmarshal(v, &s) != nil {
			s = string(v)
		}
		all[name] = printable(s, 200)
	}
	return all
}
