package plans

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Kind is what a row of a Definition is.
type Kind string

// The kinds.
const (
	KindRule Kind = "rule"
	KindPlan Kind = "plan"
	KindKey  Kind = "key"
)

// Unread is a row that its database holds in a form that cannot be read: Compile
// tells of it, and what the last book holds under its name stays in force.
type Unread struct {
	Kind  Kind
	Name  string // of a key the 64 hex digits of its digest, or what stands there
	Fault Fault  // Field is within the row
}

// field of a row within its Definition, by the row's name.
func (k Kind) field(name, field string) string {
	if field == "" {
		return fmt.Sprintf("%ss[%s]", k, name)
	}
	return fmt.Sprintf("%ss[%s].%s", k, name, field)
}

// numbered is the head of a fault's path as Compile writes it.
var numbered = regexp.MustCompile(`^(rule|plan|key)s\[(\d+)\]`)

// ByName are faults of d that name rows by number, as in a file, with the rows'
// names in place of the numbers: rules[3].capacity is rules[ten_hour].capacity.
// A database has no third row.
func (d *Definition) ByName(faults Faults) Faults {
	named := slices.Clone(faults)
	for i, f := range faults {
		m := numbered.FindStringSubmatch(f.Field)
		if m == nil {
			continue
		}
		n, _ := strconv.Atoi(m[2])
		named[i].Field = Kind(m[1]).field(d.name(Kind(m[1]), n), "") + f.Field[len(m[0]):]
	}
	return named
}

func (d *Definition) name(k Kind, i int) string {
	switch k {
	case KindRule:
		return d.Rules[i].Name
	case KindPlan:
		return d.Plans[i].Name
	}
	return d.Keys[i].SHA256.String()
}

// keepAll is keep for the unread rows of a kind: those it needs are in b by then.
func (b *Book) keepAll(k Kind, d *Definition, last *Book, faults *Faults) {
	for _, u := range d.Unread {
		if u.Kind == k {
			b.keep(u, last, faults)
		}
	}
}

// keep tells of an unread row and keeps what last has in its place.
func (b *Book) keep(u Unread, last *Book, faults *Faults) {
	faults.add(u.Kind.field(u.Name, u.Fault.Field), u.Fault.Reason)
	switch u.Kind {
	case KindRule:
		if old := last.rules[u.Name]; old != nil && b.rules[u.Name] == nil {
			b.rules[u.Name] = old
		}
	case KindPlan:
		if old := last.plans[u.Name]; old != nil && b.plans[u.Name] == nil {
			b.plans[u.Name] = old
		}
	case KindKey:
		var sum Digest
		if sum.UnmarshalText([]byte(u.Name)) != nil {
			return
		}
		if old := last.keys[sum]; old != nil && b.keys[sum] == nil {
			b.keys[sum] = old
		}
	}
}

// Judge is what keeps after from being written over before, rows by name: all
// that is wrong with the rows that differ (those of Diff), and what their change
// breaks elsewhere. A row that was bad and is not touched keeps nobody from
// mending another.
func Judge(before, after *Definition, touched []Record) Faults {
	var bad Faults
	if have := Check(after); len(have) > 0 {
		had := Check(before)
		had = before.ByName(had)
		for _, f := range after.ByName(have) {
			if !slices.Contains(had, f) || slices.ContainsFunc(touched, func(r Record) bool { return f.of(r.Kind, r.Name) }) {
				bad = append(bad, f)
			}
		}
	}
	after.stillNamed(touched, &bad)
	return bad
}

// stillNamed refuses to delete what others name. Compile does that by itself, but
// not of a row that could not be read: without it they were bad before, and yet
// live on in processes that remember it.
func (d *Definition) stillNamed(touched []Record, bad *Faults) {
	type rowID struct {
		kind Kind
		name string
	}
	gone := map[rowID]bool{}
	for _, r := range touched {
		if r.Action == Delete && r.Kind != KindKey {
			gone[rowID{r.Kind, r.Name}] = true
		}
	}
	if len(gone) == 0 {
		return
	}
	add := func(k Kind, name, field string) {
		if gone[rowID{k, name}] && !bad.On(field) {
			bad.add(field, fmt.Sprintf("names %s %q", k, name))
		}
	}
	for _, p := range d.Plans {
		for i, name := range p.Rules {
			add(KindRule, name, KindPlan.field(p.Name, fmt.Sprintf("rules[%d]", i)))
		}
	}
	for _, x := range d.Keys {
		add(KindPlan, x.Plan, KindKey.field(x.SHA256.String(), "plan"))
	}
}

func (f *Fault) of(k Kind, name string) bool {
	head := k.field(name, "")
	return f.Field == head || strings.HasPrefix(f.Field, head+".")
}

// Within are the faults with the row's own fields by their bare names: whoever
// has given one row need not be told which.
func (f Faults) Within(k Kind, name string) Faults {
	bare := slices.Clone(f)
	for i := range bare {
		if bare[i].of(k, name) {
			bare[i].Field = strings.TrimPrefix(strings.TrimPrefix(bare[i].Field, k.field(name, "")), ".")
		}
	}
	return bare
}
