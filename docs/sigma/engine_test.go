package sigma_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// rule is a file of this folder: a rule of its own, or a correlation of others.
type rule struct {
	Title          string         `yaml:"title"`
	ID             string         `yaml:"id"`
	Name           string         `yaml:"name"`
	Status         string         `yaml:"status"`
	Description    string         `yaml:"description"`
	License        string         `yaml:"license"`
	Author         string         `yaml:"author"`
	References     []string       `yaml:"references"`
	Date           string         `yaml:"date"`
	Tags           []string       `yaml:"tags"`
	Logsource      *logsource     `yaml:"logsource"`
	Detection      map[string]any `yaml:"detection"`
	Correlation    *correlation   `yaml:"correlation"`
	FalsePositives []string       `yaml:"falsepositives"`
	Level          string         `yaml:"level"`
}

type logsource struct {
	Product string `yaml:"product"`
	Service string `yaml:"service"`
}

type correlation struct {
	Type      string         `yaml:"type"`
	Rules     []string       `yaml:"rules"`
	GroupBy   []string       `yaml:"group-by"`
	Timespan  string         `yaml:"timespan"`
	Condition map[string]any `yaml:"condition"`
}

// load reads all of them, by name; keys that the specification does not have are an error.
func load(t *testing.T) map[string]*rule {
	t.Helper()
	files, err := filepath.Glob("*.yml")
	if err != nil || len(files) == 0 {
		t.Fatal("no rules", err)
	}
	all := map[string]*rule{}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		r := &rule{}
		d := yaml.NewDecoder(f)
		d.KnownFields(true)
		if err := d.Decode(r); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		f.Close()
		if r.Name+".yml" != file || all[r.Name] != nil {
			t.Errorf("%s has the name %q", file, r.Name)
		}
		all[r.Name] = r
	}
	return all
}

// record is an event or a finding, as it travels, with its time and its service.
type record struct {
	at      time.Time
	service string
	fields  map[string]any
}

// values are what a field of dotted names is, those of lists each.
func (r *record) values(name string) []any { return valuesOf(r.fields, strings.Split(name, ".")) }

func valuesOf(v any, path []string) (all []any) {
	if list, ok := v.([]any); ok {
		for _, x := range list {
			all = append(all, valuesOf(x, path)...)
		}
		return all
	}
	if len(path) == 0 {
		return []any{v}
	}
	if m, ok := v.(map[string]any); ok {
		if x, ok := m[path[0]]; ok {
			return valuesOf(x, path[1:])
		}
	}
	return nil
}

// matches says whether a rule that is no correlation is about the record.
func (r *rule) matches(x *record) bool {
	if r.Logsource.Product != "guardd" || r.Logsource.Service != x.service {
		return false
	}
	p := &parser{words: tokens(r.Detection["condition"].(string)), known: r.Detection, holds: func(name string) bool { return selects(r.Detection[name], x) }}
	ok := p.or()
	if p.err != nil || len(p.words) > 0 {
		panic(fmt.Sprint(r.Name, ": ", p.err, p.words))
	}
	return ok
}

// selects: of a list any entry, of a map all of its fields.
func selects(s any, x *record) bool {
	switch s := s.(type) {
	case []any:
		return slices.ContainsFunc(s, func(one any) bool { return selects(one, x) })
	case map[string]any:
		for field, want := range s {
			if !fieldIs(field, want, x) {
				return false
			}
		}
		return true
	}
	panic(fmt.Sprintf("a selection is a list or a map, not %T", s))
}

func fieldIs(field string, want any, x *record) bool {
	name, modifier, _ := strings.Cut(field, "|")
	got := x.values(name)
	if modifier == "exists" {
		return (len(got) > 0) == want.(bool)
	}
	wants, ok := want.([]any)
	if !ok {
		wants = []any{want}
	}
	is := map[string]func(got, want string) bool{"": strings.EqualFold, "startswith": func(got, want string) bool { return strings.HasPrefix(strings.ToLower(got), strings.ToLower(want)) }}[modifier]
	return slices.ContainsFunc(got, func(g any) bool {
		return slices.ContainsFunc(wants, func(w any) bool { return is(fmt.Sprint(g), fmt.Sprint(w)) })
	})
}

// parser evaluates a condition.
type parser struct {
	words []string
	known map[string]any
	holds func(name string) bool
	err   error
}

func tokens(s string) []string {
	return strings.Fields(strings.NewReplacer("(", " ( ", ")", " ) ").Replace(s))
}

func (p *parser) next(word string) bool {
	if len(p.words) > 0 && p.words[0] == word {
		p.words = p.words[1:]
		return true
	}
	return false
}

func (p *parser) or() bool {
	v := p.and()
	for p.next("or") {
		v = p.and() || v
	}
	return v
}

func (p *parser) and() bool {
	v := p.not()
	for p.next("and") {
		v = p.not() && v
	}
	return v
}

func (p *parser) not() bool {
	switch {
	case p.next("not"):
		return !p.not()
	case p.next("("):
		v := p.or()
		if !p.next(")") {
			p.err = fmt.Errorf("no ) before %q", p.words)
		}
		return v
	case len(p.words) > 2 && (p.words[0] == "1" || p.words[0] == "all") && p.words[1] == "of":
		pattern, every := strings.TrimSuffix(p.words[2], "*"), p.words[0] == "all"
		p.words = p.words[3:]
		n, found := 0, 0
		for name := range p.known {
			if name != "condition" && strings.HasPrefix(name, pattern) {
				n++
				if p.holds(name) {
					found++
				}
			}
		}
		if n == 0 {
			p.err = fmt.Errorf("nothing is called %s*", pattern)
		}
		return found > 0 && (!every || found == n)
	case len(p.words) > 0 && p.known[p.words[0]] != nil && p.words[0] != "condition":
		name := p.words[0]
		p.words = p.words[1:]
		return p.holds(name)
	}
	p.err = fmt.Errorf("%q is no selection", p.words)
	p.words = nil
	return false
}

// hit is a rule that has fired.
type hit struct {
	at     time.Time
	fields *record // of the record that made it fire
}

// engine evaluates rules over records, which are in order of time.
type engine struct {
	rules   map[string]*rule
	records []record
	done    map[string][]hit
}

func (e *engine) hits(name string) []hit {
	if list, ok := e.done[name]; ok {
		return list
	}
	r := e.rules[name]
	var list []hit
	if r.Correlation == nil {
		for i := range e.records {
			if r.matches(&e.records[i]) {
				list = append(list, hit{e.records[i].at, &e.records[i]})
			}
		}
	} else {
		list = e.correlate(r.Correlation)
	}
	e.done[name] = list
	return list
}

// correlate fires at the record with which the condition holds, and then begins anew.
func (e *engine) correlate(c *correlation) (fired []hit) {
	type one struct {
		hit
		rule int
	}
	groups := map[string][]one{}
	var all []one
	for i, name := range c.Rules {
		for _, h := range e.hits(name) {
			all = append(all, one{h, i})
		}
	}
	slices.SortStableFunc(all, func(a, b one) int { return a.at.Compare(b.at) })
	span, _ := spanOf(c.Timespan)
	for _, h := range all {
		key := ""
		for _, f := range c.GroupBy {
			key += fmt.Sprint(h.fields.values(f)) + "\x00"
		}
		g := append(groups[key], h)
		for h.at.Sub(g[0].at) > span {
			g = g[1:]
		}
		n := 0
		switch c.Type {
		case "event_count":
			n = len(g)
		case "value_count":
			seen := map[string]bool{}
			for _, x := range g {
				for _, v := range x.fields.values(c.Condition["field"].(string)) {
					seen[fmt.Sprint(v)] = true
				}
			}
			n = len(seen)
		case "temporal_ordered":
			for _, x := range g {
				if x.rule == n {
					n++
				}
			}
		}
		if n >= c.Condition["gte"].(int) {
			fired, g = append(fired, h.hit), nil
		}
		groups[key] = g
	}
	return fired
}

// spanOf reads a number and one of s, m, h, d.
func spanOf(s string) (time.Duration, error) {
	unit := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}[s[len(s)-1]]
	n, err := strconv.Atoi(s[:len(s)-1])
	if err != nil || unit == 0 || n < 1 {
		return 0, fmt.Errorf("%q is no timespan", s)
	}
	return time.Duration(n) * unit, nil
}
